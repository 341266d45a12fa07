//! Ports of sandboxes from outside. The fake machine's sandboxes all have the loopback of this
//! process, on which the tests listen.

mod access;
pub(crate) mod application;
mod hostile;
mod passing;
mod tunnel;

use serde_json::{Value, json};

use crate::support::{Answer, Call, TestServer};
use application::Application;

/// A server with a sandbox in it, and an application that listens there.
struct Site {
    server: TestServer,
    sandbox: String,
    application: Application,
}

impl Site {
    fn start() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut warren_server::config::Config)) -> Self {
        let server = TestServer::with(change);
        server.isolation.share_network();
        let sandbox = create(&server);
        Self { server, sandbox, application: Application::start() }
    }

    /// The host of the application's port.
    fn host(&self) -> String {
        self.host_of(self.application.port)
    }

    fn host_of(&self, port: u16) -> String {
        format!("{port}-{}.localhost:{}", self.sandbox, self.server.address.port())
    }

    /// A request to the application, without anything that opens its port.
    fn stranger(&self, method: &str, path: &str) -> Call {
        self.server.visitor(method, path, &self.host())
    }

    /// A request to the application, with its token.
    fn call(&self, method: &str, path: &str) -> Call {
        self.stranger(method, path).header("Warren-Traffic-Token", &self.token())
    }

    fn token(&self) -> String {
        self.port()["token"].as_str().unwrap().to_owned()
    }

    fn port(&self) -> Value {
        self.server.call("GET", &self.path("")).send().expect(200).json()
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sandboxes/{}/ports/{}{rest}", self.sandbox, self.application.port)
    }

    /// The part of a link after the host.
    fn link(&self, wanted: &Value) -> String {
        let link = self.server.call("POST", &self.path("/link")).json(wanted).send().expect(200).json();
        let url = link["url"].as_str().unwrap().to_owned();
        let place = format!("http://{}", self.host());
        url.strip_prefix(&place).unwrap_or_else(|| panic!("{url} is not below {place}")).to_owned()
    }

    fn make_public(&self) {
        self.server.call("PUT", &self.path("")).json(&json!({"public": true})).send().expect(200);
    }
}

fn create(server: &TestServer) -> String {
    let made = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    made["sandbox_id"].as_str().unwrap().to_owned()
}

/// Insists on what the proxy says in its own words.
fn expect_told(answer: &Answer, status: u16, words: &str) {
    assert_eq!(answer.status, status, "{}", String::from_utf8_lossy(&answer.body));
    let told = answer.json();
    assert_eq!(told["code"], status);
    assert!(told["message"].as_str().unwrap().contains(words), "{told}");
}
