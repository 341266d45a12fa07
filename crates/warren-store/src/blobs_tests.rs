use std::time::SystemTime;

use super::*;

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

fn age(path: &Path) {
    let long_ago = SystemTime::now() - 2 * KEPT;
    File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
}

#[test]
fn a_layer_is_found_when_it_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(directory.path()).unwrap();
    let partial = blobs.begin(&digest("a")).unwrap();
    io::Write::write_all(&mut &partial.file, b"a").unwrap();
    assert!(blobs.find(&digest("a"), 1).is_none());
    partial.keep().unwrap();
    assert!(blobs.find(&digest("a"), 1).is_some());
    assert!(blobs.find(&digest("a"), 2).is_none());
    blobs.discard(&digest("a"));
    assert!(blobs.find(&digest("a"), 1).is_none());
}

#[test]
fn a_broken_off_layer_goes_on_and_two_pulls_do_not_share_one() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(directory.path()).unwrap();
    let first = blobs.begin(&digest("a")).unwrap();
    io::Write::write_all(&mut &first.file, b"half").unwrap();
    let second = blobs.begin(&digest("a")).unwrap();
    assert_eq!(second.file.metadata().unwrap().len(), 0);
    drop(first);
    assert_eq!(blobs.begin(&digest("a")).unwrap().file.metadata().unwrap().len(), 4);
}

#[test]
fn what_no_template_is_made_of_goes_when_it_is_old() {
    let data = tempfile::tempdir().unwrap();
    let (directory, templates) = (data.path().join("blobs"), data.path().join("templates"));
    fs::create_dir_all(templates.join("image")).unwrap();
    let used = PulledImage { address: "a/b".to_owned(), layers: vec![digest("used")] };
    used.write(&templates.join("image")).unwrap();
    let blobs = Blobs::open(&directory).unwrap();
    let names = [digest("used"), digest("old"), digest("young"), digest("gone")];
    for name in &names {
        blobs.begin(name).unwrap().keep().unwrap();
    }
    drop(blobs.begin(&digest("half")).unwrap());
    for old in [
        digest("used").hex().to_owned(),
        digest("old").hex().to_owned(),
        format!("{}.partial", digest("half").hex()),
    ] {
        age(&directory.join(old));
    }
    let left = || fs::read_dir(&directory).unwrap().count();
    let unused = [digest("gone"), digest("used")];
    collect(&directory, &templates, &unused).unwrap();
    assert_eq!(left(), 6, "somebody pulls");
    drop(blobs);
    collect(&directory, &templates, &unused).unwrap();
    assert_eq!(left(), 3, "the lock, the used and the young one");
    assert!(directory.join(digest("young").hex()).exists());
}
