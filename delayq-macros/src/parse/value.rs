//! Reads one value of an argument, or says what to write in its place.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::parse::discouraged::Speculative;
use syn::{Lit, LitInt, LitStr, Token};

use crate::duration;

/// The argument that a value belongs to.
pub(super) struct Key {
    pub(super) ident: Ident,
    /// The argument as it might be written, for messages.
    pub(super) example: &'static str,
}

impl Key {
    /// Steps over `=` to the value, which must be there.
    pub(super) fn equals<'a>(&self, input: ParseStream<'a>) -> syn::Result<ParseStream<'a>> {
        let has_value = input.parse::<Token![=]>().is_ok() && !at_comma(input);
        if has_value {
            return Ok(input);
        }
        until_comma(input);
        Err(syn::Error::new(self.ident.span(), format!("`{}` needs a value: write `{}`", self.ident, self.example)))
    }
}

/// An integer or a float.
pub(crate) struct Number {
    pub(crate) literal: Lit,
    pub(crate) value: f64,
}

pub(super) fn string(input: ParseStream<'_>, key: &Key) -> syn::Result<LitStr> {
    match literal(input) {
        Ok(Lit::Str(text)) => Ok(text),
        Ok(other) => Err(syn::Error::new(other.span(), wants(key, "a string"))),
        Err(found) => Err(syn::Error::new_spanned(found, wants(key, "a string literal"))),
    }
}

pub(super) fn duration(input: ParseStream<'_>, key: &Key) -> syn::Result<LitStr> {
    match literal(input) {
        Ok(Lit::Str(text)) => Ok(text),
        // `30` and `30s` show what was meant, if not how to write it.
        Ok(Lit::Int(number)) => {
            let unit = if number.suffix().is_empty() { "s" } else { number.suffix() };
            let text = format!("{}{unit}", number.base10_digits());
            if duration::parse(&text).is_err() {
                return Err(syn::Error::new(number.span(), wants(key, "a duration in quotes")));
            }
            Err(syn::Error::new(
                number.span(),
                format!("`{}` takes a duration in quotes: write `\"{text}\"`", key.ident),
            ))
        }
        Ok(other) => Err(syn::Error::new(other.span(), wants(key, "a duration in quotes"))),
        Err(found) => Err(syn::Error::new_spanned(found, wants(key, "a duration in quotes"))),
    }
}

pub(super) fn integer(input: ParseStream<'_>, key: &Key) -> syn::Result<LitInt> {
    match literal(input) {
        Ok(Lit::Int(number)) if number.suffix().is_empty() => Ok(number),
        Ok(Lit::Int(number)) => {
            let message =
                format!("`{}` takes a plain integer: write `{} = {}`", key.ident, key.ident, number.base10_digits());
            Err(syn::Error::new(number.span(), message))
        }
        Ok(Lit::Str(text)) if text.value().parse::<u64>().is_ok() => {
            let message =
                format!("`{}` takes an integer without quotes: write `{} = {}`", key.ident, key.ident, text.value());
            Err(syn::Error::new(text.span(), message))
        }
        Ok(other) => Err(syn::Error::new(other.span(), wants(key, "an integer"))),
        Err(found) => Err(syn::Error::new_spanned(found, wants(key, "an integer literal"))),
    }
}

pub(super) fn number(input: ParseStream<'_>, key: &Key) -> syn::Result<Number> {
    let literal = match literal(input) {
        Ok(literal) => literal,
        Err(found) => return Err(syn::Error::new_spanned(found, wants(key, "a number literal"))),
    };
    let value = match &literal {
        Lit::Int(number) if number.suffix().is_empty() => number.base10_parse().ok(),
        Lit::Float(number) if number.suffix().is_empty() => number.base10_parse().ok(),
        _ => None,
    };
    match value {
        Some(value) => Ok(Number { literal, value }),
        None => Err(syn::Error::new(literal.span(), wants(key, "a plain number"))),
    }
}

/// The value if it is one literal, or else its tokens. A word behind it is the next argument, short of its comma.
fn literal(input: ParseStream<'_>) -> Result<Lit, TokenStream> {
    let fork = input.fork();
    if let Ok(literal) = fork.parse()
        && (at_comma(&fork) || fork.peek(Ident::peek_any))
    {
        input.advance_to(&fork);
        return Ok(literal);
    }
    Err(until_comma(input))
}

fn wants(key: &Key, what: &str) -> String {
    format!("`{}` takes {what}: write `{}`", key.ident, key.example)
}

/// Whether the value ends here.
pub(super) fn at_comma(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,])
}

/// The next token, for a look ahead.
pub(super) fn next_token(input: ParseStream<'_>) -> Option<TokenTree> {
    input.cursor().token_tree().map(|(token, _)| token)
}

/// Takes everything up to the next comma.
pub(super) fn until_comma(input: ParseStream<'_>) -> TokenStream {
    let mut taken = TokenStream::new();
    while !at_comma(input) {
        match input.parse::<TokenTree>() {
            Ok(token) => taken.extend([token]),
            Err(_) => break,
        }
    }
    taken
}

/// Takes everything up to the next comma and points at it.
pub(super) fn unexpected(input: ParseStream<'_>, message: &str) -> syn::Error {
    let next = next_token(input);
    let found = until_comma(input);
    match next {
        // Nothing stands before the comma: the comma itself is where something is missing.
        Some(comma) if found.is_empty() => syn::Error::new(comma.span(), message),
        Some(_) => syn::Error::new_spanned(found, message),
        None => input.error(message),
    }
}
