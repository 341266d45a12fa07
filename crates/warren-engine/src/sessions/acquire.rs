//! How a request for a session becomes one: the preferred sandbox if it fits, else a fresh one on
//! the first backend that can serve it.

use std::collections::BTreeMap;

use warren_core::catalog::Idempotency;
use warren_core::{
    Deadline, Owner, Provision, RunLimits, SandboxId, SandboxKind, SandboxRecord, SandboxSpec, SandboxWord,
    SessionId, SessionRecord, SessionState, Status, Timeouts, WallChoice,
};

use super::attach::Usable;
use crate::admit::{check_range, check_visible, check_words};
use crate::base::places;
use crate::create::MakeSandbox;
use crate::driver::MakeError;
use crate::error::Field;
use crate::ports::blocking;
use crate::{Acquire, Acquired, Engine, EngineError, Expected, NewSandbox, Requirements, Sessions, Settings};

/// How long at a time a sandbox that is being made is watched.
const PATIENCE_MS: u64 = 10_000;

/// A session before it has a sandbox.
pub(super) struct Terms {
    pub(super) client: String,
    pub(super) timeouts: Timeouts,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) limits: RunLimits,
    pub(super) tier: Option<String>,
    /// The session ends by itself after `limits.duration_s`.
    pub(super) limited: bool,
}

/// Options of a fresh sandbox beside its spec.
#[derive(Default)]
pub(super) struct Fresh {
    pub(super) backend: Option<String>,
    pub(super) asked: Option<WallChoice>,
    pub(super) idempotency: Option<Expected>,
    pub(super) background: bool,
}

impl Sessions {
    /// A session with a sandbox: the preferred one, else a fresh one. A preferred sandbox that is
    /// paused or was stopped with its files kept is made to run again.
    pub async fn acquire(&self, request: Acquire) -> Result<Acquired, EngineError> {
        let (engine, owner) = (&self.access.engine, self.access.owner());
        engine.may_change()?;
        let terms = Terms::of(&request, &engine.shared.settings)?;
        request.required.validate()?;
        if let Some(expected) = &request.idempotency
            && let Some(earlier) = engine.earlier(owner, expected).await?
        {
            return engine.repeat(owner, earlier, expected, request.background).await;
        }
        let mut against = Vec::new();
        if let Some(preferred) = request.preferred.clone().filter(|_| !request.fresh) {
            match self.fitting(&preferred, &request).await? {
                Ok(sandbox) => return engine.join(owner, sandbox, terms, request.idempotency).await,
                Err(reason) => against.push((preferred.to_string(), reason)),
            }
        }
        let new = engine.fitting_spec(request.sandbox, &request.required).await?;
        let Acquire { backend, idempotency, background, required, .. } = request;
        if background && !required.readable.is_empty() {
            let message =
                "it is known only once the sandbox is there: leave out `background`, which waits for none";
            return Err(EngineError::invalid(Field::RequiredReadable, message));
        }
        let made = engine
            .make_fresh(owner, new, terms, Fresh { backend, idempotency, background, asked: None })
            .await;
        let made = made.map_err(|error| with_reasons(error, against))?;
        engine.with_readable(owner, made, &required).await
    }

    /// The preferred sandbox if it can be used for this, else why not.
    async fn fitting(
        &self,
        word: &SandboxWord,
        request: &Acquire,
    ) -> Result<Result<SandboxRecord, String>, EngineError> {
        let sandbox = match self.usable(word).await? {
            Usable::Yes(sandbox) => sandbox,
            Usable::Unknown => return Ok(Err("there is no such sandbox".to_owned())),
            Usable::Over(sandbox) => return Ok(Err(super::ended(&sandbox))),
        };
        if let Some(backend) = request.backend.as_ref().filter(|name| **name != sandbox.backend) {
            return Ok(Err(format!("it runs on `{}` and not on `{backend}`", sandbox.backend)));
        }
        if let Some(tier) = request.sandbox.tier
            && let Some(refusal) = self.access.engine.refuse_tier(&sandbox, tier)
        {
            return Ok(Err(refusal));
        }
        let (engine, owner) = (&self.access.engine, self.access.owner());
        let mut unmet = match request.required.unmet_by(&sandbox.spec) {
            Some(reason) => Some(reason),
            None => engine.unwritable(&request.required, &sandbox.spec).await?,
        };
        if unmet.is_none() {
            unmet = engine.unreadable(owner, &sandbox.id, &request.required).await?;
        }
        Ok(unmet.map_or(Ok(*sandbox), Err))
    }
}

impl Engine {
    /// A session with a sandbox that is made for it.
    pub(super) async fn make_fresh(
        &self,
        owner: &Owner,
        new: NewSandbox,
        terms: Terms,
        fresh: Fresh,
    ) -> Result<Acquired, EngineError> {
        let id = SandboxId::from_random(self.shared.parts.random.bits());
        let client = terms.client.clone();
        let session = self.new_session(owner, &id, new.kind, Provision::Pending, terms);
        let session_id = session.id.clone();
        let make = MakeSandbox {
            new,
            idempotency: fresh.idempotency.as_ref().map(|expected| self.promise(owner, &session, expected)),
            session,
            backend: fresh.backend,
            asked: fresh.asked,
            background: fresh.background,
        };
        let sandbox = match (self.make(make).await, fresh.idempotency) {
            (Ok(sandbox), _) => sandbox,
            (Err(MakeError::Repeated(earlier)), Some(expected)) => {
                return self.repeat(owner, earlier, &expected, fresh.background).await;
            }
            (Err(MakeError::Repeated(_)), None) => return Err(EngineError::IdempotencyMismatch),
            (Err(MakeError::Engine(error)), _) => return Err(error),
        };
        let session = self.session_record(owner, &session_id).await?;
        self.tell(&session, warren_core::Event::SessionAcquired { client });
        Ok(Acquired { session, sandbox, fresh: true, repeated: false })
    }

    /// A sandbox that begins with a snapshot, with a session of its own.
    pub(crate) async fn make_fork(
        &self,
        owner: &Owner,
        client: String,
        timeouts: Option<Timeouts>,
        new: NewSandbox,
        (backend, asked): (Option<String>, WallChoice),
    ) -> Result<Acquired, EngineError> {
        let terms = Terms::plain(client, timeouts, &self.shared.settings)?;
        let fresh = Fresh { backend, asked: Some(asked), ..Fresh::default() };
        self.make_fresh(owner, new, terms, fresh).await
    }

    /// A session's record as it begins.
    pub(super) fn new_session(
        &self,
        owner: &Owner,
        sandbox: &SandboxId,
        kind: SandboxKind,
        provision: Provision,
        terms: Terms,
    ) -> SessionRecord {
        let (clock, random) = (self.shared.parts.clock.as_ref(), &self.shared.parts.random);
        let duration_ms = terms.limits.duration_s.saturating_mul(1000);
        SessionRecord {
            id: SessionId::from_random(random.bits()),
            owner: owner.clone(),
            sandbox: sandbox.clone(),
            client: terms.client,
            kind,
            state: SessionState::Active,
            timeouts: terms.timeouts,
            labels: terms.labels,
            metadata: terms.metadata,
            provision,
            limits: terms.limits,
            tier: terms.tier,
            totals: warren_core::RunTotals::default(),
            created_unix_ms: clock.unix_ms(),
            last_activity_unix_ms: clock.unix_ms(),
            deadline: terms.limited.then(|| Deadline::after(clock, duration_ms)),
            detached_until: None,
            thinking_until: None,
        }
    }

    async fn fitting_spec(
        &self,
        mut new: NewSandbox,
        required: &Requirements,
    ) -> Result<NewSandbox, EngineError> {
        required.complete(&mut new.spec, self.shared.settings.most_limits.memory)?;
        match self.unwritable(required, &new.spec).await? {
            Some(reason) => Err(EngineError::invalid(Field::RequiredWritable, reason)),
            None => Ok(new),
        }
    }

    async fn unwritable(
        &self,
        required: &Requirements,
        spec: &SandboxSpec,
    ) -> Result<Option<String>, EngineError> {
        if !required.asks_for_paths() {
            return Ok(None);
        }
        let (templates, spec) = (self.shared.parts.templates.clone(), spec.clone());
        let required = required.clone();
        blocking(move || Ok(required.unwritable_in(&places(templates.as_ref(), &spec)?, &spec.mounts))).await
    }

    async fn earlier(&self, owner: &Owner, expected: &Expected) -> Result<Option<Idempotency>, EngineError> {
        let visible = |key: &str| key.bytes().all(|byte| byte.is_ascii_graphic());
        if !(1..=255).contains(&expected.key.len()) || !visible(&expected.key) {
            let message = "an idempotency key takes 1 to 255 visible ASCII characters";
            return Err(EngineError::invalid(Field::IdempotencyKey, message));
        }
        let (owner, key) = (owner.clone(), expected.key.clone());
        Ok(self.catalog(move |catalog| catalog.remembered(&owner, &key)).await?)
    }

    /// The result of an earlier request with the same key, once that is done.
    pub(super) async fn repeat(
        &self,
        owner: &Owner,
        earlier: Idempotency,
        expected: &Expected,
        background: bool,
    ) -> Result<Acquired, EngineError> {
        if earlier.fingerprint != expected.fingerprint {
            return Err(EngineError::IdempotencyMismatch);
        }
        let sandbox = self.session_record(owner, &earlier.session).await?.sandbox;
        let sandbox = if background {
            self.record_of(owner, &sandbox).await?
        } else {
            let sandbox = self.made(owner, &sandbox).await?;
            self.tell_sessions(&sandbox).await;
            sandbox
        };
        let session = self.session_record(owner, &earlier.session).await?;
        let failed =
            matches!(session.provision, Provision::Failed { .. }) && sandbox.status == Status::Failed;
        if failed && !background {
            return Err(EngineError::SandboxEnded { detail: super::ended(&sandbox), id: sandbox.id });
        }
        // The first session is written down before anything of its sandbox is.
        let fresh = session.created_unix_ms <= sandbox.created_unix_ms;
        Ok(Acquired { session, sandbox, fresh, repeated: true })
    }

    /// Tells the sessions of a sandbox what became of it: its driver does so a moment later.
    async fn tell_sessions(&self, sandbox: &SandboxRecord) {
        if sandbox.is_live() {
            self.sandbox_ready(sandbox).await;
        } else {
            self.sandbox_ended(sandbox).await;
        }
    }

    /// The sandbox, once it is no longer being made.
    pub(super) async fn made(&self, owner: &Owner, id: &SandboxId) -> Result<SandboxRecord, EngineError> {
        let mut sandbox = self.record_of(owner, id).await?;
        while sandbox.status == Status::Creating {
            sandbox = self.itself(owner).sandbox(id).changed(sandbox.generation, PATIENCE_MS).await?;
        }
        Ok(sandbox)
    }

    pub(super) fn promise(&self, owner: &Owner, session: &SessionRecord, expected: &Expected) -> Idempotency {
        Idempotency {
            owner: owner.clone(),
            key: expected.key.clone(),
            fingerprint: expected.fingerprint.clone(),
            session: session.id.clone(),
            at_unix_ms: self.shared.parts.clock.unix_ms(),
        }
    }
}

/// A failed search names the sandboxes that were looked at, too.
fn with_reasons(error: EngineError, mut against: Vec<(String, String)>) -> EngineError {
    match error {
        EngineError::NothingFits { asked, reasons } => {
            against.extend(reasons);
            EngineError::NothingFits { asked, reasons: against }
        }
        error => error,
    }
}

impl Terms {
    fn of(request: &Acquire, settings: &Settings) -> Result<Self, EngineError> {
        let limited = request.limits.is_some()
            || request.tier.is_some()
            || request.sandbox.kind != SandboxKind::default();
        let mut terms = Self::plain(request.client.clone(), request.timeouts, settings)?;
        check_words(Field::Labels, &request.labels)?;
        check_words(Field::Metadata, &request.metadata)?;
        terms.limits = run_limits(request, settings)?;
        terms.tier.clone_from(&request.tier);
        terms.labels.clone_from(&request.labels);
        terms.metadata.clone_from(&request.metadata);
        terms.limited = limited;
        Ok(terms)
    }

    /// A session of which nothing but its client is known.
    pub(super) fn plain(
        client: String,
        timeouts: Option<Timeouts>,
        settings: &Settings,
    ) -> Result<Self, EngineError> {
        check_visible(Field::Client, &client, 200, "visible")?;
        let timeouts = timeouts.unwrap_or(settings.timeouts);
        check_timeouts(timeouts)?;
        Ok(Self {
            client,
            timeouts,
            labels: BTreeMap::new(),
            metadata: BTreeMap::new(),
            limits: settings.run_limits,
            tier: None,
            limited: false,
        })
    }
}

/// The limits of the request, else those of its tier, else the default.
fn run_limits(request: &Acquire, settings: &Settings) -> Result<RunLimits, EngineError> {
    let tier = match &request.tier {
        Some(name) => Some(*settings.tiers.get(name).ok_or_else(|| {
            let known = settings.tiers.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            EngineError::invalid(Field::Tier, format!("there is no tier of that name: there are [{known}]"))
        })?),
        None => None,
    };
    let limits = request.limits.or(tier).unwrap_or(settings.run_limits);
    check_range(Field::RunCount, limits.runs.into(), MOST_RUNS)?;
    check_range(Field::RunTime, limits.run_s, MOST_SECONDS)?;
    check_range(Field::RunTokens, limits.tokens, u64::MAX)?;
    check_range(Field::RunDuration, limits.duration_s, MOST_SECONDS)?;
    Ok(limits)
}

/// Details list every run of a session.
const MOST_RUNS: u64 = 100_000;
const MOST_SECONDS: u64 = 366 * 86_400;

fn check_timeouts(timeouts: Timeouts) -> Result<(), EngineError> {
    check_range(Field::ActiveTime, timeouts.active_s, MOST_SECONDS)?;
    check_range(Field::DetachedTime, timeouts.detached_s, MOST_SECONDS)?;
    check_range(Field::SuspendedTime, timeouts.suspended_s, MOST_SECONDS)
}
