//! The duties of every driver, checked through the port. A new driver is one more call of
//! [`conformance`].

use std::fs;
use std::path::{Path, PathBuf};

use warren_core::{CopiedData, LayerDriver, LayerErrorKind, LayerInfo, LayerStore, Stack};
use warren_store::LayerDirectory;

use super::listing::list;
use super::world::{
    self, PATIENCE, Pool, area, has_private_mounts, keep, layer, lowers, names, root, scratch, subvolume_area,
};

/// The parts that a driver is tried with.
pub(crate) struct Subject<'a> {
    data: &'a Path,
    driver: LayerDriver,
    /// Makes a sandbox's directory as the driver likes it.
    area: fn(&Path, &str) -> PathBuf,
    expected: CopiedData,
}

#[test]
fn the_overlay_driver_conforms() {
    let scratch = scratch();
    let data = scratch.path();
    conformance(&Subject { data, driver: LayerDriver::Overlay, area, expected: CopiedData::Bytes });
}

#[test]
fn the_reflink_driver_conforms() {
    if has_private_mounts("layers::conformance::the_reflink_driver_conforms") {
        let pool = Pool::new();
        let data = &pool.data();
        conformance(&Subject { data, driver: LayerDriver::Reflink, area, expected: CopiedData::Shared });
    }
}

#[test]
fn the_btrfs_driver_conforms() {
    if has_private_mounts("layers::conformance::the_btrfs_driver_conforms") {
        let pool = Pool::new();
        let data = &pool.data();
        let area = subvolume_area;
        conformance(&Subject { data, driver: LayerDriver::Btrfs, area, expected: CopiedData::Shared });
    }
}

pub(crate) fn conformance(subject: &Subject<'_>) {
    let store = world::open(subject.data, subject.driver);
    assert_eq!(store.driver(), subject.driver);
    a_copy_equals_its_original_and_does_not_change_with_it(subject, &store);
    a_sealed_layer_is_committed_where_it_lies(subject, &store);
    layers_stand_on_one_another_and_are_told_apart_again(subject, &store);
    what_is_not_committed_is_no_layer(subject, &store);
    space_is_counted_once_and_within_bounds(subject, &store);
    layers_are_synced(&store);
    what_is_removed_is_gone(subject, &store);
    drop(store);
    a_store_opened_again_knows_its_layers_and_reclaims_the_rest(subject);
}

fn a_copy_equals_its_original_and_does_not_change_with_it(subject: &Subject<'_>, store: &LayerDirectory) {
    let area = (subject.area)(subject.data, "copied");
    fs::create_dir(area.join("upper-0/etc")).unwrap();
    fs::write(area.join("upper-0/etc/motd"), "good day").unwrap();
    fs::write(area.join("upper-1/big"), vec![7; 1 << 20]).unwrap();
    let before = ["upper-0", "upper-1"].map(|upper| list(&area.join(upper)));

    assert_eq!(keep(store, &area, &layer(1)), subject.expected);
    let place = store.place(&layer(1));
    let copy = || ["upper-0", "upper-1"].map(|upper| list(&place.join(upper)));
    assert_eq!(copy(), before);
    let mut inside: Vec<_> = fs::read_dir(&place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    inside.sort();
    assert_eq!(inside, ["manifest.json", "stamps", "upper-0", "upper-1"], "and nothing else of the sandbox");

    fs::write(area.join("upper-0/etc/motd"), "changed").unwrap();
    fs::write(area.join("upper-1/big"), vec![8; 1 << 20]).unwrap();
    fs::remove_dir_all(area.join("upper-0/etc")).unwrap();
    assert_eq!(copy(), before);
    let again = world::copy(store, &area, &layer(1)).unwrap_err();
    assert_eq!(again.kind, LayerErrorKind::Invalid, "a layer is made once: {again:?}");
    assert_eq!(copy(), before);
}

fn a_sealed_layer_is_committed_where_it_lies(subject: &Subject<'_>, store: &LayerDirectory) {
    let area = (subject.area)(subject.data, "sealed");
    fs::write(area.join("upper-0/note"), "kept").unwrap();
    let place = store.place(&layer(2));
    fs::create_dir(&place).unwrap();
    // What a backend does when all is on one volume; across volumes it copies.
    if fs::rename(area.join("upper-0"), place.join("upper-0")).is_err() {
        fs::create_dir(place.join("upper-0")).unwrap();
        fs::write(place.join("upper-0/note"), "kept").unwrap();
    }
    store.commit(&world::new(&layer(2), 2)).unwrap();
    let manifest = fs::read(place.join("manifest.json")).unwrap();
    store.commit(&world::new(&layer(2), 99)).unwrap();
    assert_eq!(fs::read(place.join("manifest.json")).unwrap(), manifest, "committed once");
}

fn layers_stand_on_one_another_and_are_told_apart_again(subject: &Subject<'_>, store: &LayerDirectory) {
    let upper = |number: u8, tree: u32| store.place(&layer(number)).join(format!("upper-{tree}"));
    let found = lowers(store, &[&layer(2), &layer(1)]);
    assert_eq!(found[0], [upper(2, 0), upper(1, 0), "/template".into()]);
    assert_eq!(found[1], [upper(1, 1), "/template/usr".into()], "the second has nothing for this tree");
    assert_eq!(fs::read_to_string(found[0][0].join("note")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(found[0][1].join("etc/motd")).unwrap(), "good day");

    let mut standing = root();
    let stack = Stack(vec![layer(2), layer(1)]);
    store.stand_on(&stack, &mut standing).unwrap();
    assert_eq!(store.stack_of(&standing), stack);
    assert_eq!(store.stack_of(&root()), Stack::default());
    let other = world::open(subject.data, LayerDriver::Overlay);
    assert_eq!(other.stack_of(&standing), stack, "to one that has not read a manifest yet");

    let mut short = root();
    short.truncate(1);
    let error = store.stand_on(&Stack(vec![layer(1)]), &mut short).unwrap_err();
    assert_eq!(error.kind, LayerErrorKind::Invalid, "{error:?}");
    assert_eq!(short, root()[..1], "a refusal leaves the root as it was");
}

fn what_is_not_committed_is_no_layer(subject: &Subject<'_>, store: &LayerDirectory) {
    let area = (subject.area)(subject.data, "uncommitted");
    world::copy(store, &area, &layer(3)).unwrap();
    for (id, committed) in [(layer(3), Some(false)), (layer(9), None)] {
        for error in [
            store.stand_on(&Stack(vec![layer(1), id.clone()]), &mut root()).unwrap_err(),
            store.sync(std::slice::from_ref(&id)).unwrap_err(),
            store.space(&id, None).unwrap_err(),
        ] {
            assert_eq!(error.kind, LayerErrorKind::NotFound, "{error:?}");
            assert!(error.to_string().contains(id.as_str()), "{error}");
        }
        let listed = store.layers().unwrap().into_iter().find(|info| info.id == id);
        assert_eq!(listed.map(|info| info.committed), committed);
    }
    assert_eq!(store.commit(&world::new(&layer(9), 1)).unwrap_err().kind, LayerErrorKind::NotFound);
}

fn space_is_counted_once_and_within_bounds(subject: &Subject<'_>, store: &LayerDirectory) {
    let area = (subject.area)(subject.data, "counted");
    fs::write(area.join("upper-0/one"), vec![1; 100_000]).unwrap();
    fs::hard_link(area.join("upper-0/one"), area.join("upper-0/other")).unwrap();
    fs::File::create(area.join("upper-0/sparse")).unwrap().set_len(1 << 30).unwrap();
    keep(store, &area, &layer(4));
    store.sync(&[layer(4)]).unwrap();
    assert_eq!(store.space(&layer(4), Some(2)).unwrap(), None, "there are three entries");
    let space = store.space(&layer(4), Some(3)).unwrap().unwrap();
    assert_eq!(space.inodes, 4, "two roots and two files");
    assert!((100_000..200_000).contains(&space.bytes), "{space:?}");
    fs::write(store.place(&layer(4)).join("upper-0/new"), "nobody does this").unwrap();
    assert_eq!(store.space(&layer(4), Some(0)).unwrap(), Some(space), "it is remembered");
    fs::write(store.place(&layer(4)).join("space.json"), "garbled").unwrap();
    assert_eq!(store.space(&layer(4), None).unwrap().unwrap().inodes, 5, "or counted again");
}

fn layers_are_synced(store: &LayerDirectory) {
    store.sync(&[]).unwrap();
    std::thread::scope(|scope| {
        let all = || store.sync(&[layer(1), layer(2), layer(4)]).unwrap();
        (0..8).for_each(|_| drop(scope.spawn(all)));
    });
}

fn what_is_removed_is_gone(subject: &Subject<'_>, store: &LayerDirectory) {
    store.remove(&layer(4)).unwrap();
    assert!(!store.place(&layer(4)).exists());
    let error = store.stand_on(&Stack(vec![layer(4)]), &mut root()).unwrap_err();
    assert_eq!(error.kind, LayerErrorKind::NotFound);
    store.remove(&layer(4)).unwrap();
    store.remove(&layer(9)).unwrap();
    assert!(store.settle(PATIENCE));
    let left = [1, 2, 3].map(|number| layer(number).to_string());
    assert_eq!(names(subject.data), left, "nothing of it is left");
}

fn a_store_opened_again_knows_its_layers_and_reclaims_the_rest(subject: &Subject<'_>) {
    let layers = subject.data.join("layers");
    for left in [".staging-0123/layer/upper-0/half", ".trash-layer-x/upper-0/a/b/c"] {
        fs::create_dir_all(layers.join(left)).unwrap();
        fs::write(layers.join(left).join("file"), "left").unwrap();
    }
    let other = world::open(subject.data, subject.driver);
    let store = world::open(subject.data, subject.driver);
    assert!(store.settle(PATIENCE) && other.settle(PATIENCE));
    assert_eq!(names(subject.data), [1, 2, 3].map(|number| layer(number).to_string()));
    let mut infos = store.layers().unwrap();
    infos.sort_by(|one, other| one.id.cmp(&other.id));
    let info = |number, committed| LayerInfo { id: layer(number), committed };
    assert_eq!(infos, [info(1, true), info(2, true), info(3, false)]);
    assert_eq!(lowers(&store, &[&layer(1)])[0].len(), 2);
}
