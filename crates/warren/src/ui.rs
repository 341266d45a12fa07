//! The one place that writes to the terminal.

mod look;
mod progress;
mod table;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

pub(crate) use look::Colour;
pub(crate) use progress::{Progress, waiting, waiting_with};
pub(crate) use table::print_table;

use crate::error::CliError;
use crate::exit::BROKEN_PIPE;

/// Set once, before anything is written.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Prints an error and what to do about it, and answers the exit code. If nobody reads the output
/// any more, there is nobody to tell.
pub(crate) fn report(error: &CliError) -> ExitCode {
    if error.exit != BROKEN_PIPE {
        complain(&error.chain());
        error.hints.iter().for_each(|hint| drop(writeln!(io::stderr(), "  {}", plain(hint))));
    }
    ExitCode::from(error.exit)
}

/// Errors and what was asked for are all that is written from now on.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// A line on standard error that says what went wrong.
pub(crate) fn complain(text: &str) {
    let mark =
        if look::has_colour(&io::stderr()) { Colour::Red.paint("warren:") } else { "warren:".to_owned() };
    drop(writeln!(io::stderr(), "{mark} {}", plain(text)));
}

/// A line on standard error, kept clear of what commands write to standard output.
pub(crate) fn say(text: &str) {
    if !is_quiet() {
        drop(writeln!(io::stderr(), "{}", plain(text)));
    }
}

/// A line on standard output that says what was done, to people.
pub(crate) fn tell(text: &str) {
    if !is_quiet() {
        print_plain(text);
    }
}

/// A line on standard output.
pub(crate) fn print(text: &str) {
    drop(writeln!(io::stdout(), "{text}"));
}

/// A line on standard output of text that came from a sandbox.
pub(crate) fn print_plain(text: &str) {
    print(&plain(text));
}

/// A line of text that came from a sandbox: on a terminal harmless and in colour, elsewhere byte by
/// byte.
pub(crate) fn print_coloured(text: &str, colour: Option<Colour>) {
    if io::stdout().is_terminal() {
        print(&look::coloured(&plain(text), colour));
    } else {
        print(&look::coloured(text, colour));
    }
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

/// Takes such a line away, if there may be one.
pub(crate) fn end_status() {
    if io::stderr().is_terminal() {
        status("");
    }
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
