//! `docs/configuration.md` says what the table of settings says; `WARREN_BLESS=1` writes it anew.
//! `SECURITY.md` names every limit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::sections::{KEYS, SECTIONS};

const BEGIN: &str = "<!-- settings: written by the test that compares them -->\n";
const END: &str = "<!-- end of settings -->\n";

fn reference() -> String {
    let mut text = String::new();
    for (section, about) in SECTIONS {
        let about: String = about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        let _ = write!(text, "\n### `{section}`\n\n{about}\n\n");
        text.push_str("| setting | type | default | variable | what it is |\n|---|---|---|---|---|\n");
        for key in KEYS.iter().filter(|key| key.path.split('.').next() == Some(section)) {
            let variable = format!("WARREN_{}", key.path.to_uppercase().replace('.', "__"));
            let purpose = key.purpose();
            let secret = if key.secret { " Its values are never shown." } else { "" };
            let _ = writeln!(
                text,
                "| `{}` | {} | `{}` | `{variable}` | {purpose}{secret} |",
                key.path, key.kind, key.default
            );
        }
    }
    text.push('\n');
    text
}

#[test]
fn the_document_has_every_setting() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("the document has a place for the settings");
    let (_, after) = rest.split_once(END).expect("the place for the settings has an end");
    let expected = format!("{before}{BEGIN}{}{END}{after}", reference());
    if std::env::var_os("WARREN_BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap();
    assert!(current == expected, "docs/configuration.md is not what the settings are: run `make bless`");
}

/// True for a setting that bounds what a caller who is not trusted can take.
fn is_limit(path: &str) -> bool {
    let (section, name) = path.split_once('.').expect("a section and a name");
    section == "limits" || name.contains("max_") || name.contains("timeout") || name.contains("connections")
}

#[test]
fn every_limit_and_its_default_is_in_the_security_document() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../SECURITY.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (_, table) = document.split_once("\n## Limits and their defaults\n").expect("a table of limits");
    let table = table.split("\n## ").next().unwrap_or(table);
    let mut told: BTreeMap<&str, &str> = BTreeMap::new();
    for line in table.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let [_, default, setting] = cells[..]
            && let (Some(default), Some(setting)) = (code(default), code(setting))
        {
            assert_eq!(told.insert(setting, default), None, "{setting} is there twice");
        }
    }
    for key in KEYS {
        match told.remove(key.path) {
            Some(default) => assert_eq!(default, key.default, "SECURITY.md, {}", key.path),
            None => {
                assert!(!is_limit(key.path), "SECURITY.md does not name `{}` (`{}`)", key.path, key.default)
            }
        }
    }
    assert_eq!(told, BTreeMap::new(), "SECURITY.md names what is no setting");
}

/// The text between two backticks, if the cell is nothing else.
fn code(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}
