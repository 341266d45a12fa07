use std::os::unix::fs::symlink;

use super::*;

const PREFIX: &str = "user.warren.";

fn detail() -> Option<Detail> {
    Some(Detail { resolve: true, attributes: Some(PREFIX.into()) })
}

fn stat_in_detail(path: ByteString) -> FileEntry {
    match ask(FileOperation::Stat { path, follow: false, detail: detail() }).unwrap() {
        Reply::Entry(entry) => entry,
        other => panic!("unexpected {other:?}"),
    }
}

fn attribute(name: &str, value: &str) -> Attribute {
    Attribute { name: format!("{PREFIX}{name}").into(), value: value.into() }
}

fn setting(path: &ByteString, attributes: Vec<Attribute>) -> FileOperation {
    FileOperation::SetAttributes { path: path.clone(), prefix: PREFIX.into(), attributes }
}

fn attributes(path: &ByteString) -> Vec<Attribute> {
    let mut attributes = stat_in_detail(path.clone()).attributes.unwrap();
    attributes.sort_by(|one, other| one.name.cmp(&other.name));
    attributes
}

#[test]
fn a_link_is_told_with_where_it_leads() {
    let scratch = Scratch::new();
    scratch.file("file", "12345", 0o640);
    std::fs::create_dir(scratch.at("d")).unwrap();
    symlink("d", scratch.at("to-d")).unwrap();
    symlink("../file", scratch.at("d/up")).unwrap();
    symlink("to-d/up", scratch.at("far")).unwrap();
    symlink("gone", scratch.at("broken")).unwrap();
    symlink("loop", scratch.at("loop")).unwrap();
    let top = std::fs::canonicalize(&scratch.path).unwrap();
    let found = stat_in_detail(scratch.bytes("far"));
    assert_eq!((found.kind, found.target), (EntryKind::Symlink, Some("to-d/up".into())));
    let path = ByteString::from(&top.join("file"));
    let expected = Resolved { path, kind: Some(EntryKind::File), permissions: 0o640, size: 5 };
    assert_eq!(found.resolved, Some(expected));
    let resolved = |name| stat_in_detail(scratch.bytes(name)).resolved;
    assert_eq!(resolved("to-d").unwrap().kind, Some(EntryKind::Directory));
    for name in ["broken", "loop"] {
        let nowhere = Resolved { path: scratch.bytes(name), kind: None, permissions: 0, size: 0 };
        assert_eq!(resolved(name), Some(nowhere));
    }
    assert_eq!(resolved("file"), None);
    assert_eq!(stat(&scratch.bytes("far")).resolved, None, "it is told only if asked");
}

#[test]
fn a_listing_through_a_link_has_details_and_the_asked_paths() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.at("real/b/c")).unwrap();
    scratch.file("real/a", "", 0o644);
    scratch.file("real/z", "", 0o644);
    symlink("a", scratch.at("real/b/link")).unwrap();
    symlink("real", scratch.at("root")).unwrap();
    ask(setting(&scratch.bytes("real/a"), vec![attribute("k", "v")])).unwrap();
    let path = scratch.bytes("root");
    let found = entries(FileOperation::List { path, depth: 3, detail: detail() }).unwrap();
    let paths: Vec<_> = found.iter().map(|entry| entry.path.clone()).collect();
    let expected = ["root/a", "root/b", "root/b/c", "root/b/link", "root/z"];
    assert_eq!(paths, expected.map(|name| scratch.bytes(name)));
    assert_eq!(found[0].attributes, Some(vec![attribute("k", "v")]));
    assert_eq!(found[3].resolved.as_ref().unwrap().kind, None, "`a` is not in `b`");
    assert_eq!(found[3].attributes, Some(Vec::new()));
}

#[test]
fn attributes_are_replaced_by_the_beginning_of_their_names() {
    let scratch = Scratch::new();
    let path = scratch.file("a", "", 0o644);
    let other = Attribute { name: "user.other".into(), value: "kept".into() };
    let all =
        |attributes| FileOperation::SetAttributes { path: path.clone(), prefix: "user.o".into(), attributes };
    ask(all(vec![other.clone()])).unwrap();
    assert_eq!(attributes(&path), []);
    ask(setting(&path, vec![attribute("a", "1"), attribute("b", "2")])).unwrap();
    assert_eq!(attributes(&path), [attribute("a", "1"), attribute("b", "2")]);
    symlink("a", scratch.at("link")).unwrap();
    ask(setting(&scratch.bytes("link"), vec![attribute("b", "3"), attribute("c", "")])).unwrap();
    assert_eq!(attributes(&path), [attribute("b", "3"), attribute("c", "")]);
    ask(setting(&path, Vec::new())).unwrap();
    assert_eq!(attributes(&path), []);
    let detail = Some(Detail { resolve: false, attributes: Some("user.".into()) });
    let Reply::Entry(entry) = ask(FileOperation::Stat { path, follow: true, detail }).unwrap() else {
        panic!("no entry");
    };
    assert_eq!(entry.attributes, Some(vec![other]));
}

#[test]
fn attributes_that_make_no_sense_are_refused() {
    let scratch = Scratch::new();
    let path = scratch.file("a", "", 0o644);
    let odd = |prefix: &str, name: &str| {
        let attributes = vec![Attribute { name: name.into(), value: "v".into() }];
        refusal(FileOperation::SetAttributes { path: path.clone(), prefix: prefix.into(), attributes })
    };
    assert_eq!(odd("", "user.a"), FailureCode::Invalid);
    assert_eq!(odd("user.b", "user.a"), FailureCode::Invalid);
    assert_eq!(odd("user.", "user.a\0b"), FailureCode::Invalid);
    assert_eq!(refusal(setting(&scratch.bytes("none"), Vec::new())), FailureCode::NotFound);
    make_fifo(&scratch.at("fifo"));
    assert_eq!(refusal(setting(&scratch.bytes("fifo"), Vec::new())), FailureCode::WrongKind);
    // The kernel's own files have no such attributes.
    let none = setting(&"/proc/self/oom_score_adj".into(), vec![attribute("a", "1")]);
    assert_eq!(refusal(none), FailureCode::Unsupported);
}

#[test]
fn more_attributes_than_fit_a_frame_are_left_out() {
    let scratch = Scratch::new();
    let path = scratch.file("a", "", 0o644);
    let value = "v".repeat(900);
    let many = (0..64).map(|number| attribute(&format!("{number:02}"), &value)).collect();
    // Some file systems hold less than others.
    match ask(setting(&path, many)) {
        Ok(_) => assert!(attributes(&path).len() < 40),
        Err(failure) => assert_eq!(failure.code, FailureCode::Exhausted, "{failure}"),
    }
}
