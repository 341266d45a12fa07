use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use warren_core::{
    Export, LayerContent as _, LayerErrorKind, LayerStore as _, LeaveOut, SnapshotRecord, Stack, TemplateName,
};
use warren_testkit::sample_snapshot;

use crate::layers::content::fixture::{Fixture, Thing, borrowed, file, listing, stack, things, write_things};

fn export(fixture: &Fixture, what: &Export<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    fixture.store.export(&fixture.root, what, &mut bytes).unwrap();
    bytes
}

fn piped(program: &str, arguments: &[&str], at: &Path, input: &[u8]) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(at)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(input)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn tar_unpacks_what_is_visible() {
    let fixture = Fixture::with_trees(&["/", "/usr"]);
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(150));
    fixture.base(&[("etc/gone", file("1")), ("etc/kept", file("2")), ("usr/hidden", file("3"))]);
    let layer = fixture.layer_of(&[
        (
            0,
            &[
                ("etc/gone", Thing::Whiteout),
                (&long, file("long")),
                ("link", Thing::Symlink("x".repeat(200))),
                ("pipe", Thing::Fifo),
                ("one", file("linked")),
                ("two", Thing::Link("one".into())),
                ("big", file(&"0123456789".repeat(40_000))),
            ],
        ),
        (1, &[("bin/tool", file("t"))]),
    ]);
    let upper = fixture.store.place(&layer).join("upper-0");
    rustix::fs::setxattr(upper.join("one"), "user.note", b"a=b\n", rustix::fs::XattrFlags::empty()).unwrap();
    std::os::unix::fs::lchown(upper.join("pipe"), Some(70_000), Some(5)).unwrap();
    drop(std::os::unix::net::UnixListener::bind(upper.join("socket")).unwrap());
    let stack = stack(&[&layer]);
    let bytes = export(&fixture, &Export::Tar { stack: &stack, below: "/".into() });
    let unpacked = tempfile::tempdir().unwrap();
    piped(
        "tar",
        &["--numeric-owner", "--xattrs", "--xattrs-include=*", "-xpf", "-"],
        unpacked.path(),
        &bytes,
    );
    fs::remove_file(upper.join("socket")).unwrap();
    fs::remove_file(upper.join("etc/gone")).unwrap();
    write_things(&upper, &[("etc/kept", file("2")), ("usr/bin/tool", file("t"))]);
    assert_eq!(listing(unpacked.path()), listing(&upper));
    let inode =
        |name| std::os::unix::fs::MetadataExt::ino(&fs::metadata(unpacked.path().join(name)).unwrap());
    assert_eq!(inode("one"), inode("two"));
    let mut note = [0; 8];
    let length = rustix::fs::getxattr(unpacked.path().join("one"), "user.note", &mut note).unwrap();
    assert_eq!(&note[..length], b"a=b\n");
}

#[test]
fn the_size_of_an_export_is_known_before_it_is_written() {
    let fixture = Fixture::new();
    let long = "n".repeat(150);
    let layer = fixture.layer(&[
        ("a/b", file("1")),
        (&long, file(&"x".repeat(1000))),
        ("a/c", Thing::Link("a/b".into())),
    ]);
    let (lower, stack) = (fixture.layer(&[("gone", Thing::Whiteout)]), stack(&[&layer]));
    let size = |what: &Export<'_>| fixture.store.export_size(&fixture.root, what).unwrap();
    for below in ["/", "/a", "/a/b"] {
        let what = Export::Tar { stack: &stack, below: below.into() };
        assert_eq!(size(&what), Some(export(&fixture, &what).len() as u64), "{below}");
    }
    let both = crate::layers::content::fixture::stack(&[&layer, &lower]);
    let snapshots = [SnapshotRecord { stack: both, ..sample_snapshot(&"ann".parse().unwrap(), 1) }];
    let template = TemplateName::host();
    let what = Export::History { template: &template, snapshots: &snapshots };
    assert_eq!(size(&what), Some(export(&fixture, &what).len() as u64));
    let none = Export::Tar { stack: &stack, below: "/none".into() };
    assert!(fixture.store.export_size(&fixture.root, &none).is_err());
    let leave_out = &LeaveOut::default();
    let patch = Export::Patch { from: &stack, to: &stack, below: "/".into(), leave_out };
    assert_eq!(size(&patch), None);
    for what in [what, Export::Tar { stack: &stack, below: "/".into() }] {
        let late = super::size(&fixture.store, &fixture.root, &what, std::time::Duration::ZERO).unwrap();
        assert_eq!(late, None, "what takes too long is not counted");
    }
}

#[test]
fn tar_of_a_part_begins_there_and_of_a_file_is_that_file() {
    let fixture = Fixture::new();
    let layer = fixture.layer(&[("a/b/c", file("1")), ("x", file("2"))]);
    let stack = stack(&[&layer]);
    let names = |below: &str| {
        let bytes = export(&fixture, &Export::Tar { stack: &stack, below: below.into() });
        piped("tar", &["-tf", "-"], Path::new("/"), &bytes)
    };
    assert_eq!(names("/a"), "./\nb/\nb/c\n");
    assert_eq!(names("/a/b/c"), "c\n");
    let what = Export::Tar { stack: &stack, below: "/none".into() };
    let error = fixture.store.export(&fixture.root, &what, &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind, LayerErrorKind::NotFound);
}

/// The files below a directory, as git would know them.
fn git_listing(root: &Path) -> Vec<String> {
    let mut lines = listing(root);
    lines.retain(|line| {
        let mode = line.split(' ').nth(1).unwrap();
        (mode.starts_with("100") || mode.starts_with("120")) && !line.contains(".git/")
    });
    for line in &mut lines {
        let executable = line.split(' ').nth(1).unwrap().starts_with("1007");
        let (name, rest) = line.split_once(' ').unwrap();
        *line = format!("{name} {executable} {}", rest.split_once('"').unwrap().1);
    }
    lines
}

fn assert_applies(fixture: &Fixture, from: &Stack, to: &Stack) {
    let unpack = |stack: &Stack| {
        let directory = tempfile::tempdir().unwrap();
        let tar = export(fixture, &Export::Tar { stack, below: "/".into() });
        piped("tar", &["-xpf", "-"], directory.path(), &tar);
        // Git knows neither pipes nor empty directories, and finds them in its way.
        let unknown =
            ["-mindepth", "1", "-depth", "(", "-type", "p", "-o", "-type", "d", "-empty", ")", "-delete"];
        piped("find", &[&["."], &unknown[..]].concat(), directory.path(), b"");
        directory
    };
    let (before, after) = (unpack(from), unpack(to));
    let patch =
        export(fixture, &Export::Patch { from, to, below: "/".into(), leave_out: &LeaveOut::default() });
    if patch.is_empty() {
        assert_eq!(git_listing(before.path()), git_listing(after.path()));
        return;
    }
    piped("git", &["apply", "--whitespace=nowarn", "-"], before.path(), &patch);
    assert_eq!(git_listing(before.path()), git_listing(after.path()));
    piped("git", &["apply", "--whitespace=nowarn", "-R", "-"], before.path(), &patch);
    assert_eq!(git_listing(before.path()), git_listing(unpack(from).path()));
}

#[test]
fn git_applies_a_patch_of_everything_that_can_change() {
    let fixture = Fixture::new();
    let noise: String =
        (0_u32..3000).map(|n| char::from_u32(n.wrapping_mul(2_654_435_761) % 127).unwrap()).collect();
    fixture.base(&[
        ("text", file("1\n2\n3\n4\n5\n6\n7\n8\n9\n")),
        ("no newline", file("1\n2")),
        ("mode", file("x\n")),
        ("mode and text", file("x\n")),
        ("gone", file("bye\n")),
        ("empty-gone", file("")),
        ("binary", file(&format!("\0{noise}"))),
        ("link", Thing::Symlink("here".into())),
        ("becomes-link", file("1")),
        ("d/becomes-file", file("1")),
        ("latin", file("plain")),
    ]);
    let layer = fixture.layer(&[
        ("text", file("1\n2\n3\nfour\n5\n6\n7\n8\n9\n10\n")),
        ("no newline", file("1\n2\n")),
        ("mode", file("x\n")),
        ("mode and text", file("y\n")),
        ("gone", Thing::Whiteout),
        ("empty-gone", Thing::Whiteout),
        ("binary", file(&format!("\0new{noise}"))),
        ("binary new", file("\0\x01")),
        ("link", Thing::Symlink("there".into())),
        ("becomes-link", Thing::Symlink("1".into())),
        ("d", file("now")),
        ("empty-new", file("")),
        ("t\u{e4}b\t\"quoted\"\\", file("odd name\n")),
        (" .git/config", file("not git's")),
        (".git/config", file("git's own")),
    ]);
    let upper = fixture.store.place(&layer).join("upper-0");
    fs::write(upper.join("latin"), b"caf\xe9\n").unwrap();
    for name in ["mode", "mode and text"] {
        fs::set_permissions(upper.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    assert_applies(&fixture, &Stack::default(), &stack(&[&layer]));
    let patch = patch(&fixture, &stack(&[&layer]), "/d", &LeaveOut::default());
    assert!(patch.starts_with("diff --git a/d b/d\n"));
}

fn patch(fixture: &Fixture, to: &Stack, below: &str, leave_out: &LeaveOut) -> String {
    let from = &Stack::default();
    let bytes = export(fixture, &Export::Patch { from, to, below: below.into(), leave_out });
    String::from_utf8(bytes).unwrap()
}

/// The paths that a patch is about.
fn patched(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("diff --git a/")?.split(' ').next()).collect()
}

#[test]
fn a_patch_passes_over_what_the_project_ignores() {
    let fixture = Fixture::new();
    fixture.base(&[
        (".gitignore", file("*\n")),
        ("p/.git/HEAD", file("x")),
        ("p/.gitignore", file("out\n*.o\n")),
    ]);
    let layer = fixture.layer(&[
        ("p/a.c", file("1")),
        ("p/a.o", file("1")),
        ("p/out/x", file("1")),
        ("p/sub/.gitignore", file("!keep.o\n")),
        ("p/sub/keep.o", file("1")),
        ("p/sub/b.c", file("1")),
        ("p/.git/index", file("1")),
    ]);
    let stack = stack(&[&layer]);
    let left = |ignored, patterns: &[&str]| LeaveOut {
        ignored,
        patterns: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
    };
    let all = patch(&fixture, &stack, "/p", &LeaveOut::default());
    assert_eq!(patched(&all), ["a.c", "a.o", "out/x", "sub/.gitignore", "sub/b.c", "sub/keep.o"]);
    let own = patch(&fixture, &stack, "/p", &left(true, &[]));
    assert_eq!(
        patched(&own),
        ["a.c", "sub/.gitignore", "sub/b.c", "sub/keep.o"],
        "rules above git's do not count"
    );
    let below = patch(&fixture, &stack, "/p/sub", &left(true, &["/b.c"]));
    assert_eq!(patched(&below), [".gitignore", "keep.o"]);
    let named = patch(&fixture, &stack, "/p", &left(false, &["sub/", "*.o"]));
    assert_eq!(patched(&named), ["a.c", "out/x"]);
}

#[test]
fn rules_without_end_and_rules_behind_a_link_are_not_read() {
    let fixture = Fixture::new();
    let leave_out = LeaveOut { ignored: true, patterns: Vec::new() };
    let long =
        stack(&[&fixture.layer(&[("p/.gitignore", file(&"a\n".repeat(200_000))), ("p/x", file("1"))])]);
    let what =
        Export::Patch { from: &Stack::default(), to: &long, below: "/p".into(), leave_out: &leave_out };
    let refused = fixture.store.export(&fixture.root, &what, &mut Vec::new()).unwrap_err();
    assert_eq!(refused.kind, LayerErrorKind::Invalid);
    let linked = fixture.layer(&[("q/.gitignore", Thing::Symlink("/dev/zero".into())), ("q/x", file("1"))]);
    assert_eq!(patched(&patch(&fixture, &stack(&[&linked]), "/q", &leave_out)), [".gitignore", "x"]);
}

proptest! {
    #![proptest_config(crate::layers::content::fixture::cases(16))]

    #[test]
    fn git_applies_any_patch(base in things(), from in things(), to in things()) {
        let fixture = Fixture::new();
        // Git looks through a link that goes away at what is to be there: it must lead nowhere.
        let layer = |things: &[(String, Thing)]| {
            let mut things = borrowed(things);
            for (_, thing) in &mut things {
                if let Thing::Symlink(target) = thing {
                    target.push_str("-nowhere");
                }
            }
            fixture.layer(&things)
        };
        let base = layer(&base);
        let (from, to) = (layer(&from), layer(&to));
        assert_applies(&fixture, &stack(&[&from, &base]), &stack(&[&to, &base]));
    }
}
