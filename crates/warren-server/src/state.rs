use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;
use warren_browser::Browsers;
use warren_face::Desk;
use warren_store::TemplateStore;

use crate::config::Config;
use crate::metrics::Metrics;
use crate::port_book::PortBook;

/// The state that every handler can reach. A clone is the same state.
#[derive(Clone)]
pub(crate) struct AppState(Arc<StateParts>);

pub(crate) struct StateParts {
    pub(crate) desk: Desk,
    pub(crate) browsers: Browsers,
    /// For imports; lists and look-ups go through the engine.
    pub(crate) templates: TemplateStore,
    pub(crate) config: Config,
    /// The OpenAPI document of `/v1`.
    pub(crate) document: fn() -> &'static str,
    pub(crate) metrics: Arc<Metrics>,
    /// Which ports are public.
    pub(crate) book: PortBook,
}

impl AppState {
    pub(crate) fn new(shared: StateParts) -> Self {
        Self(Arc::new(shared))
    }
}

impl Deref for AppState {
    type Target = StateParts;

    fn deref(&self) -> &StateParts {
        &self.0
    }
}

impl Deref for StateParts {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        &self.desk
    }
}

impl FromRef<AppState> for Desk {
    fn from_ref(state: &AppState) -> Self {
        state.desk.clone()
    }
}

impl fmt::Debug for AppState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppState").finish_non_exhaustive()
    }
}
