//! An agent whose every byte a test decides, and the way to it.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use warren_core::{Event, SandboxId};
use warren_wire::guest::{CHUNK, Exit, Frame, FrameDecoder, FrameKind, ProcessId, Reply, Request, Started};

use super::{Dial, Guest, Observer};
use crate::EngineError;

type Script = Box<dyn FnOnce(FarEnd) -> BoxFuture<'static, ()> + Send>;

/// Serves one script per connection, in order. Once they are used up the sandbox has ended.
#[derive(Clone, Default)]
pub(crate) struct FakeGate {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    scripts: Mutex<VecDeque<Script>>,
    events: Mutex<Vec<Event>>,
    output: Mutex<Vec<u8>>,
}

impl FakeGate {
    pub(crate) fn serve<F>(self, script: impl FnOnce(FarEnd) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.shared.scripts.lock().push_back(Box::new(|end| Box::pin(script(end))));
        self
    }

    pub(crate) fn guest(&self) -> Guest {
        Guest::new(self.clone(), Arc::new(self.clone()))
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.shared.events.lock().clone()
    }

    pub(crate) fn output(&self) -> Vec<u8> {
        self.shared.output.lock().clone()
    }

    pub(crate) fn unused(&self) -> usize {
        self.shared.scripts.lock().len()
    }
}

impl Dial for FakeGate {
    fn sandbox(&self) -> &SandboxId {
        static ID: std::sync::OnceLock<SandboxId> = std::sync::OnceLock::new();
        ID.get_or_init(|| SandboxId::from_random([7; 16]))
    }

    fn dial(&self) -> BoxFuture<'_, Result<UnixStream, EngineError>> {
        Box::pin(async {
            let Some(script) = self.shared.scripts.lock().pop_front() else {
                let detail = "it used more memory than it may".to_owned();
                return Err(EngineError::SandboxEnded { id: self.sandbox().clone(), detail });
            };
            let (near, far) = UnixStream::pair().unwrap();
            tokio::spawn(script(FarEnd { stream: far, decoder: FrameDecoder::default() }));
            Ok(near)
        })
    }

    fn end(&self) -> BoxFuture<'_, EngineError> {
        Box::pin(std::future::pending())
    }
}

impl Observer for FakeGate {
    fn saw_output(&self, bytes: &[u8]) {
        self.shared.output.lock().extend_from_slice(bytes);
    }

    fn started(&self, process: ProcessId, command: String) {
        self.shared.events.lock().push(Event::ExecStarted { process: process.0, command });
    }

    fn ended(&self, process: ProcessId, exit: &Exit) {
        let Exit { code: exit_code, duration_ms, .. } = *exit;
        let ended = Event::ExecEnded { process: process.0, exit_code, duration_ms };
        self.shared.events.lock().push(ended);
    }
}

/// The agent's end of a connection. Writing to a host that has gone is no error.
pub(crate) struct FarEnd {
    pub(crate) stream: UnixStream,
    decoder: FrameDecoder,
}

impl FarEnd {
    pub(crate) async fn request(&mut self) -> Request {
        let frame = self.receive().await.expect("a request");
        assert_eq!(frame.kind, FrameKind::Message);
        minicbor::decode(&frame.payload).expect("a request that can be decoded")
    }

    /// The host's next frame, `None` once it has gone.
    pub(crate) async fn receive(&mut self) -> Option<Frame> {
        let mut buffer = vec![0; CHUNK];
        loop {
            if let Some(frame) = self.decoder.next_frame().expect("frames") {
                return Some(frame);
            }
            let wanted = self.decoder.wanted().min(CHUNK);
            match self.stream.read(&mut buffer[..wanted]).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.decoder.push(&buffer[..count]),
            }
        }
    }

    pub(crate) async fn reply(&mut self, reply: &Reply) {
        self.send(FrameKind::Message, &minicbor::to_vec(reply).unwrap()).await;
    }

    pub(crate) async fn started(&mut self, position: u64) {
        let started = Started { process: ProcessId(3), pid: 40, position };
        self.reply(&Reply::Started(started)).await;
    }

    pub(crate) async fn send(&mut self, kind: FrameKind, payload: &[u8]) -> bool {
        let mut bytes = Frame::header(kind, payload.len()).to_vec();
        bytes.extend_from_slice(payload);
        self.stream.write_all(&bytes).await.is_ok()
    }

    /// Stays, and says nothing.
    pub(crate) async fn linger(mut self) {
        while self.receive().await.is_some() {}
    }
}
