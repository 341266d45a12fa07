use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::*;

/// Compares with a file of the tree, or writes it anew.
fn assert_golden(path: &str, now: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("WARREN_BLESS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, now).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap_or_default();
    assert!(stored == now, "{path} is not current: run `make bless`, and read the difference");
}

fn parsed() -> Value {
    serde_json::from_str(text()).unwrap()
}

/// Every operation of the document as `(path, method, operation)`.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of_path = |(path, item): (&String, &Value)| {
        let path = path.clone();
        let methods = item.as_object().unwrap().clone();
        methods.into_iter().map(move |(method, operation)| (path.clone(), method, operation))
    };
    paths.iter().flat_map(of_path).collect()
}

#[test]
fn the_document_in_the_tree_is_current() {
    assert_golden("openapi/warren-v1.json", text());
}

#[test]
fn the_document_has_every_route_and_no_other() {
    let documented: BTreeSet<(String, String)> =
        operations(&parsed()).into_iter().map(|(path, method, _)| (path, method)).collect();
    let routed: BTreeSet<(String, String)> = route_table()
        .iter()
        .map(|route| (route.path.to_owned(), route.method.as_str().to_ascii_lowercase()))
        .collect();
    assert_eq!(documented, routed);
}

#[test]
fn operations_have_names_of_their_own_and_say_what_they_do() {
    let mut names = BTreeSet::new();
    for (path, method, operation) in operations(&parsed()) {
        let name = operation["operationId"].as_str().unwrap().to_owned();
        assert!(names.insert(name), "{method} {path} repeats an operation's name");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{method} {path} has no summary");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2') || status == "101"), "{method} {path}");
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = parsed();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn every_parameter_and_field_is_described() {
    let document = parsed();
    for (path, method, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let described = parameter["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(described, "{method} {path}: {parameter}");
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let generic = name.contains('_');
        assert!(generic || schema["description"].is_string(), "schema {name} is not described");
    }
}

/// Generators take a field that has a default for one that is always there, and demand it.
#[test]
fn no_field_of_a_request_has_a_default_and_none_is_null() {
    fn defaults(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(name, below)| {
                if name == "default" {
                    found.push((path.to_owned(), below.clone()));
                }
                defaults(below, &format!("{path}/{name}"), found);
            }),
            Value::Array(items) => items.iter().for_each(|below| defaults(below, path, found)),
            _ => {}
        }
    }
    let document = parsed();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for (name, schema) in schemas {
        let mut found = Vec::new();
        defaults(schema, name, &mut found);
        for (path, default) in found {
            let request = schema["additionalProperties"] == Value::Bool(false);
            assert!(!default.is_null() && !request, "{path} has the default {default}");
        }
    }
    assert_eq!(schemas["CreateSandbox"]["required"], Value::Null);
}

#[test]
fn streams_say_what_their_events_are() {
    let document = parsed();
    let mut streams = 0;
    for (path, method, operation) in operations(&document) {
        let Some(stream) = operation["responses"]["200"]["content"].get("text/event-stream") else {
            continue;
        };
        let reference = stream["schema"]["anyOf"][0]["$ref"].as_str().unwrap();
        let events = document.pointer(reference.trim_start_matches('#')).unwrap();
        for event in events["anyOf"].as_array().unwrap() {
            let event = document.pointer(event["$ref"].as_str().unwrap().trim_start_matches('#')).unwrap();
            assert_eq!(event["required"], serde_json::json!(["event", "data"]), "{method} {path}");
        }
        streams += 1;
    }
    assert!(streams >= 6, "{streams}");
    let socket = &document["paths"]["/v1/sandboxes/{sandbox_id}/stream"]["get"]["x-websocket"];
    assert_eq!(socket["client_first"]["$ref"], "#/components/schemas/StreamOpening");
}

#[test]
fn requests_refuse_what_they_do_not_know_and_bound_every_number() {
    let document = parsed();
    for (path, method, operation) in operations(&document) {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let Some(reference) = schema["$ref"].as_str() else { continue };
        let body = document.pointer(reference.trim_start_matches('#')).unwrap();
        // Where a word will do as well, the other choice is the object.
        let body = body["oneOf"].get(0).unwrap_or(body);
        assert_eq!(body["additionalProperties"], Value::Bool(false), "{method} {path}");
        for (field, schema) in body["properties"].as_object().unwrap() {
            let kind = &schema["type"];
            let number = ["integer", "number"].iter().any(|name| *kind == **name || kind[0] == **name);
            assert!(!number || schema["maximum"].is_number(), "{method} {path}: {field} has no upper end");
        }
    }
}
