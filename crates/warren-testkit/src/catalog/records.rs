use std::collections::BTreeMap;

use warren_core::network::{Injection, Secret, SecretRecord};
use warren_core::{
    Action, BuildId, Built, DEFAULT_TAG, Deadline, History, ImageContext, ImageId, ImageOrigin, ImageRecord,
    JournalEntry, KeyId, KeyRecord, LayerId, NodeId, OnExpiry, Owner, Provision, RunLimits, RunTotals,
    SandboxId, SandboxKind, SandboxRecord, SandboxSpec, Scope, SessionId, SessionRecord, SessionState,
    SnapshotId, SnapshotMethod, SnapshotReason, SnapshotRecord, Stack, Status, TemplateName, Timeouts,
    WallChoice,
};

/// The node of all sample records.
pub fn sample_node() -> NodeId {
    NodeId::from_random([0xa1; 16])
}

/// A sandbox that was just asked for. The number makes the id; it is created that many seconds
/// after 1970.
pub fn sample_sandbox(owner: &Owner, number: u32) -> SandboxRecord {
    SandboxRecord {
        id: SandboxId::from_random(bits(number)),
        owner: owner.clone(),
        name: None,
        node: sample_node(),
        generation: 1,
        status: Status::Creating,
        paused: None,
        spec: SandboxSpec::new(TemplateName::host()),
        disk_limit_required: false,
        kind: SandboxKind::Terminal,
        backend: "fake".to_owned(),
        wall: WallChoice::default(),
        unplaced: false,
        left: None,
        metadata: BTreeMap::new(),
        created_unix_ms: u64::from(number) * 1000,
        made_in_ms: 0,
        deadline: Deadline { boot_id: "boot".to_owned(), boot_ms: 1, unix_ms: 1 },
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

/// A session on that sandbox, ready to run. The number makes the id; it is created that many
/// seconds after 1970.
pub fn sample_session(sandbox: &SandboxRecord, number: u32) -> SessionRecord {
    SessionRecord {
        id: SessionId::from_random(bits(number)),
        owner: sandbox.owner.clone(),
        sandbox: sandbox.id.clone(),
        client: "client".to_owned(),
        kind: sandbox.kind,
        state: SessionState::Active,
        timeouts: Timeouts::default(),
        labels: BTreeMap::new(),
        metadata: BTreeMap::new(),
        provision: Provision::Ready { url: None, job: None },
        limits: RunLimits::default(),
        tier: None,
        totals: RunTotals::default(),
        created_unix_ms: u64::from(number) * 1000,
        last_activity_unix_ms: 0,
        deadline: None,
        detached_until: None,
        thinking_until: None,
    }
}

/// A key; the number makes its id and hash, and it is created that many seconds after 1970.
pub fn sample_key(owner: &Owner, number: u32) -> KeyRecord {
    KeyRecord {
        id: KeyId::from_random(bits(number)),
        owner: owner.clone(),
        name: format!("key {number}"),
        scope: Scope::Use,
        hash: format!("{number:064x}"),
        hint: "0123".to_owned(),
        created_unix_ms: u64::from(number) * 1000,
        revoked_unix_ms: None,
    }
}

/// A secret for `api.example`, put into `Authorization`. The number makes its value; it was made
/// that many seconds after 1970.
pub fn sample_secret(name: &str, number: u32) -> Secret {
    let at_unix_ms = u64::from(number) * 1000;
    let record = SecretRecord {
        name: name.parse().expect("a name"),
        hosts: vec!["api.example".parse().expect("a host")],
        injection: Injection::Header { header: "authorization".to_owned(), template: "Bearer {}".to_owned() },
        created_unix_ms: at_unix_ms,
        changed_unix_ms: at_unix_ms,
    };
    Secret { record, value: format!("value-{number:032x}") }
}

/// An image with one build that is ready and has the default tag. The number makes the ids; it was
/// made that many seconds after 1970.
pub fn sample_image(owner: &Owner, name: Option<&str>, number: u32) -> ImageRecord {
    let at_unix_ms = u64::from(number) * 1000;
    let id = ImageId::from_random(bits(number));
    let mut image =
        ImageRecord::new(id, owner.clone(), name.map(str::to_owned), ImageOrigin::Sandbox, at_unix_ms);
    let context =
        ImageContext { template: TemplateName::host(), env: BTreeMap::new(), user: None, workdir: None };
    let built = Built {
        snapshot: SnapshotId::from_random(bits(number)),
        sandbox: SandboxId::from_random(bits(number)),
        context,
        start: None,
    };
    let tags = [DEFAULT_TAG.to_owned()];
    image.add(BuildId::from_random(bits(number)), built, &tags, at_unix_ms).expect("one tag is not too many");
    image
}

/// A snapshot of sandbox 1, without a name or a parent, that stands on one layer. The number makes
/// the ids of the snapshot and of its layer; it was taken that many seconds after 1970.
pub fn sample_snapshot(owner: &Owner, number: u32) -> SnapshotRecord {
    let sandbox = sample_sandbox(owner, 1);
    SnapshotRecord {
        id: SnapshotId::from_random(bits(number)),
        owner: owner.clone(),
        node: sandbox.node,
        sandbox: sandbox.id,
        session: None,
        parent: None,
        before: None,
        operations: None,
        lost: Vec::new(),
        name: None,
        reason: SnapshotReason::Request,
        turn: None,
        created_unix_ms: u64::from(number) * 1000,
        method: SnapshotMethod::Sealed,
        stack: Stack(vec![LayerId::from_random(bits(number))]),
        memory: None,
        space: None,
        durable: true,
        damaged: false,
        spec: sandbox.spec,
        kind: sandbox.kind,
        disk_limit_required: sandbox.disk_limit_required,
        backend: sandbox.backend,
    }
}

/// A command that began in that sandbox and has not ended. The number makes its text; it began that
/// many seconds after 1970.
pub fn sample_entry(sandbox: &SandboxRecord, number: u32) -> JournalEntry {
    JournalEntry {
        number: 0,
        owner: sandbox.owner.clone(),
        sandbox: sandbox.id.clone(),
        session: None,
        turn: 1,
        action: Action::Exec { command: format!("make -j{number}"), process: Some(u64::from(number)) },
        by: "client".to_owned(),
        began_unix_ms: u64::from(number) * 1000,
        ended_unix_ms: None,
        outcome: None,
        before: None,
        after: None,
        not_kept: None,
    }
}

/// Bits of an id that is unique to the number.
pub(crate) fn bits(number: u32) -> [u8; 16] {
    u128::from(number).to_be_bytes()
}
