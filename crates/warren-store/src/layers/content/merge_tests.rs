use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use warren_core::{
    ChangeKind, Conflicts, DiffOptions, LayerContent as _, LayerId, LayerStore as _, LeaveOut, Merge,
    MergeOrder, Stack,
};

use crate::layers::content::fixture::{Fixture, Thing, borrowed, file, stack, things};

/// A fixture's base as a layer, so that stacks share it, with what two sides put on top.
struct Sides {
    fixture: Fixture,
    base: LayerId,
    ours: Stack,
    theirs: Stack,
    below: PathBuf,
    leave_out: LeaveOut,
}

impl Sides {
    fn new(base: &[(&str, Thing)], ours: &[(&str, Thing)], theirs: &[(&str, Thing)]) -> Self {
        let fixture = Fixture::new();
        let base = fixture.layer(base);
        let ours = stack(&[&fixture.layer(ours), &base]);
        let theirs = stack(&[&fixture.layer(theirs), &base]);
        Self { fixture, base, ours, theirs, below: "/".into(), leave_out: LeaveOut::default() }
    }

    fn merge(&self, conflicts: Conflicts) -> (Merge, Option<Stack>) {
        let base = stack(&[&self.base]);
        let order = MergeOrder {
            base: &base,
            ours: &self.ours,
            theirs: &self.theirs,
            below: &self.below,
            conflicts,
            leave_out: &self.leave_out,
        };
        let plan = self.fixture.store.merge(&self.fixture.root, &order, None).unwrap();
        assert!(!plan.made);
        let layer = self.fixture.new_layer();
        let merge = self.fixture.store.merge(&self.fixture.root, &order, Some(&layer)).unwrap();
        assert_eq!((&plan.changes, &plan.conflicts), (&merge.changes, &merge.conflicts));
        let result = merge.made.then(|| self.ours.with(layer.id.clone()));
        let exists = self.fixture.store.layers().unwrap().iter().any(|known| known.id == layer.id);
        assert_eq!(exists, merge.made);
        (merge, result)
    }

    fn differences(&self, from: &Stack, to: &Stack) -> Vec<String> {
        let diff = self.fixture.store.diff(&self.fixture.root, from, to, &DiffOptions::default()).unwrap();
        diff.changes.into_iter().map(|change| change.path.display().to_string()).collect()
    }

    fn content(&self, stack: &Stack, path: &str) -> String {
        let place = |id: &LayerId| self.fixture.store.place(id).join("upper-0").join(path);
        stack.0.iter().find_map(|id| fs::read_to_string(place(id)).ok()).unwrap_or_default()
    }
}

fn conflicts(merge: &Merge) -> Vec<(String, ChangeKind, ChangeKind)> {
    merge
        .conflicts
        .iter()
        .map(|conflict| (conflict.path.display().to_string(), conflict.ours, conflict.theirs))
        .collect()
}

#[test]
fn what_is_left_out_is_not_merged() {
    let mut sides = Sides::new(
        &[("p/.gitignore", file("out\n")), ("p/a", file("1"))],
        &[],
        &[("p/a", file("2")), ("p/out/x", file("2")), ("p/b.tmp", file("2"))],
    );
    sides.leave_out = LeaveOut { ignored: true, patterns: vec!["*.tmp".to_owned()] };
    let (merge, result) = sides.merge(Conflicts::Refuse);
    let changed: Vec<_> = merge.changes.iter().map(|change| change.path.display().to_string()).collect();
    assert_eq!(changed, ["/p/a"]);
    assert_eq!(sides.differences(&sides.ours, &result.unwrap()), ["/p/a"]);
}

fn changed(merge: &Merge) -> Vec<String> {
    merge.changes.iter().map(|change| change.path.display().to_string()).collect()
}

#[test]
fn only_what_is_at_or_below_a_path_is_merged_and_in_conflict() {
    let mut sides = Sides::new(
        &[("p/q/a", file("1")), ("p/q/gone", file("1")), ("p/other", file("1")), ("p/qq", file("1"))],
        &[("p/other", file("ours")), ("p/q/mine", file("1"))],
        &[
            ("p/q/a", file("2")),
            ("p/q/gone", Thing::Whiteout),
            ("p/q/out", file("2")),
            ("p/q/deep/out", file("2")),
            ("p/other", file("theirs")),
            ("p/qq", file("2")),
            ("new", file("2")),
        ],
    );
    sides.below = "/p/q/".into();
    sides.leave_out = LeaveOut { ignored: false, patterns: vec!["/out".to_owned()] };
    let (merge, result) = sides.merge(Conflicts::Refuse);
    assert_eq!(conflicts(&merge), [], "what is beside it is nobody's concern");
    assert_eq!(changed(&merge), ["/p/q/a", "/p/q/deep", "/p/q/deep/out", "/p/q/gone"]);
    assert_eq!(sides.differences(&sides.ours, &result.unwrap()), changed(&merge));
    sides.below = "/p/other".into();
    let (merge, result) = sides.merge(Conflicts::Refuse);
    assert_eq!(conflicts(&merge).len(), 1);
    assert!(result.is_none());
    sides.below = "/p/none".into();
    assert_eq!(sides.merge(Conflicts::Refuse).0, Merge::default());
}

#[test]
fn the_directories_that_lead_to_a_path_come_with_it() {
    let new = [("srv/new/deep/x", file("1")), ("srv/new/y", file("1"))];
    let mut sides = Sides::new(&[("srv/a", file("1"))], &[], &new);
    sides.below = "/srv/new/deep".into();
    let (merge, result) = sides.merge(Conflicts::Refuse);
    assert_eq!(conflicts(&merge), []);
    assert_eq!(changed(&merge), ["/srv/new", "/srv/new/deep", "/srv/new/deep/x"]);
    assert_eq!(sides.differences(&sides.ours, &result.unwrap()), changed(&merge));
    sides.leave_out.patterns.push("*".to_owned());
    let (merge, _) = sides.merge(Conflicts::Refuse);
    assert_eq!(changed(&merge), ["/srv/new", "/srv/new/deep"], "what was asked for is a directory");
    sides.below = "/srv/new/none".into();
    assert_eq!(sides.merge(Conflicts::Refuse).0, Merge::default(), "they lead to nothing");
}

#[test]
fn a_path_in_a_directory_that_ours_removed_is_a_conflict() {
    let mut sides = Sides::new(&[("d/e/x", file("1"))], &[("d", Thing::Whiteout)], &[("d/e/x", file("2"))]);
    sides.below = "/d/e".into();
    let (merge, result) = sides.merge(Conflicts::Refuse);
    assert_eq!(conflicts(&merge), [("/d/e/x".to_owned(), ChangeKind::Removed, ChangeKind::Changed)]);
    assert!(result.is_none());
}

#[test]
fn changes_of_one_side_only_are_taken() {
    let sides = Sides::new(
        &[("a", file("1")), ("b", file("1")), ("gone/x", file("1")), ("kind", file("1"))],
        &[("a", file("2")), ("ours", file("1"))],
        &[
            ("b", file("2")),
            ("gone", Thing::Whiteout),
            ("new/deep/y", file("1")),
            ("new/link", Thing::Symlink("y".into())),
            ("kind/now/z", file("1")),
        ],
    );
    let (merge, result) = sides.merge(Conflicts::Refuse);
    assert_eq!(conflicts(&merge), []);
    let result = result.unwrap();
    let told: Vec<_> = merge.changes.iter().map(|change| change.path.display().to_string()).collect();
    assert_eq!(sides.differences(&sides.ours, &result), told);
    assert_eq!(sides.differences(&sides.theirs, &result), ["/a", "/ours"]);
}

#[test]
fn lines_of_a_text_are_joined_and_the_mode_of_the_other_side_kept() {
    let sides = Sides::new(
        &[("t", file("1\n2\n3\n4\n5\n"))],
        &[("t", file("one\n2\n3\n4\n5\n"))],
        &[("t", file("1\n2\n3\n4\nfive\n"))],
    );
    let theirs = sides.fixture.store.place(&sides.theirs.0[0]).join("upper-0/t");
    fs::set_permissions(theirs, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (merge, result) = sides.merge(Conflicts::Refuse);
    assert_eq!(conflicts(&merge), []);
    assert_eq!(merge.changes[0].after.as_ref().unwrap().mode, 0o755);
    assert_eq!(sides.content(&result.unwrap(), "t"), "one\n2\n3\n4\nfive\n");
}

#[test]
fn what_both_sides_changed_differently_is_a_conflict() {
    let sides = Sides::new(
        &[
            ("bin", file("\0")),
            ("lines", file("1\n")),
            ("ours-gone", file("1")),
            ("theirs-gone", file("1")),
            ("both-gone", file("1")),
            ("kind", file("1")),
            ("d/x", file("1")),
            ("e/x", file("1")),
        ],
        &[
            ("bin", file("\0\x01")),
            ("lines", file("2\n")),
            ("ours-gone", Thing::Whiteout),
            ("theirs-gone", file("2")),
            ("both-gone", Thing::Whiteout),
            ("kind/x", file("1")),
            ("d/new", file("1")),
            ("e", Thing::Whiteout),
            ("twice", file("1")),
            ("same", file("1")),
        ],
        &[
            ("bin", file("\0\x02")),
            ("lines", file("3\n")),
            ("ours-gone", file("2")),
            ("theirs-gone", Thing::Whiteout),
            ("both-gone", Thing::Whiteout),
            ("kind", Thing::Symlink("x".into())),
            ("d", Thing::Whiteout),
            ("e/new", file("1")),
            ("twice", file("2")),
            ("same", file("1")),
        ],
    );
    use ChangeKind::{Added, Changed, Removed};
    let expected = [
        ("/bin", Changed, Changed),
        ("/d/new", Added, Removed),
        ("/e/new", Removed, Added),
        ("/kind", Changed, Changed),
        ("/lines", Changed, Changed),
        ("/ours-gone", Removed, Changed),
        ("/theirs-gone", Changed, Removed),
        ("/twice", Added, Added),
    ];
    let expected = expected.map(|(path, ours, theirs)| (path.to_owned(), ours, theirs));
    let (merge, result) = sides.merge(Conflicts::Refuse);
    assert_eq!(conflicts(&merge), expected);
    assert_eq!(result, None);

    let (merge, result) = sides.merge(Conflicts::Ours);
    assert_eq!(conflicts(&merge), expected);
    assert!(merge.changes.is_empty(), "{:?}", merge.changes);
    assert_eq!(result, None, "nothing is to be made of nothing");

    let (merge, result) = sides.merge(Conflicts::Theirs);
    assert_eq!(conflicts(&merge), expected);
    // Of a directory that ours removed, what theirs did not touch stays removed.
    assert_eq!(sides.differences(&sides.theirs, &result.unwrap()), ["/e/x"]);
}

#[test]
fn nothing_to_take_makes_no_layer() {
    let sides = Sides::new(&[("a", file("1"))], &[("a", file("2"))], &[]);
    let (merge, result) = sides.merge(Conflicts::Refuse);
    assert_eq!((merge, result), (Merge::default(), None));
}

proptest! {
    #![proptest_config(crate::layers::content::fixture::cases(40))]

    #[test]
    fn merging_into_an_unchanged_side_gives_the_other(base in things(), side in things()) {
        let sides = Sides::new(&borrowed(&base), &[], &borrowed(&side));
        let (merge, result) = sides.merge(Conflicts::Refuse);
        prop_assert_eq!(conflicts(&merge), []);
        let result = result.unwrap_or_else(|| sides.ours.clone());
        prop_assert_eq!(sides.differences(&sides.theirs, &result), Vec::<String>::new());
        let told: Vec<_> = merge.changes.iter().map(|change| change.path.display().to_string()).collect();
        prop_assert_eq!(sides.differences(&sides.ours, &result), told);
    }

    #[test]
    fn merging_an_unchanged_side_changes_nothing(base in things(), side in things()) {
        let sides = Sides::new(&borrowed(&base), &borrowed(&side), &[]);
        prop_assert_eq!(sides.merge(Conflicts::Refuse).0, Merge::default());
    }

    #[test]
    fn a_merge_of_anything_is_made_and_the_kernel_takes_it(base in things(), ours in things(), theirs in things()) {
        let sides = Sides::new(&borrowed(&base), &borrowed(&ours), &borrowed(&theirs));
        for conflicts in [Conflicts::Refuse, Conflicts::Ours, Conflicts::Theirs] {
            let (merge, result) = sides.merge(conflicts);
            if let Some(result) = result {
                let told: Vec<_> =
                    merge.changes.iter().map(|change| change.path.display().to_string()).collect();
                let found = sides.differences(&sides.ours, &result);
                prop_assert!(told.iter().all(|path| found.contains(path)), "{told:?} {found:?}");
                sides.fixture.mounted(&result);
            }
        }
    }
}
