use std::error::Error;

/// A port could not do what was asked. Callers branch on the kind and never on the text.
#[derive(Debug, thiserror::Error)]
#[error("{action}")]
pub struct Failure<Kind> {
    pub kind: Kind,
    /// The thing that was being done, to which object.
    pub action: String,
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl<Kind> Failure<Kind> {
    pub fn new(kind: Kind, action: impl Into<String>) -> Self {
        Self { kind, action: action.into(), source: None }
    }

    pub fn caused(
        kind: Kind,
        action: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { kind, action: action.into(), source: Some(source.into()) }
    }
}
