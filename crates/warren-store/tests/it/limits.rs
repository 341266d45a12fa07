//! An import ends within its bounds, whatever an archive holds.

use warren_store::{EntryError, ImageError, ImportError, ImportLimits, LimitExceeded};

use crate::support::{Tar, TestStore, entry, gzip, limits, zstd};

fn limit(result: Result<warren_store::Imported, ImportError>) -> LimitExceeded {
    match result {
        Err(ImportError::Limit(limit)) => limit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bombs_stop_at_the_ratio() {
    let test = TestStore::new();
    let bomb = Tar::new().file("zeros", &vec![0; 64 << 20]).end();
    let bounds = ImportLimits { ratio: 100, ratio_from_bytes: 8 << 20, ..limits() };
    for bytes in [gzip(&bomb), zstd(&bomb)] {
        assert!(bytes.len() < 1 << 20);
        let found = limit(test.import_within("bomb", &bytes, bounds.clone()));
        assert_eq!(found, LimitExceeded::Ratio { limit: 100 });
        assert!(test.names().is_empty());
    }
    // The same content is fine where the ratio is allowed.
    test.import("allowed", &gzip(&bomb)).unwrap();
}

#[test]
fn a_nested_bomb_in_an_image_stops_as_well() {
    let test = TestStore::new();
    let bomb = gzip(&Tar::new().file("zeros", &vec![0; 64 << 20]).end());
    let image = crate::images::docker_image(&[bomb]);
    let bounds = ImportLimits { ratio: 100, ratio_from_bytes: 8 << 20, ..limits() };
    assert_eq!(limit(test.import_within("bomb", &gzip(&image), bounds)), LimitExceeded::Ratio { limit: 100 });
}

#[test]
fn entries_bytes_and_reserve_are_bounded() {
    let test = TestStore::new();
    let many = (0..2000).fold(Tar::new(), |tar, index| tar.file(&format!("f{index}"), b"")).end();
    let bounds = ImportLimits { entries: 1000, ..limits() };
    assert_eq!(limit(test.import_within("many", &many, bounds)), LimitExceeded::Entries { limit: 1000 });

    let dropped = (0..2000).fold(Tar::new(), |tar, _| tar.add(&entry(b'3', "dev/null"), b"")).end();
    let bounds = ImportLimits { entries: 1000, ..limits() };
    assert_eq!(
        limit(test.import_within("dropped", &dropped, bounds)),
        LimitExceeded::Entries { limit: 1000 }
    );

    let large = Tar::new().file("a", &vec![1; 1 << 20]).file("b", &vec![1; 1 << 20]).end();
    let bounds = ImportLimits { total_bytes: 3 << 19, ..limits() };
    assert_eq!(
        limit(test.import_within("large", &gzip(&large), bounds)),
        LimitExceeded::Bytes { limit: 3 << 19 }
    );

    let full = ImportLimits { reserve_bytes: u64::MAX, ..limits() };
    let found = limit(test.import_within("full", &large, full));
    assert!(matches!(found, LimitExceeded::FreeSpace { reserve_bytes: u64::MAX, .. }));
    assert!(test.names().is_empty());
}

#[test]
fn directories_on_the_way_to_an_entry_count_as_entries() {
    let test = TestStore::new();
    let deep = (0..100).fold(Tar::new(), |tar, index| tar.file(&format!("{index}/a/b/c/d/e/f"), b"")).end();
    let bounds = ImportLimits { entries: 300, ..limits() };
    let found = limit(test.import_within("deep", &deep, bounds));
    assert_eq!(found, LimitExceeded::Entries { limit: 300 });
    test.import_within("enough", &deep, ImportLimits { entries: 700, ..limits() }).unwrap();
}

#[test]
fn attributes_of_directories_do_not_pile_up_in_memory() {
    let test = TestStore::new();
    let value = vec![b'v'; 64 << 10];
    let names: Vec<String> = (0..10).map(|index| format!("SCHILY.xattr.user.{index}")).collect();
    let records: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), value.as_slice())).collect();
    let large = (0..40).fold(Tar::new(), |tar, index| tar.pax(&records).dir(&format!("d{index}"))).end();
    match test.import("large", &gzip(&large)) {
        Err(ImportError::Entry { source: EntryError::XattrTotal { limit }, .. }) => {
            assert_eq!(limit, 16 << 20)
        }
        other => panic!("{other:?}"),
    }
    assert!(test.names().is_empty());
}

#[test]
fn links_in_an_image_do_not_pile_up_in_memory() {
    let test = TestStore::new();
    let target = vec![b'a'; 1 << 19];
    let image = (0..40).fold(Tar::new().file("manifest.json", b"[]"), |tar, index| {
        tar.pax(&[("linkpath", &target)]).symlink(&format!("{index}"), "x")
    });
    match test.import("image", &gzip(&image.end())) {
        Err(ImportError::Image(ImageError::TooLarge { limit, .. })) => assert_eq!(limit, 8 << 20),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_directory_is_bounded_as_well() {
    let test = TestStore::new();
    let source = tempfile::tempdir().unwrap();
    let huge = std::fs::File::create(source.path().join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let found = limit(test.import_path("huge", source.path()));
    assert!(matches!(found, LimitExceeded::Bytes { .. }));
}
