//! Single requests to the programs inside.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::{Request, response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio_util::task::AbortOnDropHandle;
use warren_engine::Visit;

use crate::{Browser, BrowserError};

/// The bounds of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) bytes: usize,
    pub(crate) patience: Duration,
}

impl Browser {
    /// Asks and reads all of the answer. Both programs answer only to a name of the machine itself.
    pub(crate) async fn ask(
        &self,
        visit: &Visit,
        port: u16,
        mut request: Request<Bytes>,
        bounds: Bounds,
    ) -> Result<(response::Parts, Bytes), BrowserError> {
        let host = format!("localhost:{port}");
        let length = request.body().len();
        let headers = request.headers_mut();
        headers.insert(HOST, host.parse().map_err(|_| self.garbled("no host"))?);
        headers.insert(CONTENT_LENGTH, length.into());
        let asked = self.exchange(visit, port, request.map(Full::new), bounds.bytes);
        let answered = tokio::time::timeout(bounds.patience, asked).await;
        answered.map_err(|_| BrowserError::Silent { sandbox: self.id() })?
    }

    async fn exchange(
        &self,
        visit: &Visit,
        port: u16,
        request: Request<Full<Bytes>>,
        most: usize,
    ) -> Result<(response::Parts, Bytes), BrowserError> {
        let stream = visit.connect_now(port).await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.garbled(error))?;
        // Its end is seen by the request that uses it.
        let _connection = AbortOnDropHandle::new(tokio::spawn(async { drop(connection.await) }));
        let answered = sender.send_request(request).await.map_err(|error| self.garbled(error))?;
        let (head, body) = answered.into_parts();
        let body = Limited::new(body, most).collect().await;
        Ok((head, body.map_err(|error| self.garbled(error))?.to_bytes()))
    }

    pub(crate) fn garbled(&self, what: impl ToString) -> BrowserError {
        BrowserError::Garbled { sandbox: self.id(), what: what.to_string() }
    }
}
