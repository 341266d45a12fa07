//! The protocol that a client speaks with one sandbox.
//!
//! A request takes three steps: `route` says what it is for, `door` checks that the client may and
//! that the sandbox is there, and then the route's own module serves it. Beside health and figures
//! there are `files`, which moves whole files, and two services of the Connect protocol:
//! `filesystem` and `process`. Everything on files is done with root's rights and belongs to the
//! user whom the request names, as these clients expect; a sandbox's access token opens all of it.

mod cors;
mod door;
mod files;
mod filesystem;
mod path;
mod process;
mod refusal;
mod route;
mod rpc;
mod signature;
mod status;
mod visitor;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use http::StatusCode;
use warren_core::SandboxId;

use self::filesystem::Watchers;
use self::refusal::Refusal;
use self::route::{Call, FILESYSTEM};
use crate::state::E2b;

pub(crate) use route::table;
pub(crate) use visitor::Visitor;

/// The in-sandbox protocol. A clone is the same.
#[derive(Clone)]
pub struct Envd {
    e2b: E2b,
    watchers: Arc<Watchers>,
}

impl Envd {
    pub fn new(e2b: E2b) -> Self {
        Self { e2b, watchers: Arc::default() }
    }

    /// Answers a request that is for the in-sandbox protocol of one sandbox.
    pub async fn answer(&self, sandbox: &SandboxId, request: Request) -> Response {
        answer_for(self, sandbox, request).await
    }

    /// Answers a signed request for a file that names no sandbox; gives back any other.
    pub async fn answer_signed(&self, request: Request) -> Result<Response, Box<Request>> {
        signature::shared(self, request).await
    }
}

impl Deref for Envd {
    type Target = E2b;

    fn deref(&self) -> &E2b {
        &self.e2b
    }
}

impl fmt::Debug for Envd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envd").finish_non_exhaustive()
    }
}

async fn answer_for(state: &Envd, sandbox: &SandboxId, request: Request) -> Response {
    if cors::is_preflight(&request) {
        return cors::readable(cors::preflight(&request));
    }
    let answered = serve(state, sandbox, request).await;
    cors::readable(answered.unwrap_or_else(|refusal| refusal.told(sandbox)))
}

async fn serve(state: &Envd, sandbox: &SandboxId, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let call = Call::of(&head)?;
    let visitor = door::admit(state, sandbox, &call, &head).await?;
    let request = Request::from_parts(head, body);
    match call {
        Call::Health => Ok(status::health()),
        Call::Metrics => status::metrics(&visitor).await,
        Call::Envs => Ok(status::envs(&visitor)),
        Call::Download => files::download(visitor, request.into_parts().0).await,
        Call::Upload => files::upload(visitor, request).await,
        Call::Compose => files::compose(visitor, request).await,
        Call::Filesystem(method) => Ok(filesystem::answer(visitor, method, request).await),
        Call::Process(method) => Ok(process::answer(visitor, method, request).await),
        Call::Unknown(FILESYSTEM, method) => {
            Ok(Refusal::new(StatusCode::NOT_FOUND, format!("there is no method {method}")).plain())
        }
        Call::Unknown(_, method) => {
            Err(Refusal::new(StatusCode::NOT_FOUND, format!("process.Process has no method {method}")))
        }
    }
}
