//! Resources: files of sandboxes, outputs of processes and journals, to be read by name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    CacheScope, ListResourceTemplatesResult, ListResourcesResult, Resource, ResourceContents,
    ResourceTemplate,
};
use serde_json::json;
use warren_core::catalog::SandboxFilter;
use warren_core::{PageRequest, SandboxRecord};
use warren_engine::{Collector, ProcessEvent, Sandbox};
use warren_face::Desk;
use warren_face::error::{ApiError, Code};
use warren_wire::guest::{FileCall, FileOperation, ProcessId, ProcessSelector, Reader};

use crate::handler::LIST_TTL_MS;
use crate::request::Place;
use crate::uri::{self, Thing};

/// Bytes of a resource that are answered: clients show all of it to a model.
const MOST_BYTES: u64 = 1 << 20;
const MOST_LISTED: u32 = 50;
const MOST_ENTRIES: u32 = 200;

/// The journals of the sandboxes that the place is about. Files are too many to be listed.
pub(crate) async fn list(desk: &Desk, place: &Place) -> Result<ListResourcesResult, ApiError> {
    let engine = desk.engine.as_(&place.caller);
    let records = match &place.pinned {
        Some(id) => vec![engine.sandbox(id).record().await?],
        None => {
            let page = PageRequest { limit: MOST_LISTED, ..PageRequest::default() };
            engine.sandboxes().list(&SandboxFilter::default(), &page).await?.items
        }
    };
    let listed = ListResourcesResult::with_all_items(records.iter().map(journal).collect());
    Ok(listed.with_ttl_ms(0).with_cache_scope(CacheScope::Private))
}

fn journal(record: &SandboxRecord) -> Resource {
    let name = record.name.as_ref().map_or_else(|| record.id.to_string(), ToString::to_string);
    Resource::new(uri::journal(&record.id), format!("journal of {name}"))
        .with_description("What was done in the sandbox, the newest first")
        .with_mime_type("application/json")
}

pub(crate) fn templates() -> ListResourceTemplatesResult {
    let templates = vec![
        ResourceTemplate::new(uri::FILE_TEMPLATE, "file")
            .with_description("A file of a sandbox, by its absolute path; up to 1 MiB of it"),
        ResourceTemplate::new(uri::OUTPUT_TEMPLATE, "output")
            .with_description("All that a process wrote, as far as it is kept")
            .with_mime_type("text/plain"),
        ResourceTemplate::new(uri::JOURNAL_TEMPLATE, "journal")
            .with_description("What was done in a sandbox, the newest first")
            .with_mime_type("application/json"),
    ];
    let list = ListResourceTemplatesResult::with_all_items(templates);
    list.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private)
}

/// The content of the resource of this name.
pub(crate) async fn read(desk: &Desk, place: &Place, name: &str) -> Result<ResourceContents, ApiError> {
    let (word, thing) = uri::parse(name).ok_or_else(|| unknown(name))?;
    let engine = desk.engine.as_(&place.caller);
    let sandbox = engine.find(&word).await?;
    if place.pinned.as_ref().is_some_and(|pinned| pinned != sandbox.id()) {
        return Err(unknown(name));
    }
    match thing {
        Thing::File(path) => file(&sandbox, &path, name).await,
        Thing::Output(process) => output(&sandbox, process, name).await,
        Thing::Journal => entries(&sandbox, name).await,
    }
}

fn unknown(name: &str) -> ApiError {
    let name: String = name.chars().take(200).collect();
    ApiError::new(Code::PathNotFound, format!("there is no resource `{name}`")).field("uri")
}

async fn file(sandbox: &Sandbox, path: &str, name: &str) -> Result<ResourceContents, ApiError> {
    let operation = FileOperation::Read { path: path.into(), offset: 0, length: Some(MOST_BYTES) };
    let mut reader = sandbox.files().read(FileCall { user: None, operation, as_root: None }).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() as u64 > MOST_BYTES {
            return Err(ApiError::new(
                Code::SandboxIo,
                "the sandbox's agent sent more than it was asked for",
            ));
        }
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, name),
        Err(odd) => {
            let blob = STANDARD.encode(odd.as_bytes());
            ResourceContents::blob(blob, name).with_mime_type("application/octet-stream")
        }
    })
}

/// As much as the agent still has, cut in the middle.
async fn output(sandbox: &Sandbox, process: u64, name: &str) -> Result<ResourceContents, ApiError> {
    let selector = ProcessSelector::Id(ProcessId(process));
    let until = sandbox.processes().get(selector.clone()).await?.kept_to;
    let mut handle = sandbox.processes().follow(selector, 0, Reader::Skips).await?;
    let mut kept = Collector::new(usize::try_from(MOST_BYTES).unwrap_or(usize::MAX));
    while handle.reader.position() < until {
        match handle.next().await? {
            Some(ProcessEvent::Stdout { bytes, .. } | ProcessEvent::Stderr { bytes, .. }) => {
                kept.push(&bytes)
            }
            Some(ProcessEvent::Missed { .. }) => kept.skip(),
            Some(ProcessEvent::Exited(_)) | None => break,
        }
    }
    Ok(ResourceContents::text(crate::plain::plain(&kept.finish().text().0), name))
}

async fn entries(sandbox: &Sandbox, name: &str) -> Result<ResourceContents, ApiError> {
    let entries = sandbox.history().log(None, MOST_ENTRIES, false).await?;
    let lines: Vec<_> = entries
        .iter()
        .map(|told| json!({ "entry": told.entry.number, "did": told.line(), "by": told.entry.by }))
        .collect();
    let text = serde_json::to_string(&lines).unwrap_or_default();
    Ok(ResourceContents::text(text, name).with_mime_type("application/json"))
}
