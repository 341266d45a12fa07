//! Layers for tests, written by hand, and the kernel's opinion of them.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use warren_core::{LayerId, LayerStore as _, MountAccess, NewLayer, RootTree, Stack};

use crate::TemplateStore;
use crate::layers::LayerDirectory;

/// So many random cases, other ones each time, unless `PROPTEST_CASES` asks for more: each makes
/// mounts of the kernel's.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(usual), ..ProptestConfig::default() }
}

/// A store of layers over a template's root.
pub(crate) struct Fixture {
    pub(crate) data: tempfile::TempDir,
    pub(crate) store: LayerDirectory,
    pub(crate) root: Vec<RootTree>,
    drawn: Cell<u8>,
}

/// One thing in a layer.
#[derive(Debug, Clone)]
pub(crate) enum Thing {
    File(String),
    Directory,
    Opaque,
    Whiteout,
    Symlink(String),
    Fifo,
    /// Another name for a file of the same layer.
    Link(String),
}

impl Fixture {
    /// One tree, empty below.
    pub(crate) fn new() -> Self {
        Self::with_trees(&["/"])
    }

    pub(crate) fn with_trees(trees: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let templates = TemplateStore::open(data.path()).unwrap();
        let store = LayerDirectory::open(data.path(), templates).unwrap();
        let root = trees.iter().enumerate().map(|(index, at)| {
            let lower = data.path().join(format!("base-{index}"));
            fs::create_dir(&lower).unwrap();
            RootTree { at: at.into(), lowers: vec![lower], access: MountAccess::ReadWrite }
        });
        let root = root.collect();
        Self { data, store, root, drawn: Cell::new(0) }
    }

    pub(crate) fn draw(&self) -> LayerId {
        self.drawn.set(self.drawn.get() + 1);
        LayerId::from_random([self.drawn.get(); 16])
    }

    pub(crate) fn new_layer(&self) -> NewLayer {
        NewLayer { id: self.draw(), sandbox: None, created_unix_ms: self.drawn.get().into() }
    }

    /// Makes the files below all layers, in tree 0.
    pub(crate) fn base(&self, things: &[(&str, Thing)]) {
        write_things(&self.root[0].lowers[0], things);
    }

    pub(crate) fn layer(&self, things: &[(&str, Thing)]) -> LayerId {
        self.layer_of(&[(0, things)])
    }

    pub(crate) fn layer_of(&self, trees: &[(usize, &[(&str, Thing)])]) -> LayerId {
        let layer = self.new_layer();
        let place = self.store.place(&layer.id);
        fs::create_dir(&place).unwrap();
        for (tree, things) in trees {
            let upper = place.join(format!("upper-{tree}"));
            fs::create_dir(&upper).unwrap();
            write_things(&upper, things);
        }
        self.store.commit(&layer).unwrap();
        layer.id
    }

    /// A listing of tree 0 of a stack, as the kernel mounts it.
    pub(crate) fn mounted(&self, stack: &Stack) -> String {
        let mut root = self.root.clone();
        self.store.stand_on(stack, &mut root).unwrap();
        let empty = self.data.path().join("empty");
        fs::create_dir_all(&empty).unwrap();
        let mut lowers = root[0].lowers.clone();
        if lowers.len() == 1 {
            lowers.insert(0, empty);
        }
        let place = self.data.path().join("mounted");
        fs::create_dir_all(&place).unwrap();
        let lowers: Vec<_> = lowers.iter().map(|lower| lower.to_str().unwrap()).collect();
        let options =
            format!("lowerdir={},redirect_dir=on,metacopy=off,index=off,xino=off", lowers.join(":"));
        let script = r#"mount -t overlay overlay -o "$1" "$2" && cd "$2" && {
            find . -mindepth 1 -printf '%p %y %m %U %G %T@ %l %s\n' | sed -E 's/( d .*) [0-9]+$/\1/' | LC_ALL=C sort
            find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum
        }"#;
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-ec", script, "sh", &options])
            .arg(&place)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

pub(crate) fn file(text: &str) -> Thing {
    Thing::File(text.to_owned())
}

pub(crate) fn stack(layers: &[&LayerId]) -> Stack {
    Stack(layers.iter().map(|layer| (*layer).clone()).collect())
}

/// Writes what can be written; a thing whose place is taken by something else is left out.
pub(crate) fn write_things(root: &Path, things: &[(&str, Thing)]) {
    for (path, thing) in things {
        let path = root.join(path.trim_start_matches('/'));
        if fs::create_dir_all(path.parent().unwrap()).is_err() || path.symlink_metadata().is_ok() {
            continue;
        }
        write_thing(root, &path, thing);
    }
    settle(root);
}

fn write_thing(root: &Path, path: &Path, thing: &Thing) {
    match thing {
        Thing::File(text) => fs::write(path, text).unwrap(),
        Thing::Directory => fs::create_dir(path).unwrap(),
        Thing::Opaque => {
            fs::create_dir(path).unwrap();
            rustix::fs::setxattr(path, "trusted.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
        }
        Thing::Whiteout => {
            rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
            let parent = path.parent().unwrap();
            rustix::fs::setxattr(parent, "trusted.overlay.origin", b"", XattrFlags::empty()).unwrap();
        }
        Thing::Symlink(target) => std::os::unix::fs::symlink(target, path).unwrap(),
        Thing::Fifo => rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap(),
        Thing::Link(to) => {
            let to = root.join(to);
            if to.symlink_metadata().is_ok_and(|to| to.is_file()) {
                fs::hard_link(to, path).unwrap();
            }
        }
    }
}

/// Gives everything a time that depends on its content only, so that equal things made at different
/// moments are equal.
fn settle(path: &Path) {
    let metadata = path.symlink_metadata().unwrap();
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            settle(&entry.unwrap().path());
        }
    }
    let bytes: u64 = if metadata.is_file() {
        fs::read(path).unwrap().iter().map(|byte| u64::from(*byte)).sum()
    } else {
        0
    };
    let time = Timespec { tv_sec: 1_700_000_000 + i64::try_from(bytes).unwrap(), tv_nsec: 123_000_000 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Everything below a directory, as lines that say all about it.
pub(crate) fn listing(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let content = if metadata.is_file() {
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
            } else if metadata.is_symlink() {
                fs::read_link(&path).unwrap().display().to_string()
            } else {
                String::new()
            };
            let mut value = [0; 8];
            let opaque = rustix::fs::lgetxattr(&path, "trusted.overlay.opaque", &mut value).is_ok();
            lines.push(format!(
                "{} {:o} {}:{} {} {content:?}{}",
                path.strip_prefix(root).unwrap().display(),
                metadata.permissions().mode(),
                metadata.uid(),
                metadata.gid(),
                metadata.rdev(),
                if opaque { " opaque" } else { "" },
            ));
            if metadata.is_dir() {
                left.push(path);
            }
        }
    }
    lines.sort();
    lines
}

/// Things at a few paths, so that layers often touch the same.
pub(crate) fn things() -> impl Strategy<Value = Vec<(String, Thing)>> {
    let path = prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("c")], 1..4)
        .prop_map(|names| names.join("/"));
    let thing = prop_oneof![
        4 => "[xyz]{0,3}".prop_map(Thing::File),
        2 => Just(Thing::Directory),
        1 => Just(Thing::Opaque),
        3 => Just(Thing::Whiteout),
        1 => "[ab]".prop_map(Thing::Symlink),
        1 => Just(Thing::Fifo),
        1 => path.clone().prop_map(Thing::Link),
    ];
    prop::collection::vec((path, thing), 0..10)
}

pub(crate) fn borrowed(things: &[(String, Thing)]) -> Vec<(&str, Thing)> {
    things.iter().map(|(path, thing)| (path.as_str(), thing.clone())).collect()
}
