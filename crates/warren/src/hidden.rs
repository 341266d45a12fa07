//! Text that nobody is to see while it is typed.

use std::io::{self, IsTerminal as _, Read as _};

use rustix::termios::{LocalModes, OptionalActions, Termios};

use crate::ui;

/// Reads a secret from the standard input: all of it, or the line that somebody types after
/// `prompt`.
pub(crate) fn read(prompt: &str, most_bytes: u64) -> io::Result<String> {
    if !io::stdin().is_terminal() {
        return read_text(io::stdin(), most_bytes);
    }
    ui::say(prompt);
    let _silence = Silence::begin()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(line)
}

/// Reads text, and no more of it than this.
pub(crate) fn read_text(source: impl io::Read, most_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    source.take(most_bytes).read_to_string(&mut text)?;
    Ok(text)
}

/// Typed text is not shown until this is dropped.
struct Silence {
    before: Termios,
}

impl Silence {
    fn begin() -> io::Result<Self> {
        let before = rustix::termios::tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        rustix::termios::tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self { before })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // A terminal that is gone needs no echo.
        rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before).unwrap_or_default();
    }
}
