use super::*;
use crate::travel::tests::entry;

fn state(size_bytes: u64, mode: &str) -> FileState {
    FileState {
        kind: FileType::File,
        size_bytes,
        mode: mode.to_owned(),
        uid: 1000,
        gid: 1000,
        modified_at: String::new(),
    }
}

fn change(before: Option<FileState>, after: Option<FileState>) -> FileDiff {
    let kind = match (&before, &after) {
        (None, _) => DiffKind::Added,
        (Some(_), None) => DiffKind::Removed,
        (Some(_), Some(_)) => DiffKind::Changed,
    };
    FileDiff {
        path: "/x".to_owned(),
        path_base64: None,
        kind,
        before,
        after,
        text: None,
        binary: false,
        too_large: false,
    }
}

#[test]
fn a_change_says_what_is_different() {
    let plain = || Some(state(10, "0644"));
    assert_eq!(difference(&change(None, plain())), "10 B");
    assert_eq!(difference(&change(plain(), Some(state(20, "0644")))), "10 B → 20 B");
    assert_eq!(difference(&change(plain(), Some(state(10, "0755")))), "0644 → 0755");
    assert_eq!(difference(&change(plain(), plain())), "10 B", "its content");
    let owned = FileState { uid: 0, gid: 0, ..state(10, "0644") };
    assert_eq!(difference(&change(plain(), Some(owned))), "1000:1000 → 0:0");
    let directory = FileState { kind: FileType::Directory, ..state(0, "0644") };
    assert_eq!(difference(&change(plain(), Some(directory))), "10 B → directory");
}

#[test]
fn changes_are_counted_by_kind() {
    let changes = [change(None, Some(state(1, "0644"))), change(Some(state(1, "0644")), None)];
    assert_eq!(summary(&changes, false), "2 paths: 1 added, 1 removed");
    assert_eq!(summary(&changes[..1], true), "1 path: 1 added, and more that are not shown");
}

#[test]
fn ids_and_commands_are_cut_to_what_a_line_holds() {
    assert_eq!(short("snap-01234567-89ab-4000-8000-000000000000"), "01234567");
    assert_eq!(one_line("make", 10), "make");
    assert_eq!(one_line("make\ninstall", 10), "make…");
    assert_eq!(one_line("ääääääääää", 5), "ääää…");
}

#[test]
fn an_entry_says_how_it_ended() {
    let mut one = entry(1, None);
    assert_eq!((action(&one).as_str(), ending(&one).as_str()), ("make", "running"));
    one.exit_code = Some(3);
    assert_eq!(ending(&one), "3");
    one =
        JournalEntry { action: JournalAction::Rollback, snapshot_id: Some("snap-01234567-x".into()), ..one };
    assert_eq!(action(&one), "(rollback to 01234567)");
}

#[test]
fn an_entry_says_what_was_done() {
    let plain = || JournalEntry { ended_at: Some("2026-01-01T00:12:30.000Z".to_owned()), ..entry(1, None) };
    let session = JournalEntry { action: JournalAction::Terminal, command: Some("bash".into()), ..plain() };
    assert_eq!(action(&session), "terminal: bash (12m)");
    assert_eq!(action(&JournalEntry { ended_at: None, ..session }), "terminal: bash");
    let promote = JournalEntry { action: JournalAction::Promote, from_id: Some("sbx1".into()), ..plain() };
    assert_eq!(action(&promote), "(promote of sbx1) make");
    let below = JournalEntry { path: Some("/srv".into()), ..promote.clone() };
    assert_eq!(action(&below), "(promote of sbx1, /srv) make");
    assert_eq!(action(&JournalEntry { command: None, ..promote }), "(promote of sbx1)");
    let files = JournalEntry {
        action: JournalAction::Files,
        operation: Some(FileDeed::Unpack),
        path: Some("/srv".into()),
        files: Some(3),
        bytes: Some(2048),
        ..plain()
    };
    assert_eq!(action(&files), "unpack /srv (3 files, 2 KiB)");
    let moved = JournalEntry {
        operation: Some(FileDeed::Rename),
        to: Some("/b".into()),
        files: None,
        bytes: None,
        ..files
    };
    assert_eq!(action(&moved), "mv /srv → /b");
    let newer: JournalAction = serde_json::from_str("\"dance\"").unwrap();
    assert!(action(&JournalEntry { action: newer, ..moved }).contains("too old"));
}
