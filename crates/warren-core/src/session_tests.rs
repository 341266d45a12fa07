use proptest::prelude::*;

use super::*;

/// The table of the module's documentation, row by row.
fn documented() -> Vec<(String, Vec<String>)> {
    let text = include_str!("session.rs");
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! |"));
    rows.skip(2)
        .map(|row| {
            let mut cells = row.trim_end_matches('|').split('|').map(|cell| cell.trim().to_owned());
            (cells.next().unwrap(), cells.collect())
        })
        .collect()
}

fn name(state: SessionState) -> String {
    serde_json::to_value(state).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn every_pair_of_state_and_request_is_decided_as_the_documented_table_says() {
    let table = documented();
    assert_eq!(table.len(), SessionState::ALL.len());
    for (state, (row, cells)) in SessionState::ALL.into_iter().zip(table) {
        assert_eq!(name(state), row);
        assert_eq!(cells.len(), SessionRequest::ALL.len(), "{row}");
        for (request, cell) in SessionRequest::ALL.into_iter().zip(cells) {
            let found = match decide_session(state, request) {
                SessionVerdict::Enter(next) => name(next),
                SessionVerdict::AlreadySo => "=".to_owned(),
                SessionVerdict::Denied(_) => "denied".to_owned(),
            };
            assert_eq!(found, cell, "{row} {request:?}");
        }
    }
}

#[test]
fn provisioning_goes_forward_only() {
    let ready = || Provision::Ready { url: None, job: None };
    let moved = || Provision::Ready { url: Some("http://a".into()), job: None };
    let failed = || Provision::Failed { reason: "first".into() };
    let again = || Provision::Failed { reason: "second".into() };
    assert_eq!(Provision::Pending.decide(ready()), Ok(Some(ready())));
    assert_eq!(Provision::Pending.decide(failed()), Ok(Some(failed())));
    assert_eq!(ready().decide(moved()), Ok(Some(moved())));
    assert_eq!(ready().decide(failed()), Ok(Some(failed())));
    assert_eq!(failed().decide(again()), Ok(None));
    assert!(failed().decide(ready()).is_err());
    assert!(ready().decide(Provision::Pending).is_err());
}

proptest! {
    #[test]
    fn an_end_for_good_is_never_left(requests in prop::collection::vec(prop::sample::select(&SessionRequest::ALL), 0..40)) {
        let mut state = SessionState::Active;
        let mut over = false;
        for request in requests {
            if let SessionVerdict::Enter(next) = decide_session(state, request) {
                prop_assert!(!over, "{state:?} {request:?}");
                prop_assert_ne!(state, next);
                state = next;
            }
            over = matches!(state, SessionState::Released | SessionState::Terminated);
            prop_assert!(!(over && state.is_open()));
        }
    }

    #[test]
    fn asking_twice_changes_nothing_more(state in prop::sample::select(&SessionState::ALL), request in prop::sample::select(&SessionRequest::ALL)) {
        if let SessionVerdict::Enter(next) = decide_session(state, request) {
            prop_assert_eq!(decide_session(next, request), SessionVerdict::AlreadySo);
        }
    }
}
