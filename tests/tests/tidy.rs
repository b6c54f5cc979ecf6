//! The house rules, read from the sources: who imports whom, the headers of the scripts, what is said in two places.

#![allow(clippy::unwrap_used)] // In a case, an unwrap is an assertion.
#![allow(missing_docs)]

#[path = "tidy/campaign.rs"]
mod campaign;
#[path = "tidy/promises.rs"]
mod promises;
#[path = "tidy/security.rs"]
mod security;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use delayq::store::SCRIPTS;

/// The longest source file, in lines.
const LINES_MAX: usize = 600;

/// Who may import whom: a room and the rooms that it sees.
const ROOMS: &[(&str, &[&str])] = &[
    ("limits", &[]),
    ("error", &["limits"]),
    ("clock", &["limits", "error"]),
    ("trace", &["error"]),
    ("job", &["limits", "clock", "error"]),
    ("envelope", &["limits", "clock", "error", "job"]),
    ("engine", &["limits", "clock", "error"]),
    ("store", &["limits", "clock", "error", "job", "envelope", "engine"]),
    ("registry", &["limits", "clock", "error", "job"]),
    ("client", &["limits", "clock", "error", "job", "envelope", "store", "trace"]),
    ("layer", &["limits", "clock", "error", "job", "registry", "trace"]),
    ("worker", &["limits", "clock", "error", "job", "envelope", "store", "client", "registry", "layer"]),
    ("testing", &["limits", "clock", "error", "job", "envelope", "store", "client", "registry", "layer", "worker"]),
];

/// The one file beside the store that sees the engine: it builds one.
const BUILDS_THE_ENGINE: &str = "delayq/src/client/connect.rs";

const HEADER: [&str; 7] = ["PURPOSE", "STATES", "USES", "KEYS", "ARGV", "RETURNS", "COST"];

/// The first folder is the one that `cargo test` names, so that a copy of the sources can be looked at too.
fn root() -> PathBuf {
    let tests = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&tests).parent().unwrap().to_path_buf()
}

#[track_caller]
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Files below a folder with one of these extensions, as paths from the root, in order.
fn files(folder: &str, extensions: &[&str]) -> Vec<String> {
    let (root, mut found, mut folders) = (root(), Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if kind.is_file() && extensions.iter().any(|e| path.extension().is_some_and(|is| is == *e)) {
                found.push(path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no {extensions:?} files below {folder}: did the folder move?");
    found
}

/// The library's modules with their text.
fn modules() -> Vec<(String, String)> {
    files("delayq/src", &["rs"]).into_iter().map(|path| (path.clone(), read(&path))).collect()
}

#[track_caller]
fn none(wrong: &[String], what_to_do: &str) {
    assert!(wrong.is_empty(), "\n  {}\n{what_to_do}\n", wrong.join("\n  "));
}

/// Rust code with its comments blanked, and the texts in quotes too unless they are wanted. Lines stay where they are.
fn code(source: &str, texts: bool) -> String {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut out, mut i) = (String::with_capacity(source.len()), 0);
    let copy = |out: &mut String, from: usize, to: usize, shown: bool| {
        out.extend(chars[from..to.min(chars.len())].iter().map(|c| if shown || *c == '\n' { *c } else { ' ' }));
    };
    while i < chars.len() {
        let start = i;
        let word_before = i > 0 && (at(i - 1).is_alphanumeric() || at(i - 1) == '_');
        let hashes = (1..).take_while(|n| at(i + n) == '#').count();
        if at(i) == '/' && at(i + 1) == '/' {
            while i < chars.len() && at(i) != '\n' {
                i += 1;
            }
            copy(&mut out, start, i, false);
        } else if at(i) == '/' && at(i + 1) == '*' {
            i += 2;
            while i < chars.len() && !(at(i - 1) == '*' && at(i) == '/') {
                i += 1;
            }
            i += 1;
            copy(&mut out, start, i, false);
        } else if at(i) == 'r' && at(i + 1 + hashes) == '"' && (!word_before || at(i - 1) == 'b') {
            i += 2 + hashes;
            while i < chars.len() && !(at(i) == '"' && (1..=hashes).all(|n| at(i + n) == '#')) {
                i += 1;
            }
            i += 1 + hashes;
            copy(&mut out, start, i, texts);
        } else if at(i) == '"' {
            i += 1;
            while i < chars.len() && at(i) != '"' {
                i += if at(i) == '\\' { 2 } else { 1 };
            }
            i += 1;
            copy(&mut out, start, i, texts);
        } else if at(i) == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'') {
            i += if at(i + 1) == '\\' { 3 } else { 2 };
            while i < chars.len() && at(i) != '\'' {
                i += 1;
            }
            i += 1;
            copy(&mut out, start, i, texts);
        } else {
            i += 1;
            copy(&mut out, start, i, true);
        }
    }
    out
}

/// Lua code without its comments: no script has a text with two dashes in it.
fn lua_code(source: &str) -> String {
    source.lines().map(|line| line.split("--").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn name_at(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The first names of a path or of a group: `a::b` gives a, `{a::b, c}` gives a and c.
fn first_names(text: &str) -> Vec<&str> {
    let Some(group) = text.strip_prefix('{') else { return vec![name_at(text)] };
    let (mut names, mut depth, mut start) = (Vec::new(), 0, true);
    for (i, c) in group.char_indices() {
        if start && !c.is_whitespace() && depth == 0 && c != '}' {
            names.push(name_at(&group[i..]));
            start = false;
        }
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            _ => {}
        }
    }
    names
}

/// What a module names at the root of the crate, each with its line.
fn imports<'a>(path: &str, code: &'a str) -> Vec<(usize, &'a str)> {
    let inside = path.strip_prefix("delayq/src/").unwrap().trim_end_matches(".rs").trim_end_matches("/mod");
    let depth = inside.split('/').count();
    let (mut found, mut offset, mut in_block) = (Vec::new(), 0, false);
    for (number, line) in code.lines().enumerate() {
        // A module written inside the file is one further from the root; rustfmt closes it in the first column.
        in_block = (in_block || (name_at(line) == "mod" && line.ends_with('{'))) && line != "}";
        let deep = depth + usize::from(in_block);
        let mut at = 0;
        while let Some(hit) = ["crate::", "super::"].iter().filter_map(|word| line[at..].find(word)).min() {
            let start = at + hit;
            let supers = line[start..].split("::").take_while(|part| *part == "super").count();
            let skip = if supers == 0 { "crate::".len() } else { supers * "super::".len() };
            at = start + skip;
            if supers == 0 || supers == deep {
                found.extend(first_names(&code[offset + at..]).into_iter().map(|name| (number + 1, name)));
            }
        }
        offset += line.len() + 1;
    }
    found
}

fn wrong_imports(path: &str, source: &str) -> Vec<String> {
    let room = path.strip_prefix("delayq/src/").unwrap().split(['/', '.']).next().unwrap();
    if room == "lib" {
        return Vec::new();
    }
    let Some((_, sees)) = ROOMS.iter().find(|(name, _)| *name == room) else {
        return vec![format!("{path}: the room `{room}` has no row in ROOMS of tests/tests/tidy.rs")];
    };
    imports(path, &code(source, false))
        .into_iter()
        .filter(|(_, name)| *name != room && !sees.contains(name))
        .filter(|(_, name)| !(*name == "engine" && path == BUILDS_THE_ENGINE))
        .map(|(line, name)| format!("{path}:{line}: `{room}` imports `{name}`; it sees {}", sees.join(", ")))
        .collect()
}

#[test]
fn imports_run_one_way() {
    let wrong: Vec<String> = modules().iter().flat_map(|(path, source)| wrong_imports(path, source)).collect();
    none(
        &wrong,
        "Import from the room that defines it, not through a re-export at the crate's root. Where the room itself is out of\n\
         sight, move the code to a room that sees both; CONTRIBUTING.md has the directions, ROOMS in this test holds them.",
    );
}

#[test]
fn imports_are_found_in_every_spelling() {
    for (line, names) in [
        ("use crate::store::Store;", &["store"][..]),
        ("use crate::{client::{Client, When}, engine, error::Error};", &["client", "engine", "error"]),
        ("use crate::{\n    client::Client,\n    engine::{\n        Engine,\n    },\n};", &["client", "engine"]),
        ("let a = crate::client::X + crate::store::Y;", &["client", "store"]),
        ("use super::super::client::Client;", &["client"]),
        ("mod tests {\n    use super::super::super::client::X;\n}\nuse super::super::store::Y;", &["client", "store"]),
        ("use super::retry::Attempts;", &[]),
        ("mod tests {\n    use super::*;\n}", &[]),
        ("// use crate::store::Store;\nlet a = \"crate::client\"; /* crate::engine */", &[]),
        ("let (a, b) = ('\"', 'a'); use crate::store::Y; let c: &'a str = \"\\\"crate::engine\";", &["store"]),
        ("let a = r#\"a\" crate::store\"#; crate::job::X", &["job"]),
    ] {
        let code = code(line, false);
        let found: Vec<&str> = imports("delayq/src/layer/retry.rs", &code).into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, names, "{line}");
    }
    assert_eq!(wrong_imports("delayq/src/clock.rs", "use crate::job::JobId;").len(), 1);
    assert_eq!(wrong_imports("delayq/src/client/dead.rs", "use crate::engine::Script;").len(), 1);
    assert_eq!(wrong_imports(BUILDS_THE_ENGINE, "use crate::engine::redis::Target;").len(), 0);
    assert_eq!(wrong_imports("delayq/src/worker/pump.rs", "use crate::Client;").len(), 1);
}

#[test]
fn module_files_begin_with_their_duty() {
    let wrong: Vec<String> =
        modules().into_iter().filter(|(_, source)| !source.starts_with("//! ")).map(|(path, _)| path).collect();
    none(&wrong, "Begin the file with a `//!` line that names its one duty.");
}

#[test]
fn every_suite_is_run_by_the_test_command() {
    let command = read("test");
    let suites =
        ["tests", "delayq-campaign", "delayq-cli", "delayq-macros", "delayq-model", "delayq", "examples", "bench"];
    let mut names = Vec::new();
    for package in suites {
        let Ok(folder) = fs::read_dir(root().join(package).join("tests")) else { continue };
        for path in folder.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "rs"))
        {
            names.push(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
    }
    assert!(names.len() >= 14, "{names:?}");
    let wrong: Vec<String> =
        names.into_iter().filter(|name| !command.split_whitespace().any(|word| word == name)).collect();
    none(&wrong, "Suites that `./test` doesn't name: add `--test NAME` to it.");
}

#[test]
fn no_source_file_is_too_long() {
    let wrong: Vec<String> = files("", &["rs", "lua"])
        .into_iter()
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    none(&wrong, &format!("Split it by duty: a file has at most {LINES_MAX} lines."));
}

#[test]
fn keys_are_spelled_in_one_place() {
    let spelled =
        ["delayq:{", "}:jobs", ":due:", "due:{", ":held:", "held:{", ":wake", ":stats", ":sessions", ":tombs"];
    let mut wrong = Vec::new();
    for (path, source) in modules().iter().filter(|(path, _)| path != "delayq/src/store/keys.rs") {
        for (number, line) in code(source, true).lines().enumerate() {
            // In a Rust path the colons come in pairs.
            let line = line.replace("::", " ");
            if let Some(text) = spelled.iter().find(|text| line.contains(**text)) {
                wrong.push(format!("{path}:{}: {text}", number + 1));
            }
        }
    }
    none(&wrong, "Ask `Shard` for the key: delayq/src/store/keys.rs is the only module that spells one.");
}

#[test]
fn redis_commands_are_sent_by_the_redis_engine_alone() {
    let wrong: Vec<String> = modules()
        .iter()
        .filter(|(path, _)| !path.starts_with("delayq/src/engine/redis/"))
        .filter(|(_, source)| code(source, false).contains("redis::cmd"))
        .map(|(path, _)| path.clone())
        .collect();
    none(&wrong, "Make it a script in delayq/lua, or move it to delayq/src/engine/redis.");
}

#[test]
fn the_command_line_uses_the_public_api_alone() {
    // Others of the workspace switch `internals` on, so the compiler wouldn't notice.
    let hidden = ["delayq::store", "delayq::engine", "delayq::envelope", "delayq::__private"];
    let mut wrong = Vec::new();
    if read("delayq-cli/Cargo.toml").contains("internals") {
        wrong.push("delayq-cli/Cargo.toml: the feature `internals`".to_owned());
    }
    for path in files("delayq-cli/src", &["rs"]) {
        let code = code(&read(&path), false);
        wrong.extend(hidden.iter().filter(|name| code.contains(**name)).map(|name| format!("{path}: {name}")));
    }
    none(&wrong, "What an operator's tool needs others need too: give it a public method in delayq/src/client.");
}

/// The scripts and pieces of the folder, by name.
fn lua_names(folder: &str) -> BTreeSet<String> {
    fs::read_dir(root().join(folder))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().unwrap().strip_suffix(".lua").map(str::to_owned))
        .collect()
}

#[test]
fn an_operation_stands_in_each_of_its_places() {
    let table: BTreeSet<String> = SCRIPTS.iter().map(|file| file.script.name.to_owned()).collect();
    assert_eq!(
        lua_names("delayq/lua"),
        table,
        "left: the scripts of delayq/lua; right: the table in delayq/src/store/script.rs. Add what is missing to the other."
    );
    let rows = read("delayq/lua/README.md");
    let mut wrong = Vec::new();
    for name in &table {
        if !root().join(format!("delayq/src/store/ops/{name}.rs")).is_file() {
            wrong.push(format!("{name}: no delayq/src/store/ops/{name}.rs"));
        }
        if !rows.lines().any(|line| line.starts_with(&format!("| `{name}` |"))) {
            wrong.push(format!("{name}: no row in delayq/lua/README.md"));
        }
    }
    for name in lua_names("delayq/lua/lib") {
        if !SCRIPTS.iter().any(|file| file.uses.contains(&name.as_str())) {
            wrong.push(format!("lib/{name}: no script uses it"));
        }
        if !rows.lines().any(|line| line.starts_with(&format!("| `lib/{name}` |"))) {
            wrong.push(format!("lib/{name}: no row in delayq/lua/README.md"));
        }
        if !read(&format!("delayq/lua/lib/{name}.lua")).starts_with(&format!("-- lib/{name}: ")) {
            wrong.push(format!("lib/{name}: its first line is not `-- lib/{name}: ` and what it is for"));
        }
    }
    none(&wrong, "An operation has one name in four places: see \"A new operation\" in CONTRIBUTING.md.");
}

#[test]
fn script_headers_are_whole_and_in_order() {
    let mut wrong = Vec::new();
    for file in SCRIPTS {
        let path = format!("delayq/lua/{}.lua", file.script.name);
        let source = read(&path);
        let header: Vec<&str> = source.lines().map_while(|line| line.strip_prefix("-- ")).collect();
        // Labels stand in the first column of the comment; what goes on below one is indented.
        let labels: Vec<&str> = header.iter().filter(|line| !line.starts_with(' ')).map(|line| name_at(line)).collect();
        if labels != HEADER {
            wrong.push(format!("{path}: the header is {labels:?}, not {HEADER:?}"));
        }
        let uses: Vec<&str> =
            header.iter().filter_map(|line| line.strip_prefix("USES ")).flat_map(str::split_whitespace).collect();
        if uses != file.uses {
            wrong.push(format!("{path}: USES says {uses:?}, the table in store/script.rs {:?}", file.uses));
        }
        if let Some(empty) = header.iter().find(|line| HEADER.contains(&line.trim())) {
            wrong.push(format!("{path}: nothing after {empty}"));
        }
    }
    none(
        &wrong,
        "A script begins with a comment of seven labels in this order; delayq/lua/README.md says what each means.",
    );
}

#[test]
fn scripts_keep_to_plain_lua() {
    let forbidden = [
        ("cjson", "a payload is never decoded"),
        ("cmsgpack", "a payload is never decoded"),
        ("struct.", "read bytes with be2_at and be6_at"),
        ("bit.", "not every Redis-compatible server has it"),
        ("redis.pcall", "errors are found by checks before the first write"),
        ("tostring(", "it keeps 14 digits: use num"),
        ("'KEYS'", "it looks at every key of the server: name the key in KEYS"),
        ("SCAN'", "its work has no bound: use a range with a LIMIT; audit alone goes through all records, by pages"),
        ("redis.call", "lib/base names it `call`"),
        ("'TIME'", "lib/base reads the clock once, as `now` and `now_us`"),
        ("os.", "the sandbox has none"),
        ("math.random", "a script that runs twice must do the same twice"),
    ];
    let mut wrong = Vec::new();
    for path in files("delayq/lua", &["lua"]) {
        for (number, line) in lua_code(&read(&path)).lines().enumerate() {
            for (text, instead) in forbidden {
                let is_base = path.ends_with("lib/base.lua") && matches!(text, "redis.call" | "'TIME'");
                let is_audit = path.ends_with("lua/audit.lua") && text == "SCAN'";
                let part_of_a_name = |at: usize| text.ends_with('.') && line[..at].ends_with(char::is_alphanumeric);
                if line.find(text).is_some_and(|at| !part_of_a_name(at)) && !is_base && !is_audit {
                    wrong.push(format!("{path}:{}: {text} ({instead})", number + 1));
                }
            }
        }
    }
    none(&wrong, "Scripts use Lua 5.1 as every Redis-compatible server has it, `call`, and what lib/base gives.");
}

/// Every command that the scripts call.
fn commands() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in files("delayq/lua", &["lua"]) {
        let code = lua_code(&read(&path));
        // Every quoted word in the first argument: it may be chosen by a condition.
        for (at, _) in code.match_indices("call(") {
            let argument = code[at..].split([',', ')']).next().unwrap();
            found.extend(argument.split('\'').skip(1).step_by(2).map(str::to_lowercase));
        }
    }
    found
}

#[test]
fn the_documented_acl_allows_each_command() {
    let documented = read("SECURITY.md");
    let allowed: BTreeSet<&str> = documented.split_whitespace().filter_map(|word| word.strip_prefix('+')).collect();
    let commands = commands();
    assert!(commands.contains("zadd") && commands.contains("zrevrank") && commands.len() > 20, "{commands:?}");
    let wrong: Vec<String> = commands.into_iter().filter(|command| !allowed.contains(command.as_str())).collect();
    none(
        &wrong,
        "The scripts call these, and the ACL in SECURITY.md lacks them: add `+command` there, or use another command.",
    );
}

#[test]
fn the_embedded_keyspace_has_each_command_and_no_other() {
    let there: BTreeSet<String> = delayq::engine::embedded::command_names().map(str::to_lowercase).collect();
    let said = commands();
    let missing: Vec<String> = said.difference(&there).cloned().collect();
    none(
        &missing,
        "The scripts call these: add them to engine/embedded/commands.rs, where they must answer as in Redis.",
    );
    let idle: Vec<String> = there.difference(&said).cloned().collect();
    none(&idle, "No script calls these any more: take them out of engine/embedded/commands.rs.");
}

/// The fenced blocks of a document: the words after each opening fence.
fn fences(text: &str) -> Vec<String> {
    let fence = |line: &str| line.trim_start().strip_prefix("```").map(|words| words.trim().to_owned());
    text.lines().filter_map(fence).step_by(2).collect()
}

#[test]
fn documented_rust_is_compiled() {
    let lib = code(&read("delayq/src/lib.rs"), true);
    let mut wrong = Vec::new();
    for document in ["README.md", "docs/guarantees.md", "docs/payload-migration.md"] {
        if !lib.contains(&format!("include_str!(\"../../{document}\")")) {
            wrong.push(format!("{document}: delayq/src/lib.rs does not give it to rustdoc by include_str!"));
        }
        for words in fences(&read(document)) {
            if words.contains("ignore") {
                wrong.push(format!("{document}: a block of ```{words}"));
            }
        }
    }
    none(&wrong, "Rust in a document is a doctest: hide lines with `# `, and use `no_run` for what needs a server.");
}

/// The number after `name` and an equals sign, in Lua or Rust.
fn constant(path: &str, name: &str) -> u64 {
    let source = read(path);
    let line = source.lines().find(|line| {
        let declared =
            line.trim_start().trim_start_matches("pub").trim_start_matches("(super)").trim_start_matches("(crate)");
        let rest = declared.trim_start().strip_prefix("const ").or_else(|| declared.strip_prefix("local "));
        rest.is_some_and(|rest| name_at(rest) == name)
    });
    let line = line.unwrap_or_else(|| panic!("{path} has no constant {name}: this test must learn where it went"));
    let value = line.split_once('=').unwrap().1;
    let digits: String =
        value.chars().skip_while(|c| !c.is_ascii_digit()).take_while(|c| *c == '_' || c.is_ascii_digit()).collect();
    let number: u64 = digits.replace('_', "").parse().unwrap_or_else(|_| panic!("{path}: no number in {line}"));
    if value.contains("from_secs(") { number * 1000 } else { number }
}

#[test]
fn what_lua_and_rust_both_say_is_the_same() {
    let limits = "delayq/src/limits.rs";
    let solo = files("delayq/src/worker", &["rs"]).into_iter().find(|path| read(path).contains("const SOLO_AT"));
    let solo = solo.expect("a module of delayq/src/worker has the constant SOLO_AT");
    let mut wrong = Vec::new();
    for ((lua, lua_name), (rust, rust_name)) in [
        (("lib/record", "SOLO_AT"), (solo.as_str(), "SOLO_AT")),
        (("lib/record", "DUE_MAX"), (limits, "DUE_MAX_MS")),
        (("lib/record", "HEAD"), ("delayq/src/envelope.rs", "HEAD")),
        (("lib/ends", "TOMB_MS"), (limits, "TOMBSTONE")),
    ] {
        let lua = format!("delayq/lua/{lua}.lua");
        let (in_lua, in_rust) = (constant(&lua, lua_name), constant(rust, rust_name));
        if in_lua != in_rust {
            wrong.push(format!("{lua_name} is {in_lua} in {lua}; {rust_name} is {in_rust} in {rust}"));
        }
    }
    // What the scripts refuse as too much, against what Rust sends at most.
    for (script, text, name) in [
        ("claim", "count <= 1000", "CLAIM_MAX"),
        ("claim", "#ARGV - 6 > 1000", "SETTLE_MAX"),
        ("settle", "#ARGV - 2 > 1000", "SETTLE_MAX"),
        ("rescue", "chunk <= 500", "RESCUE_CHUNK"),
        ("repair", "count <= 100", "AUDIT_STEP"),
        ("dead_redrive", "#ARGV > 500", "REDRIVE_CHUNK"),
        ("dead_delete", "#ARGV > 500", "REDRIVE_CHUNK"),
        ("enqueue", "#o.unique > 200", "UNIQUE_KEY_BYTES_MAX"),
    ] {
        let limit = constant(limits, name);
        let says = read(&format!("delayq/lua/{script}.lua")).contains(text);
        if !says || !text.ends_with(&format!(" {limit}")) {
            wrong.push(format!("{script}.lua: `{text}` against {name} = {limit} in {limits}"));
        }
    }
    none(&wrong, "One fact, two languages: change both, and this test where the spelling changed.");
}

#[test]
fn the_end_codes_of_tombstones_are_the_same() {
    let lua = read("delayq/lua/lib/ends.lua");
    let declared = lua.lines().find(|line| line.starts_with("local DONE, ")).expect("lib/ends names the ends");
    let (names, codes) = declared.trim_start_matches("local ").split_once(" = ").unwrap();
    let inspect = read("delayq/src/store/ops/inspect.rs");
    for (name, code) in names.split(", ").zip(codes.split(", ")) {
        let (first, rest) = name.split_at(1);
        let arm = format!("{code} => End::{first}{},", rest.to_lowercase());
        assert!(inspect.contains(&arm), "lib/ends.lua has {name} = {code}, but store/ops/inspect.rs has no `{arm}`");
        assert!(code.parse::<u8>().unwrap() < 8, "{name} = {code}: the score keeps three bits for it");
    }
}

#[test]
fn record_offsets_are_the_same() {
    // In Lua offsets begin with 1 and name the last byte, in Rust they begin with 0 and stop before it.
    let (lua, rust) = (read("delayq/lua/lib/record.lua"), read("delayq/src/envelope.rs"));
    for (field, in_lua, in_rust) in [
        ("priority", "byte(r, 2) - 48", "priority: head[1] - b'0'"),
        ("cancel waits", "byte(r, 3) == 1", "cancel_waits: head[2] == 1"),
        ("crashes", "--   4      crashes", "crashes: head[3]"),
        ("free returns", "--   5-6    free returns", "free_returns: be16(&head[4..6])"),
        ("attempts", "be2_at(r, 7) + 1", "attempts: be16(&head[6..8])"),
        ("attempts allowed", "9-10   attempts allowed", "be16(&head[8..10])"),
        ("run", "be6_at(r, 11) + 1", "run: be(&head[10..16])"),
        ("due", "17-22  due, ms", "due_ms: be(&head[16..22])"),
        ("enqueued", "23-28  enqueued at, ms", "enqueued_ms: be(&head[22..28])"),
        ("extension", "byte(r, HEAD)", "usize::from(head[28])"),
    ] {
        assert!(
            lua.contains(in_lua),
            "{field}: lua/lib/record.lua has no `{in_lua}`: the record's layout is in three places, see docs/wire-format.md"
        );
        assert!(
            rust.contains(in_rust),
            "{field}: src/envelope.rs has no `{in_rust}`: the record's layout is in three places, see docs/wire-format.md"
        );
    }
}
