use futures_util::future::join_all;
use warren_core::{Event, OnExpiry, SandboxRecord, SnapshotReason, SnapshotRecord};

use super::{ForkOrder, Point, Snapshots};
use crate::admit::check_range;
use crate::cell::CaptureOrder;
use crate::error::{Field, sentence};
use crate::ports::finished;
use crate::{Acquired, EngineError, EngineStep, NewSandbox, StoppedFiles};

const MOST_FORKS: u64 = 100;

impl Snapshots {
    /// Makes sandboxes that share everything with a state until they write. All of them, or none.
    pub async fn fork(&self, from: &Point, order: ForkOrder) -> Result<Vec<Acquired>, EngineError> {
        self.access.engine.may_change()?;
        check_range(Field::ForkCount, order.count.into(), MOST_FORKS)?;
        if order.name.is_some() && order.count > 1 {
            return Err(EngineError::reason(Field::SandboxName, "one fork can have it, and not several"));
        }
        finished(self.clone().fork_now(from.clone(), order)).await
    }

    async fn fork_now(self, from: Point, order: ForkOrder) -> Result<Vec<Acquired>, EngineError> {
        let snapshot = match from {
            Point::Snapshot(id) => self.get(&id).await?,
            Point::Sandbox(id) => {
                self.access
                    .engine
                    .take(self.access.owner(), &id, CaptureOrder::asked(SnapshotReason::Fork))
                    .await?
                    .snapshot
            }
        };
        // What the original was told, where it is still known.
        let original = self.access.sandbox(&snapshot.sandbox).record().await.ok();
        let wall = self.access.engine.wall_of_fork(&snapshot, original.as_ref())?;
        let made = join_all((0..order.count).map(|_| async {
            let new = forked(&snapshot, original.as_ref(), &order);
            let timeouts = original.as_ref().map(|original| original.timeouts);
            let (client, engine) = (order.client.clone(), &self.access.engine);
            let fork = engine.make_fork(self.access.owner(), client, timeouts, new, wall.clone()).await;
            (self.access.engine.shared.parts.passed)(EngineStep::ForkMade);
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
            self.remove_forks(forks).await;
            return Err(error);
        }
        let count = order.count;
        self.access.engine.emit(
            self.access.owner(),
            Some(&snapshot.sandbox),
            None,
            Event::SandboxForked { snapshot: snapshot.id, count },
        );
        Ok(forks)
    }

    async fn remove_forks(&self, forks: Vec<Acquired>) {
        join_all(forks.into_iter().map(|fork| async move {
            let id = fork.sandbox.id;
            let (engine, owner) = (&self.access.engine, self.access.owner());
            let stopped = engine.stop_by("a fork that failed", owner, &id, StoppedFiles::Delete).await;
            if let Err(error) = stopped {
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
    // Where it may go is no part of a state: what was closed since is closed to forks of earlier
    // states, too.
    let network = &original.map_or(&snapshot.spec, |original| &original.spec).network;
    // And processes have the one that they were captured with, which is none.
    spec.network = if snapshot.memory.is_some() { &snapshot.spec.network } else { network }.inherited();
    NewSandbox {
        spec,
        name: order.name.clone(),
        disk_limit_required: snapshot.disk_limit_required,
        kind: snapshot.kind,
        metadata: order.metadata.clone(),
        on_expiry: order
            .on_expiry
            .or_else(|| original.map(|original| original.on_expiry))
            .unwrap_or(OnExpiry::Keep),
        traffic: original.map(|original| original.traffic.clone()).unwrap_or_default(),
        pause_keeps: original.map(|original| original.pause_keeps).unwrap_or_default(),
        start: original.and_then(|original| original.start.clone()),
        build: None,
        annotations: original.map(|original| original.annotations.clone()).unwrap_or_default(),
        from: Some(snapshot.id.clone()),
        automatic: original.map(|original| original.history.automatic),
        tier: None,
    }
}
