use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use warren_core::Owner;
use warren_core::catalog::{CatalogErrorKind, InsertError, SandboxCatalog as _};
use warren_store::SqliteCatalog;
use warren_testkit::sample_node;

use super::{insert, new};

const CHILD: &str = "WARREN_TEST_FULL_DISK";

/// The test starts itself in a mount namespace of its own, where the data directory is a small
/// disk.
#[test]
fn a_full_disk_loses_nothing_and_is_over_when_there_is_room() {
    if let Some(data) = env::var_os(CHILD) {
        fill_the_disk(Path::new(&data));
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=2m none \"$0\" && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .arg(data.path())
        .arg(env::current_exe().unwrap())
        .args(["--exact", "catalog::full::a_full_disk_loses_nothing_and_is_over_when_there_is_room"])
        .env(CHILD, data.path())
        .output()
        .expect("unshare is installed");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn fill_the_disk(data: &Path) {
    let catalog = SqliteCatalog::open(data).unwrap();
    fs::write(data.join("ballast"), vec![1; 512 << 10]).unwrap();
    let mut written = 0;
    let error = loop {
        let mut records = new(written + 1);
        records.sandbox.metadata.insert("weight".to_owned(), "x".repeat(4000));
        match catalog.insert(records) {
            Ok(()) => written += 1,
            Err(InsertError::Catalog(error)) => break error,
            Err(repeated) => panic!("{repeated:?}"),
        }
    };
    assert_eq!(error.kind, CatalogErrorKind::Full, "{error:?}");
    assert!(written > 10);
    let left = |catalog: &SqliteCatalog| catalog.unfinished_sandboxes(&sample_node()).unwrap().len();
    assert_eq!(left(&catalog), written as usize, "what was acknowledged can be read");
    assert_eq!(catalog.sandbox(&Owner::first(), &new(written + 1).sandbox.id).unwrap(), None);

    fs::remove_file(data.join("ballast")).unwrap();
    insert(&catalog, written + 2);
    drop(catalog);
    let catalog = SqliteCatalog::open(data).unwrap();
    assert_eq!(left(&catalog), written as usize + 1);
}
