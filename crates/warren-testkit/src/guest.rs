//! The agent of a fake sandbox: the guest protocol with real frames, a few scripted programs, and
//! files in memory.

mod calls;
mod code;
mod files;
mod follow;
mod line;
mod process;
mod programs;
mod tree;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};
use process::Process;
pub(crate) use tree::Tree;

/// Enough for a call in a debug build; a test may have thousands of them open.
const STACK: usize = 256 * 1024;

/// The agent of a fake sandbox from one start to its end.
#[derive(Debug)]
pub(crate) struct Guest {
    state: Mutex<State>,
    changed: Condvar,
    tree: Arc<Tree>,
    env: Vec<String>,
    began: Instant,
    open_files: AtomicUsize,
}

/// While it exists, the agent has a file open.
#[derive(Debug)]
struct OpenFile<'a>(&'a Guest);

impl Drop for OpenFile<'_> {
    fn drop(&mut self) {
        self.0.open_files.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug, Default)]
struct State {
    mood: Mood,
    processes: BTreeMap<u64, Process>,
    last_process: u64,
    connections: BTreeMap<u64, Arc<UnixStream>>,
    last_connection: u64,
    /// Connections whose other end has closed.
    departed: BTreeSet<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Mood {
    #[default]
    Awake,
    Frozen,
    Dead,
}

/// The sandbox has ended, or the other end of the connection has.
#[derive(Debug)]
struct Gone;

impl Guest {
    pub(crate) fn new(tree: Arc<Tree>, env: Vec<String>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            tree,
            env,
            began: Instant::now(),
            open_files: AtomicUsize::new(0),
        })
    }

    /// A new connection, served by a thread of its own.
    pub(crate) fn dial(self: &Arc<Self>) -> std::io::Result<OwnedFd> {
        let (near, far) = UnixStream::pair()?;
        let far = Arc::new(far);
        let connection = {
            let mut state = self.state.lock();
            state.last_connection += 1;
            let id = state.last_connection;
            if state.mood != Mood::Dead {
                state.connections.insert(id, Arc::clone(&far));
            }
            id
        };
        let guest = Arc::clone(self);
        std::thread::Builder::new().stack_size(STACK).spawn(move || {
            calls::serve(&guest, connection, Arc::clone(&far)).ok();
            far.shutdown(Shutdown::Both).ok();
            let mut state = guest.state.lock();
            state.connections.remove(&connection);
            state.departed.remove(&connection);
        })?;
        Ok(near.into())
    }

    pub(crate) fn set_frozen(&self, frozen: bool) {
        let mut state = self.state.lock();
        if state.mood != Mood::Dead {
            state.mood = if frozen { Mood::Frozen } else { Mood::Awake };
        }
        self.changed.notify_all();
    }

    /// Ends every process and closes every connection.
    pub(crate) fn kill(&self) {
        let mut state = self.state.lock();
        state.mood = Mood::Dead;
        for connection in std::mem::take(&mut state.connections).into_values() {
            connection.shutdown(Shutdown::Both).ok();
        }
        self.changed.notify_all();
    }

    /// Processes that have not ended.
    pub(crate) fn running(&self) -> usize {
        let mut state = self.state.lock();
        state.let_time_pass(Instant::now());
        state.processes.values().filter(|process| process.exit.is_none()).count()
    }

    /// Files that the agent has open for callers.
    pub(crate) fn open_files(&self) -> usize {
        self.open_files.load(Ordering::SeqCst)
    }

    fn open_file(&self) -> OpenFile<'_> {
        self.open_files.fetch_add(1, Ordering::SeqCst);
        OpenFile(self)
    }

    /// The agent's state, once it is not frozen.
    fn awake(&self) -> Result<MutexGuard<'_, State>, Gone> {
        let mut state = self.state.lock();
        while state.mood == Mood::Frozen {
            self.changed.wait(&mut state);
        }
        if state.mood == Mood::Dead {
            return Err(Gone);
        }
        state.let_time_pass(Instant::now());
        Ok(state)
    }
}

impl State {
    /// Ends the processes whose time is over.
    fn let_time_pass(&mut self, now: Instant) {
        for process in self.processes.values_mut() {
            process.let_time_pass(now);
        }
    }

    fn note_departed(&mut self, connection: u64) {
        if self.connections.contains_key(&connection) {
            self.departed.insert(connection);
        }
    }
}
