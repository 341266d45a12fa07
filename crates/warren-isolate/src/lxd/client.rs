//! The daemon's REST interface. Answers and waits are bounded, so whatever the daemon does, a call
//! ends.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::{Method, Request, StatusCode};
use warren_core::IsolationErrorKind;

use super::transport::{Nowhere, ToSocket};

/// No answer is longer: lists of some ten thousand instances.
const MOST_BYTES: u64 = 64 << 20;
/// How long the daemon may take for an answer that it does not have to work for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often an answer to the same question is asked for while something goes on.
const PAUSE: Duration = Duration::from_millis(20);

/// The daemon could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum LxdError {
    #[error(
        "the daemon does not answer on `{}`: start it (systemctl start lxd or incus), or set lxd.socket", socket.display()
    )]
    Away { socket: PathBuf, source: Box<ureq::Error> },
    #[error("the daemon was started anew and knows nothing of `{operation}`")]
    Forgotten { operation: String },
    #[error("`{path}` was answered with {code}: {said}")]
    Refused { path: String, code: u16, said: String },
    #[error("the daemon gave up: {said}")]
    Failed { said: String },
    #[error("the daemon has not finished `{operation}` after {seconds} s")]
    Slow { operation: String, seconds: u64 },
    #[error("`{path}` was answered with something that is no answer of LXD's")]
    Strange { path: String, source: serde_json::Error },
}

impl LxdError {
    /// The kind of an [`warren_core::IsolationError`] that it causes; `otherwise` where that
    /// depends on what was being done.
    pub(super) fn kind(&self, otherwise: IsolationErrorKind) -> IsolationErrorKind {
        match self {
            Self::Away { .. } | Self::Forgotten { .. } => IsolationErrorKind::Away,
            Self::Refused { code: 404, .. } => IsolationErrorKind::NotFound,
            Self::Refused { code: 409, .. } => IsolationErrorKind::AlreadyExists,
            Self::Refused { .. } | Self::Failed { .. } | Self::Slow { .. } | Self::Strange { .. } => {
                otherwise
            }
        }
    }

    pub(super) fn is_not_found(&self) -> bool {
        self.kind(IsolationErrorKind::Host) == IsolationErrorKind::NotFound
    }
}

/// Speaks to one daemon. A connection serves one request: the daemon may be another process by the
/// next.
#[derive(Debug)]
pub(super) struct Client {
    socket: PathBuf,
    agent: Agent,
}

/// An answer: what was asked for, or the operation that goes on.
#[derive(Debug)]
struct Answer {
    operation: String,
    metadata: Value,
}

impl Client {
    pub(super) fn new(socket: &Path) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .max_idle_connections(0)
            .build();
        let agent = Agent::with_parts(config, ToSocket(socket.to_owned()), Nowhere);
        Self { socket: socket.to_owned(), agent }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks for something that is there.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, LxdError> {
        let answer = self.send(Method::GET, path, None, PATIENCE)?;
        serde_json::from_value(answer.metadata)
            .map_err(|source| LxdError::Strange { path: path.to_owned(), source })
    }

    /// The content of a log, cut to `most` bytes; empty if there is none.
    pub(super) fn log(&self, path: &str, most: usize) -> String {
        let (_, bytes) = self.exchange(Method::GET, path, None, PATIENCE).unwrap_or_default();
        let end = bytes.len().saturating_sub(most);
        String::from_utf8_lossy(&bytes[end..]).trim().replace(['\r', '\n'], " ")
    }

    /// Asks for a change, and waits for its end.
    pub(super) fn change(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        patience: Duration,
    ) -> Result<(), LxdError> {
        let Answer { operation, .. } = self.send(method, path, Some(body), PATIENCE)?;
        if operation.is_empty() { Ok(()) } else { self.wait(&operation, patience) }
    }

    fn wait(&self, operation: &str, patience: Duration) -> Result<(), LxdError> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let path = format!("{operation}/wait?timeout={}", left.as_secs().max(1));
            let answer = self.send(Method::GET, &path, None, left + PATIENCE).map_err(|error| {
                if error.is_not_found() {
                    return LxdError::Forgotten { operation: operation.to_owned() };
                }
                error
            })?;
            match answer.metadata["status_code"].as_u64() {
                Some(200) => return Ok(()),
                Some(100..200) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Some(100..200) => {
                    let seconds = patience.as_secs();
                    return Err(LxdError::Slow { operation: operation.to_owned(), seconds });
                }
                _ => {
                    let said = answer.metadata["err"].as_str().unwrap_or_default().to_owned();
                    return Err(LxdError::Failed { said });
                }
            }
        }
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        patience: Duration,
    ) -> Result<Answer, LxdError> {
        let (status, bytes) = self.exchange(method, path, body, patience)?;
        let parsed: Result<Value, _> = serde_json::from_slice(&bytes);
        let mut answer = parsed.map_err(|source| LxdError::Strange { path: path.to_owned(), source })?;
        let code = match answer["error_code"].as_u64() {
            Some(code @ 1..) => u16::try_from(code).unwrap_or(u16::MAX),
            _ if status.is_success() => {
                let operation = answer["operation"].as_str().unwrap_or_default().to_owned();
                return Ok(Answer { operation, metadata: answer["metadata"].take() });
            }
            _ => status.as_u16(),
        };
        let said = answer["error"].as_str().unwrap_or_default().to_owned();
        Err(LxdError::Refused { path: path.to_owned(), code, said })
    }

    fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        patience: Duration,
    ) -> Result<(StatusCode, Vec<u8>), LxdError> {
        let away =
            |source: ureq::Error| LxdError::Away { socket: self.socket.clone(), source: Box::new(source) };
        let body = body.map_or_else(Vec::new, |body| json!(body).to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(format!("http://lxd{path}"))
            .header("content-type", "application/json")
            .body(body)
            .map_err(|error| away(ureq::Error::Http(error)))?;
        let request = self.agent.configure_request(request).timeout_global(Some(patience)).build();
        let mut response = self.agent.run(request).map_err(away)?;
        let status = response.status();
        let bytes = response.body_mut().with_config().limit(MOST_BYTES).read_to_vec().map_err(away)?;
        Ok((status, bytes))
    }
}
