//! Holds every answer that any test sees against the OpenAPI document: its status, its media type
//! and its body.

use std::sync::LazyLock;

use serde_json::Value;

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../../openapi/warren-v1.json")).unwrap());

/// # Panics
///
/// If the document does not know such an answer. Routes that it does not have are no business of
/// its.
pub(crate) fn check(method: &str, target: &str, status: u16, media_type: Option<&str>, body: &[u8]) {
    // Refused below every route, by whoever reads the head.
    if status == 431 {
        return;
    }
    let path = target.split('?').next().unwrap_or_default();
    let Some(operation) = operation(method, path) else { return };
    let responses = operation["responses"].as_object().unwrap();
    let Some(response) = responses.get(&status.to_string()) else {
        panic!(
            "{method} {path} answered {status}, which is not documented: {}",
            String::from_utf8_lossy(body)
        );
    };
    let content = followed(response)["content"].as_object();
    let media_type = media_type.unwrap_or_default().split(';').next().unwrap_or_default();
    match content {
        _ if method == "HEAD" => {}
        None => assert!(body.is_empty(), "{method} {path} answered {status} with a body"),
        Some(content) => {
            let described = content.get(media_type);
            let described =
                described.unwrap_or_else(|| panic!("{method} {path} answered {status} as `{media_type}`"));
            if media_type.ends_with("json") && !path.ends_with("openapi.json") {
                let body = serde_json::from_slice(body).unwrap();
                let complaint = complaint(&described["schema"], &body, "$");
                assert_eq!(complaint, None, "{method} {path} answered {status}: {body}");
            }
        }
    }
}

fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let fits = |template: &str| {
        let (mut known, mut given) = (template.split('/'), path.split('/'));
        loop {
            match (known.next(), given.next()) {
                (None, None) => return true,
                (Some(known), Some(given))
                    if known == given || known.starts_with('{') && !given.is_empty() => {}
                _ => return false,
            }
        }
    };
    let exact = paths.get(path);
    let item = exact.or_else(|| paths.iter().find(|(template, _)| fits(template)).map(|(_, item)| item))?;
    item.get(method.to_ascii_lowercase())
}

fn followed(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => followed(DOCUMENT.pointer(reference.trim_start_matches('#')).unwrap()),
        None => value,
    }
}

/// The fault of a value, by the part of JSON Schema that the document uses. Patterns are left to
/// other tests.
fn complaint(schema: &'static Value, value: &Value, at: &str) -> Option<String> {
    let schema = followed(schema);
    if let Some(choices) = schema["oneOf"].as_array() {
        let fitting = choices.iter().filter(|choice| complaint(choice, value, at).is_none()).count();
        return (fitting != 1).then(|| format!("{at} fits {fitting} of {} choices", choices.len()));
    }
    let types = match &schema["type"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        Value::String(name) => vec![name.as_str()],
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_of(name, value)) {
        return Some(format!("{at} is not of type {types:?}"));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return Some(format!("{at} is not one of {}", schema["enum"]));
    }
    match value {
        Value::Object(fields) => {
            let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let missing = names.into_iter().find(|name| !fields.contains_key(*name));
            let missing = missing.map(|name| format!("{at}.{name} is missing"));
            missing.or_else(|| fields.iter().find_map(|(name, value)| field(schema, name, value, at)))
        }
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| complaint(&schema["items"], item, &format!("{at}[{index}]")))
        }
        _ => None,
    }
}

/// Answers have no field that the document does not tell of.
fn field(schema: &'static Value, name: &str, value: &Value, at: &str) -> Option<String> {
    let at = format!("{at}.{name}");
    match (schema["properties"].get(name), &schema["additionalProperties"]) {
        (Some(known), _) => complaint(known, value, &at),
        (None, Value::Null | Value::Bool(false)) if schema["properties"].is_object() => {
            Some(format!("{at} is unknown"))
        }
        (None, others) if others.is_object() => complaint(others, value, &at),
        _ => None,
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        _ => false,
    }
}
