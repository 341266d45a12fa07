use std::io::Read as _;

use serde_json::json;

use super::client::{Next, Row, Sandbox, chunked, envelope, piece};
use crate::support::{TestServer, eventually};

#[test]
fn a_quiet_stream_shows_that_it_lives() {
    let sandbox = Sandbox::make();
    let start = envelope(&json!({"process": {"cmd": "sleep", "args": ["600"]}}));
    let call = sandbox.streaming("Start").header("Keepalive-Ping-Interval", "1").body(start);
    let mut row = Row::of(&call);
    row.pid();
    assert_eq!(row.event(), json!({"keepalive": {}}));
    assert_eq!(row.event(), json!({"keepalive": {}}));
}

#[test]
fn a_sandbox_that_ends_takes_its_streams_with_it() {
    let sandbox = Sandbox::make();
    let mut started = sandbox.start(&["sleep", "600"]);
    let pid = started.pid();
    let mut connected = sandbox.open("Connect", &json!({"process": {"pid": pid}}));
    connected.pid();
    sandbox.kill();
    assert_eq!((started.next(), connected.next()), (Next::Cut, Next::Cut));
    let gone = json!({"sandboxId": sandbox.id, "message": "The sandbox was not found", "code": 502});
    assert_eq!(sandbox.call("GET", "/health").pass().expect(502).json(), gone);
    assert_eq!(sandbox.ask("List", &json!({})).expect(502).json(), gone);
    let late = sandbox.streaming("Start").body(envelope(&json!({"process": {"cmd": "true"}})));
    assert_eq!(late.pass().expect(502).json(), gone);
}

#[test]
fn a_server_that_ends_says_good_bye() {
    let sandbox = Sandbox::make();
    let mut row = sandbox.start(&["sleep", "600"]);
    let pid = row.pid();
    let mut input = chunked(&sandbox.streaming("StreamInput"));
    piece(&mut input, &envelope(&json!({"start": {"process": {"pid": pid}}})));
    sandbox.server.begin_shutdown();
    assert_eq!(row.error()["code"], "unavailable");
}

#[test]
fn a_stream_that_only_looks_ends_in_its_own_time() {
    let sandbox = Sandbox::make();
    let pid = sandbox.start(&["sleep", "600"]).pid();
    let ask = envelope(&json!({"process": {"pid": pid}}));
    let mut row = Row::of(&sandbox.streaming("Connect").header("Connect-Timeout-Ms", "200").body(ask));
    row.pid();
    assert_eq!(row.error()["code"], "deadline_exceeded");
    let list = sandbox.ask("List", &json!({})).expect(200).json();
    assert_eq!(list["processes"][0]["pid"], pid, "who looks on ends nothing");
}

#[test]
fn much_output_arrives_whole_at_a_slow_reader() {
    let sandbox = Sandbox::make();
    let mut row = sandbox.start(&["yes", "500000"]);
    row.pid();
    assert_eq!(row.output("stdout", 1_000_000), "y\n".repeat(500_000));
    assert_eq!(row.event()["end"]["exited"], true);
    row.ends_well();
}

#[test]
fn calls_against_the_protocol_are_refused() {
    let sandbox = Sandbox::make();
    let call = |method: &str| sandbox.call("POST", &format!("/process.Process/{method}"));
    let json = |method: &str| call(method).header("Content-Type", "application/json");
    json("List").body("{").pass().expect(400);
    assert_eq!(json("List").body("").pass().expect(400).code(), "invalid_argument");
    assert_eq!(json("List").body("[]").pass().expect(400).code(), "invalid_argument");
    let charset = call("List").header("Content-Type", "application/json; charset=utf-8");
    charset.body("{}").pass().expect(200);
    json("List").header("Content-Encoding", "identity").body("{}").pass().expect(200);
    let packed = json("List").header("Content-Encoding", "gzip").body("{}").pass().expect(501);
    assert_eq!(packed.code(), "unimplemented");
    let proto = call("List").header("Content-Type", "application/proto").body("").pass().expect(200);
    assert_eq!((proto.header("content-type"), proto.body.len()), (Some("application/proto"), 0));
    let unknown = call("List").header("Content-Type", "text/plain").body("{}").pass().expect(415);
    assert_eq!(unknown.header("accept-post"), Some("application/json, application/proto"));
    call("List").body("{}").pass().expect(415);
    json("Start").body("{}").pass().expect(415);
    json("Dance").body("{}").pass().expect(404);
    sandbox.call("GET", "/process.Process/List").pass().expect(404);
    let later = json("List").header("Connect-Timeout-Ms", "soon").body("{}").pass().expect(400);
    assert_eq!(later.code(), "invalid_argument");
}

#[test]
fn streams_against_the_protocol_end_with_the_reason() {
    let sandbox = Sandbox::make();
    let good = envelope(&json!({"process": {"cmd": "true"}}));
    let ends = |body: Vec<u8>| Row::of(&sandbox.streaming("Start").body(body)).error()["code"].clone();
    assert_eq!(ends(Vec::new()), "invalid_argument");
    assert_eq!(ends(good[..good.len() - 1].to_vec()), "invalid_argument");
    assert_eq!(ends([&good[..], &good[..]].concat()), "invalid_argument");
    assert_eq!(ends(envelope(&json!("no object"))), "invalid_argument");
    assert_eq!(ends([&[1], &good[1..]].concat()), "unimplemented");
    assert_eq!(ends([&[2], &good[1..]].concat()), "invalid_argument");
    assert_eq!(ends(vec![0, 0xff, 0xff, 0xff, 0xff]), "resource_exhausted");
    let packed = sandbox.streaming("Start").header("Connect-Content-Encoding", "gzip").body(good);
    assert_eq!(Row::of(&packed).error()["code"], "unimplemented");
}

#[test]
fn nobody_calls_without_the_token() {
    let sandbox = Sandbox::make();
    let list = sandbox.stranger("POST", "/process.Process/List").json(&json!({}));
    list.pass().expect(401);
    list.header("X-Access-Token", &"0".repeat(64)).pass().expect(401);
    let start = sandbox.stranger("POST", "/process.Process/Start");
    let start = start.header("Content-Type", "application/connect+json");
    start.body(envelope(&json!({"process": {"cmd": "true"}}))).pass().expect(401);
    assert_eq!(sandbox.ask("List", &json!({})).expect(200).json(), json!({}));
}

#[test]
fn a_request_that_does_not_go_on_is_not_waited_for() {
    let server = TestServer::with(|config| config.http.read_timeout = std::time::Duration::from_millis(200));
    let sandbox = Sandbox::on(server);
    let mut stream = chunked(&sandbox.streaming("Start"));
    piece(&mut stream, &[0, 0, 0]);
    assert_eq!(Row::read(stream).error()["code"], "deadline_exceeded");
    let call = sandbox.call("POST", "/process.Process/List").header("Content-Type", "application/json");
    let mut stream = chunked(&call);
    piece(&mut stream, b"{");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    assert!(answer.starts_with(b"HTTP/1.1 504"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn a_client_that_leaves_leaves_nothing_behind() {
    let sandbox = Sandbox::make();
    let pid = sandbox.start(&["cat"]).pid();
    for _ in 0..5 {
        let mut row = sandbox.open("Connect", &json!({"process": {"pid": pid}}));
        assert_eq!(row.pid(), pid);
    }
    let kill = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"});
    sandbox.ask("SendSignal", &kill).expect(200);
    eventually("it is not listed any more", || {
        sandbox.ask("List", &json!({})).expect(200).json() == json!({})
    });
}
