use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use warren_face::Desk;

use crate::answer::refusal;
use crate::fields::Fields;
use crate::request::Place;
use crate::tools::{self, Call};

/// How long a client may keep the list of tools, which changes with the server's version.
const LIST_TTL_MS: u64 = 3_600_000;
/// How much of an unknown name is repeated.
const LONGEST_TOLD: usize = 80;

const INSTRUCTIONS: &str = "A Linux machine of your own. Every change is a numbered entry of its journal, \
and its answer says how to take it back: `undo` returns all files to an earlier state, also after `rm -rf`. \
Commands that take long go on in the background: `process` waits for them. Files stay when the machine \
stops.";

/// Answers one message of the protocol.
#[derive(Debug, Clone)]
pub(crate) struct Handler {
    desk: Desk,
}

impl Handler {
    pub(crate) fn new(desk: Desk) -> Self {
        Self { desk }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let server = Implementation::new("warren", env!("CARGO_PKG_VERSION")).with_title("Warren");
        ServerConfig::new(capabilities).with_server_info(server).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let place = Place::of(&context)?;
        let listed = place.tools.iter().map(|tool| tools::listed(tool, place.pinned.is_some(), &self.desk));
        let list = ListToolsResult::with_all_items(listed.collect());
        Ok(list.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    /// Only a tool that does not exist is an error of the protocol: all else the model can mend.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let place = Place::of(&context)?;
        let Some(tool) = place.tools.named(&request.name) else {
            let name: String = request.name.chars().take(LONGEST_TOLD).collect();
            return Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None));
        };
        let fields = Fields::new(tool.name(), request.arguments);
        let call = Call { desk: &self.desk, place: &place, context: &context, fields };
        let answered = tools::run(tool, call).await;
        let result = answered.map_or_else(|error| refusal(&error), |answer| answer.into_result());
        Ok(result.into())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}
