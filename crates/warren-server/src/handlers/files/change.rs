use http::StatusCode;
use warren_engine::Sandbox;
use warren_face::error::ApiError;
use warren_wire::api;
use warren_wire::guest::{FileCall, FileOperation};

use super::{call, named};
use crate::convert;
use crate::extract::{Json, Params, SandboxPath};

type Answer = Result<StatusCode, ApiError>;

pub(crate) async fn remove(SandboxPath(sandbox): SandboxPath, params: Params) -> Answer {
    let (path, recursive) = (named(&params, "path")?, params.flag("recursive")?);
    make(&sandbox, call(&params, FileOperation::Remove { path, recursive })?).await
}

pub(crate) async fn make_directory(
    SandboxPath(sandbox): SandboxPath,
    Json(body): Json<api::MakeDirectory>,
) -> Answer {
    let operation = FileOperation::MakeDirectory {
        path: convert::path("path", &body.path)?,
        permissions: body.mode.as_deref().map(convert::mode).transpose()?,
        parents: body.parents,
    };
    make_as(&sandbox, body.user, operation).await
}

pub(crate) async fn rename(SandboxPath(sandbox): SandboxPath, Json(body): Json<api::MoveFile>) -> Answer {
    let (from, to) = (convert::path("from", &body.from)?, convert::path("to", &body.to)?);
    make_as(&sandbox, body.user, FileOperation::Rename { from, to }).await
}

pub(crate) async fn set_mode(SandboxPath(sandbox): SandboxPath, Json(body): Json<api::ChangeMode>) -> Answer {
    let (path, permissions) = (convert::path("path", &body.path)?, convert::mode(&body.mode)?);
    make_as(&sandbox, body.user, FileOperation::SetPermissions { path, permissions }).await
}

pub(crate) async fn set_owner(
    SandboxPath(sandbox): SandboxPath,
    Json(body): Json<api::ChangeOwner>,
) -> Answer {
    let (path, owner) = (convert::path("path", &body.path)?, convert::name("owner", &body.owner)?);
    make_as(&sandbox, body.user, FileOperation::SetOwner { path, owner }).await
}

pub(crate) async fn make_symlink(
    SandboxPath(sandbox): SandboxPath,
    Json(body): Json<api::MakeSymlink>,
) -> Answer {
    let (path, target) = (convert::path("path", &body.path)?, convert::path("target", &body.target)?);
    make_as(&sandbox, body.user, FileOperation::MakeSymlink { path, target }).await
}

async fn make_as(sandbox: &Sandbox, user: Option<String>, operation: FileOperation) -> Answer {
    let user = convert::user(user.as_deref())?;
    make(sandbox, FileCall { user, operation, as_root: None }).await
}

async fn make(sandbox: &Sandbox, call: FileCall) -> Answer {
    sandbox.files().call(call).await?;
    Ok(StatusCode::NO_CONTENT)
}
