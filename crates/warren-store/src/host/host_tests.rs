use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use warren_core::Shown;

use super::*;
use crate::store::TemplateStore;

/// A small machine with a secret next to every public file.
fn machine() -> tempfile::TempDir {
    let machine = tempfile::tempdir().unwrap();
    let root = machine.path();
    for directory in ["usr/bin", "etc/ssl/certs", "etc/ssl/private", "etc/python3.11", "etc/fonts/closed"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for link in ["bin", "sbin", "lib"] {
        symlink(format!("usr/{link}"), root.join(link)).unwrap();
    }
    for (path, mode) in [
        ("usr/bin/bash", 0o755),
        ("etc/shadow", 0o640),
        ("etc/hostname", 0o644),
        ("etc/machine-id", 0o644),
        ("etc/ssl/certs/ca-certificates.crt", 0o644),
        ("etc/ssl/certs/closed.pem", 0o640),
        ("etc/ssl/private/key.pem", 0o644),
        ("etc/ssl/openssl.cnf", 0o4755),
        ("etc/python3.11/site.py", 0o644),
        ("etc/fonts/closed/secret", 0o644),
        ("etc/ld.so.cache", 0o644),
    ] {
        fs::write(root.join(path), "SECRET of the machine").unwrap();
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(root.join("etc/fonts/closed"), fs::Permissions::from_mode(0o700)).unwrap();
    symlink("/usr/share/zoneinfo/UTC", root.join("etc/localtime")).unwrap();
    symlink("../shadow", root.join("etc/ssl/certs/link.pem")).unwrap();
    machine
}

fn skeleton(template: &Template) -> &Path {
    &template.trees[0].lowers[0]
}

fn paths_below(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            paths.push(entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
        }
    }
    paths
}

#[test]
fn takes_from_the_machine_only_what_is_listed_and_public() {
    let (machine, data) = (machine(), tempfile::tempdir().unwrap());
    let store = TemplateStore::open_for_machine(data.path(), machine.path()).unwrap();
    let template = store.host().unwrap();
    let root = skeleton(&template);

    let secret =
        |path: &String| fs::read_to_string(root.join(path)).is_ok_and(|text| text.contains("SECRET"));
    let mut copied: Vec<_> = paths_below(root)
        .into_iter()
        .filter(|path| !root.join(path).is_symlink() && root.join(path).is_file() && secret(path))
        .collect();
    copied.sort();
    assert_eq!(
        copied,
        [
            "etc/ld.so.cache",
            "etc/python3.11/site.py",
            "etc/ssl/certs/ca-certificates.crt",
            "etc/ssl/openssl.cnf"
        ]
    );
    assert_eq!(fs::read_link(root.join("etc/ssl/certs/link.pem")).unwrap(), Path::new("../shadow"));
    assert_eq!(fs::read_link(root.join("etc/localtime")).unwrap(), Path::new("/usr/share/zoneinfo/UTC"));
    assert_eq!(fs::metadata(root.join("etc/ssl/openssl.cnf")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(fs::read_to_string(root.join("etc/hostname")).unwrap(), "sandbox\n");
    let (layers, shown) = Shown::part(&template.trees[1].lowers);
    assert_eq!((layers.len(), shown.unwrap().machine), (0, machine.path().join("usr").as_path()));
}

#[test]
fn packages_are_known_inside_and_nothing_that_logs_in() {
    let (machine, data) = (machine(), tempfile::tempdir().unwrap());
    let root = machine.path();
    for directory in [
        "etc/apt/sources.list.d",
        "etc/apt/auth.conf.d",
        "etc/apt/apt.conf.d",
        "var/lib/dpkg/info",
        "var/lib/apt/lists",
    ] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (path, mode, text) in [
        ("var/lib/dpkg/status", 0o644, "Package: x"),
        ("var/lib/dpkg/info/x.list", 0o644, "/x"),
        ("var/lib/dpkg/info/x.secret", 0o600, "SECRET"),
        ("var/lib/dpkg/statoverride", 0o644, "root nobody-knows 644 /x"),
        ("var/lib/apt/lists/all", 0o644, "all"),
        ("etc/apt/auth.conf", 0o644, "machine x login me password SECRET"),
        ("etc/apt/auth.conf.d/x.conf", 0o644, "SECRET"),
        ("etc/apt/sources.list.d/a.list", 0o644, "deb http://a/ b\ndeb http://me:SECRET@c/ d\n"),
        ("etc/apt/sources.list.d/b.sources", 0o644, "URIs: https://me:SECRET@host/x"),
        ("etc/apt/sources.list.d/c.sources", 0o640, "SECRET"),
        ("etc/apt/apt.conf.d/proxy", 0o644, "Acquire::http::Proxy \"http://me:SECRET@proxy\";"),
        ("etc/apt/apt.conf.d/plain", 0o644, "APT::Install-Recommends \"false\";"),
    ] {
        fs::write(root.join(path), text).unwrap();
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let store = TemplateStore::open_for_machine(data.path(), root).unwrap();
    let template = store.host().unwrap();
    let inside = skeleton(&template);
    let below = |part: &str| {
        let mut found = paths_below(&inside.join(part));
        found.sort();
        found
    };
    assert_eq!(below("var/lib/dpkg/info"), ["x.list"]);
    assert_eq!(below("var/lib/apt/lists"), ["all", "partial"]);
    assert_eq!(
        below("etc/apt"),
        ["apt.conf.d", "apt.conf.d/plain", "sources.list.d", "sources.list.d/a.list"]
    );
    assert_eq!(
        fs::read_to_string(inside.join("etc/apt/sources.list.d/a.list")).unwrap(),
        "deb http://a/ b\n"
    );
    assert_eq!(fs::read_to_string(inside.join("var/lib/dpkg/statoverride")).unwrap(), "");
    assert_eq!(fs::metadata(inside.join("var/lib/apt/lists/partial")).unwrap().uid(), 42);
    assert!(fs::read_to_string(inside.join("opt/warren/bin/apt-get")).unwrap().contains("template"));
    fs::write(root.join("usr/bin/apt-get"), "").unwrap();
    assert!(
        !skeleton(&store.host().unwrap()).join("opt/warren/bin/apt-get").exists(),
        "the machine's own will do"
    );
}

#[test]
fn what_was_removed_is_made_again_by_a_store_that_is_open() {
    let (machine, data) = (machine(), tempfile::tempdir().unwrap());
    let store = TemplateStore::open_for_machine(data.path(), machine.path()).unwrap();
    let first = skeleton(&store.host().unwrap()).to_owned();
    let place = first.parent().and_then(Path::parent).unwrap();
    fs::remove_dir_all(place).unwrap();
    let again = store.host().unwrap();
    assert_eq!(skeleton(&again), first);
    assert!(again.trees.iter().flat_map(|tree| &tree.lowers).take(2).all(|layer| layer.is_dir()));
    assert_eq!(fs::metadata(place).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn lays_out_a_machine_with_a_normal_user() {
    let (machine, data) = (machine(), tempfile::tempdir().unwrap());
    let store = TemplateStore::open_for_machine(data.path(), machine.path()).unwrap();
    let template = store.host().unwrap();
    let root = skeleton(&template);
    for (path, mode, uid) in [
        ("", 0o40755, 0),
        ("root", 0o40700, 0),
        ("tmp", 0o41777, 0),
        ("var/tmp", 0o41777, 0),
        ("home/user", 0o40755, 1000),
        ("code", 0o40777, 1000),
        ("home/user/.bashrc", 0o100_644, 1000),
        ("etc/passwd", 0o100_644, 0),
        ("proc", 0o40755, 0),
        ("usr", 0o40755, 0),
    ] {
        let found = fs::symlink_metadata(root.join(path)).unwrap();
        assert_eq!((found.mode(), found.uid(), found.gid()), (mode, uid, uid), "{path}");
    }
    for (path, target) in [("bin", "usr/bin"), ("var/run", "/run"), ("var/lock", "/run/lock")] {
        assert_eq!(fs::read_link(root.join(path)).unwrap(), Path::new(target));
    }
    let sudo = fs::read_link(root.join("opt/warren/bin/sudo")).unwrap();
    assert_eq!(sudo, Path::new("/run/warren/sudo"));
    assert!(fs::read_to_string(root.join("etc/group")).unwrap().contains("\nsudo:x:27:user\n"));
    let passwd = fs::read_to_string(root.join("etc/passwd")).unwrap();
    assert!(passwd.contains("user:x:1000:1000:user:/home/user:/bin/bash"));
    let shadow = fs::read_to_string(root.join("etc/shadow")).unwrap();
    assert!(shadow.lines().all(|line| line.ends_with(":*:::::::")) && shadow.contains("user:*"), "{shadow}");
    assert_eq!(template.manifest.config.user, "user");
}

#[test]
fn python_has_its_plain_name() {
    let (machine, data) = (machine(), tempfile::tempdir().unwrap());
    let store = TemplateStore::open_for_machine(data.path(), machine.path()).unwrap();
    let link = || fs::read_link(skeleton(&store.host().unwrap()).join("opt/warren/bin/python")).ok();
    assert_eq!(link(), None, "there is none on this machine");
    fs::write(machine.path().join("usr/bin/python3"), "").unwrap();
    assert_eq!(link().as_deref(), Some(Path::new("/usr/bin/python3")));
    fs::write(machine.path().join("usr/bin/python"), "").unwrap();
    assert_eq!(link(), None, "the machine's own will do");
}

#[test]
fn is_made_once_and_again_when_the_machine_changes() {
    let (machine, data) = (machine(), tempfile::tempdir().unwrap());
    let store = TemplateStore::open_for_machine(data.path(), machine.path()).unwrap();
    let first = store.host().unwrap();
    assert_eq!(store.host().unwrap(), first);
    fs::write(machine.path().join("etc/ld.so.cache"), "another cache").unwrap();
    let second = store.host().unwrap();
    assert_ne!(second.manifest.digest, first.manifest.digest);
    assert!(skeleton(&first).join("etc/passwd").exists(), "running sandboxes keep theirs");
}

#[test]
fn one_of_an_earlier_boot_is_made_anew() {
    let (machine, data) = (machine(), tempfile::tempdir().unwrap());
    let store = TemplateStore::open_for_machine(data.path(), machine.path()).unwrap();
    let first = store.host().unwrap();
    let passwd = skeleton(&first).join("etc/passwd");
    let directory = skeleton(&first).parent().unwrap();
    // As a power cut would leave it.
    for torn in [&passwd, &directory.join("template.json")] {
        fs::write(torn, "").unwrap();
    }
    fs::write(directory.join("boot"), "another boot").unwrap();
    let again = store.host().unwrap();
    assert_eq!((&again.trees, &again.manifest.digest), (&first.trees, &first.manifest.digest));
    assert!(fs::read_to_string(&passwd).unwrap().contains("user:x:1000"));
    assert_eq!(
        fs::read_dir(data.path().join("templates-host")).unwrap().count(),
        4,
        "the lock, the skeleton, what hides private files, and the word that it does"
    );
}

#[test]
fn several_at_once_make_one() {
    let (machine, data) = (machine(), tempfile::tempdir().unwrap());
    let store = TemplateStore::open_for_machine(data.path(), machine.path()).unwrap();
    let templates: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8).map(|_| scope.spawn(|| store.host().unwrap())).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert!(templates.windows(2).all(|pair| pair[0] == pair[1]));
    let made = fs::read_dir(data.path().join("templates-host")).unwrap();
    let names: Vec<_> = made.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
    assert_eq!((names.len(), count(".lock"), count("usr.json"), count("usr-")), (4, 1, 1, 1), "{names:?}");
}

#[test]
fn a_machine_without_merged_usr_is_told_so() {
    let (machine, data) = (machine(), tempfile::tempdir().unwrap());
    fs::remove_file(machine.path().join("sbin")).unwrap();
    fs::create_dir(machine.path().join("sbin")).unwrap();
    let store = TemplateStore::open_for_machine(data.path(), machine.path()).unwrap();
    assert!(matches!(store.host(), Err(HostError::NotMerged { directory: "sbin" })));
}

#[test]
fn this_machine_works_and_an_unchanged_one_is_checked_quickly() {
    let data = tempfile::tempdir().unwrap();
    let store = TemplateStore::open(data.path()).unwrap();
    let template = store.host().unwrap();
    let outside = template.trees.iter().flat_map(|tree| &tree.lowers);
    let kept = place(data.path(), Path::new("/"));
    let outside: Vec<_> = outside.filter(|lower| !lower.starts_with(&kept)).collect();
    assert_eq!(outside, SHOWN.map(Path::new));
    let root = skeleton(&template);
    for path in paths_below(root) {
        let found = fs::symlink_metadata(root.join(&path)).unwrap();
        assert!(found.uid() <= 1000 && found.gid() <= 1000, "{path}");
        if let (true, Ok(original)) =
            (path.starts_with("etc/"), fs::symlink_metadata(Path::new("/").join(&path)))
        {
            let ours = ["etc/passwd", "etc/group", "etc/shadow", "etc/profile", "etc/bash.bashrc"]
                .contains(&path.as_str());
            assert!(ours || original.is_symlink() || original.mode() & 0o004 != 0, "{path} is not public");
        }
    }
    for private in ["etc/gshadow", "etc/ssl/private", "etc/ssh", "etc/sudoers"] {
        assert!(!root.join(private).exists(), "{private}");
    }
    let fastest = (0..20)
        .map(|_| {
            let start = Instant::now();
            assert_eq!(store.host().unwrap(), template);
            start.elapsed()
        })
        .min()
        .unwrap();
    println!("host() when up to date: {fastest:?}, {} entries", template.manifest.entries);
    assert!(fastest < Duration::from_millis(50), "{fastest:?}");
}
