//! Messages that clients really send and expect, letter by letter.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use warren_e2b::filesystem::{EntryInfo, EventType, FileType, FilesystemEvent, StatResponse};
use warren_e2b::process::{
    ConnectRequest, DataEvent, EndEvent, Event, Input, KeepAlive, Output, ProcessConfig, ProcessEvent,
    ProcessInfo, ProcessInput, ProcessSelector, PtySize, Selector, SendSignalRequest, Signal, StartEvent,
    StartRequest, StartResponse, StreamInput, StreamInputData, StreamInputRequest, StreamInputStart,
};
use warren_e2b::rpc::{Codec, Message};
use warren_e2b::timestamp::Timestamp;

fn read<M: Message>(json: &Value) -> M {
    Codec::Json.decode(Bytes::from(json.to_string())).unwrap()
}

fn refused<M: Message>(json: &Value) -> bool {
    Codec::Json.decode::<M>(Bytes::from(json.to_string())).is_err()
}

fn written<M: Message>(message: &M) -> String {
    let mut bytes = BytesMut::new();
    Codec::Json.encode(message, &mut bytes);
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn binary<M: Message>(message: &M) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    Codec::Binary.encode(message, &mut bytes);
    bytes.to_vec()
}

fn event(event: Event) -> StartResponse {
    StartResponse { event: Some(ProcessEvent { event: Some(event) }) }
}

#[test]
fn a_start_is_read_as_clients_write_it() {
    let json = json!({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "echo hi"]}, "stdin": false});
    let request: StartRequest = read(&json);
    let config = ProcessConfig {
        cmd: "/bin/bash".to_owned(),
        args: ["-l", "-c", "echo hi"].map(str::to_owned).into(),
        ..ProcessConfig::default()
    };
    assert_eq!(
        request,
        StartRequest { process: Some(config), stdin: Some(false), ..StartRequest::default() }
    );
}

#[test]
fn events_are_written_as_clients_read_them() {
    let start = event(Event::Start(StartEvent { pid: 42 }));
    assert_eq!(written(&start), r#"{"event":{"start":{"pid":42}}}"#);
    let output = Some(Output::Stdout(Bytes::from_static(b"hi\n")));
    let data = event(Event::Data(DataEvent { output }));
    assert_eq!(written(&data), r#"{"event":{"data":{"stdout":"aGkK"}}}"#);
    let end = EndEvent { exit_code: 0, exited: true, status: "exit status 0".to_owned(), error: None };
    assert_eq!(
        written(&event(Event::End(end))),
        r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#
    );
    let killed = "signal: killed".to_owned();
    let end = EndEvent { exit_code: -1, exited: false, status: killed.clone(), error: Some(killed) };
    assert_eq!(
        written(&event(Event::End(end))),
        r#"{"event":{"end":{"exitCode":-1,"status":"signal: killed","error":"signal: killed"}}}"#
    );
    assert_eq!(written(&event(Event::Keepalive(KeepAlive {}))), r#"{"event":{"keepalive":{}}}"#);
}

#[test]
fn signals_and_selectors_are_read_in_all_their_forms() {
    let pid = ProcessSelector { selector: Some(Selector::Pid(42)) };
    let kill = SendSignalRequest { process: Some(pid.clone()), signal: Signal::Sigkill.into() };
    assert_eq!(read::<SendSignalRequest>(&json!({"process": {"pid": 42}, "signal": "SIGNAL_SIGKILL"})), kill);
    assert_eq!(read::<SendSignalRequest>(&json!({"process": {"pid": "42"}, "signal": 9})), kill);
    let tag = ProcessSelector { selector: Some(Selector::Tag("a".to_owned())) };
    assert_eq!(
        read::<ConnectRequest>(&json!({"process": {"tag": "a", "pid": null, "new": []}})).process,
        Some(tag)
    );
    for wrong in [
        json!({"process": {"pid": 42, "tag": "a"}}),
        json!({"process": {"pid": -1}}),
        json!({"process": {"pid": 1.5}}),
        json!({"process": {"pid": 4_294_967_296_u64}}),
        json!({"process": {"pid": {}}}),
        json!({"process": {"tag": 1}}),
        json!({"process": []}),
        json!([]),
        json!("x"),
    ] {
        assert!(refused::<ConnectRequest>(&wrong), "{wrong}");
    }
    for wrong in
        [json!({"signal": "SIGNAL_SIGHUP"}), json!({"signal": 3_000_000_000_u64}), json!({"signal": true})]
    {
        assert!(refused::<SendSignalRequest>(&wrong), "{wrong}");
    }
}

#[test]
fn bytes_are_read_in_every_alphabet() {
    let read = |text: &str| -> Bytes {
        match read::<ProcessInput>(&json!({"stdin": text})).input {
            Some(Input::Stdin(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    };
    for text in ["+/+/", "-_-_"] {
        assert_eq!(read(text), Bytes::from_static(b"\xfb\xff\xbf"));
    }
    assert_eq!((read("YQ=="), read("YQ"), read("")), ("a".into(), "a".into(), Bytes::new()));
    assert!(refused::<ProcessInput>(&json!({"stdin": "%"})));
    assert!(refused::<ProcessInput>(&json!({"stdin": [1, 2]})));
    assert!(refused::<ProcessInput>(&json!({"stdin": "YQ==", "pty": "YQ=="})));
}

#[test]
fn a_null_is_as_good_as_nothing() {
    let json = json!({"process": {"cmd": null, "args": null, "envs": null, "cwd": null}, "pty": null, "tag": null, "stdin": null});
    let request: StartRequest = read(&json);
    let process = Some(ProcessConfig::default());
    assert_eq!(request, StartRequest { process, ..StartRequest::default() });
    assert_eq!(read::<PtySize>(&json!({"cols": null, "rows": "24"})), PtySize { cols: 0, rows: 24 });
}

#[test]
fn streamed_input_is_read_as_clients_write_it() {
    let process = Some(ProcessSelector { selector: Some(Selector::Pid(42)) });
    let start = StreamInputRequest { event: Some(StreamInput::Start(StreamInputStart { process })) };
    assert_eq!(read::<StreamInputRequest>(&json!({"start": {"process": {"pid": 42}}})), start);
    let input = Some(ProcessInput { input: Some(Input::Stdin(Bytes::from_static(b"ab"))) });
    let data = StreamInputRequest { event: Some(StreamInput::Data(StreamInputData { input })) };
    assert_eq!(read::<StreamInputRequest>(&json!({"data": {"input": {"stdin": "YWI="}}})), data);
    // Field 2, which holds field 2, which holds field 1.
    assert_eq!(binary(&data), [0x12, 6, 0x12, 4, 0x0a, 2, b'a', b'b']);
}

#[test]
fn numbers_of_fields_are_those_of_the_protocol() {
    let info = ProcessInfo { config: Some(ProcessConfig::default()), pid: 7, tag: Some("t".to_owned()) };
    assert_eq!(binary(&info), [0x0a, 0, 0x10, 7, 0x1a, 1, b't']);
    let end = EndEvent { exit_code: -1, exited: true, status: "s".to_owned(), error: Some("e".to_owned()) };
    assert_eq!(binary(&end), [0x08, 1, 0x10, 1, 0x1a, 1, b's', 0x22, 1, b'e']);
    let start = StartRequest { tag: Some(String::new()), stdin: Some(false), ..StartRequest::default() };
    assert_eq!(binary(&start), [0x1a, 0, 0x20, 0]);
    let output = Some(Output::Pty(Bytes::from_static(b"x")));
    assert_eq!(binary(&event(Event::Data(DataEvent { output }))), [0x0a, 5, 0x12, 3, 0x1a, 1, b'x']);
    let happened = FilesystemEvent { name: "n".to_owned(), r#type: EventType::Chmod.into(), entry: None };
    assert_eq!(binary(&happened), [0x0a, 1, b'n', 0x10, 5]);
}

#[test]
fn an_entry_is_written_as_clients_read_it() {
    let entry = EntryInfo {
        name: "a.txt".to_owned(),
        r#type: FileType::File.into(),
        path: "/home/user/a.txt".to_owned(),
        size: 5,
        mode: 0o644,
        permissions: "-rw-r--r--".to_owned(),
        owner: "user".to_owned(),
        group: "user".to_owned(),
        modified_time: Some(Timestamp { seconds: 1_763_200_000, nanos: 5_000_000 }),
        symlink_target: None,
        metadata: [("k".to_owned(), "v".to_owned())].into(),
    };
    let expected = json!({"entry": {
        "name": "a.txt",
        "type": "FILE_TYPE_FILE",
        "path": "/home/user/a.txt",
        "size": "5",
        "mode": 420,
        "permissions": "-rw-r--r--",
        "owner": "user",
        "group": "user",
        "modifiedTime": "2025-11-15T09:46:40.005Z",
        "metadata": {"k": "v"},
    }});
    let text = written(&StatResponse { entry: Some(entry) });
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
}
