//! The one place that writes to the terminal.

use std::io::{self, Write};

use serde::Serialize;

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

/// Text that came from a sandbox or a template must not steer the terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}
