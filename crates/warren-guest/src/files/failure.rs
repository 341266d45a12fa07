//! From the kernel's error numbers to the protocol's typed refusals.

use std::path::Path;

use rustix::io::Errno;
use warren_wire::guest::{Failure, FailureCode};

/// Why a call ends before its last answer.
#[derive(Debug)]
pub(super) enum Stop {
    /// The host has closed the connection: there is nobody to tell.
    Gone,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The refusal for an error of the kernel while `action` was done to `path`.
pub(super) fn refused(action: &str, path: &Path, errno: Errno) -> Failure {
    let message = format!("{action} `{}`: {}", path.display(), reason(errno));
    Failure::of_kernel(code_of(errno), message, errno.raw_os_error())
}

/// A refusal that is the agent's own, with the reason in words.
pub(super) fn denied(code: FailureCode, action: &str, path: &Path, reason: &str) -> Failure {
    Failure::new(code, format!("{action} `{}`: {reason}", path.display()))
}

/// A request that makes no sense.
pub(super) fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(FailureCode::Invalid, message)
}

fn code_of(errno: Errno) -> FailureCode {
    match errno {
        Errno::NOENT => FailureCode::NotFound,
        Errno::EXIST => FailureCode::AlreadyExists,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => FailureCode::PermissionDenied,
        Errno::ISDIR
        | Errno::NOTDIR
        | Errno::NOTEMPTY
        | Errno::LOOP
        | Errno::XDEV
        | Errno::BUSY
        | Errno::TXTBSY
        | Errno::NXIO
        | Errno::NODEV => FailureCode::WrongKind,
        Errno::NOSPC
        | Errno::DQUOT
        | Errno::MFILE
        | Errno::NFILE
        | Errno::NOMEM
        | Errno::FBIG
        | Errno::MLINK => FailureCode::Exhausted,
        Errno::INVAL | Errno::NAMETOOLONG => FailureCode::Invalid,
        _ => FailureCode::Io,
    }
}

/// The system's own words, in the lower case of our messages and without its number, which has a
/// field.
fn reason(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    let mut letters = words.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_reads_alone() {
        let failure = refused("read", Path::new("/x/y"), Errno::NOENT);
        assert_eq!(failure.message, "read `/x/y`: no such file or directory");
        assert_eq!((failure.code, failure.errno), (FailureCode::NotFound, Some(2)));
    }

    #[test]
    fn every_class_of_error_has_its_code() {
        for (errno, code) in [
            (Errno::EXIST, FailureCode::AlreadyExists),
            (Errno::ACCESS, FailureCode::PermissionDenied),
            (Errno::PERM, FailureCode::PermissionDenied),
            (Errno::ISDIR, FailureCode::WrongKind),
            (Errno::NOTDIR, FailureCode::WrongKind),
            (Errno::NOSPC, FailureCode::Exhausted),
            (Errno::DQUOT, FailureCode::Exhausted),
            (Errno::MFILE, FailureCode::Exhausted),
            (Errno::NAMETOOLONG, FailureCode::Invalid),
            (Errno::XDEV, FailureCode::WrongKind),
            (Errno::NOTEMPTY, FailureCode::WrongKind),
            (Errno::LOOP, FailureCode::WrongKind),
            (Errno::ROFS, FailureCode::PermissionDenied),
            (Errno::IO, FailureCode::Io),
        ] {
            assert_eq!(code_of(errno), code, "{errno:?}");
        }
    }
}
