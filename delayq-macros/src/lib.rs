//! The attribute macros of delayq, which re-exports them: `#[delayq::delayed_job]` and `#[delayq::payload]`.
//!
//! An attribute goes through four rooms: `parse` reads its form, `check` its values, `model` is what is left when
//! both are right, and `expand` writes the code. With a mistake, `fallback` writes a stand-in instead. The pages of the attributes are
//! files, since the package of the tests compiles their examples; here delayq isn't at hand, and `cargo test --doc` asks every
//! library for examples.

mod cfg;
mod check;
mod duration;
mod expand;
mod fallback;
mod model;
mod parse;
mod problems;
mod serde_derives;
mod suggest;

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput};

use problems::Problems;

#[cfg_attr(not(doctest), doc = include_str!("delayed_job.md"))]
#[proc_macro_attribute]
pub fn delayed_job(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut problems = Problems::default();
    let arguments = parse::job_arguments(arguments.into(), &mut problems);
    let item = match type_item(item, "#[delayed_job]", "a struct") {
        Ok(item) => item,
        Err(with_error) => return with_error,
    };
    let model = check::job(arguments, &item, &mut problems);
    if problems.is_empty() {
        return expand::job(&model, item).into();
    }
    let stub = fallback::job(&model, item);
    let errors = problems.into_compile_errors();
    quote!(#errors #stub).into()
}

#[cfg_attr(not(doctest), doc = include_str!("payload.md"))]
#[proc_macro_attribute]
pub fn payload(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut problems = Problems::default();
    let arguments = parse::payload_arguments(arguments.into(), &mut problems);
    let mut item = match type_item(item, "#[payload]", "a struct or an enum") {
        Ok(item) => item,
        Err(with_error) => return with_error,
    };
    let crate_path = check::crate_path(arguments.crate_path);
    let beside = if let Data::Union(data) = &item.data {
        problems.at(data.union_token, "a payload is a struct or an enum: serde can't read a union");
        proc_macro2::TokenStream::new()
    } else {
        serde_derives::add(&mut item, &crate_path)
    };
    let errors = problems.into_compile_errors();
    quote!(#errors #item #beside).into()
}

/// The item as a type definition; or, for anything else, the item unchanged with an error in front.
fn type_item(item: TokenStream, attribute: &str, what: &str) -> Result<DeriveInput, TokenStream> {
    syn::parse(item.clone()).map_err(|error| {
        let error = syn::Error::new(error.span(), format!("`{attribute}` goes on {what}: put it above one"))
            .into_compile_error();
        let item = proc_macro2::TokenStream::from(item);
        quote!(#error #item).into()
    })
}
