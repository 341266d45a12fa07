use std::thread;

use warren_core::catalog::{Catalog, CatalogErrorKind, Durability, SessionFilter, UpdateSessionError};
use warren_core::{
    NewRun, Owner, PageRequest, RunDenied, RunId, RunLimits, RunTotals, SandboxId, SessionId, SessionRecord,
    SessionState, record_run,
};

use super::super::records::{bits, sample_sandbox, sample_session};
use super::{Check, ann, bob, here, insert, kind};
use crate::FakeClock;

pub(super) const CHECKS: &[Check] = &[
    a_change_is_kept_and_returned,
    a_denied_change_leaves_everything,
    sums_are_exact_with_sixteen_threads,
    a_session_needs_a_sandbox_of_its_owner,
    another_owners_session_is_unknown,
    sessions_are_listed_by_sandbox_client_and_state,
    session_lists_have_pages,
];

const TOKENS: u64 = 7;

/// Records a run of known size.
pub(super) fn run(
    catalog: &dyn Catalog,
    owner: &Owner,
    session: &SessionId,
    id: RunId,
) -> Result<SessionRecord, UpdateSessionError> {
    let clock = FakeClock::new();
    let run = NewRun {
        task: "count".to_owned(),
        result: Some("1, 2, 3".to_owned()),
        duration_ms: 3,
        tokens: TOKENS,
        screenshots: vec!["a.png".to_owned()],
        provider: None,
    };
    catalog.update_session(owner, session, Durability::Process, &mut |record| {
        record_run(record, id.clone(), run.clone(), &clock).map(Some)
    })
}

fn a_change_is_kept_and_returned(catalog: &dyn Catalog) {
    let session = insert(catalog, &ann(), 1).session;
    assert_eq!(catalog.session(&ann(), &session.id).expect("a query"), Some(session.clone()));
    let changed = catalog
        .update_session(&ann(), &session.id, Durability::Disk, &mut |record| {
            record.state = SessionState::Detached;
            record.client = "another".to_owned();
            Ok(None)
        })
        .expect("the session is there");
    let wanted = SessionRecord { state: SessionState::Detached, client: "another".to_owned(), ..session };
    assert_eq!(changed, wanted);
    assert_eq!(catalog.session(&ann(), &wanted.id).expect("a query"), Some(wanted));
}

fn a_denied_change_leaves_everything(catalog: &dyn Catalog) {
    let session = insert(catalog, &ann(), 1).session;
    let denied = catalog
        .update_session(&ann(), &session.id, Durability::Process, &mut |record| {
            record.state = SessionState::Terminated;
            Err(RunDenied::OutOfRuns)
        })
        .expect_err("the change said so");
    assert!(matches!(denied, UpdateSessionError::Denied(RunDenied::OutOfRuns)), "{denied:?}");
    assert_eq!(catalog.session(&ann(), &session.id).expect("a query"), Some(session));
}

fn sums_are_exact_with_sixteen_threads(catalog: &dyn Catalog) {
    const THREADS: u32 = 16;
    const RUNS: u32 = 20;
    const MOST: u32 = THREADS * RUNS - 5;
    let session = insert(catalog, &ann(), 1).session;
    catalog
        .update_session(&ann(), &session.id, Durability::Process, &mut |record| {
            record.limits = RunLimits { runs: MOST, tokens: 1 << 40, ..RunLimits::default() };
            Ok(None)
        })
        .expect("the session is there");
    let id = &session.id;
    let recorded: u32 = thread::scope(|scope| {
        let worker = |worker: u32| {
            move || (0..RUNS).filter(|turn| run(catalog, &ann(), id, run_id(worker, *turn)).is_ok()).count()
        };
        let workers: Vec<_> = (0..THREADS).map(|number| scope.spawn(worker(number))).collect();
        workers.into_iter().map(|worker| u32::try_from(worker.join().expect("no panic")).unwrap_or(0)).sum()
    });
    assert_eq!(recorded, MOST, "the limit is a limit for all of them together");
    let totals = catalog.session(&ann(), id).expect("a query").expect("it is there").totals;
    let tokens = u64::from(MOST) * TOKENS;
    assert_eq!(totals, RunTotals { runs: MOST, tokens, duration_ms: u64::from(MOST) * 3 });
    let numbers: Vec<u32> = catalog.runs(&ann(), id).expect("a query").iter().map(|run| run.number).collect();
    assert_eq!(numbers, (1..=MOST).collect::<Vec<_>>());
}

fn a_session_needs_a_sandbox_of_its_owner(catalog: &dyn Catalog) {
    let first = insert(catalog, &ann(), 1);
    let second = sample_session(&first.sandbox, 2);
    catalog.insert_session(&second, None).expect("the sandbox is there");
    assert_eq!(kind(catalog.insert_session(&second, None)), CatalogErrorKind::AlreadyExists);
    let homeless = sample_session(&sample_sandbox(&ann(), 9), 3);
    assert_eq!(kind(catalog.insert_session(&homeless, None)), CatalogErrorKind::NotFound);
    let foreign = SessionRecord { owner: bob(), ..sample_session(&first.sandbox, 4) };
    assert_eq!(kind(catalog.insert_session(&foreign, None)), CatalogErrorKind::NotFound);
    assert_eq!(catalog.session(&bob(), &foreign.id).expect("a query"), None);
}

fn another_owners_session_is_unknown(catalog: &dyn Catalog) {
    let session = insert(catalog, &ann(), 1).session;
    run(catalog, &ann(), &session.id, run_id(0, 0)).expect("the session may run");
    assert_eq!(catalog.session(&bob(), &session.id).expect("a query"), None);
    assert!(catalog.runs(&bob(), &session.id).expect("a query").is_empty());
    assert_eq!(kind(run(catalog, &bob(), &session.id, run_id(0, 1))), CatalogErrorKind::NotFound);
    let filter = SessionFilter { sandbox: Some(session.sandbox), ended: true, client: None };
    let theirs = catalog.sessions(&bob(), &filter, &PageRequest::default()).expect("a query");
    assert!(theirs.items.is_empty());
    assert_eq!(catalog.runs(&ann(), &session.id).expect("a query").len(), 1);
}

fn sessions_are_listed_by_sandbox_client_and_state(catalog: &dyn Catalog) {
    let first = insert(catalog, &ann(), 1);
    let other = insert(catalog, &ann(), 2);
    insert(catalog, &bob(), 3);
    let guest = SessionRecord { client: "guest".to_owned(), ..sample_session(&first.sandbox, 11) };
    let over = SessionRecord { state: SessionState::Expired, ..sample_session(&first.sandbox, 12) };
    for session in [&guest, &over] {
        catalog.insert_session(session, None).expect("the sandbox is there");
    }
    let expect =
        |sandbox: Option<&SandboxId>, client: Option<&str>, ended: bool, wanted: &[&SessionRecord]| {
            let filter =
                SessionFilter { sandbox: sandbox.cloned(), client: client.map(str::to_owned), ended };
            let page = catalog.sessions(&ann(), &filter, &PageRequest::default()).expect("a query");
            assert_eq!(page.items.iter().collect::<Vec<_>>(), wanted, "{filter:?}");
        };
    expect(None, None, false, &[&guest, &other.session, &first.session]);
    expect(None, None, true, &[&over, &guest, &other.session, &first.session]);
    expect(Some(&first.sandbox.id), None, false, &[&guest, &first.session]);
    expect(Some(&first.sandbox.id), None, true, &[&over, &guest, &first.session]);
    expect(Some(&first.sandbox.id), Some("guest"), true, &[&guest]);
    expect(None, Some("client"), false, &[&other.session, &first.session]);
    expect(Some(&sample_sandbox(&ann(), 9).id), None, true, &[]);
    assert_eq!(catalog.open_sessions(&here()).expect("a query").len(), 4, "of all owners");
}

fn session_lists_have_pages(catalog: &dyn Catalog) {
    let sandbox = insert(catalog, &ann(), 1).sandbox;
    for number in 2..=10 {
        // All of one moment, so that only the id tells them apart.
        let session = SessionRecord { created_unix_ms: 1000, ..sample_session(&sandbox, number) };
        catalog.insert_session(&session, None).expect("the sandbox is there");
    }
    let mut seen = Vec::new();
    let mut request = PageRequest { limit: 3, after: None };
    loop {
        let filter = SessionFilter { sandbox: Some(sandbox.id.clone()), ..SessionFilter::default() };
        let page = catalog.sessions(&ann(), &filter, &request).expect("a query");
        seen.extend(page.items.into_iter().map(|session| session.id));
        request.after = page.next;
        if request.after.is_none() {
            break;
        }
    }
    let wanted: Vec<SessionId> = (1..=10).rev().map(|number| SessionId::from_random(bits(number))).collect();
    assert_eq!(seen, wanted);
}

fn run_id(worker: u32, turn: u32) -> RunId {
    RunId::from_random(bits(worker * 1000 + turn))
}
