//! A catalog with every kind of record.

use std::collections::BTreeMap;

use warren_core::catalog::{
    Durability, EventLog as _, Idempotency, ImageCatalog as _, JournalCatalog as _, KeyCatalog as _,
    NetworkCatalog as _, NewRecords, NodeCatalog as _, PortCatalog as _, SandboxCatalog as _,
    SecretCatalog as _, SessionCatalog as _, SnapshotCatalog as _,
};
use warren_core::network::Destination;
use warren_core::{
    Action, BuildFailure, BuildId, BuildOutcome, Built, ByteSize, Cpus, Deadline, DeathCause,
    DeathCertificate, Event, EventRecord, FileDeed, History, ImageContext, ImageOrigin, ImageRecord,
    JournalEntry, KeptStep, KeyId, LayerId, NewRun, OnExpiry, Outcome, Owner, PauseKeeps, Paused, PausedBy,
    PortSettings, RunId, SandboxId, SandboxKind, SandboxRecord, Scope, SessionId, SessionRecord,
    SessionState, SnapshotId, SnapshotMethod, SnapshotReason, SnapshotRecord, Space, Stack, StartCommands,
    Status, TemplateName, ToolAnswer, Usage, Wake, record_run,
};
use warren_store::SqliteCatalog;
use warren_testkit::{
    FakeClock, sample_entry, sample_key, sample_sandbox, sample_secret, sample_session, sample_snapshot,
};

use super::read::{ann, bob};

pub(super) const KEY: &str = "create-1";

pub(super) fn every_kind_of_record(catalog: &SqliteCatalog) {
    sandboxes(catalog);
    sessions(catalog);
    snapshots(catalog);
    journal(catalog);
    keys_and_secrets(catalog);
    events(catalog);
    notes(catalog);
}

fn bits(number: u32) -> [u8; 16] {
    u128::from(number).to_be_bytes()
}

fn layers(numbers: &[u32]) -> Stack {
    Stack(numbers.iter().map(|number| LayerId::from_random(bits(*number))).collect())
}

fn moment(ms: u64) -> Deadline {
    Deadline { boot_id: "5fbd2c76".to_owned(), boot_ms: ms, unix_ms: 1_700_000_000_000 + ms }
}

pub(super) fn sandbox(number: u32) -> SandboxId {
    sample_sandbox(&ann(), number).id
}

fn death(cause: DeathCause, files_kept: bool) -> DeathCertificate {
    DeathCertificate {
        cause,
        detail: "it said \"enough\"".to_owned(),
        at_unix_ms: 90_000,
        last_output: "bye 🐇\n".to_owned(),
        processes: vec!["1 init".to_owned(), "7 make -j2".to_owned()],
        usage: files_kept.then_some(Usage { memory_peak_bytes: 1 << 30, cpu_ns: 7, ..Usage::default() }),
        snapshot: Some(SnapshotId::from_random(bits(1)).to_string()),
        files_kept,
    }
}

/// One in each status, and each end.
fn sandboxes(catalog: &SqliteCatalog) {
    let put = |number: u32, owner: &Owner, change: &dyn Fn(&mut SandboxRecord)| {
        let sandbox = SandboxRecord { node: catalog.node().clone(), ..sample_sandbox(owner, number) };
        let session = sample_session(&sandbox, number);
        let idempotency = (number == 1).then(|| Idempotency {
            owner: owner.clone(),
            key: KEY.to_owned(),
            fingerprint: "a1b2".to_owned(),
            session: session.id.clone(),
            at_unix_ms: 5_000,
        });
        catalog.insert(NewRecords { sandbox: sandbox.clone(), session, idempotency }).unwrap();
        let mut next = SandboxRecord { generation: 2, ..sandbox };
        change(&mut next);
        catalog.update_sandbox(&next, Durability::Process).unwrap();
    };
    put(1, &ann(), &|record| {
        record.name = Some("web".parse().unwrap());
        record.status = Status::Ready;
        record.kind = SandboxKind::Research;
        record.disk_limit_required = true;
        record.made_in_ms = 41;
        record.on_expiry = OnExpiry::Pause;
        record.spec.labels.insert("team".to_owned(), "a\"b".to_owned());
        record.spec.env.insert("NAME".to_owned(), "line\nline".to_owned());
        record.metadata.insert("note".to_owned(), "it's 🐇".to_owned());
        record.addresses = vec!["10.88.0.7".parse().unwrap()];
        record.annotations = BTreeMap::from([("e2b".to_owned(), r#"{"template":"base"}"#.to_owned())]);
        record.traffic.public = true;
        record.traffic.wake = Some(Wake { lifetime_s: 60 });
        record.pause_keeps = PauseKeeps::Files;
        record.history = History {
            stack: layers(&[2, 1]),
            head: Some(SnapshotId::from_random(bits(2))),
            redo: vec![SnapshotId::from_random(bits(3))],
            turn: 4,
            forked_from: Some(sandbox(2)),
            began: layers(&[1]),
            ..History::default()
        };
    });
    put(2, &ann(), &|record| {
        record.status = Status::Paused;
        record.paused =
            Some(Paused { by: PausedBy::Idleness, since_unix_ms: 40_000, deadline: moment(86_400_000) });
    });
    put(3, &ann(), &|record| record.status = Status::Creating);
    put(4, &ann(), &|record| record.status = Status::Ready);
    put(5, &ann(), &|record| record.status = Status::Stopping);
    put(6, &ann(), &|record| {
        record.status = Status::Stopped;
        record.death = Some(death(DeathCause::Idle, true));
    });
    put(7, &ann(), &|record| {
        record.name = Some("web".parse().unwrap());
        record.status = Status::Stopped;
        record.death = Some(death(DeathCause::Killed { by: "ann".to_owned() }, false));
    });
    put(8, &bob(), &|record| {
        record.status = Status::Failed;
        record.death = Some(death(DeathCause::BackendError, false));
    });
    put(9, &bob(), &|record| record.status = Status::Ready);
}

/// One in each state, one of them with runs.
fn sessions(catalog: &SqliteCatalog) {
    let parent = sample_sandbox(&ann(), 1);
    for (number, state) in (21..).zip(SessionState::ALL) {
        let record = SessionRecord {
            state,
            tier: Some("pro".to_owned()),
            deadline: Some(moment(900_000)),
            ..sample_session(&parent, number)
        };
        catalog.insert_session(&record, None).unwrap();
    }
    let clock = FakeClock::new();
    let session = SessionId::from_random(bits(1));
    for number in 1..=2 {
        let run = NewRun {
            task: "count \"it\"".to_owned(),
            result: Some("2".to_owned()),
            duration_ms: 7,
            tokens: 11,
            screenshots: vec!["shot.png".to_owned()],
            provider: Some("local".to_owned()),
        };
        let id = RunId::from_random(bits(number));
        catalog
            .update_session(&ann(), &session, Durability::Process, &mut |record| {
                let run = record_run(record, id.clone(), run.clone(), &clock)?;
                record.last_activity_unix_ms = 77_000;
                Ok(Some(warren_core::RunRecord { at_unix_ms: 77_000, ..run }))
            })
            .unwrap();
    }
}

/// With a name and without, safe and not yet, damaged, alone and on each other.
fn snapshots(catalog: &SqliteCatalog) {
    let first = SnapshotRecord {
        name: Some("before the \"merge\"".to_owned()),
        stack: layers(&[1]),
        space: Some(Space { bytes: 4096, inodes: 2 }),
        session: Some(SessionId::from_random(bits(1))),
        ..sample_snapshot(&ann(), 1)
    };
    let second = SnapshotRecord {
        parent: Some(first.id.clone()),
        stack: layers(&[2, 1]),
        reason: SnapshotReason::Command,
        turn: Some(3),
        operations: Some(2),
        lost: vec![1],
        ..sample_snapshot(&ann(), 2)
    };
    let third = SnapshotRecord {
        parent: Some(first.id.clone()),
        before: Some(second.id.clone()),
        stack: layers(&[1]),
        reason: SnapshotReason::Rollback,
        method: SnapshotMethod::Unchanged,
        durable: false,
        ..sample_snapshot(&ann(), 3)
    };
    let damaged = SnapshotRecord {
        sandbox: sandbox(6),
        durable: false,
        damaged: true,
        method: SnapshotMethod::Copied,
        ..sample_snapshot(&ann(), 4)
    };
    let mut theirs = sample_snapshot(&bob(), 5);
    theirs.sandbox = sandbox(9);
    theirs.spec.template = "python".parse().unwrap();
    let mut all = [first, second, third, damaged, theirs];
    all.iter_mut().for_each(|record| record.node = catalog.node().clone());
    catalog.insert_snapshots(&all, Durability::Process).unwrap();
}

fn journal(catalog: &SqliteCatalog) {
    let record = sample_sandbox(&ann(), 1);
    let done = JournalEntry {
        session: Some(SessionId::from_random(bits(1))),
        ended_unix_ms: Some(2_000),
        outcome: Some(Outcome { exit_code: Some(-1), detail: Some("killed by \"9\"\n".to_owned()) }),
        before: Some(SnapshotId::from_random(bits(1))),
        after: Some(SnapshotId::from_random(bits(2))),
        not_kept: Some("a program ran on".to_owned()),
        ..sample_entry(&record, 1)
    };
    let files = Action::Files {
        operation: FileDeed::Rename,
        path: "/a b".to_owned(),
        to: Some("/ü".to_owned()),
        bytes: Some(12),
        files: None,
    };
    let tool =
        Action::Tool { tool: "edit".to_owned(), call: Some("call-1".to_owned()), summary: "{}".to_owned() };
    let actions = [files, tool, Action::Turn, Action::Rollback { to: SnapshotId::from_random(bits(1)) }];
    let others = actions.into_iter().map(|action| JournalEntry { action, ..done.clone() });
    for entry in [done.clone()].into_iter().chain(others).chain([sample_entry(&record, 6)]) {
        catalog.append_entry(&entry, Durability::Process).unwrap();
    }
    for call in ["call-1", "call-2"] {
        catalog.begin_call(&tool_call(call)).unwrap();
    }
    catalog.finish_call(&record.id, "call-1", Some("{\"done\":\"it's\"}")).unwrap();
}

pub(super) fn tool_call(call: &str) -> ToolAnswer {
    ToolAnswer {
        owner: ann(),
        sandbox: sandbox(1),
        call: call.to_owned(),
        fingerprint: "c3d4".to_owned(),
        answer: None,
        at_unix_ms: 6_000,
    }
}

fn keys_and_secrets(catalog: &SqliteCatalog) {
    for (number, owner, scope) in [(1, ann(), Scope::Admin), (2, ann(), Scope::Read), (3, bob(), Scope::Use)]
    {
        catalog.insert_key(&warren_core::KeyRecord { scope, ..sample_key(&owner, number) }).unwrap();
    }
    catalog.revoke_key(&KeyId::from_random(bits(2)), 8_000).unwrap();
    for (owner, name) in [(ann(), "token"), (ann(), "password"), (bob(), "token")] {
        catalog.put_secret(&owner, &sample_secret(name, 3)).unwrap();
    }
}

/// The last ones were forgotten, and their numbers are not used again.
fn events(catalog: &SqliteCatalog) {
    let said = [
        Event::SandboxCreated { template: "host".to_owned(), backend: "native".to_owned() },
        Event::SandboxReady { took_ms: 41 },
        Event::SandboxPaused { by: PausedBy::Request },
        Event::SandboxDied { cause: DeathCause::Oom, detail: "too much".to_owned(), files_kept: true },
        Event::SandboxForked { snapshot: SnapshotId::from_random(bits(1)), count: 3 },
        Event::HistoryNotKept { entries: vec![1, 2], reason: "busy".to_owned() },
        Event::ExecEnded { process: 7, exit_code: -1, duration_ms: 12 },
        Event::RunRecorded { run: 1, tokens: 2, duration_ms: 3 },
        Event::KeyCreated { key: "key".to_owned(), scope: Scope::Use },
        Event::SandboxRemoved,
    ];
    let events: Vec<EventRecord> = (1..)
        .zip(said)
        .map(|(number, event): (u64, _)| EventRecord {
            number: 0,
            at_unix_ms: if number > 8 { 1_000 } else { 2_000 + number },
            owner: if number == 3 { bob() } else { ann() },
            sandbox: (number < 8).then(|| sandbox(1)),
            session: (number % 2 == 0).then(|| SessionId::from_random(bits(1))),
            event,
        })
        .collect();
    catalog.append_events(&events).unwrap();
    assert_eq!(catalog.forget_events(2_000).unwrap(), 2);
}

/// Notes of the node, the engine and the server beside the records.
fn notes(catalog: &SqliteCatalog) {
    let one = sandbox(1);
    catalog
        .update_node(&mut |record| {
            record.clock_anchor = Some(moment(12));
            record.snapshots_boot = Some("5fbd2c76".to_owned());
            record.local_key = Some(KeyId::from_random(bits(1)));
        })
        .unwrap();
    catalog.set_default_sandbox(&ann(), Some(&one)).unwrap();
    let destination = |(host, port): (&str, u16)| Destination { host: host.parse().unwrap(), port };
    let reached = [("a.example", 443), ("192.0.2.7", 0), ("2001:db8::1", 53)].map(destination);
    catalog.add_reached(&one, &reached.into(), 9).unwrap();
    let told = PortSettings { public: false, host: Some("localhost:8000".to_owned()) };
    catalog.set_port(&ann(), &one, 80, &PortSettings { public: true, host: None }).unwrap();
    catalog.set_port(&ann(), &one, 8000, &told).unwrap();
    images(catalog);
}

/// An image with a build that is ready, one that failed and one that has begun, and the state after
/// a step.
fn images(catalog: &SqliteCatalog) {
    let (id, name) = ("t1".parse().unwrap(), Some("web".to_owned()));
    let mut image = ImageRecord::new(id, ann(), name, ImageOrigin::Steps, 1);
    image.cpus = Some(Cpus::from_milli(2000));
    image.memory = Some(ByteSize::mib(512));
    let context = ImageContext {
        template: TemplateName::host(),
        env: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
        user: None,
        workdir: Some("/srv".into()),
    };
    let start = StartCommands::new(Some("serve".to_owned()), None);
    let snapshot = SnapshotId::from_random(bits(1));
    let built = Built { snapshot: snapshot.clone(), sandbox: sandbox(1), context: context.clone(), start };
    image.add(BuildId::from_random(bits(1)), built, &["default".to_owned()], 2).unwrap();
    for number in [2, 3] {
        let build = BuildId::from_random(bits(number));
        image.announce(build.clone(), vec!["next".to_owned()], 3);
        image.begin(&build, catalog.node()).unwrap();
    }
    let message = "no \"make\"".to_owned();
    let failure = BuildFailure { message, step: "2".to_owned(), unknown_user: None };
    image.finish(&BuildId::from_random(bits(2)), BuildOutcome::Failed(failure), 3).unwrap();
    catalog.insert_image(&image).unwrap();
    let step = KeptStep { key: "k1".to_owned(), snapshot, context, used_unix_ms: 4 };
    catalog.keep_step(&ann(), &step).unwrap();
}
