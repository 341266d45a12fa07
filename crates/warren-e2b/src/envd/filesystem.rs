//! The service `filesystem.Filesystem`: looks at files, moves and removes them, and watches
//! directories.

mod calls;
mod changes;
mod entry;
mod watchers;

use axum::extract::Request;
use axum::response::Response;
use warren_engine::EngineError;
use warren_wire::guest::ByteString;

use super::Visitor;
use super::path::Named;
use super::rpc::{RpcError, server_stream, unary};
use super::visitor::is_unknown_user;
use crate::rpc::Code;

pub(crate) use watchers::Watchers;

/// The kernel's number for links that lead in a circle.
const LOOP: i32 = 40;

/// The methods of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Stat,
    MakeDir,
    Move,
    ListDir,
    Remove,
    WatchDir,
    CreateWatcher,
    GetWatcherEvents,
    RemoveWatcher,
}

/// Answers a call of one of the service's methods.
pub(super) async fn answer(visitor: Visitor, method: Method, request: Request) -> Response {
    let of = &visitor;
    match method {
        Method::Stat => unary(of, request, |message| calls::stat(of, message)).await,
        Method::MakeDir => unary(of, request, |message| calls::make_dir(of, message)).await,
        Method::Move => unary(of, request, |message| calls::rename(of, message)).await,
        Method::ListDir => unary(of, request, |message| calls::list_dir(of, message)).await,
        Method::Remove => unary(of, request, |message| calls::remove(of, message)).await,
        Method::WatchDir => server_stream(of, request, |message| changes::watch_dir(of, message)).await,
        Method::CreateWatcher => unary(of, request, |message| watchers::create(of, message)).await,
        Method::GetWatcherEvents => unary(of, request, |message| watchers::events(of, message)).await,
        Method::RemoveWatcher => unary(of, request, async |message| watchers::remove(of, &message)).await,
    }
}

/// As the agent takes a path that a client wrote.
fn place(visitor: &Visitor, text: &str) -> Result<ByteString, RpcError> {
    let named = Named::read(text).map_err(|error| RpcError::invalid(error.to_string()))?;
    Ok(visitor.place(named))
}

/// An error as these clients know it.
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
