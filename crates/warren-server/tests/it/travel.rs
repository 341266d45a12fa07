//! Snapshots, and what they make possible.

mod archives;
mod branches;
mod history;
mod snapshots;

use serde_json::{Value, json};

use crate::support::{Answer, TestServer};

/// A server with a sandbox of one's own.
pub(super) struct World {
    pub(super) server: TestServer,
    pub(super) id: String,
    pub(super) session: String,
}

impl World {
    pub(super) fn new() -> Self {
        Self::on(TestServer::start())
    }

    /// One whose states nobody captures unasked.
    pub(super) fn quiet() -> Self {
        Self::with(TestServer::start(), &json!({"history": "off"}))
    }

    pub(super) fn on(server: TestServer) -> Self {
        Self::with(server, &json!({}))
    }

    fn with(server: TestServer, sandbox: &Value) -> Self {
        let made = server.call("POST", "/v1/sandboxes").json(sandbox).send().expect(201).json();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        let (id, session) = (text("sandbox_id"), text("session_id"));
        Self { server, id, session }
    }

    /// Asks something of the sandbox.
    pub(super) fn ask(&self, what: &str, body: &Value) -> Answer {
        self.post(&format!("/v1/sandboxes/{}/{what}", self.id), body)
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Answer {
        self.server.call("POST", path).json(body).send()
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.server.call("GET", path).send()
    }

    /// Makes a file what it is to be.
    pub(super) fn write(&self, path: &str, text: &str) {
        write_in(&self.server, &self.id, path, text);
    }

    pub(super) fn read(&self, path: &str) -> Option<String> {
        let answer = self.get(&format!("/v1/sandboxes/{}/files?path={path}", self.id));
        (answer.status == 200).then(|| String::from_utf8(answer.body).unwrap())
    }

    /// The id of a new snapshot.
    pub(super) fn snapshot(&self) -> String {
        let taken = self.ask("snapshots", &json!({})).expect(201).json();
        taken["snapshot_id"].as_str().unwrap().to_owned()
    }
}

pub(super) fn write_in(server: &TestServer, id: &str, path: &str, text: &str) {
    let path = format!("/v1/sandboxes/{id}/files?path={path}&parents=true");
    server.call("PUT", &path).body(text.as_bytes()).send().expect(200);
}

/// The code and the field of a refusal.
pub(super) fn refusal(answer: &Answer) -> (u16, String, Option<String>) {
    let body = answer.json();
    (answer.status, answer.code(), body["field"].as_str().map(ToOwned::to_owned))
}

pub(super) fn refused(status: u16, code: &str, field: &str) -> (u16, String, Option<String>) {
    (status, code.to_owned(), (!field.is_empty()).then(|| field.to_owned()))
}
