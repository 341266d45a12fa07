//! Files of a sandbox.

pub(crate) mod change;
pub(crate) mod look;
pub(crate) mod pack;
pub(crate) mod transfer;
pub(crate) mod unpack;

use warren_face::error::ApiError;
use warren_wire::guest::{ByteString, FileCall, FileOperation};

use crate::convert;
use crate::extract::Params;

/// The file that the query names.
fn named(params: &Params, field: &'static str) -> Result<ByteString, ApiError> {
    let given =
        params.text(field).ok_or_else(|| ApiError::invalid(field, format!("`{field}` is missing")))?;
    convert::path(field, given)
}

/// A call with the rights of the user that the query names.
fn call(params: &Params, operation: FileOperation) -> Result<FileCall, ApiError> {
    Ok(FileCall { user: convert::user(params.text("user"))?, operation, as_root: None })
}
