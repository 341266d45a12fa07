//! Copies out of a sandbox into a directory in which somebody has put links.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use warren_e2e::{TestEnv, TestServer};

#[test]
fn a_copy_out_of_a_sandbox_writes_through_no_link_in_the_target() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    server.shell(
        &id,
        "cd && mkdir -p tree/dir/deep tree/links && echo new > tree/file && echo new > tree/dir/deep/file \
         && echo new > tree/run && chmod 6755 tree/run && ln -s /etc/passwd tree/links/out && ln -s ../../.. tree/links/up \
         && mkfifo tree/pipe",
    );
    let (target, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let victim = elsewhere.path().join("victim");
    fs::write(&victim, "kept").unwrap();
    let tree = target.path().join("tree");
    fs::create_dir(&tree).unwrap();
    symlink(elsewhere.path(), tree.join("dir")).unwrap();
    symlink(&victim, tree.join("file")).unwrap();
    fs::hard_link(&victim, tree.join("run")).unwrap();

    let source = format!("{id}:/home/user/tree");
    server.warren(["cp", &source, target.path().to_str().unwrap()]).ok();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1, "nothing was made behind a link");
    for name in ["file", "dir/deep/file", "run"] {
        assert_eq!(fs::read_to_string(tree.join(name)).unwrap(), "new\n", "{name}");
    }
    assert_eq!(fs::metadata(tree.join("run")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert!(!tree.join("pipe").exists() && fs::symlink_metadata(tree.join("links/out")).is_err());

    // The same for one file, whose name is the sandbox's.
    let single = target.path().join("file");
    symlink(&victim, &single).unwrap();
    server.warren(["cp", &format!("{id}:/home/user/tree/file"), target.path().to_str().unwrap()]).ok();
    assert_eq!(
        (fs::read_to_string(&victim).unwrap().as_str(), fs::read_to_string(&single).unwrap().as_str()),
        ("kept", "new\n")
    );

    // A link that the user named is the user's own.
    let named = target.path().join("named");
    symlink(&victim, &named).unwrap();
    server.warren(["cp", &format!("{id}:/home/user/tree/file"), named.to_str().unwrap()]).ok();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "new\n");
    server.finish();
}
