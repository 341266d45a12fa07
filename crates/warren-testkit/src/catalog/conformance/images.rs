use warren_core::catalog::{Catalog, CatalogErrorKind, Durability, ImageRoom};
use warren_core::{BuildId, ImageRecord, KeptStep, NodeId, SnapshotId, SnapshotReason, SnapshotRecord};

use super::super::records::{bits, sample_image, sample_snapshot};
use super::{Check, ann, bob, here, kind};

pub(super) const CHECKS: &[Check] = &[
    an_image_is_found_by_its_owner_alone_by_name_and_by_id,
    a_name_and_an_id_are_given_once,
    an_image_is_changed_by_who_knows_its_last_state,
    images_are_listed_and_counted,
    images_that_are_being_built_are_found,
    snapshots_of_images_are_told_from_others,
    steps_are_kept_in_the_order_of_their_use,
];

fn an_image_is_found_by_its_owner_alone_by_name_and_by_id(catalog: &dyn Catalog) {
    let image = sample_image(&ann(), Some("app"), 1);
    // Another is called by the id of the first.
    let other = sample_image(&ann(), Some(image.id.as_str()), 2);
    assert_eq!(catalog.image(&ann(), "app").expect("a query"), None);
    for record in [&image, &other] {
        catalog.insert_image(record).expect("it is new");
    }
    assert_eq!(catalog.image(&ann(), "app").expect("a query"), Some(image.clone()));
    assert_eq!(catalog.image(&ann(), other.id.as_str()).expect("a query"), Some(other.clone()));
    assert_eq!(catalog.image(&ann(), image.id.as_str()).expect("a query"), Some(other), "names come first");
    assert_eq!(catalog.image(&bob(), "app").expect("a query"), None);
    assert_eq!(catalog.images(&bob()).expect("a query"), []);
}

fn a_name_and_an_id_are_given_once(catalog: &dyn Catalog) {
    let image = sample_image(&ann(), Some("app"), 1);
    catalog.insert_image(&image).expect("it is new");
    let renamed = ImageRecord { name: None, ..image.clone() };
    assert_eq!(kind(catalog.insert_image(&renamed)), CatalogErrorKind::AlreadyExists);
    let named = sample_image(&ann(), Some("app"), 2);
    assert_eq!(kind(catalog.insert_image(&named)), CatalogErrorKind::AlreadyExists);
    for number in [3, 4] {
        catalog.insert_image(&sample_image(&ann(), None, number)).expect("no name is taken");
    }
    catalog.insert_image(&sample_image(&bob(), Some("app"), 1)).expect("names are each owner's own");
}

fn an_image_is_changed_by_who_knows_its_last_state(catalog: &dyn Catalog) {
    let first = sample_image(&ann(), Some("app"), 1);
    assert_eq!(kind(catalog.remove_image(&first)), CatalogErrorKind::NotFound);
    catalog.insert_image(&first).expect("it is new");
    let second = ImageRecord { generation: 2, build_count: 7, ..first.clone() };
    catalog.update_image(&second).expect("it follows");
    assert_eq!(kind(catalog.update_image(&second)), CatalogErrorKind::Stale);
    assert_eq!(kind(catalog.remove_image(&first)), CatalogErrorKind::Stale);
    assert_eq!(catalog.image(&ann(), "app").expect("a query"), Some(second.clone()));
    let theirs = ImageRecord { owner: bob(), generation: 3, ..second.clone() };
    assert_eq!(kind(catalog.update_image(&theirs)), CatalogErrorKind::NotFound);
    catalog.remove_image(&second).expect("it is as it was read");
    assert_eq!(catalog.image(&ann(), "app").expect("a query"), None);
    let third = ImageRecord { generation: 3, ..second };
    assert_eq!(kind(catalog.update_image(&third)), CatalogErrorKind::NotFound);
}

fn images_are_listed_and_counted(catalog: &dyn Catalog) {
    assert_eq!(catalog.room_of_images(&ann()).expect("a query"), ImageRoom::default());
    let images = [1, 2, 3].map(|number| sample_image(&ann(), None, number));
    for image in &images {
        catalog.insert_image(image).expect("it is new");
    }
    catalog.insert_image(&sample_image(&bob(), None, 9)).expect("it is new");
    let [one, two, three] = images;
    assert_eq!(catalog.images(&ann()).expect("a query"), [three, two, one], "the newest first");
    let room = catalog.room_of_images(&ann()).expect("a query");
    assert!(room.images == 3 && (300..30_000).contains(&room.bytes), "{room:?}");
}

fn images_that_are_being_built_are_found(catalog: &dyn Catalog) {
    let mut image = sample_image(&ann(), Some("app"), 1);
    let build = BuildId::from_random(bits(8));
    image.announce(build.clone(), vec!["default".to_owned()], 5);
    catalog.insert_image(&image).expect("it is new");
    assert_eq!(catalog.images_being_built().expect("a query"), []);
    image.begin(&build, &here()).expect("it waits");
    image.generation += 1;
    catalog.update_image(&image).expect("it follows");
    assert_eq!(catalog.images_being_built().expect("a query"), [image.clone()]);
    image.abandon(&here(), "stopped");
    image.generation += 1;
    catalog.update_image(&image).expect("it follows");
    assert_eq!(catalog.images_being_built().expect("a query"), []);
}

fn snapshots_of_images_are_told_from_others(catalog: &dyn Catalog) {
    let name = |name: &str| Some(name.to_owned());
    let of_image =
        SnapshotRecord { reason: SnapshotReason::Image, name: name("image 1"), ..sample_snapshot(&ann(), 1) };
    let elsewhere = SnapshotRecord {
        id: SnapshotId::from_random(bits(4)),
        node: NodeId::from_random(bits(9)),
        name: name("image 4"),
        ..of_image.clone()
    };
    let theirs = sample_snapshot(&bob(), 3);
    let others = [SnapshotRecord { name: name("image 2"), ..sample_snapshot(&ann(), 2) }, theirs, elsewhere];
    for record in others.iter().chain([&of_image]) {
        catalog.insert_snapshots(std::slice::from_ref(record), Durability::Disk).expect("it is new");
    }
    assert_eq!(catalog.snapshots_of_images(&here()).expect("a query"), [of_image]);
}

fn steps_are_kept_in_the_order_of_their_use(catalog: &dyn Catalog) {
    let step = |key: &str, used_unix_ms: u64| {
        let image = sample_image(&ann(), None, 1);
        let built = image.built("default").expect("it is ready").clone();
        KeptStep { key: key.to_owned(), snapshot: built.snapshot, context: built.context, used_unix_ms }
    };
    for (key, used) in [("a", 1), ("b", 2), ("c", 3), ("a", 4)] {
        catalog.keep_step(&ann(), &step(key, used)).expect("a change");
    }
    catalog.keep_step(&bob(), &step("a", 9)).expect("a change");
    assert_eq!(catalog.kept_steps(&ann()).expect("a query"), [step("b", 2), step("c", 3), step("a", 4)]);
    catalog.forget_step(&ann(), "c").expect("a change");
    catalog.forget_step(&ann(), "none").expect("nothing to do");
    assert_eq!(catalog.kept_steps(&ann()).expect("a query"), [step("b", 2), step("a", 4)]);
    assert_eq!(catalog.kept_steps(&bob()).expect("a query"), [step("a", 9)]);
}
