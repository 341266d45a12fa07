use warren_core::catalog::CatalogError;
use warren_core::{Activity, Field, NetworkErrorKind, PolicyField, Request, Status, Verdict, decide};
use warren_engine::EngineError;

use super::merge::with_conflicts;
use super::{ApiError, Code, name_of};

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let code = error.code();
        if code == Code::Internal {
            return Self::internal(error);
        }
        if let EngineError::Invalid { field, wording } = &error {
            return Self::of_field(field, wording, "");
        }
        let told = Self::new(code, error.told());
        let told = match &error {
            EngineError::Denied { status, .. } => told.state(word(status), allowed_in(*status)),
            EngineError::SessionState { state, .. } => told.state(word(state), Vec::new()),
            EngineError::RunDenied(reason) => told.state(word(reason), Vec::new()),
            EngineError::Network { source, .. } if source.kind == NetworkErrorKind::NoSecret => {
                told.field(&name_of(&Field::Network(PolicyField::Secrets)))
            }
            EngineError::NothingFits { asked: Some(field), .. } => told.field(&name_of(field)),
            EngineError::MergeConflict { into, conflicts } => with_conflicts(told, into, conflicts),
            _ => told,
        };
        told.caused_by(error)
    }
}

impl From<CatalogError> for ApiError {
    fn from(error: CatalogError) -> Self {
        EngineError::from(error).into()
    }
}

/// The requests that a client may make to a sandbox in this state.
fn allowed_in(status: Status) -> Vec<String> {
    const ASKED_BY_CLIENTS: [Request; 6] = [
        Request::Execute,
        Request::ReadFiles,
        Request::WriteFiles,
        Request::Pause,
        Request::Resume,
        Request::Stop,
    ];
    let allowed =
        |request: &Request| !matches!(decide(status, Activity::default(), *request), Verdict::Denied(_));
    ASKED_BY_CLIENTS.iter().filter(|request| allowed(request)).map(word).collect()
}

/// A unit variant as it is written on the wire.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_sandbox_says_what_it_allows() {
        assert_eq!(allowed_in(Status::Paused), ["pause", "resume", "stop"]);
    }

    #[test]
    fn a_missing_sandbox_is_not_found() {
        let error = ApiError::from(EngineError::sandbox_not_found("sbx1"));
        assert_eq!((error.status().as_u16(), error.problem().code.as_str()), (404, "sandbox_not_found"));
    }
}
