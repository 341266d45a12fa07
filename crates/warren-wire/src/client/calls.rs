//! A method for each call.

use std::io::Read;

use ureq::http::Method;

use super::{Client, ClientError, EventReader, query, quoted};
use crate::api::{
    BackendList, CanRun, CreateKey, CreateSandbox, Death, EventPage, Exec, ExecResult, FileInfo, FileList,
    Health, Key, KeyList, MakeDirectory, MoveSandbox, MovedSandbox, NewRun, PackFiles, Page, PatchSandbox,
    Process, ProcessList, Run, RunList, Sandbox, SendSignal, Session, SessionDetails, SetDefaultSandbox,
    Signal, StartProcess, Stats, Unpacked, Usage, Written,
};

/// Which sandboxes a list shows.
#[derive(Debug, Clone, Default)]
pub struct SandboxQuery {
    /// Also those that ended for good.
    pub ended: bool,
    /// `key=value` each.
    pub labels: Vec<String>,
    pub cursor: Option<String>,
    /// How many at once, the newest first. Left out: as many as there may be.
    pub limit: Option<u32>,
}

/// Which sessions a list shows.
#[derive(Debug, Clone, Default)]
pub struct SessionQuery {
    pub sandbox: Option<String>,
    pub client: Option<String>,
    pub ended: bool,
    pub cursor: Option<String>,
}

/// How a file is written.
#[derive(Debug, Clone, Default)]
pub struct WriteFile {
    pub path: String,
    /// Permission bits in octal.
    pub mode: Option<String>,
    pub user: Option<String>,
    /// How much the reader gives, where that is known: it spares both sides some work.
    pub size: Option<u64>,
}

/// An action on a session that needs no further words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAction {
    Detach,
    Suspend,
    Resume,
    Release,
    Terminate,
    Expire,
}

impl SessionAction {
    fn word(self) -> &'static str {
        match self {
            Self::Detach => "detach",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Release => "release",
            Self::Terminate => "terminate",
            Self::Expire => "expire",
        }
    }
}

pub(super) fn yes(value: bool) -> Option<String> {
    value.then(|| "true".to_owned())
}

pub(super) fn sandbox(id: &str, rest: &str) -> String {
    format!("/v1/sandboxes/{}{rest}", quoted(id))
}

pub(super) fn session(id: &str, rest: &str) -> String {
    format!("/v1/sessions/{}{rest}", quoted(id))
}

impl Client {
    /// With `key`, asking again makes nothing new.
    pub fn create_sandbox(&self, body: &CreateSandbox, key: Option<&str>) -> Result<Sandbox, ClientError> {
        let headers: Vec<(&str, &str)> = key.map(|key| ("idempotency-key", key)).into_iter().collect();
        self.ask(Method::POST, "/v1/sandboxes", Some(body), &headers)
    }

    pub fn sandboxes(&self, wanted: &SandboxQuery) -> Result<Page<Sandbox>, ClientError> {
        let mut pairs = vec![
            ("limit", Some(wanted.limit.unwrap_or(1000).to_string())),
            ("ended", yes(wanted.ended)),
            ("cursor", wanted.cursor.clone()),
        ];
        pairs.extend(wanted.labels.iter().map(|label| ("label", Some(label.clone()))));
        self.get(&format!("/v1/sandboxes{}", query(&pairs)))
    }

    pub fn sandbox(&self, id: &str) -> Result<Sandbox, ClientError> {
        self.get(&sandbox(id, ""))
    }

    pub fn patch_sandbox(&self, id: &str, body: &PatchSandbox) -> Result<Sandbox, ClientError> {
        self.ask(Method::PATCH, &sandbox(id, ""), Some(body), &[])
    }

    pub fn default_sandbox(&self) -> Result<Sandbox, ClientError> {
        self.get("/v1/default-sandbox")
    }

    pub fn set_default_sandbox(&self, id: &str) -> Result<Sandbox, ClientError> {
        let body = SetDefaultSandbox { sandbox_id: id.to_owned() };
        self.ask(Method::PUT, "/v1/default-sandbox", Some(&body), &[])
    }

    pub fn unset_default_sandbox(&self) -> Result<(), ClientError> {
        self.delete("/v1/default-sandbox")
    }

    /// Ends it, with its files.
    pub fn delete_sandbox(&self, id: &str) -> Result<Sandbox, ClientError> {
        self.delete(&sandbox(id, ""))
    }

    pub fn pause(&self, id: &str) -> Result<Sandbox, ClientError> {
        self.ask(Method::POST, &sandbox(id, "/pause"), None::<&()>, &[])
    }

    pub fn resume(&self, id: &str) -> Result<Sandbox, ClientError> {
        self.ask(Method::POST, &sandbox(id, "/resume"), None::<&()>, &[])
    }

    /// Ends its processes and keeps its files.
    pub fn stop(&self, id: &str) -> Result<Sandbox, ClientError> {
        self.ask(Method::POST, &sandbox(id, "/stop"), None::<&()>, &[])
    }

    pub fn death(&self, id: &str) -> Result<Death, ClientError> {
        self.get(&sandbox(id, "/death"))
    }

    pub fn usage(&self, id: &str) -> Result<Usage, ClientError> {
        self.get(&sandbox(id, "/usage"))
    }

    pub fn exec(&self, id: &str, body: &Exec) -> Result<ExecResult, ClientError> {
        self.post(&sandbox(id, "/exec"), body)
    }

    pub fn start_process(&self, id: &str, body: &StartProcess) -> Result<Process, ClientError> {
        self.post(&sandbox(id, "/processes"), body)
    }

    pub fn processes(&self, id: &str) -> Result<ProcessList, ClientError> {
        self.get(&sandbox(id, "/processes"))
    }

    pub fn process(&self, id: &str, process: &str) -> Result<Process, ClientError> {
        self.get(&sandbox(id, &format!("/processes/{}", quoted(process))))
    }

    pub fn signal(&self, id: &str, process: &str, signal: Signal, group: bool) -> Result<(), ClientError> {
        let path = sandbox(id, &format!("/processes/{}/signal", quoted(process)));
        self.post(&path, &SendSignal { signal, group })
    }

    /// A file's bytes, to be read to the end.
    pub fn read_file(
        &self,
        id: &str,
        path: &str,
        user: Option<&str>,
    ) -> Result<impl Read + use<>, ClientError> {
        let query = query(&[("path", Some(path.to_owned())), ("user", user.map(str::to_owned))]);
        let path = sandbox(id, &format!("/files{query}"));
        Ok(self.send(Method::GET, &path, &[], ureq::SendBody::none())?.into_body().into_reader())
    }

    /// Replaces a file with all that the reader gives.
    pub fn write_file(
        &self,
        id: &str,
        file: &WriteFile,
        content: &mut dyn Read,
    ) -> Result<Written, ClientError> {
        let query = query(&[
            ("path", Some(file.path.clone())),
            ("mode", file.mode.clone()),
            ("user", file.user.clone()),
            ("parents", yes(true)),
        ]);
        let path = sandbox(id, &format!("/files{query}"));
        let size = file.size.map(|size| size.to_string());
        let mut headers = vec![("content-type", "application/octet-stream")];
        headers.extend(size.as_deref().map(|size| ("content-length", size)));
        let mut content = content;
        let response = self.send(Method::PUT, &path, &headers, ureq::SendBody::from_reader(&mut content))?;
        serde_json::from_slice(&super::whole(response)?).map_err(ClientError::Decode)
    }

    /// Unpacks a tar file below a directory of a sandbox.
    pub fn unpack_files(
        &self,
        id: &str,
        path: &str,
        user: Option<&str>,
        archive: &mut dyn Read,
    ) -> Result<Unpacked, ClientError> {
        let query = query(&[("path", Some(path.to_owned())), ("user", user.map(str::to_owned))]);
        let path = sandbox(id, &format!("/files/archive{query}"));
        let headers = [("content-type", "application/octet-stream")];
        let mut archive = archive;
        let response = self.send(Method::PUT, &path, &headers, ureq::SendBody::from_reader(&mut archive))?;
        serde_json::from_slice(&super::whole(response)?).map_err(ClientError::Decode)
    }

    /// A directory as a tar file. An error while reading means that what was read is not all.
    pub fn pack_files(
        &self,
        id: &str,
        path: &str,
        user: Option<&str>,
    ) -> Result<impl Read + use<>, ClientError> {
        let query = query(&[("path", Some(path.to_owned())), ("user", user.map(str::to_owned))]);
        let path = sandbox(id, &format!("/files/archive{query}"));
        Ok(self.send(Method::GET, &path, &[], ureq::SendBody::none())?.into_body().into_reader())
    }

    /// As [`Client::pack_files`], of the files that are named alone.
    pub fn pack_some_files(&self, id: &str, body: &PackFiles) -> Result<impl Read + use<>, ClientError> {
        let body = serde_json::to_vec(body).map_err(ClientError::Encode)?;
        let length = body.len().to_string();
        let headers = [("content-type", "application/json"), ("content-length", length.as_str())];
        let path = sandbox(id, "/files/archive");
        let body = &mut body.as_slice();
        let response = self.send(Method::POST, &path, &headers, ureq::SendBody::from_reader(body))?;
        Ok(response.into_body().into_reader())
    }

    /// Removes a file, or an empty directory.
    pub fn remove_file(&self, id: &str, path: &str, user: Option<&str>) -> Result<(), ClientError> {
        let query = query(&[("path", Some(path.to_owned())), ("user", user.map(str::to_owned))]);
        self.delete(&sandbox(id, &format!("/files{query}")))
    }

    pub fn stat(&self, id: &str, path: &str, user: Option<&str>) -> Result<FileInfo, ClientError> {
        let query = query(&[("path", Some(path.to_owned())), ("user", user.map(str::to_owned))]);
        self.get(&sandbox(id, &format!("/files/stat{query}")))
    }

    pub fn list_files(
        &self,
        id: &str,
        path: &str,
        depth: u32,
        user: Option<&str>,
    ) -> Result<FileList, ClientError> {
        let query = query(&[
            ("path", Some(path.to_owned())),
            ("depth", Some(depth.to_string())),
            ("limit", Some("10000".to_owned())),
            ("user", user.map(str::to_owned)),
        ]);
        self.get(&sandbox(id, &format!("/files/list{query}")))
    }

    pub fn make_directory(&self, id: &str, body: &MakeDirectory) -> Result<(), ClientError> {
        self.post(&sandbox(id, "/files/mkdir"), body)
    }

    pub fn sessions(&self, wanted: &SessionQuery) -> Result<Page<Session>, ClientError> {
        let query = query(&[
            ("limit", Some("1000".to_owned())),
            ("sandbox", wanted.sandbox.clone()),
            ("client", wanted.client.clone()),
            ("ended", yes(wanted.ended)),
            ("cursor", wanted.cursor.clone()),
        ]);
        self.get(&format!("/v1/sessions{query}"))
    }

    pub fn session_details(&self, id: &str) -> Result<SessionDetails, ClientError> {
        self.get(&session(id, "/details"))
    }

    pub fn session_action(&self, id: &str, action: SessionAction) -> Result<Session, ClientError> {
        self.ask(Method::POST, &session(id, &format!("/{}", action.word())), None::<&()>, &[])
    }

    pub fn runs(&self, id: &str) -> Result<RunList, ClientError> {
        self.get(&session(id, "/runs"))
    }

    pub fn record_run(&self, id: &str, body: &NewRun) -> Result<Run, ClientError> {
        self.post(&session(id, "/runs"), body)
    }

    pub fn can_run(&self, id: &str) -> Result<CanRun, ClientError> {
        self.get(&session(id, "/can-run"))
    }

    pub fn events(&self, after: u64, sandbox: Option<&str>) -> Result<EventPage, ClientError> {
        let query = query(&[("after", Some(after.to_string())), ("sandbox", sandbox.map(str::to_owned))]);
        self.get(&format!("/v1/events{query}"))
    }

    /// Events after a number, then every new one.
    pub fn follow_events(
        &self,
        after: Option<u64>,
        sandbox: Option<&str>,
    ) -> Result<EventReader, ClientError> {
        let query = query(&[
            ("after", after.map(|after| after.to_string())),
            ("sandbox", sandbox.map(str::to_owned)),
        ]);
        self.follow(&format!("/v1/events{query}"))
    }

    /// A process's output from a position on, until it ends.
    pub fn follow_output(&self, id: &str, process: &str, from: u64) -> Result<EventReader, ClientError> {
        self.follow(&sandbox(id, &format!("/processes/{}/output?from={from}", quoted(process))))
    }

    pub(super) fn follow(&self, path: &str) -> Result<EventReader, ClientError> {
        let headers = [("accept", "text/event-stream")];
        let response = self.send(Method::GET, path, &headers, ureq::SendBody::none())?;
        Ok(EventReader::new(response.into_body().into_reader()))
    }

    pub fn stats(&self) -> Result<Stats, ClientError> {
        self.get("/v1/stats")
    }

    pub fn backends(&self) -> Result<BackendList, ClientError> {
        self.get("/v1/backends")
    }

    /// Gives a sandbox another wall.
    pub fn move_sandbox(&self, id: &str, body: &MoveSandbox) -> Result<MovedSandbox, ClientError> {
        self.post(&sandbox(id, "/move"), body)
    }

    pub fn health(&self) -> Result<Health, ClientError> {
        self.get("/v1/health")
    }

    /// Goes on without the sandboxes that are missing, and says how the server is then.
    pub fn accept_losses(&self) -> Result<Health, ClientError> {
        self.ask(Method::POST, "/v1/recovery/accept-losses", None::<&()>, &[])
    }

    pub fn create_key(&self, body: &CreateKey) -> Result<Key, ClientError> {
        self.post("/v1/keys", body)
    }

    pub fn keys(&self) -> Result<KeyList, ClientError> {
        self.get("/v1/keys")
    }

    pub fn revoke_key(&self, id: &str) -> Result<Key, ClientError> {
        self.delete(&format!("/v1/keys/{}", quoted(id)))
    }
}
