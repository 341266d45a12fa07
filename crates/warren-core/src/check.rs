use serde::Serialize;

/// One thing a backend needs of the machine, as `doctor` reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub status: CheckStatus,
    pub found: String,
    /// The next thing to do about it; empty when all is well.
    pub advice: String,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    Ok,
    /// Works, with less than the machine could offer.
    Warning,
    /// Sandboxes cannot be made.
    Failed,
}
