//! Collects every mistake of one attribute, so that all are reported at once, each at its own token.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;

/// The mistakes found so far.
#[derive(Default)]
pub(crate) struct Problems(Option<syn::Error>);

impl Problems {
    /// Records a mistake that `tokens` show.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    /// Records a mistake that has no token of its own: something is missing, so it is shown at the whole attribute.
    pub(crate) fn at_attribute(&mut self, message: impl Display) {
        self.push(syn::Error::new(proc_macro2::Span::call_site(), message));
    }

    /// Records an error that already knows its place.
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// One `compile_error!` for each mistake; nothing if there was none.
    pub(crate) fn into_compile_errors(self) -> TokenStream {
        self.0.map(syn::Error::into_compile_error).unwrap_or_default()
    }
}
