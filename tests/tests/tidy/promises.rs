//! What the documents promise: behind each paragraph stands what holds it, and what is named there exists.

use std::collections::BTreeSet;

use super::{files, none, read};

/// The documents that promise, each with the sections that don't.
const PROMISES: &[(&str, &[&str])] = &[
    ("docs/guarantees.md", &[""]),
    (
        "docs/operations.md",
        &["", "Where to look", "Redis came back empty", "After a power cut: a torn append-only file", "Orphans"],
    ),
    ("docs/security-checks.md", &["", "Not checked yet"]),
];

/// A paragraph, a point of a list or a row of a table.
#[derive(Debug)]
struct Block {
    line: usize,
    section: String,
    text: String,
}

/// The blocks of a document, without headings, code, and heads of tables.
fn blocks(text: &str) -> Vec<Block> {
    let (mut blocks, mut section, mut fenced): (Vec<Block>, String, bool) = (Vec::new(), String::new(), false);
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            fenced = !fenced;
            open = false;
            continue;
        }
        if fenced {
            continue;
        }
        if let Some(heading) = trimmed.strip_prefix("## ") {
            section = heading.to_owned();
        }
        let begins_point =
            trimmed.starts_with("- ") || trimmed.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        let is_row = trimmed.starts_with('|');
        if trimmed.is_empty() || trimmed.starts_with('#') || trimmed.starts_with("|---") {
            if trimmed.starts_with("|---") {
                // What stood above was the table's head.
                blocks.pop();
            }
            open = false;
        } else if open && !begins_point && !is_row {
            let block = blocks.last_mut().unwrap();
            block.text.push(' ');
            block.text.push_str(trimmed);
        } else {
            blocks.push(Block { line: number + 1, section: section.clone(), text: trimmed.to_owned() });
            open = !is_row;
        }
    }
    blocks
}

/// What stands in square brackets and is no link.
fn brackets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('[') {
        let Some(end) = rest[start..].find(']') else { break };
        let (inside, after) = (&rest[start + 1..start + end], &rest[start + end + 1..]);
        if !after.starts_with('(') && !inside.starts_with('^') {
            found.push(inside);
        }
        rest = after;
    }
    found
}

/// What a bracket names, if it names what holds a promise.
#[derive(Debug, PartialEq)]
enum Held<'a> {
    Faults(Vec<&'a str>),
    Tests(&'a str, Vec<&'a str>),
}

fn held(bracket: &str) -> Option<Held<'_>> {
    if let Some(faults) = bracket.strip_prefix("campaign ") {
        return Some(Held::Faults(faults.split(", ").collect()));
    }
    let (file, tests) = bracket.split_once(": ")?;
    Some(Held::Tests(file, tests.split(", ").collect()))
}

/// The file that `suite/module`, `delayq/module` or the path of a file of the command line names.
fn source(named: &str) -> Option<String> {
    let path = match named.split_once('/') {
        Some(("delayq", module)) => format!("delayq/src/{module}.rs"),
        Some(("delayq-cli", _)) => format!("{named}.rs"),
        _ => format!("tests/tests/{named}.rs"),
    };
    super::root().join(&path).is_file().then_some(path)
}

/// Whether the source has a test of this name: a function under a test attribute, or a case that runs on each engine.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let declared = lines.iter().position(|line| {
        let after = line.strip_prefix("async ").unwrap_or(line);
        after.strip_prefix("fn ").and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with('('))
    });
    let Some(at) = declared else { return false };
    let attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
    let is_test = attributes.into_iter().any(|line| line.starts_with("#[test") || line.starts_with("#[tokio::test"));
    let cases = source.split_once("store_cases!(").and_then(|(_, rest)| rest.split_once(");"));
    is_test || cases.is_some_and(|(cases, _)| cases.split(',').any(|case| case.trim() == name))
}

/// The numbers of the faults that the campaign can fire.
pub(crate) fn faults() -> BTreeSet<String> {
    let mut numbers = BTreeSet::new();
    for path in files("delayq-campaign/src/faults", &["rs"]) {
        for (_, rest) in read(&path).split("built!(").skip(1).map(|rest| ("", rest)) {
            numbers.insert(rest.split(' ').next().unwrap().to_owned());
        }
    }
    numbers
}

#[test]
fn what_is_promised_is_held_by_something_that_exists() {
    let built = faults();
    assert!(built.len() > 40, "the faults are found: {built:?}");
    let mut wrong = Vec::new();
    for (document, silent) in PROMISES {
        let mut held_blocks = 0;
        for block in blocks(&read(document)) {
            let place = format!("{document}:{}", block.line);
            let mut holds = 0;
            for bracket in brackets(&block.text) {
                match held(bracket) {
                    Some(Held::Faults(named)) => {
                        holds += 1;
                        let missing = named.iter().filter(|number| !built.contains(**number));
                        wrong.extend(
                            missing
                                .map(|number| format!("{place}: the campaign has no fault {number} that it can fire")),
                        );
                    }
                    Some(Held::Tests(file, tests)) => {
                        holds += 1;
                        match source(file) {
                            Some(path) => {
                                let source = read(&path);
                                let missing = tests.iter().filter(|name| !has_test(&source, name));
                                wrong.extend(missing.map(|name| format!("{place}: {path} has no test {name}")));
                            }
                            None => wrong.push(format!("{place}: there is no suite or module {file}")),
                        }
                    }
                    None => wrong.push(format!("{place}: [{bracket}] names nothing that could hold a promise")),
                }
            }
            held_blocks += usize::from(holds > 0);
            if holds == 0 && !silent.contains(&block.section.as_str()) {
                let begins: String = block.text.chars().take(60).collect();
                wrong.push(format!("{place}: nothing holds it: {begins}"));
            }
        }
        assert!(held_blocks > 10, "{document} promises something");
    }
    none(
        &wrong,
        "Name the test or the fault that holds the sentence, as [suite/module: test] or [campaign 19]; write the test, or promise less.",
    );
}

#[test]
fn promises_are_found_in_every_form() {
    let text = "intro\n\n## A\nOne\ngoes on [a/b: c, d].\n- two\n  and more\n- three [campaign 1, 2]\n\n| h | i |\n|---|---|\n| r | [x](y) |\n\n```\ncode\n```\n1. four\n## B\n### C\nlast";
    let found: Vec<(String, String)> = blocks(text).into_iter().map(|block| (block.section, block.text)).collect();
    let wanted = [
        ("", "intro"),
        ("A", "One goes on [a/b: c, d]."),
        ("A", "- two and more"),
        ("A", "- three [campaign 1, 2]"),
        ("A", "| r | [x](y) |"),
        ("A", "1. four"),
        ("B", "last"),
    ];
    assert_eq!(found, wanted.map(|(section, text)| (section.to_owned(), text.to_owned())));
    assert_eq!(brackets("a [b] [c](d) e [f: g]"), ["b", "f: g"]);
    assert_eq!(held("campaign 1, 2"), Some(Held::Faults(vec!["1", "2"])));
    assert_eq!(held("a/b: c, d"), Some(Held::Tests("a/b", vec!["c", "d"])));
    assert_eq!(held("nothing"), None);
    let source = "delayq_tests::store_cases!(\n    one,\n    two,\n);\nasync fn one(world: &World) {}\nasync fn help() {}\n#[test]\nfn three() {}\n#[tokio::test]\n#[ignore]\nasync fn four() {}\n";
    for (name, there) in
        [("one", true), ("two", false), ("help", false), ("three", true), ("four", true), ("thre", false)]
    {
        assert_eq!(has_test(source, name), there, "{name}");
    }
}
