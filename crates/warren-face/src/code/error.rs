use warren_core::SandboxId;
use warren_engine::EngineError;

use crate::error::{ApiError, Code};

/// Why code could not be run, as far as it is not the code's own fault.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("start the code service in sandbox {sandbox}: {said}")]
    Start {
        sandbox: SandboxId,
        /// The text that it wrote before it ended.
        said: String,
    },
    #[error("the code service of sandbox {sandbox} did not answer in time")]
    Silent { sandbox: SandboxId },
    #[error("the code service of sandbox {sandbox} gave an answer that is none")]
    Garbled {
        sandbox: SandboxId,
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// A refusal of the service, in its words. `field` is the one of the request that is wrong; a
    /// service that an older server started does not say it.
    #[error("{said}")]
    Refused { status: u16, field: Option<String>, said: String },
}

/// The fields that the service names, and what they are called in `/v1`.
const FIELDS: [(&str, &str); 4] =
    [("code", "code"), ("cwd", "cwd"), ("env_vars", "env"), ("timeout_s", "timeout_s")];

impl From<CodeError> for ApiError {
    fn from(error: CodeError) -> Self {
        let told = error.to_string();
        match error {
            CodeError::Engine(error) => error.into(),
            CodeError::Start { said, .. } => Self::new(
                Code::Unsupported,
                format!(
                    "the sandbox cannot run code: {said}; use a template with python3 and ipykernel, such as \
                     `warren template build code-interpreter` makes"
                ),
            ),
            CodeError::Silent { .. } => Self::new(Code::TimedOut, told),
            CodeError::Garbled { source, .. } => {
                let error = Self::new(Code::SandboxIo, told);
                match source {
                    Some(source) => error.caused_by(source),
                    None => error,
                }
            }
            CodeError::Refused { status: 404, said, .. } => Self::new(Code::ContextNotFound, said),
            CodeError::Refused { status: 400, field: Some(field), said } => invalid(&field, &said),
            CodeError::Refused { status: 400, field: None, said } => Self::new(Code::Unsupported, said),
            CodeError::Refused { said, .. } => Self::new(Code::SandboxIo, said),
        }
    }
}

fn invalid(field: &str, said: &str) -> ApiError {
    let detail = said.strip_prefix(field).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(said);
    match FIELDS.iter().find(|(theirs, _)| *theirs == field) {
        Some((_, ours)) => ApiError::invalid(*ours, detail),
        None => ApiError::new(Code::Unsupported, said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(field: Option<&str>) -> ApiError {
        let said = "cwd: /nowhere is not a directory".to_owned();
        CodeError::Refused { status: 400, field: field.map(str::to_owned), said }.into()
    }

    #[test]
    fn a_service_of_before_names_no_field() {
        assert_eq!(refused(Some("cwd")).code(), Code::InvalidValue);
        assert_eq!(refused(None).code(), Code::Unsupported);
    }
}
