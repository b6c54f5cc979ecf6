//! Where a request comes from, as browsers tell: no page of another site changes anything.

use std::net::Ipv4Addr;

use axum::http::{HeaderMap, header};

use super::problem::Problem;

/// Refuses a change that another site's page asks for. Programs send neither of the fields.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Problem> {
    if let Some(site) = headers.get("sec-fetch-site") {
        return match site.as_bytes() {
            b"same-origin" | b"none" => Ok(()),
            _ => Err(Problem::cross_site("Sec-Fetch-Site says that it comes from another site")),
        };
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    match (origin, host) {
        (Some(origin), Some(host)) if origin.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(Problem::cross_site("Origin is not this service")),
    }
}

/// Whether a request was meant for this machine by its name. Without tokens others are refused: a page may have its own
/// name lead to 127.0.0.1.
pub(super) fn is_local(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let host = host.to_str().unwrap_or_default();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, ""),
    };
    port.bytes().all(|byte| byte.is_ascii_digit())
        && (name.eq_ignore_ascii_case("localhost")
            || name == "[::1]"
            || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback()))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn fields(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| (axum::http::HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn s07_other_sites_change_nothing() {
        for (all, passes) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site"), ("origin", "http://a:1"), ("host", "a:1")], false),
            (&[("origin", "http://a:1"), ("host", "a:1")], true),
            (&[("origin", "http://a:2"), ("host", "a:1")], false),
            (&[("origin", "http://b:1"), ("host", "a:1")], false),
            (&[("origin", "null"), ("host", "a:1")], false),
            (&[("origin", "http://a:1")], false),
        ] {
            assert_eq!(check(&fields(all)).is_ok(), passes, "{all:?}");
        }
    }

    #[test]
    fn s02_only_names_of_this_machine_are_local() {
        for (host, local) in [
            ("localhost", true),
            ("LOCALHOST:8080", true),
            ("127.0.0.1:8080", true),
            ("127.9.9.9", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("[::2]:8080", false),
            ("[::1]x", false),
            ("::1", false),
            ("localhost:80@evil.example", false),
            ("localhost:80:80", false),
            ("evil.example:8080", false),
            ("127.0.0.1.evil.example", false),
            ("10.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(is_local(&fields(&[("host", host)])), local, "{host}");
        }
        assert!(!is_local(&HeaderMap::new()));
        let mut both = fields(&[("host", "localhost")]);
        both.append(header::HOST, HeaderValue::from_static("evil.example"));
        assert!(!is_local(&both));
    }
}
