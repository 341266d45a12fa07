//! Interrupted work takes away what it has not finished.
//!
//! A signal that asks this process to end is heard by a thread of its own, so that it is answered
//! at once, even while the work waits for a server or a disk.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{SigId, flag, low_level};

use crate::ui;

type Undo = Box<dyn FnOnce() + Send>;

/// Unfinished things, each with the way to take it away.
struct Book {
    next: u64,
    open: Vec<(u64, Undo)>,
}

static BOOK: Mutex<Book> = Mutex::new(Book { next: 0, open: Vec::new() });
static LISTENER: Once = Once::new();

/// Something that was begun. It counts as finished when this is dropped.
#[derive(Debug)]
pub(crate) struct Unfinished {
    number: u64,
}

impl Unfinished {
    /// Makes something that `undo` takes away again if this process is interrupted meanwhile.
    pub(crate) fn begin<T>(
        make: impl FnOnce() -> io::Result<T>,
        undo: impl FnOnce() + Send + 'static,
    ) -> io::Result<(T, Self)> {
        listen()?;
        // An interruption waits for the lock: it comes before what is made here, or after.
        let mut book = BOOK.lock();
        let made = make()?;
        let number = book.next;
        book.next += 1;
        book.open.push((number, Box::new(undo)));
        Ok((made, Self { number }))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        BOOK.lock().open.retain(|(number, _)| *number != self.number);
    }
}

/// Notes signals while work of a moment is done that is better ended than cut off. A second signal
/// ends this process at once.
pub(crate) struct Noted {
    flag: Arc<AtomicBool>,
    ids: Vec<SigId>,
}

impl Noted {
    pub(crate) fn begin() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let mut ids = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            ids.push(flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&flag))?);
            ids.push(flag::register(signal, Arc::clone(&flag))?);
        }
        Ok(Self { flag, ids })
    }

    /// Tells whether a signal asked this process to end.
    pub(crate) fn end(self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.ids.drain(..).for_each(|id| {
            low_level::unregister(id);
        });
    }
}

/// Has signals that ask this process to end answered by a thread, which ends it as they would.
pub(crate) fn listen() -> io::Result<()> {
    let mut failed = None;
    LISTENER.call_once(|| match Signals::new([SIGINT, SIGTERM, SIGHUP]) {
        Ok(mut signals) => {
            std::thread::spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    let mut book = BOOK.lock();
                    book.open.drain(..).rev().for_each(|(_, undo)| undo());
                    ui::end_status();
                    // The lock stays taken, so that nothing is begun any more.
                    low_level::emulate_default_handler(signal).ok();
                }
            });
        }
        Err(error) => failed = Some(error),
    });
    failed.map_or(Ok(()), Err)
}
