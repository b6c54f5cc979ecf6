//! Reads the arguments of an attribute: their form only, not whether their values make sense.

mod backoff;
mod value;

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Index, LitInt, LitStr, Member, Path, Token, Type, parenthesized, token};

use crate::problems::Problems;
use crate::suggest;

pub(crate) use backoff::{Backoff, BackoffKind};
use value::Key;
pub(crate) use value::Number;

/// Each argument of `#[delayed_job]` with an example of how it is written.
const JOB_ARGUMENTS: [(&str, &str); 12] = [
    ("name", "name = \"cancel_order\""),
    ("version", "version = 1"),
    ("queue", "queue = \"orders\""),
    ("max_retries", "max_retries = 3"),
    ("backoff", "backoff = exponential(\"5s\")"),
    ("timeout", "timeout = \"30s\""),
    ("priority", "priority = 5"),
    ("unique", "unique = order_id"),
    ("from", "from(1 = CancelOrderV1)"),
    ("handler", "handler = external"),
    ("serde", "serde = external"),
    ("crate", "crate = some::path"),
];

/// Each argument of `#[payload]`.
const PAYLOAD_ARGUMENTS: [(&str, &str); 1] = [("crate", "crate = some::path")];

/// The arguments as they were written. `None` is absent or wrong in its form; [`mentions`](Arguments::mentions)
/// tells the two apart, so that a wrong `version` isn't reported as a missing one too.
#[derive(Default)]
pub(crate) struct Arguments {
    mentioned: Vec<Ident>,
    /// The arguments that misspelt ones were probably meant to be.
    misspelt: Vec<&'static str>,
    pub(crate) name: Option<LitStr>,
    pub(crate) version: Option<LitInt>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) max_retries: Option<LitInt>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) timeout: Option<LitStr>,
    pub(crate) priority: Option<LitInt>,
    pub(crate) unique: Vec<Member>,
    pub(crate) older: Option<Older>,
    pub(crate) crate_path: Option<Path>,
}

/// `from(1 = CancelOrderV1, ...)`.
pub(crate) struct Older {
    pub(crate) key: Ident,
    pub(crate) entries: Vec<(LitInt, Type)>,
    /// Whether an entry was dropped because of its form: then a gap may not be one.
    pub(crate) complete: bool,
}

impl Arguments {
    /// Whether the argument was given at all, rightly or wrongly.
    pub(crate) fn mentions(&self, key: &str) -> bool {
        self.mentioned.iter().any(|ident| ident == key) || self.misspelt.contains(&key)
    }
}

/// Reads the arguments of `#[delayed_job]`.
///
/// ```text
/// arguments = [ argument { "," argument } [ "," ] ]          in any order, each at most once
/// argument  = "name" "=" STRING
///           | "version" "=" INTEGER
///           | "queue" "=" STRING
///           | "max_retries" "=" INTEGER
///           | "backoff" "=" backoff                          see parse/backoff.rs
///           | "timeout" "=" DURATION                         a STRING, see duration.rs
///           | "priority" "=" INTEGER
///           | "unique" "=" ( field | "(" field { "," field } [ "," ] ")" )
///           | "from" "(" entry { "," entry } [ "," ] ")"
///           | "handler" "=" "external"
///           | "serde" "=" "external"
///           | "crate" "=" PATH
/// field     = IDENTIFIER | INDEX
/// entry     = INTEGER "=" TYPE
/// ```
pub(crate) fn job_arguments(tokens: TokenStream, problems: &mut Problems) -> Arguments {
    arguments(tokens, &JOB_ARGUMENTS, problems)
}

/// Reads the arguments of `#[payload]`.
///
/// ```text
/// arguments = [ "crate" "=" PATH [ "," ] ]
/// ```
pub(crate) fn payload_arguments(tokens: TokenStream, problems: &mut Problems) -> Arguments {
    arguments(tokens, &PAYLOAD_ARGUMENTS, problems)
}

fn arguments(tokens: TokenStream, known: &[(&'static str, &'static str)], problems: &mut Problems) -> Arguments {
    let mut arguments = Arguments::default();
    let parser = |input: ParseStream<'_>| {
        each(input, problems, |input, problems| argument(input, known, &mut arguments, problems));
        Ok(())
    };
    if let Err(error) = parser.parse2(tokens) {
        problems.push(error);
    }
    arguments
}

/// Reads what commas separate. After a mistake it goes on behind the next comma, so that later ones are found too.
fn each(
    input: ParseStream<'_>,
    problems: &mut Problems,
    mut read: impl FnMut(ParseStream<'_>, &mut Problems) -> syn::Result<()>,
) {
    while !input.is_empty() {
        if let Err(error) = read(input, problems) {
            problems.push(error);
            value::until_comma(input);
        } else if let (false, Some(next)) = (value::at_comma(input), value::next_token(input)) {
            problems.at(next, "a comma is missing: write `,` before this");
            continue;
        }
        // Here is a comma or the end.
        let _ = input.parse::<Option<Token![,]>>();
    }
}

fn argument(
    input: ParseStream<'_>,
    known: &[(&'static str, &'static str)],
    arguments: &mut Arguments,
    problems: &mut Problems,
) -> syn::Result<()> {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let Ok(key) = input.call(Ident::parse_any) else {
        return Err(value::unexpected(input, &format!("expected an argument such as `{}`", known[0].1)));
    };
    let word = key.to_string();
    let Some((_, example)) = known.iter().find(|(name, _)| *name == word) else {
        arguments.misspelt.extend(suggest::nearest(&word, known.iter().map(|(name, _)| *name)));
        let hint = suggest::hint(&word, "argument", &names);
        return Err(syn::Error::new(key.span(), format!("unknown argument `{word}`: {hint}")));
    };
    let repeated = arguments.mentioned.contains(&key);
    if repeated {
        problems.at(&key, format!("`{word}` is given twice: remove one of the two"));
    }
    arguments.mentioned.push(key.clone());
    let key = Key { ident: key, example };

    // A repeated argument is read for its mistakes, then dropped: the first one counts.
    let dropped = &mut Arguments::default();
    let into = if repeated { dropped } else { arguments };
    match word.as_str() {
        "name" => into.name = Some(value::string(key.equals(input)?, &key)?),
        "version" => into.version = Some(value::integer(key.equals(input)?, &key)?),
        "queue" => into.queue = Some(value::string(key.equals(input)?, &key)?),
        "max_retries" => into.max_retries = Some(value::integer(key.equals(input)?, &key)?),
        "backoff" => into.backoff = backoff::read(key.equals(input)?, problems)?,
        "timeout" => into.timeout = Some(value::duration(key.equals(input)?, &key)?),
        "priority" => into.priority = Some(value::integer(key.equals(input)?, &key)?),
        "unique" => into.unique = unique(key.equals(input)?, &key, problems)?,
        "from" => into.older = Some(from(input, &key, problems)?),
        "crate" => into.crate_path = Some(crate_path(key.equals(input)?, &key)?),
        _ => external(key.equals(input)?, &key)?,
    }
    Ok(())
}

/// `external`, the only value of `handler` and `serde`.
fn external(input: ParseStream<'_>, key: &Key) -> syn::Result<()> {
    let found = value::until_comma(input);
    if found.to_string() == "external" {
        return Ok(());
    }
    Err(syn::Error::new_spanned(
        found,
        format!("`{}` takes only `external`: write `{}`, or leave it out", key.ident, key.example),
    ))
}

fn crate_path(input: ParseStream<'_>, key: &Key) -> syn::Result<Path> {
    if let Ok(text) = input.fork().parse::<LitStr>() {
        return Err(value::unexpected(
            input,
            &format!("`crate` takes a path without quotes: write `crate = {}`", text.value()),
        ));
    }
    let fork = input.fork();
    if let Ok(path) = fork.call(Path::parse_mod_style)
        && value::at_comma(&fork)
    {
        input.advance_to(&fork);
        return Ok(path);
    }
    Err(value::unexpected(input, &format!("`crate` takes a path: write `{}`", key.example)))
}

fn unique(input: ParseStream<'_>, key: &Key, problems: &mut Problems) -> syn::Result<Vec<Member>> {
    if !input.peek(token::Paren) {
        return field(input).map(|member| vec![member]);
    }
    let content;
    let parens = parenthesized!(content in input);
    if content.is_empty() {
        return Err(syn::Error::new(parens.span.join(), format!("`unique` names no field: write `{}`", key.example)));
    }
    let mut members = Vec::new();
    each(&content, problems, |input, _| {
        members.push(field(input)?);
        Ok(())
    });
    Ok(members)
}

fn field(input: ParseStream<'_>) -> syn::Result<Member> {
    let fork = input.fork();
    // A keyword can only be a field as a raw identifier; the check finds it by its plain name.
    let member = match fork.parse::<LitInt>() {
        Ok(index) if index.suffix().is_empty() => {
            index.base10_parse().ok().map(|number| Member::Unnamed(Index { index: number, span: index.span() }))
        }
        Ok(_) => None,
        Err(_) => fork.call(Ident::parse_any).ok().map(Member::Named),
    };
    match member {
        Some(member) if value::at_comma(&fork) => {
            input.advance_to(&fork);
            Ok(member)
        }
        _ => Err(value::unexpected(
            input,
            "`unique` takes a field, or several: write `unique = order_id` or `unique = (shop, order_id)`",
        )),
    }
}

fn from(input: ParseStream<'_>, key: &Key, problems: &mut Problems) -> syn::Result<Older> {
    if !input.peek(token::Paren) {
        let message = "`from` lists the older payload types in parentheses: write `from(1 = CancelOrderV1)`";
        let found = value::until_comma(input);
        return Err(if found.is_empty() {
            syn::Error::new(key.ident.span(), message)
        } else {
            syn::Error::new_spanned(found, message)
        });
    }
    let content;
    parenthesized!(content in input);
    let mut entries = Vec::new();
    let mut started = 0;
    each(&content, problems, |input, _| {
        started += 1;
        entries.push(from_entry(input)?);
        Ok(())
    });
    Ok(Older { key: key.ident.clone(), complete: entries.len() == started, entries })
}

fn from_entry(input: ParseStream<'_>) -> syn::Result<(LitInt, Type)> {
    let fork = input.fork();
    let entry = || Some((fork.parse::<LitInt>().ok()?, fork.parse::<Token![=]>().ok()?, fork.parse::<Type>().ok()?));
    match entry() {
        Some((version, _, ty)) if version.suffix().is_empty() && value::at_comma(&fork) => {
            input.advance_to(&fork);
            Ok((version, ty))
        }
        _ => Err(value::unexpected(
            input,
            "expected a version and the type that was its payload: write `1 = CancelOrderV1`",
        )),
    }
}
