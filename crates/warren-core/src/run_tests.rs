use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::session::Timeouts;
use crate::session::{RunLimits, RunTotals};
use crate::spec::SandboxKind;
use crate::world::Deadline;

struct Stopped {
    boot_ms: u64,
}

impl Clock for Stopped {
    fn unix_ms(&self) -> u64 {
        1_700_000_000_000 + self.boot_ms
    }

    fn boot_ms(&self) -> u64 {
        self.boot_ms
    }

    fn boot_id(&self) -> &str {
        "boot"
    }
}

const NOW: Stopped = Stopped { boot_ms: 5000 };

fn session() -> SessionRecord {
    SessionRecord {
        id: SessionId::from_random([1; 16]),
        owner: crate::Owner::first(),
        sandbox: crate::SandboxId::from_random([2; 16]),
        client: "tests".into(),
        kind: SandboxKind::Terminal,
        state: SessionState::Active,
        timeouts: Timeouts::default(),
        labels: BTreeMap::new(),
        metadata: BTreeMap::new(),
        provision: Provision::Ready { url: None, job: None },
        limits: RunLimits { runs: 3, run_s: 2, tokens: 100, duration_s: 60 },
        tier: None,
        totals: RunTotals::default(),
        created_unix_ms: 0,
        last_activity_unix_ms: 0,
        deadline: Some(Deadline::after(&NOW, 1)),
        detached_until: None,
        thinking_until: None,
    }
}

fn run(tokens: u64, duration_ms: u64) -> NewRun {
    NewRun { task: "t".into(), result: None, duration_ms, tokens, screenshots: Vec::new(), provider: None }
}

fn record(session: &mut SessionRecord, run: NewRun) -> Result<RunRecord, RunDenied> {
    record_run(session, RunId::from_random([3; 16]), run, &NOW)
}

#[test]
fn a_session_may_run_or_says_the_first_thing_that_is_in_the_way() {
    type Spoil = fn(&mut SessionRecord);
    let cases: [(Option<RunDenied>, Spoil); 12] = [
        (None, |_| {}),
        (None, |s| s.deadline = None),
        (Some(RunDenied::Inactive), |s| s.state = SessionState::Detached),
        (Some(RunDenied::Inactive), |s| s.state = SessionState::Suspended),
        (Some(RunDenied::Inactive), |s| s.state = SessionState::Released),
        (Some(RunDenied::Inactive), |s| s.state = SessionState::Terminated),
        (Some(RunDenied::Expired), |s| s.state = SessionState::Expired),
        (Some(RunDenied::Expired), |s| s.deadline = Some(Deadline::after(&NOW, 0))),
        (Some(RunDenied::NotReady), |s| s.provision = Provision::Pending),
        (Some(RunDenied::NotReady), |s| s.provision = Provision::Failed { reason: String::new() }),
        (Some(RunDenied::OutOfRuns), |s| s.totals.runs = 3),
        (Some(RunDenied::OutOfTokens), |s| s.totals.tokens = 100),
    ];
    for (expected, spoil) in cases {
        let mut session = session();
        spoil(&mut session);
        assert_eq!(can_run(&session, &NOW).err(), expected, "{session:?}");
        let before = session.clone();
        let recorded = record(&mut session, run(1, 1));
        assert_eq!(recorded.as_ref().err().copied(), expected);
        assert_eq!(session == before, expected.is_some(), "a denied run must leave the session alone");
    }
}

#[test]
fn a_run_says_how_it_stands_against_the_limits() {
    let cases = [
        (run(100, 2000), RunStatus::Completed),
        (run(100, 2001), RunStatus::OverTime),
        (run(101, 2000), RunStatus::OverTokens),
        (run(101, 2001), RunStatus::OverTime),
    ];
    for (run, status) in cases {
        assert_eq!(record(&mut session(), run.clone()).unwrap().status, status, "{run:?}");
    }
}

#[test]
fn a_run_moves_the_last_activity_and_has_the_next_number() {
    let mut session = session();
    assert_eq!(record(&mut session, run(1, 1)).unwrap().number, 1);
    assert_eq!(record(&mut session, run(1, 1)).unwrap().number, 2);
    assert_eq!(session.last_activity_unix_ms, NOW.unix_ms());
}

proptest! {
    #[test]
    fn sums_are_those_of_the_recorded_runs(runs in prop::collection::vec((0u64..80, 0u64..4000), 0..12)) {
        let mut session = session();
        let mut recorded = Vec::new();
        for (tokens, duration_ms) in runs {
            let allowed = can_run(&session, &NOW);
            let result = record(&mut session, run(tokens, duration_ms));
            prop_assert_eq!(allowed.is_ok(), result.is_ok());
            recorded.extend(result.ok());
        }
        prop_assert!(recorded.len() <= 3);
        prop_assert_eq!(session.totals, RunTotals {
            runs: u32::try_from(recorded.len()).unwrap(),
            tokens: recorded.iter().map(|r| r.run.tokens).sum(),
            duration_ms: recorded.iter().map(|r| r.run.duration_ms).sum(),
        });
        let before_last = session.totals.tokens - recorded.last().map_or(0, |r| r.run.tokens);
        prop_assert!(before_last < session.limits.tokens, "only the last run may go over");
    }

    #[test]
    fn no_figure_of_a_client_overflows(tokens: u64, duration_ms: u64, before: u64) {
        let mut session = session();
        session.limits = RunLimits { runs: u32::MAX, run_s: u64::MAX, tokens: u64::MAX, duration_s: 1 };
        session.totals = RunTotals { runs: 0, tokens: before, duration_ms: before };
        drop(record(&mut session, run(tokens, duration_ms)));
    }
}
