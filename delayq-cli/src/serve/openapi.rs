//! The document of the API, as it is served; that it says what the routes do is tested.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;

const DOCUMENT: &str = include_str!("openapi.json");

/// `GET /api/v1/openapi.json`.
pub(super) async fn document() -> Response {
    let mut response = Response::new(Body::from(DOCUMENT));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::super::roles::Access;
    use super::super::routes::ROUTES;
    use super::*;

    fn document() -> Value {
        serde_json::from_str(DOCUMENT).expect("it is JSON")
    }

    /// What one operation of the document says: method, path, name, who may.
    type Operation = (String, String, String, String);

    #[test]
    fn s06_the_document_has_each_route_with_its_role_and_no_other() {
        let document = document();
        let mut said: BTreeSet<Operation> = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let role = text(&operation["x-role"]);
                let is_open = operation["security"] == serde_json::json!([]);
                assert_eq!(is_open, role == "open", "{method} {path}");
                said.insert((method.to_uppercase(), path.clone(), text(&operation["operationId"]), role));
            }
        }
        let routes: BTreeSet<Operation> = ROUTES
            .iter()
            .map(|route| {
                let role = match route.access {
                    Access::Open => "open",
                    Access::Metrics | Access::Reader => "reader",
                    Access::Operator => "operator",
                };
                let [method, path, name, role] =
                    [route.verb.as_str(), route.path, route.operation, role].map(str::to_owned);
                (method, path, name, role)
            })
            .collect();
        assert_eq!(said, routes);
    }

    #[test]
    fn each_reference_leads_somewhere_and_each_part_of_a_path_is_explained() {
        let document = document();
        let mut open = vec![&document];
        while let Some(value) = open.pop() {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(reference)) = fields.get("$ref") {
                        let pointer = reference.trim_start_matches('#');
                        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
                    }
                    open.extend(fields.values());
                }
                Value::Array(values) => open.extend(values),
                _ => {}
            }
        }
        for route in ROUTES {
            let method = route.verb.as_str().to_lowercase();
            let operation = &document["paths"][route.path][&method];
            let mut names: BTreeSet<&str> = BTreeSet::new();
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let parameter = match parameter["$ref"].as_str() {
                    Some(reference) => document.pointer(reference.trim_start_matches('#')).expect("it was checked"),
                    None => parameter,
                };
                if parameter["in"] == "path" {
                    names.extend(parameter["name"].as_str());
                }
            }
            let in_path: BTreeSet<&str> = route
                .path
                .split('/')
                .filter_map(|part| part.strip_prefix('{').and_then(|part| part.strip_suffix('}')))
                .collect();
            assert_eq!(names, in_path, "{method} {}", route.path);
            assert!(operation["responses"].as_object().is_some_and(|all| all.keys().any(|code| code.starts_with('2'))));
        }
    }

    #[test]
    fn its_version_is_the_program_s() {
        assert_eq!(document()["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
