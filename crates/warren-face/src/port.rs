//! Ports of sandboxes, as requests name them and the engine tells of them.

use http::StatusCode;
use warren_engine::EngineError;
use warren_wire::guest::FailureCode;

use crate::error::{Code, status_of};

/// A port as it is written in one way only.
pub fn parse_port(text: &str) -> Option<u16> {
    let port = text.parse::<u16>().ok().filter(|port| *port > 0)?;
    (port.to_string() == text).then_some(port)
}

/// True if the engine's error says that nobody listens on the port.
pub fn is_closed(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused(failure) if failure.code == FailureCode::NotFound)
}

/// The status at a port. A sandbox that is not there is a bad gateway, as clients of other
/// sandboxes know it.
pub fn status_at_port(code: Code) -> StatusCode {
    match code {
        Code::SandboxNotFound | Code::SandboxEnded => StatusCode::BAD_GATEWAY,
        code => status_of(code),
    }
}
