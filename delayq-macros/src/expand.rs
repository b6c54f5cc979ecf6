//! Writes the code of a job type that has no mistakes.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Member, Path, Type};

use crate::cfg;
use crate::model::{Backoff, JobModel};
use crate::serde_derives;

/// The item with its serde derives, its `JobType` impl and its registration.
///
/// Generated code names everything by its whole path: the user may have a `Result`, a `Some` or a `mod std`.
pub(crate) fn job(model: &JobModel, mut item: DeriveInput) -> TokenStream {
    let cfgs = cfg::of_item(&item.attrs);
    let beside =
        if model.serde_is_external { TokenStream::new() } else { serde_derives::add(&mut item, &model.crate_path) };
    let job_type = job_type(model, &item.ident, &cfgs);
    let registration = registration(model, &item.ident, &cfgs);
    quote! {
        #item
        #beside
        #job_type
        #registration
    }
}

fn job_type(model: &JobModel, ident: &Ident, cfgs: &TokenStream) -> TokenStream {
    let krate = &model.crate_path;
    let constants = constants(model);
    let unique_key = unique_key(&model.unique, krate);
    let decode = decode(&model.older, krate);
    quote! {
        #cfgs
        #[automatically_derived]
        #[allow(deprecated, clippy::all, clippy::pedantic, clippy::nursery)]
        impl #krate::JobType for #ident {
            #constants
            #unique_key
            #decode
        }
    }
}

/// The constants that were given; the trait has the others.
pub(crate) fn constants(model: &JobModel) -> TokenStream {
    let krate = &model.crate_path;
    let (name, version) = (&model.name, model.version);
    let oldest = model.older.first().map(|(oldest, _)| quote!(const OLDEST_VERSION: ::core::primitive::u32 = #oldest;));
    let queue = model.queue.as_ref().map(|queue| quote!(const QUEUE: &'static ::core::primitive::str = #queue;));
    let max_retries = model.max_retries.map(|limit| quote!(const MAX_RETRIES: ::core::primitive::u32 = #limit;));
    let backoff = model.backoff.as_ref().map(|value| {
        let value = backoff(value, krate);
        quote!(const BACKOFF: #krate::Backoff = #value;)
    });
    let timeout = model.timeout.map(|timeout| {
        let timeout = duration(timeout);
        quote! {
            const TIMEOUT: ::core::option::Option<::core::time::Duration> = ::core::option::Option::Some(#timeout);
        }
    });
    let priority = model.priority.map(|priority| quote!(const PRIORITY: ::core::primitive::u8 = #priority;));
    quote! {
        const NAME: &'static ::core::primitive::str = #name;
        const VERSION: ::core::primitive::u32 = #version;
        #oldest
        #queue
        #max_retries
        #backoff
        #timeout
        #priority
    }
}

fn duration(duration: Duration) -> TokenStream {
    // The longest is 365 days.
    let ms = duration.as_millis() as u64;
    quote!(::core::time::Duration::from_millis(#ms))
}

fn backoff(backoff: &Backoff, krate: &Path) -> TokenStream {
    let set_jitter = |jitter: &Option<f64>| jitter.map(|jitter| quote!(.jitter(#jitter)));
    match backoff {
        Backoff::Exponential { first, factor, max, jitter } => {
            let first = duration(*first);
            let factor = factor.map(|factor| quote!(.factor(#factor)));
            let max = max.map(|max| {
                let max = duration(max);
                quote!(.max(#max))
            });
            let jitter = set_jitter(jitter);
            quote!(#krate::Backoff::exponential(#first) #factor #max #jitter)
        }
        Backoff::Fixed { delay, jitter } => {
            let delay = duration(*delay);
            let jitter = set_jitter(jitter);
            quote!(#krate::Backoff::fixed(#delay) #jitter)
        }
    }
}

fn unique_key(fields: &[Member], krate: &Path) -> Option<TokenStream> {
    // A field that can't be displayed is shown where the attribute names it.
    let value = |field: &Member| quote_spanned!(generated_at(field.span())=> &self.#field);
    let key = match fields {
        [] => return None,
        [field] => {
            let value = value(field);
            quote!(#krate::__private::unique_key(<Self as #krate::JobType>::NAME, #value))
        }
        fields => {
            let values = fields.iter().map(|field| {
                let value = value(field);
                quote_spanned!(generated_at(field.span())=> #value as &dyn ::core::fmt::Display)
            });
            quote!(#krate::__private::unique_key_of(<Self as #krate::JobType>::NAME, &[#(#values),*]))
        }
    };
    Some(quote! {
        fn unique_key(&self) -> ::core::option::Option<#krate::__private::String> {
            ::core::option::Option::Some(#key)
        }
    })
}

/// `decode`, where each older payload goes through every version after its own.
fn decode(older: &[(u32, Type)], krate: &Path) -> Option<TokenStream> {
    if older.is_empty() {
        return None;
    }
    let arms = older.iter().enumerate().map(|(start, (version, ty))| {
        let steps = (start..older.len()).map(|at| upcast(&older[at].1, older.get(at + 1).map(|(_, next)| next)));
        quote!(#version => #krate::__private::decode_json::<#ty>(__payload) #(.map(#steps))*,)
    });
    Some(quote! {
        fn decode(
            __version: ::core::primitive::u32,
            __payload: &[::core::primitive::u8],
        ) -> ::core::result::Result<Self, #krate::PayloadError> {
            match __version {
                #(#arms)*
                _ => #krate::__private::decode_json::<Self>(__payload),
            }
        }
    })
}

/// One step to the next version, or to the job itself. A missing `From` is shown at the older type: every token has
/// that type's span, since the compiler shows the whole attribute for tokens of mixed origin.
fn upcast(ty: &Type, next: Option<&Type>) -> TokenStream {
    let next: TokenStream = next
        .map_or_else(|| quote!(Self), ToTokens::to_token_stream)
        .into_iter()
        .map(|mut token| {
            token.set_span(ty.span());
            token
        })
        .collect();
    quote_spanned!(ty.span()=> |__old| <#next as ::core::convert::From<#ty>>::from(__old))
}

/// A span that shows the user's token, for code that isn't the user's.
fn generated_at(span: Span) -> Span {
    Span::call_site().located_at(span)
}

/// The entry in the registry, with the place of the attribute.
fn registration(model: &JobModel, ident: &Ident, cfgs: &TokenStream) -> TokenStream {
    let krate = &model.crate_path;
    let constructor = if model.handler_is_external { quote!(external) } else { quote!(of) };
    quote! {
        #cfgs
        #[allow(deprecated)]
        const _: () = {
            #krate::__private::inventory::submit! {
                #krate::__private::Registration::#constructor::<#ident>(::core::file!(), ::core::line!())
            }
        };
    }
}
