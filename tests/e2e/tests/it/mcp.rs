//! `warren mcp`, as a client starts it: a message per line, both ways.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use warren_e2e::{TestEnv, TestServer};

/// A client that speaks over standard input and output.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn start(env: &TestEnv, words: &[&str]) -> Self {
        let mut command = env.command(words);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("warren can be started");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it was piped"));
        Self { child, input, output: BufReader::new(output) }
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{message}").expect("it reads");
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it writes");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn ask(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn tool(&mut self, id: u64, name: &str, arguments: Value) -> Value {
        let answer = self.ask(id, "tools/call", &json!({"name": name, "arguments": arguments}));
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    fn greet(&mut self) {
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
        });
        assert_eq!(self.ask(1, "initialize", &hello)["result"]["protocolVersion"], "2025-11-25");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// Says no more, and waits until it has ended.
    #[track_caller]
    fn finish(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().expect("it ends").success());
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

#[test]
fn a_client_uses_a_sandbox_by_a_program_that_it_starts() {
    let env = TestEnv::new();
    let server = TestServer::setup(&env).start();
    let id = server.create();
    let mut client = Client::start(&env, &["mcp", "--sandbox", &id]);
    client.greet();
    let wrote = client.tool(2, "write", json!({"path": "/home/user/a", "content": "kept\n"}));
    assert!(text(&wrote).contains("takes it back]"), "{wrote}");
    let gone = client.tool(3, "bash", json!({"command": "rm /home/user/a; id -un"}));
    assert!(text(&gone).starts_with("user\n"), "{gone}");
    let entry = gone["_meta"]["warren/entry"].as_u64().expect("a number");
    client.tool(4, "undo", json!({"to": entry - 1}));
    assert!(text(&client.tool(5, "read", json!({"path": "/home/user/a"}))).contains("kept"));
    client.finish();
    server.finish();
}

#[test]
fn a_request_that_is_taken_back_ends_its_command_and_is_not_answered() {
    let env = TestEnv::new();
    let server = TestServer::setup(&env).start();
    let id = server.create();
    let mut client = Client::start(&env, &["mcp", "--sandbox", &id]);
    client.greet();
    let call = json!({"name": "bash", "arguments": {"command": "sleep 4321"}});
    client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}));
    let mut number = 3;
    let mut running = |client: &mut Client| {
        number += 1;
        let listed = client.tool(number, "process", json!({"action": "list"}));
        let processes = listed["structuredContent"]["processes"].as_array().cloned().unwrap_or_default();
        processes.iter().any(|one| one["running"] == true && one["command"].to_string().contains("4321"))
    };
    while !running(&mut client) {}
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}));
    while running(&mut client) {}
    client.finish();
    server.finish();
}

#[test]
fn what_is_no_message_is_answered_and_the_next_one_is_served() {
    let env = TestEnv::new();
    let server = TestServer::setup(&env).start();
    let mut client = Client::start(&env, &["mcp"]);
    for line in ["{", "no json at all", "[1, 2"] {
        let input = client.input.as_mut().expect("it is open");
        writeln!(input, "{line}").expect("it reads");
        assert_eq!(client.next()["error"]["code"], -32700, "{line}");
    }
    client.greet();
    let refused = client.tool(2, "bash", json!({"command": "true"}));
    assert_eq!(refused["_meta"]["warren/code"], "no_default_sandbox");
    assert_eq!(client.ask(3, "no/such", &json!({}))["error"]["code"], -32601);
    client.finish();
    server.finish();
}

#[test]
fn without_a_server_the_command_is_one_and_leaves_nothing_running() {
    let env = TestEnv::new();
    let mut client = Client::start(&env, &["mcp", "--new"]);
    client.greet();
    assert!(text(&client.tool(2, "bash", json!({"command": "echo alone"}))).starts_with("alone"));
    client.finish();
    env.assert_clean();
}

#[test]
fn clients_are_told_of_the_server_and_never_of_its_key() {
    let env = TestEnv::new();
    let server = TestServer::setup(&env).start();
    for client in ["claude", "cursor", "vscode", "codex", "desktop", "gemini"] {
        let told = env.warren(["mcp", "--print", client]).ok().text();
        assert!(told.contains("127.0.0.1:") && !told.contains(server.key()), "{told}");
        assert!(env.warren(["mcp", "--print", client, "--stdio"]).ok().text().contains("mcp"), "{client}");
    }
    server.finish();
}
