//! Templates that a hostile image makes: checks 5 and 38.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use warren_e2e::TestEnv;

/// A root with a shell and a few tools, each with the libraries it needs.
pub(crate) fn small_root(place: &Path) -> io::Result<()> {
    for directory in ["bin", "etc", "tmp", "root"] {
        fs::create_dir_all(place.join(directory))?;
    }
    fs::write(place.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    for (program, name) in
        [("/bin/dash", "sh"), ("/bin/cat", "cat"), ("/bin/ls", "ls"), ("/bin/stat", "stat")]
    {
        copy(Path::new(program), &place.join("bin").join(name))?;
        let listing = Command::new("ldd").arg(program).output()?.stdout;
        let listing = String::from_utf8_lossy(&listing).into_owned();
        for library in listing.split_whitespace().filter(|word| word.starts_with('/')) {
            let target = place.join(&library[1..]);
            fs::create_dir_all(target.parent().unwrap_or(place))?;
            copy(Path::new(library), &target)?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from.canonicalize()?, to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))
}

fn import(env: &TestEnv, name: &str, root: &Path) {
    env.warren([Path::new("template"), Path::new("import"), Path::new(name), root]).ok();
}

/// Everything below a directory, with sizes: what a sandbox must not change.
fn listing(place: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    let mut waiting = vec![place.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let about = entry.metadata()?;
            found.push((entry.path(), about.len()));
            if about.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[test]
fn a_small_template_runs() {
    let env = TestEnv::new();
    small_root(&env.path("root")).unwrap();
    import(&env, "small", &env.path("root"));
    let output = env.run_with(&["--template", "small"], ["sh", "-c", "ls / && stat -c %F /dev/null"]).ok();
    assert!(output.text().ends_with("character special file\n"), "{output:?}");
    env.warren(["template", "rm", "small"]).ok();
}

#[test]
fn check_05_system_directories_of_an_image_are_replaced() {
    let env = TestEnv::new();
    let canary = env.path("canary");
    fs::create_dir(&canary).unwrap();
    fs::write(canary.join("null"), "host").unwrap();
    type Spoil = Box<dyn Fn(&Path)>;
    let link = |name: &'static str, target: PathBuf| -> Spoil {
        Box::new(move |root: &Path| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            symlink(&target, root.join(name)).unwrap();
        })
    };
    let file = |name: &'static str| -> Spoil {
        Box::new(move |root: &Path| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "not a directory").unwrap();
        })
    };
    let cases: Vec<(&str, Spoil)> = vec![
        ("dev-link", link("dev", canary.clone())),
        ("dev-up", link("dev", "../../../../../..".into())),
        ("dev-file", file("dev")),
        ("proc-link", link("proc", canary.clone())),
        ("proc-file", file("proc")),
        ("sys-link", link("sys", canary.clone())),
        ("sys-file", file("sys")),
        ("run-link", link("run", canary.clone())),
        ("null-link", link("dev/null", canary.join("null"))),
        ("null-file", file("dev/null")),
        ("console-link", link("dev/console", canary.join("console"))),
        ("pts-link", link("dev/pts", canary.clone())),
        ("shm-link", link("dev/shm", canary.clone())),
        ("etc-hosts-link", link("etc/hosts", canary.join("hosts"))),
        ("etc-hostname-link", link("etc/hostname", canary.join("hostname"))),
    ];
    let before = listing(&canary).unwrap();
    for (name, spoil) in cases {
        let root = env.path(name);
        small_root(&root).unwrap();
        spoil(&root);
        import(&env, name, &root);
        let look = "test -c /dev/null && test -d /proc/self && ls /sys && cat /proc/self/comm /etc/hosts && echo x > /dev/shm/x && \
                    stat -c %t:%T /dev/null && ls /dev/pts && test ! -e /dev/console";
        let output = env.run_with(&["--template", name], ["sh", "-c", look]);
        let text = output.clone().ok().text();
        assert!(text.contains("1:3"), "{name}: {output:?}");
        assert_eq!(listing(&canary).unwrap(), before, "{name}");
        env.warren(["template", "rm", name]).ok();
        fs::remove_dir_all(root).unwrap();
    }
}

/// `/etc` itself can be a link as well, and is written by the host when a sandbox is made.
#[test]
fn check_05_a_linked_etc_leads_nowhere() {
    let env = TestEnv::new();
    let canary = env.path("canary");
    fs::create_dir(&canary).unwrap();
    let root = env.path("root");
    small_root(&root).unwrap();
    fs::rename(root.join("etc"), root.join("configuration")).unwrap();
    symlink(&canary, root.join("etc")).unwrap();
    let output = env.warren(["template", "import", "linked", &root.display().to_string()]);
    if output.code == Some(0) {
        let run = env.run_with(&["--template", "linked", "--user", "0"], ["cat", "/etc/hostname"]);
        assert!(run.code == Some(0) || run.code == Some(125), "{run:?}");
        env.warren(["template", "rm", "linked"]).ok();
    } else {
        output.ended(125).says("`etc` is a link");
    }
    assert_eq!(fs::read_dir(&canary).unwrap().count(), 0);
}

/// Marks of overlayfs in an image are data: nothing is hidden and nothing redirected.
#[test]
fn check_38_marks_of_overlays_made_inside_or_shipped_mean_nothing() {
    let env = TestEnv::new();
    let root = env.path("root");
    small_root(&root).unwrap();
    fs::create_dir(root.join("dir")).unwrap();
    fs::write(root.join("dir/file"), "there").unwrap();
    for name in
        ["user.overlay.opaque", "trusted.overlay.opaque", "trusted.overlay.redirect", "user.overlay.redirect"]
    {
        let value = if name.ends_with("redirect") { &b"/etc"[..] } else { &b"y"[..] };
        rustix::fs::setxattr(root.join("dir"), name, value, rustix::fs::XattrFlags::empty()).unwrap();
    }
    import(&env, "marked", &root);
    let look = ["sh", "-c", "cat /dir/file; ls /dir"];
    assert_eq!(env.run_with(&["--template", "marked"], look).ok().text(), "therefile\n");
    env.warren(["template", "rm", "marked"]).ok();
    let inside = "for name in ('trusted.overlay.opaque', 'trusted.overlay.redirect', 'trusted.overlay.whiteout'):\n  assert \
                  error_of(lambda: os.setxattr('/tmp', name, b'y')) in ('EPERM', 'ENOTSUP'), name\nos.mkdir('/tmp/d')\nopen('/tmp/d/f', \
                  'w').close()\nprint(error_of(lambda: os.setxattr('/tmp/d', 'user.overlay.opaque', b'y')), os.listdir('/tmp/d'))";
    for user in ["user", "root"] {
        let output = env.run_with(&["--user", user], warren_e2e::probe(inside)).ok();
        assert!(output.line().ends_with("['f']"), "{output:?}");
    }
}

#[test]
fn a_template_in_use_cannot_be_removed_or_replaced() {
    let env = TestEnv::new();
    small_root(&env.path("root")).unwrap();
    import(&env, "busy", &env.path("root"));
    let id = env.keep(&["--template", "busy"]);
    env.warren(["template", "rm", "busy"]).ended(125).says("in use");
    env.warren(["template", "import", "--replace", "busy", &env.path("root").display().to_string()])
        .ended(125);
    env.remove(&id).ok();
    env.warren(["template", "rm", "busy"]).ok();
}
