use rmcp::RoleServer;
use rmcp::model::{InputResponses, ProgressNotificationParam};
use rmcp::service::RequestContext;
use warren_core::ErrorCode;
use warren_engine::{Access, Sandbox};
use warren_face::Desk;
use warren_face::error::ApiError;

use crate::fields::Fields;
use crate::request::Place;

/// A call of a tool.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) desk: &'a Desk,
    pub(crate) place: &'a Place,
    pub(crate) context: &'a RequestContext<RoleServer>,
    pub(crate) fields: Fields,
    /// Given back by the client from an earlier answer to the same call.
    pub(crate) state: Option<String>,
    /// Its answers to the questions of that one.
    pub(crate) answers: InputResponses,
}

/// Names the client's own id of a call, which a repeated call has again.
const CALL_ID: &str = "warren/call";

impl Call<'_> {
    /// The engine for whoever calls.
    pub(crate) fn engine(&self) -> Access {
        self.desk.engine.as_(&self.place.caller)
    }

    /// The sandbox that it is about: the path's, else the argument's, else the owner's default.
    pub(crate) async fn sandbox(&mut self) -> Result<Sandbox, ApiError> {
        let engine = self.engine();
        if let Some(id) = &self.place.pinned {
            return Ok(engine.sandbox(id));
        }
        if let Some(word) = self.fields.word("sandbox")? {
            return engine.find(&word).await.map_err(|error| ApiError::from(error).field("sandbox"));
        }
        match engine.sandboxes().default().await {
            Ok(record) => Ok(engine.sandbox(&record.id)),
            Err(error) if error.code() == ErrorCode::NoDefaultSandbox => {
                let detail = "there is no sandbox yet: make one with sandbox(action=\"create\")";
                Err(ApiError::new(ErrorCode::NoDefaultSandbox, detail).field("sandbox"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// True if the client asks by itself how a task stands.
    pub(crate) fn takes_tasks(&self) -> bool {
        self.context.client_capabilities().is_some_and(|able| able.supports_tasks())
    }

    /// The client's own id of this call, if it gave one.
    pub(crate) fn id(&self) -> Option<String> {
        self.context.meta.get(CALL_ID)?.as_str().map(str::to_owned)
    }

    /// Tells a client that asked for it how far the work is.
    pub(crate) async fn progress(&self, seconds: f64, message: String) {
        let Some(token) = self.context.meta.get_progress_token() else { return };
        let progress = ProgressNotificationParam::new(token, seconds).with_message(message);
        // Who has left is told of elsewhere.
        self.context.peer.notify_progress(progress).await.ok();
    }
}
