use warren_core::SandboxId;
use warren_engine::EngineError;
use warren_face::error::{ApiError, Code};

/// Why a browser did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("start a browser in sandbox {sandbox}: {said}")]
    Start {
        sandbox: SandboxId,
        /// The last words of what ended.
        said: String,
    },
    #[error("the browser of sandbox {sandbox} did not answer in time")]
    Silent { sandbox: SandboxId },
    #[error("the browser of sandbox {sandbox} gave an answer that is none: {what}")]
    Garbled { sandbox: SandboxId, what: String },
    /// An argument that the browser is not asked with.
    #[error("{reason}")]
    Argument { field: &'static str, reason: String },
    #[error("too many look on at the browser of sandbox {sandbox}")]
    Crowded { sandbox: SandboxId },
}

impl From<BrowserError> for ApiError {
    fn from(error: BrowserError) -> Self {
        let told = error.to_string();
        match error {
            BrowserError::Engine(error) => error.into(),
            BrowserError::Start { said, .. } => Self::new(
                Code::Unsupported,
                format!(
                    "the sandbox has no browser: {said}; use the template that `warren template build browser` \
                     makes"
                ),
            ),
            BrowserError::Silent { .. } => Self::new(Code::TimedOut, told),
            BrowserError::Garbled { .. } => Self::new(Code::SandboxIo, told),
            BrowserError::Argument { field, reason } => Self::invalid(field, reason),
            BrowserError::Crowded { .. } => Self::new(Code::TooManyConnections, told),
        }
    }
}
