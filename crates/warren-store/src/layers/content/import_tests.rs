use std::fs;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};
use warren_core::{
    Export, ImportFormat, ImportedHistory, LayerContent as _, LayerError, LayerErrorKind, LayerStore as _,
    MOST_LAYERS, SnapshotRecord, Stack,
};
use warren_testkit::sample_snapshot;

use crate::digest::Digest;
use crate::layers::content::fixture::{Fixture, Thing, borrowed, file, listing, stack, things};

fn id(number: u8) -> String {
    warren_core::SnapshotId::from_random([number; 16]).to_string()
}

fn layer_id(number: u8) -> String {
    warren_core::LayerId::from_random([number; 16]).to_string()
}

fn snapshot(number: u8, parent: Option<u8>, stack: &Stack) -> SnapshotRecord {
    SnapshotRecord {
        id: id(number).parse().unwrap(),
        parent: parent.map(|parent| id(parent).parse().unwrap()),
        name: Some(format!("number {number}")),
        created_unix_ms: 1000 + u64::from(number),
        stack: stack.clone(),
        ..sample_snapshot(&"ann".parse().unwrap(), 1)
    }
}

fn exported(fixture: &Fixture, snapshots: &[SnapshotRecord]) -> Vec<u8> {
    let template = "plain".parse().unwrap();
    let mut bytes = Vec::new();
    let what = Export::History { template: &template, snapshots };
    fixture.store.export(&fixture.root, &what, &mut bytes).unwrap();
    bytes
}

fn import(fixture: &Fixture, bytes: &[u8], format: ImportFormat) -> Result<ImportedHistory, LayerError> {
    fixture.store.import(&fixture.root, &mut &*bytes, format, &|| fixture.draw())
}

fn assert_nothing_left(fixture: &Fixture) {
    assert!(fixture.store.settle(Duration::from_secs(20)));
    let names = fs::read_dir(fixture.data.path().join("layers")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|name| name == ".lock"), "{names:?}");
}

fn history(fixture: &Fixture) -> (Vec<SnapshotRecord>, Stack) {
    let old = fixture.layer(&[
        ("etc/gone", file("1")),
        ("etc/kept", file("2")),
        ("one", file("linked")),
        ("two", Thing::Link("one".into())),
        ("link", Thing::Symlink("/etc/passwd".into())),
    ]);
    let new = fixture.layer_of(&[(
        0,
        &[("etc/gone", Thing::Whiteout), ("dir", Thing::Opaque), ("dir/new", file("3")), ("p", Thing::Fifo)],
    )]);
    let (first, second) = (stack(&[&old]), stack(&[&new, &old]));
    (vec![snapshot(1, None, &first), snapshot(2, Some(1), &second)], second)
}

#[test]
fn a_history_comes_back_as_it_was() {
    let here = Fixture::new();
    let base = [("dir/hidden", file("1")), ("etc/base", file("2")), ("etc/gone", file("0"))];
    here.base(&base);
    let (snapshots, newest) = history(&here);
    let bytes = exported(&here, &snapshots);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    for bytes in [bytes, gzip.finish().unwrap()] {
        let there = Fixture::new();
        there.base(&base);
        let history = import(&there, &bytes, ImportFormat::History).unwrap();
        assert_eq!(history.template.unwrap().as_str(), "plain");
        let [first, second] = &history.snapshots[..] else { panic!("{:?}", history.snapshots) };
        assert_eq!((first.was.as_str(), &first.parent_was), (id(1).as_str(), &None));
        assert_eq!((second.was.as_str(), &second.parent_was), (id(2).as_str(), &Some(id(1))));
        assert_eq!((second.name.as_deref(), second.created_unix_ms), (Some("number 2"), 1002));
        assert_eq!(second.stack.0[1..], first.stack.0[..]);
        assert_eq!(there.mounted(&second.stack), here.mounted(&newest));
        let place =
            |fixture: &Fixture, stack: &Stack| listing(&fixture.store.place(&stack.0[0]).join("upper-0"));
        assert_eq!(place(&there, &second.stack), place(&here, &newest));
    }
}

/// Has the template `plain` be an image with a digest of this digit.
fn made_of_image(fixture: &Fixture, digit: &str) {
    let directory = fixture.data.path().join("templates/plain");
    fs::create_dir_all(directory.join("root")).unwrap();
    let manifest = serde_json::json!({
        "format": 1, "name": "plain", "digest": format!("sha256:{}", digit.repeat(64)), "created_unix": 1,
        "source": "oci-image", "size_bytes": 1, "entries": 1, "config": crate::TemplateConfig::default(),
    });
    fs::write(directory.join("template.json"), manifest.to_string()).unwrap();
}

#[test]
fn a_history_of_an_image_names_it_and_comes_back_on_no_other() {
    let (here, same, other) = (Fixture::new(), Fixture::new(), Fixture::new());
    for (fixture, digit) in [(&here, "1"), (&same, "1"), (&other, "2")] {
        made_of_image(fixture, digit);
    }
    let (snapshots, _) = history(&here);
    let bytes = exported(&here, &snapshots);
    assert!(import(&same, &bytes, ImportFormat::History).is_ok());
    let refused = import(&other, &bytes, ImportFormat::History).unwrap_err();
    assert_eq!(refused.kind, LayerErrorKind::Invalid);
    assert!(
        refused.action.contains(&"1".repeat(64)) && refused.action.contains(&"2".repeat(64)),
        "{refused}"
    );
}

#[test]
fn what_the_kernel_would_obey_does_not_come_in() {
    let fixture = Fixture::new();
    let mut layer = Builder::new(Vec::new());
    let mut directory = |name: &str, xattrs: &[(&str, &[u8])]| {
        layer.append_pax_extensions(xattrs.iter().copied()).unwrap();
        add(&mut layer, EntryType::Directory, name, "", b"");
    };
    directory("upper-0/", &[("SCHILY.xattr.trusted.overlay.opaque", b"y")]);
    directory(
        "upper-0/d/",
        &[
            ("SCHILY.xattr.trusted.overlay.redirect", b"/../etc"),
            ("SCHILY.xattr.trusted.overlay.metacopy", b""),
            ("SCHILY.xattr.user.overlay.redirect", b"/etc"),
            ("SCHILY.xattr.security.capability", b"x"),
            ("SCHILY.xattr.user.kept", b"1"),
        ],
    );
    add(&mut layer, EntryType::Regular, "upper-0/proc/x", "", b"no");
    add(&mut layer, EntryType::Char, "upper-0/dev", "", b"");
    let history = import(&fixture, &one_layer(&layer.into_inner().unwrap()), ImportFormat::History).unwrap();
    let upper = fixture.store.place(&history.snapshots[0].stack.0[0]).join("upper-0");
    let names = |path| {
        let mut list = vec![0_u8; 1000];
        let length = rustix::fs::listxattr(path, list.as_mut_slice()).unwrap();
        String::from_utf8(list[..length].to_vec()).unwrap()
    };
    assert_eq!(names(upper.join("d")).split('\0').filter(|name| !name.is_empty()).count(), 2);
    assert!(names(upper.join("d")).contains("user.kept"));
    assert!(!names(upper.clone()).contains("opaque"));
    let mut found: Vec<_> = fs::read_dir(&upper).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, ["d"]);
}

fn add(archive: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, link: &str, content: &[u8]) {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
    header.set_mode(0o755);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1);
    header.set_size(content.len() as u64);
    if kind == EntryType::Block || name.ends_with("null") {
        header.set_device_major(1).unwrap();
        header.set_device_minor(3).unwrap();
    }
    header.set_cksum();
    archive.append(&header, content).unwrap();
}

fn manifest() -> Value {
    json!({
        "format": 1, "template": "plain",
        "layers": [{ "id": layer_id(1), "created_unix_ms": 5 }],
        "snapshots": [{ "id": id(1), "created_unix_ms": 6, "stack": [0] }],
    })
}

fn bundle(manifest: &Value, members: &[(String, &[u8])], tamper: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    let text = manifest.to_string();
    add(&mut archive, EntryType::Regular, "manifest.json", "", text.as_bytes());
    let mut sums =
        serde_json::Map::from_iter([("manifest.json".to_owned(), json!(Digest::of(text.as_bytes())))]);
    for (name, bytes) in members {
        add(&mut archive, EntryType::Regular, name, "", bytes);
        sums.insert(name.clone(), json!(Digest::of(bytes)));
    }
    let mut sums = json!({ "sha256": sums });
    tamper(&mut sums);
    add(&mut archive, EntryType::Regular, "checksums.json", "", sums.to_string().as_bytes());
    archive.into_inner().unwrap()
}

fn member(number: u8) -> String {
    format!("layers/{}.tar", layer_id(number))
}

fn one_layer(layer: &[u8]) -> Vec<u8> {
    bundle(&manifest(), &[(member(1), layer)], |_| {})
}

fn layer_with(kind: EntryType, name: &str, link: &str, content: &[u8]) -> Vec<u8> {
    let mut layer = Builder::new(Vec::new());
    add(&mut layer, EntryType::Directory, "upper-0/", "", b"");
    add(&mut layer, EntryType::Symlink, "upper-0/out", "/tmp/elsewhere", b"");
    add(&mut layer, EntryType::Regular, "upper-1/other", "", b"x");
    add(&mut layer, kind, name, link, content);
    layer.into_inner().unwrap()
}

fn assert_refused(what: &str, bytes: &[u8]) {
    let fixture = Fixture::new();
    let error = import(&fixture, bytes, ImportFormat::History).unwrap_err();
    assert_eq!(error.kind, LayerErrorKind::Invalid, "{what}: {error:?}");
    assert_nothing_left(&fixture);
}

#[test]
fn layers_that_reach_elsewhere_are_refused_and_leave_nothing() {
    for (kind, name, link) in [
        (EntryType::Regular, "upper-0/../x", ""),
        (EntryType::Regular, "/etc/x", ""),
        (EntryType::Regular, "manifest.json", ""),
        (EntryType::Regular, "upper-00/x", ""),
        (EntryType::Regular, "upper-64/x", ""),
        (EntryType::Regular, "upper-0/out/x", ""),
        (EntryType::Directory, "upper-0/out/x/y", ""),
        (EntryType::Char, "upper-0/null", ""),
        (EntryType::Block, "upper-0/disk", ""),
        (EntryType::Char, "upper-0", ""),
        (EntryType::Link, "upper-0/x", "upper-0/../../x"),
        (EntryType::Link, "upper-0/x", "/etc/passwd"),
        (EntryType::Link, "upper-0/x", "upper-0/out"),
        (EntryType::Link, "upper-0/x", "upper-1/other"),
        (EntryType::Symlink, "upper-0/empty", ""),
    ] {
        assert_refused(name, &one_layer(&layer_with(kind, name, link, b"")));
    }
    assert!(!std::path::Path::new("/tmp/elsewhere").exists());
}

#[test]
fn histories_that_make_no_sense_are_refused_and_leave_nothing() {
    let good = layer_with(EntryType::Regular, "upper-0/f", "", b"1");
    let layer = [(member(1), good.as_slice())];
    let with = |change: &dyn Fn(&mut Value)| {
        let mut manifest = manifest();
        change(&mut manifest);
        bundle(&manifest, &layer, |_| {})
    };
    let snapshot = |number: u8, parent: Option<u8>| json!({ "id": id(number), "parent": parent.map(id), "created_unix_ms": 1, "stack": [0] });
    let many: Vec<_> = (0..=MOST_LAYERS).collect();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("newer", with(&|manifest| manifest["format"] = json!(3))),
        ("no snapshots", with(&|manifest| manifest["snapshots"] = json!([]))),
        ("bad id", with(&|manifest| manifest["snapshots"][0]["id"] = json!("../../x"))),
        ("bad layer id", with(&|manifest| manifest["layers"][0]["id"] = json!("../../x"))),
        ("bad template", with(&|manifest| manifest["template"] = json!("../x"))),
        ("missing layer", with(&|manifest| manifest["snapshots"][0]["stack"] = json!([1]))),
        ("layer twice in a stack", with(&|manifest| manifest["snapshots"][0]["stack"] = json!([0, 0]))),
        ("deep stack", with(&|manifest| manifest["snapshots"][0]["stack"] = json!(many))),
        (
            "snapshot twice",
            with(&|manifest| manifest["snapshots"] = json!([snapshot(1, None), snapshot(1, None)])),
        ),
        ("own parent", with(&|manifest| manifest["snapshots"] = json!([snapshot(1, Some(1))]))),
        (
            "circle",
            with(&|manifest| manifest["snapshots"] = json!([snapshot(1, Some(2)), snapshot(2, Some(1))])),
        ),
        ("control", with(&|manifest| manifest["snapshots"][0]["name"] = json!("a\u{1b}[2J"))),
        ("layer missing in archive", bundle(&manifest(), &[], |_| {})),
        ("unknown member", bundle(&manifest(), &[(member(1), good.as_slice()), ("x".into(), b"")], |_| {})),
        ("layer twice in archive", bundle(&manifest(), &[layer[0].clone(), layer[0].clone()], |_| {})),
        (
            "other checksum",
            bundle(&manifest(), &layer, |sums| sums["sha256"][member(1)] = json!(Digest::of(b""))),
        ),
        ("no checksum", bundle(&manifest(), &layer, |sums| sums["sha256"] = json!({}))),
        ("empty layer", one_layer(b"")),
        ("not an archive", b"hello".repeat(1000)),
        ("nothing", Vec::new()),
    ];
    for (what, bytes) in cases {
        assert_refused(what, &bytes);
    }
    let mut longer = one_layer(&good);
    longer.truncate(longer.len() - 1024);
    let mut more = Builder::new(Vec::new());
    add(&mut more, EntryType::Regular, "more", "", b"");
    longer.extend(more.into_inner().unwrap());
    assert_refused("goes on", &longer);
}

#[test]
fn a_layer_of_holes_counts_as_what_it_would_fill() {
    let fixture = Fixture::new();
    let mut layer = Builder::new(Vec::new());
    let records: [(&str, &[u8]); 4] = [
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"upper-0/huge"),
        ("GNU.sparse.realsize", b"9000000000000000"),
    ];
    layer.append_pax_extensions(records).unwrap();
    let mut map = b"0\n".to_vec();
    map.resize(512, 0);
    add(&mut layer, EntryType::Regular, "upper-0/x", "", &map);
    let error =
        import(&fixture, &one_layer(&layer.into_inner().unwrap()), ImportFormat::History).unwrap_err();
    assert_eq!(error.kind, LayerErrorKind::Invalid);
    assert_nothing_left(&fixture);
}

#[test]
fn what_a_tar_file_has_below_another_tree_becomes_part_of_that_tree() {
    let fixture = Fixture::with_trees(&["/", "/usr"]);
    let mut archive = Builder::new(Vec::new());
    add(&mut archive, EntryType::Regular, "usr/bin/tool", "", b"1");
    add(&mut archive, EntryType::Regular, "etc/new", "", b"2");
    let history = import(&fixture, &archive.into_inner().unwrap(), ImportFormat::Tar).unwrap();
    let place = fixture.store.place(&history.snapshots[0].stack.0[0]);
    assert_eq!(fs::read(place.join("upper-1/bin/tool")).unwrap(), b"1");
    assert!(place.join("upper-0/etc/new").exists() && !place.join("upper-0/usr").exists());

    let mut archive = Builder::new(Vec::new());
    add(&mut archive, EntryType::Symlink, "usr", "/etc", b"");
    let history = import(&fixture, &archive.into_inner().unwrap(), ImportFormat::Tar).unwrap();
    let place = fixture.store.place(&history.snapshots[0].stack.0[0]);
    assert!(place.join("upper-0/usr").is_symlink() && !place.join("upper-1").exists());
}

#[test]
fn a_tar_file_becomes_one_layer_on_top_of_the_template() {
    let fixture = Fixture::new();
    fixture.base(&[("etc/base", file("1"))]);
    let mut archive = Builder::new(Vec::new());
    add(&mut archive, EntryType::Directory, "./etc/", "", b"");
    add(&mut archive, EntryType::Regular, "./etc/new", "", b"2");
    add(&mut archive, EntryType::Regular, "dev/null", "", b"no");
    add(&mut archive, EntryType::Char, "etc/null", "", b"");
    add(&mut archive, EntryType::Char, "etc/base", "", b"");
    let history = import(&fixture, &archive.into_inner().unwrap(), ImportFormat::Tar).unwrap();
    assert_eq!((history.template, history.snapshots.len()), (None, 1));
    let mounted = fixture.mounted(&history.snapshots[0].stack);
    assert!(mounted.contains("./etc/base") && mounted.contains("./etc/new"), "{mounted}");
    assert!(!mounted.contains("null"), "{mounted}");

    let fixture = Fixture::new();
    let escapes = layer_with(EntryType::Regular, "upper-0/../../x", "", b"");
    for bad in [b"".as_slice(), b"x", &[0; 1024], &escapes] {
        assert_eq!(import(&fixture, bad, ImportFormat::Tar).unwrap_err().kind, LayerErrorKind::Invalid);
        assert_nothing_left(&fixture);
    }
}

proptest! {
    #![proptest_config(crate::layers::content::fixture::cases(32))]

    #[test]
    fn any_history_comes_back(base in things(), layers in prop::collection::vec(things(), 1..3)) {
        let (here, there) = (Fixture::new(), Fixture::new());
        let base: Vec<_> = borrowed(&base)
            .into_iter()
            .filter(|(_, thing)| !matches!(thing, Thing::Whiteout | Thing::Opaque))
            .collect();
        here.base(&base);
        there.base(&base);
        let stack = Stack(layers.iter().map(|things| here.layer(&borrowed(things))).collect());
        let bytes = exported(&here, &[snapshot(1, None, &stack)]);
        let history = import(&there, &bytes, ImportFormat::History).unwrap();
        prop_assert_eq!(there.mounted(&history.snapshots[0].stack), here.mounted(&stack));
    }

    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let fixture = Fixture::new();
        for format in [ImportFormat::Tar, ImportFormat::History] {
            prop_assert!(import(&fixture, &bytes, format).is_err());
        }
        assert_nothing_left(&fixture);
    }

    #[test]
    fn a_damaged_archive_is_taken_whole_or_not_at_all(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        format in prop_oneof![Just(ImportFormat::Tar), Just(ImportFormat::History)],
    ) {
        let source = Fixture::new();
        let (snapshots, _) = history(&source);
        let mut bytes = exported(&source, &snapshots);
        if format == ImportFormat::Tar {
            // The archive of a layer inside is a tar file like any other.
            let mut outer = tar::Archive::new(bytes.as_slice());
            let mut inner = Vec::new();
            outer.entries().unwrap().nth(1).unwrap().unwrap().read_to_end(&mut inner).unwrap();
            bytes = inner;
        }
        for (at, value) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let fixture = Fixture::new();
        match import(&fixture, &bytes, format) {
            Ok(history) => {
                for snapshot in history.snapshots {
                    fixture.store.stand_on(&snapshot.stack, &mut fixture.root.clone()).unwrap();
                }
            }
            Err(_) => assert_nothing_left(&fixture),
        }
    }
}
