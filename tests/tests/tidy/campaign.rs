//! The page of the fault campaign: each fault has its row, and each fault from the field the test that it names.

use std::collections::BTreeSet;

use super::promises::faults;
use super::{files, none, read};

const PAGE: &str = "docs/campaign.md";

/// The lines of a section, without the heading.
fn section<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = page.lines().skip_while(|line| line.strip_prefix("## ") != Some(heading)).skip(1);
    lines.take_while(|line| !line.starts_with("## ")).collect()
}

/// The numbers in the first column of a table.
fn first_column(lines: &[&str]) -> BTreeSet<String> {
    let cells = lines.iter().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.filter(|cell| cell.parse::<u8>().is_ok()).map(str::to_owned).collect()
}

/// The numbers of field faults that a test's name begins with, if the line declares a function.
fn numbers(line: &str) -> impl Iterator<Item = u8> {
    let line = line.trim_start().trim_start_matches("pub ").trim_start_matches("async ");
    let name = line.strip_prefix("fn ").unwrap_or_default();
    let number = |part: &str| part.strip_prefix('b').and_then(|digits| digits.parse().ok());
    let leading = name.split('_').take_while(move |part| part.len() == 1 || number(part).is_some());
    leading.filter_map(number).collect::<Vec<_>>().into_iter()
}

#[test]
fn the_page_of_the_campaign_has_each_fault_once() {
    let (page, built) = (read(PAGE), faults());
    let rows: Vec<&str> = section(&page, "The result")
        .into_iter()
        .filter_map(|line| line.split_whitespace().next().filter(|_| line.contains(" ms")))
        .filter(|word| word.parse::<u8>().is_ok())
        .collect();
    let ran: BTreeSet<String> = rows.iter().map(|word| (*word).to_owned()).collect();
    assert_eq!((&ran, rows.len()), (&built, built.len()), "{PAGE}: its result has not each fault that can be fired");
    let open = first_column(&section(&page, "What it can't fire yet"));
    assert!(open.is_disjoint(&ran), "{PAGE}: {open:?} are open and have a result");
    assert_eq!(ran.len() + open.len(), 60, "{PAGE}: sixty faults have a row");
}

#[test]
fn each_fault_from_the_field_has_its_test_or_says_why_not() {
    let mut tested = BTreeSet::new();
    for folder in ["tests/tests", "delayq/src", "delayq-cli/src", "delayq-cli/tests", "delayq-macros"] {
        for path in files(folder, &["rs"]) {
            tested.extend(read(&path).lines().flat_map(numbers));
        }
    }
    let (page, mut rows, mut wrong) = (read(PAGE), 0, Vec::new());
    for line in section(&page, "Faults from the field") {
        let Some((number, rest)) = line.strip_prefix("| B").and_then(|row| row.split_once(" | ")) else { continue };
        let number: u8 = number.parse().unwrap_or_else(|_| panic!("{PAGE}: {line}"));
        rows += 1;
        match (tested.contains(&number), rest.contains("| open: ")) {
            (true, true) => wrong.push(format!("B{number:02} has a test: it is no longer open")),
            (false, false) => wrong.push(format!("B{number:02} has no test b{number:02}_..")),
            _ => {}
        }
    }
    assert_eq!(rows, 71, "{PAGE}: the faults from the field");
    none(&wrong, &format!("{PAGE} lists which of them have a test, and why the others have none."));
}

#[test]
fn numbers_are_read_from_names_of_tests() {
    let read = |line| numbers(line).collect::<Vec<_>>();
    assert_eq!(read("async fn b45_b46_b49_payload_bytes() {"), [45, 46, 49]);
    assert_eq!(read("    fn b15_u_what_is_no_job() {"), [15]);
    assert_eq!(read("fn u_b15_x() {"), [15]);
    assert!(read("fn the_b15_case() {").is_empty() && read("b15_not_declared();").is_empty());
}
