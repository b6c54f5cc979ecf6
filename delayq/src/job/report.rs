//! Errors as text that is safe to keep: bounded, and never the cause of a further failure.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::limits::{ERROR_BYTES_MAX, ERROR_CAUSES_MAX};

/// Text up to the limit; the rest is dropped while it is being written, not after.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = ERROR_BYTES_MAX - self.0.len();
        let mut end = text.len().min(room);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0.push_str(&text[..end]);
        // An error ends the writer's work early: a text of 5 MB is not written to its end for nothing.
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// A text cut to what is kept.
pub(crate) fn bounded(text: &str) -> String {
    let mut out = Bounded(String::new());
    let _ = out.write_str(text);
    out.0
}

/// An error and its causes. A `Display` that panics costs the text, nothing else.
pub(crate) fn describe(error: &(dyn StdError + 'static)) -> String {
    let mut out = Bounded(String::new());
    let written = catch_unwind(AssertUnwindSafe(|| {
        let mut shown = error.to_string();
        let _ = out.write_str(&shown);
        let mut next = error.source();
        for _ in 0..ERROR_CAUSES_MAX {
            let Some(cause) = next else { break };
            let text = cause.to_string();
            // Many errors already say their cause.
            if !shown.contains(&text) && write!(out, ": {text}").is_err() {
                break;
            }
            shown = text;
            next = cause.source();
        }
    }));
    if written.is_err() {
        out.0.clear();
        out.0.push_str("the error's own Display panicked");
    }
    out.0
}

/// What a panic said.
pub(crate) fn describe_panic(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        bounded(text)
    } else if let Some(text) = payload.downcast_ref::<String>() {
        bounded(text)
    } else {
        "a value that is not a text".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Panics;

    impl fmt::Display for Panics {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("in Display")
        }
    }

    impl StdError for Panics {}

    #[test]
    fn b35_errors_are_bounded_and_can_not_hurt() {
        let huge: Box<dyn StdError + Send + Sync> = "é".repeat(3_000_000).into();
        let text = describe(huge.as_ref());
        assert!(text.len() <= ERROR_BYTES_MAX && text.ends_with('é'));
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let text = describe(&Panics);
        std::panic::set_hook(hook);
        assert_eq!(text, "the error's own Display panicked");
    }
}
