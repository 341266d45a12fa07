//! Addresses for the services inside chats' sandboxes.
//!
//! A sandbox's own loopback cannot be reached from the host, so each exposed sandbox gets a
//! loopback address of the host's to itself, on which the server listens at the very port the
//! service has inside. The address follows from the sandbox's id: after a restart of the server the
//! next create opens the same one again. It is reachable from this machine alone, and no sandbox
//! can reach it.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use warren_core::{SandboxId, SandboxRecord, Status};
use warren_engine::{EngineError, Sandbox};

/// Connections that one sandbox may have at a time.
const MOST_CONNECTIONS: usize = 256;

/// Other addresses that are tried where one is taken.
const TRIES: u8 = 16;

/// How long the end of a sandbox is waited for at a time.
const PATIENCE_MS: u64 = 60_000;

/// The addresses that are open. Dropping it closes them all.
pub(super) struct Forwarders {
    open: Mutex<HashMap<SandboxId, Forwarder>>,
    shutdown: CancellationToken,
}

struct Forwarder {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Forwarders {
    pub(super) fn new(shutdown: CancellationToken) -> Self {
        Self { open: Mutex::default(), shutdown }
    }

    /// Where the service on this port of the sandbox answers, from now until the sandbox ends.
    pub(super) async fn expose(&self, sandbox: &Sandbox, port: u16) -> io::Result<SocketAddr> {
        let mut open = self.open.lock().await;
        open.retain(|_, forwarder| !forwarder.task.is_finished());
        if let Some(forwarder) = open.get(sandbox.id()) {
            return Ok(forwarder.address);
        }
        let listener = listen(sandbox.id(), port).await?;
        let address = listener.local_addr()?;
        let target = Target { sandbox: sandbox.clone(), port };
        let shutdown = self.shutdown.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = target.serve(&listener) => {}
                () = target.ended() => {}
                () = shutdown.cancelled() => {}
            }
        });
        open.insert(sandbox.id().clone(), Forwarder { address, task });
        Ok(address)
    }

    /// When it returns, nobody is let in any more.
    pub(super) async fn close(&self, sandbox: &SandboxId) {
        let forwarder = self.open.lock().await.remove(sandbox);
        if let Some(mut forwarder) = forwarder {
            forwarder.task.abort();
            drop((&mut forwarder.task).await);
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The service that an address stands for.
#[derive(Clone)]
struct Target {
    sandbox: Sandbox,
    port: u16,
}

impl Target {
    /// Lets callers in, never too many at a time. Those who are in go when this is dropped.
    async fn serve(&self, listener: &TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            while connections.len() >= MOST_CONNECTIONS {
                connections.join_next().await;
            }
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, _)) => drop(connections.spawn(self.clone().carry(stream))),
                // Out of descriptors, most likely: others need time to give some back.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn carry(self, mut caller: TcpStream) {
        let service = self.sandbox.connect(self.port).await;
        match service {
            Ok(mut service) => drop(tokio::io::copy_bidirectional(&mut caller, &mut service).await),
            Err(error) => {
                tracing::debug!(sandbox.id = %self.sandbox.id(), %error, "nothing answers in a chat's sandbox")
            }
        }
    }

    /// Returns once there is nothing more to forward to.
    async fn ended(&self) {
        let mut seen = self.sandbox.record().await;
        while let Some(generation) = generation_if_alive(&seen) {
            seen = self.sandbox.changed(generation, PATIENCE_MS).await;
        }
    }
}

fn generation_if_alive(seen: &Result<SandboxRecord, EngineError>) -> Option<u64> {
    let alive = seen.as_ref().ok().filter(|sandbox| sandbox.is_live() && sandbox.status != Status::Stopping);
    alive.map(|sandbox| sandbox.generation)
}

async fn listen(sandbox: &SandboxId, port: u16) -> io::Result<TcpListener> {
    let mut taken = io::Error::from(io::ErrorKind::AddrInUse);
    for attempt in 0..TRIES {
        match TcpListener::bind((address(sandbox, attempt), port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

/// A loopback address of the sandbox's own, away from the low ones that other programs use.
fn address(sandbox: &SandboxId, attempt: u8) -> Ipv4Addr {
    let digest = Sha256::new().chain_update(sandbox.as_str()).chain_update([attempt]).finalize();
    Ipv4Addr::new(127, 64 + digest[0] % 64, digest[1], 1 + digest[2] % 254)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_from_the_id_and_differ() {
        let id = |number| SandboxId::from_random([number; 16]);
        assert_eq!(address(&id(1), 0), address(&id(1), 0));
        assert_ne!(address(&id(1), 0), address(&id(1), 1));
        let all: std::collections::BTreeSet<_> = (0..=255).map(|number| address(&id(number), 0)).collect();
        assert!(all.len() > 250, "{}", all.len());
        assert!(all.iter().all(|address| address.is_loopback() && address.octets()[1] >= 64));
    }

    #[tokio::test]
    async fn a_taken_address_makes_way_for_another() {
        let sandbox = SandboxId::from_random([7; 16]);
        let first = listen(&sandbox, 48_123).await.unwrap();
        let second = listen(&sandbox, 48_123).await.unwrap();
        assert_ne!(first.local_addr().unwrap(), second.local_addr().unwrap());
        assert_eq!(second.local_addr().unwrap().port(), 48_123);
    }
}
