//! The sender's trace context: taken where a job is sent, given to the run's span.

use tracing::Span;

use crate::error::Error;

/// Checks a W3C `traceparent` header: `00-<32 hex>-<16 hex>-<2 hex>`.
pub(crate) fn check_parent(parent: &str) -> Result<(), Error> {
    let mut parts = parent.split('-');
    let mut hex = |length: usize| {
        parts.next().is_some_and(|part| {
            part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
        })
    };
    if hex(2) && hex(32) && hex(16) && hex(2) && parts.next().is_none() {
        Ok(())
    } else {
        Err(Error::invalid(
            "the trace parent is no W3C traceparent: it has the form 00-<32 hex digits>-<16 hex digits>-<2 hex digits>",
        ))
    }
}

/// The context of the span that is entered here.
#[cfg(feature = "opentelemetry")]
pub(crate) fn current_parent() -> Option<String> {
    use opentelemetry::trace::TraceContextExt;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let context = Span::current().context();
    let span = context.span();
    let span = span.span_context();
    span.is_valid().then(|| format!("00-{}-{}-{:02x}", span.trace_id(), span.span_id(), span.trace_flags().to_u8()))
}

/// Nothing, without the feature `opentelemetry`.
#[cfg(not(feature = "opentelemetry"))]
pub(crate) fn current_parent() -> Option<String> {
    None
}

/// Ties a run's span to the sender's: the first run as its child, later ones by a link, since they are days apart.
#[cfg(feature = "opentelemetry")]
pub(crate) fn follow(span: &Span, parent: &str, first_run: bool) {
    use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    if check_parent(parent).is_err() {
        return;
    }
    let mut parts = parent.split('-').skip(1);
    let (Some(Ok(trace_id)), Some(Ok(span_id)), Some(Ok(flags))) = (
        parts.next().map(TraceId::from_hex),
        parts.next().map(SpanId::from_hex),
        parts.next().map(|flags| u8::from_str_radix(flags, 16)),
    ) else {
        return;
    };
    let context = SpanContext::new(trace_id, span_id, TraceFlags::new(flags), true, TraceState::default());
    if !context.is_valid() {
        return;
    }
    if first_run {
        let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(context));
    } else {
        span.add_link(context);
    }
}

/// Nothing, without the feature `opentelemetry`.
#[cfg(not(feature = "opentelemetry"))]
pub(crate) fn follow(_: &Span, _: &str, _: bool) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_parents_pass() {
        assert!(check_parent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").is_ok());
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-x-y-z",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        ] {
            assert!(check_parent(wrong).is_err(), "{wrong:?}");
        }
    }
}
