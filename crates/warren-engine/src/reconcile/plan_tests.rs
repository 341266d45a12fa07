use std::collections::BTreeMap;

use warren_core::{
    Deadline, DeathCause, DeathCertificate, History, OnExpiry, Owner, SandboxKind, SandboxSpec, TemplateName,
    Timeouts,
};

use warren_testkit::sample_node;

use super::*;

const BOOT: &str = "this-boot";

fn id(number: u8) -> SandboxId {
    SandboxId::from_random([number; 16])
}

fn record(number: u8, status: Status) -> SandboxRecord {
    SandboxRecord {
        id: id(number),
        owner: Owner::first(),
        name: None,
        node: sample_node(),
        generation: 1,
        status,
        paused: None,
        spec: SandboxSpec::new(TemplateName::host()),
        disk_limit_required: false,
        kind: SandboxKind::Terminal,
        backend: "native".to_owned(),
        wall: Default::default(),
        unplaced: false,
        left: None,
        metadata: BTreeMap::new(),
        created_unix_ms: 0,
        made_in_ms: 0,
        deadline: Deadline { boot_id: BOOT.to_owned(), boot_ms: 1, unix_ms: 1 },
        on_expiry: OnExpiry::Keep,
        traffic: Default::default(),
        pause_keeps: Default::default(),
        start: None,
        build: None,
        annotations: Default::default(),
        timeouts: Timeouts::default(),
        death: None,
        history: History::default(),
        addresses: Vec::new(),
        unreachable: None,
    }
}

fn found(number: u8, alive: bool) -> Found {
    let mut spec = SandboxSpec::new(TemplateName::host());
    spec.labels.insert(MARK.to_owned(), sample_node().to_string());
    Found {
        id: id(number),
        pid: None,
        alive,
        frozen: false,
        owner: OwnerBond::Outlives,
        spec,
        root: warren_core::Root::Layers(Vec::new()),
        created_unix_ms: 0,
    }
}

fn kept() -> Option<DeathCertificate> {
    Some(DeathCertificate {
        cause: DeathCause::Idle,
        detail: String::new(),
        at_unix_ms: 0,
        last_output: String::new(),
        processes: Vec::new(),
        usage: None,
        snapshot: None,
        files_kept: true,
    })
}

fn plan(records: &[SandboxRecord], found: &[Found]) -> Plan {
    let found: HashMap<&SandboxId, &Found> = found.iter().map(|found| (&found.id, found)).collect();
    Plan::make(records, &found, |_| false, |name| name != "away", &sample_node(), BOOT)
}

fn outcome(record: SandboxRecord, found: Option<Found>) -> Decision {
    let plan = plan(&[record], found.as_slice());
    assert!(plan.orphans.is_empty());
    plan.steps[0].1
}

#[test]
fn what_was_found_decides_what_becomes_of_each() {
    let settle = Decision::Settle;
    assert_eq!(outcome(record(1, Status::Ready), Some(found(1, true))), Decision::Adopt { frozen: false });
    assert_eq!(outcome(record(1, Status::Paused), Some(found(1, false))), settle(Remains::Dead));
    assert_eq!(outcome(record(1, Status::Ready), None), settle(Remains::Gone));
    assert_eq!(outcome(record(1, Status::Creating), Some(found(1, true))), settle(Remains::HalfMade));
    assert_eq!(outcome(record(1, Status::Stopping), None), settle(Remains::HalfEnded));
    let again = SandboxRecord { death: kept(), ..record(1, Status::Creating) };
    assert_eq!(outcome(again, Some(found(1, true))), settle(Remains::HalfResumed));
}

#[test]
fn a_sandbox_of_an_earlier_boot_was_switched_off() {
    let mut old = record(1, Status::Ready);
    old.deadline.boot_id = "earlier".to_owned();
    assert_eq!(outcome(old, Some(found(1, false))), Decision::Settle(Remains::SwitchedOff));
}

#[test]
fn a_frozen_sandbox_is_adopted_frozen() {
    let frozen = Found { frozen: true, ..found(1, true) };
    assert_eq!(outcome(record(1, Status::Ready), Some(frozen)), Decision::Adopt { frozen: true });
}

#[test]
fn files_of_an_ended_sandbox_are_nobodys_orphans() {
    let ended = SandboxRecord { death: kept(), ..record(1, Status::Stopped) };
    let plan = plan(&[ended], &[found(1, false)]);
    assert!(plan.steps.is_empty() && plan.orphans.is_empty());
}

#[test]
fn a_sandbox_that_rests_and_is_found_alive_is_halted() {
    let ended = SandboxRecord { death: kept(), ..record(1, Status::Stopped) };
    assert_eq!(outcome(ended, Some(found(1, true))), Decision::Settle(Remains::HalfResumed));
}

#[test]
fn only_what_carries_the_mark_and_outlives_its_maker_is_an_orphan() {
    let mut stranger = found(2, true);
    stranger.spec.labels.clear();
    let mut others = found(3, true);
    others.spec.labels.insert(MARK.to_owned(), "theirs".to_owned());
    let run = Found { owner: OwnerBond::DiesWithOwner, ..found(4, true) };
    assert_eq!(plan(&[], &[found(1, true), stranger, others, run]).orphans, [id(1)]);
}

#[test]
fn most_sandboxes_gone_are_doubted_and_few_are_believed() {
    let records: Vec<_> = (0..9).map(|number| record(number, Status::Ready)).collect();
    let alive = |from: u8| (from..9).map(|number| found(number, true)).collect::<Vec<_>>();
    assert!(plan(&records, &alive(5)).doubt().is_some());
    assert!(plan(&records, &alive(4)).doubt().is_none());
    assert!(plan(&records[..4], &[]).doubt().is_none());
    assert!(plan(&records[..5], &[]).doubt().is_some());
}

#[test]
fn sandboxes_that_a_reboot_ended_are_no_reason_for_doubt() {
    let records: Vec<_> = (0..9).map(|number| record(number, Status::Ready)).collect();
    let dead: Vec<_> = (0..9).map(|number| found(number, false)).collect();
    assert!(plan(&records, &dead).doubt().is_none());
}

#[test]
fn a_machine_full_of_strangers_to_the_catalog_is_doubted() {
    let found: Vec<_> = (0..5).map(|number| found(number, true)).collect();
    assert!(plan(&[], &found[..4]).doubt().is_none());
    assert!(plan(&[], &found).doubt().is_some());
}

#[test]
fn what_a_backend_that_is_away_has_is_neither_missing_nor_touched() {
    let away = |number| SandboxRecord { backend: "away".to_owned(), ..record(number, Status::Ready) };
    let records: Vec<SandboxRecord> = (1..20).map(away).collect();
    let made = plan(&records, &[]);
    assert!(made.steps.is_empty() && made.missing == 0 && made.doubt().is_none());
    assert_eq!(made.unheard.len(), records.len());
}

#[test]
fn one_that_was_being_moved_is_stopped_with_its_files_wherever_it_stands() {
    let moving = SandboxRecord { unplaced: true, left: Some("old".to_owned()), ..record(1, Status::Ready) };
    for seen in [vec![], vec![found(1, false)]] {
        let made = plan(std::slice::from_ref(&moving), &seen);
        assert_eq!(made.missing, 0);
        assert_eq!(made.steps[0].1, Decision::Settle(Remains::HalfMoved));
    }
    let made = plan(std::slice::from_ref(&moving), &[found(1, true)]);
    assert_eq!(made.steps[0].1, Decision::Adopt { frozen: false });
    let rests = SandboxRecord { death: kept(), status: Status::Stopped, ..moving };
    let made = plan(&[rests], &[]);
    assert_eq!(made.steps[0].1, Decision::Settle(Remains::LeftBehind));
}
