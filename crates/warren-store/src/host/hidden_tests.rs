use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::time::Instant;

use super::*;

const THIS: &str = "this boot";

struct Machine {
    root: tempfile::TempDir,
    place: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let (root, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let machine = Self { root, place };
        for (path, mode) in [("usr/share/open", 0o755), ("usr/share/closed", 0o700), ("usr/lib", 0o755)] {
            fs::create_dir_all(machine.at(path)).unwrap();
            machine.set_mode(path, mode);
        }
        for (path, mode) in
            [("usr/lib/public", 0o644), ("usr/share/open/secret", 0o640), ("usr/share/closed/inner", 0o644)]
        {
            machine.write(path, mode);
        }
        symlink("/etc/shadow", machine.at("usr/lib/link")).unwrap();
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn write(&self, path: &str, mode: u32) {
        fs::write(self.at(path), "content").unwrap();
        self.set_mode(path, mode);
    }

    fn layer(&self, hider: &Hider, boot: &str) -> PathBuf {
        hider.layer(self.place.path(), self.root.path(), boot).unwrap()
    }

    fn layers(&self) -> usize {
        let entries = fs::read_dir(self.place.path()).unwrap();
        entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"usr-")).count()
    }
}

fn hides(layer: &Path, name: &str) -> bool {
    fs::symlink_metadata(layer.join(name))
        .is_ok_and(|found| found.file_type().is_char_device() && found.rdev() == 0)
}

#[test]
fn every_name_that_is_not_for_everybody_is_hidden_and_no_other() {
    let machine = Machine::new();
    let layer = machine.layer(&Hider::new(), THIS);
    assert!(hides(&layer, "share/open/secret") && hides(&layer, "share/closed"));
    assert!(!layer.join("lib").exists(), "a directory without anything to hide");
    for path in ["", "share", "share/open"] {
        let (ours, own) =
            (fs::metadata(layer.join(path)).unwrap(), fs::metadata(machine.at("usr").join(path)));
        let look = |found: &fs::Metadata| (found.mode(), found.uid(), found.gid(), found.mtime());
        assert_eq!(look(&ours), look(&own.unwrap()), "{path}");
    }
    assert_eq!(Private::below(&machine.at("usr")).unwrap().count(), 2);
}

#[test]
fn a_change_of_the_machine_is_seen_and_what_runs_keeps_its_layer() {
    let machine = Machine::new();
    let first = machine.layer(&Hider::new(), THIS);
    assert_eq!(machine.layer(&Hider::new(), THIS), first);
    machine.write("usr/lib/new", 0o600);
    let second = machine.layer(&Hider::new(), THIS);
    assert!(hides(&second, "lib/new") && second != first && hides(&first, "share/closed"));
    fs::remove_file(machine.at("usr/lib/new")).unwrap();
    machine.write("usr/lib/other", 0o600);
    // Nothing of an earlier boot is used any more, whole or torn.
    let third = machine.layer(&Hider::new(), "next boot");
    assert!(hides(&third, "lib/other") && !first.exists() && !second.exists());
    assert_eq!(machine.layers(), 1);
}

#[test]
fn a_server_does_not_wait_for_a_look_but_for_the_first() {
    let machine = Machine::new();
    let hider = Hider::new().in_background();
    let first = machine.layer(&hider, THIS);
    machine.write("usr/lib/new", 0o600);
    assert_eq!(machine.layer(&hider, THIS), first, "it has just looked");
    let mut known = Finding::load(machine.place.path(), THIS).unwrap();
    known.looked_unix -= LOOK_PAUSE.as_secs() + 1;
    fs::write(machine.place.path().join(FINDING), serde_json::to_vec(&known).unwrap()).unwrap();
    assert_eq!(machine.layer(&hider, THIS), first);
    let began = Instant::now();
    while !hides(&machine.layer(&hider, THIS), "lib/new") {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_layer_that_cannot_be_made_is_an_error() {
    let machine = Machine::new();
    fs::remove_dir_all(machine.at("usr")).unwrap();
    assert!(Hider::new().layer(machine.place.path(), machine.root.path(), THIS).is_err());
    assert_eq!(fs::read_dir(machine.place.path()).unwrap().count(), 0);
}
