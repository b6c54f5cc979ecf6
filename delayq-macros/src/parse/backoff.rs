//! Reads the value of `backoff`.

use proc_macro2::Ident;
use syn::parse::ParseStream;
use syn::{LitStr, parenthesized, token};

use super::value::{self, Key, Number};
use crate::problems::Problems;
use crate::suggest;

/// What a kind of backoff takes behind its first wait, each with an example.
const EXPONENTIAL: [(&str, &str); 3] = [("factor", "factor = 2"), ("max", "max = \"1h\""), ("jitter", "jitter = 0.1")];
const FIXED: [(&str, &str); 1] = [("jitter", "jitter = 0.1")];

/// A backoff as it was written.
pub(crate) struct Backoff {
    pub(crate) kind: BackoffKind,
    pub(crate) first: LitStr,
    pub(crate) factor: Option<Number>,
    pub(crate) max: Option<LitStr>,
    pub(crate) jitter: Option<Number>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum BackoffKind {
    Exponential,
    Fixed,
}

/// Reads a backoff; `None` if its first wait is missing or wrong, which has been recorded.
///
/// ```text
/// backoff = "exponential" "(" DURATION { "," growth } [ "," ] ")"
///         | "fixed" "(" DURATION [ "," "jitter" "=" NUMBER ] [ "," ] ")"
/// growth  = "factor" "=" NUMBER | "max" "=" DURATION | "jitter" "=" NUMBER      each at most once
/// ```
pub(super) fn read(input: ParseStream<'_>, problems: &mut Problems) -> syn::Result<Option<Backoff>> {
    let message = "`backoff` is `exponential(\"5s\", factor = 2, max = \"1h\", jitter = 0.1)` or `fixed(\"10s\")`";
    let fork = input.fork();
    let kind = match fork.parse::<Ident>() {
        Ok(ident) if ident == "exponential" => BackoffKind::Exponential,
        Ok(ident) if ident == "fixed" => BackoffKind::Fixed,
        _ => return Err(value::unexpected(input, message)),
    };
    if !fork.peek(token::Paren) {
        return Err(value::unexpected(input, message));
    }
    let name: Ident = input.parse()?;
    let content;
    let parens = parenthesized!(content in input);
    let (known, example): (&[_], _) = match kind {
        BackoffKind::Exponential => (&EXPONENTIAL, "backoff = exponential(\"5s\")"),
        BackoffKind::Fixed => (&FIXED, "backoff = fixed(\"10s\")"),
    };
    if content.is_empty() {
        return Err(syn::Error::new(parens.span.join(), format!("`{name}` needs its first wait: write `{example}`")));
    }

    let first_key = Key { ident: name.clone(), example };
    let mut first = None;
    let mut rest = Rest { known, seen: Vec::new(), factor: None, max: None, jitter: None };
    let mut position = 0;
    super::each(&content, problems, |input, problems| {
        position += 1;
        if position == 1 {
            first = Some(value::duration(input, &first_key)?);
            return Ok(());
        }
        rest.read(input, &name, problems)
    });
    let Rest { factor, max, jitter, .. } = rest;
    Ok(first.map(|first| Backoff { kind, first, factor, max, jitter }))
}

/// What follows the first wait.
struct Rest {
    known: &'static [(&'static str, &'static str)],
    seen: Vec<Ident>,
    factor: Option<Number>,
    max: Option<LitStr>,
    jitter: Option<Number>,
}

impl Rest {
    fn read(&mut self, input: ParseStream<'_>, name: &Ident, problems: &mut Problems) -> syn::Result<()> {
        let names: Vec<&str> = self.known.iter().map(|(name, _)| *name).collect();
        let Ok(ident) = input.parse::<Ident>() else {
            return Err(value::unexpected(
                input,
                &format!("`{name}` takes one wait, then {}", suggest::listed(&names)),
            ));
        };
        let Some((word, example)) = self.known.iter().find(|(name, _)| ident == name) else {
            value::until_comma(input);
            let hint = suggest::hint(&ident.to_string(), "setting", &names);
            return Err(syn::Error::new(ident.span(), format!("`{name}` has no setting `{ident}`: {hint}")));
        };
        if self.seen.contains(&ident) {
            problems.at(&ident, format!("`{ident}` is given twice: remove one of the two"));
        }
        self.seen.push(ident.clone());
        let key = Key { ident, example };
        match *word {
            "factor" => self.factor = Some(value::number(key.equals(input)?, &key)?),
            "max" => self.max = Some(value::duration(key.equals(input)?, &key)?),
            _ => self.jitter = Some(value::number(key.equals(input)?, &key)?),
        }
        Ok(())
    }
}
