use serde_json::{Value, json};
use warren_e2b::process::{Event, ProcessConfig, StartRequest, StartResponse};
use warren_e2b::rpc::Codec;

use super::client::{Next, Row, Sandbox, binary_envelope, chunked, envelope, piece};
use crate::support::eventually;

fn by_pid(pid: u64) -> Value {
    json!({"process": {"pid": pid}})
}

/// A request about a process, with something more.
fn about(pid: u64, more: &Value) -> Value {
    let mut request = by_pid(pid);
    for (name, value) in more.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

fn stdin(pid: u64, text: &str) -> Value {
    about(pid, &json!({"input": {"stdin": base64(text)}}))
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn running(sandbox: &Sandbox) -> Vec<u64> {
    let list = sandbox.ask("List", &json!({})).expect(200).json();
    let all = list["processes"].as_array().cloned().unwrap_or_default();
    all.iter().map(|each| each["pid"].as_u64().unwrap()).collect()
}

#[test]
fn a_command_is_run_to_its_end() {
    let sandbox = Sandbox::make();
    let mut row = sandbox.start(&["echo", "hi"]);
    assert!(
        row.head.starts_with("http/1.1 200") && row.head.contains("content-type: application/connect+json")
    );
    assert!(row.pid() > 0);
    assert_eq!(row.event(), json!({"data": {"stdout": base64("hi\n")}}));
    assert_eq!(row.event(), json!({"end": {"exited": true, "status": "exit status 0"}}));
    row.ends_well();
}

#[test]
fn a_failure_has_its_code_and_its_words() {
    let sandbox = Sandbox::make();
    let mut row = sandbox.start(&["fail"]);
    row.pid();
    assert_eq!(row.event(), json!({"data": {"stderr": base64("failed\n")}}));
    let status = "exit status 3";
    assert_eq!(
        row.event(),
        json!({"end": {"exitCode": 3, "exited": true, "status": status, "error": status}})
    );
    row.ends_well();
}

#[test]
fn the_binary_encoding_says_the_same() {
    let sandbox = Sandbox::make();
    let args = vec!["hi".to_owned()];
    let config = ProcessConfig { cmd: "echo".to_owned(), args, ..ProcessConfig::default() };
    let ask = StartRequest { process: Some(config), ..StartRequest::default() };
    let call = sandbox.call("POST", "/process.Process/Start");
    let call = call.header("Content-Type", "application/connect+proto").body(binary_envelope(&ask));
    let mut row = Row::of(&call);
    assert!(row.head.contains("content-type: application/connect+proto"));
    let mut events = Vec::new();
    loop {
        let envelope = row.raw().unwrap().expect("an end is told");
        if envelope.end {
            assert_eq!(&envelope.payload[..], b"{}");
            break;
        }
        let response: StartResponse = Codec::Binary.decode(envelope.payload).unwrap();
        events.push(response.event.unwrap().event.unwrap());
    }
    assert!(
        matches!(&events[..], [Event::Start(start), Event::Data(_), Event::End(end)]
            if start.pid > 0 && end.exit_code == 0),
        "{events:?}"
    );
}

#[test]
fn input_arrives_until_it_is_closed() {
    let sandbox = Sandbox::make();
    let mut row = sandbox.start(&["cat"]);
    let pid = row.pid();
    sandbox.ask("SendInput", &stdin(pid, "first ")).expect(200);
    assert_eq!(row.output("stdout", 6), "first ");
    sandbox.ask("SendInput", &stdin(pid, "second")).expect(200);
    assert_eq!(row.output("stdout", 6), "second");
    assert_eq!(sandbox.ask("CloseStdin", &by_pid(pid)).expect(200).json(), json!({}));
    assert_eq!(row.event()["end"]["status"], "exit status 0");
    row.ends_well();
    assert_eq!(sandbox.ask("SendInput", &stdin(pid, "late")).expect(404).code(), "not_found");
}

#[test]
fn streamed_input_arrives_in_order() {
    let sandbox = Sandbox::make();
    let mut row = sandbox.start(&["cat"]);
    let pid = row.pid();
    let mut stream = chunked(&sandbox.streaming("StreamInput"));
    piece(&mut stream, &envelope(&json!({"start": by_pid(pid)})));
    let data = |text| envelope(&json!({"data": {"input": {"stdin": base64(text)}}}));
    let (first, second) = (data("ab"), data("cd"));
    piece(&mut stream, &first[..3]);
    piece(&mut stream, &first[3..]);
    assert_eq!(row.output("stdout", 2), "ab");
    piece(&mut stream, &envelope(&json!({"keepalive": {}})));
    piece(&mut stream, &second);
    assert_eq!(row.output("stdout", 2), "cd");
    piece(&mut stream, b"");
    let mut answer = Row::read(stream);
    assert!(answer.head.starts_with("http/1.1 200"));
    assert_eq!((answer.next(), answer.next()), (Next::Message(json!({})), Next::End(json!({}))));
}

#[test]
fn streamed_input_begins_with_its_process() {
    let sandbox = Sandbox::make();
    let stream = |messages: &[Value]| {
        let body: Vec<u8> = messages.iter().flat_map(envelope).collect();
        Row::of(&sandbox.streaming("StreamInput").body(body)).error()["code"].clone()
    };
    assert_eq!(stream(&[json!({"data": {"input": {"stdin": "YQ=="}}})]), "invalid_argument");
    assert_eq!(stream(&[json!({"start": {"process": {"pid": 999_999}}})]), "not_found");
    assert_eq!(stream(&[json!({"start": {}})]), "invalid_argument");
}

#[test]
fn input_goes_where_the_process_reads() {
    let sandbox = Sandbox::make();
    let declined = json!({"process": {"cmd": "sleep", "args": ["600"]}, "stdin": false});
    let without = sandbox.open("Start", &declined).pid();
    assert_eq!(sandbox.ask("SendInput", &stdin(without, "x")).expect(500).code(), "internal");
    let piped = sandbox.start(&["cat"]).pid();
    let pty = about(piped, &json!({"input": {"pty": "YQ=="}}));
    assert_eq!(sandbox.ask("SendInput", &pty).expect(500).code(), "internal");
    let nothing = about(piped, &json!({"input": {}}));
    assert_eq!(sandbox.ask("SendInput", &nothing).expect(400).code(), "invalid_argument");
    assert_eq!(sandbox.ask("SendInput", &json!({})).expect(400).code(), "invalid_argument");
}

#[test]
fn a_terminal_has_one_stream_and_a_size() {
    let sandbox = Sandbox::make();
    let pty = json!({"process": {"cmd": "cat"}, "pty": {"size": {"cols": 80, "rows": 24}}});
    let mut row = sandbox.open("Start", &pty);
    let pid = row.pid();
    let input = about(pid, &json!({"input": {"pty": base64("hello")}}));
    sandbox.ask("SendInput", &input).expect(200);
    assert_eq!(row.output("pty", 5), "hello");
    assert_eq!(sandbox.ask("SendInput", &stdin(pid, "x")).expect(500).code(), "internal");
    assert_eq!(sandbox.ask("CloseStdin", &by_pid(pid)).expect(500).code(), "unknown");
    let size = |cols: u64| json!({"pty": {"size": {"cols": cols, "rows": 40}}});
    sandbox.ask("Update", &about(pid, &size(100))).expect(200);
    assert_eq!(sandbox.ask("Update", &about(pid, &size(65_536))).expect(400).code(), "invalid_argument");
    let piped = sandbox.start(&["cat"]).pid();
    assert_eq!(sandbox.ask("Update", &about(piped, &size(100))).expect(500).code(), "internal");
    assert_eq!(sandbox.ask("Update", &about(999_999, &size(100))).expect(404).code(), "not_found");
    let mut second = sandbox.open("Connect", &by_pid(pid));
    assert_eq!(second.pid(), pid);
    sandbox.ask("SendInput", &input).expect(200);
    assert_eq!((second.output("pty", 5), row.output("pty", 5)), ("hello".to_owned(), "hello".to_owned()));
}

#[test]
fn signals_end_a_process_once() {
    let sandbox = Sandbox::make();
    for (signal, words) in [("SIGNAL_SIGKILL", "signal: killed"), ("SIGNAL_SIGTERM", "signal: terminated")] {
        let mut row = sandbox.start(&["sleep", "600"]);
        let pid = row.pid();
        let kill = about(pid, &json!({"signal": signal}));
        assert_eq!(sandbox.ask("SendSignal", &kill).expect(200).json(), json!({}));
        assert_eq!(row.event(), json!({"end": {"exitCode": -1, "status": words, "error": words}}));
        row.ends_well();
        assert_eq!(sandbox.ask("SendSignal", &kill).expect(404).code(), "not_found");
        assert!(!running(&sandbox).contains(&pid));
    }
    let pid = sandbox.start(&["sleep", "600"]).pid();
    for request in
        [by_pid(pid), about(pid, &json!({"signal": "SIGNAL_SIGHUP"})), about(pid, &json!({"signal": 1}))]
    {
        assert_eq!(sandbox.ask("SendSignal", &request).expect(400).code(), "invalid_argument", "{request}");
    }
}

#[test]
fn whoever_connects_hears_what_comes_from_then_on() {
    let sandbox = Sandbox::make();
    let tagged = json!({"process": {"cmd": "cat"}, "tag": "talk"});
    let mut first = sandbox.open("Start", &tagged);
    let pid = first.pid();
    sandbox.ask("SendInput", &stdin(pid, "before")).expect(200);
    assert_eq!(first.output("stdout", 6), "before");
    let mut second = sandbox.open("Connect", &json!({"process": {"tag": "talk"}}));
    assert_eq!(second.pid(), pid);
    sandbox.ask("SendInput", &stdin(pid, "after")).expect(200);
    assert_eq!(second.output("stdout", 5), "after");
    assert_eq!(first.output("stdout", 5), "after");
    sandbox.ask("CloseStdin", &by_pid(pid)).expect(200);
    for row in [&mut first, &mut second] {
        assert_eq!(row.event()["end"]["exited"], true);
        row.ends_well();
    }
    let mut late = sandbox.open("Connect", &by_pid(pid));
    assert_eq!(late.pid(), pid);
    assert_eq!(late.event()["end"]["status"], "exit status 0");
    late.ends_well();
}

#[test]
fn a_process_that_is_not_there_cannot_be_followed() {
    let sandbox = Sandbox::make();
    let mut row = sandbox.open("Connect", &by_pid(999_999));
    assert!(row.head.starts_with("http/1.1 200") && row.head.contains("application/connect+json"));
    assert_eq!(row.error(), json!({"code": "not_found", "message": "process with pid 999999 not found"}));
    assert_eq!(sandbox.open("Connect", &json!({})).error()["code"], "invalid_argument");
}

#[test]
fn a_process_outlives_its_client() {
    let sandbox = Sandbox::make();
    let mut row = sandbox.start(&["cat"]);
    let pid = row.pid();
    drop(row);
    let mut again = sandbox.open("Connect", &by_pid(pid));
    assert_eq!(again.pid(), pid);
    sandbox.ask("SendInput", &stdin(pid, "still here")).expect(200);
    assert_eq!(again.output("stdout", 10), "still here");
}

#[test]
fn a_process_ends_when_its_time_is_over() {
    let sandbox = Sandbox::make();
    let start = envelope(&json!({"process": {"cmd": "sleep", "args": ["600"]}}));
    let call = sandbox.streaming("Start").header("Connect-Timeout-Ms", "300");
    let mut row = Row::of(&call.clone().body(start.clone()));
    let pid = row.pid();
    assert_eq!(row.error()["code"], "deadline_exceeded");
    assert!(!running(&sandbox).contains(&pid));
    let pid = Row::of(&call.body(start)).pid();
    eventually("it ends without a follower as well", || !running(&sandbox).contains(&pid));
}

#[test]
fn what_runs_is_listed_as_it_was_asked_for() {
    let sandbox = Sandbox::make();
    assert_eq!(sandbox.ask("List", &json!({})).expect(200).json(), json!({}));
    let ask = json!({"process": {"cmd": "sleep", "args": ["600"], "envs": {"A": "1"}, "cwd": "/srv"}, "tag": "nap"});
    let pid = sandbox.open("Start", &ask).pid();
    sandbox.start(&["true"]).pid();
    let config = json!({"cmd": "sleep", "args": ["600"], "envs": {"A": "1"}, "cwd": "/srv"});
    let expected = json!({"processes": [{"config": config, "pid": pid, "tag": "nap"}]});
    eventually("what ended is not listed", || sandbox.ask("List", &json!({})).expect(200).json() == expected);
}

#[test]
fn a_process_knows_where_it_runs() {
    let sandbox = Sandbox::make();
    let ask = json!({"process": {"cmd": "env", "envs": {"MINE": "yes", "E2B_SANDBOX_ID": "forged"}}});
    let mut row = sandbox.open("Start", &ask);
    row.pid();
    let text = row.output("stdout", 1);
    let all: Vec<&str> = text.lines().collect();
    let own = format!("E2B_SANDBOX_ID={}", sandbox.id);
    for line in ["MINE=yes", "E2B_SANDBOX=true", own.as_str(), "E2B_TEMPLATE_ID=base"] {
        assert!(all.contains(&line), "{line} is not in {all:?}");
    }
    let mut other = sandbox.start(&["env"]);
    other.pid();
    assert!(!other.output("stdout", 1).contains("MINE"));
}

#[test]
fn what_cannot_be_started_is_refused_at_the_end_of_the_stream() {
    let sandbox = Sandbox::make();
    for (ask, word) in [
        (json!({}), "process.cmd"),
        (json!({"process": {"args": ["x"]}}), "process.cmd"),
        (json!({"process": {"cmd": "env", "envs": {"A=B": "x"}}}), "process.envs"),
        (json!({"process": {"cmd": "pwd", "cwd": "~root"}}), "process.cwd"),
        (json!({"process": {"cmd": "sh"}, "pty": {"size": {"cols": 70_000, "rows": 1}}}), "pty.size"),
    ] {
        let error = sandbox.open("Start", &ask).error();
        assert_eq!(error["code"], "invalid_argument", "{ask}");
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
    assert_eq!(running(&sandbox).len(), 0);
}
