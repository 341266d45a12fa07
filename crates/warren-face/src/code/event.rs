use serde::Deserialize;
use warren_wire::api;

/// A message of the service about an execution.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    NumberOfExecutions {
        execution_count: u64,
    },
    Stdout(api::CodeText),
    Stderr(api::CodeText),
    Result(Box<api::CodeOutput>),
    Error(api::CodeError),
    EndOfExecution {
        #[serde(default)]
        timed_out: bool,
    },
    /// That it is still there, or something that nobody here knows.
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_service_are_events() {
        let read = |text: &str| serde_json::from_str::<Event>(text).unwrap();
        let text = |text: &str| api::CodeText { text: text.to_owned() };
        assert_eq!(
            read(r#"{"type":"stdout","text":"a","timestamp":"2024-01-01T00:00:00Z"}"#),
            Event::Stdout(text("a"))
        );
        let counted = Event::NumberOfExecutions { execution_count: 3 };
        assert_eq!(read(r#"{"type":"number_of_executions","execution_count":3}"#), counted);
        let output =
            api::CodeOutput { text: Some("42".to_owned()), is_main: true, ..api::CodeOutput::default() };
        let result = Event::Result(Box::new(output));
        assert_eq!(read(r#"{"type":"result","text":"42","is_main_result":true}"#), result);
        assert_eq!(read(r#"{"type":"end_of_execution"}"#), Event::EndOfExecution { timed_out: false });
        assert_eq!(read(r#"{"type":"keepalive"}"#), Event::Unknown);
        for wrong in ["{}", "[]", r#"{"type":"stdout","text":5}"#, r#"{"type":"stdout"}"#, ""] {
            assert!(serde_json::from_str::<Event>(wrong).is_err(), "{wrong}");
        }
    }
}
