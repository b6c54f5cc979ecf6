//! Writes what stands in for a job type with mistakes, so that they are not followed by errors elsewhere.

mod lifetimes;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Path, parse_quote};

use crate::cfg;
use crate::expand;
use crate::model::JobModel;
use crate::serde_derives;

/// The item, serde impls and a `JobType` impl with what is known; no registration, since nothing will run.
pub(crate) fn job(model: &JobModel, item: DeriveInput) -> TokenStream {
    let krate = &model.crate_path;
    let constants = expand::constants(model);
    let is_misshapen = matches!(item.data, Data::Union(_)) || !item.generics.params.is_empty();
    let mut item = lifetimes::dropped(item);
    let beside = if model.serde_is_external {
        TokenStream::new()
    } else if is_misshapen {
        // What serde's derives would say about such a type is less than what has been said.
        serde_derives::remove(&mut item);
        serde_stubs(&item, krate)
    } else {
        serde_derives::add(&mut item, krate)
    };

    let cfgs = cfg::of_item(&item.attrs);
    let ident = &item.ident;
    let mut generics = item.generics.clone();
    if !generics.params.is_empty() {
        generics.make_where_clause().predicates.push(parse_quote!(Self: ::core::marker::Send + 'static));
    }
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    quote! {
        #item
        #beside
        #cfgs
        #[automatically_derived]
        #[allow(deprecated)]
        impl #impl_generics #krate::JobType for #ident #ty_generics #where_clause {
            #constants
        }
    }
}

fn serde_stubs(item: &DeriveInput, krate: &Path) -> TokenStream {
    let cfgs = cfg::of_item(&item.attrs);
    let ident = &item.ident;
    let (impl_generics, ty_generics, where_clause) = item.generics.split_for_impl();
    let mut with_lifetime = item.generics.clone();
    with_lifetime.params.insert(0, parse_quote!('__de));
    let (deserialize_generics, ..) = with_lifetime.split_for_impl();
    quote! {
        #cfgs
        impl #impl_generics #krate::__private::serde::Serialize for #ident #ty_generics #where_clause {
            fn serialize<__S: #krate::__private::serde::Serializer>(
                &self,
                _: __S,
            ) -> ::core::result::Result<__S::Ok, __S::Error> {
                ::core::unreachable!()
            }
        }
        #cfgs
        impl #deserialize_generics #krate::__private::serde::Deserialize<'__de> for #ident #ty_generics #where_clause {
            fn deserialize<__D: #krate::__private::serde::Deserializer<'__de>>(
                _: __D,
            ) -> ::core::result::Result<Self, __D::Error> {
                ::core::unreachable!()
            }
        }
    }
}
