use serde_json::Value;
use warren_e2e::TestServer;

/// A sandbox in which everybody is root, with automatic snapshots as the flags say.
#[track_caller]
pub(super) fn create(server: &TestServer<'_>, flags: &[&str]) -> String {
    let words = ["create", "--user", "root"].into_iter().chain(flags.iter().copied());
    server.warren(words).ok().line()
}

/// Takes a snapshot and answers all about it.
#[track_caller]
pub(super) fn take(server: &TestServer<'_>, id: &str, flags: &[&str]) -> Value {
    let words = ["snapshot", id, "--json"].into_iter().chain(flags.iter().copied());
    server.warren(words).ok().json()
}

/// Takes a snapshot and answers its id.
#[track_caller]
pub(super) fn snapshot(server: &TestServer<'_>, id: &str) -> String {
    text(&take(server, id, &[]), "snapshot_id")
}

#[track_caller]
pub(super) fn fork(server: &TestServer<'_>, of: &str) -> String {
    server.warren(["fork", of]).ok().line()
}

#[track_caller]
pub(super) fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}

/// Leaves a process behind that is never idle, so that the sandbox cannot be sealed.
#[track_caller]
pub(super) fn keep_busy(server: &TestServer<'_>, id: &str, line: &str) {
    server.warren(["exec", id, "--detach", "--", "sh", "-c", line]).ok();
}

/// The journal, the newest entry first.
#[track_caller]
pub(super) fn log(server: &TestServer<'_>, id: &str) -> Vec<Value> {
    let log = server.warren(["log", id, "--all", "--json"]).ok().json();
    log.as_array().expect("a list").clone()
}
