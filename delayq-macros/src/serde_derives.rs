//! Adds the serde derives that a payload hasn't got, through delayq's own copy of serde.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Data, DeriveInput, Field, Meta, Path, Token, parse_quote};

use crate::cfg::{self, Cfg, Conditional};

/// Adds the derives to the item. What is returned must stand beside it.
pub(crate) fn add(item: &mut DeriveInput, crate_path: &Path) -> TokenStream {
    let present = cfg::flatten(&item.attrs);
    let serialize = when_derived(&present, "Serialize").not();
    let deserialize = when_derived(&present, "Deserialize").not();
    let names_its_crate = when_crate_is_named(&present);
    let any_added = serialize.clone().or(deserialize.clone());

    let serde = quote!(#crate_path::__private::serde);
    let (path, alias) = in_a_string(&serde, item, crate_path);
    let crate_attribute = any_added.and(names_its_crate.not());
    let added = [
        serialize.attribute(&quote!(::core::prelude::v1::derive(#serde::Serialize))),
        deserialize.attribute(&quote!(::core::prelude::v1::derive(#serde::Deserialize))),
        crate_attribute.attribute(&quote!(serde(crate = #path))),
    ];
    insert(&mut item.attrs, added.into_iter().collect());
    match crate_attribute {
        Cfg::Never => TokenStream::new(),
        _ => alias,
    }
}

/// Takes the serde derives and their attributes from the item.
pub(crate) fn remove(item: &mut DeriveInput) {
    let is_serdes = |path: &Path| is_serde(path, "Serialize") || is_serde(path, "Deserialize");
    for attribute in &mut item.attrs {
        let Some(paths) = derived(&attribute.meta) else { continue };
        let others = paths.iter().filter(|path| !is_serdes(path));
        attribute.meta = parse_quote!(derive(#(#others),*));
    }
    let keep = |attribute: &Attribute| !attribute.path().is_ident("serde");
    item.attrs.retain(keep);
    let fields: Vec<&mut Field> = match &mut item.data {
        Data::Struct(data) => data.fields.iter_mut().collect(),
        Data::Enum(data) => data.variants.iter_mut().flat_map(|variant| &mut variant.fields).collect(),
        Data::Union(data) => data.fields.named.iter_mut().collect(),
    };
    fields.into_iter().for_each(|field| field.attrs.retain(keep));
}

/// Serde takes its path as a string, where `$crate` means nothing: such a path gets a name in the module.
fn in_a_string(serde: &TokenStream, item: &DeriveInput, crate_path: &Path) -> (String, TokenStream) {
    if crate_path.segments.first().is_none_or(|segment| segment.ident != "$crate") {
        return (serde.to_string().replace(' ', ""), TokenStream::new());
    }
    let alias = format_ident!("__delayq_serde_{}", item.ident);
    let cfgs = cfg::of_item(&item.attrs);
    (alias.to_string(), quote!(#cfgs #[doc(hidden)] use #serde as #alias;))
}

/// Puts the derives below other attribute macros, which may need to run first (`serde_as`), but above the
/// `#[serde(..)]` attributes, which belong to them.
fn insert(attributes: &mut Vec<Attribute>, added: TokenStream) {
    let position = attributes
        .iter()
        .position(|attribute| {
            cfg::flatten(std::slice::from_ref(attribute)).iter().any(|part| part.meta.path().is_ident("serde"))
        })
        .unwrap_or(attributes.len());
    // These are attributes that this module wrote.
    if let Ok(added) = Attribute::parse_outer.parse2(added) {
        attributes.splice(position..position, added);
    }
}

/// When the item derives serde's trait of that name.
fn when_derived(attributes: &[Conditional], name: &str) -> Cfg {
    any_of(attributes, |meta| derived(meta).is_some_and(|paths| paths.iter().any(|path| is_serde(path, name))))
}

/// What a `derive` attribute derives.
fn derived(meta: &Meta) -> Option<Punctuated<Path, Token![,]>> {
    let Meta::List(list) = meta else { return None };
    let is_derive = list.path.segments.last().is_some_and(|last| last.ident == "derive");
    let parse = Punctuated::parse_terminated;
    is_derive.then(|| parse.parse2(list.tokens.clone()).ok()).flatten()
}

/// A bare `Serialize` is taken for serde's; with a path, serde must be in it (rkyv has a `Serialize` too).
fn is_serde(path: &Path, name: &str) -> bool {
    let mut segments = path.segments.iter().rev();
    let last_matches = segments.next().is_some_and(|last| last.ident == name);
    last_matches
        && (path.segments.len() == 1 || segments.any(|part| part.ident == "serde" || part.ident == "serde_derive"))
}

/// When the item has its own `#[serde(crate = "...")]`.
fn when_crate_is_named(attributes: &[Conditional]) -> Cfg {
    any_of(attributes, |meta| {
        let Meta::List(list) = meta else { return false };
        let mut before = None;
        list.path.is_ident("serde")
            && list.tokens.clone().into_iter().any(|token| {
                let is_key = token.to_string() == "crate" && before.take().is_none_or(|before| before == ",");
                before = Some(token.to_string());
                is_key
            })
    })
}

fn any_of(attributes: &[Conditional], holds: impl Fn(&Meta) -> bool) -> Cfg {
    attributes
        .iter()
        .filter(|attribute| holds(&attribute.meta))
        .fold(Cfg::Never, |any, attribute| any.or(attribute.cfg.clone()))
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::*;

    fn added(mut item: DeriveInput) -> String {
        let beside = add(&mut item, &parse_quote!(::delayq));
        assert!(beside.is_empty());
        item.attrs.iter().map(|attribute| attribute.to_token_stream().to_string().replace(' ', "")).collect()
    }

    const SERIALIZE: &str = "#[::core::prelude::v1::derive(::delayq::__private::serde::Serialize)]";
    const DESERIALIZE: &str = "#[::core::prelude::v1::derive(::delayq::__private::serde::Deserialize)]";
    const CRATE: &str = "#[serde(crate=\"::delayq::__private::serde\")]";

    #[test]
    fn both_are_added_to_a_plain_item() {
        assert_eq!(
            added(parse_quote!(
                struct Job;
            )),
            format!("{SERIALIZE}{DESERIALIZE}{CRATE}")
        );
    }

    #[test]
    fn nothing_is_added_twice() {
        assert_eq!(
            added(parse_quote!(
                #[derive(serde::Serialize, serde::Deserialize)]
                struct Job;
            )),
            "#[derive(serde::Serialize,serde::Deserialize)]"
        );
        assert_eq!(
            added(parse_quote!(
                #[derive(Debug, Serialize)]
                #[serde(default, crate = "my::serde")]
                struct Job;
            )),
            format!("#[derive(Debug,Serialize)]{DESERIALIZE}#[serde(default,crate=\"my::serde\")]")
        );
    }

    #[test]
    fn another_crates_trait_of_that_name_does_not_count() {
        assert_eq!(
            added(parse_quote!(
                #[derive(rkyv::Serialize)]
                struct Job;
            )),
            format!("#[derive(rkyv::Serialize)]{SERIALIZE}{DESERIALIZE}{CRATE}")
        );
    }

    #[test]
    fn a_conditional_derive_is_completed_where_it_is_missing() {
        let text = added(parse_quote!(
            #[cfg_attr(unix, derive(Serialize, Deserialize))]
            struct Job;
        ));
        assert!(
            text.contains("#[cfg_attr(not(unix),::core::prelude::v1::derive(::delayq::__private::serde::Serialize))]"),
            "{text}"
        );
        assert!(text.contains("#[cfg_attr(any(not(unix),not(unix)),serde(crate="), "{text}");
    }

    #[test]
    fn derives_go_between_macros_and_serde_attributes() {
        assert_eq!(
            added(parse_quote!(
                #[serde_as]
                #[derive(Debug)]
                #[serde(default)]
                struct Job;
            )),
            format!("#[serde_as]#[derive(Debug)]{SERIALIZE}{DESERIALIZE}{CRATE}#[serde(default)]")
        );
    }
}
