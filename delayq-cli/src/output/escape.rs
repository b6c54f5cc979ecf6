//! Texts that come from the store, made harmless for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with control characters, terminal escapes and what reorders or hides text written out: `\u{1b}`.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_hostile(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Line ends; marks that change the direction of what follows; what has no width.
            '\u{2028}' | '\u{2029}'
            | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s16_what_could_steer_a_terminal_is_written_out() {
        for (hostile, shown) in [
            ("\x1b[31mred\x1b[0m", "\\u{1b}[31mred\\u{1b}[0m"),
            ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            ("two\r\nlines\0", "two\\r\\nlines\\u{0}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}txt.exe", "\\u{202e}txt.exe"),
            ("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}"),
            ("tag\u{e0041}", "tag\\u{e0041}"),
        ] {
            assert_eq!(escaped(hostile), shown);
        }
        for plain in ["", "plain", "Grüße, 日本語 🎉", "{\"a\":\"\\n\"}"] {
            assert!(matches!(escaped(plain), Cow::Borrowed(same) if same == plain));
        }
    }
}
