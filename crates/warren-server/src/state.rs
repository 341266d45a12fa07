use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;
use warren_core::catalog::Catalog;
use warren_core::{Clock, Networks, Random};
use warren_engine::{Engine, Settings};
use warren_store::TemplateStore;

use crate::auth::{Attempts, Caller, Keyring};
use crate::code::Starts;
use crate::config::Config;
use crate::e2b::envd::Watchers;
use crate::e2b::metrics::Samples;
use crate::e2b::wake::Woken;
use crate::fairness::Fairness;
use crate::metrics::Metrics;
use crate::proxy::PortsOf;

/// What every handler can reach. A clone is the same state.
#[derive(Clone)]
pub(crate) struct AppState(Arc<Shared>);

pub(crate) struct Shared {
    /// In nobody's name. What a caller asks for is done through [`AppState::engine_of`].
    pub(crate) engine: Engine,
    /// For the keys; everything else goes through the engine.
    pub(crate) catalog: Arc<dyn Catalog>,
    /// For imports; lists and look-ups go through the engine.
    pub(crate) templates: TemplateStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) config: Config,
    /// For what they say of the machine; everything else goes through the engine.
    pub(crate) networks: Arc<dyn Networks>,
    /// What the engine goes by.
    pub(crate) settings: Settings,
    pub(crate) keyring: Keyring,
    pub(crate) attempts: Attempts,
    pub(crate) fairness: Fairness,
    /// Cancelled when the server begins to shut down: streams end then, short requests are finished.
    pub(crate) shutdown: CancellationToken,
    pub(crate) metrics: Metrics,
    pub(crate) ports: PortsOf,
    pub(crate) watchers: Watchers,
    pub(crate) code_starts: Starts,
    /// Sandboxes that woke for a visitor.
    pub(crate) woken: Woken,
    /// What sandboxes used lately.
    pub(crate) samples: Samples,
    /// The port on which TLS is spoken, if there is one.
    pub(crate) tls_port: OnceLock<u16>,
}

impl AppState {
    pub(crate) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// To be called whenever keys have changed.
    pub(crate) fn count_owners(&self) {
        self.engine.expect_owners(self.keyring.owners());
    }

    /// The engine, acting in the caller's name: so the journal knows who asked.
    pub(crate) fn engine_of(&self, caller: &Caller) -> Engine {
        self.engine.by(&caller.name)
    }
}

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl fmt::Debug for AppState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppState").finish_non_exhaustive()
    }
}
