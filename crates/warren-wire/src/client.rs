//! The Rust client of `/v1`: blocking, small, and made of the same bodies that the server reads and
//! writes.
//!
//! [`Client`] has a method per call. [`ProcessStream`] is a process at the other end of a
//! WebSocket, with its input, output and signals.

mod calls;
mod code;
mod connection;
mod error;
mod events;
mod mcp;
mod network;
mod ports;
mod secrets;
mod stream;
mod travel;
mod trust;

use std::io::Read;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::http::{Method, Response, Uri};
use ureq::tls::TlsConfig;

pub use calls::{SandboxQuery, SessionAction, SessionQuery, WriteFile};
pub use connection::Connection;
pub use error::ClientError;
pub use events::{EventReader, ServerEvent};
pub use mcp::{Exchange, McpMessage};
pub use stream::{ProcessReader, ProcessStream, ProcessWriter, Seen};
pub use travel::{DiffQuery, ExportQuery, Exported, ImportQuery, JournalQuery, SnapshotQuery};
pub use trust::Trust;

use crate::api::Problem;

/// An answer is never taken to be longer than this unless it is streamed.
const MOST_ANSWER: u64 = 64 << 20;

/// How long a server may take to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// A server and a key to it.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    base: String,
    key: String,
    /// Absent for a server that speaks no TLS.
    trust: Option<Trust>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Client {
    /// `base` is a server's address such as `http://127.0.0.1:7777`, or one with `https`, where the
    /// authorities of this machine count. An empty key is for a server that asks for none.
    pub fn new(base: &str, key: &str) -> Result<Self, ClientError> {
        let trust = if is_secure(base) { Some(Trust::of_machine()?) } else { None };
        Self::make(base, key, trust)
    }

    /// As [`Client::new`], for a server whose certificate others vouch for than this machine's
    /// authorities.
    pub fn trusting(base: &str, key: &str, trust: Trust) -> Result<Self, ClientError> {
        Self::make(base, key, Some(trust).filter(|_| is_secure(base)))
    }

    fn make(base: &str, key: &str, trust: Option<Trust>) -> Result<Self, ClientError> {
        let base = base.trim_end_matches('/');
        let is_address = base.parse::<Uri>().is_ok_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
        });
        if !is_address {
            return Err(ClientError::Address { address: base.to_owned() });
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ClientError::Key);
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_PATIENCE))
            .user_agent(concat!("warren/", env!("CARGO_PKG_VERSION")))
            .max_redirects(0)
            .tls_config(trust.as_ref().map_or_else(TlsConfig::default, Trust::of_calls))
            .build();
        Ok(Self { agent: config.into(), base: base.to_owned(), key: key.to_owned(), trust })
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// For another client of the same server.
    pub fn key(&self) -> &str {
        &self.key
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask(Method::GET, path, None::<&()>, &[])
    }

    fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.ask(Method::POST, path, Some(body), &[])
    }

    fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask(Method::DELETE, path, None::<&()>, &[])
    }

    /// One call with a JSON answer.
    fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        headers: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        let body = match body {
            None => Vec::new(),
            Some(body) => serde_json::to_vec(body).map_err(ClientError::Encode)?,
        };
        // The length is said: a body in chunks has an end of its own, and where no body is expected
        // nobody reads that end. A server that has not seen it when it has answered closes the
        // connection.
        let length = body.len().to_string();
        let mut headers = headers.to_vec();
        if [Method::POST, Method::PUT, Method::PATCH].contains(&method) {
            headers.push(("content-length", &length));
        }
        let response = if body.is_empty() {
            self.send(method, path, &headers, ureq::SendBody::none())?
        } else {
            headers.push(("content-type", "application/json"));
            self.send(method, path, &headers, ureq::SendBody::from_reader(&mut body.as_slice()))?
        };
        let text = whole(response)?;
        // An answer without a body is as good as `null`.
        let text = if text.is_empty() { b"null".as_slice() } else { &text };
        serde_json::from_slice(text).map_err(ClientError::Decode)
    }

    /// One call that is answered with events.
    fn post_and_follow(&self, path: &str, body: &impl Serialize) -> Result<EventReader, ClientError> {
        let body = serde_json::to_vec(body).map_err(ClientError::Encode)?;
        let length = body.len().to_string();
        let headers = [
            ("accept", "text/event-stream"),
            ("content-type", "application/json"),
            ("content-length", length.as_str()),
        ];
        let body = &mut body.as_slice();
        let response = self.send(Method::POST, path, &headers, ureq::SendBody::from_reader(body))?;
        Ok(EventReader::new(response.into_body().into_reader()))
    }

    /// One call whose answer is the caller's to read.
    fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: ureq::SendBody<'_>,
    ) -> Result<Response<ureq::Body>, ClientError> {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base));
        if !self.key.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.key));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).map_err(ClientError::Request)?;
        let response = self.agent.run(request).map_err(|source| ClientError::Connect {
            address: self.base.clone(),
            source: Box::new(source),
        })?;
        if response.status().is_success() || response.status().as_u16() == 101 {
            return Ok(response);
        }
        Err(refusal(response))
    }
}

fn is_secure(base: &str) -> bool {
    base.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https"))
}

fn whole(response: Response<ureq::Body>) -> Result<Vec<u8>, ClientError> {
    let mut text = Vec::new();
    let mut reader = response.into_body().into_reader().take(MOST_ANSWER);
    reader.read_to_end(&mut text).map_err(ClientError::Read)?;
    Ok(text)
}

fn refusal(response: Response<ureq::Body>) -> ClientError {
    let status = response.status().as_u16();
    let text = whole(response).unwrap_or_default();
    match serde_json::from_slice::<Problem>(&text) {
        Ok(problem) => ClientError::Refused(Box::new(problem)),
        Err(_) => ClientError::Unexpected {
            status,
            text: String::from_utf8_lossy(&text).chars().take(300).collect(),
        },
    }
}

/// All that is escaped in a path or a query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A value as it stands in a path or a query.
fn quoted(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// `?a=b&c=d` of those that have a value.
fn query(pairs: &[(&str, Option<String>)]) -> String {
    let given = pairs.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let text: Vec<String> = given.map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    if text.is_empty() { String::new() } else { format!("?{}", text.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_and_absent_ones_left_out() {
        let text = query(&[("path", Some("/a b/ü&c".into())), ("user", None), ("depth", Some("2".into()))]);
        assert_eq!(text, "?path=%2Fa%20b%2F%C3%BC%26c&depth=2");
        assert_eq!(query(&[("user", None)]), "");
    }

    #[test]
    fn addresses_and_keys_that_cannot_be_are_refused() {
        assert!(Client::new("ftp://x", "k").is_err());
        assert!(Client::new("http://", "k").is_err());
        assert!(Client::new("http://:7777", "k").is_err());
        assert!(Client::new("https://", "k").is_err());
        assert!(Client::new("http://127.0.0.1:1", "a\r\nb").is_err());
        let client = Client::new("http://127.0.0.1:1/", "secret").unwrap();
        assert_eq!(client.base(), "http://127.0.0.1:1");
        assert!(!format!("{client:?}").contains("secret"));
    }
}
