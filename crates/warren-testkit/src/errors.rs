//! The tables of `docs/errors.md`. The tests of each interface check its own part.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use parking_lot::Mutex;
use warren_core::ErrorCode;

/// The interfaces that have a column, in their order.
const COLUMNS: [&str; 6] = ["E2B control", "E2B files", "E2B calls", "ports", "chat", "exit"];

/// Tests of one binary take turns at the file.
static TURN: Mutex<()> = Mutex::new(());

/// Compares the table of codes with the vocabulary and the statuses of `/v1`, or writes it again if
/// the tests are to bless.
pub fn assert_error_codes(status: impl Fn(ErrorCode) -> u16) {
    let row = |code: &ErrorCode| {
        let retry = code.retry_after_s().map_or_else(|| "never".to_owned(), |seconds| format!("{seconds} s"));
        let (name, status) = (code.as_str(), status(*code));
        format!("| `{name}` | {status} | {retry} | {} | {} |\n", code.title(), code.hint())
    };
    let head = ["code", "status", "retry after", "meaning", "what to do"];
    check(&head, |_| ErrorCode::ALL.iter().map(row).collect());
}

/// Compares a column of the table of interfaces with an interface's answer to each code, or writes
/// it again.
pub fn assert_error_column(column: &str, cell: impl Fn(ErrorCode) -> String) {
    let index = COLUMNS.iter().position(|known| *known == column).expect("the table has the column");
    let head = [&["code"][..], &COLUMNS].concat();
    check(&head, |table| {
        let known: BTreeMap<&str, Vec<&str>> = table.lines().filter_map(cells).collect();
        let row = |code: &ErrorCode| {
            let (name, told) = (format!("`{}`", code.as_str()), cell(*code));
            let mut cells = known.get(name.as_str()).cloned().unwrap_or_else(|| vec![""; COLUMNS.len()]);
            cells[index] = &told;
            format!("| {name} | {} |\n", cells.join(" | "))
        };
        ErrorCode::ALL.iter().map(row).collect()
    });
}

/// The code of a line of the table of interfaces, and its cells.
fn cells(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
    let code = cells.next()?;
    let cells: Vec<&str> = cells.collect();
    (cells.len() == COLUMNS.len()).then_some((code, cells))
}

/// Checks that the table with this head is the one that `rows` makes of it.
fn check(head: &[&str], rows: impl FnOnce(&str) -> String) {
    let _turn = TURN.lock();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let stored = fs::read_to_string(&path).expect("read docs/errors.md");
    let head = format!("| {} |\n{}|\n", head.join(" | "), "|---".repeat(head.len()));
    let (before, rest) = stored.split_once(&head).expect("docs/errors.md has the table");
    let (table, after) = rest.find("\n\n").map_or((rest, ""), |end| rest.split_at(end + 1));
    let now = format!("{before}{head}{}{after}", rows(table));
    if std::env::var_os("WARREN_BLESS").is_some() {
        fs::write(&path, &now).expect("write docs/errors.md");
        return;
    }
    assert!(stored == now, "docs/errors.md is not current: run `make bless`, and read the difference");
}
