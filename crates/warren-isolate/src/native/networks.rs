//! Network namespaces made ahead: the costliest namespace to make, and the same for every sandbox.
//!
//! A thread of its own makes them, each by leaving the last one for a new one; a namespace lives on in its descriptor. The
//! thread belongs to the host's user namespace, so no sandbox has any right over the namespace it is given.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

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

    /// A prepared one, if there is one: nobody waits for it, because the clone can make one too.
    pub(super) fn take(&self) -> Option<OwnedFd> {
        let ready = self.ready.as_ref()?.lock().ok()?;
        ready.try_recv().ok()
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
    fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")?;
    fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647")?;
    Ok(fs::File::open("/proc/thread-self/ns/net")?.into())
}
