use std::collections::BTreeMap;

use serde_json::Value;
use warren_core::EventRecord;
use warren_wire::api;

use super::rfc3339;

pub(crate) fn event(record: &EventRecord) -> api::Event {
    let mut data: BTreeMap<String, Value> = match serde_json::to_value(&record.event) {
        Ok(Value::Object(map)) => map.into_iter().collect(),
        _ => BTreeMap::new(),
    };
    let word = match data.remove("event") {
        Some(Value::String(word)) => word,
        _ => String::new(),
    };
    api::Event {
        number: record.number,
        at: rfc3339(record.at_unix_ms),
        event: word,
        sandbox_id: record.sandbox.as_ref().map(ToString::to_string),
        session_id: record.session.as_ref().map(ToString::to_string),
        data,
    }
}

#[cfg(test)]
mod tests {
    use warren_core::{DeathCause, Event, Owner};

    use super::*;

    #[test]
    fn the_word_stands_apart_from_what_belongs_to_it() {
        let record = EventRecord {
            number: 7,
            at_unix_ms: 0,
            owner: Owner::first(),
            sandbox: None,
            session: None,
            event: Event::SandboxDied {
                cause: DeathCause::Killed { by: "ci".into() },
                detail: "gone".into(),
                files_kept: false,
            },
        };
        let body = serde_json::to_value(event(&record)).unwrap();
        let expected = serde_json::json!({
            "number": 7,
            "at": "1970-01-01T00:00:00.000Z",
            "event": "sandbox_died",
            "data": {"cause": {"kind": "killed", "by": "ci"}, "detail": "gone", "files_kept": false},
        });
        assert_eq!(body, expected);
    }
}
