use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ErrorCode, GetPromptRequestParams, GetPromptResponse,
    GetTaskParams, GetTaskResult, Implementation, InputResponses, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
    UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use warren_core::ErrorKind;
use warren_face::Desk;
use warren_face::error::ApiError;

use crate::answer::refusal;
use crate::fields::Fields;
use crate::request::Place;
use crate::tools::{self, Call};
use crate::{prompts, resources, tasks};

/// How long a client may keep the list of tools, which changes with the server's version.
pub(crate) const LIST_TTL_MS: u64 = 3_600_000;
/// How much of an unknown name is repeated.
const LONGEST_TOLD: usize = 80;

const INSTRUCTIONS: &str = "A Linux machine of your own. Every change is a numbered entry of its journal, \
and its answer says how to take it back: `undo` returns all files to an earlier state, also after `rm -rf`. \
Commands that take long go on in the background: `process` waits for them. Files stay when the machine \
stops. The argument `sandbox` is an id or a name; without it the default sandbox is meant.";

/// Answers one message of the protocol.
#[derive(Debug, Clone)]
pub(crate) struct Handler {
    desk: Desk,
}

impl Handler {
    pub(crate) fn new(desk: Desk) -> Self {
        Self { desk }
    }

    /// A call without any arguments.
    fn call<'a>(&'a self, place: &'a Place, context: &'a RequestContext<RoleServer>) -> Call<'a> {
        let (fields, answers) = (Fields::new("tasks", None), InputResponses::new());
        Call { desk: &self.desk, place, context, fields, state: None, answers }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_prompts()
            .enable_resources()
            .enable_tools()
            .enable_tasks()
            .build();
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
            return Err(no_tool(&request.name));
        };
        let call = Call {
            fields: Fields::new(tool.name(), request.arguments),
            state: request.request_state,
            answers: request.input_responses.unwrap_or_default(),
            ..self.call(&place, &context)
        };
        Ok(tools::run(tool, call).await.map_or_else(|error| refusal(&error).into(), CallToolResponse::from))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::list(&self.desk, &Place::of(&context)?).await.map_err(failed)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = resources::read(&self.desk, &Place::of(&context)?, &request.uri).await;
        let content = read.map_err(|error| {
            let data = json!({ "uri": request.uri, "problem": error.problem() });
            let mut told = failed(error);
            told.data = Some(data);
            told
        })?;
        let read = ReadResourceResult::new(vec![content]);
        Ok(read.with_ttl_ms(0).with_cache_scope(CacheScope::Private).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let list = ListPromptsResult::with_all_items(prompts::list());
        Ok(list.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match prompts::get(&request.name, request.arguments) {
            Some(filled) => Ok(filled.map_err(failed)?.into()),
            None => Err(ErrorData::invalid_params("there is no prompt of that name", None)),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let place = Place::of(&context)?;
        tasks::get(&self.call(&place, &context), &request.task_id).await.map_err(invalid)
    }

    /// A task asks nothing: what it waits for is answered where the sandbox is looked after.
    async fn update_task(&self, _: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Err(ErrorData::invalid_params("the task asked nothing", None))
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let place = Place::of(&context)?;
        tasks::cancel(&self.call(&place, &context), &request.task_id).await.map_err(invalid)
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}

/// An error of a call that names something that is not there.
fn invalid(error: ApiError) -> ErrorData {
    match failed(error) {
        ErrorData { code: ErrorCode::RESOURCE_NOT_FOUND, message, data, .. } => {
            ErrorData::invalid_params(message, data)
        }
        error => error,
    }
}

/// The refusal of a tool that does not exist.
pub(crate) fn no_tool(name: &str) -> ErrorData {
    let name: String = name.chars().take(LONGEST_TOLD).collect();
    ErrorData::invalid_params(format!("there is no tool `{name}`"), None)
}

/// An error where the protocol has no result that could tell it.
pub(crate) fn failed(error: ApiError) -> ErrorData {
    error.log();
    let problem = error.problem();
    let data = serde_json::to_value(&problem).ok();
    match error.code().kind() {
        ErrorKind::NotFound => ErrorData::resource_not_found(problem.detail, data),
        ErrorKind::Invalid => ErrorData::invalid_params(problem.detail, data),
        _ => ErrorData::internal_error(problem.detail, data),
    }
}
