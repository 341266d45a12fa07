//! Rules about source files.

use std::path::{Path, PathBuf};

use crate::lexer::{Source, has_word};
use crate::tree::{complain, files, read, root};

const MOST_LINES: usize = 800;
const MANY_LINES: usize = 500;

/// File names that say nothing about their content.
const NO_NAMES: [&str; 8] = ["utils", "util", "common", "helpers", "helper", "misc", "manager", "inner"];

/// The only crates with `unsafe` code, in their `sys` modules.
const UNSAFE_CRATES: [&str; 4] = ["warren-guest", "warren-isolate", "warren-network", "warren-store"];

#[test]
fn no_file_is_too_long() {
    let mut complaints = Vec::new();
    for path in files(&["rs", "ts", "py"]) {
        let lines = read(&path).lines().count();
        if lines > MOST_LINES {
            complaints.push(format!("{} has {lines}", path.display()));
        } else if lines > MANY_LINES {
            println!("{} has {lines} lines: is there one idea in it?", path.display());
        }
    }
    complain(&format!("a file has at most {MOST_LINES} lines"), &complaints);
}

#[test]
fn unsafe_code_is_in_sys_modules_of_three_crates() {
    let complaints: Vec<String> = files(&["rs"])
        .into_iter()
        .filter(|path| !may_be_unsafe(path) && has_word(&Source::of(&read(path)).code, "unsafe"))
        .map(|path| path.display().to_string())
        .collect();
    complain(
        "unsafe code belongs into a `sys.rs`, or a file in `sys/`, of warren-guest, warren-isolate, warren-network or warren-store",
        &complaints,
    );
}

fn may_be_unsafe(path: &Path) -> bool {
    let in_crate =
        UNSAFE_CRATES.iter().any(|name| path.starts_with(Path::new("crates").join(name).join("src")));
    let in_sys = path.ends_with("sys.rs")
        || path.parent().is_some_and(|parent| parent.components().any(|part| part.as_os_str() == "sys"));
    in_crate && in_sys
}

#[test]
fn names_say_what_is_inside() {
    let mut complaints = Vec::new();
    for path in files(&["rs", "ts", "py"]) {
        let directories = path.parent().into_iter().flat_map(Path::components).map(|part| part.as_os_str());
        let stems = path.file_stem().into_iter().chain(directories);
        if stems.into_iter().any(|name| NO_NAMES.iter().any(|bad| name == *bad)) {
            complaints.push(format!("{}: name it after what it holds", path.display()));
        }
        if path.ends_with("mod.rs") {
            complaints.push(format!("{}: a module `x` is `x.rs` beside `x/`", path.display()));
        }
    }
    for (path, code) in rust_code() {
        for name in NO_NAMES.iter().filter(|name| has_word(&code, &format!("mod {name}"))) {
            complaints.push(format!("{}: the module `{name}` is named after nothing", path.display()));
        }
    }
    complain("no drawers and no mod.rs", &complaints);
}

#[test]
fn nothing_is_silenced_skipped_or_left_for_later() {
    let mut complaints = Vec::new();
    for path in files(&["rs"]) {
        let Source { code, comments } = Source::of(&read(&path));
        for (pattern, instead) in [
            ("#[allow(", "#[expect(lint, reason = \"…\")]"),
            ("#![allow(", "#![expect(lint, reason = \"…\")]"),
            ("#[ignore", "a test that runs, or none"),
            ("todo!", "the code, or an error that says what is unsupported"),
            ("unimplemented!", "the code, or an error that says what is unsupported"),
        ] {
            if code.contains(pattern) {
                complaints.push(format!("{}: `{pattern}`; use {instead}", path.display()));
            }
        }
        for word in ["FIXME", "XXX", "TODO"].iter().filter(|word| has_word(&comments, word)) {
            complaints.push(format!("{}: `{word}`; do it, or write an issue", path.display()));
        }
    }
    complain("what is in the tree is finished", &complaints);
}

#[test]
fn every_file_of_a_test_binary_is_part_of_it() {
    let mut complaints = Vec::new();
    for main in files(&["rs"]).iter().filter(|path| path.ends_with("main.rs") && is_in_tests(path)) {
        let code = Source::of(&read(main)).code;
        let directory = main.parent().expect("a file is in a directory");
        for name in modules_in(directory) {
            if !has_word(&code, &format!("mod {name}")) {
                complaints.push(format!("{}: `mod {name};` is missing", main.display()));
            }
        }
    }
    complain("a test file that main.rs does not declare never runs", &complaints);
}

fn is_in_tests(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
        && !path.components().any(|part| part.as_os_str() == "src")
}

fn modules_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(directory)).expect("it was just listed").flatten();
    let stem = |path: PathBuf| {
        let is_module =
            path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("main.rs");
        is_module.then(|| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))?
    };
    entries.filter_map(|entry| stem(entry.path())).collect()
}

fn rust_code() -> impl Iterator<Item = (PathBuf, String)> {
    files(&["rs"]).into_iter().map(|path| {
        let code = Source::of(&read(&path)).code;
        (path, code)
    })
}
