//! The one place that writes to the terminal.

use std::io::{self, Write};

/// A line on standard output.
pub(crate) fn print(text: &str) {
    drop(writeln!(io::stdout(), "{text}"));
}

/// A line on standard error.
pub(crate) fn complain(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}

/// A line on standard error that the next one replaces.
pub(crate) fn status(text: &str) {
    let mut stderr = io::stderr();
    drop(write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush()));
}

/// Rows under headings, each column as wide as its widest cell.
pub(crate) fn print_table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    });
    let line = |cells: [&str; N]| {
        let padded: Vec<String> =
            cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        print(padded.join("  ").trim_end());
    };
    line(headings);
    for row in rows {
        line(std::array::from_fn(|column| row[column].as_str()));
    }
}
