//! The place that a request comes to: whose it is, and which tools and sandbox it is about.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use warren_core::{SandboxId, SandboxKind, SandboxRecord};
use warren_face::Desk;
use warren_face::address::Address;
use warren_face::auth::Caller;
use warren_face::error::{ApiError, Code};
use warren_face::extract::Params;

use crate::state::Mcp;
use crate::toolset::Toolset;

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) caller: Caller,
    /// The address by which the client reaches the server.
    pub(crate) address: Address,
    /// The only sandbox that it is about, if the path names one.
    pub(crate) pinned: Option<SandboxId>,
    pub(crate) tools: Toolset,
}

impl Place {
    /// The place of the request that a message came in.
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Result<Self, ErrorData> {
        let head = context.extensions.get::<Parts>();
        let place = head.and_then(|head| head.extensions.get::<Self>());
        place.cloned().ok_or_else(|| ErrorData::internal_error("the request has no place", None))
    }
}

impl FromRequestParts<Mcp> for Place {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, mcp: &Mcp) -> Result<Self, ApiError> {
        let query = Params::parse(parts.uri.query().unwrap_or_default())?;
        let tools = query.text("tools").map(Toolset::parse).transpose()?;
        Self::read(parts, mcp, tools).await
    }
}

impl Place {
    /// The place of a request, which names these tools.
    pub(crate) async fn read(parts: &mut Parts, mcp: &Mcp, tools: Option<Toolset>) -> Result<Self, ApiError> {
        let caller = <Caller as FromRequestParts<Mcp>>::from_request_parts(parts, mcp).await?;
        let Ok(address) = Address::from_request_parts(parts, mcp).await;
        let pinned = match pinned_word(parts, mcp).await? {
            Some(word) => Some(existing(mcp, &caller, &word).await?),
            None => None,
        };
        let usual = match &pinned {
            Some(record) if record.kind == SandboxKind::Research => Toolset::without_shell,
            _ => Toolset::all,
        };
        let (tools, pinned) = (tools.unwrap_or_else(usual), pinned.map(|record| record.id));
        Ok(Self { caller, address, pinned, tools })
    }
}

async fn pinned_word(parts: &mut Parts, mcp: &Mcp) -> Result<Option<String>, ApiError> {
    let path = Path::<Vec<(String, String)>>::from_request_parts(parts, mcp).await;
    let Path(named) =
        path.map_err(|_| ApiError::new(Code::InvalidRequest, "the path is not percent-encoded UTF-8"))?;
    Ok(named.into_iter().find(|(name, _)| name == "sandbox_id").map(|(_, word)| word))
}

/// The sandbox that a word means, which the catalog knows.
async fn existing(desk: &Desk, caller: &Caller, word: &str) -> Result<SandboxRecord, ApiError> {
    let sandbox = desk.engine.as_(caller).find(word).await?;
    Ok(sandbox.record().await?)
}
