use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use warren_core::catalog::{CatalogError, CatalogErrorKind, Idempotency};
use warren_core::{
    Automatic, BuildId, Deadline, History, IsolationKind, Limits, Need, NetworkPolicy, OnExpiry, Owner,
    PauseKeeps, RootKind, SandboxKind, SandboxName, SandboxRecord, SandboxSpec, SessionRecord, SnapshotId,
    SnapshotReason, SnapshotRecord, StartCommands, Status, Traffic, WallChoice,
};

use crate::admit::check_words;
use crate::driver::{Driver, First, MakeError, Making};
use crate::error::{Field, PolicyField, Wording};
use crate::ports::{Backend, promptly};
use crate::state::{Claim, Pin, Spare};
use crate::{Engine, EngineError};

/// A request for a fresh sandbox.
#[derive(Debug, Clone)]
pub struct NewSandbox {
    /// Validated by the engine. The time to live is `limits.lifetime_s`.
    pub spec: SandboxSpec,
    /// Unique among the owner's sandboxes.
    pub name: Option<SandboxName>,
    pub disk_limit_required: bool,
    pub kind: SandboxKind,
    pub metadata: BTreeMap<String, String>,
    pub on_expiry: OnExpiry,
    /// How traffic from outside meets it.
    pub traffic: Traffic,
    /// Kept by the pause at the end of its time.
    pub pause_keeps: PauseKeeps,
    /// The commands that run in it from its beginning.
    pub start: Option<StartCommands>,
    /// The build of an image that is done in it.
    pub build: Option<BuildId>,
    /// Notes of a face of the service.
    pub annotations: BTreeMap<String, String>,
    /// The state it begins with; absent: the template or image as it is.
    pub from: Option<SnapshotId>,
    /// Which snapshots are taken without being asked for; absent: as the settings say.
    pub automatic: Option<Automatic>,
    /// The tier that its backend must have.
    pub tier: Option<IsolationKind>,
}

/// A sandbox that is to be made, with the first session that holds it.
#[derive(Debug, Clone)]
pub(crate) struct MakeSandbox {
    pub(crate) new: NewSandbox,
    /// It has the sandbox's owner, id and timeouts already.
    pub(crate) session: SessionRecord,
    /// A named backend serves, or it is an error; without a name the first that can.
    pub(crate) backend: Option<String>,
    /// The wall that is written down as asked for, where that is not the one above.
    pub(crate) asked: Option<WallChoice>,
    pub(crate) idempotency: Option<Idempotency>,
    /// Answer as soon as it is written down; [`Engine::sandbox_ready`] or [`Engine::sandbox_ended`]
    /// tells the rest.
    pub(crate) background: bool,
}

impl MakeSandbox {
    /// The wall that was asked for.
    fn wall(&self) -> WallChoice {
        WallChoice { backend: self.backend.clone(), tier: self.new.tier }
    }

    /// Asks for the very image that a snapshot stands on, if its name was given, and for the
    /// backend that has it.
    fn stand_on_image_of(&mut self, snapshot: &SnapshotRecord) {
        let (Some(asked), Some(image)) = (&mut self.new.spec.image, &snapshot.spec.image) else { return };
        if asked.digest.is_none() && asked.name == image.name {
            *asked = image.clone();
        }
        if self.wall().is_free() {
            self.asked.get_or_insert_with(WallChoice::default);
            self.backend = Some(snapshot.backend.clone());
        }
    }
}

impl NewSandbox {
    /// One of this spec with every default.
    pub fn new(spec: SandboxSpec) -> Self {
        Self {
            spec,
            name: None,
            disk_limit_required: false,
            kind: SandboxKind::default(),
            metadata: BTreeMap::new(),
            on_expiry: OnExpiry::default(),
            traffic: Traffic::default(),
            pause_keeps: PauseKeeps::default(),
            start: None,
            build: None,
            annotations: BTreeMap::new(),
            from: None,
            automatic: None,
            tier: None,
        }
    }
}

impl Engine {
    /// Makes a sandbox. Everything that can be known beforehand is checked before anything is
    /// written; the rest ends in a record that says why it failed. What has begun goes on when the
    /// caller goes away.
    pub(crate) async fn make(&self, mut make: MakeSandbox) -> Result<SandboxRecord, MakeError> {
        self.may_change()?;
        check_words(Field::Metadata, &make.new.metadata)?;
        let traffic = make.new.traffic.validate();
        traffic.map_err(|error| EngineError::invalid(Field::Traffic, error.to_string()))?;
        let (history, pin, imported) = self.first_history(&mut make).await?;
        let backend = self.admit(&make, imported).await?;
        let seat = self.shared.seats.take(&make.session.owner)?;
        let claim = self.claim(&make, &backend).await;
        if let Some(spare) = claim.as_ref().and_then(Claim::spare) {
            make.session.sandbox = spare.id().clone();
        }
        let record = self.first_record(&make, backend.as_ref(), history);
        let (reply, answer) = oneshot::channel();
        let MakeSandbox { session, idempotency, background, .. } = make;
        let making = Making { session, idempotency, background, pin, claim, reply };
        let id = record.id.clone();
        if Driver::start(self, record, backend, Some(seat), First::Make(Box::new(making))).is_none() {
            let error = CatalogError::new(CatalogErrorKind::AlreadyExists, format!("make {id} anew"));
            return Err(MakeError::Engine(error.into()));
        }
        self.shared.pools.forget(&id);
        answer.await.unwrap_or(Err(MakeError::Engine(EngineError::ShuttingDown)))
    }

    /// A machine that was made ahead of time and is just what is asked for, if there is one.
    async fn claim(&self, make: &MakeSandbox, backend: &Arc<Backend>) -> Option<Claim> {
        let template = &make.new.spec.template;
        let pooled = make.new.from.is_none() && make.new.spec.image.is_none();
        if !pooled || !self.shared.settings.pools.templates.contains_key(template) {
            return None;
        }
        let claim = self.shared.pools.take(&make.new.spec, make.new.disk_limit_required);
        let (engine, backend) = (self.inner(), Arc::clone(backend));
        let (id, spec) = (make.session.sandbox.clone(), make.new.spec.clone());
        // The template may have changed since, and the machine may have ended.
        let fits = move |claim: &Claim| {
            let asked = engine.marked_request(&id, &spec, &backend).ok();
            let same = |spare: &Spare| Arc::ptr_eq(&spare.backend, &backend);
            let serves = |asked| claim.spare().is_some_and(|spare| same(spare) && spare.serves(&asked));
            asked.is_some_and(serves)
        };
        let claim = match claim {
            None => None,
            Some(claim) => promptly(move || Some(claim).filter(fits)).await,
        };
        self.shared.pools.count(claim.is_some());
        claim
    }

    /// The backend for a sandbox that is to be made, once all that can be known beforehand is
    /// checked.
    async fn admit(&self, make: &MakeSandbox, imported: bool) -> Result<Arc<Backend>, EngineError> {
        let NewSandbox { spec, disk_limit_required, .. } = &make.new;
        let owner = &make.session.owner;
        self.check_spec(spec)?;
        self.check_first_policy(&spec.network)?;
        self.check_secrets(owner, &spec.network).await?;
        let wall = make.wall();
        // Who makes a fork asks for no wall.
        let asked = wall.field().filter(|_| make.asked.is_none());
        self.choose_backend(Some(owner), spec, *disk_limit_required, &wall, imported, asked)
    }

    /// The backend for a spec of an owner, or of nobody yet.
    pub(crate) fn choose_backend(
        &self,
        owner: Option<&Owner>,
        spec: &SandboxSpec,
        disk_limit_required: bool,
        wall: &WallChoice,
        imported: bool,
        asked: Option<Field>,
    ) -> Result<Arc<Backend>, EngineError> {
        let walls = &self.shared.settings.walls;
        let wall = walls.effective(wall, spec);
        let mut needs = Need::of(spec, RootKind::of(spec), disk_limit_required);
        needs.extend(walls.raised(&spec.network, imported).map(Need::AtLeast));
        self.choose(owner, &needs, &wall, &spec.network, asked)
    }

    /// The backend that was asked for, or the first that meets the needs and the owner's least
    /// tier. If there is none, the error says of each why not, and names the field in which the
    /// caller asked for a wall.
    pub(crate) fn choose(
        &self,
        owner: Option<&Owner>,
        needs: &[Need],
        wall: &WallChoice,
        network: &NetworkPolicy,
        asked: Option<Field>,
    ) -> Result<Arc<Backend>, EngineError> {
        let needs = [&self.wall_needs(owner, wall), needs].concat();
        let named = |name: &str| wall.backend.as_deref().is_none_or(|named| named == name);
        let mut reasons = Vec::new();
        for backend in self.shared.backends.iter().filter(|backend| named(backend.name())) {
            let refused = backend.port.capabilities().refuse(&needs).map(|refusal| refusal.to_string());
            let refused = refused.or_else(|| self.why_no_link(network));
            match refused.or_else(|| backend.away().map(|why| format!("it is away: {why}"))) {
                None => return Ok(Arc::clone(backend)),
                Some(why) => reasons.push((backend.name().to_owned(), why)),
            }
        }
        for absent in self.shared.parts.absent.iter().filter(|absent| named(&absent.name)) {
            reasons.push((absent.name.clone(), format!("it could not be opened: {}", absent.why)));
        }
        if let (Some(named), true) = (&wall.backend, reasons.is_empty()) {
            let here: Vec<_> = self.shared.backends.iter().map(|backend| backend.name()).collect();
            let why = format!("there is no backend of that name here, but {}", here.join(", "));
            reasons.push((named.clone(), why));
        }
        Err(EngineError::NothingFits { asked, reasons })
    }

    /// Everything about a spec that can be judged without asking the host.
    fn check_spec(&self, spec: &SandboxSpec) -> Result<(), EngineError> {
        spec.validate()
            .map_err(|error| EngineError::invalid(error.field(), Wording::Named(error.to_string())))?;
        within(&spec.limits, &self.shared.settings.most_limits)
    }

    /// As [`Engine::check_policy`], for a sandbox that is to be made: nobody has granted it
    /// anything yet.
    fn check_first_policy(&self, policy: &NetworkPolicy) -> Result<(), EngineError> {
        if !policy.grants.is_empty() {
            let message = "a sandbox is made with rules; grants are given while it exists";
            return Err(EngineError::reason(Field::Network(PolicyField::Grants), message));
        }
        self.check_policy(policy)
    }

    /// The history that it begins with, a pin that keeps its layers until the record is written,
    /// and whether they came from elsewhere.
    async fn first_history(
        &self,
        make: &mut MakeSandbox,
    ) -> Result<(History, Option<Pin>, bool), EngineError> {
        let automatic = make.new.automatic.unwrap_or(self.shared.settings.automatic_snapshots);
        let history = History { automatic, ..History::default() };
        let Some(from) = make.new.from.clone() else { return Ok((history, None, false)) };
        let (engine, owner) = (self.inner(), make.session.owner.clone());
        let (snapshot, pin) = promptly(move || engine.usable_snapshot(&owner, &from)).await?;
        make.stand_on_image_of(&snapshot);
        let (base, asked) = (snapshot.spec.base(), make.new.spec.base());
        if base != asked {
            let field = if make.new.spec.image.is_some() { Field::Image } else { Field::Template };
            let message = format!("{} stands on {base}: leave this out, or name that one", snapshot.id);
            return Err(EngineError::invalid(field, message));
        }
        let imported = snapshot.reason == SnapshotReason::Import;
        let history = History {
            began: snapshot.stack.clone(),
            stack: snapshot.stack,
            head: Some(snapshot.id),
            forked_from: Some(snapshot.sandbox),
            memory: snapshot.memory,
            ..history
        };
        Ok((history, Some(pin), imported))
    }

    fn first_record(&self, make: &MakeSandbox, backend: &Backend, history: History) -> SandboxRecord {
        let clock = self.shared.parts.clock.as_ref();
        let lifetime_ms = make.new.spec.limits.lifetime_s.saturating_mul(1000);
        SandboxRecord {
            id: make.session.sandbox.clone(),
            owner: make.session.owner.clone(),
            name: make.new.name.clone(),
            node: self.node().clone(),
            generation: 1,
            status: Status::Creating,
            paused: None,
            spec: make.new.spec.clone(),
            disk_limit_required: make.new.disk_limit_required,
            kind: make.new.kind,
            backend: backend.name().to_owned(),
            wall: make.asked.clone().unwrap_or_else(|| make.wall()),
            unplaced: false,
            left: None,
            metadata: make.new.metadata.clone(),
            created_unix_ms: clock.unix_ms(),
            made_in_ms: 0,
            deadline: Deadline::after(clock, lifetime_ms),
            on_expiry: make.new.on_expiry,
            timeouts: make.session.timeouts,
            death: None,
            history,
            addresses: Vec::new(),
            traffic: make.new.traffic.clone(),
            pause_keeps: make.new.pause_keeps,
            start: make.new.start.clone(),
            build: make.new.build.clone(),
            annotations: make.new.annotations.clone(),
            unreachable: None,
        }
    }
}

/// Every limit is within what the server allows.
fn within(limits: &Limits, most: &Limits) -> Result<(), EngineError> {
    let checks = [
        (Field::Memory, limits.memory > most.memory, most.memory.to_string()),
        (Field::Cpus, limits.cpus > most.cpus, most.cpus.to_string()),
        (Field::Pids, limits.pids > most.pids, most.pids.to_string()),
        (Field::Disk, limits.disk > most.disk, most.disk.to_string()),
        (Field::Inodes, limits.inodes > most.inodes, most.inodes.to_string()),
        (Field::OpenFiles, limits.open_files > most.open_files, most.open_files.to_string()),
        (Field::Lifetime, limits.lifetime_s > most.lifetime_s, most.lifetime_s.to_string()),
    ];
    match checks.into_iter().find(|(_, exceeded, _)| *exceeded) {
        Some((field, _, most)) => {
            Err(EngineError::predicate(field, format!("is more than the {most} allowed here")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use warren_core::ByteSize;

    use super::*;

    fn field(result: Result<(), EngineError>) -> Field {
        match result {
            Err(EngineError::Invalid { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn limits_over_the_servers_are_refused_by_name() {
        let most = Limits::default();
        assert!(within(&Limits::default(), &most).is_ok());
        let memory = Limits { memory: ByteSize(most.memory.0 + 1), ..Limits::default() };
        assert_eq!(field(within(&memory, &most)), Field::Memory);
        let long = Limits { lifetime_s: most.lifetime_s + 1, ..Limits::default() };
        assert_eq!(field(within(&long, &most)), Field::Lifetime);
    }
}
