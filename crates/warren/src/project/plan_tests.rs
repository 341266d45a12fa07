use super::*;

fn stamp(changed: i64) -> Stamp {
    Stamp { size: 1, changed, executable: false, link: None }
}

fn side(files: &[(&str, i64)]) -> Side {
    files.iter().map(|(path, changed)| ((*path).to_owned(), stamp(*changed))).collect()
}

/// Files that were 1 on both sides.
fn base(paths: &[&str], sure: bool) -> BTreeMap<String, Known> {
    let known = Known { here: stamp(1), there: stamp(1), digest: String::new(), sure };
    paths.iter().map(|path| ((*path).to_owned(), known.clone())).collect()
}

fn planned(base: &BTreeMap<String, Known>, here: &[(&str, i64)], there: &[(&str, i64)]) -> Plan {
    plan(base, (&side(here), &side(there)), &BTreeSet::new(), Direction::Both, None)
}

fn act(plan: &Plan, path: &str) -> Option<Act> {
    plan.acts.get(path).copied()
}

#[test]
fn whoever_changed_a_file_alone_is_right() {
    let base = base(&["ours", "theirs", "same", "gone-here", "gone-there", "gone"], true);
    let plan = planned(
        &base,
        &[("ours", 2), ("theirs", 1), ("same", 1), ("gone-there", 1), ("new-here", 5)],
        &[("ours", 1), ("theirs", 2), ("same", 1), ("gone-here", 1), ("new-there", 5)],
    );
    let acts: Vec<_> = plan.acts.iter().map(|(path, act)| (path.as_str(), *act)).collect();
    assert_eq!(
        acts,
        [
            ("gone", Act::Forget),
            ("gone-here", Act::RemoveThere),
            ("gone-there", Act::RemoveHere),
            ("new-here", Act::Send),
            ("new-there", Act::Fetch),
            ("ours", Act::Send),
            ("theirs", Act::Fetch),
        ]
    );
    assert!(plan.clashes.is_empty());
}

#[test]
fn nothing_that_both_changed_is_overwritten() {
    let base = base(&["edit-gone", "gone-edit", "both"], true);
    let plan = planned(
        &base,
        &[("edit-gone", 2), ("both", 2), ("new", 1)],
        &[("gone-edit", 2), ("both", 3), ("new", 2)],
    );
    assert_eq!(act(&plan, "both"), Some(Act::Compare));
    assert_eq!(act(&plan, "new"), Some(Act::Compare));
    let clashes: Vec<_> = plan.clashes.iter().map(|clash| clash.path.as_str()).collect();
    assert_eq!(clashes, ["edit-gone", "gone-edit"]);
}

#[test]
fn a_preference_settles_what_both_changed_and_nothing_else() {
    let base = base(&["both", "theirs", "gone-edit"], true);
    let (here, there) =
        (side(&[("both", 2), ("theirs", 1)]), side(&[("both", 3), ("theirs", 2), ("gone-edit", 2)]));
    let with = |prefer| plan(&base, (&here, &there), &BTreeSet::new(), Direction::Both, Some(prefer));
    let ours = with(Prefer::Here);
    assert_eq!(act(&ours, "both"), Some(Act::Send));
    assert_eq!(act(&ours, "theirs"), Some(Act::Fetch));
    assert_eq!(act(&ours, "gone-edit"), Some(Act::RemoveThere));
    let theirs = with(Prefer::There);
    assert_eq!((act(&theirs, "both"), act(&theirs, "gone-edit")), (Some(Act::Fetch), Some(Act::Fetch)));
}

#[test]
fn a_direction_leaves_the_other_side_alone() {
    let base = base(&["gone-here", "gone-there"], true);
    let (here, there) = (side(&[("gone-there", 1), ("a", 1)]), side(&[("gone-here", 1), ("b", 1)]));
    let with = |direction| plan(&base, (&here, &there), &BTreeSet::new(), direction, None).acts;
    let inward: Vec<Act> = with(Direction::In).into_values().collect();
    assert_eq!(inward, [Act::Send, Act::RemoveThere]);
    let outward: Vec<Act> = with(Direction::Out).into_values().collect();
    assert_eq!(outward, [Act::Fetch, Act::RemoveHere]);
}

#[test]
fn a_file_that_may_have_changed_is_looked_at_before_it_is_replaced() {
    let base = base(&["edited", "removed", "same"], false);
    let plan = planned(&base, &[("edited", 2), ("same", 1)], &[("edited", 1), ("removed", 1), ("same", 1)]);
    assert_eq!((act(&plan, "edited"), act(&plan, "removed")), (Some(Act::Compare), Some(Act::Compare)));
    assert_eq!(act(&plan, "same"), None);
}

#[test]
fn a_file_in_the_place_of_a_directory_is_a_conflict_unless_it_goes() {
    let plan = planned(&BTreeMap::new(), &[("a", 1)], &[("a/b", 1)]);
    assert!(plan.acts.is_empty(), "{plan:?}");
    assert_eq!(plan.clashes.len(), 2);
    let known = base(&["a"], true);
    let plan = planned(&known, &[("a", 1)], &[("a/b", 1)]);
    assert_eq!((act(&plan, "a"), act(&plan, "a/b")), (Some(Act::RemoveHere), Some(Act::Fetch)));
}

#[test]
fn what_is_not_carried_is_nobodys_change() {
    let known = base(&["became-a-device"], true);
    let left_out = BTreeSet::from(["became-a-device".to_owned()]);
    let (here, there) = (side(&[("became-a-device", 1)]), side(&[]));
    let plan = plan(&known, (&here, &there), &left_out, Direction::Both, None);
    assert_eq!(plan, Plan::default());
}
