use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use warren_browser::Browser;
use warren_core::{Provision, SandboxRecord, SessionRecord, Status};
use warren_engine::Access;
use warren_face::address::Address;
use warren_face::auth::Caller;
use warren_face::error::{ApiError, Code};
use warren_wire::api;

use crate::convert;
use crate::extract::{EntryPath, Json, SandboxPath};
use crate::live::{LiveView, MOST_MESSAGE};
use crate::state::AppState;
use crate::stream::PROTOCOL;

/// How long at a time a sandbox that is being made is watched.
const LOOK_MS: u64 = 10_000;

pub(crate) async fn start(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    address: Address,
) -> Result<Json<api::Browser>, ApiError> {
    let record = sandbox.record().await?;
    state.browsers.of(sandbox).ensure().await?;
    Ok(Json(convert::browser(&record, &address)))
}

pub(crate) async fn frames(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
) -> Result<Json<api::BrowserFrameList>, ApiError> {
    sandbox.record().await?;
    Ok(Json(convert::browser_frames(&state.browsers.of(sandbox).frames())))
}

pub(crate) async fn frame(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    EntryPath(entry): EntryPath,
) -> Result<Response, ApiError> {
    sandbox.record().await?;
    let frame = state.browsers.of(sandbox).frame(entry).ok_or_else(|| {
        let detail = format!("no frame of entry {entry} is kept: only those of the last entries are");
        ApiError::new(Code::PathNotFound, detail).field("entry")
    })?;
    Ok(([(CONTENT_TYPE, "image/jpeg"), (CACHE_CONTROL, "no-store")], frame.jpeg).into_response())
}

/// Looks for the sandbox first, so that a caller who may not see it is refused like anywhere else.
pub(crate) async fn live(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    sandbox.record().await?;
    let upgrade = upgrade.map_err(|error| ApiError::new(Code::InvalidRequest, error.body_text()))?;
    let upgrade = upgrade.protocols([PROTOCOL]).max_message_size(MOST_MESSAGE).max_frame_size(MOST_MESSAGE);
    let view = LiveView { caller, browser: state.browsers.of(sandbox) };
    Ok(upgrade.on_upgrade(move |socket| view.hold(socket)))
}

pub(super) fn with_mcp_url(told: api::Sandbox, record: &SandboxRecord, address: &Address) -> api::Sandbox {
    api::Sandbox { mcp_url: Some(convert::mcp_url(record, address)), ..told }
}

/// A session whose sandbox may be meant to have a browser.
pub(super) struct Equipment {
    browser: Browser,
    /// It starts from what its type usually starts from.
    usual: bool,
    access: Access,
    record: SandboxRecord,
    session: SessionRecord,
    mcp_url: String,
}

impl Equipment {
    pub(super) fn of(
        state: &AppState,
        caller: &Caller,
        address: &Address,
        (record, session): (&SandboxRecord, &SessionRecord),
    ) -> Self {
        let access = state.engine.as_(caller);
        Self {
            browser: state.browsers.of(access.sandbox(&record.id)),
            access,
            usual: record.spec.used_template() == Some(&state.settings.template_of(record.kind)),
            mcp_url: convert::mcp_url(record, address),
            record: record.clone(),
            session: session.clone(),
        }
    }

    /// Sees to it that the browser is there, if the sandbox's type has one. A session that waits
    /// for it is told how that went.
    pub(super) async fn provide(self) -> SessionRecord {
        if !self.waits() {
            // Others may be there to look things up without a browser.
            if self.usual {
                warren_browser::warm(self.browser, self.record.kind);
            }
            return self.session;
        }
        let session = self.access.session(&self.session.id);
        self.until_made().await;
        let provided = match self.browser.ensure().await {
            Ok(()) => session.mark_ready(Some(self.mcp_url), None).await,
            Err(error) => session.mark_failed(ApiError::from(error).problem().detail).await,
        };
        // Who released it meanwhile has no more use for it.
        provided.unwrap_or(self.session)
    }

    /// Waits until the sandbox is made, or is not.
    async fn until_made(&self) {
        let (sandbox, mut seen) = (self.browser.sandbox(), self.record.clone());
        while seen.status == Status::Creating {
            match sandbox.changed(seen.generation, LOOK_MS).await {
                Ok(record) => seen = record,
                Err(_) => return,
            }
        }
    }

    /// The same while nobody waits.
    pub(super) fn provide_later(self) {
        if self.record.kind.has_browser() && !self.browser.is_starting() {
            tokio::spawn(self.provide());
        }
    }

    pub(super) fn waits(&self) -> bool {
        self.record.kind.waits_for_browser() && self.session.provision == Provision::Pending
    }
}
