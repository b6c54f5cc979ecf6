//! Takes the lifetimes from a struct, so that what the compiler says next is where else they have to go.
//!
//! With its lifetimes the stand-in could not be `'static`, and one `impl Job for Remind<'_>` would make ten errors
//! about that. Without them it makes one: remove the `<'_>`.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{DeriveInput, GenericParam, Lifetime};

/// The item with every lifetime parameter dropped and written as `'static` where it was used.
pub(super) fn dropped(mut item: DeriveInput) -> DeriveInput {
    let lifetimes: Vec<Lifetime> = item.generics.lifetimes().map(|parameter| parameter.lifetime.clone()).collect();
    if lifetimes.is_empty() {
        return item;
    }
    let kept = item.generics.params.clone().into_iter();
    item.generics.params = kept.filter(|parameter| !matches!(parameter, GenericParam::Lifetime(_))).collect();
    let names: Vec<&Ident> = lifetimes.iter().map(|lifetime| &lifetime.ident).collect();
    syn::parse2(made_static(item.to_token_stream(), &names)).unwrap_or(item)
}

fn made_static(tokens: TokenStream, names: &[&Ident]) -> TokenStream {
    let mut after_quote = false;
    tokens
        .into_iter()
        .map(|token| {
            let is_lifetime = std::mem::replace(&mut after_quote, is_quote(&token));
            match token {
                TokenTree::Ident(ident) if is_lifetime && names.contains(&&ident) => {
                    Ident::new("static", ident.span()).into()
                }
                TokenTree::Group(group) => {
                    let mut inner = Group::new(group.delimiter(), made_static(group.stream(), names));
                    inner.set_span(group.span());
                    inner.into()
                }
                token => token,
            }
        })
        .collect()
}

fn is_quote(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == '\'')
}
