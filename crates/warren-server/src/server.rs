use std::fmt;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use warren_browser::Browsers;
use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{Clock, Networks, Owner, Random, Scope};
use warren_e2b::{Annotation, E2b};
use warren_engine::Engine;
use warren_face::auth::{Keyring, KeyringError, NewKey, Secret};
use warren_face::link_keys::LinkKeys;
use warren_face::{Desk, DeskParts};
use warren_store::TemplateStore;

use crate::app::Front;
use crate::config::Config;
use crate::listener::{Listener, Sockets};
use crate::metrics::Metrics;
use crate::openapi;
use crate::port_book::PortBook;
use crate::state::{AppState, StateParts};

/// The parts that the service needs.
pub struct ServerParts {
    pub engine: Engine,
    /// The one that the engine has.
    pub catalog: Arc<dyn Catalog>,
    pub templates: TemplateStore,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub config: Config,
    /// The keys that sign links to ports. The same ones after a restart, or all links are void.
    pub link_keys: LinkKeys,
    /// The one that the engine has.
    pub networks: Arc<dyn Networks>,
}

/// The service, over an engine that is open. A clone is the same service.
#[derive(Clone)]
pub struct Server {
    state: AppState,
}

impl Server {
    /// Reads the keys; from here on nobody else may change them in the catalog. Blocks.
    pub fn new(parts: ServerParts) -> Result<Self, CatalogError> {
        let shutdown = CancellationToken::new();
        let (metrics, book) = (Arc::new(Metrics::default()), PortBook::load(parts.catalog.as_ref())?);
        let desk = Desk::new(DeskParts {
            keyring: Keyring::load(parts.catalog.as_ref(), shutdown.clone())?,
            engine: parts.engine,
            catalog: parts.catalog,
            clock: parts.clock,
            random: parts.random,
            settings: parts.config.settings(parts.networks.unavailable().is_none()),
            config: parts.config.of_faces(),
            networks: parts.networks,
            link_keys: parts.link_keys,
            shutdown,
            counters: metrics.clone(),
            own_env: Annotation::env_if_written,
        });
        desk.count_owners();
        let state = AppState::new(StateParts {
            browsers: Browsers::new(desk.clone()),
            desk,
            templates: parts.templates,
            config: parts.config,
            document: openapi::text,
            metrics,
            book,
        });
        Ok(Self { state })
    }

    /// Makes a key. Nobody can read it again. Blocks.
    pub fn create_key(&self, owner: Owner, name: &str, scope: Scope) -> Result<String, KeyringError> {
        let new = NewKey { owner, name: name.to_owned(), scope };
        self.make_key(new).map(|(secret, _)| secret.shown())
    }

    pub(crate) fn make_key(&self, new: NewKey) -> Result<(Secret, warren_core::KeyRecord), KeyringError> {
        let state = &self.state;
        let made =
            state.keyring.create(state.catalog.as_ref(), (state.clock.as_ref(), state.random.as_ref()), new);
        state.count_owners();
        made
    }

    pub(crate) fn state(&self) -> &AppState {
        &self.state
    }

    /// Cancel it, and [`Server::run`] comes to its end.
    pub fn shutdown(&self) -> CancellationToken {
        self.state.shutdown.clone()
    }

    /// Answers requests until told to shut down; see [`Server::shutdown`].
    pub async fn run(self, socket: TcpListener) {
        self.run_on(Sockets { main: socket, tls: None, e2b: None }).await;
    }

    /// As [`Server::run`], on several sockets.
    pub async fn run_on(self, sockets: Sockets) {
        if let Some((Ok(address), _)) = sockets.tls.as_ref().map(|(socket, tls)| (socket.local_addr(), tls)) {
            self.state.tls_port.get_or_init(|| address.port());
        }
        let e2b = E2b::new(self.state.desk.clone());
        tokio::spawn(warren_e2b::keep_sampling(e2b.clone()));
        let desk = self.state.desk.clone();
        tokio::spawn(async move { desk.keep_pace().await });
        let listener = Listener {
            front: Front::new(self.state.clone(), e2b),
            http: self.state.config.http.clone(),
            shutdown: self.state.shutdown.clone(),
            grace: self.state.config.server.shutdown_grace,
        };
        listener.run(sockets).await;
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerParts").field("config", &self.config).finish_non_exhaustive()
    }
}
