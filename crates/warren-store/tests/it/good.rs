//! Imports give back their sources unchanged.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{
    FileExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown, symlink,
};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use warren_store::{Progress, Replace, SourceKind};

use crate::support::{Entry, Tar, TestStore, entry, gzip, limits, root, zstd};

fn rootfs() -> Vec<u8> {
    Tar::new()
        .add(&Entry { mode: 0o700, ..entry(b'5', "./") }, b"")
        .dir("./usr/")
        .add(&Entry { mode: 0o500, ..entry(b'5', "./usr/bin/") }, b"")
        .add(&Entry { mode: 0o4755, uid: 7, gid: 65_535, ..entry(b'0', "./usr/bin/su") }, b"set-id")
        .symlink("./bin", "usr/bin")
        .file("./bin/through-link", b"lands in usr/bin")
        .hard_link("./usr/bin/su2", "./bin/su")
        .add(&Entry { mode: 0o620, ..entry(b'6', "./pipe") }, b"")
        .pax(&[
            ("path", "long/".repeat(40).as_bytes()),
            ("mtime", b"1600000000.25"),
            ("SCHILY.xattr.user.kept", b"a\n=b"),
            ("SCHILY.xattr.user.overlay.redirect", b"/"),
            ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
            ("SCHILY.xattr.security.capability", b"cap"),
        ])
        .dir("ignored")
        .file("./dev/null", b"not a device")
        .file("./run/pid", b"1")
        .end()
}

fn check_rootfs(root: &Path) {
    let stat = |path: &str| fs::symlink_metadata(root.join(path)).unwrap();
    assert_eq!(stat("").mode() & 0o7777, 0o755, "a root is never closed to users");
    assert_eq!(stat("usr/bin").mode() & 0o7777, 0o500);
    assert_eq!((stat("usr/bin/su").mode() & 0o7777, stat("usr/bin/su").uid()), (0o4755, 7));
    assert_eq!(stat("usr/bin/su").gid(), 65_535);
    assert_eq!(stat("usr/bin/su").mtime(), 1_700_000_000);
    assert_eq!(stat("usr/bin").mtime(), 1_700_000_000, "directories keep their times");
    assert_eq!(stat("bin").mtime(), 1_700_000_000);
    assert_eq!(fs::read_link(root.join("bin")).unwrap(), Path::new("usr/bin"));
    assert_eq!(fs::read(root.join("usr/bin/through-link")).unwrap(), b"lands in usr/bin");
    assert_eq!(stat("usr/bin/su").ino(), stat("usr/bin/su2").ino());
    assert!(stat("pipe").file_type().is_fifo());
    assert_eq!(stat("pipe").mode() & 0o7777, 0o620);

    let long = "long/".repeat(40);
    assert_eq!((stat(&long).mtime(), stat(&long).mtime_nsec()), (1_600_000_000, 250_000_000));
    let mut value = [0; 16];
    let length = rustix::fs::lgetxattr(root.join(&long), "user.kept", &mut value).unwrap();
    assert_eq!(&value[..length], b"a\n=b");
    let mut names = vec![0; 1024];
    let length = rustix::fs::llistxattr(root.join(&long), names.as_mut_slice()).unwrap();
    assert_eq!(&names[..length], b"user.kept\0");

    for (name, mode) in
        [("dev", 0o755), ("proc", 0o755), ("run", 0o755), ("sys", 0o755), ("tmp", 0o1777), ("root", 0o700)]
    {
        assert_eq!(stat(name).mode(), 0o40000 | mode, "{name}");
        assert_eq!(fs::read_dir(root.join(name)).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn a_root_filesystem_in_any_wrapping() {
    let test = TestStore::new();
    let plain = rootfs();
    let mut two_frames = zstd(&plain[..4096]);
    two_frames.extend_from_slice(b"\x50\x2a\x4d\x18\x03\0\0\0abc");
    two_frames.extend_from_slice(&zstd(&plain[4096..]));
    let wrapped =
        [("plain", plain.clone()), ("gz", gzip(&plain)), ("zst", zstd(&plain)), ("frames", two_frames)];
    for (name, bytes) in wrapped {
        let template = test.import(name, &bytes).unwrap().template;
        check_rootfs(root(&template));
        assert_eq!(template.manifest.source, SourceKind::Rootfs);
        assert_eq!(test.store.get(&template.name).unwrap(), template);
    }
    let listing = test.store.list().unwrap();
    let names: Vec<_> = listing.templates.iter().map(|template| template.name.as_str()).collect();
    assert_eq!(names, ["frames", "gz", "plain", "zst"]);
    assert!(listing.damaged.is_empty());
}

#[test]
fn the_digest_is_that_of_the_bytes_with_all_their_padding() {
    let test = TestStore::new();
    let mut bytes = Tar::new().file("a", b"1").end();
    bytes.resize(3 << 20, 0);
    let path = test.data.path().join("padded.tar");
    fs::write(&path, &bytes).unwrap();
    let sum = std::process::Command::new("sha256sum").arg(&path).output().unwrap();
    let expected = format!("sha256:{}", &String::from_utf8(sum.stdout).unwrap()[..64]);
    let template = test.import_path("padded", &path).unwrap().template;
    assert_eq!(template.manifest.digest.to_string(), expected);
}

#[test]
fn archives_of_the_tar_library_and_of_gnu_tar() {
    let test = TestStore::new();
    let source = tempfile::tempdir().unwrap();
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
    fs::create_dir(source.path().join("d".repeat(120))).unwrap();
    fs::write(source.path().join(&long), "long").unwrap();
    let holes = File::create(source.path().join("holes")).unwrap();
    for at in 0..40 {
        holes.write_all_at(b"data", at << 20).unwrap();
    }
    holes.set_len(64 << 20).unwrap();

    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all(".", source.path()).unwrap();
    check_long_and_sparse(&test, "library", &builder.into_inner().unwrap(), &long);
    for format in ["gnu", "posix"] {
        let archive = std::process::Command::new("tar")
            .args(["--sparse", "--format", format, "-C"])
            .arg(source.path())
            .args(["-cf", "-", "."])
            .output()
            .unwrap();
        check_long_and_sparse(&test, format, &archive.stdout, &long);
    }
}

fn check_long_and_sparse(test: &TestStore, name: &str, bytes: &[u8], long: &str) {
    let template = test.import(name, bytes).unwrap().template;
    let root = root(&template);
    assert_eq!(fs::read(root.join(long)).unwrap(), b"long");
    let holes = fs::metadata(root.join("holes")).unwrap();
    assert_eq!(holes.len(), 64 << 20, "{name}");
    assert!(holes.blocks() * 512 < 2 << 20, "{name}: holes stay holes");
    let mut data = [0; 5];
    File::open(root.join("holes")).unwrap().read_exact_at(&mut data, 39 << 20).unwrap();
    assert_eq!(&data, b"data\0");
}

#[test]
fn a_directory_is_copied_whole() {
    let test = TestStore::new();
    let source = tempfile::tempdir().unwrap();
    let at = |path: &str| source.path().join(path);
    fs::create_dir_all(at("etc/closed")).unwrap();
    fs::create_dir(at("proc")).unwrap();
    fs::write(at("proc/version"), "left out").unwrap();
    fs::write(at("etc/passwd"), "root:x:0:0").unwrap();
    fs::hard_link(at("etc/passwd"), at("etc/passwd-")).unwrap();
    symlink("/outside", at("link")).unwrap();
    chown(at("etc/passwd"), Some(3), Some(4)).unwrap();
    fs::set_permissions(at("etc/passwd"), fs::Permissions::from_mode(0o2640)).unwrap();
    rustix::fs::lsetxattr(at("etc/passwd"), "user.note", b"kept", XattrFlags::empty()).unwrap();
    let holes = File::create(at("holes")).unwrap();
    holes.write_all_at(b"end", 32 << 20).unwrap();
    holes.set_modified(SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000, 42)).unwrap();
    rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    fs::set_permissions(at("etc/closed"), fs::Permissions::from_mode(0o500)).unwrap();

    let imported = test.import_path("copy", source.path()).unwrap();
    assert_eq!(imported.skipped.sockets, 1);
    let root = root(&imported.template);
    let stat = |path: &str| fs::symlink_metadata(root.join(path)).unwrap();
    let passwd = stat("etc/passwd");
    assert_eq!((passwd.mode() & 0o7777, passwd.uid(), passwd.gid()), (0o2640, 3, 4));
    assert_eq!((passwd.ino(), passwd.nlink()), (stat("etc/passwd-").ino(), 2));
    assert_ne!(passwd.ino(), fs::metadata(at("etc/passwd")).unwrap().ino(), "copied, not linked");
    let mut value = [0; 8];
    assert_eq!(rustix::fs::lgetxattr(root.join("etc/passwd"), "user.note", &mut value), Ok(4));
    assert_eq!((stat("holes").len(), stat("holes").mtime_nsec()), ((32 << 20) + 3, 42));
    assert!(stat("holes").blocks() * 512 < 1 << 20);
    assert_eq!(fs::read_link(root.join("link")).unwrap(), Path::new("/outside"));
    assert_eq!(stat("etc/closed").mode() & 0o7777, 0o500);
    assert!(stat("pipe").file_type().is_fifo());
    assert_eq!(fs::read_dir(root.join("proc")).unwrap().count(), 0);
    assert_eq!(imported.template.manifest.source, SourceKind::Directory);

    let again = test.import_path("again", source.path()).unwrap().template.manifest;
    assert_eq!(again.digest, imported.template.manifest.digest);
    fs::write(at("new"), "").unwrap();
    let changed = test.import_path("changed", source.path()).unwrap().template.manifest;
    assert_ne!(changed.digest, again.digest);
}

#[test]
fn the_manifest_counts_and_progress_reaches_the_end() {
    let test = TestStore::new();
    let bytes = Tar::new().file("a", &vec![1; 3 << 20]).hard_link("b", "a").end();
    let path = test.data.path().join("a.tar");
    fs::write(&path, &bytes).unwrap();
    let mut seen = Vec::new();
    let imported = test
        .store
        .import(warren_store::ImportRequest {
            name: "counted".parse().unwrap(),
            source: warren_store::ImportSource::Path(path),
            replace: Replace::Never,
            limits: limits(),
            progress: &mut |progress| seen.push(progress),
        })
        .unwrap();
    let manifest = imported.template.manifest;
    let made = "two names, four provided directories, three expected ones, the sandbox's name and its hosts";
    assert_eq!(manifest.entries, 11, "{made}");
    assert!((3 << 20..4 << 20).contains(&manifest.size_bytes), "{}", manifest.size_bytes);
    let total = bytes.len() as u64;
    assert_eq!(seen.last(), Some(&Progress { read_bytes: total, total_bytes: Some(total), entries: 2 }));
    assert!(seen.iter().map(|progress| progress.read_bytes).collect::<BTreeSet<_>>().len() > 2);
}

/// An image leaves these to the machine that runs it; a tree copied from a machine tells of that
/// machine.
#[test]
fn a_template_knows_the_name_of_its_sandboxes() {
    let test = TestStore::new();
    let bytes =
        Tar::new().file("etc/hostname", b"my-laptop\n").file("etc/hosts", b"192.0.2.1 secret\n").end();
    let imported = test.import("named", &bytes).unwrap();
    let root = root(&imported.template);
    assert_eq!(fs::read_to_string(root.join("etc/hostname")).unwrap(), "sandbox\n");
    assert_eq!(
        fs::read_to_string(root.join("etc/hosts")).unwrap().lines().next(),
        Some("127.0.0.1 localhost sandbox")
    );
}

#[test]
fn a_root_that_is_streamed_has_the_configuration_it_came_with() {
    let test = TestStore::new();
    let config = warren_store::TemplateConfig {
        user: "user".to_owned(),
        workdir: "/home/user".to_owned(),
        ..warren_store::TemplateConfig::default()
    };
    let import = |name: &str, bytes: &[u8]| {
        test.store.import(warren_store::ImportRequest {
            name: name.parse().unwrap(),
            source: warren_store::ImportSource::Root(Box::new(bytes), config.clone()),
            replace: Replace::Never,
            limits: limits(),
            progress: &mut |_| {},
        })
    };
    let imported = import("built", &Tar::new().file("etc/issue", b"built\n").end()).unwrap();
    assert_eq!(imported.template.manifest.config, config);
    assert_eq!(fs::read_to_string(root(&imported.template).join("etc/issue")).unwrap(), "built\n");
    import("none", b"not an archive").unwrap_err();
    assert_eq!(test.names(), ["built"]);
}

#[test]
fn a_file_is_none_the_less_for_a_header_that_cuts_its_name_at_a_slash() {
    let test = TestStore::new();
    let directory = "d".repeat(99) + "/";
    let path = format!("{directory}file");
    let bytes = Tar::new().pax(&[("path", path.as_bytes())]).file(&directory, b"content").end();
    let imported = test.import("cut", &bytes).unwrap();
    assert_eq!(fs::read(root(&imported.template).join(&path)).unwrap(), b"content");
}
