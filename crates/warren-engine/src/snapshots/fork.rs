use futures_util::future::join_all;
use warren_core::{Event, OnExpiry, Owner, SandboxRecord, SnapshotReason, SnapshotRecord};

use super::{ForkOrder, Point};
use crate::blocking::finished;
use crate::driver::CaptureOrder;
use crate::error::sentence;
use crate::{Acquired, Engine, EngineError, EngineStep, NewSandbox, StoppedFiles};

const MOST_FORKS: u32 = 100;

impl Engine {
    /// Makes sandboxes that share everything with a state until they write. All of them, or none.
    pub async fn fork(
        &self,
        owner: &Owner,
        from: &Point,
        order: ForkOrder,
    ) -> Result<Vec<Acquired>, EngineError> {
        self.may_change()?;
        if !(1..=MOST_FORKS).contains(&order.count) {
            let message = format!("count must be between 1 and {MOST_FORKS}, got {}", order.count);
            return Err(EngineError::invalid("count", message));
        }
        let (engine, owner, from) = (self.clone(), owner.clone(), from.clone());
        finished(async move { engine.fork_now(&owner, &from, order).await }).await
    }

    async fn fork_now(
        &self,
        owner: &Owner,
        from: &Point,
        order: ForkOrder,
    ) -> Result<Vec<Acquired>, EngineError> {
        let snapshot = match from {
            Point::Snapshot(id) => self.snapshot(owner, id).await?,
            Point::Sandbox(id) => {
                self.take(owner, id, CaptureOrder::asked(SnapshotReason::Fork)).await?.snapshot
            }
        };
        // What the original was told, where it is still known.
        let original = self.sandbox(owner, &snapshot.sandbox).await.ok();
        let made = join_all((0..order.count).map(|_| async {
            let new = forked(&snapshot, original.as_ref(), &order);
            let timeouts = original.as_ref().map(|original| original.timeouts);
            let (client, backend) = (order.client.clone(), snapshot.backend.clone());
            let fork = self.make_fork(owner, client, timeouts, new, backend).await;
            (self.shared.parts.passed)(EngineStep::ForkMade);
            fork
        }))
        .await;
        let mut forks = Vec::new();
        let mut failed = None;
        for fork in made {
            match fork {
                Ok(fork) => forks.push(fork),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            self.remove_forks(owner, forks).await;
            return Err(error);
        }
        let count = order.count;
        self.emit(
            owner,
            Some(&snapshot.sandbox),
            None,
            Event::SandboxForked { snapshot: snapshot.id, count },
        );
        Ok(forks)
    }

    async fn remove_forks(&self, owner: &Owner, forks: Vec<Acquired>) {
        join_all(forks.into_iter().map(|fork| async move {
            let id = fork.sandbox.id;
            if let Err(error) = self.stop(owner, &id, StoppedFiles::Delete, "a fork that failed").await {
                tracing::error!(sandbox.id = %id, error = sentence(&error), "a fork is left of several that could not all be made");
            }
        }))
        .await;
    }
}

fn forked(snapshot: &SnapshotRecord, original: Option<&SandboxRecord>, order: &ForkOrder) -> NewSandbox {
    let mut spec = snapshot.spec.clone();
    if let Some(lifetime_s) = order.lifetime_s {
        spec.limits.lifetime_s = lifetime_s;
    }
    spec.labels.extend(order.labels.clone());
    // Where it may go is no part of a state: what was closed since is closed to forks of earlier states, too.
    spec.network = original.map_or(&snapshot.spec, |original| &original.spec).network.inherited();
    NewSandbox {
        spec,
        disk_limit_required: snapshot.disk_limit_required,
        kind: snapshot.kind,
        metadata: order.metadata.clone(),
        on_expiry: order
            .on_expiry
            .or_else(|| original.map(|original| original.on_expiry))
            .unwrap_or(OnExpiry::Keep),
        start: original.and_then(|original| original.start.clone()),
        build: None,
        annotations: original.map(|original| original.annotations.clone()).unwrap_or_default(),
        from: Some(snapshot.id.clone()),
        automatic: original.map(|original| original.history.automatic),
    }
}
