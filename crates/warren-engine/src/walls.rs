//! Which wall a sandbox may have: what was asked for, the least that its owner may have, and the
//! backends that are there.

use std::sync::Arc;

use warren_core::{IsolationKind, Need, Owner, SandboxRecord, SnapshotReason, SnapshotRecord, WallChoice};

use crate::ports::Backend;
use crate::{Engine, EngineError};

impl Engine {
    /// The needs of a choice and of the owner's least tier. `None` for the owner: it is for nobody
    /// yet.
    pub(crate) fn wall_needs(&self, owner: Option<&Owner>, choice: &WallChoice) -> Vec<Need> {
        let least = owner.and_then(|owner| self.shared.settings.walls.least_for(owner));
        choice.tier.map(Need::Tier).into_iter().chain(least.map(Need::AtLeast)).collect()
    }

    /// Refuses to run a sandbox behind a wall that is weaker than its owner may have.
    pub(crate) fn check_wall(&self, record: &SandboxRecord, backend: &Backend) -> Result<(), EngineError> {
        let needs = self.wall_needs(Some(&record.owner), &WallChoice::default());
        let Some(refusal) = backend.port.capabilities().refuse(&needs) else { return Ok(()) };
        let id = &record.id;
        let why = format!("{refusal}, by `policy.minimum_tier`: `warren move {id} --tier TIER` moves it");
        Err(EngineError::NothingFits { asked: None, reasons: vec![(backend.name().to_owned(), why)] })
    }

    /// Why the wall of a sandbox is not one of this tier; `None` when it is.
    pub(crate) fn refuse_tier(&self, record: &SandboxRecord, tier: IsolationKind) -> Option<String> {
        match self.backend_of(record) {
            Ok(backend) => {
                backend.port.capabilities().refuse(&[Need::Tier(tier)]).map(|refusal| refusal.to_string())
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// The backend for a fork of what a sandbox was, and the wall that was asked for: that of the
    /// sandbox itself, as long as its owner may have it. While that one cannot be asked there is
    /// none: another could be weaker.
    pub(crate) fn wall_of_fork(
        &self,
        snapshot: &SnapshotRecord,
        original: Option<&SandboxRecord>,
    ) -> Result<(Option<String>, WallChoice), EngineError> {
        let name = original.map_or(&snapshot.backend, |original| &original.backend);
        let asked = original.map(|original| original.wall.clone()).unwrap_or_default();
        let mut needs = self.wall_needs(Some(&snapshot.owner), &WallChoice::default());
        let network = &original.map_or(&snapshot.spec, |original| &original.spec).network;
        let imported = snapshot.reason == SnapshotReason::Import;
        needs.extend(self.shared.settings.walls.raised(network, imported).map(Need::AtLeast));
        let present = self.backend_named(name)?;
        // One that is refused is weaker than what is chosen in its place.
        let fits = present.port.capabilities().refuse(&needs).is_none();
        Ok((fits.then(|| name.clone()), asked))
    }

    /// The backend of a name, if it is there and answers.
    pub(crate) fn backend_named(&self, name: &str) -> Result<Arc<Backend>, EngineError> {
        match self.shared.backends.iter().find(|backend| backend.name() == name) {
            Some(backend) => match backend.away() {
                None => Ok(Arc::clone(backend)),
                Some(why) => Err(EngineError::BackendUnavailable { name: name.to_owned(), why }),
            },
            None => Err(self.not_here(name)),
        }
    }

    /// True for a backend that was opened, even if it is away.
    pub(crate) fn is_open(&self, name: &str) -> bool {
        self.shared.backends.iter().any(|backend| backend.name() == name)
    }

    /// Why a backend that is not open cannot serve.
    pub(crate) fn not_here(&self, name: &str) -> EngineError {
        let absent = self.shared.parts.absent.iter().find(|absent| absent.name == name);
        let why = absent.map_or_else(
            || "it is not on: add it to the setting `backends.enabled`".to_owned(),
            |absent| absent.why.clone(),
        );
        EngineError::BackendUnavailable { name: name.to_owned(), why }
    }

    /// Says of a sandbox that nobody can reach why that is so.
    pub(crate) fn mark_unreachable(&self, record: &mut SandboxRecord) {
        if record.node != *self.node() || !(record.is_live() || record.files_kept()) {
            return;
        }
        if let Err(EngineError::BackendUnavailable { name, why }) = self.backend_named(&record.backend) {
            record.unreachable = Some(format!("the backend `{name}` is away: {why}"));
        }
    }
}
