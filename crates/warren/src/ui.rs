//! The one place that writes to the terminal.

use std::cell::Cell;
use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;
use warren_core::ByteSize;

use crate::error::{BROKEN_PIPE, CliError};

/// Prints an error and what to do about it, and answers the exit code. If nobody reads the output
/// any more, there is nobody to tell.
pub(crate) fn report(error: &CliError) -> ExitCode {
    if error.exit != BROKEN_PIPE {
        complain(&error.chain());
        error.hints.iter().for_each(|hint| say(&format!("  {hint}")));
    }
    ExitCode::from(error.exit)
}

/// A line on standard error that says what went wrong.
pub(crate) fn complain(text: &str) {
    say(&format!("warren: {text}"));
}

/// A line on standard error, kept clear of what commands write to standard output.
pub(crate) fn say(text: &str) {
    drop(writeln!(io::stderr(), "{}", plain(text)));
}

/// A line on standard output.
pub(crate) fn print(text: &str) {
    drop(writeln!(io::stdout(), "{text}"));
}

/// A line on standard output of text that came from a sandbox.
pub(crate) fn print_plain(text: &str) {
    print(&plain(text));
}

/// How a line is to stand out, where it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Bold,
    Red,
    Green,
    Cyan,
}

/// A line of text that came from a sandbox: on a terminal harmless and in colour, elsewhere byte by
/// byte.
pub(crate) fn print_coloured(text: &str, colour: Option<Colour>) {
    if !io::stdout().is_terminal() {
        return print(text);
    }
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let code = match colour.filter(|_| !plain) {
        None => return print_plain(text),
        Some(Colour::Bold) => "1",
        Some(Colour::Red) => "31",
        Some(Colour::Green) => "32",
        Some(Colour::Cyan) => "36",
    };
    print(&format!("\x1b[{code}m{}\x1b[m", self::plain(text)));
}

/// As [`print_plain`], for output that goes on and on: fails when nobody reads it any more.
pub(crate) fn print_line(text: &str) -> Result<(), CliError> {
    write(&mut io::stdout(), format!("{}\n", plain(text)).as_bytes())
}

/// Passes bytes on as they are. If nobody reads them any more, the command ends like any program in
/// a pipe.
pub(crate) fn write(stream: &mut impl Write, bytes: &[u8]) -> Result<(), CliError> {
    stream.write_all(bytes).and_then(|()| stream.flush()).map_err(CliError::output)
}

/// A line that the next one replaces, for work that takes a while.
pub(crate) fn status(text: &str) {
    let mut stderr = io::stderr();
    drop(write!(stderr, "\r\x1b[K{}", plain(text)).and_then(|()| stderr.flush()));
}

/// One JSON document on standard output.
pub(crate) fn print_json(value: &impl Serialize) {
    let text =
        serde_json::to_string_pretty(value).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
    print(&text);
}

/// A value as JSON, or as `plain` prints it.
pub(crate) fn show<T: Serialize>(json: bool, value: &T, plain: impl FnOnce(&T)) {
    if json { print_json(value) } else { plain(value) }
}

/// Rows under headings, each column as wide as its widest cell.
pub(crate) fn print_table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) {
    let widths: [usize; N] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| plain(&row[column]).chars().count())
            .chain([headings[column].len()])
            .max()
            .unwrap_or(0)
    });
    let line = |cells: [&str; N]| {
        let padded: Vec<String> =
            cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        print(padded.join("  ").trim_end());
    };
    line(headings);
    for row in rows {
        let cells: [String; N] = std::array::from_fn(|column| plain(&row[column]));
        line(std::array::from_fn(|column| cells[column].as_str()));
    }
}

/// A list as JSON, or as a table with a row for each item.
pub(crate) fn show_table<T: Serialize, const N: usize>(
    json: bool,
    headings: [&str; N],
    items: &[T],
    row: impl Fn(&T) -> [String; N],
) {
    show(json, &items, |items| print_table(headings, &items.iter().map(row).collect::<Vec<_>>()));
}

/// An argument, or standard input where it is `-`.
pub(crate) fn text_or_stdin(argument: &str) -> Result<String, CliError> {
    if argument == "-" {
        io::read_to_string(io::stdin()).map_err(CliError::new)
    } else {
        Ok(argument.to_owned())
    }
}

/// Text that came from a sandbox or a template must not steer the terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// How far a transfer has come, on a terminal, once it takes longer than a moment.
pub(crate) struct Progress {
    started: Instant,
    shown: Cell<Option<Instant>>,
    bytes: Cell<u64>,
    on_terminal: bool,
}

const MOMENT: Duration = Duration::from_millis(500);

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            shown: Cell::new(None),
            bytes: Cell::new(0),
            on_terminal: io::stderr().is_terminal(),
        }
    }

    /// Counts what is read.
    pub(crate) fn watch<'a>(&'a self, content: &'a mut dyn Read, name: &'a str) -> Watched<'a> {
        Watched { content, progress: self, name }
    }

    fn count(&self, more: usize, name: &str) {
        self.bytes.set(self.bytes.get() + more as u64);
        let last = self.shown.get().unwrap_or(self.started);
        if self.on_terminal && last.elapsed() > MOMENT {
            self.shown.set(Some(Instant::now()));
            let elapsed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
            let rate = ByteSize(self.bytes.get().saturating_mul(1000) / elapsed_ms);
            status(&format!("{} at {rate}/s  {name}", ByteSize(self.bytes.get())));
        }
    }
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
        self.progress.count(count, self.name);
        Ok(count)
    }
}
