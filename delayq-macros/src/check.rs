//! Checks what was parsed and turns it into the model, recording every mistake.

mod backoff;
mod fields;
mod older;

use std::time::Duration;

use proc_macro2::Ident;
use syn::{Data, DeriveInput, LitInt, LitStr, Path, parse_quote};

use crate::duration;
use crate::model::JobModel;
use crate::parse::Arguments;
use crate::problems::Problems;

/// The longest name of a job or a queue, in bytes: the library's own limit.
const NAME_MAX_BYTES: usize = 64;
/// The longest that one run may take.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The priority that runs last.
const PRIORITY_MAX: u8 = 9;

/// The model, as good as the arguments allow: where one is wrong it has the default, and `problems` the mistake.
pub(crate) fn job(arguments: Arguments, item: &DeriveInput, problems: &mut Problems) -> JobModel {
    shape(item, problems);
    missing(&arguments, &item.ident, problems);

    let name = arguments.name.as_ref().and_then(|name| identifier(name, "name", "cancel_order", problems));
    let queue = arguments.queue.as_ref().and_then(|queue| identifier(queue, "queue", "orders", problems));
    let version = arguments.version.as_ref().and_then(|version| self::version(version, problems));
    let older = arguments.older.as_ref().map(|older| older::check(older, version, problems));
    let (handler_is_external, serde_is_external) = (arguments.mentions("handler"), arguments.mentions("serde"));

    JobModel {
        name: name.unwrap_or_default(),
        version: version.unwrap_or(1),
        queue,
        max_retries: arguments.max_retries.as_ref().and_then(|limit| max_retries(limit, problems)),
        backoff: arguments.backoff.as_ref().and_then(|backoff| backoff::check(backoff, problems)),
        timeout: arguments.timeout.as_ref().and_then(|timeout| self::timeout(timeout, problems)),
        priority: arguments.priority.as_ref().and_then(|priority| self::priority(priority, problems)),
        unique: fields::check(&arguments.unique, item, problems),
        older: older.unwrap_or_default(),
        handler_is_external,
        serde_is_external,
        crate_path: crate_path(arguments.crate_path),
    }
}

/// The path of the delayq crate, which generated code starts with.
pub(crate) fn crate_path(given: Option<Path>) -> Path {
    given.unwrap_or_else(|| parse_quote!(::delayq))
}

/// A job is a struct without parameters: the registry has one entry a type, and its payload must own its data.
fn shape(item: &DeriveInput, problems: &mut Problems) {
    let wrap = |kind: &str| {
        format!(
            "a job is a struct: put this {kind} in a field of one, such as `struct Job {{ payload: {} }}`",
            item.ident
        )
    };
    match &item.data {
        Data::Struct(_) => {}
        Data::Enum(data) => problems.at(data.enum_token, wrap("enum")),
        Data::Union(data) => problems.at(data.union_token, wrap("union")),
    }
    let generics = &item.generics;
    if !generics.params.is_empty() {
        let instead = match (generics.lifetimes().next(), generics.params.len() - generics.lifetimes().count()) {
            (Some(_), 0) => "own the data: `String`, not `&'a str`",
            (None, _) => "write the types out",
            (Some(_), _) => "write the types out, and own the data: `String`, not `&'a str`",
        };
        let message = format!("a job type has no generics, since it is registered once under one name: {instead}");
        problems.at(&generics.params, message);
    }
}

fn missing(arguments: &Arguments, ident: &Ident, problems: &mut Problems) {
    let name = format!("name = \"{}\"", snake_case(ident));
    let message = match (arguments.mentions("name"), arguments.mentions("version")) {
        (true, true) => return,
        (false, true) => format!("`name` is missing: add `{name}`, the name that jobs are stored under"),
        (true, false) => "`version` is missing: add `version = 1`, the version of the payload".to_owned(),
        (false, false) => format!("`name` and `version` are missing: write `{name}, version = 1`"),
    };
    problems.at_attribute(message);
}

/// `CancelOrder` as `cancel_order`, for a suggestion.
fn snake_case(ident: &Ident) -> String {
    let mut snake = String::new();
    for letter in ident.to_string().trim_start_matches("r#").chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// A name or a queue: it becomes part of Redis keys and of metric labels.
fn identifier(literal: &LitStr, argument: &str, example: &str, problems: &mut Problems) -> Option<String> {
    let text = literal.value();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let wrong = if text.is_empty() {
        format!("`{argument}` is empty: write `{argument} = \"{example}\"`")
    } else if let Some(bad) = text.chars().find(|c| !is_allowed(*c)) {
        let better = text.replace(|c| !is_allowed(c), "_");
        let better = better.trim_matches(['_', '-', '.']);
        let better = if better.is_empty() || better.len() > NAME_MAX_BYTES { example } else { better };
        format!(
            "`{argument}` has only ASCII letters, digits, `_`, `-` and `.`, so no {bad:?}: write `{argument} = \"{better}\"`"
        )
    } else if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        let better = text.trim_start_matches(['_', '-', '.']);
        let better = if better.is_empty() { example } else { better };
        format!("`{argument}` starts with a letter or a digit: write `{argument} = \"{better}\"`")
    } else if text.len() > NAME_MAX_BYTES {
        format!("`{argument}` has at most {NAME_MAX_BYTES} bytes, this has {}: write a shorter one", text.len())
    } else {
        return Some(text);
    };
    problems.at(literal, wrong);
    None
}

fn version(literal: &LitInt, problems: &mut Problems) -> Option<u32> {
    match literal.base10_parse::<u32>() {
        Ok(0) => problems.at(literal, "versions start at 1: write `version = 1`"),
        Ok(version) => return Some(version),
        Err(_) => problems.at(literal, format!("`version` is 1 to {}: write `version = 1`", u32::MAX)),
    }
    None
}

fn max_retries(literal: &LitInt, problems: &mut Problems) -> Option<u32> {
    let value = literal.base10_parse().ok();
    if value.is_none() {
        let message = format!("`max_retries` is 0 (run once) to {} (without limit): write `max_retries = 3`", u32::MAX);
        problems.at(literal, message);
    }
    value
}

fn priority(literal: &LitInt, problems: &mut Problems) -> Option<u8> {
    let value = literal.base10_parse().ok().filter(|priority| *priority <= PRIORITY_MAX);
    if value.is_none() {
        problems.at(literal, format!("`priority` is 0 (first) to {PRIORITY_MAX} (last): write `priority = 5`"));
    }
    value
}

fn timeout(literal: &LitStr, problems: &mut Problems) -> Option<Duration> {
    let timeout = self::duration(literal, "timeout", problems)?;
    if timeout.is_zero() {
        problems
            .at(literal, "`timeout` is longer than zero: write `timeout = \"30s\"`, or leave it out for the default");
        return None;
    }
    if timeout > TIMEOUT_MAX {
        problems.at(
            literal,
            "`timeout` is at most 24 hours: write `timeout = \"24h\"`, or split the work into several jobs",
        );
        return None;
    }
    Some(timeout)
}

fn duration(literal: &LitStr, argument: &str, problems: &mut Problems) -> Option<Duration> {
    duration::parse(&literal.value())
        .map_err(|reason| problems.at(literal, format!("`{argument}`: {reason}; {}", duration::HOW_TO_WRITE)))
        .ok()
}
