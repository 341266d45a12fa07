use std::io;

use rustix::termios::{OptionalActions, Termios};
use warren_wire::guest::TerminalSize;

pub(super) fn terminal_size() -> TerminalSize {
    let size =
        rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or(TerminalSize { columns: 80, rows: 24 }, |size| TerminalSize {
        columns: size.ws_col,
        rows: size.ws_row,
    })
}

/// The terminal passes every key to the sandbox's terminal until this is dropped.
pub(super) struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    pub(super) fn enter() -> Option<Self> {
        let before = rustix::termios::tcgetattr(io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
