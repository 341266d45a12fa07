//! A layer on its way. One thread fetches it into a file; another reads it from there, and waits
//! where it is faster.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use warren_core::{RegistryError, RegistryErrorKind};

use crate::blobs::Partial;
use crate::digest::Digest;

const BUFFER: usize = 256 << 10;

/// A layer that is fetched.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    /// Some of it is of an earlier pull.
    is_resumed: bool,
    partial: Partial,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that are there.
    arrived: u64,
    /// No more will come.
    is_over: bool,
    /// Why, until somebody tells it.
    failure: Option<RegistryError>,
}

/// Reads a layer from its beginning while it arrives.
#[derive(Debug, Clone)]
pub(crate) struct Arriving {
    arrival: Arc<Arrival>,
    position: u64,
}

impl Arrival {
    /// A layer of which the first bytes may be there.
    pub(super) fn new(digest: Digest, size: u64, partial: Partial) -> io::Result<Self> {
        let mut arrived = partial.file.metadata()?.len();
        if arrived > size {
            partial.file.set_len(0)?;
            arrived = 0;
        }
        let state = Mutex::new(State { arrived, ..State::default() });
        let is_resumed = arrived > 0;
        Ok(Self { digest, size, is_resumed, partial, state, changed: Condvar::new() })
    }

    pub(super) fn arrived(&self) -> u64 {
        self.state.lock().arrived
    }

    /// Takes what a registry sends, until that ends or `stopped`.
    pub(super) fn take(
        &self,
        mut from: impl Read,
        buffer: &mut Vec<u8>,
        stopped: impl Fn() -> bool,
    ) -> Result<(), RegistryError> {
        buffer.resize(BUFFER, 0);
        let mut at = self.arrived();
        while !stopped() {
            let read = match from.read(buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.failed(RegistryErrorKind::Unreachable, error)),
            };
            if at + read as u64 > self.size {
                self.discard();
                let action = format!(
                    "layer {} is longer than the {} bytes that its manifest says",
                    self.digest, self.size
                );
                return Err(RegistryError::new(RegistryErrorKind::Refused, action));
            }
            let written = self.partial.file.write_all_at(&buffer[..read], at);
            written.map_err(|error| self.failed(RegistryErrorKind::Refused, error))?;
            at += read as u64;
            self.state.lock().arrived = at;
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Its bytes are wrong, or those of a registry that lies.
    pub(super) fn discard(&self) {
        self.partial.discard();
    }

    /// Nothing more will come, because all is there or for this reason.
    pub(super) fn end(&self, failure: Option<RegistryError>) {
        let mut state = self.state.lock();
        state.is_over = true;
        state.failure = failure;
        self.changed.notify_all();
    }

    /// Waits for bytes after a position; none if no more come.
    fn wait(&self, position: u64) -> u64 {
        let mut state = self.state.lock();
        while state.arrived <= position && !state.is_over && position < self.size {
            self.changed.wait(&mut state);
        }
        state.arrived.saturating_sub(position)
    }

    fn failed(&self, kind: RegistryErrorKind, error: io::Error) -> RegistryError {
        RegistryError::caused(kind, format!("fetch layer {}", self.digest), error)
    }
}

impl Arriving {
    pub(super) fn new(arrival: Arc<Arrival>) -> Self {
        Self { arrival, position: 0 }
    }

    pub(crate) fn length(&self) -> u64 {
        self.arrival.size
    }

    /// Why the rest did not come, for one who asks.
    pub(crate) fn failure(&self) -> Option<RegistryError> {
        self.arrival.state.lock().failure.take()
    }

    /// Its bytes are the right ones.
    pub(crate) fn keep(&self) -> io::Result<()> {
        self.arrival.partial.keep()
    }

    /// Some of it is of an earlier pull.
    pub(crate) fn is_resumed(&self) -> bool {
        self.arrival.is_resumed
    }

    fn file(&self) -> &File {
        &self.arrival.partial.file
    }
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let there = self.arrival.wait(self.position);
        if there == 0 && self.position < self.arrival.size {
            return Err(io::Error::other("the rest of the layer does not arrive"));
        }
        let wanted = usize::try_from(there).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file().read_at(&mut buffer[..wanted], self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}
