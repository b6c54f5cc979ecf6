//! What a request says, read with all care: path, query, and a body of JSON.

use std::collections::HashSet;
use std::error::Error as _;
use std::fmt;

use axum::RequestPartsExt;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use delayq::JobId;
use http_body_util::LengthLimitError;
use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::App;
use super::problem::Problem;

/// The query of a request. What it doesn't know is an error.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Params<T>, Problem> {
        let read = Query::<T>::try_from_uri(&parts.uri);
        read.map(|Query(params)| Params(params)).map_err(|rejection| Problem::bad_request(rejection.body_text()))
    }
}

/// The one part of a path that has a name.
#[derive(Debug)]
pub(super) struct Segment(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Segment, Problem> {
        let read = parts.extract::<Path<String>>().await;
        read.map(|Path(text)| Segment(text)).map_err(|rejection| Problem::bad_request(rejection.body_text()))
    }
}

/// The id in a path.
#[derive(Debug)]
pub(super) struct Id(pub(super) JobId);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id, Problem> {
        let Segment(text) = Segment::from_request_parts(parts, state).await?;
        text.parse().map(Id).map_err(|error: delayq::InvalidJobId| Problem::bad_request(error.to_string()))
    }
}

/// A body that is JSON, with no key twice in any of its objects. Payloads are in it: there is no `Debug`.
pub(super) struct Json {
    bytes: Bytes,
    /// How many items it has, where it is a list.
    items: Option<usize>,
}

impl Json {
    /// What the body says.
    pub(super) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        serde_json::from_slice(&self.bytes).map_err(|error| Problem::bad_request(error.to_string()))
    }

    /// How many items it has, where it is a list: known before any of them takes memory.
    pub(super) fn items(&self) -> Option<usize> {
        self.items
    }
}

impl FromRequest<App> for Json {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Json, Problem> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            return Err(Problem::wrong_media_type());
        }
        let limit = app.bounds.body_limit;
        // Where the length is said, nothing of a body that is too long is read.
        let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > limit as u64) {
            return Err(Problem::too_large(limit));
        }
        let bytes = tokio::time::timeout(app.bounds.patience, whole(body, limit));
        let bytes = bytes.await.unwrap_or_else(|_| Err(Problem::too_slow()))?;
        let Strict(items) = serde_json::from_slice(&bytes).map_err(|error| Problem::bad_request(error.to_string()))?;
        Ok(Json { bytes, items })
    }
}

async fn whole(body: Body, limit: usize) -> Result<Bytes, Problem> {
    to_bytes(body, limit).await.map_err(|error| {
        if error.source().is_some_and(|cause| cause.is::<LengthLimitError>()) {
            Problem::too_large(limit)
        } else {
            Problem::bad_request("the body broke off")
        }
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut fields = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else { return false };
    let text = field.to_str().unwrap_or_default();
    let (kind, parameter) = text.split_once(';').unwrap_or((text, ""));
    let parameter = parameter.trim();
    kind.trim().eq_ignore_ascii_case("application/json")
        && (parameter.is_empty() || parameter.eq_ignore_ascii_case("charset=utf-8"))
}

/// Any JSON, looked through: no key twice, and no deeper than serde_json goes, 127 levels, which is what a handler can
/// read again. Of a list the number of its items.
struct Strict(Option<usize>);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(Look)
    }
}

struct Look;

impl<'de> Visitor<'de> for Look {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Strict, E> {
        Ok(Strict(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Strict, E> {
        Ok(Strict(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Strict, E> {
        Ok(Strict(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Strict, E> {
        Ok(Strict(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Strict, E> {
        Ok(Strict(None))
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Strict, A::Error> {
        let mut items = 0;
        while list.next_element::<Strict>()?.is_some() {
            items += 1;
        }
        Ok(Strict(Some(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strict, A::Error> {
        let mut keys: HashSet<String> = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value::<Strict>()?;
            if let Some(twice) = keys.replace(key) {
                let shown: String = twice.chars().take(64).collect();
                return Err(de::Error::custom(format_args!("the key {shown:?} is there twice")));
            }
        }
        Ok(Strict(None))
    }
}

/// An answer of JSON.
pub(super) fn json(value: &impl Serialize) -> Result<axum::response::Response, Problem> {
    let text = serde_json::to_vec(value).map_err(|error| Problem::internal(error.to_string()))?;
    let mut response = axum::response::Response::new(Body::from(text));
    let json = axum::http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

/// What was given of a number, drawn into its range.
pub(super) fn clamped(given: Option<u64>, unless_given: usize, least: usize, most: usize) -> usize {
    given.map_or(unless_given, |n| usize::try_from(n).unwrap_or(most)).clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(text: &str) -> Result<(), String> {
        serde_json::from_str::<Strict>(text).map(|_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn s14_a_key_is_there_once() {
        for good in ["{}", r#"{"a":1,"b":[{"a":null},{"a":1.5e3}],"A":true}"#, "[]", "\"\\u0000\"", "-7"] {
            assert_eq!(strict(good), Ok(()), "{good}");
        }
        for twice in [r#"{"a":1,"a":1}"#, r#"{"a":{"b":[{"c":1,"d":2,"c":3}]}}"#, r#"{"a":1,"\u0061":2}"#] {
            assert!(strict(twice).is_err_and(|why| why.contains("twice")), "{twice}");
        }
        for bad in ["", "{", "[1,]", "{a:1}", "NaN", "\"\\ud800\"", "1 2", "'a'"] {
            assert!(strict(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn s13_items_are_counted_before_they_are_read() {
        let items = |text| serde_json::from_str::<Strict>(text).map(|Strict(items)| items).unwrap_or_default();
        assert_eq!(items("[]"), Some(0));
        assert_eq!(items("[{\"a\":[1,2,3]},[4,5],6]"), Some(3));
        assert_eq!(items("{\"a\":[1,2,3]}"), None);
    }

    #[test]
    fn s13_depth_has_an_end() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(strict(&nested(127)), Ok(()));
        for depth in [128, 129, 1001, 100_000] {
            assert!(strict(&nested(depth)).is_err_and(|why| why.contains("recursion")), "{depth}");
        }
    }

    #[test]
    fn s14_only_json_is_json() {
        let said = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, axum::http::HeaderValue::from_static(text));
            is_json(&headers)
        };
        for good in ["application/json", "Application/JSON; charset=utf-8", "application/json;charset=UTF-8"] {
            assert!(said(good), "{good}");
        }
        for bad in
            ["", "text/plain", "application/jsonp", "application/json; charset=latin1", "text/plain; application/json"]
        {
            assert!(!said(bad), "{bad}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }

    #[test]
    fn s12_numbers_are_drawn_into_their_range() {
        for (given, drawn) in [(None, 50), (Some(0), 1), (Some(7), 7), (Some(101), 100), (Some(u64::MAX), 100)] {
            assert_eq!(clamped(given, 50, 1, 100), drawn);
        }
    }
}
