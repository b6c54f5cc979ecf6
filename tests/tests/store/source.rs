//! The scripts' texts: every key that a script touches is one of its KEYS, as proxies and clusters demand.

use std::collections::BTreeSet;

use delayq::store::SCRIPTS;

/// Locals that stand for a key, each with all forms that may be assigned to it.
const ALIASES: &[(&str, &[&str])] = &[
    ("key", &["K.due[", "pairs(due_key)", "pairs(adds)", "ipairs(places)"]),
    // take: {key, how many} and {key, id}, both made of `key`.
    ("l[1]", &["leaving"]),
    ("d[1]", &["deferred"]),
];

/// The text of the first argument after the command's name.
fn key_argument(rest: &str) -> Option<String> {
    let comma = rest.find(',')?;
    let mut depth = 0;
    let mut argument = String::new();
    for c in rest[comma + 1..].chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => break,
            _ => {}
        }
        argument.push(c);
    }
    Some(argument.trim().to_owned())
}

fn is_declared(argument: &str, declarations: &str) -> bool {
    if let Some(field) = argument.strip_prefix("K.") {
        let name: String = field.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        return declarations.contains(&format!("{name} = KEYS["))
            || (name == "due" && declarations.contains("due = { KEYS["));
    }
    argument.starts_with("KEYS[") || ALIASES.iter().any(|(alias, _)| *alias == argument)
}

#[test]
fn every_key_of_a_call_comes_from_keys() {
    let mut seen = BTreeSet::new();
    let everything =
        SCRIPTS.iter().find(|file| file.uses.contains(&"shard")).expect("a script of all keys").script.source;
    for file in SCRIPTS {
        let source = file.script.source;
        // A piece of lib may have functions for more keys than this script has: what it calls of them shows when it runs.
        // Its own lines must get by with its own.
        let own_from = source.len() - file.own.len();
        for (at, _) in source.match_indices("call(") {
            // `redis.call` itself, and words that end the same.
            if source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.') {
                continue;
            }
            let rest = &source[at + 5..];
            if rest.starts_with("'TIME')") {
                continue;
            }
            let argument = key_argument(rest).expect("a command and a key");
            let declarations = if at < own_from { everything } else { source };
            assert!(
                is_declared(&argument, declarations),
                "{}: call({} …",
                file.script.name,
                rest.chars().take(60).collect::<String>()
            );
            seen.insert(argument);
        }
    }
    assert!(seen.contains("K.jobs") && seen.contains("key") && seen.len() > 12, "the texts were searched: {seen:?}");
}

#[test]
fn a_local_that_stands_for_a_key_is_made_of_keys_only() {
    for file in SCRIPTS {
        for line in file.script.source.lines().map(str::trim) {
            let names_key = line.starts_with("local key =") || (line.starts_with("for ") && line.contains("key in"));
            // In lib/ends and dead_redrive a unique key, which is a field, has the same name; no call takes it as a key.
            if names_key && !line.contains("unique_of(r)") {
                assert!(ALIASES[0].1.iter().any(|form| line.contains(form)), "{}: {line}", file.script.name);
            }
        }
    }
}

#[test]
fn scripts_use_what_every_compatible_server_has() {
    for file in SCRIPTS {
        let code: String = file
            .script
            .source
            .lines()
            .map(|line| line.split("--").next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n");
        for foreign in
            ["cjson", "cmsgpack", "struct.", "bit.", "redis.pcall", "redis.sha1hex", "'KEYS'", "'SCAN'", "math.random"]
        {
            assert!(!code.contains(foreign), "{} uses {foreign}", file.script.name);
        }
        let calls = code.matches("redis.call").count();
        assert_eq!(calls, 1, "{}: one name for redis.call, so that the search above finds all calls", file.script.name);
    }
}

#[test]
fn headers_stand_in_one_order() {
    for file in SCRIPTS {
        let mut at = 0;
        for part in [
            "-- PURPOSE  ",
            "-- STATES   ",
            "-- USES     ",
            "-- KEYS     ",
            "-- ARGV     ",
            "-- RETURNS  ",
            "-- COST     ",
        ] {
            let found = file.own.find(part).unwrap_or_else(|| panic!("{} has no {part:?}", file.script.name));
            assert!(found >= at, "{}: {part:?} stands too early", file.script.name);
            at = found;
        }
        let uses = file.own.lines().find_map(|line| line.strip_prefix("-- USES     ")).unwrap_or_default();
        assert_eq!(uses.split(' ').collect::<Vec<_>>(), file.uses, "{}", file.script.name);
    }
}
