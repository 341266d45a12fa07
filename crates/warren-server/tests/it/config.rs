use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;
use warren_core::Scope;
use warren_server::config::{Config, LogFormat, LogLevel};

use crate::support::TestServer;

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Kept {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The log of the whole process: other tests write to it too, and none of them may tell secrets
/// either.
#[test]
fn no_secret_is_ever_written_to_the_log_or_told_in_figures() {
    let kept = Kept::default();
    let mut log = Config::default().log;
    (log.format, log.level) = (LogFormat::Json, LogLevel(tracing::Level::TRACE));
    tracing::subscriber::set_global_default(warren_server::log_subscriber(&log, kept.clone())).unwrap();

    let server = TestServer::start();
    let key = server.key("default", Scope::Use);
    let secret = "hunter2-and-more";
    let made = server
        .stranger("POST", &format!("/v1/sandboxes?password={secret}"))
        .key(&key)
        .json(&json!({"env": {"TOKEN": secret}}))
        .send();
    assert_eq!(made.status, 422);
    let made = server
        .stranger("POST", "/v1/sandboxes")
        .key(&key)
        .json(&json!({"env": {"TOKEN": secret}}))
        .send()
        .expect(201)
        .json();
    let path = format!("/v1/sandboxes/{}/exec", made["sandbox_id"].as_str().unwrap());
    let exec = json!({"command": ["env"], "env": {"PASSWORD": secret}, "stdin": secret});
    server.stranger("POST", &path).key(&key).json(&exec).send();
    server.stranger("GET", "/v1/sandboxes").key(&format!("{}0", &key[..43])).send().expect(401);
    server.stranger("GET", &format!("/v1/sandboxes?api_key={key}")).send().expect(401);
    let fresh = server.call("POST", "/v1/keys").json(&json!({"name": "n", "scope": "use"})).send().json();
    let figures = String::from_utf8(server.call("GET", "/metrics").send().expect(200).body).unwrap();

    let written = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    assert!(written.contains("/v1/sandboxes/{sandbox_id}/exec"), "nothing was logged: {written}");
    let secrets = [secret, &key[4..], &server.admin[4..], &fresh["key"].as_str().unwrap()[4..]];
    for secret in secrets {
        for text in [&written, &figures] {
            assert!(!text.contains(secret), "a secret was told: {secret}");
        }
    }
}
