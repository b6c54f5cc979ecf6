//! The security checks: a row each, with the tests that hold it; and those of them that look at sources and packages.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::{code, files, none, read, root};

/// Where each check has its row. That the tests named there exist is seen to among the promises.
const TABLE: &str = "docs/security-checks.md";
/// How many checks there are.
const CHECKS: u32 = 24;

/// The licences under which others' code may be in a program that is given away without any condition but naming them.
const LICENCES: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// What a test's name says of the checks that it is about: `s09_s10_answers_are_inert` is about 9 and 10.
fn numbers(name: &str) -> Vec<u32> {
    let digits = |part: &str| part.strip_prefix('s').filter(|digits| digits.len() == 2).and_then(|n| n.parse().ok());
    name.split('_').map_while(digits).collect()
}

/// The names of the functions of a source.
fn functions(source: &str) -> Vec<&str> {
    fn name(line: &str) -> Option<&str> {
        let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        rest.split(['(', '<']).next()
    }
    source.lines().map(str::trim).filter_map(name).collect()
}

/// A row of the table: the number of its check, and the rest.
fn row(line: &str) -> Option<(u32, &str)> {
    let (number, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
    Some((number.parse().ok()?, rest))
}

#[test]
fn each_security_check_has_its_row_and_each_of_its_tests_stands_there() {
    let table = read(TABLE);
    let rows: Vec<(u32, &str)> = table.lines().filter_map(row).collect();
    let mut wrong: Vec<String> =
        (1..=CHECKS).filter(|n| !rows.iter().any(|(number, _)| number == n)).map(|n| format!("no row {n}")).collect();
    let mut found = BTreeSet::new();
    for folder in ["delayq/src", "delayq-cli/src", "delayq-cli/tests", "tests/tests"] {
        for path in files(folder, &["rs"]) {
            for name in functions(&read(&path)) {
                for about in numbers(name) {
                    found.insert(about);
                    if !rows.iter().any(|(number, row)| *number == about && row.contains(name)) {
                        wrong.push(format!("{path}: {name} is not in a row {about}"));
                    }
                }
            }
        }
    }
    assert!(found.len() > 15, "{found:?}");
    none(
        &wrong,
        &format!("{TABLE} has a row for each check, and each test whose name begins with a check's number in it."),
    );
}

#[test]
fn the_number_of_a_check_is_the_begin_of_a_name() {
    assert_eq!(numbers("s09_s10_answers_are_inert"), [9, 10]);
    assert_eq!(numbers("s24_x"), [24]);
    for other in ["s1_x", "so_what", "stop", "b87_s09_x", "s123_x", ""] {
        assert_eq!(numbers(other), [0; 0], "{other}");
    }
    assert_eq!(functions("fn a() {}\n    async fn b<T>(t: T) {\n// fn c()"), ["a", "b"]);
}

/// What a function of a source does.
fn body<'a>(source: &'a str, name: &str) -> &'a str {
    let (_, rest) = source.split_once(&format!("fn {name}(")).unwrap_or_else(|| panic!("there is no fn {name}"));
    rest.split_once("\n    }\n").map_or(rest, |(body, _)| body)
}

#[test]
fn s05_tokens_are_compared_in_constant_time() {
    let auth = code(&read("delayq-cli/src/serve/auth.rs"), false);
    let find = body(&auth, "find");
    assert!(find.contains(".ct_eq(") && find.contains(".conditional_assign("), "{find}");
    // Whatever leaves early, or looks at a part, tells how much of a token is right.
    for early in ["==", "!=", ".eq(", "return", "break", "continue", ".find(", ".any(", ".position(", "starts_with"] {
        assert!(!find.contains(early), "{early} in {find}");
    }
    // Tokens go nowhere else.
    for path in files("delayq-cli/src/serve", &["rs"]).iter().filter(|path| !path.ends_with("/auth.rs")) {
        let other = code(&read(path), false);
        assert!(!other.contains("AUTHORIZATION"), "{path} reads tokens: ask auth.rs");
    }
}

#[test]
fn s24_no_package_of_the_workspace_may_have_unsafe_code() {
    let workspace = read("Cargo.toml");
    let (_, lints) = workspace.split_once("[workspace.lints.rust]").unwrap();
    assert!(lints.contains("\nunsafe_code = \"forbid\"\n"), "{lints}");
    let (_, members) = workspace.split_once("members = [").unwrap();
    let members: Vec<&str> = members.split_once(']').unwrap().0.split('"').skip(1).step_by(2).collect();
    assert!(members.len() > 5, "{members:?}");
    let forbids = |member: &&str| {
        let manifest = read(&format!("{member}/Cargo.toml"));
        manifest.contains("[lints]\nworkspace = true") || manifest.contains("[lints.rust]\nunsafe_code = \"forbid\"")
    };
    let wrong: Vec<String> =
        members.iter().filter(|member| !forbids(member)).map(|member| (*member).to_owned()).collect();
    none(&wrong, "Packages that may have unsafe code: give their Cargo.toml `[lints]` with `workspace = true`.");
}

/// Whether an SPDX expression leaves a choice of allowed licences alone.
fn is_allowed(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    // `a OR b AND c` binds `b AND c`; to want each side of an AND is the same or less generous.
    plain.split(" AND ").all(|part| part.split(" OR ").any(|licence| LICENCES.contains(&licence.trim())))
}

#[test]
fn s24_each_dependency_has_a_licence_that_is_allowed() {
    assert!(
        is_allowed("MIT/Apache-2.0")
            && is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0")
            && is_allowed("GPL-3.0 OR MIT")
    );
    assert!(!is_allowed("GPL-3.0") && !is_allowed("MIT AND GPL-3.0") && !is_allowed(""));
    let told = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV").output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let host = told.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut metadata = Command::new(cargo);
    metadata.args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host]);
    let output = metadata.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{}", packages.len());
    let licence = |package: &Value| package["license"].as_str().unwrap_or_default().to_owned();
    let wrong: Vec<String> = packages
        .iter()
        .filter(|package| !is_allowed(&licence(package)))
        .map(|package| format!("{} {}: {:?}", package["name"], package["version"], licence(package)))
        .collect();
    none(
        &wrong,
        "Use another package; or, if that licence asks for no more than naming the author, add it to LICENCES.",
    );
}
