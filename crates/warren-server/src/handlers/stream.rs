use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::Response;
use warren_face::auth::Caller;
use warren_face::error::{ApiError, Code};

use crate::extract::SandboxPath;
use crate::stream::{Conversation, MOST_MESSAGE, PROTOCOL};

/// Looks for the sandbox first, so that a caller who may not use it is refused like anywhere else.
pub(crate) async fn open(
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    sandbox.record().await?;
    let upgrade = upgrade.map_err(|error| ApiError::new(Code::InvalidRequest, error.body_text()))?;
    let upgrade = upgrade.protocols([PROTOCOL]).max_message_size(MOST_MESSAGE).max_frame_size(MOST_MESSAGE);
    let conversation = Conversation { caller, sandbox };
    Ok(upgrade.on_upgrade(move |socket| conversation.hold(socket)))
}
