//! Bearer tokens: where they come from, and whose one is.

use std::env::{self, VarError};
use std::fmt;
use std::fs;
use std::path::Path;

use axum::http::{HeaderMap, header};
use ring::digest::{SHA256, digest};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::roles::Role;
use crate::failure::{Failure, Outcome};

/// The shortest token, in characters: 32 of hexadecimal digits are 128 bits.
const CHARS_MIN: usize = 32;
/// How many different characters it has at the least: one key held down is no secret.
const DIFFERENT_MIN: usize = 8;
/// How many tokens there may be.
const TOKENS_MAX: usize = 1000;

/// The hashes of the tokens; the tokens themselves are not kept.
#[derive(Default)]
pub(super) struct Tokens(Vec<Known>);

struct Known {
    role: Role,
    hash: [u8; 32],
}

impl fmt::Debug for Tokens {
    // Not even their hashes have a place in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("count", &self.0.len()).finish_non_exhaustive()
    }
}

impl Tokens {
    /// The tokens of the files and of the environment.
    pub(super) fn gather(readers: Option<&Path>, operators: Option<&Path>) -> Outcome<Tokens> {
        let mut tokens = Tokens::default();
        for (role, file, variable) in
            [(Role::Reader, readers, "DELAYQ_READER_TOKENS"), (Role::Operator, operators, "DELAYQ_OPERATOR_TOKENS")]
        {
            if let Some(path) = file {
                let text = fs::read_to_string(path).map_err(|error| {
                    Failure::Usage(format!("tokens can't be read from {}: {error}", path.display()))
                })?;
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
                tokens.add(role, lines, &path.display().to_string())?;
            }
            match env::var(variable) {
                Ok(text) => {
                    let all = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|token| !token.is_empty());
                    tokens.add(role, all, variable)?;
                }
                Err(VarError::NotPresent) => {}
                Err(VarError::NotUnicode(_)) => {
                    return Err(Failure::Usage(format!("{variable} is no text: use hexadecimal digits")));
                }
            }
        }
        Ok(tokens)
    }

    fn add<'a>(&mut self, role: Role, all: impl Iterator<Item = &'a str>, source: &str) -> Outcome {
        let usage = |text: String| Err(Failure::Usage(text));
        let mut count = 0;
        for (nth, token) in all.enumerate() {
            count = nth + 1;
            let which = format!("token {} of {source}", nth + 1);
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return usage(format!("{which} has characters that a header field can't have: use hexadecimal digits"));
            }
            let mut different: Vec<u8> = token.bytes().collect();
            different.sort_unstable();
            different.dedup();
            if token.len() < CHARS_MIN || different.len() < DIFFERENT_MIN {
                return usage(format!(
                    "{which} is too easy to guess: use at least {CHARS_MIN} random characters, as of openssl rand -hex 32"
                ));
            }
            let hash = hash(token);
            match self.0.iter().find(|known| known.hash == hash) {
                Some(known) if known.role != role => {
                    return usage(format!("{which} is among the tokens of both roles: which one?"));
                }
                Some(_) => {}
                None => self.0.push(Known { role, hash }),
            }
        }
        // Whoever names a place for tokens means to have some: without any the service would be open to this machine.
        if count == 0 {
            return usage(format!("{source} has no token: put one in, or don't name it"));
        }
        if self.0.len() > TOKENS_MAX {
            return usage(format!(
                "there are more than {TOKENS_MAX} tokens: each request is compared with all of them"
            ));
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose token this is, and what it is called in the audit log. However much of it is right, it takes as long.
    pub(super) fn find(&self, token: &str) -> Option<(Role, String)> {
        let (hash, none) = (hash(token), u32::MAX);
        let mut found = none;
        for (nth, known) in (0..none).zip(&self.0) {
            found.conditional_assign(&nth, known.hash.ct_eq(&hash));
        }
        let known = self.0.get(usize::try_from(found).ok()?)?;
        let [a, b, c, d, ..] = known.hash;
        Some((known.role, format!("{} {a:02x}{b:02x}{c:02x}{d:02x}", known.role.as_str())))
    }
}

fn hash(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

/// The bearer token of a request, if it has one and only one.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut fields = headers.get_all(header::AUTHORIZATION).iter();
    let (field, None) = (fields.next()?, fields.next()) else { return None };
    let (scheme, token) = field.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "0123456789abcdef0123456789abcdef";
    const TWO: &str = "fedcba9876543210fedcba9876543210";

    fn tokens(role: Role, all: &[&str]) -> Outcome<Tokens> {
        let mut tokens = Tokens::default();
        tokens.add(role, all.iter().copied(), "a test").map(|()| tokens)
    }

    #[test]
    fn s04_short_and_simple_tokens_are_refused() {
        for weak in
            ["", "secret", &ONE[1..], &"a".repeat(64), &"abc".repeat(20), &format!("{ONE}\n"), &format!("{ONE}ä")]
        {
            let refused = tokens(Role::Reader, &[weak]).map(|_| ()).expect_err(weak);
            let text = refused.text().unwrap_or_default();
            assert!(weak.is_empty() || !text.contains(weak), "{text}");
        }
        assert!(tokens(Role::Reader, &[ONE, TWO, ONE]).is_ok_and(|tokens| tokens.0.len() == 2));
    }

    #[test]
    fn a_token_has_one_role() {
        let mut both = tokens(Role::Reader, &[ONE]).expect("it is good");
        assert!(both.add(Role::Operator, [ONE].into_iter(), "a test").is_err());
        both.add(Role::Operator, [TWO].into_iter(), "a test").expect("it is good");
        assert!(matches!(both.find(ONE), Some((Role::Reader, _))));
        assert!(matches!(both.find(TWO), Some((Role::Operator, _))));
        for other in ["", &ONE[1..], &format!("{ONE}0"), "0123456789ABCDEF0123456789ABCDEF"] {
            assert!(both.find(other).is_none());
        }
        assert!(Tokens::default().find("").is_none());
    }

    #[test]
    fn the_name_in_the_log_is_not_the_token() {
        let known = tokens(Role::Operator, &[ONE]).expect("it is good");
        let (_, name) = known.find(ONE).expect("it is known");
        assert!(name.starts_with("operator ") && name.len() == "operator ".len() + 8 && !ONE.contains(&name[9..]));
    }
}
