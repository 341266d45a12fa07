//! Traffic from outside to ports of sandboxes.
//!
//! A request that names a sandbox and a port, by its host (`8000-ID.localhost`) or by two headers,
//! never reaches the API's router. It takes these steps: `route` says which port of which sandbox
//! it is for, `access` checks that the client may, `exchange` passes it on over a connection from
//! the `pool` or a new one, and `head` says what the application may see of the request and the
//! client of the answer. An upgraded connection is `carry`'s from then on. The target is only ever
//! a port on the loopback of one sandbox's own network: no name or address of the request is
//! dialled. [`warren_face::link`] makes and reads what lets strangers in, `book` remembers which
//! ports are public, and `refusal` is what clients are told when there is nothing to pass on.

mod access;
mod body;
mod carry;
mod exchange;
mod head;
mod pool;
mod refusal;
mod route;
mod tls;

use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::CONNECTION;
use http::{HeaderValue, Method, Version};
use warren_core::{HostName, Owner, PortSettings, SandboxId};
use warren_e2b::{Annotation, E2b, ENVD_PORT, Envd};
use warren_engine::Visit;

use self::access::{Admission, Admitted};
use self::pool::Pool;
use self::refusal::{Reader, Refusal, Wrong};
use self::route::Destination;
use crate::state::AppState;

pub(crate) use carry::{Lingering, carry};
pub(crate) use route::{PORT_HEADER, SANDBOX_HEADER, Target};

/// The name that visitors of a port go by.
const VISITOR: &str = "port visitor";

/// Passes requests on. A clone is the same.
#[derive(Clone)]
pub(crate) struct Proxy {
    state: AppState,
    envd: Envd,
    pool: Arc<Pool>,
    domains: Arc<[HostName]>,
}

impl Proxy {
    /// Must be called inside the runtime that serves requests.
    pub(crate) fn new(state: AppState, e2b: E2b) -> Self {
        let pool = Arc::new(Pool::new(&state.config.ports));
        tokio::spawn(pool::sweep(Arc::downgrade(&pool)));
        let domains = route::domains(&state.config.ports.domain);
        Self { state, envd: Envd::new(e2b), pool, domains }
    }

    /// Answers a request that is for a port of a sandbox; gives back one that is not.
    pub(crate) async fn answer(&self, request: Request) -> Result<Response, Box<Request>> {
        let reader = Reader::of(request.headers());
        let target = match route::destination(&request, &self.domains) {
            Ok(Destination::Api) => return self.envd.answer_signed(request).await,
            Ok(Destination::Port(target)) => target,
            Err(wrong) => return Ok(last(Refusal::misdirected(wrong).told(reader), request.version())),
        };
        if target.port == ENVD_PORT {
            return Ok(self.envd.answer(&target.sandbox, request).await);
        }
        let (began, method) = (Instant::now(), request.method().clone());
        let response = match self.pass_on(&target, request).await {
            Ok(response) => response,
            Err(refusal) => refusal.told(reader),
        };
        self.state.metrics.ports.answered(response.status(), began.elapsed());
        let status = response.status().as_u16();
        tracing::debug!(sandbox.id = %target.sandbox, port = target.port, %method, status, "a request to a port");
        Ok(response)
    }

    async fn pass_on(&self, target: &Target, mut request: Request) -> Result<Response, Refusal> {
        if matches!(*request.method(), Method::CONNECT | Method::TRACE) {
            return Err(Refusal::of(target, Wrong::Method));
        }
        let admitted = match access::admit(&self.state, target, &mut request)? {
            Admission::Granted(admitted) => admitted,
            Admission::Welcome(redirect) => return Ok(redirect.into_response()),
        };
        let Admitted { owner, traffic, guard } = admitted;
        let visit = self.visit(&owner, target).await.map_err(|wrong| Refusal::of(target, wrong))?;
        let permit = self.pool.permit((&target.sandbox, &visit.life()), guard.is_none().then_some(&owner));
        let permit = permit.ok_or_else(|| Refusal::of(target, Wrong::TooMany))?;
        let stay = exchange::PortLease { visit, permit, guard };
        exchange::Exchange { proxy: self, target, owner, traffic }.run(request, stay).await
    }

    /// Comes in. Visitors of a sandbox that was made through E2B are not told that it is paused.
    async fn visit(&self, owner: &Owner, target: &Target) -> Result<Visit, Wrong> {
        let sandbox = self.state.engine_as(VISITOR, owner).sandbox(&target.sandbox);
        let refused = match sandbox.visit().await {
            Ok(visit) => return Ok(visit),
            Err(error) => Wrong::from_engine(error),
        };
        let record = self.state.engine.live(&target.sandbox);
        let is_hidden = record.is_some_and(|record| Annotation::is_written(&record));
        Err(if is_hidden && matches!(refused, Wrong::Paused) { Wrong::NoSandbox } else { refused })
    }

    fn settings(&self, sandbox: &SandboxId, port: u16) -> PortSettings {
        self.state.book.of(sandbox, port)
    }
}

/// An answer after which the connection is of no more use: a client that does not say where a
/// request goes may not know where it ends.
fn last(mut response: Response, version: Version) -> Response {
    if version != Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
