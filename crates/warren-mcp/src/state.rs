use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use warren_browser::Browsers;
use warren_face::Desk;

use crate::browser::BrowserHandler;
use crate::handler::Handler;

pub(crate) type Protocol<H> = StreamableHttpService<H, LocalSessionManager>;

/// The state of the face. A clone is the same.
#[derive(Clone)]
pub struct Mcp {
    desk: Desk,
    protocol: Arc<Protocol<Handler>>,
    browser_protocol: Arc<Protocol<BrowserHandler>>,
}

impl Mcp {
    pub fn new(desk: Desk, browsers: Browsers) -> Self {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(usize::try_from(desk.config.http.max_body).unwrap_or(usize::MAX))
            // Both are looked at before any request comes here, and under more names.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let sessions = || Arc::new(LocalSessionManager::default());
        let handler = Handler::new(desk.clone());
        let protocol = Protocol::new(move || Ok(handler.clone()), sessions(), config.clone());
        let handler = BrowserHandler::new(desk.clone(), browsers);
        let browser_protocol = Protocol::new(move || Ok(handler.clone()), sessions(), config);
        Self { desk, protocol: Arc::new(protocol), browser_protocol: Arc::new(browser_protocol) }
    }

    pub(crate) fn browser_protocol(&self) -> &Protocol<BrowserHandler> {
        &self.browser_protocol
    }

    pub(crate) fn protocol(&self) -> &Protocol<Handler> {
        &self.protocol
    }
}

impl Deref for Mcp {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        &self.desk
    }
}

impl FromRef<Mcp> for Desk {
    fn from_ref(state: &Mcp) -> Self {
        state.desk.clone()
    }
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mcp").finish_non_exhaustive()
    }
}
