//! Rows under headings.

use std::io;

use super::look::{self, Colour};
use super::{is_quiet, plain, print, print_plain};

/// The space between two columns.
const GAP: usize = 2;

/// A column is not made narrower than this to fit on a terminal.
const NARROWEST: usize = 8;
/// Nor is the last one, which is cut when no other can be.
const NARROWEST_LAST: usize = 3;

/// Rows under headings, each column as wide as its widest cell. On a terminal, long cells are cut
/// so that a row is a line; the first column names the thing and stays whole. In quiet, it is all
/// there is.
pub(crate) fn print_table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) {
    if is_quiet() {
        return rows.iter().for_each(|row| print_plain(&row[0]));
    }
    let width = look::width(&io::stdout());
    let colour = look::has_colour(&io::stdout());
    lines(headings, rows, width, colour).iter().for_each(|line| print(line));
}

fn lines<const N: usize>(
    headings: [&str; N],
    rows: &[[String; N]],
    width: Option<usize>,
    colour: bool,
) -> Vec<String> {
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| plain(cell))).collect();
    let mut widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    });
    if let Some(width) = width {
        fit(&mut widths, width);
    }
    let line = |cells: [&str; N], paint: &dyn Fn(usize, &str) -> Option<Colour>| {
        let last = cells.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
        let mut line = String::new();
        for (column, cell) in cells[..=last].iter().enumerate() {
            let shown = look::cut(cell, widths[column]);
            let room = widths[column].saturating_sub(shown.chars().count()) + GAP;
            match paint(column, cell).filter(|_| colour && !shown.is_empty()) {
                Some(colour) => line.push_str(&colour.paint(&shown)),
                None => line.push_str(&shown),
            }
            line.extend(std::iter::repeat_n(' ', if column == last { 0 } else { room }));
        }
        line
    };
    let mut lines = vec![line(headings, &|_, _| Some(Colour::Bold))];
    let of_cell = |column: usize, cell: &str| (headings[column] == "STATE").then(|| of_state(cell)).flatten();
    lines.extend(rows.iter().map(|row| line(row.each_ref().map(String::as_str), &of_cell)));
    lines
}

/// Takes from the widest columns what a line has too much.
fn fit<const N: usize>(widths: &mut [usize; N], width: usize) {
    loop {
        let taken = widths.iter().sum::<usize>() + GAP * N.saturating_sub(1);
        if taken <= width {
            return;
        }
        let widest = (1..N).max_by_key(|column| widths[*column]);
        match widest {
            Some(column) if widths[column] > NARROWEST => {
                // The last column is cut first: it holds what can be as long as it likes.
                let column = if widths[N - 1] > NARROWEST { N - 1 } else { column };
                widths[column] -= (taken - width).min(widths[column] - NARROWEST);
            }
            Some(_) if widths[N - 1] > NARROWEST_LAST => {
                widths[N - 1] -= (taken - width).min(widths[N - 1] - NARROWEST_LAST);
                return;
            }
            _ => return,
        }
    }
}

/// The colour of a state, which is its first word.
fn of_state(state: &str) -> Option<Colour> {
    match state.split(' ').next().unwrap_or_default() {
        "ready" | "running" | "active" | "valid" => Some(Colour::Green),
        "paused" | "suspended" | "detached" | "stopping" | "creating" | "syncing" => Some(Colour::Yellow),
        "stopped" | "released" => Some(Colour::Cyan),
        "gone" | "failed" | "revoked" | "expired" | "terminated" => Some(Colour::Red),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: [&str; 3]) -> [String; 3] {
        cells.map(str::to_owned)
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be_and_lines_have_no_end() {
        let rows = [row(["a", "ready", ""]), row(["longer", "x", "last\x1b[31m"])];
        let shown = lines(["ID", "STATE", "C"], &rows, None, false);
        assert_eq!(shown, ["ID      STATE  C", "a       ready", "longer  x      last\u{fffd}[31m"]);
    }

    #[test]
    fn a_terminal_cuts_what_is_long_but_never_the_first_column() {
        let rows = [row(["sbxaaaaaaaaaaaaaaaaaaa", "ready", &"word ".repeat(20)])];
        let shown = lines(["SANDBOX", "STATE", "COMMAND"], &rows, Some(50), false);
        assert_eq!(shown[1], "sbxaaaaaaaaaaaaaaaaaaa  ready  word word word wor…");
        assert!(shown.iter().all(|line| line.chars().count() <= 50), "{shown:?}");
        let narrow = lines(["SANDBOX", "STATE", "COMMAND"], &rows, Some(10), false);
        assert!(narrow[1].starts_with("sbxaaaaaaaaaaaaaaaaaaa  ready  wo…"), "{narrow:?}");
        let whole = lines(["SANDBOX", "STATE", "COMMAND"], &rows, None, false);
        assert!(whole[1].contains(&"word ".repeat(19)), "{whole:?}");
    }

    #[test]
    fn states_and_headings_have_colours_that_take_no_room() {
        let rows = [row(["a", "gone (oom)", "x"]), row(["b", "ready", "y"])];
        let shown = lines(["ID", "STATE", "C"], &rows, None, true);
        assert_eq!(shown[1], "a   \x1b[31mgone (oom)\x1b[m  x");
        assert_eq!(shown[2], "b   \x1b[32mready\x1b[m       y");
        assert!(shown[0].starts_with("\x1b[1mID\x1b[m  \x1b[1mSTATE"), "{shown:?}");
    }
}
