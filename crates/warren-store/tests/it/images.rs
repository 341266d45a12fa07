//! Container images: layers in order, every byte checked, and nothing believed that is not a file.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use warren_store::{
    ConfigError, EntryError, ImageError, ImportError, LimitExceeded, SourceKind, TemplateConfig,
};

use crate::support::{Tar, TestStore, gzip, limits, root, zstd};

pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

pub(crate) fn config() -> Value {
    json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/bin", "A=b=c"],
            "User": "1000:1000",
            "WorkingDir": "/srv",
            "Entrypoint": ["/entry"],
            "Cmd": ["serve"],
            "Labels": { "io.warren.privileged": "true", "warren.seccomp": "unconfined" },
        },
    })
}

pub(crate) fn layers() -> Vec<Vec<u8>> {
    let base = Tar::new()
        .dir("etc")
        .file("etc/kept", b"1")
        .file("etc/removed", b"1")
        .file("opaque/old", b"1")
        .file("opaque/deep/old", b"1")
        .dir("usr/bin")
        .symlink("bin", "usr/bin")
        .file("gone/a/b", b"1")
        .end();
    let middle = Tar::new()
        .file("etc/.wh.removed", b"")
        .file("opaque/new", b"2")
        .file("opaque/deep/new", b"2")
        .file("opaque/.wh..wh..opq", b"")
        .file("bin/tool", b"2")
        .file(".wh.gone", b"")
        .file(".wh.absent", b"")
        .end();
    let top = Tar::new().file("etc/removed", b"back").symlink("proc", "/etc").file(".wh.dev", b"").end();
    vec![base, gzip(&middle), zstd(&top)]
}

struct Oci {
    blobs: Vec<(String, Vec<u8>)>,
    manifest: Value,
    platform: Value,
}

impl Oci {
    fn new(layers: &[Vec<u8>], config: &Value) -> Self {
        let mut oci = Self { blobs: Vec::new(), manifest: Value::Null, platform: json!(null) };
        let types = [
            LAYER,
            "application/vnd.oci.image.layer.v1.tar+gzip",
            "application/vnd.oci.image.layer.v1.tar+zstd",
        ];
        let layers: Vec<_> =
            layers.iter().zip(types.iter().cycle()).map(|(layer, kind)| oci.blob(layer, kind)).collect();
        let config = oci.blob(config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json");
        oci.manifest = json!({ "schemaVersion": 2, "config": config, "layers": layers,
            "annotations": { "io.warren.seccomp": "off" } });
        oci
    }

    fn blob(&mut self, bytes: &[u8], kind: &str) -> Value {
        let hex = sha256(bytes);
        self.blobs.push((format!("blobs/sha256/{hex}"), bytes.to_owned()));
        json!({ "mediaType": kind, "digest": format!("sha256:{hex}"), "size": bytes.len() })
    }

    fn archive(mut self) -> Vec<u8> {
        let manifest = self.manifest.to_string();
        let mut descriptor = self.blob(manifest.as_bytes(), "application/vnd.oci.image.manifest.v1+json");
        descriptor["platform"] = self.platform.take();
        let mut unknown = descriptor.clone();
        unknown["platform"] = json!({ "architecture": "unknown", "os": "unknown" });
        unknown["digest"] = json!(format!("sha256:{}", "0".repeat(64)));
        let inner = json!({ "schemaVersion": 2, "manifests": [unknown, descriptor] }).to_string();
        let inner = self.blob(inner.as_bytes(), "application/vnd.oci.image.index.v1+json");
        let index = json!({ "schemaVersion": 2, "manifests": [inner] });
        let tar = Tar::new()
            .file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)
            .file("index.json", index.to_string().as_bytes());
        self.blobs.iter().fold(tar, |tar, (name, bytes)| tar.file(name, bytes)).end()
    }
}

pub(crate) fn docker_image(layers: &[Vec<u8>]) -> Vec<u8> {
    docker_archive(layers, &config())
}

fn docker_archive(layers: &[Vec<u8>], config: &Value) -> Vec<u8> {
    let config = config.to_string();
    let config_name = format!("{}.json", sha256(config.as_bytes()));
    let names: Vec<_> = (0..layers.len()).map(|index| format!("{index:064x}/layer.tar")).collect();
    let manifest = json!([{ "Config": config_name, "RepoTags": ["x:latest"], "Layers": names }]);
    let mut tar = Tar::new();
    for (name, layer) in names.iter().zip(layers) {
        tar = tar.file(name, layer);
    }
    tar.file(&config_name, config.as_bytes()).file("manifest.json", manifest.to_string().as_bytes()).end()
}

pub(crate) fn check_layers(root: &Path) {
    let read = |path: &str| fs::read(root.join(path)).ok();
    assert_eq!(read("etc/kept").as_deref(), Some(&b"1"[..]));
    assert_eq!(read("etc/removed").as_deref(), Some(&b"back"[..]));
    assert_eq!(read("opaque/new").as_deref(), Some(&b"2"[..]));
    assert_eq!(read("opaque/deep/new").as_deref(), Some(&b"2"[..]));
    assert_eq!((read("opaque/old"), read("opaque/deep/old")), (None, None));
    assert_eq!(read("usr/bin/tool").as_deref(), Some(&b"2"[..]));
    assert!(!root.join("gone").exists() && !root.join("etc/.wh.removed").exists());
    assert!(root.join("proc").symlink_metadata().unwrap().is_dir());
    assert!(root.join("dev").is_dir());
}

pub(crate) fn expected_config() -> TemplateConfig {
    TemplateConfig {
        env: vec!["PATH=/usr/bin".into(), "A=b=c".into()],
        user: "1000:1000".into(),
        workdir: "/srv".into(),
        command: vec!["/entry".into(), "serve".into()],
    }
}

#[test]
fn an_oci_layout() {
    let test = TestStore::new();
    for (name, platform) in
        [("any", json!(null)), ("named", json!({ "architecture": "amd64", "os": "linux" }))]
    {
        let archive = Oci { platform, ..Oci::new(&layers(), &config()) }.archive();
        for (wrapping, bytes) in [("plain", archive.clone()), ("gz", gzip(&archive))] {
            let template = test.import(&format!("{name}-{wrapping}"), &bytes).unwrap().template;
            check_layers(root(&template));
            assert_eq!(template.manifest.config, expected_config());
            assert_eq!(template.manifest.source, SourceKind::OciImage);
        }
    }
}

#[test]
fn what_docker_saves() {
    let test = TestStore::new();
    let mut config = config();
    let layers = layers();
    let template = test.import("saved", &docker_archive(&layers, &config)).unwrap().template;
    check_layers(root(&template));
    assert_eq!(template.manifest.config, expected_config());
    assert_eq!(template.manifest.source, SourceKind::DockerImage);

    config["rootfs"] = json!({ "diff_ids": [format!("sha256:{}", sha256(&layers[0]))] });
    test.import("checked", &docker_archive(&layers[..1], &config)).unwrap();
    config["rootfs"] = json!({ "diff_ids": [format!("sha256:{}", sha256(b"other"))] });
    let error = test.import("wrong", &docker_archive(&layers[..1], &config)).unwrap_err();
    assert!(matches!(error, ImportError::Image(ImageError::DigestMismatch { .. })), "{error:?}");
}

#[test]
fn malformed_images() {
    type Expected = fn(&ImageError) -> bool;
    let with = |change: &dyn Fn(&mut Oci)| {
        let mut oci = Oci::new(&layers(), &config());
        change(&mut oci);
        oci.archive()
    };
    let with_config = |pointer: &str, value: Value| {
        let mut config = config();
        config["config"][pointer] = value;
        Oci::new(&layers(), &config).archive()
    };
    let manifest = |json: Value| Tar::new().file("manifest.json", json.to_string().as_bytes()).end();
    let table: Vec<(&str, Vec<u8>, Expected)> = vec![
        ("layer with another content", with(&|oci| oci.blobs[0].1[600] ^= 1), |e| {
            matches!(e, ImageError::DigestMismatch { .. })
        }),
        ("layer of another size", with(&|oci| oci.manifest["layers"][0]["size"] = json!(7)), |e| {
            matches!(e, ImageError::SizeMismatch { expected: 7, .. })
        }),
        ("missing layer", with(&|oci| drop(oci.blobs.remove(1))), |e| {
            matches!(e, ImageError::Missing { .. })
        }),
        ("missing config", with(&|oci| drop(oci.blobs.remove(3))), |e| {
            matches!(e, ImageError::Missing { .. })
        }),
        ("config with another content", with(&|oci| oci.blobs[3].1[5] = b'X'), |e| {
            matches!(e, ImageError::DigestMismatch { .. })
        }),
        (
            "foreign layer with a URL",
            with(&|oci| {
                let foreign = json!({ "mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
                    "digest": format!("sha256:{}", "1".repeat(64)), "size": 1, "urls": ["http://127.0.0.1:1/layer"] });
                oci.manifest["layers"].as_array_mut().unwrap().push(foreign);
            }),
            |e| matches!(e, ImageError::Missing { .. }),
        ),
        ("no layers", with(&|oci| oci.manifest["layers"] = json!([])), |e| matches!(e, ImageError::NoLayers)),
        (
            "digest that is a path",
            with(&|oci| oci.manifest["layers"][0]["digest"] = json!("sha256:../../etc/shadow")),
            |e| matches!(e, ImageError::Malformed { .. }),
        ),
        (
            "layer that is no tar",
            with(&|oci| oci.manifest["layers"][0]["mediaType"] = json!("text/plain")),
            |e| matches!(e, ImageError::MediaType { .. }),
        ),
        ("manifest of another shape", with(&|oci| oci.manifest = json!([1, 2])), |e| {
            matches!(e, ImageError::Malformed { .. })
        }),
        (
            "another platform",
            with(&|oci| oci.platform = json!({ "architecture": "s390x", "os": "linux" })),
            |e| matches!(e, ImageError::Platform { .. }),
        ),
        ("env without =", with_config("Env", json!(["NOPE"])), |e| {
            matches!(e, ImageError::Config(ConfigError::Env { .. }))
        }),
        ("env with NUL", with_config("Env", json!(["A=\0"])), |e| {
            matches!(e, ImageError::Config(ConfigError::Env { .. }))
        }),
        ("endless env", with_config("Env", json!(vec!["A=b"; 5000])), |e| {
            matches!(e, ImageError::Config(ConfigError::TooLarge))
        }),
        ("relative workdir", with_config("WorkingDir", json!("../..")), |e| {
            matches!(e, ImageError::Config(ConfigError::Workdir { .. }))
        }),
        ("user with a newline", with_config("User", json!("a\nroot")), |e| {
            matches!(e, ImageError::Config(ConfigError::User { .. }))
        }),
        ("docker manifest without images", manifest(json!([])), |e| matches!(e, ImageError::NoLayers)),
        (
            "docker manifest that climbs",
            manifest(json!([{ "Config": "../../etc/passwd", "Layers": ["/etc/shadow"] }])),
            |e| matches!(e, ImageError::Missing { .. }),
        ),
        (
            "two images",
            manifest(json!([{ "Config": "a", "Layers": ["b"] }, { "Config": "a", "Layers": ["b"] }])),
            |e| matches!(e, ImageError::Ambiguous { images: 2 }),
        ),
        ("2 MiB manifest", Tar::new().file("manifest.json", &vec![b' '; 2 << 20]).end(), |e| {
            matches!(e, ImageError::TooLarge { .. })
        }),
    ];
    let test = TestStore::new();
    for (label, bytes, expected) in table {
        match test.import("evil", &bytes) {
            Err(ImportError::Image(error)) => assert!(expected(&error), "{label}: {error:?}"),
            other => panic!("{label}: {other:?}"),
        }
        assert!(test.names().is_empty(), "{label} left something");
    }
}

#[test]
fn too_many_layers() {
    let test = TestStore::new();
    let manifest = json!([{ "Config": "config.json", "Layers": vec!["layer.tar"; 10_000] }]);
    let archive = Tar::new().file("manifest.json", manifest.to_string().as_bytes()).end();
    match test.import_within("layers", &archive, limits()) {
        Err(ImportError::Limit(LimitExceeded::Layers { layers: 10_000, limit: 512 })) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn whiteouts_remove_nothing_but_entries() {
    let test = TestStore::new();
    for name in [".wh.", ".wh..", ".wh...", "a/.wh..."] {
        let archive = docker_image(&[Tar::new().file("a/b", b"1").end(), Tar::new().file(name, b"").end()]);
        match test.import("evil", &archive) {
            Err(ImportError::Entry { source: EntryError::Whiteout, .. }) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "untouched").unwrap();
    let layers = [
        Tar::new().file("a", b"1").symlink("out", outside.path().to_str().unwrap()).end(),
        Tar::new().file("out/.wh.file", b"").file("out/.wh..wh..opq", b"").end(),
    ];
    test.import("through-link", &docker_image(&layers)).unwrap();
    assert!(outside.path().join("file").exists());

    let all = [
        Tar::new().file("a", b"1").dir("etc").end(),
        Tar::new().file(".wh..wh..opq", b"").file("b", b"2").end(),
    ];
    let template = test.import("opaque-root", &docker_image(&all)).unwrap().template;
    assert!(!root(&template).join("a").exists());
    assert!(root(&template).join("b").exists() && root(&template).join("proc").is_dir());
}
