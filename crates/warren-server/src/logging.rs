use warren_core::{KeyId, Owner};

/// Who asked, for the log line of the request.
#[derive(Debug, Clone)]
pub(crate) struct AskedBy {
    pub(crate) owner: Owner,
    pub(crate) key: Option<KeyId>,
}
