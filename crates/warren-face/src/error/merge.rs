use std::os::unix::ffi::OsStrExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use warren_core::{ChangeKind, Conflict, SandboxId};
use warren_wire::api;

use super::ApiError;

/// Conflicts of a merge that are told in one answer.
const MOST_CONFLICTS: usize = 1000;

/// Tells the paths in `details`, as many as one answer should hold.
pub(super) fn with_conflicts(told: ApiError, into: &SandboxId, conflicts: &[Conflict]) -> ApiError {
    let paths: Vec<_> = conflicts.iter().take(MOST_CONFLICTS).map(conflict).collect();
    told.detail("into", into)
        .detail("conflicts", &paths)
        .detail("truncated", &(conflicts.len() > MOST_CONFLICTS))
}

/// One path that both sides of a merge changed.
pub fn conflict(conflict: &Conflict) -> api::Conflict {
    let (path, path_base64) = path_as_text(conflict.path.as_os_str().as_bytes());
    api::Conflict {
        path,
        path_base64,
        ours: change_kind(conflict.ours),
        theirs: change_kind(conflict.theirs),
    }
}

/// A path as bodies write it: as text, and in base64 if it is not UTF-8.
pub fn path_as_text(bytes: &[u8]) -> (String, Option<String>) {
    let base64 = std::str::from_utf8(bytes).is_err().then(|| STANDARD.encode(bytes));
    (String::from_utf8_lossy(bytes).into_owned(), base64)
}

pub fn change_kind(kind: ChangeKind) -> api::DiffKind {
    match kind {
        ChangeKind::Added => api::DiffKind::Added,
        ChangeKind::Changed => api::DiffKind::Changed,
        ChangeKind::Removed => api::DiffKind::Removed,
    }
}
