//! Keeps machines ready that nobody has asked for yet, so that who asks waits for no start.
//!
//! A spare runs, has a link of its own, and carries a label. No record knows it: a server that is
//! killed leaves it to the next one, which removes it. A claim writes the record first, as for any
//! other sandbox; then the backend takes the label away, and the link becomes the new owner's
//! (`driver/start.rs`). So a machine is at any moment either a spare or somebody's.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use warren_core::{IsolationErrorKind, Owner, SandboxId, SandboxSpec, TemplateName, WallChoice};

use crate::driver::SPARE;
use crate::engine::closed;
use crate::error::sentence;
use crate::ports::Backend;
use crate::state::Spare;
use crate::{Engine, EngineError};

/// How long the keeper rests after a failure.
const REST: Duration = Duration::from_secs(5);

impl Engine {
    /// Fills the pools of the settings until the engine ends.
    pub(crate) async fn keep_pools(self, mut unused: mpsc::UnboundedReceiver<Spare>) {
        let settings = &self.shared.settings.pools;
        if settings.templates.is_empty() {
            return;
        }
        let mut closing = self.shared.closing.subscribe();
        loop {
            for spare in self.shared.pools.weed(&settings.templates, settings.oldest) {
                self.remove_spare(spare).await;
            }
            let pause = match self.shared.pools.lacking(&settings.templates) {
                None => self.shared.pools.pause(),
                Some(template) => match self.make_spare(&template).await {
                    Ok(()) => Duration::ZERO,
                    Err(error) => {
                        let error = sentence(&error);
                        tracing::warn!(template = %template, error, "no machine could be made ahead of time");
                        REST
                    }
                },
            };
            tokio::select! {
                biased;
                () = closed(&mut closing) => return,
                spare = unused.recv() => match spare {
                    Some(spare) => self.remove_spare(spare).await,
                    None => return,
                },
                () = self.shared.pools.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Removes every spare. No more are made.
    pub(crate) async fn empty_pools(&self) {
        for spare in self.shared.pools.close() {
            self.remove_spare(spare).await;
        }
    }

    /// The machine that an ordinary request for a template gets.
    fn spec_of_spare(&self, template: &TemplateName) -> SandboxSpec {
        let settings = &self.shared.settings;
        let mut spec = SandboxSpec::new(template.clone());
        spec.limits = settings.default_limits.clone();
        spec.network = settings.network.default.clone();
        spec
    }

    async fn make_spare(&self, template: &TemplateName) -> Result<(), EngineError> {
        self.may_change()?;
        let spec = self.spec_of_spare(template);
        let backend = self.choose_backend(None, &spec, false, &WallChoice::default(), false, None)?;
        let id = SandboxId::from_random(self.shared.parts.random.bits());
        self.shared.pools.announce(&id);
        let (engine, made_by, wanted) = (self.inner(), Arc::clone(&backend), id.clone());
        let made = backend.work(move || engine.start_spare(wanted, spec, made_by)).await;
        match made {
            Ok(spare) => {
                if let Some(spare) = self.shared.pools.put(spare) {
                    self.remove_spare(spare).await;
                }
                Ok(())
            }
            Err(error) => {
                self.shared.pools.forget(&id);
                Err(error)
            }
        }
    }

    /// Blocks.
    fn start_spare(
        &self,
        id: SandboxId,
        spec: SandboxSpec,
        backend: Arc<Backend>,
    ) -> Result<Spare, EngineError> {
        self.check_disk_of(&backend)?;
        let mut request = self.marked_request(&id, &spec, &backend)?;
        request.spec.labels.insert(SPARE.to_owned(), String::new());
        let known = request.clone();
        if !spec.network.is_none() {
            let attached = self.shared.parts.networks.attach(&id, &Owner::first(), &spec.network);
            let attached = attached.map_err(|source| EngineError::Network { id: id.clone(), source })?;
            request.network = attached.namespace.map(Arc::new);
            request.env.extend(attached.env);
        }
        let made = backend.port.create(request).and_then(|_| backend.port.watch(&id));
        match made {
            Ok(watch) => Ok(Spare::new(known, backend, watch)),
            Err(source) => {
                self.take_spare_apart(&id, &backend);
                Err(EngineError::StartFailed { id, source })
            }
        }
    }

    async fn remove_spare(&self, spare: Spare) {
        let (engine, backend) = (self.inner(), Arc::clone(&spare.backend));
        backend
            .work(move || {
                engine.take_spare_apart(spare.id(), &spare.backend);
                engine.shared.pools.forget(spare.id());
            })
            .await;
    }

    /// Removes all of a spare that is there. What cannot be removed is left to the next start.
    /// Blocks.
    fn take_spare_apart(&self, id: &SandboxId, backend: &Backend) {
        if let Err(error) = backend.port.destroy(id)
            && error.kind != IsolationErrorKind::NotFound
        {
            tracing::error!(sandbox.id = %id, error = sentence(&error), "a spare machine is still there");
        }
        if let Err(error) = self.shared.parts.networks.detach(id) {
            tracing::error!(sandbox.id = %id, error = sentence(&error), "the link of a spare machine is still there");
        }
    }
}
