use axum::extract::Request;
use axum::response::Response;
use http::Method;
use http::request::Parts;
use subtle::ConstantTimeEq as _;
use warren_core::SandboxId;
use warren_face::arrival::Peer;
use warren_face::extract::Params;
use warren_face::gate;

use super::refusal::Refusal;
use super::{answer_for, cors};
use crate::envd::Envd;
use crate::signature::{Operation, sign};
use crate::tokens;

/// The signature in a query.
struct Signed {
    path: String,
    operation: Operation,
    user: String,
    signature: String,
    expires_unix_s: Option<i64>,
}

impl Signed {
    /// `None` if nothing is signed.
    fn read(head: &Parts) -> Result<Option<Self>, Refusal> {
        let params = Params::parse(head.uri.query().unwrap_or_default())?;
        let text = |name: &str| params.text(name).unwrap_or_default().to_owned();
        let signature = text("signature");
        if signature.is_empty() {
            return Ok(None);
        }
        let expires_unix_s = match params.text("signature_expiration").filter(|text| !text.is_empty()) {
            None => None,
            Some(number) => Some(number.parse().map_err(|_| {
                Refusal::bad_request("`signature_expiration` is the time in seconds since 1970")
            })?),
        };
        let operation = if head.method == Method::GET { Operation::Read } else { Operation::Write };
        Ok(Some(Self { path: text("path"), operation, user: text("username"), signature, expires_unix_s }))
    }

    /// True if the sandbox's token made it. Takes as long for a wrong one as for a right one.
    fn is_by(&self, state: &Envd, sandbox: &SandboxId) -> bool {
        tokens::access_tokens(&state.link_keys, sandbox).iter().any(|token| {
            let right = sign(&self.path, self.operation, &self.user, token, self.expires_unix_s);
            right.as_bytes().ct_eq(self.signature.as_bytes()).into()
        })
    }

    fn is_over(&self, state: &Envd) -> bool {
        let now = i64::try_from(state.clock.unix_ms() / 1000).unwrap_or(i64::MAX);
        self.expires_unix_s.is_some_and(|expires| expires < now)
    }
}

/// Lets pass what is signed with the sandbox's token, and not too old.
pub(super) fn check(state: &Envd, sandbox: &SandboxId, head: &Parts) -> Result<(), Refusal> {
    let signed = Signed::read(head)?
        .ok_or_else(|| Refusal::unauthenticated("missing signature: show X-Access-Token or sign the URL"))?;
    if !signed.is_by(state, sandbox) {
        return Err(Refusal::unauthenticated("invalid signature"));
    }
    if signed.is_over(state) {
        return Err(Refusal::unauthenticated("signature is already expired"));
    }
    Ok(())
}

/// Answers a signed request for a file that names no sandbox: one URL serves all of them then, and
/// the signature tells whose it is. Gives back what is not such a request.
pub(super) async fn shared(state: &Envd, request: Request) -> Result<Response, Box<Request>> {
    let known = matches!(*request.method(), Method::GET | Method::POST) || cors::is_preflight(&request);
    if !known || request.uri().path() != "/files" {
        return Err(Box::new(request));
    }
    let (head, body) = request.into_parts();
    let signed = Signed::read(&head);
    let request = Request::from_parts(head, body);
    let Ok(Some(signed)) = signed else { return Err(Box::new(request)) };
    if cors::is_preflight(&request) {
        return Ok(cors::readable(cors::preflight(&request)));
    }
    match state.engine.living().into_iter().find(|record| signed.is_by(state, &record.id)) {
        Some(record) => Ok(answer_for(state, &record.id, request).await),
        None => Ok(cors::readable(unknown(state, Peer::of(&request)))),
    }
}

/// A wrong signature. A client that tries many of them is slowed down.
fn unknown(state: &Envd, peer: Option<Peer>) -> Response {
    let error = gate::refuse(state, peer);
    let refusal = match error.problem().retry_after_s {
        Some(_) => Refusal::from(error),
        None => Refusal::unauthenticated("invalid signature"),
    };
    refusal.plain()
}
