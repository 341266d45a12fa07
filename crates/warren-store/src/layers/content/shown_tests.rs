use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, mount_bind, unmount};
use warren_core::{DiffOptions, Export, LayerContent as _, Shown, Stack, TextDiff};

use crate::layers::content::fixture::{Fixture, Thing, file, stack, write_things};

/// A mount of the host's own, for as long as this lives.
struct Mounted(PathBuf);

impl Mounted {
    fn bind(from: &Path, at: PathBuf) -> Self {
        mount_bind(from, &at).unwrap();
        Self(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(&self.0, UnmountFlags::DETACH).unwrap();
    }
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A machine whose `/usr` has a secret beside every public file, and nothing yet that hides their
/// names.
fn on_a_machine() -> (Fixture, PathBuf) {
    let mut fixture = Fixture::with_trees(&["/", "/usr"]);
    let hidden = fixture.data.path().join("x").join(Shown::HIDDEN);
    fs::create_dir_all(&hidden).unwrap();
    let machine = fixture.root[1].lowers[0].clone();
    write_things(
        &machine,
        &[
            ("share/public", file("for all")),
            ("share/secret", file("SECRET")),
            ("closed/file", file("SECRET")),
            ("pipe", Thing::Fifo),
            ("under/own", file("what is below the mount")),
        ],
    );
    set_mode(machine.join("share/secret"), 0o640);
    set_mode(machine.join("closed"), 0o750);
    fixture.root[1].lowers.insert(0, hidden);
    (fixture, machine)
}

fn exported(fixture: &Fixture, stack: &Stack, below: &str) -> String {
    let mut bytes = Vec::new();
    let what = Export::Tar { stack, below: below.into() };
    fixture.store.export(&fixture.root, &what, &mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn what_is_private_on_the_machine_is_in_no_export() {
    let (fixture, _machine) = on_a_machine();
    let text = exported(&fixture, &Stack::default(), "/");
    assert!(text.contains("for all") && text.contains("share/public"));
    for private in ["SECRET", "share/secret", "closed", "pipe"] {
        assert!(!text.contains(private), "{private}");
    }
    for path in ["/usr/share/secret", "/usr/closed", "/usr/closed/file"] {
        let exists = fixture.store.exists(&fixture.root, &Stack::default(), Path::new(path)).unwrap();
        assert!(!exists, "{path}");
    }
}

#[test]
fn a_diff_does_not_tell_what_a_private_file_of_the_machine_was() {
    let (fixture, _machine) = on_a_machine();
    let layer = fixture.layer_of(&[(
        1,
        &[("share/secret", file("mine")), ("closed/file", file("mine")), ("share/public", file("mine"))],
    )]);
    let options = DiffOptions { text: true, ..DiffOptions::default() };
    let diff = fixture.store.diff(&fixture.root, &Stack::default(), &stack(&[&layer]), &options).unwrap();
    let text = format!("{diff:?}");
    assert!(text.contains("for all") && text.contains("closed/file"), "{text}");
    assert!(!text.contains("SECRET"), "{text}");
    let unified = diff.changes.iter().filter(|change| matches!(change.text, Some(TextDiff::Unified(_))));
    assert_eq!(unified.count(), 3);
}

#[test]
fn export_and_diff_never_cross_a_mount_of_the_host() {
    let (fixture, machine) = on_a_machine();
    let elsewhere = tempfile::tempdir().unwrap();
    write_things(elsewhere.path(), &[("other", file("of another file system"))]);
    set_mode(elsewhere.path(), 0o755);
    let _mounted = Mounted::bind(elsewhere.path(), machine.join("under"));
    assert!(machine.join("under/other").exists());
    let text = exported(&fixture, &Stack::default(), "/usr");
    assert!(text.contains("what is below the mount") && !text.contains("of another"), "{text}");
    let exists = |path: &str| fixture.store.exists(&fixture.root, &Stack::default(), Path::new(path));
    assert!(exists("/usr/under/own").unwrap() && !exists("/usr/under/other").unwrap());
    // Elsewhere nobody should have mounted anything: that is refused.
    let root = fixture.root[0].lowers[0].join("on-the-root");
    fs::create_dir(&root).unwrap();
    let _mounted = Mounted::bind(elsewhere.path(), root);
    let what = Export::Tar { stack: &Stack::default(), below: "/".into() };
    let mut bytes = Vec::new();
    let done = fixture.store.export(&fixture.root, &what, &mut bytes);
    assert!(done.is_err() && !String::from_utf8_lossy(&bytes).contains("of another"));
}
