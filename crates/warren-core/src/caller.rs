use crate::{KeyId, Owner, Scope};

/// The name that the engine's own work goes by.
const ENGINE: &str = "the engine";

/// The one who asks for something. Made where a request comes in and passed on with it: journal
/// entries, events, certificates and log lines take their names from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The owner of what is looked at: the key's own, or the one that an administrator acts for.
    pub owner: Owner,
    /// Absent where the server asks for no key, and in what the engine does by itself.
    pub key: Option<KeyId>,
    pub scope: Scope,
    /// The name that sessions, the journal and death certificates know the caller by.
    pub name: String,
    /// The request's id, as the answer and the log tell it.
    pub request: Option<String>,
    /// The id of the trace that the request is part of.
    pub trace: Option<String>,
}

impl Caller {
    /// A caller without a key, who may do everything with the owner's things.
    pub fn new(owner: Owner, name: impl Into<String>) -> Self {
        Self { owner, key: None, scope: Scope::Admin, name: name.into(), request: None, trace: None }
    }

    /// The engine itself, at work on an owner's things.
    pub fn engine(owner: &Owner) -> Self {
        Self::new(owner.clone(), ENGINE)
    }

    /// The same caller, through something that has a name of its own.
    #[must_use]
    pub fn named(&self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self.clone() }
    }
}
