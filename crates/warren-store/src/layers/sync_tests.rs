use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::CWD;
use warren_core::{LayerStore as _, NewLayer};

use super::*;
use crate::TemplateStore;

#[test]
fn those_who_wait_share_a_round_and_never_join_one_under_way() {
    let durability = Durability::default();
    let disk = File::open("/var/tmp").unwrap();
    {
        let mut rounds = durability.rounds.lock();
        (rounds.running, rounds.begun) = (true, 1);
    }
    let callers = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                callers.fetch_add(1, Ordering::Relaxed);
                durability.round(disk.as_fd()).unwrap();
                assert!(durability.rounds.lock().done >= 2, "the first began before the call");
            });
        }
        while callers.load(Ordering::Relaxed) < 16 {
            thread::sleep(Duration::from_millis(5));
        }
        // The last of them has begun to call, and not yet to wait.
        thread::sleep(Duration::from_millis(300));
        let mut rounds = durability.rounds.lock();
        assert_eq!(rounds.begun, 1);
        (rounds.running, rounds.done) = (false, 1);
        drop(rounds);
        durability.changed.notify_all();
    });
    let begun = durability.rounds.lock().begun;
    assert!((2..8).contains(&begun), "{begun} rounds for 16 callers");
}

#[test]
fn after_a_failure_nobody_is_told_that_what_was_unwritten_then_is_safe() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut store =
        LayerDirectory::open(scratch.path(), TemplateStore::open(scratch.path()).unwrap()).unwrap();
    let ids = [1, 2, 3, 4].map(|number| LayerId::from_random([number; 16]));
    let make = |store: &LayerDirectory, id: &LayerId| {
        std::fs::create_dir_all(store.place(id).join("upper-0")).unwrap();
        store.commit(&NewLayer { id: id.clone(), sandbox: None, created_unix_ms: 1 }).unwrap();
    };
    ids[..3].iter().for_each(|id| make(&store, id));
    store.sync(&ids[..1]).unwrap();

    // The kernel writes nothing through a descriptor that only names a directory.
    let working = std::mem::replace(&mut store.directory, only_named(&scratch.path().join("layers")));
    assert_eq!(store.sync(&ids[1..2]).unwrap_err().kind, LayerErrorKind::Host);
    store.directory = working;
    for doubtful in &ids[1..3] {
        let error = store.sync(std::slice::from_ref(doubtful)).unwrap_err();
        assert_eq!(error.kind, LayerErrorKind::Damaged, "{error:?}");
        assert!(error.to_string().contains(doubtful.as_str()), "{error}");
    }
    store.sync(&ids[..1]).unwrap();
    make(&store, &ids[3]);
    store.sync(&ids[3..]).unwrap();
}

fn only_named(path: &Path) -> std::os::fd::OwnedFd {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}
