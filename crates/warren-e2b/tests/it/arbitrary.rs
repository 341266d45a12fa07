//! Messages of every kind, made up.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use warren_e2b::filesystem::{
    CreateWatcherRequest, EntryInfo, FilesystemEvent, GetWatcherEventsResponse, ListDirRequest,
    ListDirResponse, MoveRequest, WatchDirRequest, WatchDirResponse, WatchEvent, WatchStart,
};
use warren_e2b::process::{
    DataEvent, EndEvent, Event, Input, KeepAlive, ListResponse, Output, ProcessConfig, ProcessEvent,
    ProcessInfo, ProcessInput, ProcessSelector, Pty, PtySize, Selector, SendInputRequest, SendSignalRequest,
    StartEvent, StartRequest, StartResponse, StreamInput, StreamInputData, StreamInputRequest,
    StreamInputStart, UpdateRequest,
};
use warren_e2b::timestamp::Timestamp;

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

fn pairs() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), text(), 0..4)
}

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..100).prop_map(Bytes::from)
}

fn config() -> impl Strategy<Value = ProcessConfig> {
    (text(), vec(text(), 0..4), pairs(), option::of(text()))
        .prop_map(|(cmd, args, envs, cwd)| ProcessConfig { cmd, args, envs, cwd })
}

fn pty() -> impl Strategy<Value = Pty> {
    let size = any::<(u32, u32)>().prop_map(|(cols, rows)| PtySize { cols, rows });
    option::of(size).prop_map(|size| Pty { size })
}

fn selector() -> impl Strategy<Value = ProcessSelector> {
    let choice = prop_oneof![any::<u32>().prop_map(Selector::Pid), text().prop_map(Selector::Tag)];
    option::of(choice).prop_map(|selector| ProcessSelector { selector })
}

fn input() -> impl Strategy<Value = ProcessInput> {
    let choice = prop_oneof![bytes().prop_map(Input::Stdin), bytes().prop_map(Input::Pty)];
    option::of(choice).prop_map(|input| ProcessInput { input })
}

pub(crate) fn start_request() -> impl Strategy<Value = StartRequest> {
    (option::of(config()), option::of(pty()), option::of(text()), any::<Option<bool>>())
        .prop_map(|(process, pty, tag, stdin)| StartRequest { process, pty, tag, stdin })
}

pub(crate) fn update_request() -> impl Strategy<Value = UpdateRequest> {
    (option::of(selector()), option::of(pty())).prop_map(|(process, pty)| UpdateRequest { process, pty })
}

pub(crate) fn send_input_request() -> impl Strategy<Value = SendInputRequest> {
    (option::of(selector()), option::of(input()))
        .prop_map(|(process, input)| SendInputRequest { process, input })
}

pub(crate) fn send_signal_request() -> impl Strategy<Value = SendSignalRequest> {
    (option::of(selector()), any::<i32>()).prop_map(|(process, signal)| SendSignalRequest { process, signal })
}

pub(crate) fn stream_input_request() -> impl Strategy<Value = StreamInputRequest> {
    let choice = prop_oneof![
        option::of(selector()).prop_map(|process| StreamInput::Start(StreamInputStart { process })),
        option::of(input()).prop_map(|input| StreamInput::Data(StreamInputData { input })),
        Just(StreamInput::Keepalive(KeepAlive {})),
    ];
    option::of(choice).prop_map(|event| StreamInputRequest { event })
}

pub(crate) fn list_response() -> impl Strategy<Value = ListResponse> {
    let info = (option::of(config()), any::<u32>(), option::of(text()))
        .prop_map(|(config, pid, tag)| ProcessInfo { config, pid, tag });
    vec(info, 0..4).prop_map(|processes| ListResponse { processes })
}

pub(crate) fn start_response() -> impl Strategy<Value = StartResponse> {
    let output = prop_oneof![
        bytes().prop_map(Output::Stdout),
        bytes().prop_map(Output::Stderr),
        bytes().prop_map(Output::Pty)
    ];
    let end = (any::<i32>(), any::<bool>(), text(), option::of(text()))
        .prop_map(|(exit_code, exited, status, error)| EndEvent { exit_code, exited, status, error });
    let event = prop_oneof![
        any::<u32>().prop_map(|pid| Event::Start(StartEvent { pid })),
        option::of(output).prop_map(|output| Event::Data(DataEvent { output })),
        end.prop_map(Event::End),
        Just(Event::Keepalive(KeepAlive {})),
    ];
    let event = option::of(event).prop_map(|event| ProcessEvent { event });
    option::of(event).prop_map(|event| StartResponse { event })
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    (-62_135_596_800_i64..=253_402_300_799, 0..1_000_000_000)
        .prop_map(|(seconds, nanos)| Timestamp { seconds, nanos })
}

fn entry() -> impl Strategy<Value = EntryInfo> {
    let named = (text(), any::<i32>(), text(), any::<i64>(), any::<u32>(), text(), text(), text());
    (named, option::of(timestamp()), option::of(text()), pairs()).prop_map(
        |(
            (name, kind, path, size, mode, permissions, owner, group),
            modified_time,
            symlink_target,
            metadata,
        )| {
            EntryInfo {
                name,
                r#type: kind,
                path,
                size,
                mode,
                permissions,
                owner,
                group,
                modified_time,
                symlink_target,
                metadata,
            }
        },
    )
}

pub(crate) fn list_dir_response() -> impl Strategy<Value = ListDirResponse> {
    vec(entry(), 0..4).prop_map(|entries| ListDirResponse { entries })
}

pub(crate) fn list_dir_request() -> impl Strategy<Value = ListDirRequest> {
    (text(), any::<u32>()).prop_map(|(path, depth)| ListDirRequest { path, depth })
}

pub(crate) fn move_request() -> impl Strategy<Value = MoveRequest> {
    (text(), text()).prop_map(|(source, destination)| MoveRequest { source, destination })
}

pub(crate) fn watch_dir_request() -> impl Strategy<Value = WatchDirRequest> {
    (text(), any::<(bool, bool, bool)>()).prop_map(
        |(path, (recursive, include_entry, allow_network_mounts))| WatchDirRequest {
            path,
            recursive,
            include_entry,
            allow_network_mounts,
        },
    )
}

pub(crate) fn create_watcher_request() -> impl Strategy<Value = CreateWatcherRequest> {
    watch_dir_request().prop_map(|watch| CreateWatcherRequest {
        path: watch.path,
        recursive: watch.recursive,
        include_entry: watch.include_entry,
        allow_network_mounts: watch.allow_network_mounts,
    })
}

fn filesystem_event() -> impl Strategy<Value = FilesystemEvent> {
    (text(), any::<i32>(), option::of(entry())).prop_map(|(name, kind, entry)| FilesystemEvent {
        name,
        r#type: kind,
        entry,
    })
}

pub(crate) fn watcher_events_response() -> impl Strategy<Value = GetWatcherEventsResponse> {
    vec(filesystem_event(), 0..4).prop_map(|events| GetWatcherEventsResponse { events })
}

pub(crate) fn watch_dir_response() -> impl Strategy<Value = WatchDirResponse> {
    let event = prop_oneof![
        Just(WatchEvent::Start(WatchStart {})),
        filesystem_event().prop_map(WatchEvent::Filesystem),
        Just(WatchEvent::Keepalive(warren_e2b::filesystem::KeepAlive {})),
    ];
    option::of(event).prop_map(|event| WatchDirResponse { event })
}
