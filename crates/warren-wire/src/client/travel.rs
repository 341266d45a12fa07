//! Snapshots, and going back to them; tools and the journal.

use std::io::Read;

use ureq::http::Method;

use super::calls::{sandbox, session, yes};
use super::{Client, ClientError, EventReader, query, quoted};
use crate::api::{
    Blame, CompleteTurn, Diff, EXPORT_SIZE_HEADER, EndedSession, Fork, Forks, Journal, MakeTemplate,
    NameSnapshot, Page, PauseSandbox, Promote, Promoted, PullTemplate, Rollback, RolledBack, Sandbox,
    Snapshot, SnapshotList, Steps, TakeSnapshot, Template, TemplateList, ToolCall, ToolList, ToolResult,
    Turn,
};

/// Which snapshots a list shows; the newest first.
#[derive(Debug, Clone, Default)]
pub struct SnapshotQuery {
    /// Of this sandbox alone.
    pub sandbox: Option<String>,
    pub session: Option<String>,
    /// Only the one of this name.
    pub name: Option<String>,
    /// Only those with a name.
    pub named: bool,
    pub cursor: Option<String>,
}

/// The two sides of a comparison. Each is a snapshot or a sandbox as it is now.
#[derive(Debug, Clone, Default)]
pub struct DiffQuery {
    pub from: String,
    pub to: String,
    /// Only what is at or below this path.
    pub path: Option<String>,
    /// Tell how lines differ.
    pub text: bool,
    pub limit: Option<u32>,
}

/// The parts of a snapshot to export.
#[derive(Debug, Clone, Default)]
pub struct ExportQuery {
    /// `tar`, `patch` or `history`.
    pub format: Option<String>,
    /// Only what is below this directory.
    pub path: Option<String>,
    /// For a patch: the snapshot or sandbox that it starts from.
    pub since: Option<String>,
    /// For a patch: pass over what the state's `.gitignore` files name.
    pub leave_ignored: bool,
    /// For a patch: pass over what matches, each as a line of `.gitignore`.
    pub exclude: Vec<String>,
    /// Ask how many bytes there will be.
    pub size: bool,
}

/// An export on its way.
pub struct Exported<R> {
    /// About how many bytes will come, if that was asked for and could be told.
    pub size: Option<u64>,
    /// An error while reading means that what was read is not all.
    pub content: R,
}

impl<R> std::fmt::Debug for Exported<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exported").field("size", &self.size).finish_non_exhaustive()
    }
}

/// The kind of an import.
#[derive(Debug, Clone, Default)]
pub struct ImportQuery {
    /// `tar` or `history`.
    pub format: Option<String>,
    /// The template that a tar file's files stand on.
    pub template: Option<String>,
    /// A name for the newest snapshot.
    pub name: Option<String>,
    /// How much the reader gives, where that is known.
    pub size: Option<u64>,
}

/// Which entries of a journal are told; the newest first.
#[derive(Debug, Clone, Default)]
pub struct JournalQuery {
    /// Only those with a smaller number.
    pub before: Option<u64>,
    pub limit: Option<u32>,
    /// Tell how many paths each changed.
    pub count: bool,
}

fn snapshot(id: &str, rest: &str) -> String {
    format!("/v1/snapshots/{}{rest}", quoted(id))
}

impl Client {
    /// Waits at most so long for what goes on, then freezes the sandbox.
    pub fn pause_draining(&self, id: &str, body: &PauseSandbox) -> Result<Sandbox, ClientError> {
        self.post(&sandbox(id, "/pause"), body)
    }

    pub fn take_snapshot(&self, id: &str, body: &TakeSnapshot) -> Result<Snapshot, ClientError> {
        self.post(&sandbox(id, "/snapshots"), body)
    }

    pub fn snapshots(&self, wanted: &SnapshotQuery) -> Result<Page<Snapshot>, ClientError> {
        let query = query(&[
            ("limit", Some("1000".to_owned())),
            ("session", wanted.session.clone()),
            ("name", wanted.name.clone()),
            ("named", yes(wanted.named)),
            ("cursor", wanted.cursor.clone()),
        ]);
        match &wanted.sandbox {
            Some(id) => self.get(&sandbox(id, &format!("/snapshots{query}"))),
            None => self.get(&format!("/v1/snapshots{query}")),
        }
    }

    pub fn snapshot(&self, id: &str) -> Result<Snapshot, ClientError> {
        self.get(&snapshot(id, ""))
    }

    /// `None` takes its name away.
    pub fn name_snapshot(&self, id: &str, name: Option<&str>) -> Result<Snapshot, ClientError> {
        let body = NameSnapshot { name: name.map(str::to_owned) };
        self.ask(Method::PATCH, &snapshot(id, ""), Some(&body), &[])
    }

    pub fn delete_snapshot(&self, id: &str) -> Result<(), ClientError> {
        self.delete(&snapshot(id, ""))
    }

    pub fn complete_turn(&self, id: &str, body: &CompleteTurn) -> Result<Turn, ClientError> {
        self.post(&sandbox(id, "/turns"), body)
    }

    pub fn complete_session_turn(&self, id: &str, body: &CompleteTurn) -> Result<Turn, ClientError> {
        self.post(&session(id, "/turns"), body)
    }

    /// Captures the state that a session leaves, and stops its sandbox.
    pub fn end_session(&self, id: &str) -> Result<EndedSession, ClientError> {
        self.ask(Method::POST, &session(id, "/end"), None::<&()>, &[])
    }

    pub fn rollback(&self, id: &str, body: &Rollback) -> Result<RolledBack, ClientError> {
        self.post(&sandbox(id, "/rollback"), body)
    }

    pub fn undo(&self, id: &str, body: &Steps) -> Result<RolledBack, ClientError> {
        self.post(&sandbox(id, "/undo"), body)
    }

    pub fn redo(&self, id: &str, body: &Steps) -> Result<RolledBack, ClientError> {
        self.post(&sandbox(id, "/redo"), body)
    }

    pub fn fork_sandbox(&self, id: &str, body: &Fork) -> Result<Forks, ClientError> {
        self.post(&sandbox(id, "/fork"), body)
    }

    pub fn fork_snapshot(&self, id: &str, body: &Fork) -> Result<Forks, ClientError> {
        self.post(&snapshot(id, "/fork"), body)
    }

    pub fn promote(&self, fork: &str, body: &Promote) -> Result<Promoted, ClientError> {
        self.post(&sandbox(fork, "/promote"), body)
    }

    pub fn make_template(&self, id: &str, body: &MakeTemplate) -> Result<Template, ClientError> {
        self.post(&snapshot(id, "/template"), body)
    }

    pub fn diff(&self, wanted: &DiffQuery) -> Result<Diff, ClientError> {
        let query = query(&[
            ("from", Some(wanted.from.clone())),
            ("to", Some(wanted.to.clone())),
            ("path", wanted.path.clone()),
            ("text", yes(wanted.text)),
            ("limit", wanted.limit.map(|limit| limit.to_string())),
        ]);
        self.get(&format!("/v1/diff{query}"))
    }

    /// A snapshot's files for others.
    pub fn export(&self, id: &str, wanted: &ExportQuery) -> Result<Exported<impl Read + use<>>, ClientError> {
        let mut pairs = vec![
            ("format", wanted.format.clone()),
            ("path", wanted.path.clone()),
            ("since", wanted.since.clone()),
            ("leave_ignored", yes(wanted.leave_ignored)),
            ("size", yes(wanted.size)),
        ];
        pairs.extend(wanted.exclude.iter().map(|pattern| ("exclude", Some(pattern.clone()))));
        let query = query(&pairs);
        let path = snapshot(id, &format!("/export{query}"));
        let response = self.send(Method::GET, &path, &[], ureq::SendBody::none())?;
        let size = response.headers().get(EXPORT_SIZE_HEADER).and_then(|size| size.to_str().ok());
        let size = size.and_then(|size| size.parse().ok());
        Ok(Exported { size, content: response.into_body().into_reader() })
    }

    /// Reads what an export wrote, to the end.
    pub fn import(&self, wanted: &ImportQuery, content: &mut dyn Read) -> Result<SnapshotList, ClientError> {
        let query = query(&[
            ("format", wanted.format.clone()),
            ("template", wanted.template.clone()),
            ("name", wanted.name.clone()),
        ]);
        let size = wanted.size.map(|size| size.to_string());
        // A server that refuses says so before anything is sent, and not by closing the connection
        // on who still sends.
        let mut headers = vec![("content-type", "application/octet-stream"), ("expect", "100-continue")];
        headers.extend(size.as_deref().map(|size| ("content-length", size)));
        let mut content = content;
        let body = ureq::SendBody::from_reader(&mut content);
        let response = self.send(Method::POST, &format!("/v1/snapshots/import{query}"), &headers, body)?;
        serde_json::from_slice(&super::whole(response)?).map_err(ClientError::Decode)
    }

    pub fn templates(&self) -> Result<TemplateList, ClientError> {
        self.get("/v1/templates")
    }

    /// Makes a template of an archive, in place of an earlier one of the name. `config` says in
    /// JSON how its processes start, if the archive is one of a root file system.
    pub fn import_template(
        &self,
        name: &str,
        config: Option<String>,
        content: &mut dyn Read,
    ) -> Result<Template, ClientError> {
        let path = format!("/v1/templates/{}{}", quoted(name), query(&[("config", config)]));
        let headers = [("content-type", "application/octet-stream"), ("expect", "100-continue")];
        let mut content = content;
        let response = self.send(Method::PUT, &path, &headers, ureq::SendBody::from_reader(&mut content))?;
        serde_json::from_slice(&super::whole(response)?).map_err(ClientError::Decode)
    }

    /// Has the server make a template of an image of a registry, and follows it: `progress` with a
    /// [`crate::api::PullProgress`] each, then `template` with the [`Template`].
    pub fn pull_template(&self, body: &PullTemplate) -> Result<EventReader, ClientError> {
        self.post_and_follow("/v1/templates", body)
    }

    /// Removes a template that nothing stands on.
    pub fn delete_template(&self, name: &str) -> Result<(), ClientError> {
        self.delete(&format!("/v1/templates/{}", quoted(name)))
    }

    pub fn tools(&self) -> Result<ToolList, ClientError> {
        self.get("/v1/tools")
    }

    pub fn call_tool(&self, id: &str, tool: &str, call: &ToolCall) -> Result<ToolResult, ClientError> {
        self.post(&sandbox(id, &format!("/tools/{}", quoted(tool))), call)
    }

    /// Calls a tool and follows what it tells: `stdout` and `stderr` with a
    /// [`crate::api::ToolOutput`] each, then `result` with a [`ToolResult`].
    pub fn follow_tool(&self, id: &str, tool: &str, call: &ToolCall) -> Result<EventReader, ClientError> {
        self.post_and_follow(&sandbox(id, &format!("/tools/{}", quoted(tool))), call)
    }

    pub fn journal(&self, id: &str, wanted: &JournalQuery) -> Result<Journal, ClientError> {
        let query = query(&[
            ("before", wanted.before.map(|before| before.to_string())),
            ("limit", wanted.limit.map(|limit| limit.to_string())),
            ("count", yes(wanted.count)),
        ]);
        self.get(&sandbox(id, &format!("/journal{query}")))
    }

    pub fn blame(&self, id: &str, path: &str) -> Result<Blame, ClientError> {
        self.get(&sandbox(id, &format!("/blame{}", query(&[("path", Some(path.to_owned()))]))))
    }
}
