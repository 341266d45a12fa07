use std::convert::Infallible;

use axum::extract::{FromRef, FromRequestParts};
use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
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
    /// The server itself, as the client calls it.
    host: Option<Authority>,
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

    /// The beginning of every address of the server's own, without a slash.
    pub fn server(&self) -> String {
        let host = self.host.as_ref().map_or(self.domain.as_str(), Authority::as_str);
        format!("{}://{host}", self.scheme)
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
        let header = parts.headers.get(HOST).and_then(|host| host.to_str().ok()?.parse().ok());
        let host: Option<Authority> = parts.uri.authority().cloned().or(header);
        if desk.config.ports.behind_tls {
            return Ok(Self { scheme: "https", port: None, domain, host });
        }
        let secure = parts.extensions.get::<Arrival>().is_some_and(|arrival| arrival.secure);
        if let Some(port) = desk.tls_port.get().copied() {
            let host = host.filter(|_| secure);
            return Ok(Self { scheme: "https", port: Some(port).filter(|port| *port != 443), domain, host });
        }
        let port = host.as_ref().and_then(Authority::port_u16);
        Ok(Self { scheme: if secure { "https" } else { "http" }, port, domain, host })
    }
}
