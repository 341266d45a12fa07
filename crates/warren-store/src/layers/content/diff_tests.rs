use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use warren_core::{
    Change, ChangeKind, DiffOptions, LayerContent as _, LayerErrorKind, LayerId, LayerStore as _, Stack,
    TextDiff, abandonable,
};

use crate::layers::content::fixture::{Fixture, Thing, borrowed, file, stack, things};
use crate::layers::content::view::{Step, View, Walk};

fn changes(fixture: &Fixture, from: &[&LayerId], to: &[&LayerId], options: &DiffOptions) -> Vec<Change> {
    let diff = fixture.store.diff(&fixture.root, &stack(from), &stack(to), options).unwrap();
    assert!(!diff.truncated);
    diff.changes
}

fn kinds(fixture: &Fixture, from: &[&LayerId], to: &[&LayerId]) -> Vec<(String, ChangeKind)> {
    let changes = changes(fixture, from, to, &DiffOptions::default());
    changes.iter().map(|change| (change.path.display().to_string(), change.kind())).collect()
}

fn told(kinds: &[(&str, ChangeKind)]) -> Vec<(String, ChangeKind)> {
    kinds.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect()
}

#[test]
fn added_changed_and_removed_paths_are_told_in_order() {
    let fixture = Fixture::new();
    fixture.base(&[("etc/a", file("1")), ("etc/b", file("1")), ("gone/deep/x", file("1"))]);
    let layer = fixture.layer(&[
        ("etc/b", file("2")),
        ("etc/c", file("1")),
        ("gone", Thing::Whiteout),
        ("new/inner/y", file("1")),
    ]);
    let expected = [
        ("/etc/b", ChangeKind::Changed),
        ("/etc/c", ChangeKind::Added),
        ("/gone", ChangeKind::Removed),
        ("/gone/deep", ChangeKind::Removed),
        ("/gone/deep/x", ChangeKind::Removed),
        ("/new", ChangeKind::Added),
        ("/new/inner", ChangeKind::Added),
        ("/new/inner/y", ChangeKind::Added),
    ];
    assert_eq!(kinds(&fixture, &[], &[&layer]), told(&expected));
}

#[test]
fn what_an_opaque_directory_hides_is_removed() {
    let fixture = Fixture::new();
    fixture.base(&[("d/old", file("1")), ("d/both", file("1")), ("f", file("1"))]);
    let layer = fixture.layer(&[("d", Thing::Opaque), ("d/both", file("1")), ("f/now/x", file("1"))]);
    let expected = [
        ("/d/old", ChangeKind::Removed),
        ("/f", ChangeKind::Changed),
        ("/f/now", ChangeKind::Added),
        ("/f/now/x", ChangeKind::Added),
    ];
    assert_eq!(kinds(&fixture, &[], &[&layer]), told(&expected));
}

#[test]
fn a_file_copied_up_unchanged_and_a_directory_with_another_time_are_no_changes() {
    let fixture = Fixture::new();
    fixture.base(&[("d/f", file("same")), ("d/l", Thing::Symlink("f".into()))]);
    let layer = fixture.layer(&[("d/f", file("same")), ("d/l", Thing::Symlink("f".into()))]);
    fs::write(fixture.store.place(&layer).join("upper-0/d/passing"), "").unwrap();
    fs::remove_file(fixture.store.place(&layer).join("upper-0/d/passing")).unwrap();
    assert_eq!(kinds(&fixture, &[], &[&layer]), []);
    assert_eq!(kinds(&fixture, &[&layer], &[]), []);
}

#[test]
fn text_is_compared_line_by_line_and_what_is_none_is_not() {
    let fixture = Fixture::new();
    fixture.base(&[("t", file("1\n2\n3\n")), ("bin", file("\0")), ("m", file("x")), ("l", file("old"))]);
    let layer = fixture.layer(&[
        ("t", file("1\ntwo\n3\n")),
        ("bin", file("\0\0")),
        ("m", file("x")),
        ("l", file(&"long\n".repeat(100))),
        ("new", file("n")),
    ]);
    let m = fixture.store.place(&layer).join("upper-0/m");
    fs::set_permissions(m, fs::Permissions::from_mode(0o600)).unwrap();
    let options = DiffOptions { text: true, most_text_bytes: 64, ..DiffOptions::default() };
    let texts: BTreeMap<_, _> = changes(&fixture, &[], &[&layer], &options)
        .into_iter()
        .map(|change| (change.path, change.text.unwrap()))
        .collect();
    let unified = |text: &str| TextDiff::Unified(text.to_owned());
    let expected = BTreeMap::from([
        (PathBuf::from("/t"), unified("@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n")),
        ("/bin".into(), TextDiff::Binary),
        ("/m".into(), TextDiff::Same),
        ("/l".into(), TextDiff::TooLarge),
        ("/new".into(), unified("@@ -0,0 +1 @@\n+n\n\\ No newline at end of file\n")),
    ]);
    assert_eq!(texts, expected);
}

#[test]
fn only_what_is_below_a_path_is_told_and_no_more_than_asked_for() {
    let fixture = Fixture::new();
    let layer = fixture.layer(&[("a/x", file("1")), ("a/y", file("1")), ("b/z", file("1"))]);
    let below = |below: &str, most| {
        let options = DiffOptions { below: below.into(), most, ..DiffOptions::default() };
        fixture.store.diff(&fixture.root, &Stack::default(), &stack(&[&layer]), &options)
    };
    let paths = |diff: warren_core::Diff| -> Vec<_> {
        diff.changes.into_iter().map(|change| change.path.display().to_string()).collect()
    };
    assert_eq!(paths(below("/a/", 9).unwrap()), ["/a", "/a/x", "/a/y"]);
    assert_eq!(paths(below("/b/z", 9).unwrap()), ["/b/z"]);
    assert_eq!(paths(below("/b/z/no/such", 9).unwrap()), [""; 0]);
    let cut = below("/", 2).unwrap();
    assert!(cut.truncated);
    assert_eq!(paths(cut), ["/a", "/a/x"]);
    for bad in ["a", "/a/../b", ""] {
        assert_eq!(below(bad, 9).unwrap_err().kind, LayerErrorKind::Invalid, "{bad}");
    }
}

#[test]
fn a_tree_of_its_own_covers_what_is_below_it() {
    let fixture = Fixture::with_trees(&["/", "/usr"]);
    fixture.base(&[("usr/hidden", file("1"))]);
    let layer = fixture
        .layer_of(&[(0, &[("usr/never", file("1")), ("top", file("1"))]), (1, &[("bin/tool", file("1"))])]);
    let expected =
        [("/top", ChangeKind::Added), ("/usr/bin", ChangeKind::Added), ("/usr/bin/tool", ChangeKind::Added)];
    assert_eq!(kinds(&fixture, &[], &[&layer]), told(&expected));
    let differs = |path: &str| {
        fixture.store.differs(&fixture.root, &Stack::default(), &stack(&[&layer]), Path::new(path)).unwrap()
    };
    assert!(differs("/usr/bin") && differs("/usr/bin/tool") && differs("/top") && differs("/"));
    assert!(!differs("/usr/never") && !differs("/usr/hidden") && !differs("/etc"));
    let exists =
        |path: &str| fixture.store.exists(&fixture.root, &stack(&[&layer]), Path::new(path)).unwrap();
    assert!(exists("/") && exists("/usr") && exists("/usr/bin/tool") && exists("/top"));
    assert!(!exists("/usr/never") && !exists("/usr/hidden") && !exists("/etc"));
}

#[test]
fn what_is_there_is_told_from_what_was_removed_and_what_never_was() {
    let fixture = Fixture::new();
    fixture.base(&[("etc/hosts", file("1")), ("etc/old/x", file("1"))]);
    let first = fixture.layer(&[("new/deep/x", file("1")), ("link", Thing::Symlink("/etc/hosts".into()))]);
    let second = fixture.layer(&[("etc/hosts", Thing::Whiteout), ("etc/old", Thing::Whiteout)]);
    let exists = |layers: &[&LayerId], path: &str| {
        fixture.store.exists(&fixture.root, &stack(layers), Path::new(path)).unwrap()
    };
    for path in ["/", "/etc", "/etc/hosts", "/etc/old/x", "/new/deep/", "/new/deep/x", "/link"] {
        assert!(exists(&[&first], path), "{path}");
    }
    for path in ["/etc/none", "/none/x", "/etc/hosts/x", "/link/x"] {
        assert!(!exists(&[&first], path), "{path}");
    }
    for path in ["/etc/hosts", "/etc/old", "/etc/old/x"] {
        assert!(!exists(&[&second, &first], path), "{path}");
    }
    assert!(exists(&[&second, &first], "/new/deep/x") && !exists(&[], "/new"));
    for bad in ["a", "/a/../b", ""] {
        let refused = fixture.store.exists(&fixture.root, &stack(&[&first]), Path::new(bad));
        assert_eq!(refused.unwrap_err().kind, LayerErrorKind::Invalid, "{bad}");
    }
}

/// Everything that is visible, with all that counts about it.
fn whole(fixture: &Fixture, stack: &Stack) -> BTreeMap<PathBuf, (String, bool)> {
    let view = View::open(&fixture.store, &fixture.root, stack).unwrap();
    let mut all = BTreeMap::new();
    let names = view.names(Path::new("/"), &view.top()).unwrap();
    let mut walk = Walk::new(&view, Path::new("/"), view.top(), names);
    loop {
        let Step::Name(name) = walk.step() else {
            if walk.leave() {
                continue;
            }
            return all;
        };
        let (place, path) = (walk.place().unwrap(), walk.path_of(&name));
        let Some(node) = view.find(&place, &path, &name).unwrap() else { continue };
        let mut entry = node.entry();
        if !node.is_file() {
            entry.mtime_unix_ms = 0;
        }
        let content = if node.is_file() {
            std::io::read_to_string(node.open().unwrap()).unwrap()
        } else if node.is_symlink() {
            String::from_utf8(node.target().unwrap()).unwrap()
        } else {
            String::new()
        };
        all.insert(path.clone(), (format!("{entry:?} {content}"), node.is_directory()));
        if node.is_directory() {
            let inner = crate::layers::content::view::Places::enter(&view, &place, &path, &name).unwrap();
            let names = view.names(&path, &inner).unwrap();
            walk.enter(name, inner, names);
        }
    }
}

proptest! {
    #![proptest_config(crate::layers::content::fixture::cases(64))]

    #[test]
    fn a_diff_is_what_two_whole_listings_differ_in(
        base in things(),
        common in prop::collection::vec(things(), 0..2),
        from in prop::collection::vec(things(), 0..3),
        to in prop::collection::vec(things(), 0..3),
    ) {
        let fixture = Fixture::new();
        fixture.base(&borrowed(&base));
        let make = |layers: &[Vec<(String, Thing)>]| -> Vec<LayerId> {
            layers.iter().map(|things| fixture.layer(&borrowed(things))).collect()
        };
        let common = make(&common);
        let (from, to) = (Stack([make(&from), common.clone()].concat()), Stack([make(&to), common].concat()));
        let (before, after) = (whole(&fixture, &from), whole(&fixture, &to));
        let mut paths: Vec<_> = before.keys().chain(after.keys()).cloned().collect();
        paths.sort();
        paths.dedup();
        paths.retain(|path| before.get(path) != after.get(path));
        let diff = fixture.store.diff(&fixture.root, &from, &to, &DiffOptions::default()).unwrap();
        let told: Vec<_> = diff.changes.into_iter().map(|change| change.path).collect();
        prop_assert_eq!(told, paths);
    }

    #[test]
    fn a_view_has_what_the_kernel_shows(layers in prop::collection::vec(things(), 1..4)) {
        let fixture = Fixture::new();
        let layers = Stack(layers.iter().map(|things| fixture.layer(&borrowed(things))).collect());
        let mounted = fixture.mounted(&layers);
        let shown: Vec<_> = mounted
            .lines()
            .filter_map(|line| line.strip_prefix("./"))
            .map(|line| format!("/{}", line.split(' ').next().unwrap()))
            .collect();
        let mut seen: Vec<_> =
            whole(&fixture, &layers).into_keys().map(|path| path.display().to_string()).collect();
        let mut shown = shown;
        shown.sort();
        seen.sort();
        prop_assert_eq!(seen, shown);
    }
}

#[test]
fn a_file_of_nothing_but_ends_of_lines_is_too_large_to_compare() {
    let fixture = Fixture::new();
    fixture.base(&[("f", file("1\n"))]);
    let options = DiffOptions { text: true, ..DiffOptions::default() };
    let told = |lines: usize| {
        let layer = fixture.layer(&[("f", file(&"\n".repeat(lines)))]);
        changes(&fixture, &[], &[&layer], &options).remove(0).text
    };
    assert_eq!(told(100_001), Some(TextDiff::TooLarge));
    assert!(matches!(told(1000), Some(TextDiff::Unified(_))));
}

#[test]
fn hunks_are_not_made_beyond_what_is_told_of_them() {
    let fixture = Fixture::new();
    fixture.base(&[("f", file(&"one line\n".repeat(100)))]);
    let layer = fixture.layer(&[("f", file(&"another\n".repeat(100)))]);
    let options = DiffOptions { text: true, most_text_bytes: 1000, ..DiffOptions::default() };
    assert_eq!(changes(&fixture, &[], &[&layer], &options)[0].text, Some(TextDiff::TooLarge));
}

#[test]
fn a_diff_that_nobody_waits_for_stops() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..50).map(|number| format!("f{number}")).collect();
    let things: Vec<(&str, Thing)> = names.iter().map(|name| (name.as_str(), file("1"))).collect();
    let layer = fixture.layer(&things);
    let gone = std::rc::Rc::new(std::cell::Cell::new(false));
    let seen = std::rc::Rc::clone(&gone);
    let mut told = 0;
    let stopped = abandonable(
        move || seen.get(),
        || {
            let (from, to) = (Stack::default(), stack(&[&layer]));
            let options = DiffOptions::default();
            fixture.store.diff_each(&fixture.root, &from, &to, &options, &mut |_| {
                told += 1;
                gone.set(told == 10);
                true
            })
        },
    );
    assert_eq!(stopped.unwrap_err().kind, LayerErrorKind::Abandoned);
    assert_eq!(told, 10);
}

#[test]
fn a_directory_with_more_names_than_fit_into_memory_is_refused() {
    let fixture = Fixture::new();
    let layer = fixture.layer(&[("d/x", file("1"))]);
    let directory = fixture.store.place(&layer).join("upper-0/d");
    let inner = |number: usize| format!("{number:0255}");
    // One file with many names: the names are what counts.
    let most = (64 << 20) / (255 + 48);
    let mut first = directory.join("x");
    for number in 0..=most {
        let name = directory.join(inner(number));
        // A file system has a bound on the names of one file.
        if fs::hard_link(&first, &name).is_err() {
            fs::write(&name, "").unwrap();
            first = name;
        }
    }
    let error =
        fixture.store.diff(&fixture.root, &Stack::default(), &stack(&[&layer]), &DiffOptions::default());
    assert_eq!(error.unwrap_err().kind, LayerErrorKind::Invalid);
}
