//! Copies of what changed since the last copy, taken of overlays that the kernel has mounted: on
//! top of one another they must be what the sandbox sees.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use rustix::fs::{CWD, Mode, OFlags};
use warren_core::{
    Copied, CopyBound, CopyOrder, Draft, LayerDriver, LayerId, LayerStore as _, MountAccess, RootTree,
    Settled, TooMuch,
};
use warren_store::LayerDirectory;

use super::listing::{Listing, list};
use super::scribble::{Scribble, apply, scribbles};
use super::world::{self, copy_as, has_private_mounts, layer, new, run, scratch};

/// A sandbox's overlay, over a base with some files.
struct Overlay {
    scratch: tempfile::TempDir,
    store: LayerDirectory,
    /// The topmost first.
    layers: Vec<LayerId>,
    drawn: u8,
}

impl Overlay {
    fn new(driver: LayerDriver) -> Self {
        Self::on(scratch(), driver)
    }

    fn on(scratch: tempfile::TempDir, driver: LayerDriver) -> Self {
        let path = scratch.path();
        for name in ["base/a/b", "base/c d/a", "area/upper-0", "area/work-0", "live/upper-0", "view"] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        for name in ["base/b", "base/a/a", "base/a/b/c d", "base/c d/a/b"] {
            fs::write(path.join(name), name).unwrap();
        }
        symlink("b", path.join("base/a/\n")).unwrap();
        let store = world::open(path, driver);
        let overlay = Self { scratch, store, layers: Vec::new(), drawn: 0 };
        let options = format!(
            "lowerdir={0}/base,upperdir={0}/area/upper-0,workdir={0}/area/work-0,redirect_dir=on,metacopy=off,index=off,volatile",
            overlay.path("").display()
        );
        run("mount", &["-t", "overlay", "-o", &options, "overlay"], &[&overlay.live()]);
        // The root of a writable layer in which nothing was written has a time of its own, which no
        // layer tells.
        fs::write(overlay.live().join("written"), "").unwrap();
        overlay
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The files as the sandbox sees them.
    fn live(&self) -> PathBuf {
        self.path("live/upper-0")
    }

    fn below(&self) -> Vec<RootTree> {
        vec![RootTree { at: "/".into(), lowers: vec![self.path("base")], access: MountAccess::ReadWrite }]
    }

    fn draw(&mut self) -> LayerId {
        self.drawn += 1;
        layer(self.drawn)
    }

    /// Copies what changed. `None`: nothing did.
    fn copy(&mut self) -> Option<Copied> {
        let (id, below, since) = (self.draw(), self.below(), self.layers.first().cloned());
        let order = CopyOrder { into: &id, since: since.as_ref(), below: &below, bound: None };
        let copied = copy_as(&self.store, &self.path("area"), &order).unwrap()?;
        self.store.commit(&new(&id, u64::from(self.drawn))).unwrap();
        if !copied.on_last {
            self.layers.clear();
        }
        self.layers.insert(0, id);
        Some(copied)
    }

    /// The layers as one, by the kernel's reading.
    fn view(&self) -> Listing {
        let layer = |id: &LayerId| self.store.place(id).join("upper-0");
        let mut lowers: Vec<PathBuf> = self.layers.iter().map(layer).filter(|path| path.exists()).collect();
        lowers.extend([self.path("base"), self.path("view")]);
        let lowers: Vec<_> = lowers.iter().map(|path| path.display().to_string()).collect();
        let options = format!("lowerdir={},redirect_dir=follow,metacopy=off", lowers.join(":"));
        run("mount", &["-t", "overlay", "-o", &options, "overlay"], &[&self.path("view")]);
        let listing = list(&self.path("view"));
        run("umount", &[], &[&self.path("view")]);
        listing
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(self.live()).output());
    }
}

#[test]
fn copies_on_top_of_one_another_are_what_the_sandbox_sees() {
    if !has_private_mounts("layers::delta::copies_on_top_of_one_another_are_what_the_sandbox_sees") {
        return;
    }
    let config = Config { cases: 40, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&prop::collection::vec(scribbles(), 1..5), |rounds| {
            let mut overlay = Overlay::new(LayerDriver::Overlay);
            for mut round in rounds {
                round.retain(may_be_done_inside);
                apply(&overlay.path("live"), &round);
                overlay.copy();
                let (seen, copied) = (list(&overlay.live()), overlay.view());
                if seen != copied {
                    return Err(TestCaseError::fail(differences(&seen, &copied)));
                }
                if let Some(copied) = overlay.copy() {
                    return Err(TestCaseError::fail(format!(
                        "nothing changed, and it was copied: {copied:?}"
                    )));
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_small_change_after_a_large_copy_is_a_small_layer() {
    if !has_private_mounts("layers::delta::a_small_change_after_a_large_copy_is_a_small_layer") {
        return;
    }
    let mut overlay = Overlay::new(LayerDriver::Overlay);
    for number in 0..300 {
        fs::write(overlay.live().join(format!("file-{number}")), "x".repeat(100)).unwrap();
    }
    assert!(!overlay.copy().unwrap().on_last);
    fs::write(overlay.live().join("file-7"), "y".repeat(100)).unwrap();
    // Its time is set back to what it was, and its length is the same: only the time of the change
    // tells.
    run("touch", &["-d", "2020-01-01"], &[&overlay.live().join("file-8")]);
    fs::remove_file(overlay.live().join("file-9")).unwrap();
    fs::rename(overlay.live().join("a/a"), overlay.live().join("moved")).unwrap();
    assert!(overlay.copy().unwrap().on_last);
    assert_eq!(list(&overlay.live()), overlay.view());
    let names = fs::read_dir(overlay.store.place(&overlay.layers[0]).join("upper-0")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["a", "file-7", "file-8", "file-9", "moved"]);
    // The store is opened anew, and still knows.
    overlay.store = world::open(overlay.scratch.path(), LayerDriver::Overlay);
    assert!(overlay.copy().is_none());
}

#[test]
fn a_directory_from_below_that_was_renamed_is_right_all_the_same() {
    if !has_private_mounts("layers::delta::a_directory_from_below_that_was_renamed_is_right_all_the_same") {
        return;
    }
    let mut overlay = Overlay::new(LayerDriver::Overlay);
    fs::write(overlay.live().join("a/new"), "new").unwrap();
    overlay.copy().unwrap();
    fs::rename(overlay.live().join("a"), overlay.live().join("z")).unwrap();
    fs::remove_file(overlay.live().join("z/new")).unwrap();
    assert!(!overlay.copy().unwrap().on_last, "everything is copied");
    assert_eq!(list(&overlay.live()), overlay.view());
    fs::write(overlay.live().join("z/b/more"), "more").unwrap();
    assert!(overlay.copy().unwrap().on_last);
    assert_eq!(list(&overlay.live()), overlay.view());
}

#[test]
fn what_is_written_while_it_is_copied_ahead_is_in_the_copy_once_it_stands_still() {
    if !has_private_mounts(
        "layers::delta::what_is_written_while_it_is_copied_ahead_is_in_the_copy_once_it_stands_still",
    ) {
        return;
    }
    let mut overlay = Overlay::new(LayerDriver::Overlay);
    let live = overlay.live();
    for name in ["stays", "changes", "goes", "linked"] {
        fs::write(live.join(name), "first").unwrap();
    }
    fs::hard_link(live.join("linked"), live.join("other")).unwrap();
    fs::create_dir(live.join("dir")).unwrap();
    fs::write(live.join("dir/inner"), "first").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let (id, below, area) = (overlay.draw(), overlay.below(), open(&overlay.path("area")));
    let order = CopyOrder { into: &id, since: None, below: &below, bound: Some(roomy()) };
    let Draft::Begun(mut draft) = overlay.store.begin_copy(area.as_fd(), &order).unwrap() else {
        panic!("there is something to be copied")
    };
    fs::write(live.join("changes"), "second").unwrap();
    fs::write(live.join("other"), "second").unwrap();
    fs::remove_file(live.join("goes")).unwrap();
    fs::remove_dir_all(live.join("dir")).unwrap();
    fs::write(live.join("dir"), "a file now").unwrap();
    fs::write(live.join("comes"), "second").unwrap();
    assert_eq!(draft.settle().unwrap(), Settled::Done);
    draft.place().unwrap();
    overlay.store.commit(&new(&id, 1)).unwrap();
    overlay.layers = vec![id];
    assert_eq!(list(&live), overlay.view());
}

/// False for trusted attributes, which no sandbox can set, and for removed names, which only the
/// kernel makes.
fn may_be_done_inside(scribble: &Scribble) -> bool {
    match scribble {
        Scribble::Opaque { .. } | Scribble::Whiteout { .. } => false,
        Scribble::Mark { name, .. } => !name.starts_with("trusted."),
        _ => true,
    }
}

fn differences(seen: &Listing, copied: &Listing) -> String {
    let paths: std::collections::BTreeSet<_> = seen.keys().chain(copied.keys()).collect();
    let differ = paths.into_iter().filter(|path| seen.get(*path) != copied.get(*path));
    differ
        .map(|path| format!("{path:?}: {:?}\n  copied as {:?}\n", seen.get(path), copied.get(path)))
        .collect()
}

fn open(path: &Path) -> std::os::fd::OwnedFd {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

fn roomy() -> CopyBound {
    CopyBound { entries: 100, bytes: 1 << 20, still: Duration::from_secs(60) }
}

#[test]
fn what_exceeds_a_bound_is_not_copied_and_leaves_nothing() {
    let scratch = scratch();
    let store = world::open(scratch.path(), LayerDriver::Overlay);
    let area = world::area(scratch.path(), "large");
    for number in 0..50 {
        fs::write(area.join(format!("upper-0/{number}")), [7; 4096]).unwrap();
    }
    let attempt = |bound: CopyBound| {
        let order = CopyOrder { into: &layer(1), since: None, below: &[], bound: Some(bound) };
        match store.begin_copy(open(&area).as_fd(), &order).unwrap() {
            Draft::TooMuch(too_much) => Some(too_much),
            Draft::Unchanged => panic!("there are files"),
            Draft::Begun(mut draft) => match draft.settle().unwrap() {
                Settled::TooMuch(too_much) => Some(too_much),
                Settled::Done | Settled::Unchanged => None,
            },
        }
    };
    assert_eq!(attempt(CopyBound { entries: 49, ..roomy() }), Some(TooMuch::Entries(49)));
    assert_eq!(attempt(CopyBound { bytes: 50 * 4096 - 1, ..roomy() }), Some(TooMuch::Bytes(50 * 4096 - 1)));
    let no_time = Duration::ZERO;
    assert_eq!(attempt(CopyBound { still: no_time, ..roomy() }), Some(TooMuch::Time(no_time)));
    assert_eq!(attempt(roomy()), None);
    assert!(store.settle(world::PATIENCE));
    assert_eq!(world::names(scratch.path()), [""; 0]);
}
