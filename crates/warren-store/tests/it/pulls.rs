//! Images of registries: each byte fetched once, checked, and kept for the next image.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::{Value, json};
use warren_core::{ImageAddress, ImageSource, RegistryError, RegistryErrorKind};
use warren_store::{
    EntryError, ImageError, ImportError, ImportSource, Imported, LimitExceeded, Replace, TemplateStore,
};

use crate::images::{LAYER, check_layers, config, expected_config, layers, sha256};
use crate::support::{Tar, TestStore, entry, gzip, limits, root};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A fault of a registry's answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The first answer about a layer ends after this many bytes.
    BreaksOff(usize),
    /// So does every one.
    BreaksOffAlways(usize),
    /// Other bytes than those that were asked for, as many.
    Lies,
    /// More bytes than there are.
    Babbles,
}

/// A registry in memory.
struct Registry {
    address: ImageAddress,
    root: Vec<u8>,
    blobs: BTreeMap<String, Vec<u8>>,
    layers: Vec<String>,
    fault: Fault,
    /// Blobs that were asked for, each with the position.
    asked: Mutex<Vec<(String, u64)>>,
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

impl Registry {
    fn new(layers: &[Vec<u8>]) -> Self {
        Self::with(layers, &config())
    }

    fn with(layers: &[Vec<u8>], config: &Value) -> Self {
        let mut registry = Self {
            address: "registry.example/a/b:1".parse().unwrap(),
            root: Vec::new(),
            blobs: BTreeMap::new(),
            layers: layers.iter().map(|layer| digest(layer)).collect(),
            fault: Fault::None,
            asked: Mutex::default(),
        };
        let config = registry.put(config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json");
        let layers: Vec<_> = layers.iter().map(|layer| registry.put(layer, LAYER)).collect();
        registry.root =
            json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string().into_bytes();
        registry
    }

    fn put(&mut self, bytes: &[u8], kind: &str) -> Value {
        let digest = digest(bytes);
        self.blobs.insert(digest.clone(), bytes.to_owned());
        json!({"mediaType": kind, "digest": digest, "size": bytes.len()})
    }

    /// Puts the manifest into an index with these platforms.
    fn indexed(mut self, platforms: &[Value]) -> Self {
        let manifest = self.root.clone();
        let mut descriptor = self.put(&manifest, MANIFEST);
        let manifests: Vec<_> = platforms
            .iter()
            .map(|platform| {
                descriptor["platform"] = platform.clone();
                descriptor.clone()
            })
            .collect();
        self.root =
            json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).to_string().into_bytes();
        self
    }

    /// Changes the manifest.
    fn changed(mut self, change: impl FnOnce(&mut Value)) -> Self {
        let mut manifest = serde_json::from_slice(&self.root).unwrap();
        change(&mut manifest);
        self.root = manifest.to_string().into_bytes();
        self
    }

    /// How often each layer was asked for, and from where on.
    fn asked(&self) -> Vec<(usize, u64)> {
        let asked = self.asked.lock().unwrap();
        let layer = |(digest, from): &(String, u64)| {
            Some((self.layers.iter().position(|layer| layer == digest)?, *from))
        };
        asked.iter().filter_map(layer).collect()
    }
}

impl ImageSource for Registry {
    fn manifest(&self, digest: Option<&str>) -> Result<Vec<u8>, RegistryError> {
        let Some(digest) = digest else { return Ok(self.root.clone()) };
        let missing = || RegistryError::new(RegistryErrorKind::NotFound, format!("no {digest}"));
        self.blobs.get(digest).cloned().ok_or_else(missing)
    }

    fn blob(&self, digest: &str, from: u64) -> Result<Box<dyn Read + Send>, RegistryError> {
        let missing = || RegistryError::new(RegistryErrorKind::NotFound, format!("no {digest}"));
        let mut bytes = self.blobs.get(digest).cloned().ok_or_else(missing)?;
        let mut asked = self.asked.lock().unwrap();
        let is_first = !asked.iter().any(|(known, _)| known == digest);
        asked.push((digest.to_owned(), from));
        if self.layers.iter().any(|layer| layer == digest) {
            match self.fault {
                Fault::BreaksOff(after) if is_first => bytes.truncate(after),
                Fault::BreaksOffAlways(after) => bytes.truncate(after),
                Fault::Lies => bytes.fill(b'x'),
                Fault::Babbles => bytes.extend_from_slice(&[0; 4096]),
                Fault::None | Fault::BreaksOff(_) => {}
            }
        }
        let from = usize::try_from(from).unwrap().min(bytes.len());
        Ok(Box::new(io::Cursor::new(bytes.split_off(from))))
    }

    fn address(&self) -> &ImageAddress {
        &self.address
    }
}

impl TestStore {
    fn pull(&self, name: &str, registry: &Registry) -> Result<Imported, ImportError> {
        self.run(name, ImportSource::Registry(registry), Replace::Never, limits())
    }

    /// Layers that are kept, and those that are not whole.
    fn blobs(&self) -> (usize, usize) {
        let names = fs::read_dir(self.blob_directory()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let partial = names.iter().filter(|name| name.ends_with(".partial")).count();
        (names.iter().filter(|name| *name != ".lock").count() - partial, partial)
    }

    fn blob_directory(&self) -> PathBuf {
        self.data.path().join("blobs")
    }

    /// Fails, and leaves no template.
    fn refused(&self, registry: &Registry) -> ImportError {
        let error = self.pull("refused", registry).unwrap_err();
        assert_eq!(self.names(), Vec::<String>::new());
        error
    }
}

#[test]
fn an_image_becomes_a_template() {
    let test = TestStore::new();
    let registry = Registry::new(&layers());
    let template = test.pull("image", &registry).unwrap().template;
    check_layers(root(&template));
    assert_eq!(template.manifest.config, expected_config());
    assert_eq!(template.manifest.digest.to_string(), digest(&registry.root));
    let image = test.store.image_of(&"image".parse().unwrap()).unwrap();
    assert_eq!(image.address, "registry.example/a/b:1");
    assert_eq!(image.layers.iter().map(ToString::to_string).collect::<Vec<_>>(), registry.layers);
    assert_eq!(test.blobs(), (3, 0));
}

#[test]
fn the_image_for_this_machine_is_chosen() {
    let test = TestStore::new();
    let platform = |os: &str, name: &str| json!({"os": os, "architecture": name});
    let offered = [platform("linux", "arm64"), platform("unknown", "unknown"), platform("linux", "amd64")];
    let registry = Registry::new(&layers()).indexed(&offered);
    let template = test.pull("image", &registry).unwrap().template;
    assert_ne!(template.manifest.digest.to_string(), digest(&registry.root), "that of the manifest");
    let foreign = Registry::new(&layers()).indexed(&offered[..1]);
    let error = test.pull("foreign", &foreign).unwrap_err();
    assert!(
        matches!(&error, ImportError::Image(ImageError::Platform { found, .. }) if *found == ["linux/arm64"])
    );
    let mut other = config();
    other["architecture"] = json!("s390x");
    let error = test.pull("foreign", &Registry::with(&layers(), &other)).unwrap_err();
    assert!(
        matches!(&error, ImportError::Image(ImageError::Platform { found, .. }) if *found == ["linux/s390x"])
    );
}

#[test]
fn layers_are_shared_and_fetched_once() {
    let test = TestStore::new();
    let (mut first, mut second) = (layers(), layers());
    first.push(gzip(&Tar::new().file("first", b"1").end()));
    second.push(gzip(&Tar::new().file("second", b"2").end()));
    second.push(second[0].clone());
    let (first, second) = (Registry::new(&first), Registry::new(&second));
    test.pull("first", &first).unwrap();
    assert_eq!(first.asked().len(), 4);
    let template = test.pull("second", &second).unwrap().template;
    assert_eq!(second.asked(), [(3, 0)], "only its own");
    assert!(root(&template).join("second").exists() && !root(&template).join("first").exists());
    assert_eq!(test.blobs(), (5, 0));
    test.store.remove(&"first".parse().unwrap(), &|_| false).unwrap();
    assert_eq!(test.blobs(), (4, 0), "the other has the rest");
    test.store.remove(&"second".parse().unwrap(), &|_| false).unwrap();
    assert_eq!(test.blobs(), (0, 0));
}

#[test]
fn what_breaks_off_goes_on_where_it_was() {
    let test = TestStore::new();
    let registry = Registry { fault: Fault::BreaksOff(700), ..Registry::new(&layers()[..1]) };
    check_kept(&test, "image", &registry);
    assert_eq!(registry.asked(), [(0, 0), (0, 700)]);
    let broken = Registry { fault: Fault::BreaksOffAlways(700), ..Registry::new(&[gzip(&big())]) };
    let error = test.pull("broken", &broken).unwrap_err();
    assert!(
        matches!(&error, ImportError::Registry(error) if error.kind == RegistryErrorKind::Refused),
        "{error:?}"
    );
    assert_eq!(test.blobs().1, 1, "what arrived is kept");
    let whole = Registry::new(&[gzip(&big())]);
    check_kept(&test, "whole", &whole);
    assert_eq!(whole.asked(), [(0, 700)]);
    assert_eq!(test.blobs().1, 0);
}

fn check_kept(test: &TestStore, name: &str, registry: &Registry) {
    let template = test.pull(name, registry).unwrap().template;
    assert!(root(&template).join("etc/kept").exists());
}

fn noise() -> Vec<u8> {
    (0..200_u32).flat_map(|number| digest(&number.to_le_bytes()).into_bytes()).collect()
}

/// A layer that compresses to some thousand bytes.
fn big() -> Vec<u8> {
    Tar::new().file("etc/kept", &noise()).end()
}

#[test]
fn lies_are_found_and_not_kept() {
    let test = TestStore::new();
    let lying = Registry { fault: Fault::Lies, ..Registry::new(&layers()) };
    let error = test.refused(&lying);
    assert!(matches!(error, ImportError::Image(ImageError::DigestMismatch { .. })), "{error:?}");
    let babbling = Registry { fault: Fault::Babbles, ..Registry::new(&layers()) };
    let error = test.refused(&babbling);
    assert!(
        matches!(&error, ImportError::Registry(error) if error.kind == RegistryErrorKind::Refused),
        "{error:?}"
    );
    check_kept(&test, "honest", &Registry::new(&layers()));
    assert_eq!(test.blobs(), (3, 0));
}

#[test]
fn a_digest_in_the_name_is_held_to() {
    let test = TestStore::new();
    let mut registry = Registry::new(&layers());
    registry.address = format!("registry.example/a@{}", digest(b"another")).parse().unwrap();
    let error = test.refused(&registry);
    assert!(matches!(error, ImportError::Image(ImageError::DigestMismatch { .. })), "{error:?}");
    registry.address = format!("registry.example/a@{}", digest(&registry.root)).parse().unwrap();
    check_kept(&test, "image", &registry);
}

#[test]
fn a_layer_that_was_damaged_on_the_disk_is_fetched_again() {
    let test = TestStore::new();
    let registry = Registry::new(&layers());
    check_kept(&test, "image", &registry);
    let path = test.blob_directory().join(&registry.layers[1]["sha256:".len()..]);
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    check_kept(&test, "again", &registry);
    assert_eq!(registry.asked().len(), 4, "that one alone");
}

#[test]
fn what_a_liar_left_half_does_not_stop_an_honest_pull() {
    let test = TestStore::new();
    let poison = noise();
    let honest = Registry::new(&[gzip(&big())]);
    fs::create_dir_all(test.blob_directory()).unwrap();
    let left = format!("{}.partial", &honest.layers[0]["sha256:".len()..]);
    fs::write(test.blob_directory().join(left), &poison[..700]).unwrap();
    check_kept(&test, "image", &honest);
    assert_eq!(honest.asked(), [(0, 700), (0, 0)]);
    assert_eq!(test.blobs(), (1, 0));
}

#[test]
fn documents_that_lie_are_refused() {
    let test = TestStore::new();
    let image = || Registry::new(&layers());
    let malformed = |root: &[u8]| Registry { root: root.to_owned(), ..image() };
    for text in ["", "[]", "{}", "nonsense", r#"{"schemaVersion":2}"#, r#"{"schemaVersion":2,"config":7}"#] {
        let error = test.refused(&malformed(text.as_bytes()));
        assert!(matches!(error, ImportError::Image(ImageError::Malformed { .. })), "{text}: {error:?}");
    }
    let old = test.refused(&malformed(br#"{"schemaVersion":1,"fsLayers":[]}"#));
    assert!(matches!(old, ImportError::Image(ImageError::Schema1)));
    let none = test.refused(&image().changed(|manifest| manifest["layers"] = json!([])));
    assert!(matches!(none, ImportError::Image(ImageError::NoLayers)));
    let huge = image().changed(|manifest| manifest["layers"][0]["size"] = json!(u64::MAX));
    let error = test.refused(&huge);
    assert!(matches!(error, ImportError::Limit(LimitExceeded::Bytes { .. })), "{error:?}");
    assert!(huge.asked().is_empty(), "nothing is fetched");
    let odd = image().changed(|manifest| manifest["layers"][0]["mediaType"] = json!("application/zip"));
    assert!(matches!(test.refused(&odd), ImportError::Image(ImageError::MediaType { .. })));
    let path = image().changed(|manifest| manifest["layers"][0]["digest"] = json!("sha256:../../etc/passwd"));
    assert!(matches!(test.refused(&path), ImportError::Image(ImageError::Malformed { .. })));
    let config = image().changed(|manifest| manifest["config"]["size"] = json!(1_u64 << 40));
    assert!(matches!(test.refused(&config), ImportError::Image(ImageError::TooLarge { .. })));
    let short = image().changed(|manifest| manifest["config"]["size"] = json!(10));
    assert!(matches!(test.refused(&short), ImportError::Image(ImageError::SizeMismatch { .. })));
    let gone = image().changed(|manifest| manifest["layers"][2]["digest"] = json!(digest(b"gone")));
    let error = test.refused(&gone);
    assert!(
        matches!(&error, ImportError::Registry(error) if error.kind == RegistryErrorKind::NotFound),
        "{error:?}"
    );
    let many = image().changed(|manifest| {
        let layer = manifest["layers"][0].clone();
        manifest["layers"] = json!(vec![layer; 1000]);
    });
    assert!(matches!(test.refused(&many), ImportError::Limit(LimitExceeded::Layers { .. })));
}

#[test]
fn hostile_layers_are_refused_before_anything_is_seen() {
    let test = TestStore::new();
    let outside = test.data.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let out = outside.to_str().unwrap();
    let hostile = [
        Tar::new().file("../outside/escaped", b"x").end(),
        Tar::new().file("a/../../outside/escaped", b"x").end(),
        Tar::new()
            .add(&crate::support::Entry { link: b"../../etc/passwd".to_vec(), ..entry(b'1', "a") }, b"")
            .end(),
        Tar::new().file("a/.wh...", b"").end(),
        Tar::new().add(&entry(b'Z', "odd"), b"").end(),
    ];
    for layer in hostile {
        let error = test.refused(&Registry::new(&[gzip(&layer)]));
        assert!(matches!(error, ImportError::Entry { .. }), "{error:?}");
    }
    // Links lead nowhere but into the template, whatever they say.
    let linked = Tar::new().symlink("way", out).file("way/escaped", b"x").end();
    let outcome = test.pull("linked", &Registry::new(&[linked]));
    assert!(
        matches!(&outcome, Err(ImportError::Entry { source: EntryError::DanglingParent { .. }, .. })),
        "{outcome:?}"
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let devices = Tar::new()
        .file("srv/kept", b"1")
        .add(&entry(b'3', "srv/null"), b"")
        .add(&entry(b'4', "srv/disk"), b"")
        .end();
    let imported = test.pull("devices", &Registry::new(&[devices])).unwrap();
    assert_eq!(imported.skipped.devices, 2);
    assert!(!root(&imported.template).join("srv/disk").exists());
    let bomb = gzip(&Tar::new().file("bomb", &vec![0; 64 << 20]).end());
    let limits = warren_store::ImportLimits { ratio: 100, ratio_from_bytes: 1 << 20, ..limits() };
    let error = test.run("bomb", ImportSource::Registry(&Registry::new(&[bomb])), Replace::Never, limits);
    assert!(matches!(error, Err(ImportError::Limit(LimitExceeded::Ratio { .. }))), "{error:?}");
}

#[test]
fn a_store_that_is_opened_again_knows_its_images() {
    let test = TestStore::new();
    check_kept(&test, "image", &Registry::new(&layers()));
    let again = TemplateStore::open(test.data.path()).unwrap();
    assert!(again.image_of(&"image".parse().unwrap()).is_some());
    assert_eq!(test.blobs(), (3, 0));
}
