use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use warren_engine::{PortStream, Sandbox, Visit};
use warren_wire::api;

use super::{CELL, CODE_PORT, CodeError, Lines, ensure};
use crate::desk::Desk;
use crate::port::is_closed;

/// How long an answer may be that is not a stream.
const MOST_ANSWER: usize = 1 << 20;

/// How long the service may take to answer. Restarting a kernel takes the longest.
const PATIENCE: Duration = Duration::from_secs(90);

/// The header that names the wrong field of a refused request.
const FIELD: &str = "x-warren-field";

/// The service of one sandbox, on behalf of its owner.
#[derive(Debug)]
pub struct Service<'a> {
    pub desk: &'a Desk,
    pub sandbox: Sandbox,
}

/// An answer and what it comes over.
struct Asked {
    response: Response<Incoming>,
    connection: AbortOnDropHandle<()>,
    visit: Visit,
}

impl Service<'_> {
    /// Begins an execution.
    pub async fn execute(&self, order: &api::RunCode) -> Result<Lines, CodeError> {
        let body = json!({
            "code": order.code, "context_id": order.context, "language": order.language,
            "env_vars": order.env, "timeout_s": order.timeout_s,
        });
        // A visit of its own, so that the state before the cell is captured before it is asked for.
        let visit = self.sandbox.visit().await?;
        visit.begin(CELL, &order.code).await;
        let asked = self.ask(Method::POST, "/execute", Some(&body)).await?;
        if asked.response.status() != StatusCode::OK {
            let refused = self.refused(asked).await;
            visit.done(Some(&crate::error::chain(&refused)));
            return Err(refused);
        }
        let Asked { response, connection, .. } = asked;
        Ok(Lines::new(self.sandbox.id().clone(), response.into_body(), connection, visit))
    }

    pub async fn contexts(&self) -> Result<Vec<api::CodeContext>, CodeError> {
        self.answer(Method::GET, "/contexts", None).await
    }

    pub async fn create_context(&self, wanted: &api::NewCodeContext) -> Result<api::CodeContext, CodeError> {
        let body = json!({ "language": wanted.language, "cwd": wanted.cwd });
        self.answer(Method::POST, "/contexts", Some(&body)).await
    }

    /// The context's state is lost, and what runs in it ends.
    pub async fn restart_context(&self, context: &str) -> Result<(), CodeError> {
        self.answer::<Value>(Method::POST, &format!("/contexts/{context}/restart"), None).await.map(drop)
    }

    /// Ends what runs in the context; its state stays.
    pub async fn interrupt_context(&self, context: &str) -> Result<(), CodeError> {
        self.answer::<Value>(Method::POST, &format!("/contexts/{context}/interrupt"), None).await.map(drop)
    }

    pub async fn remove_context(&self, context: &str) -> Result<(), CodeError> {
        self.answer::<Value>(Method::DELETE, &format!("/contexts/{context}"), None).await.map(drop)
    }

    async fn answer<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, CodeError> {
        let asked = self.ask(method, path, body).await?;
        if asked.response.status() != StatusCode::OK {
            return Err(self.refused(asked).await);
        }
        let bytes = self.whole(asked).await?;
        serde_json::from_slice(&bytes).map_err(|error| self.garbled(error))
    }

    /// A service that is just being killed may still take a connection, and answers nothing. It
    /// says that it has begun before it begins: a request without that answer is sent once more.
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Asked, CodeError> {
        match self.ask_once(&method, path, body).await {
            Err(CodeError::Garbled { .. }) => self.ask_once(&method, path, body).await,
            asked => asked,
        }
    }

    async fn ask_once(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Asked, CodeError> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, body.len())
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| self.garbled(error))?;
        let (stream, visit) = self.connect().await?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| self.garbled(error))?;
        // Its end is seen by the request that uses it.
        let connection = AbortOnDropHandle::new(tokio::spawn(async { drop(connection.await) }));
        let response = tokio::time::timeout(PATIENCE, sender.send_request(request)).await;
        let response = response.map_err(|_| CodeError::Silent { sandbox: self.sandbox.id().clone() })?;
        Ok(Asked { response: response.map_err(|error| self.garbled(error))?, connection, visit })
    }

    /// A connection with the service, which is started if it is not there.
    async fn connect(&self) -> Result<(PortStream, Visit), CodeError> {
        let visit = self.sandbox.visit().await?;
        match visit.connect(CODE_PORT).await {
            Err(error) if is_closed(&error) => {
                ensure(self.desk, &self.sandbox).await?;
                Ok((visit.connect(CODE_PORT).await?, visit))
            }
            stream => Ok((stream?, visit)),
        }
    }

    async fn refused(&self, asked: Asked) -> CodeError {
        let status = asked.response.status().as_u16();
        let field = asked.response.headers().get(FIELD).and_then(|field| field.to_str().ok());
        let field = field.map(str::to_owned);
        match self.whole(asked).await {
            Ok(said) => {
                CodeError::Refused { status, field, said: String::from_utf8_lossy(&said).into_owned() }
            }
            Err(error) => error,
        }
    }

    async fn whole(&self, asked: Asked) -> Result<Bytes, CodeError> {
        let Asked { response, connection: _connection, visit: _visit } = asked;
        let body = Limited::new(response.into_body(), MOST_ANSWER).collect();
        let body = tokio::time::timeout(PATIENCE, body).await;
        let body = body.map_err(|_| CodeError::Silent { sandbox: self.sandbox.id().clone() })?;
        Ok(body.map_err(|error| self.garbled(error))?.to_bytes())
    }

    fn garbled(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CodeError {
        CodeError::Garbled { sandbox: self.sandbox.id().clone(), source: Some(source.into()) }
    }
}
