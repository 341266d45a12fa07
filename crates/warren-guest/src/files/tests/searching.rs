use std::os::unix::fs::symlink;

use warren_wire::guest::{GrepMatch, GrepQuery};

use super::*;

fn tree() -> Scratch {
    let scratch = Scratch::new();
    for directory in ["src/deep", ".git", "empty"] {
        std::fs::create_dir_all(scratch.at(directory)).unwrap();
    }
    for (name, content) in [
        ("README.md", "Warren\nruns sandboxes\n"),
        ("src/main.rs", "fn main() {\n    println!(\"Hello\");\n}\n"),
        ("src/deep/lib.rs", "// hello again\r\nfn other() {}"),
        (".git/config", "[core]\n"),
        ("binary", "hello\0hello\n"),
    ] {
        scratch.file(name, content, 0o644);
    }
    symlink("src", scratch.at("link")).unwrap();
    make_fifo(&scratch.at("fifo"));
    scratch
}

fn glob(scratch: &Scratch, pattern: &str, limit: u32) -> Result<Vec<String>, FailureCode> {
    let root = (&scratch.path).into();
    let found = entries(FileOperation::Glob { root, pattern: pattern.into(), limit });
    let name =
        |entry: FileEntry| entry.path.as_path().strip_prefix(&scratch.path).unwrap().display().to_string();
    found.map(|found| found.into_iter().map(name).collect()).map_err(|failure| failure.code)
}

fn query(scratch: &Scratch, pattern: &str) -> GrepQuery {
    GrepQuery {
        root: (&scratch.path).into(),
        pattern: pattern.into(),
        ignore_case: false,
        files: None,
        limit: 100,
    }
}

fn grep(query: GrepQuery) -> Result<Vec<GrepMatch>, Failure> {
    let found = replies(FileOperation::Grep(query))?.into_iter().flat_map(|reply| match reply {
        Reply::Matches(matches) => matches,
        other => panic!("unexpected {other:?}"),
    });
    Ok(found.collect())
}

/// `file:line:text` of each match.
fn lines(scratch: &Scratch, query: GrepQuery) -> Vec<String> {
    let line = |found: GrepMatch| {
        let path = found.path.as_path().strip_prefix(&scratch.path).unwrap().display().to_string();
        format!("{path}:{}:{}", found.line, found.text.to_text())
    };
    grep(query).unwrap().into_iter().map(line).collect()
}

#[test]
fn globs_match_relative_paths() {
    let scratch = tree();
    for (pattern, expected) in [
        ("*.md", vec!["README.md"]),
        ("**/*.rs", vec!["src/deep/lib.rs", "src/main.rs"]),
        ("src/*", vec!["src/deep", "src/main.rs"]),
        ("*/config", vec![".git/config"]),
        ("{README,binar[xyz]}*", vec!["README.md", "binary"]),
        ("li?k", vec!["link"]),
        ("link/*", vec![]),
        ("!README.md", vec![]),
    ] {
        assert_eq!(glob(&scratch, pattern, 100).unwrap(), expected, "{pattern}");
    }
    assert_eq!(glob(&scratch, "**", 3).unwrap().len(), 3);
    assert_eq!(glob(&scratch, "**", 100).unwrap().len(), 11);
}

#[test]
fn bad_searches_are_refused() {
    let scratch = tree();
    assert_eq!(glob(&scratch, "*", 0), Err(FailureCode::Invalid));
    assert_eq!(glob(&scratch, "", 1), Err(FailureCode::Invalid));
    assert_eq!(glob(&scratch, "{a,b", 1), Err(FailureCode::Invalid));
    let not_text = FileOperation::Glob { root: scratch.bytes("."), pattern: vec![0xff].into(), limit: 1 };
    assert_eq!(refusal(not_text), FailureCode::Invalid);
    assert_eq!(grep(query(&scratch, "(")).unwrap_err().code, FailureCode::Invalid);
    assert_eq!(grep(GrepQuery { limit: 0, ..query(&scratch, "x") }).unwrap_err().code, FailureCode::Invalid);
    let nowhere = GrepQuery { root: scratch.bytes("none"), ..query(&scratch, "x") };
    assert_eq!(grep(nowhere).unwrap_err().code, FailureCode::NotFound);
    let fifo = GrepQuery { root: scratch.bytes("fifo"), ..query(&scratch, "x") };
    assert_eq!(grep(fifo).unwrap_err().code, FailureCode::WrongKind);
}

#[test]
fn lines_are_found_in_text_files_only() {
    let scratch = tree();
    assert_eq!(lines(&scratch, query(&scratch, "hello")), ["src/deep/lib.rs:1:// hello again"]);
    let any_case = GrepQuery { ignore_case: true, ..query(&scratch, "hello") };
    assert_eq!(
        lines(&scratch, any_case.clone()),
        ["src/deep/lib.rs:1:// hello again", "src/main.rs:2:    println!(\"Hello\");"]
    );
    assert_eq!(lines(&scratch, GrepQuery { limit: 1, ..any_case }).len(), 1);
    assert_eq!(
        lines(&scratch, query(&scratch, r"^fn \w+\(\)")),
        ["src/deep/lib.rs:2:fn other() {}", "src/main.rs:1:fn main() {"]
    );
    let filtered = GrepQuery { files: Some("src/*.rs".into()), ..query(&scratch, "fn") };
    assert_eq!(lines(&scratch, filtered), ["src/main.rs:1:fn main() {"]);
    let single = GrepQuery { root: scratch.bytes("README.md"), ..query(&scratch, "runs") };
    assert_eq!(lines(&scratch, single), ["README.md:2:runs sandboxes"]);
}

#[test]
fn endless_lines_are_searched_at_their_start_and_counted_once() {
    let scratch = Scratch::new();
    let content = format!(
        "needle{}needle\nshort needle\n{}needle\nlast needle",
        "x".repeat(300_000),
        "y".repeat(70_000)
    );
    scratch.file("long", &content, 0o644);
    let found = grep(query(&scratch, "needle")).unwrap();
    let seen: Vec<_> = found.iter().map(|found| (found.line, found.text.as_bytes().len())).collect();
    assert_eq!(seen, [(1, 4096), (2, 12), (4, 11)]);
}

#[test]
fn lines_at_every_offset_of_the_buffer_are_found() {
    let scratch = Scratch::new();
    let content: String = (0..40_000).map(|number| format!("{number}\n")).collect();
    scratch.file("numbers", &content, 0o644);
    let found = grep(GrepQuery { limit: u32::MAX, ..query(&scratch, "") }).unwrap();
    assert_eq!(found.len(), 40_000);
    assert!(found.iter().all(|found| found.text.to_text() == (found.line - 1).to_string()));
}

#[test]
fn a_search_nobody_waits_for_ends() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("text"), vec![b'a'; 10_000]).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(scratch.at("text")).unwrap();
    file.set_len(1 << 42).or_else(|_| file.set_len(1 << 40)).unwrap();
    let (host, agent) = UnixStream::pair().unwrap();
    let serving = std::thread::spawn(move || answer(agent));
    let call =
        FileCall { user: None, operation: FileOperation::Grep(query(&scratch, "absent")), as_root: None };
    drop(Connection::open(host, &Request::File(call)).unwrap());
    serving.join().unwrap();
}

#[test]
fn text_that_is_not_utf8_is_searched() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("latin"), b"caf\xe9 noir\n").unwrap();
    let found = grep(query(&scratch, "noir$")).unwrap();
    assert_eq!(found[0].text.as_bytes(), b"caf\xe9 noir");
}
