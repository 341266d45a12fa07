//! Network namespaces: set up by the host before a sandbox enters, and where many are needed, ahead of time, because none is
//! costlier to make.
//!
//! A thread makes one by leaving for it; the namespace lives on in its descriptor. It belongs to the host's user namespace,
//! so no sandbox has any right over the one it is given.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::sys;

/// What is ready. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Networks {
    ready: Option<Mutex<Receiver<OwnedFd>>>,
}

impl Networks {
    /// Keeps `count` namespaces ready; none if it is zero.
    pub(super) fn start(count: usize) -> io::Result<Self> {
        if count == 0 {
            return Ok(Self { ready: None });
        }
        // One more waits in the thread's hands.
        let (sender, ready) = sync_channel(count - 1);
        std::thread::Builder::new().name("warren-networks".to_owned()).spawn(move || supply(&sender))?;
        Ok(Self { ready: Some(Mutex::new(ready)) })
    }

    /// Orders a namespace with loopback up. One that is ready is there at once; else it is made while the caller does other
    /// things, in a thread that ends with it, so that no other thread is ever in the wrong one.
    pub(super) fn order(&self) -> io::Result<Order> {
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
pub(super) enum Order {
    /// Somebody else made it.
    Given(Arc<OwnedFd>),
    Ready(OwnedFd),
    Coming(JoinHandle<io::Result<OwnedFd>>),
}

impl Order {
    pub(super) fn wait(self) -> io::Result<Arc<OwnedFd>> {
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

/// Ends when nobody takes them any more, or when one cannot be made: creates then make their own and report why not.
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
