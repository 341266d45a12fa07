use std::cell::Cell;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use proptest::test_runner::{Config, TestCaseError, TestRunner};
use rustix::fs::{Mode, OFlags};
use warren_core::{CopiedData, LayerDriver, LayerErrorKind, LayerId, LayerStore as _};

use super::listing::list;
use super::scribble::{apply, scribbles};
use super::world::{
    self, PATIENCE, Pool, area, has_private_mounts, keep, layer, names, run, scratch, subvolume_area,
};

const CASES: u32 = 48;

#[test]
fn any_copy_equals_its_original() {
    let scratch = scratch();
    equals_its_original(scratch.path(), LayerDriver::Overlay, area, CopiedData::Bytes);
}

#[test]
fn any_shared_copy_equals_its_original() {
    if has_private_mounts("layers::copy::any_shared_copy_equals_its_original") {
        let pool = Pool::new();
        equals_its_original(&pool.data(), LayerDriver::Reflink, area, CopiedData::Shared);
        equals_its_original(&pool.data(), LayerDriver::Btrfs, subvolume_area, CopiedData::Shared);
    }
}

#[test]
fn any_copy_to_another_file_system_equals_its_original() {
    if has_private_mounts("layers::copy::any_copy_to_another_file_system_equals_its_original") {
        let pool = Pool::new();
        let elsewhere = scratch();
        let link = pool.data().join("sandboxes");
        symlink(elsewhere.path(), link).unwrap();
        equals_its_original(&pool.data(), LayerDriver::Overlay, area, CopiedData::Bytes);
    }
}

fn equals_its_original(
    data: &Path,
    driver: LayerDriver,
    make: fn(&Path, &str) -> std::path::PathBuf,
    expected: CopiedData,
) {
    let store = world::open(data, driver);
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let cases = Cell::new(0_u64);
    TestRunner::new(config)
        .run(&scribbles(), |scribbles| {
            let case = cases.replace(cases.get() + 1);
            let area = make(data, &format!("{driver:?}-{case}"));
            apply(&area, &scribbles);
            let original = || ["upper-0", "upper-1"].map(|upper| list(&area.join(upper)));
            let before = original();
            let id = LayerId::from_random((u128::from(case) << 64).to_be_bytes());
            let copied = keep(&store, &area, &id);
            let copy = ["upper-0", "upper-1"].map(|upper| list(&store.place(&id).join(upper)));
            if copy != before {
                return Err(TestCaseError::fail(format!("{before:#?}\nwas copied as\n{copy:#?}")));
            }
            if before != original() {
                return Err(TestCaseError::fail("the original changed"));
            }
            if expected == CopiedData::Shared && copied != expected {
                return Err(TestCaseError::fail("data was copied that could be shared"));
            }
            store.remove(&id).unwrap();
            run("rm", &["-rf", "--"], &[&area]);
            Ok(())
        })
        .unwrap();
    assert!(store.settle(PATIENCE));
    assert_eq!(names(data), [""; 0], "{CASES} layers were made and removed");
}

#[test]
fn only_what_decides_the_content_is_kept_of_what_overlayfs_notes() {
    let scratch = scratch();
    let store = world::open(scratch.path(), LayerDriver::Overlay);
    let area = area(scratch.path(), "noted");
    let directory = area.join("upper-0/dir");
    fs::create_dir(&directory).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    for name in ["opaque", "origin", "impure", "nlink", "redirect", "metacopy"] {
        rustix::fs::lsetxattr(&directory, format!("trusted.overlay.{name}"), b"y", flags).unwrap();
    }
    keep(&store, &area, &layer(1));
    let mut names = vec![0; 1000];
    let length = rustix::fs::llistxattr(store.place(&layer(1)).join("upper-0/dir"), &mut names[..]).unwrap();
    let mut kept: Vec<_> = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    kept.sort_unstable();
    assert_eq!(kept, [b"trusted.overlay.opaque".as_slice(), b"trusted.overlay.redirect"]);
}

/// Deeper than descriptors or a stack would last, with siblings on the way that are yet to be read
/// when it comes back up.
#[test]
fn a_tree_of_any_depth_and_width_is_copied_counted_and_removed() {
    const DEPTH: usize = 1500;
    const BUSY: usize = 50;
    let scratch = scratch();
    let store = world::open(scratch.path(), LayerDriver::Overlay);
    let area = area(scratch.path(), "deep");
    let mut inodes = 2;
    let mut here = directory(&area.join("upper-0"));
    for depth in 0..DEPTH {
        let others = if depth % 100 == 0 {
            300
        } else if depth < BUSY {
            10
        } else {
            0
        };
        for number in 0..others {
            let name = format!("file-{number}");
            rustix::fs::openat(&here, &name, OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
            rustix::fs::mkdirat(&here, format!("sibling-{number}"), Mode::RWXU).unwrap();
        }
        inodes += 2 * others + 1;
        rustix::fs::mkdirat(&here, "deeper", Mode::RWXU).unwrap();
        here = enter(here, "deeper");
    }
    for number in 0..5_000 {
        rustix::fs::openat(&here, format!("{number}"), OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    }
    keep(&store, &area, &layer(1));
    let space = store.space(&layer(1), None).unwrap().unwrap();
    assert_eq!(space.inodes, inodes + 5_000);
    let mut copy = directory(&store.place(&layer(1)));
    copy = enter(copy, "upper-0");
    for _ in 0..DEPTH {
        copy = enter(copy, "deeper");
    }
    assert!(rustix::fs::statat(&copy, "4999", rustix::fs::AtFlags::empty()).is_ok());
    store.remove(&layer(1)).unwrap();
    // The test's own directory cannot be removed by one that climbs.
    fs::rename(&area, scratch.path().join("layers/.trash-area")).unwrap();
    let another = world::open(scratch.path(), LayerDriver::Overlay);
    assert!(store.settle(PATIENCE) && another.settle(PATIENCE));
    assert_eq!(names(scratch.path()), [""; 0]);
}

fn directory(path: &Path) -> OwnedFd {
    File::open(path).unwrap().into()
}

fn enter(directory: OwnedFd, name: &str) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty()).unwrap()
}

/// The file system's limit leaves no name to spare for the copier's own.
#[test]
fn a_file_with_as_many_names_as_there_can_be_is_copied() {
    let scratch = scratch();
    let store = world::open(scratch.path(), LayerDriver::Overlay);
    let area = area(scratch.path(), "linked");
    let first = area.join("upper-0/first");
    fs::write(&first, "data").unwrap();
    let most = (1..100_000)
        .take_while(|number| fs::hard_link(&first, area.join(format!("upper-0/{number}"))).is_ok());
    let names = most.count() as u64 + 1;
    assert!((1000..100_000).contains(&names), "this file system has no limit to try: {names}");
    keep(&store, &area, &layer(1));
    let copy = fs::metadata(store.place(&layer(1)).join("upper-0/first")).unwrap();
    assert_eq!(copy.nlink(), names);
}

#[test]
fn no_link_leads_out_of_a_copy() {
    let scratch = scratch();
    let store = world::open(scratch.path(), LayerDriver::Overlay);
    let outside = scratch.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "the host's").unwrap();
    let area = area(scratch.path(), "hostile");
    symlink(&outside, area.join("upper-0/dir")).unwrap();
    symlink(outside.join("secret"), area.join("upper-0/file")).unwrap();
    // A whole tree, and what would be a tree by its name.
    fs::remove_dir(area.join("upper-1")).unwrap();
    symlink(&outside, area.join("upper-1")).unwrap();
    let error = world::copy(&store, &area, &layer(1)).unwrap_err();
    assert_eq!(error.kind, LayerErrorKind::Host, "{error:?}");
    assert!(store.settle(PATIENCE));
    assert_eq!(names(scratch.path()), [""; 0], "nothing is left");

    fs::remove_file(area.join("upper-1")).unwrap();
    fs::create_dir(area.join("upper-01")).unwrap();
    keep(&store, &area, &layer(2));
    let place = store.place(&layer(2));
    assert!(place.join("upper-0/dir").is_symlink() && place.join("upper-0/file").is_symlink());
    assert!(!place.join("upper-01").exists() && !place.join("upper-1").exists());
    assert_eq!(fs::metadata(&place).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn a_disk_that_fills_up_in_the_middle_of_a_copy_leaves_nothing() {
    if !has_private_mounts("layers::copy::a_disk_that_fills_up_in_the_middle_of_a_copy_leaves_nothing") {
        return;
    }
    let (source, small) = (scratch(), scratch());
    run("mount", &["-t", "tmpfs", "-o", "size=4m,nr_inodes=300", "none"], &[small.path()]);
    let store = world::open(small.path(), LayerDriver::Overlay);
    let free = || rustix::fs::statvfs(small.path()).unwrap().f_bfree;
    let at_first = free();

    let bytes = area(source.path(), "bytes");
    (0..8).for_each(|number| fs::write(bytes.join(format!("upper-0/{number}")), vec![1; 1 << 20]).unwrap());
    let inodes = area(source.path(), "inodes");
    (0..400).for_each(|number| drop(File::create(inodes.join(format!("upper-0/{number}"))).unwrap()));
    for area in [&bytes, &inodes] {
        let error = world::copy(&store, area, &layer(1)).unwrap_err();
        assert_eq!(error.kind, LayerErrorKind::Full, "{error:?}");
        assert!(store.settle(PATIENCE));
        assert_eq!(names(small.path()), [""; 0]);
        assert_eq!(free(), at_first);
    }
    (2..8).for_each(|number| fs::remove_file(bytes.join(format!("upper-0/{number}"))).unwrap());
    keep(&store, &bytes, &layer(1));
    assert_eq!(list(&store.place(&layer(1)).join("upper-0")), list(&bytes.join("upper-0")));
    run("umount", &["--lazy"], &[small.path()]);
}
