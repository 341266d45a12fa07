use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use warren_core::catalog::{
    Durability, EventLog as _, NodeCatalog as _, SandboxCatalog as _, SessionCatalog as _,
};
use warren_core::{Event, EventRecord, NewRun, Owner, RunId, RunLimits, SessionId, record_run};
use warren_store::SqliteCatalog;
use warren_testkit::{FakeClock, sample_node};

use super::new;
use super::upgrade::{FIRST_VERSION_EVENTS, first_version};

const CHILD: &str = "WARREN_TEST_CATALOG_WRITER";
const ROUNDS: u32 = 8;
const WRITERS: u32 = 4;

/// The test starts itself as a child that writes and says what was acknowledged, and kills it at
/// some moment.
#[test]
fn what_was_acknowledged_survives_a_kill() {
    if let Some(data) = env::var_os(CHILD) {
        write_until_killed(Path::new(&data));
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let mut acknowledged: BTreeMap<SessionId, u32> = BTreeMap::new();
    for round in 0..ROUNDS {
        acknowledged.extend(kill_a_writer(data.path(), Duration::from_millis(u64::from(60 + 37 * round))));
        let catalog = SqliteCatalog::open(data.path()).unwrap();
        for (id, runs) in &acknowledged {
            let session = catalog.session(&Owner::first(), id).unwrap().expect("it was acknowledged");
            let recorded = catalog.runs(&Owner::first(), id).unwrap();
            assert!(session.totals.runs >= *runs, "{} of {runs} runs are left", session.totals.runs);
            assert_eq!(recorded.len(), session.totals.runs as usize, "a sum and its parts are one change");
            let tokens: u64 = recorded.iter().map(|run| run.run.tokens).sum();
            assert_eq!(tokens, session.totals.tokens);
            let sandbox = catalog.sandbox(&Owner::first(), &session.sandbox).unwrap().expect("both or none");
            let name = sandbox.name.expect("it was given one");
            let holder = catalog.sandbox_named(&Owner::first(), &name).unwrap();
            assert_eq!(holder, Some(sandbox.id), "what was acknowledged has its name");
        }
    }
    let runs: u32 = acknowledged.values().sum();
    assert!(acknowledged.len() >= ROUNDS as usize && runs > 20, "{runs} runs are too few to show anything");
}

/// How many runs of which session were acknowledged before the end.
fn kill_a_writer(data: &Path, after: Duration) -> BTreeMap<SessionId, u32> {
    let mut acknowledged = BTreeMap::new();
    kill_child("what_was_acknowledged_survives_a_kill", data, after, |line| {
        let (id, runs) = line.strip_prefix("acknowledged ")?.split_once(' ')?;
        acknowledged.insert(id.parse::<SessionId>().unwrap(), runs.parse::<u32>().unwrap());
        Some(())
    });
    acknowledged
}

/// Runs a test of this file in a child, and kills that some time after the first line of output
/// that `note` knows. A busy machine may take long to start a program, so time counts from there.
fn kill_child(test: &str, data: &Path, after: Duration, mut note: impl FnMut(&str) -> Option<()>) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("catalog::crash::{test}"), "--nocapture"])
        .env(CHILD, data)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while note(&lines.next().expect("the child writes").unwrap()).is_none() {}
    let killer = thread::spawn(move || {
        thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    });
    for line in lines {
        note(&line.unwrap());
    }
    killer.join().unwrap();
}

fn write_until_killed(data: &Path) {
    let catalog = SqliteCatalog::open(data).unwrap();
    let first = catalog.open_sessions(&sample_node()).unwrap().len();
    let first = u32::try_from(first).unwrap() * 100;
    let output = Mutex::new(std::io::stdout());
    thread::scope(|scope| {
        for writer in 1..=WRITERS {
            let (catalog, output) = (&catalog, &output);
            scope.spawn(move || {
                for number in (0..1000).map(|turn| first + turn * WRITERS + writer) {
                    record_runs(catalog, number, &|line| writeln!(output.lock().unwrap(), "{line}").unwrap());
                }
            });
        }
    });
}

fn record_runs(catalog: &SqliteCatalog, number: u32, say: &dyn Fn(&str)) {
    let mut records = new(number);
    records.session.limits = RunLimits { runs: 1000, tokens: u64::MAX, ..RunLimits::default() };
    records.sandbox.name = format!("web-{number}").parse().ok();
    let id = records.session.id.clone();
    if catalog.session(&Owner::first(), &id).unwrap().is_some() {
        return;
    }
    catalog.insert(records).unwrap();
    say(&format!("acknowledged {id} 0"));
    let clock = FakeClock::new();
    for turn in 1..=30_u32 {
        let durability = if turn % 10 == 0 { Durability::Disk } else { Durability::Process };
        let run = NewRun {
            task: "t".repeat(500),
            result: None,
            duration_ms: 1,
            tokens: u64::from(turn),
            screenshots: Vec::new(),
            provider: None,
        };
        let bits = (u128::from(number) << 64 | u128::from(turn)).to_be_bytes();
        catalog
            .update_session(&Owner::first(), &id, durability, &mut |record| {
                record_run(record, RunId::from_random(bits), run.clone(), &clock).map(Some)
            })
            .unwrap();
        say(&format!("acknowledged {id} {turn}"));
    }
}

#[test]
fn no_kill_makes_an_event_number_come_twice() {
    if let Some(data) = env::var_os(CHILD) {
        append_until_killed(Path::new(&data));
    }
    let data = tempfile::tempdir().unwrap();
    let mut given = BTreeSet::new();
    for round in 0..ROUNDS {
        let after = Duration::from_millis(u64::from(20 + 17 * round));
        kill_child("no_kill_makes_an_event_number_come_twice", data.path(), after, |line| {
            for number in line.strip_prefix("given ")?.split(' ') {
                assert!(given.insert(number.parse::<u64>().unwrap()), "{number} was given before");
            }
            Some(())
        });
        let catalog = SqliteCatalog::open(data.path()).unwrap();
        let last = catalog.last_event().unwrap();
        assert!(Some(&last) >= given.last(), "{last} is not the last");
        let next = catalog.append_events(&[event()]).unwrap();
        assert_eq!(next, [last + 1]);
        given.extend(next);
    }
}

/// Says each number that was given. Events are forgotten all the time: what is left in the table
/// does not tell the next number.
fn append_until_killed(data: &Path) -> ! {
    let catalog = SqliteCatalog::open(data).unwrap();
    let mut output = std::io::stdout();
    loop {
        let numbers = catalog.append_events(&[event(), event(), event()]).unwrap();
        writeln!(output, "given {} {} {}", numbers[0], numbers[1], numbers[2]).unwrap();
        if numbers[2].is_multiple_of(2) {
            catalog.forget_events(u64::MAX).unwrap();
        }
    }
}

fn event() -> EventRecord {
    let (owner, event) = (Owner::first(), Event::SandboxRemoved);
    EventRecord { number: 0, at_unix_ms: 1, owner, sandbox: None, session: None, event }
}

/// Many sandboxes make the migrations take long enough for kills in their midst.
#[test]
fn a_kill_at_any_moment_of_a_migration_loses_nothing() {
    if let Some(data) = env::var_os(CHILD) {
        writeln!(std::io::stdout(), "opening").unwrap();
        drop(SqliteCatalog::open(Path::new(&data)).unwrap());
        return;
    }
    const SANDBOXES: u32 = 2000;
    let old = tempfile::tempdir().unwrap();
    first_version(old.path(), SANDBOXES);
    let copy = || {
        let data = tempfile::tempdir().unwrap();
        fs::copy(old.path().join("catalog.db"), data.path().join("catalog.db")).unwrap();
        data
    };
    let undisturbed = copy();
    let began = Instant::now();
    let whole = SqliteCatalog::open(undisturbed.path()).unwrap();
    let took = began.elapsed();
    for round in 0..2 * ROUNDS {
        let data = copy();
        let after = took * round / (2 * ROUNDS);
        for _ in 0..2 {
            kill_child("a_kill_at_any_moment_of_a_migration_loses_nothing", data.path(), after, |line| {
                (line == "opening").then_some(())
            });
        }
        let catalog = SqliteCatalog::open(data.path()).unwrap();
        let found = catalog.unfinished_sandboxes(catalog.node()).unwrap();
        assert_eq!(found.len(), SANDBOXES as usize);
        assert!(found == whole.unfinished_sandboxes(whole.node()).unwrap(), "they are read in another way");
        assert_eq!(catalog.last_event().unwrap(), FIRST_VERSION_EVENTS);
        assert_eq!(catalog.append_events(&[event()]).unwrap(), [FIRST_VERSION_EVENTS + 1]);
    }
}
