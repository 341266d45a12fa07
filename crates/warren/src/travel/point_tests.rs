use super::*;
use crate::travel::tests::snapshot;

const SANDBOX: &str = "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn id(digits: &str) -> String {
    format!("snap-{digits}-0000-4000-8000-000000000000")
}

fn chosen(word: &str, snapshots: &[Snapshot]) -> Result<String, String> {
    choose(word, snapshots, " of it").map(|id| id.to_string()).map_err(|error| error.chain())
}

#[test]
fn a_word_is_a_sandbox_a_snapshot_or_a_name() {
    assert!(matches!(parse(SANDBOX), Word::Sandbox(_)));
    assert!(matches!(parse(&id("01234567")), Word::Snapshot(_)));
    let within = format!("{SANDBOX}:green: yes");
    assert!(matches!(parse(&within), Word::Within(_, "green: yes")));
    for word in ["green", "A:b", ":b", "a:", "snap-1", "sbx", "2"] {
        assert_eq!(parse(word), Word::Name(word));
    }
    for word in ["sbxa", "@last", "@default"] {
        assert_eq!(parse(word), Word::Sandbox(word.parse().unwrap()));
        let within = format!("{word}:green");
        assert_eq!(parse(&within), Word::Within(word.parse().unwrap(), "green"));
    }
    assert_eq!(parse("web:green"), Word::Within("web".parse().unwrap(), "green"));
}

#[test]
fn names_come_before_beginnings_of_ids() {
    let mut snapshots = vec![snapshot(&id("01234567"), None), snapshot(&id("89abcdef"), None)];
    assert_eq!(chosen("012345", &snapshots), Ok(id("01234567")));
    assert_eq!(chosen("snap-89abcdef", &snapshots), Ok(id("89abcdef")));
    snapshots[1].name = Some("012345".to_owned());
    assert_eq!(chosen("012345", &snapshots), Ok(id("89abcdef")));
}

#[test]
fn the_first_one_is_called_start_unless_another_is() {
    let mut snapshots = vec![snapshot(&id("01234567"), None), snapshot(&id("89abcdef"), None)];
    snapshots[0].reason = SnapshotReason::Start;
    assert_eq!(chosen("start", &snapshots), Ok(id("01234567")));
    snapshots[1].name = Some("start".to_owned());
    assert_eq!(chosen("start", &snapshots), Ok(id("89abcdef")));
}

#[test]
fn what_is_not_there_or_not_clear_is_said() {
    let mut snapshots = vec![snapshot(&id("01234567"), None), snapshot(&id("01234568"), None)];
    assert!(chosen("green", &snapshots).unwrap_err().contains("no snapshot `green` of it"));
    assert!(chosen("0123", &snapshots).unwrap_err().contains("no snapshot"), "too short to be meant");
    assert!(chosen("012345", &snapshots).unwrap_err().contains("any of 2"));
    for snapshot in &mut snapshots {
        snapshot.name = Some("green".to_owned());
    }
    assert!(chosen("green", &snapshots).unwrap_err().contains("any of 2"));
}
