//! Network namespaces. The host sets one up before a sandbox enters it. A process that needs many
//! keeps some ready, as they are slower to make than other namespaces.
//!
//! A thread makes one by moving into it, and the descriptor keeps the namespace alive. It belongs
//! to the host's user namespace, so a sandbox has no rights over its own.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::sys;

/// Namespaces that are ready. Dropping this ends the thread that makes them.
#[derive(Debug)]
pub(crate) struct Networks {
    ready: Option<Mutex<Receiver<OwnedFd>>>,
}

impl Networks {
    /// Keeps `count` namespaces ready; none if it is zero.
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        if count == 0 {
            return Ok(Self { ready: None });
        }
        // The thread itself holds one more.
        let (sender, ready) = sync_channel(count - 1);
        std::thread::Builder::new().name("warren-networks".to_owned()).spawn(move || supply(&sender))?;
        Ok(Self { ready: Some(Mutex::new(ready)) })
    }

    /// Orders a namespace with loopback up. If none is ready, a thread of its own makes one while
    /// the caller goes on, so that no other thread is ever in the wrong namespace.
    pub(crate) fn order(&self) -> io::Result<Order> {
        match self.ready.as_ref().and_then(|ready| ready.lock().try_recv().ok()) {
            Some(namespace) => Ok(Order::Ready(namespace)),
            None => {
                let thread = std::thread::Builder::new().name("warren-network".to_owned()).spawn(make)?;
                Ok(Order::Coming(thread))
            }
        }
    }
}

/// A namespace that was ordered.
#[derive(Debug)]
pub(crate) enum Order {
    /// The caller of the create made it.
    Given(Arc<OwnedFd>),
    Ready(OwnedFd),
    Coming(JoinHandle<io::Result<OwnedFd>>),
}

impl Order {
    pub(crate) fn wait(self) -> io::Result<Arc<OwnedFd>> {
        match self {
            Self::Given(namespace) => Ok(namespace),
            Self::Ready(namespace) => Ok(Arc::new(namespace)),
            Self::Coming(thread) => {
                let made = thread.join();
                made.unwrap_or_else(|_| Err(io::Error::other("the thread that makes it panicked")))
                    .map(Arc::new)
            }
        }
    }
}

/// Makes namespaces until nobody takes them, or one cannot be made. Creates then make their own and
/// report the error.
fn supply(sender: &SyncSender<OwnedFd>) {
    while let Ok(namespace) = make() {
        if sender.send(namespace).is_err() {
            return;
        }
    }
}

fn make() -> io::Result<OwnedFd> {
    sys::unshare_network()?;
    sys::raise_loopback()?;
    Ok(fs::File::open("/proc/thread-self/ns/net")?.into())
}
