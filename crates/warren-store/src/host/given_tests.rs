use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use tempfile::TempDir;

use super::*;

/// A machine with a bundle, a data directory, and a template's root.
struct World {
    machine: TempDir,
    data: TempDir,
    root: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self {
            machine: tempfile::tempdir().unwrap(),
            data: tempfile::tempdir().unwrap(),
            root: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(world.machine.path().join("etc/ssl/certs")).unwrap();
        fs::write(world.machine.path().join(BUNDLES[0]), "MACHINE").unwrap();
        fs::create_dir_all(world.data.path().join("common")).unwrap();
        fs::create_dir(world.root.path().join("etc")).unwrap();
        world
    }

    fn with_authority(self) -> Self {
        fs::create_dir(self.data.path().join("ca")).unwrap();
        fs::write(self.data.path().join("ca/ca.pem"), "OURS\n").unwrap();
        self
    }

    fn given(&self) -> Given {
        Given::new(self.data.path(), self.machine.path())
    }

    fn layer(&self) -> Option<PathBuf> {
        self.given().layer(self.root.path(), "this boot").unwrap()
    }
}

#[test]
fn a_layer_has_the_resolver_and_what_to_trust() {
    let world = World::new().with_authority();
    let layer = world.layer().unwrap();
    let text = |path: &str| fs::read_to_string(layer.join(path)).unwrap();
    assert!(text("etc/resolv.conf").starts_with("nameserver 169.254.77.1\n"));
    assert_eq!(text("etc/warren/ca.pem"), "OURS\n");
    assert_eq!(text("etc/warren/ca-bundle.pem"), "MACHINE\nOURS\n");
    for path in ["etc/resolv.conf", "etc/warren/ca.pem", "etc/warren/ca-bundle.pem"] {
        let metadata = fs::metadata(layer.join(path)).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.uid(), metadata.gid()), (0o644, 0, 0), "{path}");
    }
}

#[test]
fn without_an_authority_there_is_nothing_to_trust() {
    let world = World::new();
    let first = world.layer().unwrap();
    assert!(first.join("etc/resolv.conf").is_file());
    assert!(!first.join("etc/warren").exists());
    let world = world.with_authority();
    let second = world.layer().unwrap();
    assert_ne!(first, second, "sandboxes that run keep the layer that they were started with");
    assert!(first.join("etc/resolv.conf").is_file() && second.join("etc/warren/ca.pem").is_file());
    assert_eq!(world.layer().unwrap(), second, "it is made once");
    fs::write(world.machine.path().join(BUNDLES[0]), "MACHINE and more").unwrap();
    let third = world.layer().unwrap();
    assert_eq!(
        fs::read_to_string(third.join("etc/warren/ca-bundle.pem")).unwrap(),
        "MACHINE and more\nOURS\n"
    );
}

#[test]
fn directories_look_as_the_templates_own_do() {
    let world = World::new();
    let root = world.root.path();
    fs::set_permissions(root, fs::Permissions::from_mode(0o711)).unwrap();
    fs::set_permissions(root.join("etc"), fs::Permissions::from_mode(0o750)).unwrap();
    chown(root.join("etc"), Some(7), Some(8)).unwrap();
    let layer = world.layer().unwrap();
    let look = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.mode() & 0o7777, metadata.uid(), metadata.gid())
    };
    assert_eq!(look(&layer.join("etc")), (0o750, 7, 8));
    assert_eq!(look(&layer).0 & 0o711, 0o711);
    fs::remove_dir(root.join("etc")).unwrap();
    assert_eq!(look(&world.layer().unwrap().join("etc")), (0o755, 0, 0));
}

#[test]
fn a_root_whose_etc_is_elsewhere_stays_as_it_is() {
    let world = World::new();
    fs::remove_dir(world.root.path().join("etc")).unwrap();
    symlink("usr/etc", world.root.path().join("etc")).unwrap();
    assert_eq!(world.layer(), None);
}

#[test]
fn a_layer_of_an_earlier_boot_is_made_anew() {
    let world = World::new();
    let layer = world.layer().unwrap();
    fs::write(layer.parent().unwrap().join(BOOT), "earlier").unwrap();
    fs::remove_file(layer.join("etc/resolv.conf")).unwrap();
    assert_eq!(world.layer().unwrap(), layer);
    assert!(layer.join("etc/resolv.conf").is_file());
}
