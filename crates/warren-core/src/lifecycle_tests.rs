use proptest::prelude::*;

use super::*;

/// One row per state, with the circumstances that matter in it; one column per request. `.` already
/// so, `+` serve, a capital letter enters that state, lower case letters are the reason of a
/// denial.
const TABLE: &str = "
                          Execute ReadFiles WriteFiles Pause Resume Snapshot Rollback Stop BecomeReady BecomeStopped Fail
Creating                  creat   creat     creat      creat creat  creat    creat    G    R           order         F
Creating+kept             creat   creat     creat      creat creat  creat    creat    G    R           D             order
Ready                     +       +         +          P     .      +        +        G    .           order         order
Ready+tools               +       +         +          P     .      +        tools    G    .           order         order
Ready+snapshot            +       +         +          snap  .      snap     snap     G    .           order         order
Ready+tools+snapshot      +       +         +          snap  .      snap     tools    G    .           order         order
Ready+rollback            back    back      back       back  .      back     back     G    .           D             order
Ready+tools+rollback      back    back      back       back  .      back     tools    G    .           D             order
Ready+move                wall    wall      wall       wall  .      wall     wall     G    .           D             order
Ready+tools+move          wall    wall      wall       wall  .      wall     tools    G    .           D             order
Paused                    pause   pause     pause      .     R      +        pause    G    order       order         order
Stopping                  stop    stop      stop       stop  stop   stop     stop     .    stop        D             stop
Stopped                   over    over      over       over  over   over     over     .    over        .             .
Stopped+kept              over    over      over       over  C      +        +        .    over        .             .
Stopped+snapshot+kept     over    over      over       over  C      snap     snap     .    over        .             .
Stopped+rollback+kept     over    over      over       over  C      back     back     .    over        .             .
Stopped+move+kept         over    over      over       over  C      wall     wall     .    over        .             .
Failed                    fail    fail      fail       fail  fail   fail     fail     .    fail        .             .
Failed+kept               fail    fail      fail       fail  C      +        +        .    fail        .             .
Failed+snapshot+kept      fail    fail      fail       fail  C      snap     snap     .    fail        .             .
Failed+rollback+kept      fail    fail      fail       fail  C      back     back     .    fail        .             .
Failed+move+kept          fail    fail      fail       fail  C      wall     wall     .    fail        .             .
";

fn short(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::AlreadySo => ".",
        Verdict::Proceed(Step::Serve) => "+",
        Verdict::Proceed(Step::Enter(Status::Creating)) => "C",
        Verdict::Proceed(Step::Enter(Status::Ready)) => "R",
        Verdict::Proceed(Step::Enter(Status::Paused)) => "P",
        Verdict::Proceed(Step::Enter(Status::Stopping)) => "G",
        Verdict::Proceed(Step::Enter(Status::Stopped)) => "D",
        Verdict::Proceed(Step::Enter(Status::Failed)) => "F",
        Verdict::Denied(DenyReason::StillCreating) => "creat",
        Verdict::Denied(DenyReason::Paused) => "pause",
        Verdict::Denied(DenyReason::Stopping) => "stop",
        Verdict::Denied(DenyReason::Stopped) => "over",
        Verdict::Denied(DenyReason::Failed) => "fail",
        Verdict::Denied(DenyReason::ToolsInFlight) => "tools",
        Verdict::Denied(DenyReason::SnapshotInProgress) => "snap",
        Verdict::Denied(DenyReason::RollbackInProgress) => "back",
        Verdict::Denied(DenyReason::MoveInProgress) => "wall",
        Verdict::Denied(DenyReason::OutOfOrder) => "order",
    }
}

fn activities() -> impl Iterator<Item = Activity> {
    let busy = [None, Some(Busy::Snapshot), Some(Busy::Rollback), Some(Busy::Move)];
    busy.into_iter().flat_map(|busy| {
        [0, 1, 7].into_iter().flat_map(move |tools_in_flight| {
            [false, true].map(|files_kept| Activity { tools_in_flight, busy, files_kept })
        })
    })
}

/// The name of the table's row: circumstances that make no difference in a state are left out.
fn row_of(status: Status, activity: Activity) -> String {
    let (tools, busy, kept) = match status {
        Status::Creating => (false, false, true),
        Status::Ready => (true, true, false),
        Status::Paused | Status::Stopping => (false, false, false),
        Status::Stopped | Status::Failed => (false, activity.files_kept, true),
    };
    let mut name = format!("{status:?}");
    if tools && activity.tools_in_flight > 0 {
        name += "+tools";
    }
    match activity.busy.filter(|_| busy) {
        Some(Busy::Snapshot) => name += "+snapshot",
        Some(Busy::Rollback) => name += "+rollback",
        Some(Busy::Move) => name += "+move",
        None => {}
    }
    if kept && activity.files_kept {
        name += "+kept";
    }
    name
}

#[test]
fn every_request_is_decided_as_the_table_says_in_every_state_and_circumstance() {
    let mut lines = TABLE.lines().skip(1);
    let requests: Vec<&str> = lines.next().expect("a head").split_whitespace().collect();
    let rows: std::collections::HashMap<&str, Vec<&str>> = lines
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().expect("a name"), words.collect())
        })
        .collect();
    assert_eq!(requests, Request::ALL.map(|request| format!("{request:?}")));
    let mut seen = std::collections::HashSet::new();
    for status in Status::ALL {
        for activity in activities() {
            let name = row_of(status, activity);
            for (request, expected) in Request::ALL.into_iter().zip(&rows[name.as_str()]) {
                let verdict = short(decide(status, activity, request));
                assert_eq!(verdict, *expected, "{request:?} while {status:?} and {activity:?}");
            }
            seen.insert(name);
        }
    }
    assert_eq!(seen.len(), rows.len(), "a row of the table is never looked at");
}

#[test]
fn every_state_is_entered_by_some_request() {
    for wanted in Status::ALL {
        let enters = |status, activity| {
            let step = Verdict::Proceed(Step::Enter(wanted));
            Request::ALL.into_iter().any(|request| decide(status, activity, request) == step)
        };
        let found = Status::ALL.into_iter().any(|status| activities().any(|it| enters(status, it)));
        assert!(found, "nothing enters {wanted:?}");
    }
}

fn any_activity() -> impl Strategy<Value = Activity> {
    (0u32..3, 0..4usize, any::<bool>()).prop_map(|(tools_in_flight, busy, files_kept)| {
        let busy = [None, Some(Busy::Snapshot), Some(Busy::Rollback), Some(Busy::Move)][busy];
        Activity { tools_in_flight, busy, files_kept }
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
                // Asking again never leads any further.
                let again = decide(status, activity, request);
                let moved_on = matches!(again, Verdict::Proceed(Step::Enter(_)));
                prop_assert!(!moved_on, "{:?} leads on from {:?}", request, status);
            }
            let resumed = request == Request::Resume && activity.files_kept;
            prop_assert!(!before.is_terminal() || status == before || (resumed && status == Status::Creating));
            stop_begun &= !(before.is_terminal() && status == Status::Creating);
            prop_assert!(!stop_begun || matches!(status, Status::Stopping | Status::Stopped));
            stop_begun |= status == Status::Stopping;
            // A sandbox can be stopped in every state.
            prop_assert!(!matches!(decide(status, activity, Request::Stop), Verdict::Denied(_)));
        }
    }
}
