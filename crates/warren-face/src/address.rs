use std::convert::Infallible;

use axum::extract::{FromRef, FromRequestParts};
use http::header::HOST;
use http::request::Parts;
use warren_core::SandboxId;

use crate::arrival::Arrival;
use crate::desk::Desk;

/// The address by which a client reaches the server, and so the ports of its sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    scheme: &'static str,
    /// Absent: the scheme's own.
    port: Option<u16>,
    domain: String,
}

impl Address {
    /// The host of a port of a sandbox.
    pub fn host(&self, sandbox: &SandboxId, port: u16) -> String {
        format!("{port}-{sandbox}.{}", self.domain)
    }

    /// The part of all ports' hosts after the first label, with the TCP port at which they are
    /// reached.
    pub fn domain(&self) -> String {
        self.port.map_or_else(|| self.domain.clone(), |port| format!("{}:{port}", self.domain))
    }

    pub fn url(&self, sandbox: &SandboxId, port: u16) -> String {
        let own = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{}{own}", self.scheme, self.host(sandbox, port))
    }
}

/// TLS where there is some; else as the request itself came.
impl<S> FromRequestParts<S> for Address
where
    S: Send + Sync,
    Desk: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let desk = Desk::from_ref(state);
        let domain = desk.config.ports.domain.to_string();
        if desk.config.ports.behind_tls {
            return Ok(Self { scheme: "https", port: None, domain });
        }
        if let Some(port) = desk.tls_port.get().copied() {
            return Ok(Self { scheme: "https", port: Some(port).filter(|port| *port != 443), domain });
        }
        let secure = parts.extensions.get::<Arrival>().is_some_and(|arrival| arrival.secure);
        let header = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
        let authority = parts.uri.authority().map(|authority| authority.as_str()).or(header);
        let port = authority.and_then(|authority| authority.rsplit_once(':')?.1.parse().ok());
        Ok(Self { scheme: if secure { "https" } else { "http" }, port, domain })
    }
}
