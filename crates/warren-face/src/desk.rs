use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method;
use tokio_util::sync::CancellationToken;
use warren_core::catalog::Catalog;
use warren_core::{Caller, Clock, Networks, Owner, Random, SandboxId, SandboxRecord};
use warren_engine::{Access, Engine, Taken};

use crate::auth::{Attempts, Keyring};
use crate::fairness::Fairness;
use crate::link_keys::LinkKeys;
use crate::settings::Settings;
use crate::turns::Turns;

/// The part of the server that every face works with. A clone is the same desk.
#[derive(Clone)]
pub struct Desk(Arc<DeskState>);

/// The parts of a desk.
pub struct DeskParts {
    /// Acts for the caller that [`Engine::as_`] is given.
    pub engine: Engine,
    /// For the keys; everything else goes through the engine.
    pub catalog: Arc<dyn Catalog>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// For what they say of the machine; everything else goes through the engine.
    pub networks: Arc<dyn Networks>,
    pub keyring: Keyring,
    /// The keys that sign links and tokens.
    pub link_keys: LinkKeys,
    pub config: Settings,
    /// The engine's own settings.
    pub settings: warren_engine::Settings,
    /// Cancelled when the server begins to shut down: streams end then, short requests are
    /// finished.
    pub shutdown: CancellationToken,
    pub counters: Arc<dyn Counters>,
    /// Variables that tell the processes of a sandbox where they run, if the face that made it has
    /// such.
    pub own_env: fn(&SandboxRecord) -> Vec<(&'static str, String)>,
}

/// See [`Desk`].
pub struct DeskState {
    parts: DeskParts,
    pub(crate) attempts: Attempts,
    pub(crate) fairness: Fairness,
    /// One start of the code service at a time for each sandbox.
    pub(crate) code_starts: Turns<SandboxId>,
    /// The port on which TLS is spoken, if there is one.
    pub tls_port: OnceLock<u16>,
}

/// Counts what faces do, for the metrics.
pub trait Counters: Send + Sync {
    /// A request came without a valid key.
    fn auth_failed(&self);

    /// A request was answered. `route` is as its table has it.
    fn answered(&self, method: &Method, route: &str, status: u16, took: Duration);

    /// A snapshot that was asked for was taken.
    fn took(&self, taken: &Taken);

    /// Sandboxes were made as forks.
    fn forked(&self, count: usize);
}

impl Desk {
    pub fn new(parts: DeskParts) -> Self {
        Self(Arc::new(DeskState {
            parts,
            attempts: Attempts::default(),
            fairness: Fairness::default(),
            code_starts: Turns::default(),
            tls_port: OnceLock::new(),
        }))
    }

    /// To be called whenever keys have changed.
    pub fn count_owners(&self) {
        self.engine.expect_owners(self.keyring.owners());
    }

    /// The engine for a part of the server that acts for an owner without a key, by the part's
    /// name.
    pub fn engine_as(&self, part: &str, owner: &Owner) -> Access {
        self.engine.as_(&Caller::new(owner.clone(), part))
    }

    /// Looks after the pace of requests until the server shuts down.
    pub async fn keep_pace(&self) {
        tokio::select! {
            () = self.fairness.keep() => {}
            () = self.shutdown.cancelled() => {}
        }
    }
}

impl Deref for Desk {
    type Target = DeskState;

    fn deref(&self) -> &DeskState {
        &self.0
    }
}

impl Deref for DeskState {
    type Target = DeskParts;

    fn deref(&self) -> &DeskParts {
        &self.parts
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

impl fmt::Debug for DeskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeskState").finish_non_exhaustive()
    }
}

impl fmt::Debug for DeskParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeskParts").field("config", &self.config).finish_non_exhaustive()
    }
}
