use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use warren_core::catalog::{
    CatalogErrorKind, Durability, SandboxCatalog as _, SessionCatalog as _, UpdateSessionError,
};
use warren_core::{Owner, RunDenied, SandboxRecord};
use warren_store::SqliteCatalog;
use warren_testkit::sample_node;

use super::{TestCatalog, insert, new};

#[test]
fn readers_do_not_wait_for_a_long_change() {
    let catalog = TestCatalog::new();
    let new = new(1);
    catalog.insert(new.clone()).unwrap();
    let (started, running) = mpsc::channel();
    let (finish, finished) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let (catalog, id) = (&*catalog, &new.session.id);
        scope.spawn(move || {
            let mut change = move |record: &mut warren_core::SessionRecord| {
                record.client = "changed".to_owned();
                started.send(()).unwrap();
                finished.recv().unwrap();
                Ok(None)
            };
            catalog.update_session(&Owner::first(), id, Durability::Disk, &mut change).unwrap();
        });
        running.recv().unwrap();
        let (answer, answers) = mpsc::channel();
        scope.spawn(move || answer.send(catalog.session(&Owner::first(), id).unwrap().unwrap()).unwrap());
        let seen = answers.recv_timeout(Duration::from_secs(60)).expect("the reader is not kept waiting");
        assert_eq!(seen.client, "client", "nothing is seen before it is committed");
        finish.send(()).unwrap();
    });
    let seen = catalog.session(&Owner::first(), &new.session.id).unwrap().unwrap();
    assert_eq!(seen.client, "changed");
}

#[test]
fn a_change_that_fails_takes_no_neighbour_along() {
    let catalog = TestCatalog::new();
    let sessions: Vec<_> = (1..=8).map(new).collect();
    for new in &sessions {
        catalog.insert(new.clone()).unwrap();
    }
    let outcomes: Vec<Vec<bool>> = thread::scope(|scope| {
        let worker = |index: usize| {
            let (catalog, id) = (&*catalog, &sessions[index].session.id);
            move || {
                let change = |turn: u64| {
                    catalog.update_session(&Owner::first(), id, Durability::Process, &mut |record| {
                        record.last_activity_unix_ms = turn;
                        record.totals.tokens += 1;
                        if turn.is_multiple_of(3) { Err(RunDenied::OutOfRuns) } else { Ok(None) }
                    })
                };
                (1..=60)
                    .map(|turn| match change(turn) {
                        Ok(_) => true,
                        Err(UpdateSessionError::Denied(_)) => false,
                        Err(UpdateSessionError::Catalog(error)) => panic!("{error:?}"),
                    })
                    .collect()
            }
        };
        let workers: Vec<_> = (0..8).map(|index| scope.spawn(worker(index))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    for (new, outcomes) in sessions.iter().zip(outcomes) {
        let done = outcomes.iter().filter(|done| **done).count() as u64;
        let record = catalog.session(&Owner::first(), &new.session.id).unwrap().unwrap();
        assert_eq!((done, record.totals.tokens, record.last_activity_unix_ms), (40, 40, 59));
    }
}

#[test]
fn a_panic_in_a_change_is_its_callers_alone() {
    let catalog = TestCatalog::new();
    let new = new(1);
    catalog.insert(new.clone()).unwrap();
    thread::scope(|scope| {
        let (catalog, id) = (&*catalog, &new.session.id);
        let died = scope.spawn(move || {
            let mut change = |_: &mut warren_core::SessionRecord| panic!("the caller's own");
            drop(catalog.update_session(&Owner::first(), id, Durability::Process, &mut change));
        });
        died.join().expect_err("the panic goes on");
    });
    insert(&catalog, 2);
    assert_eq!(catalog.open_sessions(&sample_node()).unwrap().len(), 2);
}

#[test]
fn another_program_that_holds_the_database_is_waited_for_but_not_for_ever() {
    let data = tempfile::tempdir().unwrap();
    let catalog = SqliteCatalog::open(data.path()).unwrap();
    insert(&catalog, 1);
    let other = Connection::open(data.path().join("catalog.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = Instant::now();
    thread::scope(|scope| {
        let catalog = &catalog;
        let writers: Vec<_> =
            (2..=6).map(|number| scope.spawn(move || catalog.insert(new(number)))).collect();
        assert_eq!(catalog.unfinished_sandboxes(&sample_node()).unwrap().len(), 1, "readers go on");
        for writer in writers {
            let error = writer.join().unwrap().unwrap_err();
            let warren_core::catalog::InsertError::Catalog(error) = error else { panic!("{error:?}") };
            assert_eq!(error.kind, CatalogErrorKind::Busy, "{error:?}");
        }
    });
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(4) && waited < Duration::from_secs(60), "{waited:?}");
    other.execute_batch("ROLLBACK").unwrap();
    insert(&catalog, 7);

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| insert(&catalog, 8));
        thread::sleep(Duration::from_millis(300));
        other.execute_batch("COMMIT").unwrap();
        waiting.join().unwrap();
    });
    assert_eq!(catalog.unfinished_sandboxes(&sample_node()).unwrap().len(), 3);
}

#[test]
fn changes_that_wait_together_are_committed_together() {
    let data = tempfile::tempdir().unwrap();
    let catalog = SqliteCatalog::open(data.path()).unwrap();
    let first = new(1);
    catalog.insert(first.clone()).unwrap();
    let before = commits(&data.path().join("catalog.db-wal"));
    let (started, running) = mpsc::channel();
    let coming = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (catalog, id, coming) = (&catalog, &first.session.id, &coming);
        scope.spawn(move || {
            let mut change = |_: &mut warren_core::SessionRecord| {
                started.send(()).unwrap();
                while coming.load(Ordering::Relaxed) < 32 {
                    thread::sleep(Duration::from_millis(5));
                }
                // The last of them has begun to call, and not yet to wait.
                thread::sleep(Duration::from_millis(500));
                Ok(None)
            };
            catalog.update_session(&Owner::first(), id, Durability::Disk, &mut change).unwrap();
        });
        running.recv().unwrap();
        for number in 2..=33 {
            scope.spawn(move || {
                coming.fetch_add(1, Ordering::Relaxed);
                insert(catalog, number)
            });
        }
    });
    assert_eq!(catalog.unfinished_sandboxes(&sample_node()).unwrap().len(), 33);
    let commits = commits(&data.path().join("catalog.db-wal")) - before;
    assert!((1..=8).contains(&commits), "{commits} commits for 33 changes");
}

/// Transactions in SQLite's log: each ends with a frame that says how large the database is then.
fn commits(log: &Path) -> usize {
    const HEADER: usize = 32;
    const FRAME: usize = 24 + 4096;
    let log = fs::read(log).unwrap();
    log[HEADER..].chunks_exact(FRAME).filter(|frame| frame[4..8] != [0; 4]).count()
}

/// Far below what a quiet machine does; the figures are in docs/decisions/0013.
#[test]
fn eight_threads_are_served_fast() {
    let alone = (rate(1, Durability::Process, 2000), rate(1, Durability::Disk, 200));
    let eight = (rate(8, Durability::Process, 2000), rate(8, Durability::Disk, 200));
    println!(
        "updates/s that outlive the process, and a power cut: alone {alone:.0?}, eight threads {eight:.0?}"
    );
    assert!(eight.0 > 100.0, "{eight:?}");
}

/// Updates in a second.
fn rate(threads: u32, durability: Durability, updates: u64) -> f64 {
    let catalog = TestCatalog::new();
    let records: Vec<SandboxRecord> = (1..=threads).map(|number| insert(&catalog, number)).collect();
    let started = Instant::now();
    thread::scope(|scope| {
        for mut record in records {
            let catalog = &*catalog;
            scope.spawn(move || {
                for generation in 2..2 + updates {
                    record.generation = generation;
                    catalog.update_sandbox(&record, durability).unwrap();
                }
            });
        }
    });
    (updates * u64::from(threads)) as f64 / started.elapsed().as_secs_f64()
}
