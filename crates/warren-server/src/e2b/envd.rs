//! What a client says to one sandbox.
//!
//! A request takes three steps: `route` says what it is for, `door` who may and whether the sandbox is there, and then the route's own
//! module serves it. Beside health and figures there are `files`, which moves whole files, and two services of the Connect protocol:
//! `filesystem` and `process`. Everything on files is done with root's rights and belongs to the user whom the request names, as
//! these clients expect; a sandbox's access token opens all of it.

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

use axum::extract::Request;
use axum::response::Response;
use warren_core::SandboxId;

use self::refusal::Refusal;
use self::route::Route;
use crate::proxy::Target;
use crate::state::AppState;

pub(crate) use filesystem::Watchers;
pub(crate) use signature::shared;
pub(crate) use visitor::Visitor;

/// Answers a request that is for the in-sandbox protocol of the target's sandbox.
pub(crate) async fn answer(state: &AppState, target: &Target, request: Request) -> Response {
    answer_for(state, &target.sandbox, request).await
}

async fn answer_for(state: &AppState, sandbox: &SandboxId, request: Request) -> Response {
    if cors::is_preflight(&request) {
        return cors::readable(cors::preflight(&request));
    }
    let answered = serve(state, sandbox, request).await;
    cors::readable(answered.unwrap_or_else(|refusal| refusal.told(sandbox)))
}

async fn serve(state: &AppState, sandbox: &SandboxId, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let route = Route::of(&head)?;
    let visitor = door::admit(state, sandbox, &route, &head).await?;
    let request = Request::from_parts(head, body);
    match route {
        Route::Health => Ok(status::health()),
        Route::Metrics => status::metrics(&visitor).await,
        Route::Envs => Ok(status::envs(&visitor)),
        Route::Download => files::download(visitor, request.into_parts().0).await,
        Route::Upload => files::upload(visitor, request).await,
        Route::Compose => files::compose(visitor, request).await,
        Route::Filesystem(method) => Ok(filesystem::answer(visitor, &method, request).await),
        Route::Process(method) => Ok(process::answer(visitor, &method, request).await),
    }
}
