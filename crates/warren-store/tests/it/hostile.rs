//! Archives that try to get out, or to break what reads them. None may touch anything but its own
//! tree, and a refused one leaves nothing behind.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use warren_store::{ArchiveError, EntryError, ImportError, LimitExceeded};

use crate::support::{Entry, Tar, TestStore, entry, gzip, limits, root};

/// A directory outside the store that no archive may change.
struct Canary {
    directory: tempfile::TempDir,
}

impl Canary {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "untouched").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o711)).unwrap();
        Self { directory }
    }

    fn path(&self) -> &str {
        self.directory.path().to_str().unwrap()
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("file")
    }

    fn check(&self, label: &str) {
        assert_eq!(fs::read_to_string(self.file()).unwrap(), "untouched", "{label}");
        assert_eq!(fs::metadata(self.path()).unwrap().mode() & 0o7777, 0o711, "{label}");
        assert_eq!(fs::metadata(self.file()).unwrap().nlink(), 1, "{label}");
        assert_eq!(fs::read_dir(self.path()).unwrap().count(), 1, "{label}");
    }
}

#[test]
fn refused_entries() {
    type Expected = fn(&EntryError) -> bool;
    let canary = Canary::new();
    let up = format!("{}{}/file", "../".repeat(20), canary.path());
    let outside = canary.file().to_str().unwrap().to_owned();
    let long = "n/".repeat(32_000);
    let table: Vec<(&str, Tar, Expected)> = vec![
        ("parent components", Tar::new().file(&up, b"x"), |e| matches!(e, EntryError::ParentComponent)),
        ("parent in the middle", Tar::new().file("a/../../b", b"x"), |e| {
            matches!(e, EntryError::ParentComponent)
        }),
        ("hard link up and out", Tar::new().hard_link("a", &up), |e| {
            matches!(e, EntryError::HardLinkTarget { .. })
        }),
        ("hard link to an absolute path", Tar::new().hard_link("a", &outside), |e| {
            matches!(e, EntryError::HardLinkTarget { .. })
        }),
        (
            "hard link through a link",
            Tar::new().symlink("out", canary.path()).hard_link("a", "out/file"),
            |e| matches!(e, EntryError::HardLinkTarget { .. }),
        ),
        ("hard link to a link", Tar::new().symlink("l", &outside).hard_link("a", "l"), |e| {
            matches!(e, EntryError::HardLinkTarget { .. })
        }),
        ("hard link to a directory", Tar::new().dir("d").hard_link("a", "d"), |e| {
            matches!(e, EntryError::HardLinkTarget { .. })
        }),
        ("hard link to itself", Tar::new().hard_link("a", "a"), |e| {
            matches!(e, EntryError::HardLinkTarget { .. })
        }),
        ("a file as parent", Tar::new().file("a", b"").file("a/b", b""), |e| {
            matches!(e, EntryError::ParentNotDirectory { .. })
        }),
        ("a link to nowhere as parent", Tar::new().symlink("a", "/nowhere").file("a/b", b""), |e| {
            matches!(e, EntryError::DanglingParent { .. })
        }),
        ("a loop of links as parent", Tar::new().symlink("a", "b").symlink("b", "a").file("a/x", b""), |e| {
            matches!(e, EntryError::DanglingParent { .. })
        }),
        ("64 KB name", Tar::new().pax(&[("path", long.as_bytes())]).file("a", b""), |e| {
            matches!(e, EntryError::NameTooLong)
        }),
        (
            "64 KB GNU name",
            Tar::new().add(&entry(b'L', "././@LongLink"), long.as_bytes()).file("a", b""),
            |e| matches!(e, EntryError::NameTooLong),
        ),
        ("300 byte component", Tar::new().pax(&[("path", &[b'c'; 300])]).file("a", b""), |e| {
            matches!(e, EntryError::ComponentTooLong)
        }),
        (
            "200 directories deep",
            Tar::new().pax(&[("path", "d/".repeat(200).as_bytes())]).file("a", b""),
            |e| matches!(e, EntryError::TooDeep { limit: 128 }),
        ),
        ("NUL in a PAX name", Tar::new().pax(&[("path", b"a\0b")]).file("a", b""), |e| {
            matches!(e, EntryError::Nul)
        }),
        ("owner above 65535", Tar::new().add(&Entry { uid: 65_536, ..entry(b'0', "a") }, b""), |e| {
            matches!(e, EntryError::Id { id: 65_536 })
        }),
        ("binary owner", Tar::new().add(&Entry { gid: 1 << 40, ..entry(b'0', "a") }, b""), |e| {
            matches!(e, EntryError::Id { id: 0x100_0000_0000 })
        }),
        ("PAX owner", Tar::new().pax(&[("uid", b"4294967296")]).file("a", b""), |e| {
            matches!(e, EntryError::Id { id: 0x1_0000_0000 })
        }),
        ("unknown type", Tar::new().add(&entry(b'D', "a"), b""), |e| {
            matches!(e, EntryError::Kind { kind: b'D' })
        }),
        ("a file as root", Tar::new().file("/", b"").add(&entry(b'2', "."), b""), |_| true),
        ("empty link", Tar::new().symlink("a", ""), |e| matches!(e, EntryError::SymlinkTarget)),
    ];
    let test = TestStore::new();
    for (label, tar, expected) in table {
        match test.import("evil", &tar.end()) {
            Err(ImportError::Entry { source, .. }) => assert!(expected(&source), "{label}: {source:?}"),
            other => panic!("{label}: {other:?}"),
        }
        canary.check(label);
        assert_eq!(test.names(), [] as [&str; 0], "{label} left something");
    }
}

#[test]
fn damaged_archives() {
    type Expected = fn(&ImportError) -> bool;
    let good = Tar::new().file("a", &[1; 5000]).file("b", b"2");
    let whole = good.clone().end();
    let mut bad_sum = whole.clone();
    bad_sum[5636] ^= 1;
    let huge = Entry { size: Some(8 << 30), ..entry(b'0', "a") };
    let endless = Entry { size: Some(u64::MAX >> 1), ..entry(b'0', "a") };
    let long = Entry { size: Some(2 << 20), ..entry(b'L', "././@LongLink") };
    let many = (0..40).fold(Tar::new(), |tar, _| tar.pax(&[("comment", b"x")]));
    let mut cut_gzip = gzip(&whole);
    cut_gzip.truncate(cut_gzip.len() - 9);
    let mut wrong_crc = gzip(&whole);
    let crc = wrong_crc.len() - 8;
    wrong_crc[crc] ^= 1;
    let truncated: Expected = |e| matches!(e, ImportError::Archive(ArchiveError::Truncated));
    let table: Vec<(&str, Vec<u8>, Expected)> = vec![
        ("empty", Vec::new(), |e| matches!(e, ImportError::NotAnArchive)),
        ("text", b"hello ".repeat(500), |e| matches!(e, ImportError::NotAnArchive)),
        ("compressed text", gzip(&b"hello ".repeat(500)), |e| matches!(e, ImportError::NotAnArchive)),
        ("zeros", vec![0; 10_240], |e| matches!(e, ImportError::NotAnArchive)),
        ("xz", b"\xfd7zXZ\0".repeat(100), |e| matches!(e, ImportError::Compression { with: "xz" })),
        ("zip", b"PK\x03\x04".repeat(200), |e| matches!(e, ImportError::Compression { with: "zip" })),
        ("cut in a header", whole[..700].to_vec(), truncated),
        ("cut in content", whole[..3000].to_vec(), truncated),
        ("cut between entries", good.open_end(), truncated),
        ("cut gzip", cut_gzip, truncated),
        ("gzip with a wrong checksum", wrong_crc, |e| matches!(e, ImportError::Read(_))),
        ("wrong header checksum", bad_sum, |e| {
            matches!(e, ImportError::Archive(ArchiveError::Checksum { offset: 5632 }))
        }),
        ("size larger than the archive", Tar::new().add(&huge, b"x").end(), truncated),
        ("size larger than the limit", Tar::new().add(&endless, b"x").end(), |e| {
            matches!(e, ImportError::Archive(_) | ImportError::Limit(LimitExceeded::Bytes { .. }))
        }),
        ("2 MiB long name", Tar::new().add(&long, &vec![b'a'; 2 << 20]).file("a", b"").end(), |e| {
            matches!(e, ImportError::Archive(ArchiveError::HeaderTooLarge { .. }))
        }),
        ("extended headers only", many.end(), |e| {
            matches!(e, ImportError::Archive(ArchiveError::Extensions { .. }))
        }),
        ("PAX size beyond the end", Tar::new().pax(&[("size", b"99999")]).file("a", b"x").end(), truncated),
        ("PAX size not a number", Tar::new().pax(&[("size", b"-1")]).file("a", b"x").end(), |e| {
            matches!(e, ImportError::Archive(ArchiveError::Pax { offset: 0 }))
        }),
        ("global PAX size", Tar::new().add(&entry(b'g', "g"), b"11 size=99\n").file("a", b"").end(), |e| {
            matches!(e, ImportError::Archive(ArchiveError::Pax { offset: 0 }))
        }),
        (
            "link with content",
            Tar::new().add(&Entry { link: b"x".into(), ..entry(b'2', "a") }, b"hidden").end(),
            |e| matches!(e, ImportError::Archive(ArchiveError::UnexpectedContent { offset: 0 })),
        ),
        ("sparse map that lies", sparse(&[(0, 10), (5, 10)], 30, b"01234567890123456789"), |e| {
            matches!(e, ImportError::Archive(ArchiveError::Sparse { .. }))
        }),
        ("sparse map past the end", sparse(&[(100, 20)], 30, b"01234567890123456789"), |e| {
            matches!(e, ImportError::Archive(ArchiveError::Sparse { .. }))
        }),
        ("sparse map with less than the content", sparse(&[(0, 1)], 30, b"01234567890123456789"), |e| {
            matches!(e, ImportError::Archive(ArchiveError::Sparse { .. }))
        }),
        ("sparse file of an exabyte", sparse(&[(0, 1)], 1 << 60, b"x"), |e| {
            matches!(e, ImportError::Limit(LimitExceeded::Bytes { .. }))
        }),
        ("sparse map without end", sparse_text("99999999\n0\n1\n", 30), |e| {
            matches!(e, ImportError::Archive(ArchiveError::Sparse { .. }))
        }),
    ];
    let test = TestStore::new();
    for (label, bytes, expected) in table {
        let error = test.import("evil", &bytes).expect_err(label);
        assert!(expected(&error), "{label}: {error:?}");
        assert_eq!(test.names(), [] as [&str; 0], "{label} left something");
    }
}

fn sparse(map: &[(u64, u64)], real_size: u64, content: &[u8]) -> Vec<u8> {
    let mut text = format!("{}\n", map.len());
    for (at, length) in map {
        text.push_str(&format!("{at}\n{length}\n"));
    }
    let mut data = text.into_bytes();
    data.resize(512, 0);
    data.extend_from_slice(content);
    sparse_archive(&data, real_size)
}

fn sparse_text(text: &str, real_size: u64) -> Vec<u8> {
    let mut data = text.as_bytes().to_owned();
    data.resize(512, 0);
    sparse_archive(&data, real_size)
}

fn sparse_archive(data: &[u8], real_size: u64) -> Vec<u8> {
    let real_size = real_size.to_string();
    Tar::new()
        .pax(&[
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.name", b"holes"),
            ("GNU.sparse.realsize", real_size.as_bytes()),
        ])
        .file("GNUSparseFile/holes", data)
        .end()
}

/// Archives that are imported: what they try does nothing.
#[test]
fn inert_entries() {
    let canary = Canary::new();
    let outside = canary.path().to_owned();
    let file = canary.file().to_str().unwrap().to_owned();
    let relative = format!("{}{outside}", "../".repeat(9));
    let hidden = Tar::new().file("smuggled", b"x").open_end();
    let table: Vec<(&str, Tar, Vec<&str>)> = vec![
        ("absolute names stay below", Tar::new().file(&file, b"x"), vec![&file[1..]]),
        ("file over a link is a new file", Tar::new().symlink("l", &file).file("l", b"replaced"), vec!["l"]),
        (
            "file through a link to an absolute path that exists inside",
            Tar::new().dir(&outside[1..]).symlink("out", &outside).file("out/file", b"x"),
            vec!["out/file"],
        ),
        (
            "file through a link that climbs",
            Tar::new().dir(&outside[1..]).symlink("out", &relative).file("out/file", b"x"),
            vec!["out/file"],
        ),
        (
            "directory over a link is a new directory",
            Tar::new()
                .symlink("d", &outside)
                .add(&Entry { mode: 0o777, ..entry(b'5', "d") }, b"")
                .file("d/file", b"x"),
            vec!["d/file"],
        ),
        (
            "a directory becomes a link after its mode was noted",
            Tar::new().add(&Entry { mode: 0o777, ..entry(b'5', "d") }, b"").symlink("d", &outside),
            vec!["d"],
        ),
        (
            "devices are left out",
            Tar::new().file("a", b"").add(&entry(b'3', "null"), b"").add(&entry(b'4', "disk"), b""),
            vec!["a"],
        ),
        (
            "the last of two wins",
            Tar::new().file("a", b"1").dir("d/x/y").file("a", b"2").file("d", b"3"),
            vec!["a", "d"],
        ),
        (
            "a PAX size hides no entry",
            Tar::new()
                .pax(&[("size", hidden.len().to_string().as_bytes())])
                .add(&Entry { size: Some(0), ..entry(b'0', "a") }, &hidden),
            vec!["a"],
        ),
        (
            "what every sandbox brings is replaced",
            Tar::new()
                .symlink("proc", &outside)
                .file("sys", b"x")
                .symlink("dev", &outside)
                .file("dev/null", b"x")
                .symlink("alias", "/")
                .symlink("alias/run", &outside)
                .file("a", b""),
            vec!["a"],
        ),
    ];
    let test = TestStore::new();
    for (index, (label, tar, present)) in table.into_iter().enumerate() {
        let imported = test
            .import(&format!("t{index}"), &tar.end())
            .unwrap_or_else(|error| panic!("{label}: {error:?}"));
        canary.check(label);
        let root = root(&imported.template);
        for name in present {
            assert!(beneath(root, name), "{label}: {name} is missing");
        }
        assert!(!root.join("smuggled").exists() && !root.join("null").exists(), "{label}");
        for provided in ["proc", "sys", "dev", "run"] {
            let stat = fs::symlink_metadata(root.join(provided)).unwrap();
            assert_eq!(stat.mode(), 0o40755, "{label}: {provided}");
            assert_eq!(fs::read_dir(root.join(provided)).unwrap().count(), 0, "{label}: {provided}");
        }
    }
}

/// True if `name` is in the tree, links being followed within it.
fn beneath(root: &Path, name: &str) -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
    let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    loop {
        match openat2(&root, name, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            // Something was renamed or mounted elsewhere meanwhile.
            Err(rustix::io::Errno::AGAIN) => {}
            found => return found.is_ok(),
        }
    }
}

#[test]
fn links_cannot_build_a_tree_too_deep_to_remove() {
    let test = TestStore::new();
    let step = "d/".repeat(60);
    let mut tar = Tar::new();
    let mut reach = String::new();
    for index in 0..6 {
        tar = tar.pax(&[("path", format!("{reach}{step}").as_bytes())]).dir("x");
        tar =
            tar.pax(&[("linkpath", format!("/{reach}{step}").as_bytes())]).symlink(&format!("l{index}"), "x");
        reach = format!("l{index}/");
    }
    match test.import("deep", &tar.end()) {
        Err(ImportError::Entry { source: EntryError::TooDeep { limit: 128 }, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(test.names(), [] as [&str; 0]);
}

#[test]
fn a_failed_import_leaves_the_previous_template() {
    let test = TestStore::new();
    let before = test.import("kept", &Tar::new().file("a", b"old").end()).unwrap().template;
    let bytes: &[u8] = &Tar::new().file("a", b"new").file("../b", b"").end();
    let source = warren_store::ImportSource::Stream(Box::new(bytes));
    let error = test.run("kept", source, warren_store::Replace::Unless(&|_| false), limits()).unwrap_err();
    assert!(matches!(error, ImportError::Entry { .. }));
    assert_eq!(test.store.get(&before.name).unwrap(), before);
    assert_eq!(fs::read(root(&before).join("a")).unwrap(), b"old");
    assert_eq!(test.names(), ["kept"]);
}
