//! Every field of every JSON body, given what it cannot be. The cases are made from the OpenAPI
//! document, so that the document and the server agree.

use serde_json::{Map, Value, json};

use crate::support::TestServer;

const SOME_SANDBOX: &str = "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa";
const SOME_SNAPSHOT: &str = "snap-00000000-0000-4000-8000-000000000000";

/// The operations with a JSON body, each with a path that can be asked for.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if schema.is_object() {
                let path = path
                    .replace("{sandbox_id}", SOME_SANDBOX)
                    .replace("{session_id}", "sess-00000000-0000-4000-8000-000000000000")
                    .replace("{snapshot_id}", SOME_SNAPSHOT)
                    .replace("{number}", "1")
                    .replace("{port}", "80")
                    .replace("{secret}", "token")
                    .replace("{tool}", "ls")
                    .replace("{process}", "1");
                found.push((method.to_uppercase(), path, resolved(document, schema).clone()));
            }
        }
    }
    found
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let one = schema["oneOf"].as_array().and_then(|all| all.iter().find(|schema| schema["type"] != "null"));
    match one.unwrap_or(schema) {
        schema if schema["$ref"].is_string() => {
            let pointer = schema["$ref"].as_str().unwrap().trim_start_matches('#');
            resolved(document, document.pointer(pointer).unwrap())
        }
        schema => schema,
    }
}

/// The type of a field, besides null.
fn kind(schema: &Value) -> &str {
    let names = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    let name = names.into_iter().find(|name| *name != "null").unwrap_or_default();
    ["string", "integer", "number", "boolean", "object", "array"]
        .into_iter()
        .find(|kind| name == *kind)
        .unwrap_or("any")
}

/// A value that fits a required field.
fn fitting(document: &Value, name: &str, schema: &Value) -> Value {
    let schema = resolved(document, schema);
    match (name, kind(schema)) {
        ("sandbox_id", _) => json!(SOME_SANDBOX),
        ("snapshot_id", _) => json!(SOME_SNAPSHOT),
        ("mode", _) if !schema["enum"].is_array() => json!("0644"),
        ("signal", _) => json!("TERM"),
        ("command", _) => json!(["true"]),
        (_, "string") if schema["enum"].is_array() => schema["enum"][0].clone(),
        (_, "string") => json!("x"),
        (_, "array") => json!(["x"]),
        _ => json!(1),
    }
}

fn required(document: &Value, schema: &Value) -> Map<String, Value> {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.map(|name| (name.to_owned(), fitting(document, name, &schema["properties"][name]))).collect()
}

/// Values that the schema of a field does not allow.
fn wrong(schema: &Value) -> Vec<Value> {
    let mut values = match kind(schema) {
        "string" => vec![json!(7), json!(["x"])],
        "integer" => vec![json!("7"), json!(1.5), json!(-1)],
        "number" => vec![json!("7"), json!(-1)],
        "boolean" => vec![json!("yes"), json!(1)],
        "object" => vec![json!(7), json!("x"), json!([])],
        "array" => vec![json!(7), json!({"x": 1})],
        _ => vec![json!(true)],
    };
    if schema["enum"].is_array() {
        values.push(json!("no-such-word"));
    }
    let exact = 1 << 53;
    values.extend(schema["minimum"].as_u64().filter(|least| *least >= 1).map(|least| json!(least - 1)));
    values.extend(schema["maximum"].as_u64().filter(|most| *most + 1 < exact).map(|most| json!(most + 1)));
    let longest = schema["maxLength"].as_u64().filter(|most| *most < 100_000);
    values.extend(longest.map(|most| json!("x".repeat(usize::try_from(most).unwrap() + 1))));
    values
}

#[test]
fn a_wrong_value_in_any_field_is_refused_by_its_name() {
    let server = TestServer::start();
    let document = server.stranger("GET", "/v1/openapi.json").send().expect(200).json();
    let mut tried = 0;
    for (method, path, schema) in operations(&document) {
        for (name, field) in schema["properties"].as_object().unwrap() {
            for value in wrong(resolved(&document, field)) {
                let mut body = required(&document, &schema);
                body.insert(name.clone(), value);
                let body = Value::Object(body);
                let answer = server.call(&method, &path).json(&body).send();
                // A value of the right type may only be judged once the thing exists.
                if answer.status == 404 && path.contains('1') {
                    continue;
                }
                let answer = answer.expect(422).json();
                let blamed = answer["field"].as_str().unwrap_or_default();
                assert!(
                    blamed == name || blamed.starts_with(&format!("{name}.")),
                    "{method} {path} {body}: {answer}"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 150, "{tried}");
}

#[test]
fn a_field_that_nobody_knows_is_refused_by_its_name() {
    let server = TestServer::start();
    let document = server.stranger("GET", "/v1/openapi.json").send().expect(200).json();
    for (method, path, schema) in operations(&document) {
        let mut body = required(&document, &schema);
        body.insert("surprise".to_owned(), json!(1));
        let answer = server.call(&method, &path).json(&Value::Object(body)).send().expect(422).json();
        assert_eq!(answer["field"], "surprise", "{method} {path}: {answer}");
    }
}

#[test]
fn a_missing_field_is_refused_by_its_name() {
    let server = TestServer::start();
    let document = server.stranger("GET", "/v1/openapi.json").send().expect(200).json();
    for (method, path, schema) in operations(&document) {
        let whole = required(&document, &schema);
        for name in whole.keys() {
            let mut body = whole.clone();
            body.remove(name);
            let answer = server.call(&method, &path).json(&Value::Object(body)).send().expect(422).json();
            assert_eq!(answer["field"], **name, "{method} {path}: {answer}");
        }
    }
}

#[test]
fn what_is_no_json_is_refused_before_anything_is_done() {
    let server = TestServer::start();
    let send = |kind: &str, body: &[u8]| {
        server.call("POST", "/v1/sandboxes").header("Content-Type", kind).body(body).send()
    };
    let json = "application/json";
    let deep = [b"{\"labels\":".repeat(500), b"{}".to_vec(), b"}".repeat(500)].concat();
    let bodies: [&[u8]; 6] =
        [b"", b"{", b"{}{}", b"\xef\xbb\xbf{}", b"{\"template\": \"\xff\"}", &[b'['; 5000]];
    for body in bodies {
        let code = send(json, body).expect(400).code();
        assert_eq!(code, "invalid_request", "{:?}", String::from_utf8_lossy(body));
    }
    assert!([400, 422].contains(&send(json, &deep).status));
    for body in ["[]", "7", "null", "\"x\""] {
        send(json, body.as_bytes()).expect(422);
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"] {
        assert_eq!(send(kind, b"{}").expect(415).code(), "unsupported_media_type");
    }
    server.call("POST", "/v1/sandboxes").body(*b"{}").send().expect(415);
    let large = format!("{{\"metadata\": {{\"a\": \"{}\"}}}}", "x".repeat(2 << 20));
    assert_eq!(send(json, large.as_bytes()).expect(413).code(), "payload_too_large");
    let list = server.call("GET", "/v1/sandboxes?ended=true").send().expect(200).json();
    assert_eq!(list["items"], json!([]));
}
