use super::*;
use crate::travel::tests::{entry, snapshot};

/// A tree: each with its parent, and `=` before those that changed nothing.
fn tree(text: &str) -> HashMap<String, Snapshot> {
    let mut minute = 0;
    let one = |word: &str| {
        let (child, parent) = word.split_once('<').unwrap_or((word, ""));
        let mut made =
            snapshot(child.trim_start_matches('='), Some(parent).filter(|parent| !parent.is_empty()));
        if child.starts_with('=') {
            made.method = SnapshotMethod::Unchanged;
        }
        made.created_at = format!("2026-01-01T00:{minute:02}:00.000Z");
        minute += 1;
        (made.snapshot_id.clone(), made)
    };
    text.split(' ').map(one).collect()
}

fn ids(tree: &HashMap<String, Snapshot>, good: &str, bad: &str) -> Result<String, String> {
    let mut look = |id: &str| tree.get(id).cloned().ok_or_else(|| CliError::new(format!("no {id}")));
    let states = states(good, bad, &mut look).map_err(|error| error.chain())?;
    Ok(states.into_iter().map(|state| state.snapshot_id).collect::<Vec<_>>().join(" "))
}

#[test]
fn the_way_leads_over_parents_and_leaves_out_what_changed_nothing() {
    let tree = tree("=a b<a =c<b d<c x<b e<d");
    assert_eq!(ids(&tree, "a", "e").unwrap(), "a b d e");
    assert_eq!(ids(&tree, "b", "d").unwrap(), "b d");
    assert_eq!(ids(&tree, "b", "x").unwrap(), "b x");
    assert_eq!(ids(&tree, "b", "c").unwrap(), "b", "the same files");
    assert_eq!(ids(&tree, "d", "d").unwrap(), "d");
}

#[test]
fn a_good_state_that_is_no_ancestor_is_refused() {
    let tree = tree("a b<a c<a");
    for (good, bad) in [("b", "c"), ("c", "a")] {
        assert!(ids(&tree, good, bad).unwrap_err().contains("does not come from"), "{good} {bad}");
    }
    assert_eq!(ids(&tree, "a", "z").unwrap_err(), "no z");
}

#[test]
fn a_ring_of_parents_ends() {
    let tree = tree("a<b b<a");
    assert!(ids(&tree, "c", "a").is_err());
}

#[test]
fn entries_belong_to_the_state_they_left() {
    let tree = tree("a b<a c<b");
    let states = ["a", "b", "c"].map(|id| tree[id].clone()).to_vec();
    let known = tree.keys().cloned().collect();
    let mut thinned = entry(4, Some("gone"));
    thinned.began_at = "2026-01-01T00:01:30.000Z".to_owned();
    let journal = [entry(5, Some("c")), thinned, entry(3, Some("b")), entry(2, Some("b")), entry(6, None)];
    let steps = steps(states, &journal, &known);
    let numbers: Vec<Vec<u64>> =
        steps.iter().map(|step| step.entries.iter().map(|entry| entry.number).collect()).collect();
    assert_eq!(numbers, [vec![], vec![2, 3], vec![4, 5]]);
}
