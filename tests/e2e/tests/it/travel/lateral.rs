//! Forks share files, and nothing that one of them does to them reaches another.

use warren_e2e::{TestEnv, TestServer, probe};

use super::support::{create, fork, snapshot};

/// Check 30.
#[test]
fn writes_in_place_never_cross_a_fork_in_either_direction() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let parent = create(&server, &[]);
    server.shell(&parent, "head -c 1000000 /dev/zero > data; echo shared > text; sync");
    let point = snapshot(&server, &parent);
    let (one, two) = (fork(&server, &point), fork(&server, &parent));
    let poke = |id: &str, byte: &str| {
        let line = format!(
            "printf {byte} | dd of=data bs=1 seek=500000 conv=notrunc 2>/dev/null; echo {byte} >> text; \
             truncate -s 900000 data; truncate -s 1000000 data"
        );
        server.shell(id, &line);
    };
    let seen =
        |id: &str| server.shell(id, "dd if=data bs=1 skip=500000 count=1 2>/dev/null | od -An -c; cat text");
    poke(&one, "A");
    assert_eq!(seen(&two), "  \\0\nshared");
    assert_eq!(seen(&parent), "  \\0\nshared");
    poke(&parent, "B");
    poke(&two, "C");
    assert_eq!(
        [seen(&one), seen(&two), seen(&parent)].map(|text| text.replace([' ', '\n'], "")),
        ["AsharedA".to_owned(), "CsharedC".to_owned(), "BsharedB".to_owned()]
    );
    // What was captured is what it was, whatever its descendants did.
    let three = fork(&server, &point);
    assert_eq!(seen(&three), "  \\0\nshared");
    server.finish();
}

/// Check 37: of the template's own files and of those that a snapshot made common.
#[test]
fn what_describes_a_shared_file_is_changed_for_one_alone() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let parent = create(&server, &[]);
    server.shell(&parent, "echo x > common; mkdir dir; echo x > dir/in");
    let point = snapshot(&server, &parent);
    let (one, two) = (fork(&server, &point), fork(&server, &point));
    let look = "stat -c '%n %a %u:%g %Y' common dir dir/in /etc/hosts /usr/bin/env; \
                python3 -c 'import os; print([os.listxattr(p) for p in (\"common\", \"dir\", \"/etc/hosts\", \"/usr/bin/env\")])'";
    let before = server.shell(&two, look);
    let fresh = create(&server, &[]);
    let of_template = "stat -c '%n %a %u:%g %Y' /etc/hosts /usr/bin/env";
    let template = server.shell(&fresh, of_template);
    server.shell(
        &one,
        "for f in common dir dir/in /etc/hosts /usr/bin/env; do \
           chmod 0711 $f; chown 7:8 $f; touch -d @1000 $f; \
           python3 -c \"import os,sys; os.setxattr(sys.argv[1], 'user.mark', b'1')\" $f; done",
    );
    assert_ne!(server.shell(&one, look), before);
    assert_eq!(server.shell(&two, look), before);
    assert_eq!(server.shell(&parent, look), before);
    assert_eq!(server.shell(&fresh, of_template), template);
    server.finish();
}

/// Check 36: two lives of one state have no secret in common.
#[test]
fn forks_draw_different_random_numbers_and_share_no_identity() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let parent = create(&server, &["--hostname", "burrow"]);
    server.shell(&parent, "echo x > file");
    let point = snapshot(&server, &parent);
    let (one, two) = (fork(&server, &point), fork(&server, &point));
    let draws = [
        "head -c 32 /dev/urandom | od -An -tx1",
        "cat /proc/sys/kernel/random/uuid",
        "python3 -c 'import secrets, random; print(secrets.token_hex(), random.random())'",
        "python3 -c 'import ssl; print(ssl.RAND_bytes(32))'",
    ];
    for line in draws {
        assert_ne!(server.shell(&one, line), server.shell(&two, line), "{line}");
    }
    for id in [&one, &two] {
        assert_eq!(
            server.shell(id, "hostname; cat /etc/hostname"),
            "burrow\nburrow",
            "as the original is set up"
        );
        // Nobody is given an identity that others have too.
        assert_eq!(server.shell(id, "cat /etc/machine-id"), "");
    }
    server.finish();
}

/// Check 38: what looks like the file system's own marks, made inside, hides and shows nothing.
#[test]
fn marks_that_are_made_inside_mean_nothing_in_a_snapshot() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "mkdir -p lower/dir; echo seen > lower/dir/file; echo seen > lower/file");
    snapshot(&server, &id);
    let forge = probe(
        r#"
import stat
os.chdir("/home/user/lower")
for space in ("user", "trusted"):
    for name, value in (("opaque", b"y"), ("redirect", b"/etc"), ("metacopy", b""), ("whiteout", b"y"), ("opaque", b"x")):
        try:
            os.setxattr("dir", f"{space}.overlay.{name}", value)
        except OSError as error:
            assert error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.EACCES), error
for path in ("dir/file.forged", "fresh"):
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(0, 0))
        print("made", path)
    except OSError as error:
        assert error.errno in (errno.EPERM, errno.EACCES), error
try:
    os.symlink("/etc/shadow", "dir/.wh.file")
except OSError as error:
    assert error.errno == errno.EEXIST
"#,
    );
    let mut words = vec!["exec".to_owned(), id.clone(), "--".to_owned()];
    words.extend(forge);
    server.warren(words).ok();
    let point = snapshot(&server, &id);
    let copy = fork(&server, &point);
    let look = "find . -type f | sort | xargs cat; ls -A dir | grep -v forged; readlink dir/.wh.file; ls -A /etc | head -5";
    for sandbox in [&id, &copy] {
        let seen = server.shell(sandbox, &format!("cd lower && {look}"));
        assert!(seen.starts_with("seen\nseen\n.wh.file\nfile\n/etc/shadow"), "{seen}");
    }
    server.warren(["template", "make", "forged", &point]).ok();
    let of_template = server.warren(["create", "--user", "root", "--template", "forged"]).ok().line();
    let seen = server.shell(&of_template, &format!("cd lower && {look}"));
    assert!(seen.starts_with("seen\nseen\n.wh.file\nfile\n/etc/shadow"), "{seen}");
    server.finish();
}
