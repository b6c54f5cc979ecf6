//! Looks through `cfg` and `cfg_attr`, which stand unexpanded below an attribute macro.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Attribute, Meta};

/// A condition of conditional compilation, as far as it is known here.
#[derive(Clone)]
pub(crate) enum Cfg {
    Always,
    Never,
    When(TokenStream),
}

impl Cfg {
    pub(crate) fn not(self) -> Cfg {
        match self {
            Cfg::Always => Cfg::Never,
            Cfg::Never => Cfg::Always,
            Cfg::When(condition) => Cfg::When(quote!(not(#condition))),
        }
    }

    pub(crate) fn and(self, other: Cfg) -> Cfg {
        match (self, other) {
            (Cfg::Never, _) | (_, Cfg::Never) => Cfg::Never,
            (Cfg::Always, cfg) | (cfg, Cfg::Always) => cfg,
            (Cfg::When(a), Cfg::When(b)) => Cfg::When(quote!(all(#a, #b))),
        }
    }

    pub(crate) fn or(self, other: Cfg) -> Cfg {
        match (self, other) {
            (Cfg::Always, _) | (_, Cfg::Always) => Cfg::Always,
            (Cfg::Never, cfg) | (cfg, Cfg::Never) => cfg,
            (Cfg::When(a), Cfg::When(b)) => Cfg::When(quote!(any(#a, #b))),
        }
    }

    /// The attribute with this content, where the condition holds.
    pub(crate) fn attribute(&self, content: &TokenStream) -> TokenStream {
        match self {
            Cfg::Always => quote!(#[#content]),
            Cfg::Never => TokenStream::new(),
            Cfg::When(condition) => quote!(#[cfg_attr(#condition, #content)]),
        }
    }
}

/// An attribute and the condition under which it is there.
pub(crate) struct Conditional {
    pub(crate) cfg: Cfg,
    pub(crate) meta: Meta,
}

/// The attributes with every `cfg_attr` taken apart.
pub(crate) fn flatten(attributes: &[Attribute]) -> Vec<Conditional> {
    let mut flat = Vec::new();
    for attribute in attributes {
        take_apart(Cfg::Always, attribute.meta.clone(), &mut flat);
    }
    flat
}

fn take_apart(cfg: Cfg, meta: Meta, flat: &mut Vec<Conditional>) {
    let list = match meta {
        Meta::List(list) if list.path.is_ident("cfg_attr") => list,
        meta => return flat.push(Conditional { cfg, meta }),
    };
    let mut parts = split_at_commas(list.tokens).into_iter();
    let Some(condition) = parts.next() else { return };
    let cfg = cfg.and(Cfg::When(condition));
    // What isn't an attribute is the compiler's to report.
    for meta in parts.filter_map(|part| syn::parse2(part).ok()) {
        take_apart(cfg.clone(), meta, flat);
    }
}

fn split_at_commas(tokens: TokenStream) -> Vec<TokenStream> {
    let mut parts = vec![TokenStream::new()];
    for token in tokens {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => parts.push(TokenStream::new()),
            _ => parts.last_mut().into_iter().for_each(|part| part.extend([token.clone()])),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The `cfg` attributes of an item, for what is generated beside it: both are there or neither is.
pub(crate) fn of_item(attributes: &[Attribute]) -> TokenStream {
    flatten(attributes)
        .into_iter()
        .filter(|attribute| attribute.meta.path().is_ident("cfg"))
        .map(|attribute| attribute.cfg.attribute(&attribute.meta.to_token_stream()))
        .collect()
}
