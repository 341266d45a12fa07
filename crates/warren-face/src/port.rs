//! Ports of sandboxes, as requests name them and the engine tells of them.

use warren_engine::EngineError;
use warren_wire::guest::FailureCode;

/// A port as it is written in one way only.
pub fn parse_port(text: &str) -> Option<u16> {
    let port = text.parse::<u16>().ok().filter(|port| *port > 0)?;
    (port.to_string() == text).then_some(port)
}

/// Whether nobody listens on the port, as the engine says it.
pub fn is_closed(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused(failure) if failure.code == FailureCode::NotFound)
}
