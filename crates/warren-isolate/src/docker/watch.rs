//! Telling the end of first processes, and that of the engine: who watches a sandbox is told of
//! both. One thread waits for all of them, and for a connection to the engine that breaks when it
//! ends.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::record::Record;

/// How often an engine that is away is looked for.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Watcher {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Desk {
    socket: PathBuf,
    watched: Mutex<Vec<Watched>>,
    /// There is more to wait for, or it is over.
    changed: OwnedFd,
    ended: AtomicBool,
}

/// A process, and the descriptor that tells its end.
#[derive(Debug)]
struct Watched {
    process: OwnedFd,
    bell: OwnedFd,
}

impl Watcher {
    pub(super) fn start(socket: PathBuf) -> io::Result<Self> {
        let (watched, ended) = (Mutex::default(), AtomicBool::new(false));
        let desk = Arc::new(Desk { socket, watched, changed: bell(0)?, ended });
        let worker = Arc::clone(&desk);
        let thread = std::thread::Builder::new().name("warren-watch".to_owned());
        let thread = thread.spawn(move || worker.work())?;
        Ok(Self { desk, thread: Some(thread) })
    }

    pub(super) fn watch(&self, record: &Record) -> io::Result<OwnedFd> {
        let Some(process) = open(record) else { return bell(1) };
        let told = bell(0)?;
        let bell = told.try_clone()?;
        self.desk.watched.lock().push(Watched { process, bell });
        ring(&self.desk.changed);
        Ok(told)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.desk.ended.store(true, Ordering::Relaxed);
        ring(&self.desk.changed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Desk {
    fn work(&self) {
        while !self.ended.load(Ordering::Relaxed) {
            match UnixStream::connect(&self.socket) {
                // The engine breaks it when it ends, and perhaps for saying nothing.
                Ok(connection) => while self.wait(Some(&connection)) {},
                Err(_) => {
                    for watched in self.watched.lock().drain(..) {
                        ring(&watched.bell);
                    }
                    self.wait(None);
                }
            }
        }
    }

    /// Waits for something to happen, and tells the ends of processes. Returns whether the
    /// connection may still be there, and somebody waits for it.
    fn wait(&self, connection: Option<&UnixStream>) -> bool {
        let watched = std::mem::take(&mut *self.watched.lock());
        let mut polled = vec![PollFd::new(&self.changed, PollFlags::IN)];
        polled.extend(watched.iter().map(|watched| PollFd::new(&watched.process, PollFlags::IN)));
        polled.extend(connection.map(|connection| PollFd::new(connection, PollFlags::IN)));
        let time = connection.map_or_else(|| Timespec::try_from(PAUSE).ok(), |_| None);
        let waited = poll(&mut polled, time.as_ref());
        let happened: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        drop(polled);
        let happened = |index: usize| waited.is_ok() && happened.get(index).copied().unwrap_or(false);
        if happened(0) {
            let mut count = [0; 8];
            // Only whether it was rung matters.
            let _ = rustix::io::read(&self.changed, &mut count);
        }
        let broken = connection.is_some() && happened(watched.len() + 1);
        let mut left = Vec::new();
        for (index, watched) in watched.into_iter().enumerate() {
            if happened(index + 1) {
                ring(&watched.bell);
            } else {
                left.push(watched);
            }
        }
        self.watched.lock().append(&mut left);
        !broken && !self.ended.load(Ordering::Relaxed)
    }
}

/// The recorded process; `None` if it has ended. The descriptor is opened before the process is
/// compared with the record, so it is never another process with the same number.
fn open(record: &Record) -> Option<OwnedFd> {
    let number = i32::try_from(record.pid).ok().and_then(Pid::from_raw)?;
    let process = pidfd_open(number, PidfdFlags::empty()).ok()?;
    record.is_alive().then_some(process)
}

/// A descriptor that is readable once it has been rung.
pub(super) fn bell(count: u32) -> io::Result<OwnedFd> {
    Ok(eventfd(count, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

pub(super) fn ring(bell: &OwnedFd) {
    // It counts, and cannot be full.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}
