mod find;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};
use warren_core::catalog::SandboxFilter;
use warren_core::{
    DeathCause, DeathCertificate, Isolation, IsolationError, Owner, Page, PageRequest, Request, SandboxId,
    SandboxRecord, Status, TemplateInfo, TemplateName, Usage,
};

use crate::admit::check_words;
use crate::bounds::heavy;
use crate::cell::{Patch, Task};
use crate::certificate::Ending;
use crate::engine::closed;
use crate::entry::denied_at_the_end;
use crate::error::Field;
use crate::ports::{blocking, finished};
use crate::{Access, Engine, EngineError, Sandbox};

/// How often a caller that waits for a sandbox without a driver looks for one.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The longest that anybody waits for a change at a time.
const MOST_PATIENCE_MS: u64 = 3_600_000;

/// The fate of the files of a sandbox that is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppedFiles {
    Keep,
    Delete,
}

/// The sandboxes of the caller's owner.
#[derive(Debug, Clone)]
pub struct Sandboxes {
    pub(crate) access: Access,
}

impl Access {
    pub fn sandboxes(&self) -> Sandboxes {
        Sandboxes { access: self.clone() }
    }
}

impl Sandbox {
    pub async fn record(&self) -> Result<SandboxRecord, EngineError> {
        self.engine.record_of(self.owner(), &self.id).await
    }

    pub async fn update(&self, patch: Patch) -> Result<SandboxRecord, EngineError> {
        self.engine.may_change()?;
        patch.labels.as_ref().map_or(Ok(()), |labels| check_words(Field::Labels, labels))?;
        patch.metadata.as_ref().map_or(Ok(()), |metadata| check_words(Field::Metadata, metadata))?;
        for ttl_s in [patch.ttl_s, patch.least_ttl_s].into_iter().flatten() {
            self.engine.check_ttl(ttl_s)?;
        }
        self.engine.ask(self.owner(), &self.id, Task::Patch(patch)).await
    }

    /// Ends its time to live now: it pauses or ends, as it was told to. Idempotent.
    pub async fn end_time(&self) -> Result<SandboxRecord, EngineError> {
        self.engine.may_change()?;
        self.engine.ask(self.owner(), &self.id, Task::Expire).await
    }

    /// Freezes every process, once the calls in the sandbox are done or the settings' time for that
    /// is over. Idempotent.
    pub async fn pause(&self) -> Result<SandboxRecord, EngineError> {
        let drain = Duration::from_millis(self.engine.shared.settings.pause_drain_ms);
        self.pause_after(drain).await
    }

    /// As [`Sandbox::pause`], waiting so long for the calls in it. Followers of processes that run
    /// anyway are not waited for.
    pub async fn pause_after(&self, drain: Duration) -> Result<SandboxRecord, EngineError> {
        self.engine.may_change()?;
        if let Some(cell) = self.engine.shared.registry.find(self.owner(), &self.id)
            && cell.status() == Status::Ready
        {
            let life = cell.life();
            let drain = drain.min(Duration::from_millis(MOST_PATIENCE_MS));
            let drained = async {
                tokio::select! {
                    () = life.until_at_most(0) => {}
                    _ = life.until_end() => {}
                }
            };
            // Calls that are not done by then are frozen.
            drop(timeout(drain, drained).await);
        }
        self.engine.ask(self.owner(), &self.id, Task::Pause).await
    }

    /// Thaws a paused sandbox, or starts again one that was stopped with its files kept.
    /// Idempotent. The session that its end took away goes on with it, if no other holds it.
    pub async fn resume(&self) -> Result<SandboxRecord, EngineError> {
        let (engine, owner, id) = (self.engine.clone(), self.owner().clone(), self.id.clone());
        finished(async move {
            let _turn = engine.shared.leases.turns.hold(id.clone()).await;
            let record = engine.set_going(&owner, &id).await?;
            engine.reopen(&record).await;
            Ok(record)
        })
        .await
    }

    /// Ends a sandbox and its sessions. With [`StoppedFiles::Delete`] also one that was stopped
    /// before. Idempotent.
    pub async fn stop(&self, files: StoppedFiles) -> Result<SandboxRecord, EngineError> {
        self.engine.stop_by(&self.caller.name, self.owner(), &self.id, files).await
    }

    /// How it ended; `None` while it lives.
    pub async fn death(&self) -> Result<Option<DeathCertificate>, EngineError> {
        let record = self.record().await?;
        Ok(record.death.filter(|_| record.status.is_terminal()))
    }

    /// Its usage; for one that has ended, its last usage.
    pub async fn usage(&self) -> Result<Usage, EngineError> {
        let record = self.record().await?;
        if record.is_live() && record.status != Status::Creating {
            // Where the disk has no quotas every file is looked at: one count at a time, and those
            // who wait have no thread.
            let call = self.engine.shared.in_flight.take(self.owner(), &self.id)?;
            let turn = match self.engine.shared.registry.find(self.owner(), &self.id) {
                Some(cell) => Some(Arc::clone(&cell.counting).lock_owned().await),
                None => None,
            };
            let (engine, backend, id) =
                (self.engine.inner(), self.engine.backend_of(&record)?, self.id.clone());
            let place = backend.turns.to_count(self.owner()).await?;
            let usage = move || {
                let _held = (turn, call);
                engine.usage_of(backend.port.as_ref(), &id).map_err(EngineError::Backend)
            };
            return heavy::at(place, usage).await;
        }
        match record.death.as_ref().and_then(|death| death.usage) {
            Some(usage) => Ok(usage),
            None => Err(denied_at_the_end(&record, Request::Execute)),
        }
    }

    /// Waits until the sandbox's record has a later generation than `seen`, or for `patience_ms`.
    pub async fn changed(&self, seen: u64, patience_ms: u64) -> Result<SandboxRecord, EngineError> {
        let until = Instant::now() + Duration::from_millis(patience_ms.min(MOST_PATIENCE_MS));
        let mut closing = self.engine.shared.closing.subscribe();
        loop {
            let record = self.record().await?;
            if record.generation > seen || Instant::now() >= until {
                return Ok(record);
            }
            let change = self.engine.next_change(self.owner(), &self.id, seen);
            tokio::select! {
                // Either way the record is read again.
                waited = timeout_at(until, change) => drop(waited),
                () = closed(&mut closing) => return Ok(record),
            }
        }
    }
}

impl Sandboxes {
    pub async fn list(
        &self,
        filter: &SandboxFilter,
        page: &PageRequest,
    ) -> Result<Page<SandboxRecord>, EngineError> {
        let (owner, filter, page) = (self.access.owner().clone(), filter.clone(), page.clone());
        let engine = &self.access.engine;
        let mut page = engine.catalog(move |catalog| catalog.sandboxes(&owner, &filter, &page)).await?;
        page.items.iter_mut().for_each(|record| engine.mark_unreachable(record));
        Ok(page)
    }
}

impl Engine {
    /// As [`Sandbox::resume`], for callers that see to the sessions themselves.
    pub(crate) async fn set_going(
        &self,
        owner: &Owner,
        id: &SandboxId,
    ) -> Result<SandboxRecord, EngineError> {
        self.may_change()?;
        self.ask(owner, id, Task::Resume).await
    }

    /// As [`Sandbox::stop`], with this name in the certificate.
    pub(crate) async fn stop_by(
        &self,
        by: &str,
        owner: &Owner,
        id: &SandboxId,
        files: StoppedFiles,
    ) -> Result<SandboxRecord, EngineError> {
        let cause = DeathCause::Killed { by: by.to_owned() };
        self.stop_because(owner, id, cause, format!("{by} ended it"), files).await
    }

    /// Ends a sandbox for a reason of the engine's own; otherwise as [`Sandbox::stop`].
    pub(crate) async fn stop_because(
        &self,
        owner: &Owner,
        id: &SandboxId,
        cause: DeathCause,
        detail: String,
        files: StoppedFiles,
    ) -> Result<SandboxRecord, EngineError> {
        self.may_change()?;
        let ending = Ending { cause, detail, files_kept: files == StoppedFiles::Keep };
        self.ask(owner, id, Task::Stop(ending)).await
    }

    /// All figures of a sandbox, those of its link too. Blocks.
    pub(crate) fn usage_of(&self, backend: &dyn Isolation, id: &SandboxId) -> Result<Usage, IsolationError> {
        let network = self.shared.parts.networks.usage(id);
        backend.usage(id).map(|usage| Usage { network, ..usage })
    }

    /// Returns when a change may have happened.
    async fn next_change(&self, owner: &Owner, id: &SandboxId, seen: u64) {
        match self.shared.registry.find(owner, id) {
            Some(cell) => {
                let mut record = cell.follow_record();
                drop(cell);
                drop(record.wait_for(|record| record.generation > seen).await);
            }
            None => sleep(LOOK_EVERY).await,
        }
    }

    pub async fn templates(&self) -> Result<Vec<TemplateInfo>, EngineError> {
        let templates = self.shared.parts.templates.clone();
        blocking(move || templates.templates()).await.map_err(EngineError::Template)
    }

    /// True if any owner may begin with images of this registry.
    pub fn is_open_registry(&self, registry: &str) -> bool {
        self.shared.parts.templates.is_open(registry)
    }

    pub async fn remove_template(&self, name: &TemplateName) -> Result<(), EngineError> {
        self.may_change()?;
        let (engine, name) = (self.inner(), name.clone());
        blocking(move || {
            let in_use = engine.templates_in_use()?;
            let templates = &engine.shared.parts.templates;
            templates.remove_template(&name, &in_use).map_err(EngineError::Template)
        })
        .await
    }

    /// Templates that sandboxes and snapshots stand on. Blocks.
    pub fn templates_in_use(&self) -> Result<Vec<TemplateName>, EngineError> {
        let mut names = self.shared.registry.templates_in_use();
        names.extend(self.shared.parts.catalog.templates_of_snapshots(self.node())?);
        names.sort();
        names.dedup();
        Ok(names)
    }
}
