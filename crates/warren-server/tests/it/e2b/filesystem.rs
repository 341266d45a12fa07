use serde_json::{Value, json};

use super::client::{Next, Row, envelope};
use super::made::Made;
use crate::support::{Answer, TestServer};

/// A server with one sandbox.
fn sandbox() -> (TestServer, Made) {
    let server = TestServer::start();
    let made = Made::by(&server);
    (server, made)
}

fn call(server: &TestServer, made: &Made, method: &str, message: &Value) -> Answer {
    made.rpc(server, &format!("filesystem.Filesystem/{method}"), message)
}

fn write(server: &TestServer, made: &Made, path: &str) {
    let post = made.call(server, "POST", &format!("/files?path={path}"));
    post.header("Content-Type", "application/octet-stream").body("content").pass().expect(200);
}

fn code_of(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code())
}

#[test]
fn what_is_there_is_described() {
    let (server, made) = sandbox();
    write(&server, &made, "/tmp/a.txt");
    let entry = &call(&server, &made, "Stat", &json!({"path": "/tmp/a.txt"})).expect(200).json()["entry"];
    for (field, value) in [
        ("name", json!("a.txt")),
        ("path", json!("/tmp/a.txt")),
        ("type", json!("FILE_TYPE_FILE")),
        ("size", json!("7")),
        ("mode", json!(0o644)),
        ("permissions", json!("-rw-r--r--")),
        ("owner", json!("root")),
        ("group", json!("root")),
        ("modifiedTime", json!("1970-01-01T00:00:00Z")),
    ] {
        assert_eq!(entry[field], value, "{field} of {entry}");
    }
    let directory = &call(&server, &made, "Stat", &json!({"path": "/tmp"})).expect(200).json()["entry"];
    assert_eq!(
        (&directory["type"], &directory["permissions"]),
        (&json!("FILE_TYPE_DIRECTORY"), &json!("drwxr-xr-x"))
    );
    let missing = call(&server, &made, "Stat", &json!({"path": "/tmp/b"}));
    assert_eq!(code_of(&missing), (404, "not_found".to_owned()));
    let another = call(&server, &made, "Stat", &json!({"path": "~other"}));
    assert_eq!(code_of(&another), (400, "invalid_argument".to_owned()));
}

#[test]
fn directories_are_made_once() {
    let (server, made) = sandbox();
    let make = |path: &str| call(&server, &made, "MakeDir", &json!({"path": path}));
    let entry = &make("/work/deep/er").expect(200).json()["entry"];
    assert_eq!((&entry["path"], &entry["type"]), (&json!("/work/deep/er"), &json!("FILE_TYPE_DIRECTORY")));
    assert_eq!(code_of(&make("/work/deep/er")), (409, "already_exists".to_owned()));
    make("plain").expect(200);
    assert_eq!(make("~/other").expect(200).json()["entry"]["path"], "/root/other");
    write(&server, &made, "/work/file");
    assert_eq!(code_of(&make("/work/file")), (400, "invalid_argument".to_owned()));
    assert_eq!(code_of(&make("/work/file/below")), (400, "invalid_argument".to_owned()));
}

#[test]
fn trees_are_listed_moved_and_removed() {
    let (server, made) = sandbox();
    for path in ["/work/b/two", "/work/b/one", "/work/a"] {
        write(&server, &made, path);
    }
    let list = |path: &str, depth: u32| {
        let listed =
            call(&server, &made, "ListDir", &json!({"path": path, "depth": depth})).expect(200).json();
        let entries = listed["entries"].as_array().cloned().unwrap_or_default();
        entries.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list("/work", 0), ["/work/a", "/work/b"]);
    assert_eq!(list("/work", 2), ["/work/a", "/work/b", "/work/b/one", "/work/b/two"]);
    let rename =
        |from: &str, to: &str| call(&server, &made, "Move", &json!({"source": from, "destination": to}));
    assert_eq!(rename("/work/b", "/new/place/c").expect(200).json()["entry"]["path"], "/new/place/c");
    assert_eq!(list("/new", 9), ["/new/place", "/new/place/c", "/new/place/c/one", "/new/place/c/two"]);
    assert_eq!(code_of(&rename("/work/b", "/elsewhere/c")), (404, "not_found".to_owned()));
    assert_eq!(code_of(&call(&server, &made, "Stat", &json!({"path": "/elsewhere"}))).0, 404);
    for _ in 0..2 {
        call(&server, &made, "Remove", &json!({"path": "/new"})).expect(200);
    }
    let listed = |path: &str| code_of(&call(&server, &made, "ListDir", &json!({"path": path})));
    assert_eq!((listed("/new").1.as_str(), listed("/work/a").1.as_str()), ("not_found", "invalid_argument"));
}

#[test]
fn a_watcher_tells_what_happened_until_it_is_asked() {
    let (server, made) = sandbox();
    let create = |message: &Value| call(&server, &made, "CreateWatcher", message);
    let answer = create(&json!({"path": "/tmp"})).expect(200).json();
    let id = answer["watcherId"].as_str().unwrap();
    let events = |made: &Made| {
        let told = call(&server, made, "GetWatcherEvents", &json!({"watcherId": id})).expect(200).json();
        let events = told["events"].as_array().cloned().unwrap_or_default();
        let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
        events.iter().map(|event| (text(event, "name"), text(event, "type"))).collect::<Vec<_>>()
    };
    let event = |name: &str, kind: &str| (name.to_owned(), format!("EVENT_TYPE_{kind}"));
    assert_eq!(events(&made), []);
    write(&server, &made, "/tmp/a");
    assert_eq!(events(&made), [event("a", "CREATE"), event("a", "CHMOD"), event("a", "WRITE")]);
    write(&server, &made, "/root/elsewhere");
    write(&server, &made, "/tmp/deep/er");
    call(&server, &made, "Move", &json!({"source": "/tmp/a", "destination": "/tmp/b"})).expect(200);
    call(&server, &made, "Move", &json!({"source": "/tmp/b", "destination": "/root/b"})).expect(200);
    assert_eq!(events(&made), [event("a", "RENAME"), event("b", "CREATE"), event("b", "RENAME")]);
    assert_eq!(events(&made), []);
    let other = Made::by(&server);
    let foreign = call(&server, &other, "GetWatcherEvents", &json!({"watcherId": id}));
    assert_eq!(code_of(&foreign), (404, "not_found".to_owned()));
    call(&server, &made, "RemoveWatcher", &json!({"watcherId": id})).expect(200);
    for method in ["RemoveWatcher", "GetWatcherEvents"] {
        assert_eq!(code_of(&call(&server, &made, method, &json!({"watcherId": id}))).1, "not_found");
    }
    assert_eq!(code_of(&create(&json!({"path": "/missing"}))).1, "not_found");
    write(&server, &made, "/tmp/file");
    assert_eq!(code_of(&create(&json!({"path": "/tmp/file"}))).1, "invalid_argument");
}

#[test]
fn a_watcher_describes_what_is_still_there() {
    let (server, made) = sandbox();
    let message = json!({"path": "/tmp", "recursive": true, "includeEntry": true});
    let answer = call(&server, &made, "CreateWatcher", &message).expect(200).json();
    call(&server, &made, "MakeDir", &json!({"path": "/tmp/d"})).expect(200);
    write(&server, &made, "/tmp/d/a");
    write(&server, &made, "/tmp/gone");
    call(&server, &made, "Remove", &json!({"path": "/tmp/gone"})).expect(200);
    let events = call(&server, &made, "GetWatcherEvents", &json!({"watcherId": answer["watcherId"]}))
        .expect(200)
        .json();
    let events = events["events"].as_array().unwrap();
    let of = |name: &str, kind: &str| {
        events.iter().find(|event| event["name"] == name && event["type"] == kind).unwrap()
    };
    assert_eq!(of("d/a", "EVENT_TYPE_WRITE")["entry"]["path"], "/tmp/d/a");
    assert_eq!(of("gone", "EVENT_TYPE_WRITE").get("entry"), None);
    assert_eq!(of("gone", "EVENT_TYPE_REMOVE").get("entry"), None);
}

fn watch_dir(server: &TestServer, made: &Made, message: &Value) -> Row {
    let call = made.call(server, "POST", "/filesystem.Filesystem/WatchDir");
    Row::of(&call.header("Content-Type", "application/connect+json").body(envelope(message)))
}

#[test]
fn a_stream_tells_of_changes_as_they_happen() {
    let (server, made) = sandbox();
    let mut stream = watch_dir(&server, &made, &json!({"path": "/tmp"}));
    assert_eq!(stream.next(), Next::Message(json!({"start": {}})));
    write(&server, &made, "/tmp/a");
    for kind in ["CREATE", "CHMOD", "WRITE"] {
        let expected = json!({"filesystem": {"name": "a", "type": format!("EVENT_TYPE_{kind}")}});
        assert_eq!(stream.next(), Next::Message(expected));
    }
    let mut refused = watch_dir(&server, &made, &json!({"path": "/missing"}));
    assert_eq!(refused.error()["code"], "not_found");
}

#[test]
fn a_stream_breaks_off_when_the_sandbox_ends() {
    let (server, made) = sandbox();
    let mut stream = watch_dir(&server, &made, &json!({"path": "/tmp"}));
    assert_eq!(stream.next(), Next::Message(json!({"start": {}})));
    made.control(&server, "DELETE", "").expect(204);
    assert_eq!(stream.next(), Next::Cut);
    made.stranger(&server, "GET", "/health").pass().expect(502);
}
