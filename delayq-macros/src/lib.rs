//! The attribute macros of delayq, which re-exports them: `#[delayq::delayed_job]` and `#[delayq::payload]`.
//!
//! An attribute goes through four rooms: `parse` reads its form, `check` its values, `model` is what is left when
//! both are right, and `expand` writes the code. With a mistake, `fallback` writes a stand-in instead.

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

/// Makes a struct a job type: implements `JobType`, adds the serde derives and registers its handler.
///
/// ```rust
/// use delayq::{Job, JobContext, JobResult, delayed_job};
///
/// #[delayed_job(
///     name = "cancel_order",
///     version = 2,
///     queue = "orders",
///     max_retries = 5,
///     backoff = exponential("5s", factor = 2, max = "1h", jitter = 0.1),
///     timeout = "30s",
///     unique = order_id,
///     from(1 = CancelOrderV1)
/// )]
/// struct CancelOrder {
///     order_id: u64,
///     reason: String,
/// }
///
/// impl Job for CancelOrder {
///     async fn run(self, _cx: JobContext) -> JobResult {
///         println!("cancelling order {}: {}", self.order_id, self.reason);
///         Ok(())
///     }
/// }
///
/// /// What version 1 wrote. Jobs that wait with it are turned into today's.
/// #[delayq::payload]
/// struct CancelOrderV1 {
///     order_id: u64,
/// }
///
/// impl From<CancelOrderV1> for CancelOrder {
///     fn from(old: CancelOrderV1) -> Self {
///         CancelOrder { order_id: old.order_id, reason: "unpaid".to_owned() }
///     }
/// }
/// ```
///
/// # Arguments
///
/// In any order, each at most once. All mistakes are reported together, each where it is.
///
/// | argument | default | meaning |
/// |---|---|---|
/// | `name = "cancel_order"` | required | the name that jobs are stored under: it never changes, whatever the struct is called |
/// | `version = 1` | required | the version of the payload, from 1; raise it when the fields change |
/// | `queue = "orders"` | `"default"` | the queue that jobs go to unless the sender names another |
/// | `max_retries = 3` | 3 | how often a failed job is run again, 0 to 4294967295; above 65534 it is without limit |
/// | `backoff = exponential("5s")` | `exponential("5s")` | the wait before each retry, see below |
/// | `timeout = "30s"` | 15 minutes | how long one run may take, at most 24 hours |
/// | `priority = 5` | 5 | among jobs that are due, 0 runs first and 9 last |
/// | `unique = order_id` | none | while a job with the same value hasn't ended, there is no second one: a field that implements `Display`, or several as `(shop, order_id)`; an index for a tuple struct |
/// | `from(1 = CancelOrderV1)` | none | the payload types of older versions, see below |
/// | `handler = external` | `impl Job` | the handler is given to the worker elsewhere, so that a sender need not link it |
/// | `serde = external` | derives | `Serialize` and `Deserialize` are implemented by hand |
/// | `crate = some::path` | `::delayq` | where delayq is, if it is renamed or re-exported |
///
/// Names and queues are 1 to 64 ASCII letters, digits, `_`, `-` and `.`, starting with a letter or a digit.
///
/// A duration is whole numbers with the units `ms`, `s`, `m`, `h` and `d`, the largest first: `"500ms"`, `"30s"`, `"1h30m"`.
///
/// # Backoff
///
/// - `exponential("5s", factor = 2, max = "1h", jitter = 0.1)` waits 5 s, 10 s, 20 s and so on up to `max`, each
///   spread by `jitter` (a share from 0 to 1). Only the first wait must be there; the other values are the defaults.
/// - `fixed("10s", jitter = 0.1)` waits the same each time, by default without jitter.
///
/// No wait is longer than 365 days.
///
/// # Older versions
///
/// `from(1 = V1, 2 = V2)` names the type that each older version was written with, marked [`macro@payload`]. A stored
/// payload of version 1 is read as `V1` and goes through `From<V1> for V2`, then through `From<V2>` for the job. Once
/// a version is named, so are all after it; what is older isn't read any more. `Self` stands for a version that
/// today's struct still reads, because only fields with a default were added.
///
/// # The struct
///
/// It has named fields, numbered ones or none, and no generics: it is registered once and owns its data. To send an
/// enum, put it in a field. Attributes of serde work as always. The attribute stands above all `derive`s: it adds
/// serde's where it sees that they are missing, and it doesn't see what is above it.
///
/// # Grammar
///
/// ```text
/// arguments = [ argument { "," argument } [ "," ] ]
/// argument  = "name" "=" STRING | "version" "=" INTEGER | "queue" "=" STRING
///           | "max_retries" "=" INTEGER | "timeout" "=" DURATION | "priority" "=" INTEGER
///           | "backoff" "=" backoff
///           | "unique" "=" ( field | "(" field { "," field } ")" )
///           | "from" "(" INTEGER "=" TYPE { "," INTEGER "=" TYPE } ")"
///           | "handler" "=" "external" | "serde" "=" "external" | "crate" "=" PATH
/// backoff   = "exponential" "(" DURATION { "," growth } ")"
///           | "fixed" "(" DURATION [ "," "jitter" "=" NUMBER ] ")"
/// growth    = "factor" "=" NUMBER | "max" "=" DURATION | "jitter" "=" NUMBER
/// field     = IDENTIFIER | INDEX
/// DURATION  = a STRING of parts such as 1h30m
/// ```
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

/// Marks the payload of an older version of a job, for [`macro@delayed_job`]'s `from(..)`: adds the serde derives that
/// aren't there.
///
/// It goes on a struct or an enum, above all `derive`s, and needs no dependency on serde.
///
/// ```rust
/// #[delayq::payload]
/// enum CancelOrderV1 {
///     Unpaid { order_id: u64 },
///     Refused(u64),
/// }
/// ```
///
/// | argument | default | meaning |
/// |---|---|---|
/// | `crate = some::path` | `::delayq` | where delayq is, if it is renamed or re-exported |
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
