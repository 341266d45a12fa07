//! How far long work is, on a line of the terminal that is written over and over.

use std::cell::Cell;
use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use warren_core::ByteSize;

use super::{look, status};
use crate::time::in_one_unit;

/// Shorter work needs no line, and a line is not written more often.
const MOMENT: Duration = Duration::from_millis(200);

/// Names are cut to this many characters.
const LONGEST_NAME: usize = 40;

/// How far a piece of work has come. Shown on standard error if that is a terminal, once the work
/// takes longer than a moment.
pub(crate) struct Progress {
    started: Instant,
    shown: Cell<Option<Instant>>,
    bytes: Cell<u64>,
    total: Cell<Option<u64>>,
    on_terminal: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            shown: Cell::new(None),
            bytes: Cell::new(0),
            total: Cell::new(None),
            on_terminal: Self::is_seen(),
        }
    }

    /// Tells whether there is anybody to show it to.
    pub(crate) fn is_seen() -> bool {
        io::stderr().is_terminal() && !super::is_quiet()
    }

    /// The same for work of a known size.
    pub(crate) fn of(total: Option<u64>) -> Self {
        let progress = Self::new();
        progress.expect(total.unwrap_or(0));
        progress
    }

    /// The size of the whole, now that it is known; 0 if it is not.
    pub(crate) fn expect(&self, total: u64) {
        self.total.set(Some(total).filter(|total| *total > 0));
    }

    /// Counts what is read.
    pub(crate) fn watch<'a>(&'a self, content: &'a mut dyn Read, name: &'a str) -> Watched<'a> {
        Watched { content, progress: self, name }
    }

    /// So much is done of so much, if that is known.
    pub(crate) fn at(&self, bytes: u64, total: Option<u64>, what: &str) {
        self.bytes.set(bytes);
        self.total.set(total.filter(|total| *total > 0));
        self.show(what);
    }

    /// A step of work that is not counted in bytes, with the share of it that is done, if that is
    /// known. A step that has just begun is shown at once.
    pub(crate) fn step(&self, percent: Option<u64>, what: &str) {
        if self.on_terminal && (percent.is_none() || self.is_due()) {
            let share = percent.map(|percent| format!("{:3}%  ", percent.min(100))).unwrap_or_default();
            self.write(&format!("{share}{what}"));
        }
    }

    fn show(&self, what: &str) {
        if self.on_terminal && self.is_due() {
            self.write(&line(self.bytes.get(), self.total.get(), self.started.elapsed(), what));
        }
    }

    fn is_due(&self) -> bool {
        self.shown.get().unwrap_or(self.started).elapsed() > MOMENT
    }

    fn write(&self, line: &str) {
        self.shown.set(Some(Instant::now()));
        // A line that wraps could not be written over.
        let width = look::width(&io::stderr()).unwrap_or(80);
        status(&look::cut(line, width.saturating_sub(1)));
    }
}

/// Does work of unknown length, and shows how long it has taken.
pub(crate) fn waiting<T>(what: &str, work: impl FnOnce() -> T) -> T {
    waiting_with(what, String::new, work)
}

/// The same, and shows what `far` tells of how far it is. That may take a while, too.
pub(crate) fn waiting_with<T>(
    what: &str,
    mut far: impl FnMut() -> String + Send,
    work: impl FnOnce() -> T,
) -> T {
    if !Progress::is_seen() {
        return work();
    }
    let (working, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let started = Instant::now();
            while ended.recv_timeout(MOMENT) == Err(RecvTimeoutError::Timeout) {
                let line = format!("{what} … {}  {}", in_one_unit(started.elapsed().as_secs()), far());
                status(line.trim_end());
            }
            status("");
        });
        let done = work();
        drop(working);
        done
    })
}

/// `45%  12 MiB of 27 MiB  3 MiB/s  5s left  name`.
fn line(bytes: u64, total: Option<u64>, elapsed: Duration, what: &str) -> String {
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = bytes.saturating_mul(1000) / elapsed_ms;
    let mut parts = Vec::new();
    match total {
        Some(total) => {
            parts.push(format!("{:3}%", (bytes.min(total) * 100).checked_div(total).unwrap_or(100)));
            parts.push(format!("{} of {}", ByteSize(bytes), ByteSize(total)));
        }
        None => parts.push(ByteSize(bytes).to_string()),
    }
    parts.push(format!("{}/s", ByteSize(rate)));
    if let Some(left) = total.and_then(|total| total.saturating_sub(bytes).checked_div(rate)) {
        parts.push(format!("{} left", in_one_unit(left)));
    }
    parts.push(look::cut(what, LONGEST_NAME));
    parts.join("  ").trim_end().to_owned()
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.get().is_some() {
            status("");
        }
    }
}

/// See [`Progress::watch`].
pub(crate) struct Watched<'a> {
    content: &'a mut dyn Read,
    progress: &'a Progress,
    name: &'a str,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.progress.bytes.set(self.progress.bytes.get() + count as u64);
        self.progress.show(self.name);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_share_the_speed_and_the_time_left() {
        let (mebi, second) = (1 << 20, Duration::from_secs(1));
        assert_eq!(
            line(10 * mebi, Some(40 * mebi), 2 * second, "a.bin"),
            " 25%  10 MiB of 40 MiB  5 MiB/s  6s left  a.bin"
        );
        assert_eq!(line(10 * mebi, None, second, ""), "10 MiB  10 MiB/s");
        assert_eq!(line(0, Some(mebi), second, "x"), "  0%  0 B of 1 MiB  0 B/s  x");
        assert!(line(2 * mebi, Some(mebi), second, "grew").starts_with("100%"));
    }
}
