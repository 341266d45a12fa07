//! Changes in a directory, as these clients are told.

use std::collections::HashMap;

use futures_util::{Stream, StreamExt as _, stream};
use warren_engine::{EngineError, Watch};
use warren_wire::guest::{self, ByteString, FailureCode, FileOperation, WatchKind};

use super::entry::info;
use super::{fault, place};
use crate::envd::Visitor;
use crate::envd::rpc::RpcError;
use crate::filesystem::{
    EntryInfo, EventType, FilesystemEvent, WatchDirRequest, WatchDirResponse, WatchEvent, WatchStart,
};
use crate::rpc::Code;

/// Which directory is watched, and how much is to be told.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) visitor: Visitor,
    pub(super) root: ByteString,
    /// Changes come with a description of the file, if it is still there.
    pub(super) describe: bool,
}

/// Some changes, as clients are told.
pub(super) struct Told {
    pub(super) events: Vec<FilesystemEvent>,
    /// Others were lost.
    pub(super) lost: bool,
}

/// Tells of changes for as long as the client listens.
pub(super) async fn watch_dir(
    visitor: &Visitor,
    request: WatchDirRequest,
) -> Result<impl Stream<Item = Result<WatchDirResponse, RpcError>> + Send + 'static, RpcError> {
    let root = place(visitor, &request.path)?;
    let watched = Watched { visitor: visitor.clone(), root, describe: request.include_entry };
    let watch = watched.begin(request.recursive).await?;
    let parts = stream::unfold(Some((watch, watched)), |state| async {
        let (mut watch, watched) = state?;
        match watch.next().await {
            Ok(events) => {
                let told = watched.tell(events.unwrap_or_default()).await;
                let mut messages: Vec<_> = told.events.into_iter().map(|event| Ok(message(event))).collect();
                let going_on = (!told.lost).then_some((watch, watched));
                messages.extend(told.lost.then(|| Err(lost())));
                Some((messages, going_on))
            }
            Err(error) if is_over(&error) => None,
            Err(error) => Some((vec![Err(error.into())], None)),
        }
    });
    let begun = stream::iter([Ok(WatchDirResponse { event: Some(WatchEvent::Start(WatchStart {})) })]);
    Ok(begun.chain(parts.flat_map(stream::iter)))
}

fn message(event: FilesystemEvent) -> WatchDirResponse {
    WatchDirResponse { event: Some(WatchEvent::Filesystem(event)) }
}

/// There was more than could be told.
pub(super) fn lost() -> RpcError {
    RpcError::new(Code::DataLoss, "more changed than could be told: list the directory, and watch it again")
}

/// True if the directory itself is gone: a watch ends with it.
pub(super) fn is_over(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused(failure) if failure.code == FailureCode::NotFound)
}

impl Watched {
    pub(super) async fn begin(&self, recursive: bool) -> Result<Watch, RpcError> {
        let call = self.visitor.call(FileOperation::Watch { path: self.root.clone(), recursive });
        let watched = self.visitor.sandbox.files().watch(call).await;
        watched.map_err(|error| fault(&self.visitor, error))
    }

    /// Turns changes into the form that clients are told.
    pub(super) async fn tell(&self, changes: Vec<guest::WatchEvent>) -> Told {
        let lost = changes.iter().any(|change| change.kind == WatchKind::Overflowed);
        let mut events: Vec<FilesystemEvent> = changes.iter().flat_map(events).collect();
        if self.describe {
            self.describe(&mut events).await;
        }
        Told { events, lost }
    }

    /// Describes what was made, written or given other rights, once each.
    async fn describe(&self, events: &mut [FilesystemEvent]) {
        let mut known: HashMap<String, Option<EntryInfo>> = HashMap::new();
        for event in events {
            let there = [EventType::Create, EventType::Write, EventType::Chmod];
            if !there.iter().any(|kind| event.r#type == i32::from(*kind)) {
                continue;
            }
            if let Some(entry) = known.get(&event.name) {
                event.entry.clone_from(entry);
                continue;
            }
            let path = format!("{}/{}", self.root.to_text().trim_end_matches('/'), event.name);
            event.entry = self.visitor.stat(path.into(), false).await.ok().map(info);
            known.insert(event.name.clone(), event.entry.clone());
        }
    }
}

/// One change, in the words of these clients. What moves within the directory is gone from one
/// place and new in another.
fn events(change: &guest::WatchEvent) -> Vec<FilesystemEvent> {
    let event = |path: &ByteString, kind: EventType| FilesystemEvent {
        name: path.to_text().into_owned(),
        r#type: kind.into(),
        entry: None,
    };
    let one = |kind| vec![event(&change.path, kind)];
    match change.kind {
        WatchKind::Created => one(EventType::Create),
        WatchKind::Written => one(EventType::Write),
        WatchKind::Removed if change.moved_away == Some(true) => one(EventType::Rename),
        WatchKind::Removed => one(EventType::Remove),
        WatchKind::AttributesChanged => one(EventType::Chmod),
        WatchKind::Renamed => {
            let made = change.renamed_to.as_ref().map(|path| event(path, EventType::Create));
            one(EventType::Rename).into_iter().chain(made).collect()
        }
        WatchKind::Overflowed => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: WatchKind, renamed_to: Option<&str>, moved_away: Option<bool>) -> Vec<(String, i32)> {
        let renamed_to = renamed_to.map(ByteString::from);
        let change = guest::WatchEvent { kind, path: "a".into(), renamed_to, moved_away };
        events(&change).into_iter().map(|event| (event.name, event.r#type)).collect()
    }

    #[test]
    fn changes_are_told_in_the_words_of_the_protocol() {
        let a = |kind: EventType| vec![("a".to_owned(), kind.into())];
        assert_eq!(told(WatchKind::Created, None, None), a(EventType::Create));
        assert_eq!(told(WatchKind::Written, None, None), a(EventType::Write));
        assert_eq!(told(WatchKind::AttributesChanged, None, None), a(EventType::Chmod));
        assert_eq!(told(WatchKind::Removed, None, None), a(EventType::Remove));
        assert_eq!(told(WatchKind::Removed, None, Some(true)), a(EventType::Rename));
        let moved =
            vec![("a".to_owned(), EventType::Rename.into()), ("b".to_owned(), EventType::Create.into())];
        assert_eq!(told(WatchKind::Renamed, Some("b"), None), moved);
        assert_eq!(told(WatchKind::Overflowed, None, None), []);
    }
}
