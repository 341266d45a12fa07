use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::FlockOperation;
use warren_core::{LayerDriver, LayerErrorKind, LayerId, LayerStore as _, Stack};

use super::listing::list;
use super::world::{
    self, PATIENCE, area, has_private_mounts, keep, layer, lowers, names, root, run, scratch,
};

const CHILD: &str = "WARREN_TEST_LAYER_WRITER";
const ROUNDS: u64 = 12;

/// The test starts itself as a child that makes and removes layers and says what it has done, and
/// kills it at some moment.
#[test]
fn a_kill_leaves_whole_layers_and_nothing_to_clean_up() {
    if let Some(data) = env::var_os(CHILD) {
        work_until_killed(Path::new(&data));
        return;
    }
    let scratch = scratch();
    let area = area(scratch.path(), "busy");
    for number in 0..200 {
        fs::create_dir(area.join(format!("upper-0/{number}"))).unwrap();
        fs::write(area.join(format!("upper-0/{number}/file")), vec![1; 5000]).unwrap();
    }
    let original = list(&area.join("upper-0"));
    let (mut kept, mut half_made) = (BTreeSet::new(), 0);
    for round in 0..ROUNDS {
        let (committed, removing) = kill_a_worker(scratch.path(), Duration::from_millis(23 * round));
        half_made += names(scratch.path()).iter().filter(|name| name.starts_with('.')).count();
        let store = world::open(scratch.path(), LayerDriver::Overlay);
        assert!(store.settle(PATIENCE));
        assert!(
            names(scratch.path()).iter().all(|name| !name.starts_with('.')),
            "{:?}",
            names(scratch.path())
        );
        kept.extend(committed.difference(&removing).cloned());
        let listed = store.layers().unwrap();
        for id in &kept {
            assert!(listed.iter().any(|info| info.id == *id && info.committed), "{id} was acknowledged");
        }
        for info in listed.iter().filter(|info| info.committed) {
            assert_eq!(list(&store.place(&info.id).join("upper-0")), original, "{}", info.id);
        }
        for info in listed.iter().filter(|info| !info.committed || !kept.contains(&info.id)) {
            store.remove(&info.id).unwrap();
        }
    }
    assert!(kept.len() > 3 && half_made > 3, "{} layers, {half_made} left-overs", kept.len());
}

/// Which layers were committed, and which were about to be removed.
fn kill_a_worker(data: &Path, after: Duration) -> (BTreeSet<LayerId>, BTreeSet<LayerId>) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "layers::crash::a_kill_leaves_whole_layers_and_nothing_to_clean_up", "--nocapture"])
        .env(CHILD, data)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut committed, mut removing) = (BTreeSet::new(), BTreeSet::new());
    let mut killer = Some(move || {
        thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    });
    let mut running = None;
    for line in lines {
        let line = line.unwrap();
        if let Some(id) = line.strip_prefix("committed ") {
            committed.insert(id.parse().unwrap());
        } else if let Some(id) = line.strip_prefix("removing ") {
            removing.insert(id.parse().unwrap());
        } else {
            continue;
        }
        // The time counts from the first layer, not from the start of a program on a busy machine.
        running = running.or_else(|| killer.take().map(thread::spawn));
    }
    running.expect("the child works").join().unwrap();
    (committed, removing)
}

fn work_until_killed(data: &Path) {
    let store = world::open(data, LayerDriver::Overlay);
    let say = |what: &str, id: &LayerId| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n{what} {id}").and_then(|()| out.flush()).unwrap();
    };
    for turn in 0_u64.. {
        let mut bits = [0; 16];
        File::open("/dev/urandom")
            .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bits))
            .unwrap();
        let id = LayerId::from_random(bits);
        keep(&store, &data.join("sandboxes/busy"), &id);
        say("committed", &id);
        if turn % 4 != 0 {
            say("removing", &id);
            store.remove(&id).unwrap();
        }
    }
}

/// The disk at some moment while others write to it is the disk that a power cut leaves.
#[test]
fn what_was_synced_survives_a_power_cut() {
    if !has_private_mounts("layers::crash::what_was_synced_survives_a_power_cut") {
        return;
    }
    let scratch = scratch();
    let [image, cut, disk, found] = ["image", "cut", "disk", "found"].map(|name| scratch.path().join(name));
    File::create(&image).unwrap().set_len(128 << 20).unwrap();
    run("mkfs.ext4", &["-q"], &[&image]);
    fs::create_dir(&disk).unwrap();
    fs::create_dir(&found).unwrap();
    run("mount", &["-o", "loop"], &[&image, &disk]);

    let store = world::open(&disk, LayerDriver::Overlay);
    let area = area(&disk, "area");
    (0..50)
        .for_each(|number| fs::write(area.join(format!("upper-0/{number}")), vec![number; 50_000]).unwrap());
    let original = list(&area.join("upper-0"));
    for number in 1..=5 {
        keep(&store, &area, &layer(number));
        store.sync(&[layer(number)]).unwrap();
        // Not waited for.
        keep(&store, &area, &layer(100 + number));
        run("cp", &["--sparse=always"], &[&image, &cut]);
        run("mount", &["-o", "loop"], &[&cut, &found]);
        let after = world::open(&found, LayerDriver::Overlay);
        for number in 1..=number {
            assert_eq!(lowers(&after, &[&layer(number)])[0].len(), 2);
            assert_eq!(list(&after.place(&layer(number)).join("upper-0")), original);
        }
        drop(after);
        run("umount", &[], &[&found]);
    }
    drop(store);
    run("umount", &[], &[&disk]);
}

#[test]
fn a_damaged_layer_is_named_and_harms_no_other() {
    let scratch = scratch();
    let area = area(scratch.path(), "area");
    let store = world::open(scratch.path(), LayerDriver::Overlay);
    for number in 1..=4 {
        keep(&store, &area, &layer(number));
    }
    drop(store);
    let manifest = |number| scratch.path().join("layers").join(layer(number).as_str()).join("manifest.json");
    let whole = fs::read(manifest(1)).unwrap();
    fs::write(manifest(1), &whole[..whole.len() / 2]).unwrap();
    fs::write(manifest(2), "").unwrap();
    fs::write(manifest(3), r#"{"format":2,"secret":"of the future"}"#).unwrap();

    let store = world::open(scratch.path(), LayerDriver::Overlay);
    for (number, kind) in
        [(1, LayerErrorKind::Damaged), (2, LayerErrorKind::Damaged), (3, LayerErrorKind::Invalid)]
    {
        let stack = Stack(vec![layer(4), layer(number)]);
        let mut standing = root();
        let error = store.stand_on(&stack, &mut standing).unwrap_err();
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(error.to_string().contains(layer(number).as_str()), "{error}");
        assert!(!format!("{error:?}").contains("/var/tmp"), "{error:?}");
        assert_eq!(standing, root());
    }
    assert_eq!(lowers(&store, &[&layer(4)])[0].len(), 2);
    let committed: BTreeSet<_> =
        store.layers().unwrap().into_iter().filter(|info| info.committed).map(|info| info.id).collect();
    assert_eq!(
        committed,
        BTreeSet::from([layer(3), layer(4)]),
        "what a newer version made is not ours to judge"
    );
    assert_eq!(store.commit(&world::new(&layer(3), 1)).unwrap_err().kind, LayerErrorKind::Invalid);
}

#[test]
fn what_a_living_process_makes_is_left_alone() {
    let scratch = scratch();
    let held = scratch.path().join("layers/.staging-ours");
    fs::create_dir_all(held.join("layer/upper-0")).unwrap();
    let lock = File::open(&held).unwrap();
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let store = world::open(scratch.path(), LayerDriver::Overlay);
    assert!(store.settle(PATIENCE));
    assert_eq!(names(scratch.path()), [".staging-ours"]);
    assert_eq!(store.layers().unwrap(), []);
    drop(lock);
    drop(store);
    let store = world::open(scratch.path(), LayerDriver::Overlay);
    assert!(store.settle(PATIENCE));
    assert_eq!(names(scratch.path()), [""; 0]);
}
