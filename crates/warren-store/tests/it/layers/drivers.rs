use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use warren_core::{CopiedData, LayerDriver, LayerErrorKind, LayerStore as _, RootTree, Stack};
use warren_store::pool::{self, PoolError};

use super::world::{
    self, PATIENCE, Pool, area, has_private_mounts, keep, layer, names, root, scratch, subvolume_area,
    try_open,
};

/// The inode number of a subvolume's root.
const SUBVOLUME_ROOT: u64 = 256;

#[test]
fn a_driver_that_the_file_system_cannot_serve_is_refused() {
    if !has_private_mounts("layers::drivers::a_driver_that_the_file_system_cannot_serve_is_refused") {
        return;
    }
    let plain = scratch();
    world::run("mount", &["-t", "tmpfs", "none"], &[plain.path()]);
    for driver in [LayerDriver::Reflink, LayerDriver::Btrfs] {
        let error = try_open(plain.path(), driver).unwrap_err();
        assert_eq!(error.kind, LayerErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains("`overlay`"), "{error}");
    }
    let store = world::open(plain.path(), LayerDriver::Overlay);
    assert_eq!(store.driver(), LayerDriver::Overlay);
    assert!(store.settle(PATIENCE));
    assert_eq!(names(plain.path()), [""; 0], "trying leaves nothing");
    world::run("umount", &["--lazy"], &[plain.path()]);
}

#[test]
fn a_subvolume_becomes_a_layer_without_a_copy_and_goes_again() {
    if !has_private_mounts("layers::drivers::a_subvolume_becomes_a_layer_without_a_copy_and_goes_again") {
        return;
    }
    let pool = Pool::new();
    let store = world::open(&pool.data(), LayerDriver::Btrfs);
    let subvolume = subvolume_area(&pool.data(), "subvolume");
    fs::write(subvolume.join("upper-0/file"), vec![3; 1 << 20]).unwrap();
    assert_eq!(keep(&store, &subvolume, &layer(1)), CopiedData::Shared);
    assert_eq!(fs::metadata(store.place(&layer(1))).unwrap().ino(), SUBVOLUME_ROOT);
    assert_eq!(store.space(&layer(1), None).unwrap().unwrap().bytes, 1 << 20);

    // One that was made before the driver was chosen.
    let plain = area(&pool.data(), "plain");
    fs::write(plain.join("upper-0/file"), vec![3; 1 << 20]).unwrap();
    assert_eq!(keep(&store, &plain, &layer(2)), CopiedData::Shared);
    assert_ne!(fs::metadata(store.place(&layer(2))).unwrap().ino(), SUBVOLUME_ROOT);

    store.remove(&layer(1)).unwrap();
    store.remove(&layer(2)).unwrap();
    assert!(store.settle(PATIENCE));
    assert_eq!(names(&pool.data()), [""; 0]);
}

#[test]
fn a_pool_is_made_once_mounted_at_will_and_hides_nothing() {
    if !has_private_mounts("layers::drivers::a_pool_is_made_once_mounted_at_will_and_hides_nothing") {
        return;
    }
    let scratch = scratch();
    let data = scratch.path().join("data");
    assert!(matches!(pool::create(&data, 1 << 20), Err(PoolError::TooSmall { .. })));
    assert!(matches!(pool::mount(&data), Err(PoolError::Absent { .. })));
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(data.join("precious"), "").unwrap();
    assert!(matches!(pool::create(&data, 512 << 20), Err(PoolError::NotEmpty { .. })));
    fs::remove_file(data.join("precious")).unwrap();
    assert!(!pool::is_mounted(&data).unwrap());
    pool::create(&data, 512 << 20).unwrap();
    let file = fs::metadata(pool::file(&data)).unwrap();
    assert_eq!((file.len(), file.permissions().mode() & 0o777), (512 << 20, 0o600));
    assert!(file.blocks() * 512 < 64 << 20, "it takes room as it fills");
    assert!(matches!(pool::create(&data, 512 << 20), Err(PoolError::Exists { .. })));

    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(data.join("precious"), "").unwrap();
    assert!(matches!(pool::mount(&data), Err(PoolError::NotEmpty { .. })));
    fs::remove_file(data.join("precious")).unwrap();
    assert!(!pool::abilities(&data).unwrap().btrfs);
    assert!(pool::mount(&data).unwrap());
    assert!(!pool::mount(&data).unwrap());
    assert_eq!(pool::abilities(&data).unwrap(), pool::Abilities { reflink: true, btrfs: true });
    assert!(pool::is_mounted(&data).unwrap());
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert_eq!(mounts.lines().filter(|line| line.contains(data.to_str().unwrap())).count(), 1);
    drop(world::open(&data, LayerDriver::Btrfs));
    world::run("umount", &[], &[&data]);
    assert!(!pool::is_mounted(&data).unwrap());
}

/// Layers that have no tree in common could stand either way round; by their age they stand as they
/// were put.
#[test]
fn a_stack_is_told_from_trees_that_each_name_a_part_of_it() {
    let scratch = scratch();
    let store = world::open(scratch.path(), LayerDriver::Overlay);
    for (number, trees) in [(1, &[0, 1][..]), (2, &[1]), (3, &[0]), (4, &[1]), (5, &[0, 1]), (6, &[0])] {
        for tree in trees {
            fs::create_dir_all(store.place(&layer(number)).join(format!("upper-{tree}"))).unwrap();
        }
        store.commit(&world::new(&layer(number), number.into())).unwrap();
    }
    let stack = Stack([6, 5, 4, 3, 2, 1].map(layer).into());
    let mut standing = root();
    store.stand_on(&stack, &mut standing).unwrap();
    assert_eq!(standing.iter().map(|tree| tree.lowers.len()).collect::<Vec<_>>(), [5, 5]);
    assert_eq!(store.stack_of(&standing), stack);

    let strange = |lower: &str| RootTree { lowers: vec![lower.into()], ..root().remove(0) };
    let layers = scratch.path().join("layers");
    let inside = |path: &str| layers.join(path).to_str().unwrap().to_owned();
    for lower in ["/", "/elsewhere/upper-0", &inside("no-layer/upper-0"), &inside(layer(1).as_str())] {
        assert_eq!(store.stack_of(&[strange(lower)]), Stack::default(), "{lower}");
    }
    assert!(Path::new(&inside(layer(1).as_str())).is_dir());
}
