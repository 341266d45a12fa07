use warren_core::catalog::InsertError;
use warren_core::{Event, Owner, Provision, SandboxId, SandboxRecord, SandboxWord, Status};

use super::acquire::{Fresh, Terms};
use crate::ports::finished;
use crate::{Acquired, Attach, Engine, EngineError, Expected, Sessions};

/// A sandbox that is to take another session.
pub(super) enum Usable {
    /// It runs, or can be made to run again.
    Yes(Box<SandboxRecord>),
    /// It ended for good, or is about to end.
    Over(Box<SandboxRecord>),
    /// There is none that the word means, or it is another owner's.
    Unknown,
}

impl Sessions {
    /// Another session on a sandbox that exists, which is made to run if it does not. If there is
    /// none of that id any more, a fresh one is made if the caller wants that, with an id of its
    /// own.
    pub async fn attach(&self, request: Attach) -> Result<Acquired, EngineError> {
        let (engine, owner) = (&self.access.engine, self.access.owner());
        engine.may_change()?;
        let terms = Terms::plain(request.client, request.timeouts, &engine.shared.settings)?;
        match (self.usable(&request.sandbox).await?, request.create_if_missing) {
            (Usable::Yes(sandbox), _) => engine.join(owner, *sandbox, terms, None).await,
            (Usable::Over(_) | Usable::Unknown, Some(new)) => {
                engine.make_fresh(owner, new, terms, Fresh::default()).await
            }
            (Usable::Over(sandbox), None) => {
                Err(EngineError::SandboxEnded { detail: super::ended(&sandbox), id: sandbox.id })
            }
            (Usable::Unknown, None) => Err(EngineError::sandbox_not_found(&request.sandbox)),
        }
    }

    pub(super) async fn usable(&self, word: &SandboxWord) -> Result<Usable, EngineError> {
        let (engine, owner) = (&self.access.engine, self.access.owner());
        let made = match self.access.resolve(word).await {
            Ok(id) => engine.made(owner, &id).await,
            Err(error) => Err(error),
        };
        let sandbox = match made {
            Ok(sandbox) => Box::new(sandbox),
            Err(EngineError::NotFound { .. }) => return Ok(Usable::Unknown),
            Err(error) => return Err(error),
        };
        engine.check_node(&sandbox.id, &sandbox.node)?;
        Ok(match sandbox.status {
            Status::Creating | Status::Ready | Status::Paused => Usable::Yes(sandbox),
            Status::Stopping => Usable::Over(sandbox),
            Status::Stopped | Status::Failed if sandbox.files_kept() => Usable::Yes(sandbox),
            Status::Stopped | Status::Failed => Usable::Over(sandbox),
        })
    }
}

impl Engine {
    /// Adds a session to a sandbox that can take one, and makes the sandbox run.
    pub(super) async fn join(
        &self,
        owner: &Owner,
        sandbox: SandboxRecord,
        terms: Terms,
        idempotency: Option<Expected>,
    ) -> Result<Acquired, EngineError> {
        finished(self.clone().join_now(owner.clone(), sandbox, terms, idempotency)).await
    }

    async fn join_now(
        self,
        owner: Owner,
        sandbox: SandboxRecord,
        terms: Terms,
        idempotency: Option<Expected>,
    ) -> Result<Acquired, EngineError> {
        let _turn = self.shared.leases.turns.hold(sandbox.id.clone()).await;
        self.set_going(&owner, &sandbox.id).await?;
        let client = terms.client.clone();
        let ready = Provision::Ready { url: None, job: None };
        let session = self.new_session(&owner, &sandbox.id, sandbox.kind, ready, terms);
        let promise = idempotency.as_ref().map(|expected| self.promise(&owner, &session, expected));
        let record = session.clone();
        match self.catalog(move |catalog| catalog.insert_session(&record, promise.as_ref())).await {
            Ok(()) => {}
            Err(InsertError::Catalog(error)) => return Err(error.into()),
            Err(InsertError::Repeated(earlier)) => {
                let expected = idempotency.ok_or(EngineError::IdempotencyMismatch)?;
                return self.repeat(&owner, earlier, &expected, false).await;
            }
        }
        let sandbox = self.still_alive(&owner, &sandbox.id).await?;
        self.tell(&session, Event::SessionAttached { client });
        Ok(Acquired { session, sandbox, fresh: false, repeated: false })
    }

    /// The sandbox of a session that was just written down. If the sandbox ended in the meantime,
    /// its sessions are told now.
    pub(super) async fn still_alive(
        &self,
        owner: &Owner,
        id: &SandboxId,
    ) -> Result<SandboxRecord, EngineError> {
        let sandbox = self.record_of(owner, id).await?;
        if sandbox.is_live() {
            return Ok(sandbox);
        }
        self.sandbox_ended(&sandbox).await;
        Err(EngineError::SandboxEnded { detail: super::ended(&sandbox), id: sandbox.id })
    }
}
