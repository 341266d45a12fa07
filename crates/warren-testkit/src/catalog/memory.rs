mod images;
mod journal;
mod names;
mod nodes;
mod secrets;
mod snapshots;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use warren_core::catalog::{
    CatalogError, CatalogErrorKind, ChangeSession, Durability, EventFilter, EventLog, Idempotency,
    InsertError, KeyCatalog, NewRecords, SandboxCatalog, SandboxFilter, SessionCatalog, SessionFilter,
    UpdateSessionError,
};
use warren_core::network::{Destination, Secret, SecretName};
use warren_core::{
    Cursor, EventRecord, ImageId, ImageRecord, JournalEntry, KeptStep, KeyId, KeyRecord, NodeId, NodeRecord,
    Owner, Page, PageRequest, PortSettings, RunRecord, SandboxId, SandboxName, SandboxRecord, SessionId,
    SessionRecord, SnapshotId, SnapshotRecord, ToolAnswer,
};

use super::records::sample_node;
use crate::gate::Gate;

const DAY_MS: u64 = 24 * 3600 * 1000;

/// A catalog in memory. It is stricter than one on disk: it panics if a caller changes a fixed
/// field, skips a generation, leaves a status without its death certificate, puts a layer into a
/// stack twice, answers a tool call again or tags a build that does not exist. It calls each change
/// of a session twice, because any catalog may.
pub struct MemoryCatalog {
    node: NodeId,
    records: Arc<Mutex<Records>>,
    faults: Mutex<VecDeque<Fault>>,
    gate: Gate<&'static str>,
}

struct Fault {
    /// `None`: any method.
    method: Option<&'static str>,
    kind: CatalogErrorKind,
}

#[derive(Default)]
struct Records {
    sandboxes: BTreeMap<SandboxId, SandboxRecord>,
    sessions: BTreeMap<SessionId, SessionRecord>,
    runs: BTreeMap<SessionId, Vec<RunRecord>>,
    idempotency: BTreeMap<(Owner, String), Idempotency>,
    default_sandboxes: BTreeMap<Owner, SandboxId>,
    nodes: BTreeMap<NodeId, NodeRecord>,
    ports: BTreeMap<(SandboxId, u16), PortSettings>,
    reached: BTreeMap<SandboxId, BTreeSet<Destination>>,
    snapshots: BTreeMap<SnapshotId, SnapshotRecord>,
    journal: BTreeMap<SandboxId, BTreeMap<u64, JournalEntry>>,
    calls: BTreeMap<(SandboxId, String), ToolAnswer>,
    keys: BTreeMap<KeyId, KeyRecord>,
    secrets: BTreeMap<(Owner, SecretName), Secret>,
    images: BTreeMap<(Owner, ImageId), ImageRecord>,
    image_steps: BTreeMap<(Owner, String), KeptStep>,
    events: Vec<EventRecord>,
    last_event: u64,
}

impl MemoryCatalog {
    /// A catalog opened by the node of the sample records.
    pub fn new() -> Self {
        Self::opened_by(sample_node(), Arc::default())
    }

    /// The same records, as another node opens them. Its faults are its own.
    pub fn of_node(&self, node: &NodeId) -> Self {
        Self::opened_by(node.clone(), Arc::clone(&self.records))
    }

    fn opened_by(node: NodeId, records: Arc<Mutex<Records>>) -> Self {
        Self { node, records, faults: Mutex::default(), gate: Gate::default() }
    }

    /// The next call of any method fails and changes nothing. Asked for twice, two calls fail.
    pub fn fail_next(&self, kind: CatalogErrorKind) {
        self.faults.lock().push_back(Fault { method: None, kind });
    }

    /// The next call of this method fails and changes nothing.
    pub fn fail_next_call(&self, method: &'static str, kind: CatalogErrorKind) {
        self.faults.lock().push_back(Fault { method: Some(method), kind });
    }

    /// Cancels failures that have not happened yet.
    pub fn forgive(&self) {
        self.faults.lock().clear();
    }

    /// Sets a hook that gets the method's name before each call, on its thread. It may wait.
    pub fn before_each(&self, hook: impl Fn(&'static str) + Send + Sync + 'static) {
        self.gate.before_each(hook);
    }

    /// Blocks every thread for which `barred` returns true, for ever: its process has ended.
    pub fn bar(&self, barred: impl Fn() -> bool + Send + Sync + 'static) {
        self.gate.bar(Arc::new(barred));
    }

    fn enter(&self, method: &'static str) -> Result<MutexGuard<'_, Records>, CatalogError> {
        self.gate.announce(method);
        let mut faults = self.faults.lock();
        let meant = |fault: &Fault| fault.method.is_none_or(|name| name == method);
        if let Some(fault) = faults.iter().position(meant).and_then(|index| faults.remove(index)) {
            return Err(CatalogError::new(fault.kind, format!("{method}, which was told to fail")));
        }
        drop(faults);
        Ok(self.gate.admit(&self.records))
    }
}

impl Default for MemoryCatalog {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryCatalog").finish_non_exhaustive()
    }
}

impl SandboxCatalog for MemoryCatalog {
    fn insert(&self, new: NewRecords) -> Result<(), InsertError> {
        let mut records = self.enter("insert")?;
        let NewRecords { sandbox, session, idempotency } = new;
        assert_eq!(
            (&session.sandbox, &session.owner),
            (&sandbox.id, &sandbox.owner),
            "the session is another's"
        );
        check_death(&sandbox);
        records.check_key(&session.id, idempotency.as_ref())?;
        if records.sandboxes.contains_key(&sandbox.id) || records.sessions.contains_key(&session.id) {
            return Err(failure(CatalogErrorKind::AlreadyExists, &sandbox.id).into());
        }
        records.check_name(&sandbox)?;
        records.sandboxes.insert(sandbox.id.clone(), sandbox);
        records.sessions.insert(session.id.clone(), session);
        records.remember(idempotency);
        Ok(())
    }

    fn update_sandbox(&self, record: &SandboxRecord, _: Durability) -> Result<(), CatalogError> {
        self.enter("update_sandbox")?.update_sandbox(record)
    }

    fn sandbox(&self, owner: &Owner, id: &SandboxId) -> Result<Option<SandboxRecord>, CatalogError> {
        let records = self.enter("sandbox")?;
        Ok(records.sandboxes.get(id).filter(|record| record.owner == *owner).cloned())
    }

    fn sandboxes(
        &self,
        owner: &Owner,
        filter: &SandboxFilter,
        page: &PageRequest,
    ) -> Result<Page<SandboxRecord>, CatalogError> {
        let records = self.enter("sandboxes")?;
        let found = records.sandboxes.values().filter(|record| {
            let has = |wanted: &BTreeMap<String, String>, found: &BTreeMap<String, String>| {
                wanted.iter().all(|(name, value)| found.get(name) == Some(value))
            };
            record.owner == *owner
                && (filter.ended || !is_over(record))
                && (filter.statuses.is_empty() || filter.statuses.contains(&record.status))
                && filter.name.as_ref().is_none_or(|name| record.name.as_ref() == Some(name))
                && has(&filter.labels, &record.spec.labels)
                && has(&filter.metadata, &record.metadata)
        });
        Ok(part(found, page, |record| place(record.created_unix_ms, &record.id)))
    }

    fn sandbox_named(&self, owner: &Owner, name: &SandboxName) -> Result<Option<SandboxId>, CatalogError> {
        Ok(self.enter("sandbox_named")?.holder(owner, name))
    }

    fn sandboxes_beginning(
        &self,
        owner: &Owner,
        beginning: &str,
        most: usize,
    ) -> Result<Vec<SandboxId>, CatalogError> {
        Ok(self.enter("sandboxes_beginning")?.beginning(owner, beginning, most))
    }

    fn last_sandbox(&self, owner: &Owner) -> Result<Option<SandboxId>, CatalogError> {
        Ok(self.enter("last_sandbox")?.last_of(owner))
    }

    fn unfinished_sandboxes(&self, node: &NodeId) -> Result<Vec<SandboxRecord>, CatalogError> {
        let records = self.enter("unfinished_sandboxes")?;
        let wanted = |record: &&SandboxRecord| record.node == *node && !is_over(record);
        Ok(records.sandboxes.values().filter(wanted).cloned().collect())
    }

    fn forget_sandboxes(&self, node: &NodeId, ended_before_unix_ms: u64) -> Result<u64, CatalogError> {
        let mut records = self.enter("forget_sandboxes")?;
        let before = records.sandboxes.len();
        records.sandboxes.retain(|_, record| {
            let ended = record.death.as_ref().map_or(record.created_unix_ms, |death| death.at_unix_ms);
            record.node != *node || !is_over(record) || ended >= ended_before_unix_ms
        });
        let forgotten = before - records.sandboxes.len();
        let Records {
            sandboxes,
            sessions,
            runs,
            idempotency,
            journal,
            calls,
            default_sandboxes,
            ports,
            reached,
            ..
        } = &mut *records;
        sessions.retain(|_, session| sandboxes.contains_key(&session.sandbox));
        runs.retain(|session, _| sessions.contains_key(session));
        journal.retain(|sandbox, _| sandboxes.contains_key(sandbox));
        calls.retain(|(sandbox, _), _| sandboxes.contains_key(sandbox));
        default_sandboxes.retain(|_, sandbox| sandboxes.contains_key(sandbox));
        ports.retain(|(sandbox, _), _| sandboxes.contains_key(sandbox));
        reached.retain(|sandbox, _| sandboxes.contains_key(sandbox));
        idempotency.retain(|_, key| {
            sessions.contains_key(&key.session)
                && key.at_unix_ms >= ended_before_unix_ms.saturating_sub(DAY_MS)
        });
        Ok(forgotten as u64)
    }

    fn remembered(&self, owner: &Owner, key: &str) -> Result<Option<Idempotency>, CatalogError> {
        let records = self.enter("remembered")?;
        Ok(records.idempotency.get(&(owner.clone(), key.to_owned())).cloned())
    }

    fn default_sandbox(&self, owner: &Owner) -> Result<Option<SandboxId>, CatalogError> {
        Ok(self.enter("default_sandbox")?.default_sandboxes.get(owner).cloned())
    }

    fn set_default_sandbox(&self, owner: &Owner, id: Option<&SandboxId>) -> Result<(), CatalogError> {
        self.enter("set_default_sandbox")?.set_default(owner, id)
    }
}

impl SessionCatalog for MemoryCatalog {
    fn insert_session(
        &self,
        record: &SessionRecord,
        idempotency: Option<&Idempotency>,
    ) -> Result<(), InsertError> {
        let mut records = self.enter("insert_session")?;
        records.check_key(&record.id, idempotency)?;
        records.check_owner(&record.owner, &record.sandbox)?;
        if records.sessions.contains_key(&record.id) {
            return Err(failure(CatalogErrorKind::AlreadyExists, &record.id).into());
        }
        records.sessions.insert(record.id.clone(), record.clone());
        records.remember(idempotency.cloned());
        Ok(())
    }

    fn update_session(
        &self,
        owner: &Owner,
        id: &SessionId,
        _: Durability,
        change: &mut ChangeSession<'_>,
    ) -> Result<SessionRecord, UpdateSessionError> {
        let mut records = self.enter("update_session")?;
        let stored = records.sessions.get(id).filter(|record| record.owner == *owner);
        let stored = stored.ok_or_else(|| failure(CatalogErrorKind::NotFound, id))?.clone();
        change(&mut stored.clone()).map(drop).map_err(UpdateSessionError::Denied)?;
        let mut record = stored.clone();
        let run = change(&mut record).map_err(UpdateSessionError::Denied)?;
        let fixed = |record: &SessionRecord| {
            (record.id.clone(), record.owner.clone(), record.sandbox.clone(), record.created_unix_ms)
        };
        assert_eq!(fixed(&stored), fixed(&record), "id, owner, sandbox and creation time never change");
        if let Some(run) = run {
            let runs = records.runs.entry(id.clone()).or_default();
            assert_eq!(run.session, *id, "the run is another session's");
            assert_eq!(run.number as usize, runs.len() + 1, "runs are numbered in turn");
            assert_eq!(run.number, record.totals.runs, "the totals count the run");
            runs.push(run);
        }
        records.sessions.insert(id.clone(), record.clone());
        Ok(record)
    }

    fn session(&self, owner: &Owner, id: &SessionId) -> Result<Option<SessionRecord>, CatalogError> {
        let records = self.enter("session")?;
        Ok(records.sessions.get(id).filter(|record| record.owner == *owner).cloned())
    }

    fn sessions(
        &self,
        owner: &Owner,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionRecord>, CatalogError> {
        let records = self.enter("sessions")?;
        let found = records.sessions.values().filter(|record| {
            record.owner == *owner
                && (filter.ended || record.state.is_open())
                && filter.sandbox.as_ref().is_none_or(|sandbox| record.sandbox == *sandbox)
                && filter.client.as_ref().is_none_or(|client| record.client == *client)
        });
        Ok(part(found, page, |record| place(record.created_unix_ms, &record.id)))
    }

    fn open_sessions(&self, node: &NodeId) -> Result<Vec<SessionRecord>, CatalogError> {
        let records = self.enter("open_sessions")?;
        let here = |record: &SessionRecord| {
            records.sandboxes.get(&record.sandbox).is_some_and(|sandbox| sandbox.node == *node)
        };
        let open = records.sessions.values().filter(|record| record.state.is_open());
        Ok(open.filter(|record| here(record)).cloned().collect())
    }

    fn runs(&self, owner: &Owner, id: &SessionId) -> Result<Vec<RunRecord>, CatalogError> {
        let records = self.enter("runs")?;
        let is_theirs = records.sessions.get(id).is_some_and(|record| record.owner == *owner);
        Ok(records.runs.get(id).filter(|_| is_theirs).cloned().unwrap_or_default())
    }
}

impl KeyCatalog for MemoryCatalog {
    fn insert_key(&self, record: &KeyRecord) -> Result<(), CatalogError> {
        let mut records = self.enter("insert_key")?;
        let same = |known: &KeyRecord| known.id == record.id || known.hash == record.hash;
        if records.keys.values().any(same) {
            return Err(failure(CatalogErrorKind::AlreadyExists, &record.id));
        }
        records.keys.insert(record.id.clone(), record.clone());
        Ok(())
    }

    fn key_by_hash(&self, hash: &str) -> Result<Option<KeyRecord>, CatalogError> {
        Ok(self.enter("key_by_hash")?.keys.values().find(|record| record.hash == hash).cloned())
    }

    fn keys(&self, owner: Option<&Owner>) -> Result<Vec<KeyRecord>, CatalogError> {
        let records = self.enter("keys")?;
        let wanted = |record: &&KeyRecord| owner.is_none_or(|owner| record.owner == *owner);
        let mut found: Vec<KeyRecord> = records.keys.values().filter(wanted).cloned().collect();
        found.sort_by_key(|record| (record.created_unix_ms, record.id.clone()));
        Ok(found)
    }

    fn revoke_key(&self, id: &KeyId, at_unix_ms: u64) -> Result<KeyRecord, CatalogError> {
        let mut records = self.enter("revoke_key")?;
        let record = records.keys.get_mut(id).ok_or_else(|| failure(CatalogErrorKind::NotFound, id))?;
        record.revoked_unix_ms.get_or_insert(at_unix_ms);
        Ok(record.clone())
    }
}

impl EventLog for MemoryCatalog {
    fn append_events(&self, events: &[EventRecord]) -> Result<Vec<u64>, CatalogError> {
        let mut records = self.enter("append_events")?;
        let mut numbers = Vec::new();
        for event in events {
            assert_eq!(event.number, 0, "the catalog gives an event its number");
            records.last_event += 1;
            let number = records.last_event;
            records.events.push(EventRecord { number, ..event.clone() });
            numbers.push(number);
        }
        Ok(numbers)
    }

    fn events(
        &self,
        owner: &Owner,
        filter: &EventFilter,
        after: u64,
        limit: u32,
    ) -> Result<Vec<EventRecord>, CatalogError> {
        let records = self.enter("events")?;
        let of_owner = records.events.iter().filter(|event| event.owner == *owner && event.number > after);
        let found = of_owner.filter(|event| filter.includes(event));
        Ok(found.take(limit as usize).cloned().collect())
    }

    fn last_event(&self) -> Result<u64, CatalogError> {
        Ok(self.enter("last_event")?.last_event)
    }

    fn forget_events(&self, before_unix_ms: u64) -> Result<u64, CatalogError> {
        let mut records = self.enter("forget_events")?;
        let before = records.events.len();
        records.events.retain(|event| event.at_unix_ms >= before_unix_ms);
        Ok((before - records.events.len()) as u64)
    }
}

impl Records {
    fn update_sandbox(&mut self, record: &SandboxRecord) -> Result<(), CatalogError> {
        let taken = self.check_name(record);
        let stored = self.sandboxes.get_mut(&record.id).filter(|stored| stored.owner == record.owner);
        let stored = stored.ok_or_else(|| failure(CatalogErrorKind::NotFound, &record.id))?;
        assert_eq!(stored.created_unix_ms, record.created_unix_ms, "the creation time never changes");
        assert!(record.generation <= stored.generation + 1, "generation {} is leapt to", record.generation);
        check_death(record);
        if record.generation <= stored.generation {
            return Err(failure(CatalogErrorKind::Stale, &record.id));
        }
        taken?;
        *stored = record.clone();
        Ok(())
    }

    fn check_known(&self, sandbox: &SandboxId) -> Result<(), CatalogError> {
        let known = self.sandboxes.contains_key(sandbox);
        if known { Ok(()) } else { Err(failure(CatalogErrorKind::NotFound, sandbox)) }
    }

    fn check_owner(&self, owner: &Owner, sandbox: &SandboxId) -> Result<(), CatalogError> {
        match self.sandboxes.get(sandbox) {
            Some(record) if record.owner == *owner => Ok(()),
            _ => Err(failure(CatalogErrorKind::NotFound, sandbox)),
        }
    }

    fn check_key(&mut self, session: &SessionId, key: Option<&Idempotency>) -> Result<(), InsertError> {
        let Some(key) = key else { return Ok(()) };
        assert_eq!(key.session, *session, "the key is to remember another session");
        self.idempotency.retain(|_, known| known.at_unix_ms >= key.at_unix_ms.saturating_sub(DAY_MS));
        match self.idempotency.get(&(key.owner.clone(), key.key.clone())) {
            Some(earlier) => Err(InsertError::Repeated(earlier.clone())),
            None => Ok(()),
        }
    }

    fn remember(&mut self, key: Option<Idempotency>) {
        if let Some(key) = key {
            self.idempotency.insert((key.owner.clone(), key.key.clone()), key);
        }
    }
}

/// True if it ended for good.
fn is_over(record: &SandboxRecord) -> bool {
    !record.is_live() && !record.files_kept()
}

fn check_death(record: &SandboxRecord) {
    assert!(record.is_live() || record.death.is_some(), "{}: a death has its certificate", record.id);
}

fn place(created_unix_ms: u64, id: &impl ToString) -> Cursor {
    Cursor { created_unix_ms, id: id.to_string() }
}

fn part<'a, T: Clone + 'a>(
    found: impl Iterator<Item = &'a T>,
    page: &PageRequest,
    place: impl Fn(&T) -> Cursor,
) -> Page<T> {
    assert!((1..=PageRequest::MOST).contains(&page.limit), "a page has 1 to {} items", PageRequest::MOST);
    let mut places: Vec<(Cursor, &T)> = found.map(|record| (place(record), record)).collect();
    places.retain(|(place, _)| page.after.as_ref().is_none_or(|after| place < after));
    places.sort_by(|(a, _), (b, _)| b.cmp(a));
    let more = places.len() > page.limit as usize;
    places.truncate(page.limit as usize);
    let next = places.last().filter(|_| more).map(|(place, _)| place.clone());
    Page { items: places.into_iter().map(|(_, record)| record.clone()).collect(), next }
}

fn failure(kind: CatalogErrorKind, what: &dyn fmt::Display) -> CatalogError {
    CatalogError::new(kind, format!("{kind:?}: {what}"))
}
