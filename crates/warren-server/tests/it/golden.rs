//! Whole answers, kept in the tree: what a client sees changes only where somebody has read the
//! difference.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

/// Compares an answer with `golden/<name>.json`, or with `WARREN_BLESS=1` writes it anew. Ids and
/// times that no two runs share are told by their kind alone.
pub(crate) fn assert_golden(name: &str, mut answer: Value) {
    blur(&mut answer);
    let now = format!("{}\n", serde_json::to_string_pretty(&answer).unwrap());
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(format!("{name}.json"));
    if std::env::var_os("WARREN_BLESS").is_some() {
        fs::write(&file, &now).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(stored, now, "golden/{name}.json differs: if that is meant, run `make bless`");
}

/// Takes out what differs from run to run.
pub(crate) fn blur(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(blur),
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "made_in_ms" | "took_ms" | "frozen_ms" | "duration_ms" | "uptime_s"
                        if value.is_number() =>
                    {
                        *value = 0.into()
                    }
                    "mcp_url" => {
                        let place = value.as_str().and_then(|url| url.split_once("/mcp/"));
                        let place = place.map(|(_, place)| blurred(place)).unwrap_or_default();
                        *value = format!("SERVER/mcp/{place}").into();
                    }
                    "version" => *value = "VERSION".into(),
                    _ => blur(value),
                }
            }
        }
        Value::String(text) => *text = blurred(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A text with its ids replaced.
fn blurred(text: &str) -> String {
    let kinds = [
        ("sbx", 29, "SANDBOX"),
        ("sess-", 41, "SESSION"),
        ("snap-", 41, "SNAPSHOT"),
        ("run-", 40, "RUN"),
        ("key-", 40, "KEY"),
        ("req-", 28, "REQUEST"),
    ];
    let mut result = text.to_owned();
    for (prefix, length, word) in kinds {
        while let Some(at) = result.find(prefix) {
            let Some(id) = result.get(at..at + length).map(ToOwned::to_owned) else { break };
            if !id[prefix.len()..]
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            {
                break;
            }
            result = result.replace(&id, word);
        }
    }
    result
}
