//! Archives of strangers: root file systems, container images, layers and exported histories,
//! through to the files they become.
//!
//! The first byte says what the rest is; lengths, digests and checksums that a mutation breaks are
//! made right again, or nearly every input would end at the first of them. It all happens in a root
//! directory that is the program's own: whatever an archive makes outside the data directory is
//! seen there. `scripts/fuzz` gives it one, on a small file system in memory.

#![no_main]

use std::cell::{Cell, RefCell};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use warren_core::{ImportFormat, LayerId, LayerStore as _, MountAccess, RootTree};
use warren_store::{
    ImportLimits, ImportRequest, ImportSource, LayerDirectory, Replace, TemplateConfig, TemplateStore,
};

const BLOCK: usize = 512;
/// Between the parts of an input that has several.
const SEAM: &[u8] = b"\0|part|\0";
const CANARY: &str = "/canary/file";
const SONG: &[u8] = b"alive";
/// The entries that each import adds itself: the directories that sandboxes bring, and two files.
const ADDED: u64 = 10;
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

fn limits() -> ImportLimits {
    ImportLimits {
        total_bytes: 256 << 10,
        entries: 64,
        depth: 8,
        layers: 4,
        ratio: 100,
        ratio_from_bytes: 1 << 20,
        header_bytes: 16 << 10,
        reserve_bytes: 0,
        reserve_percent: 0,
    }
}

struct Place {
    templates: TemplateStore,
    layers: LayerDirectory,
    root: Vec<RootTree>,
    drawn: Cell<u8>,
}

thread_local! {
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

fuzz_target!(init: settle_in(), |data: &[u8]| {
    let [kind, data @ ..] = data else { return };
    PLACE.with_borrow(|place| {
        let place = place.as_ref().expect("it was made at the start");
        match kind % 7 {
            0 => place.template(data, None),
            1 => place.template(&sealed(data), None),
            2 => place.template(&sealed(data), Some(TemplateConfig::default())),
            3 => place.layers(&sealed(data), ImportFormat::Tar),
            4 => place.layers(data, ImportFormat::History),
            5 => place.layers(&history(data), ImportFormat::History),
            _ => place.template(&image(data), None),
        }
    });
    check_outside();
});

fn settle_in() {
    let root = std::env::var_os("WARREN_FUZZ_ROOT").expect("scripts/fuzz starts this, in a root of its own");
    std::os::unix::fs::chroot(root).expect("only root can leave everything else behind");
    std::env::set_current_dir("/").expect("there is a root");
    for directory in ["/data", "/data/base", "/canary"] {
        fs::create_dir_all(directory).expect("the root is writable");
    }
    fs::write(CANARY, SONG).expect("the root is writable");
    let data = Path::new("/data");
    let templates = TemplateStore::open(data).expect("a store");
    let layers = LayerDirectory::open(data, templates.clone()).expect("a store");
    let lower =
        RootTree { at: "/".into(), lowers: vec!["/data/base".into()], access: MountAccess::ReadWrite };
    let place = Place { templates, layers, root: vec![lower], drawn: Cell::new(0) };
    PLACE.set(Some(place));
}

impl Place {
    fn template(&self, bytes: &[u8], config: Option<TemplateConfig>) {
        let source = match config {
            Some(config) => ImportSource::Root(Box::new(bytes), config),
            None => ImportSource::Stream(Box::new(bytes)),
        };
        let name = "it".parse().expect("a name");
        let request =
            ImportRequest { name, source, replace: Replace::Never, limits: limits(), progress: &mut |_| {} };
        let imported = self.templates.import(request).is_ok();
        let left: Vec<_> = names("/data/templates").into_iter().filter(|name| name != ".lock").collect();
        assert_eq!(left, if imported { vec!["it"] } else { vec![] });
        if imported {
            let mut found = Found::default();
            found.walk(Path::new("/data/templates/it/root"), 0);
            found.check();
            assert_eq!(found.hidden, 0);
            fs::remove_dir_all("/data/templates/it").expect("root may remove anything");
        }
    }

    fn layers(&self, mut bytes: &[u8], format: ImportFormat) {
        let drawn = RefCell::new(Vec::new());
        let draw = || {
            self.drawn.set(self.drawn.get().wrapping_add(1));
            let id = LayerId::from_random([self.drawn.get(); 16]);
            drawn.borrow_mut().push(id.clone());
            id
        };
        let imported = self.layers.import_within(limits(), &self.root, &mut bytes, format, &draw);
        if imported.is_ok() {
            let mut found = Found::default();
            for layer in drawn.borrow().iter() {
                let layer_place = Path::new("/data/layers").join(layer.as_str());
                // Beside its manifest, a layer has a directory of its own for each tree.
                for tree in names(&layer_place).iter().filter(|name| name.starts_with("upper-")) {
                    found.walk(&layer_place.join(tree), 0);
                }
                self.layers.remove(layer).expect("what was made can be removed");
            }
            found.check();
        }
        assert!(self.layers.settle(Duration::from_secs(10)), "what was removed stays");
        assert_eq!(names("/data/layers"), [".lock"]);
    }
}

fn names(directory: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("it is there");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("it is there").file_name().into_string().expect("our own"))
        .collect();
    names.sort();
    names
}

/// Nothing but ours is beside the data directory, and ours is as it was.
fn check_outside() {
    let outside = names("/");
    assert!(
        outside
            .iter()
            .all(|name| ["canary", "data", "found", "inputs", "seeds", "words"].contains(&name.as_str())),
        "{outside:?}"
    );
    assert_eq!(names("/canary"), ["file"]);
    assert_eq!(fs::read(CANARY).expect("it is there"), SONG);
    let data = names("/data");
    let ours = ["base", "common", "layers", "templates", "templates-host"];
    assert!(data.iter().all(|name| ours.contains(&name.as_str())), "{data:?}");
    assert!(names("/data/base").is_empty());
}

/// The result of an import.
#[derive(Default)]
struct Found {
    entries: u64,
    bytes: u64,
    depth: usize,
    /// Names of layers below that a layer hides.
    hidden: u64,
}

impl Found {
    fn walk(&mut self, directory: &Path, depth: usize) {
        self.depth = self.depth.max(depth);
        for entry in fs::read_dir(directory).expect("it is there") {
            let path = entry.expect("it is there").path();
            let metadata = path.symlink_metadata().expect("it is there");
            let kind = metadata.file_type();
            self.entries += 1;
            assert!(metadata.uid() <= 65535 && metadata.gid() <= 65535, "{}", path.display());
            if kind.is_file() {
                assert!(metadata.len() <= limits().total_bytes, "{} is too long", path.display());
                self.bytes += if metadata.nlink() == 1 { metadata.blocks() * 512 } else { 0 };
            } else if kind.is_dir() {
                self.walk(&path, depth + 1);
            } else if kind.is_char_device() && metadata.rdev() == 0 {
                self.hidden += 1;
            } else {
                assert!(kind.is_symlink() || kind.is_fifo(), "{}", path.display());
            }
        }
    }

    fn check(&self) {
        let limits = limits();
        assert!(self.entries <= limits.entries + ADDED, "{} entries", self.entries);
        assert!(self.depth <= limits.depth + 1, "{} deep", self.depth);
        assert!(self.bytes <= limits.total_bytes + 4096 * (limits.entries + ADDED), "{} bytes", self.bytes);
    }
}

/// The archive with the right checksum in every header, as far as headers can be found.
fn sealed(archive: &[u8]) -> Vec<u8> {
    let mut archive = archive.to_vec();
    let mut at = 0;
    while let Some(header) = archive.get_mut(at..at + BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            break;
        }
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let digits = header[124..136].iter().filter(|byte| byte.is_ascii_digit());
        let size = digits
            .fold(0_usize, |size, digit| size.saturating_mul(8).saturating_add(usize::from(digit - b'0')));
        let Some(next) = size.checked_next_multiple_of(BLOCK).and_then(|size| at.checked_add(BLOCK + size))
        else {
            break;
        };
        at = next;
    }
    archive
}

/// An archive of these files.
fn archive(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, content) in members {
        let mut header = [0; BLOCK];
        let length = name.len().min(100);
        header[..length].copy_from_slice(&name.as_bytes()[..length]);
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        archive.extend_from_slice(&sealed(&header));
        archive.extend_from_slice(content);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

fn parts(data: &[u8]) -> Vec<&[u8]> {
    let (mut parts, mut rest) = (Vec::new(), data);
    while let Some(at) = rest.windows(SEAM.len()).position(|window| window == SEAM) {
        parts.push(&rest[..at]);
        rest = &rest[at + SEAM.len()..];
    }
    parts.push(rest);
    parts
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A history: its manifest, then its layers in the order in which that names them.
fn history(data: &[u8]) -> Vec<u8> {
    let parts = parts(data);
    let manifest: Value = serde_json::from_slice(parts[0]).unwrap_or_default();
    let mut members = vec![("manifest.json".to_owned(), parts[0].to_vec())];
    for (index, layer) in parts[1..].iter().enumerate() {
        let id = manifest["layers"][index]["id"].as_str().unwrap_or("none");
        members.push((format!("layers/{id}.tar"), sealed(layer)));
    }
    let sums: Value = members
        .iter()
        .map(|(name, content)| (name.clone(), json!(format!("sha256:{}", digest(content)))))
        .collect();
    members.push(("checksums.json".to_owned(), json!({ "sha256": sums }).to_string().into_bytes()));
    archive(&members)
}

/// An image: its configuration, then its layers.
fn image(data: &[u8]) -> Vec<u8> {
    let parts = parts(data);
    let mut members = Vec::new();
    let mut blob = |content: Vec<u8>, kind: &str| {
        let (hex, size) = (digest(&content), content.len());
        members.push((format!("blobs/sha256/{hex}"), content));
        json!({ "mediaType": kind, "digest": format!("sha256:{hex}"), "size": size })
    };
    let config = blob(parts[0].to_vec(), "application/vnd.oci.image.config.v1+json");
    let layers: Vec<Value> = parts[1..].iter().map(|layer| blob(sealed(layer), LAYER)).collect();
    let manifest = json!({ "schemaVersion": 2, "config": config, "layers": layers }).to_string();
    let manifest = blob(manifest.into_bytes(), "application/vnd.oci.image.manifest.v1+json");
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] }).to_string();
    members.push(("index.json".to_owned(), index.into_bytes()));
    members.push(("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()));
    archive(&members)
}
