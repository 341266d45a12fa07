use serde_json::{Value, json};

use crate::support::{Answer, Call, TestServer};

/// A sandbox that a client of E2B made, one of several on a server.
pub(crate) struct Made {
    pub(crate) id: String,
    /// The token of its in-sandbox protocol.
    pub(crate) token: String,
}

impl Made {
    pub(crate) fn by(server: &TestServer) -> Self {
        let call = server.stranger("POST", "/e2b/v2/sandboxes").header("X-API-KEY", &server.admin);
        let made = call.json(&json!({"templateID": "base"})).pass().expect(201).json();
        let text =
            |name: &str| made[name].as_str().unwrap_or_else(|| panic!("no {name} in {made}")).to_owned();
        Self { id: text("sandboxID"), token: text("envdAccessToken") }
    }

    /// A request to its in-sandbox protocol by somebody who has no token.
    pub(crate) fn stranger(&self, server: &TestServer, method: &str, path: &str) -> Call {
        let call = server.stranger(method, path);
        call.header("E2b-Sandbox-Id", &self.id).header("E2b-Sandbox-Port", "49983")
    }

    /// A request to its in-sandbox protocol.
    pub(crate) fn call(&self, server: &TestServer, method: &str, path: &str) -> Call {
        self.stranger(server, method, path).header("X-Access-Token", &self.token)
    }

    /// A plain call of a service, in JSON.
    pub(crate) fn rpc(&self, server: &TestServer, method: &str, message: &Value) -> Answer {
        self.call(server, "POST", &format!("/{method}")).json(message).pass()
    }

    /// Asks the control plane to do something with it.
    pub(crate) fn control(&self, server: &TestServer, method: &str, rest: &str) -> Answer {
        let call = server.stranger(method, &format!("/e2b/sandboxes/{}{rest}", self.id));
        call.header("X-API-KEY", &server.admin).pass()
    }
}
