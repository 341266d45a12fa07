use std::fs;
use std::os::unix::fs::MetadataExt as _;

use proptest::prelude::*;
use warren_core::{DiffOptions, LayerContent as _, LayerErrorKind, LayerStore as _, Stack};

use crate::layers::content::fixture::{Fixture, Thing, borrowed, file, listing, stack, things};

#[test]
fn files_are_shared_and_what_hides_things_below_is_kept() {
    let fixture = Fixture::new();
    let old = fixture.layer(&[("etc/old", file("1")), ("etc/kept", file("2")), ("gone", Thing::Whiteout)]);
    let new = fixture.layer(&[("etc/old", Thing::Whiteout), ("dir", Thing::Opaque), ("dir/new", file("3"))]);
    let squashed = fixture.draw();
    let place = |id| fixture.store.place(id).join("upper-0");
    let xattr = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(place(&new).join("etc"), "user.note", b"kept", xattr).unwrap();
    fixture.store.squash(&[new.clone(), old.clone()], &squashed).unwrap();
    let mut note = [0; 8];
    let length = rustix::fs::getxattr(place(&squashed).join("etc"), "user.note", &mut note).unwrap();
    assert_eq!(&note[..length], b"kept");
    let lines = listing(&place(&squashed));
    let names: Vec<_> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["dir", "dir/new", "etc", "etc/kept", "etc/old", "gone"]);
    assert!(lines[0].ends_with("opaque"), "{lines:?}");
    assert!(lines[4].starts_with("etc/old 20000"), "{lines:?}");
    let inode = |id| fs::metadata(place(id).join("etc/kept")).unwrap().ino();
    assert_eq!(inode(&squashed), inode(&old));
}

#[test]
fn what_a_sandbox_is_going_to_write_to_shares_no_file_with_the_layers() {
    let fixture = Fixture::new();
    let names = [("a", file("1")), ("b", Thing::Link("a".to_owned())), ("gone", file("2"))];
    let old = fixture.layer(&names);
    let new = fixture.layer(&[("gone", Thing::Whiteout), ("dir", Thing::Opaque), ("dir/new", file("3"))]);
    let place = |id| fixture.store.place(id).join("upper-0");
    let upper = fixture.data.path().join("upper");
    fs::create_dir(&upper).unwrap();
    let open = || fs::File::open(&upper).unwrap();
    super::fill(&[], std::os::fd::AsFd::as_fd(&open())).unwrap();
    assert_eq!(fs::read_dir(&upper).unwrap().count(), 0);
    super::fill(&[place(&new), place(&old)], std::os::fd::AsFd::as_fd(&open())).unwrap();
    let squashed = fixture.draw();
    fixture.store.squash(&[new.clone(), old.clone()], &squashed).unwrap();
    assert_eq!(listing(&upper), listing(&place(&squashed)));
    let inode = |path: std::path::PathBuf| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(upper.join("a")), inode(upper.join("b")), "one file with two names");
    assert_ne!(inode(upper.join("a")), inode(place(&old).join("a")));
    fs::write(upper.join("a"), "changed").unwrap();
    assert_eq!(fs::read_to_string(place(&old).join("a")).unwrap(), "1");
}

#[test]
fn a_whiteout_that_hides_nothing_any_more_is_not_listed() {
    let fixture = Fixture::new();
    let old = fixture.layer(&[("only/here", file("1")), ("only/stays", file("2"))]);
    let new = fixture.layer(&[("only/here", Thing::Whiteout)]);
    let squashed = fixture.draw();
    fixture.store.squash(&[new, old], &squashed).unwrap();
    let mounted = fixture.mounted(&stack(&[&squashed]));
    assert!(mounted.contains("only/stays") && !mounted.contains("here"), "{mounted}");
}

#[test]
fn a_tree_that_only_one_layer_changes_is_kept() {
    let fixture = Fixture::with_trees(&["/", "/usr"]);
    let old = fixture.layer_of(&[(1, &[("bin/tool", file("1"))])]);
    let new = fixture.layer(&[("a", file("2"))]);
    let squashed = fixture.draw();
    fixture.store.squash(&[new, old], &squashed).unwrap();
    let place = fixture.store.place(&squashed);
    assert!(place.join("upper-0/a").exists() && place.join("upper-1/bin/tool").exists());
}

#[test]
fn a_missing_layer_is_told_and_leaves_nothing() {
    let fixture = Fixture::new();
    let error = fixture.store.squash(&[fixture.draw()], &fixture.draw()).unwrap_err();
    assert_eq!(error.kind, LayerErrorKind::NotFound);
    assert!(fixture.store.layers().unwrap().is_empty());
}

#[test]
fn a_tree_deeper_than_any_path_is_squashed() {
    let fixture = Fixture::new();
    let layer = fixture.layer(&[("d", Thing::Directory)]);
    let mut directory = fs::File::open(fixture.store.place(&layer).join("upper-0/d")).unwrap();
    for _ in 0..2500 {
        let mode = rustix::fs::Mode::RWXU;
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        rustix::fs::mkdirat(&directory, "d", mode).unwrap();
        rustix::fs::mkdirat(&directory, "e", mode).unwrap();
        directory = rustix::fs::openat(&directory, "d", flags, rustix::fs::Mode::empty()).unwrap().into();
    }
    let squashed = fixture.draw();
    fixture.store.squash(std::slice::from_ref(&layer), &squashed).unwrap();
    let diff = |from: &Stack, to: &Stack| {
        fixture.store.diff(&fixture.root, from, to, &DiffOptions::default()).unwrap()
    };
    assert!(diff(&stack(&[&layer]), &stack(&[&squashed])).changes.is_empty());
    assert_eq!(diff(&Stack::default(), &stack(&[&squashed])).changes.len(), 5001);
}

proptest! {
    #![proptest_config(crate::layers::content::fixture::cases(24))]

    #[test]
    fn the_kernel_sees_the_same_in_one_layer_as_in_many(
        base in things(),
        layers in prop::collection::vec(things(), 1..5),
    ) {
        let fixture = Fixture::new();
        let base: Vec<_> = borrowed(&base)
            .into_iter()
            .filter(|(_, thing)| !matches!(thing, Thing::Whiteout | Thing::Opaque))
            .collect();
        fixture.base(&base);
        let layers: Vec<_> = layers.iter().map(|things| fixture.layer(&borrowed(things))).collect();
        let squashed = fixture.draw();
        fixture.store.squash(&layers, &squashed).unwrap();
        let (many, one) = (Stack(layers), Stack(vec![squashed]));
        prop_assert_eq!(fixture.mounted(&many), fixture.mounted(&one));
        let diff = fixture.store.diff(&fixture.root, &many, &one, &DiffOptions::default()).unwrap();
        prop_assert_eq!(diff.changes, []);
    }
}
