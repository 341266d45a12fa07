//! The E2B protocol, as its clients speak it.

mod client;
mod control;
mod envd;
mod files;
mod filesystem;
mod lifecycle;
mod listing;
mod made;
mod network;
mod observe;
mod processes;
mod states;
mod streams;
mod templates;
mod traffic;

use serde_json::{Value, json};

use crate::support::{Call, TestServer};

pub(crate) use made::Made;

/// A key as clients of this protocol write it.
pub(crate) fn e2b_key(key: &str) -> String {
    key.replacen("wrn_", "e2b_", 1)
}

/// A request to the control plane with the administrator's key.
pub(crate) fn call(server: &TestServer, method: &str, path: &str) -> Call {
    call_as(server, &server.admin, method, path)
}

pub(crate) fn call_as(server: &TestServer, key: &str, method: &str, path: &str) -> Call {
    server.stranger(method, &format!("/e2b{path}")).header("X-API-KEY", &e2b_key(key))
}

/// A new sandbox of the usual template, with what else the body says.
pub(crate) fn create(server: &TestServer, mut body: Value) -> Value {
    body["templateID"] = "base".into();
    call(server, "POST", "/v2/sandboxes").json(&body).pass().expect(201).json()
}

/// The id of a new sandbox.
pub(crate) fn make(server: &TestServer) -> String {
    id_of(&create(server, json!({})))
}

pub(crate) fn id_of(sandbox: &Value) -> String {
    sandbox["sandboxID"].as_str().expect("the id of a sandbox").to_owned()
}

/// The answer about a sandbox.
pub(crate) fn info(server: &TestServer, id: &str) -> Value {
    call(server, "GET", &format!("/sandboxes/{id}")).pass().expect(200).json()
}
