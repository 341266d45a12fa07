//! Sees to it that the kernel keeps what it was told, and that what is allowed for a while is not
//! allowed for longer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;

use super::NetworkState;
use crate::book::unix_ms;
use crate::netlink::{Protocol, Socket};

/// How often everything is looked at, if nobody says that there is reason to.
const ROUND: Duration = Duration::from_secs(1);
/// The group for changes of nftables (`NFNLGRP_NFTABLES`).
const NFTABLES: u32 = 7;
/// Looking takes time too: not again at once.
const BREATH: Duration = Duration::from_millis(10);

/// A thread that watches. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Watcher {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(super) fn start(shared: Arc<NetworkState>) -> io::Result<Self> {
        let mut socket = Socket::open(Protocol::Netfilter)?;
        // Nobody but this process changes a table that is its own: there is nothing to hear.
        if !shared.table.is_held() {
            socket.subscribe(NFTABLES)?;
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let work = move || watch(&shared, socket, &over);
        let thread = std::thread::Builder::new().name("warren-watcher".to_owned()).spawn(work)?;
        Ok(Self { is_over, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}

fn watch(shared: &NetworkState, mut socket: Socket, over: &AtomicBool) {
    let mut complained = false;
    while !over.load(Ordering::Acquire) {
        match shared.mend() {
            Ok(()) => complained = false,
            Err(error) if !complained => {
                complained = true;
                tracing::error!(%error, "the table could not be restored: what it opens is closed");
            }
            Err(_) => {}
        }
        let next = shared.follow_time(unix_ms());
        let patience = next.map_or(ROUND, |next| Duration::from_millis(next.saturating_sub(unix_ms())));
        wait(&mut socket, patience.clamp(BREATH, ROUND), shared.table.is_held());
    }
}

fn wait(socket: &mut Socket, patience: Duration, is_held: bool) {
    if is_held {
        std::thread::park_timeout(patience);
        return;
    }
    match socket.hear(patience, |_| {}) {
        Ok(false) => {}
        Ok(true) => {
            std::thread::park_timeout(BREATH);
            while socket.hear(Duration::ZERO, |_| {}) == Ok(true) {}
        }
        // More was told than could be kept: a reason to look.
        Err(error) if error.errno == Errno::NOBUFS => {}
        Err(_) => std::thread::park_timeout(patience),
    }
}

impl NetworkState {
    /// Puts back what somebody else has removed.
    fn mend(&self) -> io::Result<()> {
        self.guard.hold()?;
        if self.table.is_intact()? {
            return Ok(());
        }
        tracing::warn!(block = self.maker.block, "somebody has changed the table: it is restored");
        Ok(self.table.restore()?)
    }
}
