//! The service `filesystem.Filesystem`: looks at files, moves and removes them, and watches directories.

mod calls;
mod changes;
mod entry;
mod watchers;

use axum::extract::Request;
use axum::response::Response;
use http::StatusCode;
use warren_e2b::rpc::Code;
use warren_engine::EngineError;
use warren_wire::guest::ByteString;

use super::Visitor;
use super::path::Named;
use super::refusal::Refusal;
use super::rpc::{RpcError, server_stream, unary};
use super::visitor::is_unknown_user;

pub(crate) use watchers::Watchers;

/// The kernel's number for links that lead in a circle.
const LOOP: i32 = 40;

/// Answers a call of one of the service's methods.
pub(super) async fn answer(visitor: Visitor, method: &str, request: Request) -> Response {
    let of = &visitor;
    match method {
        "Stat" => unary(of, request, |message| calls::stat(of, message)).await,
        "MakeDir" => unary(of, request, |message| calls::make_dir(of, message)).await,
        "Move" => unary(of, request, |message| calls::rename(of, message)).await,
        "ListDir" => unary(of, request, |message| calls::list_dir(of, message)).await,
        "Remove" => unary(of, request, |message| calls::remove(of, message)).await,
        "WatchDir" => server_stream(of, request, |message| changes::watch_dir(of, message)).await,
        "CreateWatcher" => unary(of, request, |message| watchers::create(of, message)).await,
        "GetWatcherEvents" => unary(of, request, |message| watchers::events(of, message)).await,
        "RemoveWatcher" => unary(of, request, async |message| watchers::remove(of, &message)).await,
        _ => Refusal::new(StatusCode::NOT_FOUND, format!("there is no method {method}")).plain(),
    }
}

/// As the agent takes a path that a client wrote.
fn place(visitor: &Visitor, text: &str) -> Result<ByteString, RpcError> {
    let named = Named::read(text).map_err(|error| RpcError::invalid(error.to_string()))?;
    Ok(visitor.place(named))
}

/// What an error is to these clients.
fn fault(visitor: &Visitor, error: EngineError) -> RpcError {
    if is_unknown_user(&error) {
        let message = format!("invalid username: '{}'", visitor.user_name());
        return RpcError::new(Code::Unauthenticated, message);
    }
    match error {
        EngineError::Refused(failure) if failure.errno == Some(LOOP) => {
            RpcError::new(Code::FailedPrecondition, failure.message)
        }
        error => error.into(),
    }
}
