use proptest::prelude::*;

use super::*;

/// One row per request, one column per state, for a sandbox that does nothing else.
/// `.` already so, `s` serve, `w` wait for sync, a capital letter enters that state, else the reason of the denial.
const TABLE: &str = "
                Creating  Syncing   Ready     Paused    Stopping  Stopped   Failed
BeginSync       Y         .         order     order     stopping  stopped   failed
BecomeReady     R         R         .         order     stopping  stopped   failed
Execute         creating  w         s         paused    stopping  stopped   failed
ReadFiles       creating  s         s         paused    stopping  stopped   failed
WriteFiles      creating  w         s         paused    stopping  stopped   failed
Pause           creating  syncing   P         .         stopping  stopped   failed
Resume          creating  notpaused .         R         stopping  stopped   failed
Snapshot        creating  syncing   s         s         stopping  stopped   failed
Rollback        creating  syncing   s         paused    stopping  stopped   failed
Fork            creating  syncing   s         s         stopping  stopped   failed
Stop            G         G         G         G         .         .         .
BecomeStopped   order     order     order     order     D         .         .
Fail            F         F         F         F         F         .         .
";

fn short(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::AlreadySo => ".",
        Verdict::Proceed(Step::Serve) => "s",
        Verdict::Proceed(Step::WaitForSync) => "w",
        Verdict::Proceed(Step::Enter(Status::Creating)) => "C",
        Verdict::Proceed(Step::Enter(Status::Syncing)) => "Y",
        Verdict::Proceed(Step::Enter(Status::Ready)) => "R",
        Verdict::Proceed(Step::Enter(Status::Paused)) => "P",
        Verdict::Proceed(Step::Enter(Status::Stopping)) => "G",
        Verdict::Proceed(Step::Enter(Status::Stopped)) => "D",
        Verdict::Proceed(Step::Enter(Status::Failed)) => "F",
        Verdict::Denied(DenyReason::StillCreating) => "creating",
        Verdict::Denied(DenyReason::StillSyncing) => "syncing",
        Verdict::Denied(DenyReason::Paused) => "paused",
        Verdict::Denied(DenyReason::NotPaused) => "notpaused",
        Verdict::Denied(DenyReason::Stopping) => "stopping",
        Verdict::Denied(DenyReason::Stopped) => "stopped",
        Verdict::Denied(DenyReason::Failed) => "failed",
        Verdict::Denied(DenyReason::ToolsInFlight) => "tools",
        Verdict::Denied(DenyReason::SnapshotInProgress) => "snapshot",
        Verdict::Denied(DenyReason::RollbackInProgress) => "rollback",
        Verdict::Denied(DenyReason::OutOfOrder) => "order",
    }
}

#[test]
fn every_pair_is_decided_as_the_table_says() {
    let rows: Vec<Vec<&str>> = TABLE.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), Request::ALL.len());
    for (request, row) in Request::ALL.into_iter().zip(rows) {
        assert_eq!(format!("{request:?}"), row[0]);
        for (status, expected) in Status::ALL.into_iter().zip(&row[1..]) {
            let verdict = decide(status, Activity::default(), request);
            assert_eq!(short(verdict), *expected, "{request:?} while {status:?}");
        }
    }
}

#[test]
fn activity_denies_what_would_collide() {
    let tools = Activity { tools_in_flight: 1, ..Activity::default() };
    let snapshot = Activity { snapshotting: true, ..Activity::default() };
    let rollback = Activity { rolling_back: true, ..Activity::default() };
    let cases = [
        (tools, Request::Rollback, "tools"),
        (tools, Request::Execute, "s"),
        (tools, Request::Pause, "P"),
        (snapshot, Request::Snapshot, "snapshot"),
        (snapshot, Request::Rollback, "snapshot"),
        (snapshot, Request::Pause, "snapshot"),
        (snapshot, Request::Execute, "s"),
        (rollback, Request::Execute, "rollback"),
        (rollback, Request::ReadFiles, "rollback"),
        (rollback, Request::WriteFiles, "rollback"),
        (rollback, Request::Rollback, "rollback"),
        (rollback, Request::Snapshot, "rollback"),
        (rollback, Request::Fork, "rollback"),
        (rollback, Request::Pause, "rollback"),
        (rollback, Request::Stop, "G"),
    ];
    for (activity, request, expected) in cases {
        assert_eq!(
            short(decide(Status::Ready, activity, request)),
            expected,
            "{request:?} during {activity:?}"
        );
    }
}

#[test]
fn a_life_that_is_over_begins_again_by_a_resume_alone_and_only_what_it_left_is_of_use() {
    let kept = Activity { files_kept: true, ..Activity::default() };
    for status in [Status::Stopped, Status::Failed] {
        for request in Request::ALL {
            let verdict = decide(status, kept, request);
            match request {
                Request::Resume => assert_eq!(short(verdict), "C"),
                Request::Snapshot | Request::Rollback | Request::Fork => assert_eq!(short(verdict), "s"),
                _ => assert_eq!(verdict, decide(status, Activity::default(), request), "{request:?}"),
            }
        }
    }
    assert_eq!(short(decide(Status::Ready, kept, Request::Resume)), ".");
}

fn any_activity() -> impl Strategy<Value = Activity> {
    (0u32..3, any::<bool>(), any::<bool>()).prop_map(|(tools_in_flight, snapshotting, rolling_back)| {
        Activity { tools_in_flight, snapshotting, rolling_back, files_kept: false }
    })
}

proptest! {
    #[test]
    fn a_life_follows_the_rules(
        requests in proptest::collection::vec((0..Request::ALL.len(), any_activity()), 0..60)
    ) {
        let mut status = Status::Creating;
        let mut stop_begun = false;
        for (index, activity) in requests {
            let request = Request::ALL[index];
            let before = status;
            if let Verdict::Proceed(Step::Enter(next)) = decide(status, activity, request) {
                status = next;
                // Asking again for what was just granted never changes anything.
                prop_assert_eq!(decide(status, activity, request), Verdict::AlreadySo);
            }
            prop_assert!(!before.is_terminal() || status == before);
            prop_assert!(!stop_begun || matches!(status, Status::Stopping | Status::Stopped | Status::Failed));
            stop_begun |= status == Status::Stopping;
            // Whatever happens, a sandbox can be stopped.
            prop_assert!(!matches!(decide(status, activity, Request::Stop), Verdict::Denied(_)));
        }
    }
}
