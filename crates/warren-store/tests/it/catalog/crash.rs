use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use warren_core::catalog::{Durability, SandboxCatalog as _, SessionCatalog as _};
use warren_core::{NewRun, Owner, RunId, RunLimits, SessionId, record_run};
use warren_store::SqliteCatalog;
use warren_testkit::{FakeClock, sample_node};

use super::new;

const CHILD: &str = "WARREN_TEST_CATALOG_WRITER";
const ROUNDS: u32 = 8;
const WRITERS: u32 = 4;

/// The test starts itself as a child that writes and says what was acknowledged, and kills it at some moment.
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
        }
    }
    let runs: u32 = acknowledged.values().sum();
    assert!(acknowledged.len() >= ROUNDS as usize && runs > 20, "{runs} runs are too few to show anything");
}

/// How many runs of which session were acknowledged before the end.
fn kill_a_writer(data: &Path, after: Duration) -> BTreeMap<SessionId, u32> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "catalog::crash::what_was_acknowledged_survives_a_kill", "--nocapture"])
        .env(CHILD, data)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The time counts from the first change, not from the start of a program on a busy machine.
    let mut acknowledged = BTreeMap::new();
    let mut note = |line: String| {
        if let Some((id, runs)) = line.strip_prefix("acknowledged ").and_then(|rest| rest.split_once(' ')) {
            acknowledged.insert(id.parse::<SessionId>().unwrap(), runs.parse::<u32>().unwrap());
            return true;
        }
        false
    };
    while !note(lines.next().expect("the child writes").unwrap()) {}
    let killer = thread::spawn(move || {
        thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    });
    for line in lines {
        note(line.unwrap());
    }
    killer.join().unwrap();
    acknowledged
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
