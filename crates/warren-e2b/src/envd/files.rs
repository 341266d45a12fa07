//! Whole files on their way in and out. Nothing is held as a whole: each side goes at the other's
//! pace.

mod coding;
mod compose;
mod download;
mod incoming;
pub(super) mod metadata;
mod parts;
mod store;
mod upload;

use http::Uri;
use warren_face::extract::Params;

use super::Visitor;
use super::door::user_of;
use super::path::{Named, PathError};
use super::refusal::Refusal;

pub(super) use compose::compose;
pub(super) use download::download;
pub(super) use upload::upload;

/// Acts as the user that the query names, or else the headers; answers the path that it names.
fn begin(visitor: &mut Visitor, uri: &Uri) -> Result<Named, Refusal> {
    let params = Params::parse(uri.query().unwrap_or_default())?;
    if let Some(user) = user_of(params.text("username").unwrap_or_default())? {
        visitor.user = Some(user);
    }
    Ok(Named::read(params.text("path").unwrap_or_default())?)
}

impl From<PathError> for Refusal {
    fn from(error: PathError) -> Self {
        Self::bad_request(error.to_string())
    }
}
