use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use super::*;

const NONE: [&str; 0] = [];

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn refused(path: &Path) -> DataDirRefusal {
    let error = DataDir::examine(path, &NONE).unwrap_err();
    assert_eq!(error.path, path);
    assert!(!error.advice().is_empty());
    error.reason
}

#[test]
fn a_new_directory_is_made_for_its_owner_alone_and_marked() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("some/where");
    let found = DataDir::examine(&data, &NONE).unwrap();
    assert!(!place.path().join("some").exists(), "looking makes nothing");
    assert_eq!(found.claim().unwrap(), data.canonicalize().unwrap());
    assert_eq!((mode(&data), mode(data.parent().unwrap())), (0o700, 0o700));
    assert_eq!(names(&data), ["instance"]);
    let word = instance(&data).unwrap();
    DataDir::examine(&data, &NONE).unwrap().claim().unwrap();
    assert_eq!(instance(&data).unwrap(), word);
}

#[test]
fn an_empty_directory_is_used_with_the_mode_it_has() {
    let place = tempfile::tempdir().unwrap();
    for open in [0o755, 0o700, 0o750] {
        let data = place.path().join(format!("{open:o}"));
        fs::create_dir(&data).unwrap();
        set_mode(&data, open);
        DataDir::examine(&data, &NONE).unwrap().claim().unwrap();
        assert_eq!(mode(&data), open);
        assert_eq!(mode(&data.join("instance")), 0o600);
    }
}

#[test]
fn one_that_holds_other_things_is_refused_and_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("project");
    fs::create_dir(&data).unwrap();
    set_mode(&data, 0o755);
    fs::write(data.join("Makefile"), "all:").unwrap();
    assert!(matches!(refused(&data), DataDirRefusal::NotEmpty { name } if name == "Makefile"));
    // A directory of a name that Warren uses too, but not made by it.
    fs::remove_file(data.join("Makefile")).unwrap();
    fs::create_dir(data.join("templates")).unwrap();
    set_mode(&data.join("templates"), 0o755);
    assert!(matches!(refused(&data), DataDirRefusal::NotEmpty { name } if name == "templates"));
    assert_eq!(
        (names(&data), mode(&data), mode(&data.join("templates"))),
        (vec!["templates".to_owned()], 0o755, 0o755)
    );
    // A file of the mark's name that is not the mark.
    fs::write(data.join("instance"), "i-0123").unwrap();
    assert!(matches!(refused(&data), DataDirRefusal::NotEmpty { .. }));
}

#[test]
fn what_earlier_versions_left_half_made_is_theirs() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    for name in ["catalog.lock", "catalog.db.new", "warren.yaml", "instance.0123456789abcdef"] {
        fs::write(data.join(name), "").unwrap();
    }
    for name in ["lost+found", "sandboxes", "tls"] {
        fs::DirBuilder::new().mode(0o700).create(data.join(name)).unwrap();
    }
    DataDir::examine(&data, &NONE).unwrap().claim().unwrap();
    // With the mark anything else may be there too.
    fs::write(data.join("notes"), "").unwrap();
    DataDir::examine(&data, &NONE).unwrap();
}

#[test]
fn one_that_others_may_write_is_refused() {
    let place = tempfile::tempdir().unwrap();
    for open in [0o770, 0o707, 0o1777] {
        set_mode(place.path(), open);
        assert!(matches!(refused(place.path()), DataDirRefusal::Writable { mode } if mode == open));
        assert_eq!((mode(place.path()), names(place.path())), (open, vec![]));
    }
    set_mode(place.path(), 0o700);
    DataDir::examine(place.path(), &NONE).unwrap();
}

#[test]
fn a_file_is_no_directory() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "").unwrap();
    for path in ["file", "file/data"] {
        assert!(matches!(refused(&place.path().join(path)), DataDirRefusal::NotADirectory { .. }));
    }
}

#[test]
fn one_that_others_could_put_in_its_place_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let open = place.path().join("open");
    fs::create_dir(&open).unwrap();
    for (mode, fine) in [(0o777, false), (0o1777, true), (0o755, true)] {
        set_mode(&open, mode);
        for below in ["data", "deeper/data"] {
            let found = DataDir::examine(&open.join(below), &NONE);
            assert_eq!(found.is_ok(), fine, "{mode:o}: {found:?}");
        }
    }
}

#[test]
fn one_that_another_user_owns_or_could_replace_is_refused() {
    if user() != 0 {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let theirs = place.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(12_345), None).unwrap();
    assert!(matches!(refused(&theirs), DataDirRefusal::Owner { owner: 12_345, user: 0 }));
    assert!(
        matches!(refused(&theirs.join("data")), DataDirRefusal::ParentOwner { owner: 12_345, at } if at == theirs)
    );
    // A user of sudo may have it below the home directory, but it must not belong to that user.
    let sudo = Trusted { user: 0, others: vec![0, 12_345], groups: vec![0] };
    examine(&theirs.join("data"), &NONE, &sudo).unwrap();
    assert!(matches!(examine(&theirs, &NONE, &sudo), Err(DataDirRefusal::Owner { .. })));
    // A link that somebody left in a directory for all leads where they like.
    set_mode(place.path(), 0o1777);
    let link = place.path().join("link");
    symlink("/var/lib", &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(12_345), None).unwrap();
    assert!(matches!(refused(&link.join("warren")), DataDirRefusal::ParentOwner { owner: 12_345, .. }));
}

#[test]
fn links_are_followed_and_what_sandboxes_can_read_is_refused_wherever_they_begin() {
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().join("usr");
    fs::create_dir_all(tree.join("share")).unwrap();
    symlink("usr/share", place.path().join("link")).unwrap();
    symlink(place.path().join("elsewhere"), tree.join("out")).unwrap();
    fs::create_dir(place.path().join("elsewhere")).unwrap();
    for inside in ["usr", "usr/share", "usr/share/warren/data", "link", "link/data"] {
        let error = DataDir::examine(&place.path().join(inside), &[&tree]).unwrap_err();
        assert!(matches!(error.reason, DataDirRefusal::Shown { .. }), "{inside}: {error:?}");
    }
    for outside in ["usr/out", "usr/out/data", "usr/../data", "link/../../data"] {
        DataDir::examine(&place.path().join(outside), &[&tree]).unwrap();
    }
    let real = DataDir::examine(&tree.join("out/data"), &NONE).unwrap();
    assert_eq!(real.path(), place.path().canonicalize().unwrap().join("elsewhere/data"));
    symlink("round", place.path().join("round")).unwrap();
    assert!(matches!(refused(&place.path().join("round/data")), DataDirRefusal::Look { .. }));
}

#[test]
fn two_who_make_one_at_once_agree() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let found: Vec<_> = (0..8).map(|_| DataDir::examine(&data, &NONE).unwrap()).collect();
    let words: Vec<_> = std::thread::scope(|scope| {
        let claims: Vec<_> = found
            .into_iter()
            .map(|found| scope.spawn(|| instance(&found.claim().unwrap()).unwrap()))
            .collect();
        claims.into_iter().map(|claim| claim.join().unwrap()).collect()
    });
    assert!(words.windows(2).all(|pair| pair[0] == pair[1]), "{words:?}");
}
