use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, StatusCode};
use hyper_util::rt::TokioIo;
use warren_core::{PortSettings, SandboxId};
use warren_engine::EngineError;
use warren_face::address::Address;
use warren_face::auth::Caller;
use warren_face::error::{ApiError, Code};
use warren_face::link::{LINK_PARAMETER, Link, Methods};
use warren_face::port::is_closed;
use warren_wire::api;

use crate::convert;
use crate::extract::{Json, JsonOrNothing, PortPath, SandboxPath};
use crate::proxy::{self, Lingering};
use crate::state::AppState;

const USUAL_LINK_S: u64 = 3600;
const LONGEST_LINK_S: u64 = 30 * 86_400;
const LONGEST_PATH: usize = 1024;
const LONGEST_HOST: usize = 260;

/// The protocol that a client asks for to get a tunnel.
const TUNNEL: &str = "warren-tcp";

pub(crate) async fn get(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    PortPath(port): PortPath,
    address: Address,
) -> Result<Json<api::Port>, ApiError> {
    sandbox.record().await?;
    Ok(Json(shown(&state, &address, sandbox.id(), port)))
}

pub(crate) async fn set(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    PortPath(port): PortPath,
    address: Address,
    Json(body): Json<api::SetPort>,
) -> Result<Json<api::Port>, ApiError> {
    sandbox.record().await?;
    let host = body.host_header.filter(|host| !host.is_empty());
    let usable =
        |host: &String| host.len() <= LONGEST_HOST && host.bytes().all(|byte| byte.is_ascii_graphic());
    if !host.as_ref().is_none_or(usable) {
        return Err(ApiError::invalid("host_header", "this is no host"));
    }
    let settings = PortSettings { public: body.public, host };
    let (held, id) = (state.clone(), sandbox.id().clone());
    let set = move || held.book.set(held.catalog.as_ref(), (&caller.owner, &id), port, &settings);
    tokio::task::spawn_blocking(set).await.map_err(ApiError::internal)??;
    Ok(Json(shown(&state, &address, sandbox.id(), port)))
}

pub(crate) async fn link(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    PortPath(port): PortPath,
    address: Address,
    JsonOrNothing(body): JsonOrNothing<api::MakePortLink>,
) -> Result<Json<api::PortLink>, ApiError> {
    sandbox.record().await?;
    let link = wanted_link(body, state.clock.unix_ms() / 1000)?;
    let signed = link.sign(&state.link_keys, sandbox.id(), port);
    let url = format!("{}{}?{LINK_PARAMETER}={signed}", address.url(sandbox.id(), port), link.path);
    Ok(Json(api::PortLink { url, expires_at: convert::rfc3339(link.expires_unix_s * 1000) }))
}

fn shown(state: &AppState, address: &Address, id: &SandboxId, port: u16) -> api::Port {
    convert::port((&state.link_keys, state.book.of(id, port)), address, id, port)
}

fn wanted_link(body: api::MakePortLink, now_unix_s: u64) -> Result<Link, ApiError> {
    let lasts_s = body.expires_in_s.unwrap_or(USUAL_LINK_S);
    if !(1..=LONGEST_LINK_S).contains(&lasts_s) {
        let detail = format!("a link is good for 1 to {LONGEST_LINK_S} seconds");
        return Err(ApiError::invalid("expires_in_s", detail));
    }
    let path = body.path.unwrap_or_else(|| "/".to_owned());
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"?#;\\\"".contains(&byte);
    if !path.starts_with('/')
        || path.starts_with("//")
        || path.len() > LONGEST_PATH
        || !path.bytes().all(plain)
    {
        return Err(ApiError::invalid("path", "write a path that begins with one `/`, without a query"));
    }
    let methods = match body.methods {
        Some(api::LinkMethods::Read) => Methods::Read,
        Some(api::LinkMethods::All) | None => Methods::All,
    };
    Ok(Link { methods, path, expires_unix_s: now_unix_s.saturating_add(lasts_s) })
}

/// Makes the client's connection one with the port, byte for byte.
pub(crate) async fn connect(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    PortPath(port): PortPath,
    mut request: Request,
) -> Result<Response, ApiError> {
    // First, so that a caller who may not use it is refused like anywhere else.
    sandbox.record().await?;
    let asked = request.headers().get(UPGRADE).map(HeaderValue::as_bytes);
    if !asked.is_some_and(|protocol| protocol.eq_ignore_ascii_case(TUNNEL.as_bytes())) {
        let detail = format!("ask for it with `Connection: Upgrade` and `Upgrade: {TUNNEL}`, over HTTP/1.1");
        return Err(ApiError::new(Code::InvalidRequest, detail));
    }
    let service = sandbox.connect(port).await;
    let service = service.map_err(|error| closed(port, error))?;
    let (client, open) = (hyper::upgrade::on(&mut request), state.metrics.ports.opened());
    tokio::spawn(async move {
        let Ok(client) = client.await else { return };
        let cut = async {
            caller.until_cut().await;
        };
        // Peers come and go.
        drop(proxy::carry(TokioIo::new(client), service, Lingering::Forever, cut).await);
        drop(open);
    });
    Ok(switched())
}

fn switched() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(TUNNEL));
    response
}

fn closed(port: u16, error: EngineError) -> ApiError {
    if is_closed(&error) {
        return ApiError::new(Code::PortClosed, format!("nobody listens on port {port} of the sandbox"));
    }
    error.into()
}
