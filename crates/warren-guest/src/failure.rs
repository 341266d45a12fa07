use std::fmt::Display;

use rustix::io::Errno;
use warren_wire::guest::{Failure, FailureCode};

/// A refusal with no error of the kernel behind it.
pub(crate) fn refuse(code: FailureCode, message: impl Into<String>) -> Failure {
    Failure::new(code, message)
}

/// A refusal because the kernel refused `action`.
pub(crate) fn kernel(action: impl Display, errno: Errno) -> Failure {
    kernel_as(code_of(errno), action, errno)
}

/// As [`kernel`], where the caller knows better what the error means here.
pub(crate) fn kernel_as(code: FailureCode, action: impl Display, errno: Errno) -> Failure {
    let reason = std::io::Error::from(errno);
    Failure::of_kernel(code, format!("{action}: {reason}"), errno.raw_os_error())
}

fn code_of(errno: Errno) -> FailureCode {
    match errno {
        Errno::NOENT | Errno::SRCH => FailureCode::NotFound,
        Errno::EXIST => FailureCode::AlreadyExists,
        Errno::ACCESS | Errno::PERM => FailureCode::PermissionDenied,
        Errno::NOTDIR | Errno::ISDIR | Errno::NOEXEC => FailureCode::WrongKind,
        Errno::INVAL | Errno::TOOBIG | Errno::NAMETOOLONG | Errno::LOOP => FailureCode::Invalid,
        Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::NOSPC => FailureCode::Exhausted,
        _ => FailureCode::Io,
    }
}
