use std::io;

use clap::Args;
use rustix::termios::{OptionalActions, Termios};
use warren_wire::guest::TerminalSize;

use super::Streams;

/// The flags that other tools need for a terminal.
#[derive(Debug, Args)]
pub(crate) struct TerminalFlags {
    /// Pass standard input on, as happens anyway
    #[arg(long, short)]
    interactive: bool,
    /// Give the command a terminal even if this one is none, such as in a pipe
    #[arg(long, short)]
    tty: bool,
}

impl TerminalFlags {
    pub(crate) fn streams(&self) -> Streams {
        if self.tty { Streams::Terminal } else { Streams::PassThrough }
    }
}

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
