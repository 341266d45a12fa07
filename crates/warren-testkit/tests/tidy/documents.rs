//! Rules about documents.

use std::path::{Path, PathBuf};

use crate::tree::{complain, files, read, root};

const MOST_LINES_OF_A_HOWTO: usize = 60;
const MOST_LINES_OF_THE_MAKEFILE: usize = 80;

#[test]
fn every_decision_is_numbered_in_turn_and_listed() {
    let directory = Path::new("docs/decisions");
    let list = read(&directory.join("README.md"));
    let mut complaints = Vec::new();
    let records: Vec<PathBuf> = files(&["md"])
        .into_iter()
        .filter(|path| path.parent() == Some(directory) && !path.ends_with("README.md"))
        .collect();
    for (index, path) in records.iter().enumerate() {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !name.starts_with(&format!("{:04}-", index + 1)) {
            complaints.push(format!("{name} is not number {}", index + 1));
        }
        if !list.contains(&format!("({name})")) {
            complaints.push(format!("{name} is not linked from README.md"));
        }
        let text = read(path);
        for part in ["## Context", "## Decision", "## Consequences", "## Alternatives"] {
            if !text.contains(part) {
                complaints.push(format!("{name} has no `{part}`"));
            }
        }
    }
    complain("docs/decisions", &complaints);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut complaints = Vec::new();
    for path in files(&["md"]) {
        let text = read(&path);
        let directory = root().join(path.parent().unwrap_or_else(|| Path::new("")));
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !is_elsewhere && !file.is_empty() && !directory.join(file).exists() {
                complaints.push(format!("{}: {target}", path.display()));
            }
        }
    }
    complain("dead links", &complaints);
}

#[test]
fn instructions_stay_short() {
    let mut complaints = Vec::new();
    let howtos = files(&["md"]).into_iter().filter(|path| path.starts_with("docs/howto"));
    let limits = howtos.map(|path| (path, MOST_LINES_OF_A_HOWTO));
    for (path, most) in limits.chain([(PathBuf::from("Makefile"), MOST_LINES_OF_THE_MAKEFILE)]) {
        let lines = read(&path).lines().count();
        if lines > most {
            complaints.push(format!("{} has {lines} lines, at most {most}", path.display()));
        }
    }
    complain("too long to be read", &complaints);
}

/// Each promise has a test that would fail without it.
#[test]
fn every_promise_names_tests_that_exist() {
    const PROOFS: &str = "| proved by |";
    let sources: String = files(&["rs"]).iter().map(|path| read(path)).collect();
    let exists = |name: &str| match name.strip_prefix("scripts/") {
        Some(words) => root().join("scripts").join(words.split(' ').next().unwrap_or_default()).exists(),
        None => sources.contains(&format!("fn {name}(")),
    };
    let (mut complaints, mut in_table) = (Vec::new(), false);
    let documents = ["SECURITY.md", "docs/compat.md"].map(|path| read(Path::new(path))).join("\n\n");
    for line in documents.lines() {
        let is_heading = line.ends_with(PROOFS);
        in_table = is_heading || (in_table && line.starts_with('|'));
        if !in_table || is_heading || line.starts_with("|--") {
            continue;
        }
        let cell = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            complaints.push(format!("nothing proves: {line}"));
        }
        complaints.extend(
            names.iter().filter(|name| !exists(name)).map(|name| format!("no test is called {name}")),
        );
    }
    complain("tables of what is promised", &complaints);
}

/// Each excuse has a date, so that its age is seen.
#[test]
fn every_unstable_test_is_listed_with_a_date_and_a_reason() {
    let sources: String = files(&["rs"]).iter().map(|path| read(path)).collect();
    let mut complaints = Vec::new();
    for line in read(Path::new("tests/unstable")).lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.splitn(4, ' ');
        let (binary, test) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (date, reason) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let name = test.rsplit("::").next().unwrap_or_default();
        if !binary.contains(':') || !sources.contains(&format!("fn {name}(")) {
            complaints.push(format!("no such test: {line}"));
        }
        let mut parts = date.split('-').map(str::len);
        if (parts.next(), parts.next(), parts.next()) != (Some(4), Some(2), Some(2)) {
            complaints.push(format!("no date: {line}"));
        }
        if reason.split_whitespace().count() < 5 {
            complaints.push(format!("no reason: {line}"));
        }
    }
    complain("tests/unstable", &complaints);
}
