//! A small registry that does what a test tells it: serve an image, lie, stall, lead elsewhere.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use warren_e2e::{TestEnv, sha256};

const PIECE: usize = 64 << 10;

/// A registry on a loopback address.
pub(super) struct Liar {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Bodies by their paths.
    content: Vec<(String, Vec<u8>)>,
    layers: Vec<String>,
    /// Other answers to paths with this in them: a status line, a header, a body.
    answers: Vec<(String, String, String, Vec<u8>)>,
    /// The token without which nothing is shown.
    token: Option<String>,
    /// Bytes of layers after which it says nothing more.
    pause_after: Option<usize>,
    is_paused: bool,
    spoils: bool,
    sent: usize,
    asked: Vec<String>,
    shown: Vec<String>,
}

/// A digest with its prefix.
pub(super) fn digest(env: &TestEnv, bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(&env.path(""), bytes))
}

impl Liar {
    /// One that serves an image of these layers, and the image's name.
    pub(super) fn with_layers(env: &TestEnv, layers: &[PathBuf]) -> (Self, String) {
        let mut state = State::default();
        let mut put = |bytes: Vec<u8>, kind: &str| -> Value {
            let (digest, size) = (digest(env, &bytes), bytes.len());
            state.content.push((format!("/v2/a/b/blobs/{digest}"), bytes));
            json!({"mediaType": kind, "digest": digest, "size": size})
        };
        let config = json!({"architecture": "amd64", "os": "linux", "config": {}}).to_string();
        let config = put(config.into_bytes(), "application/vnd.oci.image.config.v1+json");
        let kind = "application/vnd.oci.image.layer.v1.tar+gzip";
        let layers: Vec<_> =
            layers.iter().map(|layer| put(fs::read(layer).expect("the liar can be made"), kind)).collect();
        let manifest =
            json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string().into_bytes();
        state.layers =
            layers.iter().filter_map(|layer| layer["digest"].as_str().map(str::to_owned)).collect();
        state.content.push(("/v2/a/b/manifests/1".to_owned(), manifest));
        let listener = TcpListener::bind("127.0.0.1:0").expect("the liar can be made");
        let port = listener.local_addr().expect("the liar can be made").port();
        let liar = Self { port, state: Arc::new(Mutex::new(state)) };
        let state = Arc::clone(&liar.state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                thread::spawn(move || serve(&stream, port, &state));
            }
        });
        let image = format!("{}/a/b:1", liar.host());
        (liar, image)
    }

    pub(super) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Answers this to paths with `part` in them.
    pub(super) fn answer(&self, part: &str, body: Vec<u8>) {
        let answer = (part.to_owned(), "200 OK".to_owned(), "X-None: 1".to_owned(), body);
        self.state.lock().answers.push(answer);
    }

    /// The same with a status and a header.
    pub(super) fn lead(&self, part: &str, status: &str, header: &str) {
        self.state.lock().answers.push((part.to_owned(), status.to_owned(), header.to_owned(), Vec::new()));
    }

    /// Layers are other bytes than they should be.
    pub(super) fn spoil_layers(&self) {
        self.state.lock().spoils = true;
    }

    pub(super) fn want_token(&self, token: &str) {
        self.state.lock().token = Some(token.to_owned());
    }

    /// Stops in the middle of a layer once so many bytes of it were sent since its beginning.
    pub(super) fn pause_after(&self, bytes: usize) {
        let mut state = self.state.lock();
        (state.pause_after, state.is_paused) = (Some(bytes), false);
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state.lock().is_paused
    }

    pub(super) fn go_on(&self) {
        let mut state = self.state.lock();
        (state.pause_after, state.is_paused) = (None, false);
    }

    /// Bytes of layers that were sent.
    pub(super) fn sent(&self) -> usize {
        self.state.lock().sent
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.state.lock().asked.clone()
    }

    /// The proofs that callers showed to be let in.
    pub(super) fn shown(&self) -> Vec<String> {
        self.state.lock().shown.clone()
    }
}

fn serve(stream: &TcpStream, port: u16, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    loop {
        let Some((path, headers)) = request(&mut reader) else { return };
        let header = |name: &str| {
            let found = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        let from: usize = header("range")
            .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok())
            .unwrap_or(0);
        let shown = header("authorization");
        let mut locked = state.lock();
        locked.asked.push(path.clone());
        locked.shown.extend(shown.clone());
        let (status, extra, body) = answer(&locked, &path, shown.as_deref(), port);
        let is_layer = status.starts_with("200") && locked.layers.iter().any(|layer| path.ends_with(layer));
        drop(locked);
        let (status, extra) = if is_layer && from > 0 {
            let range = format!("Content-Range: bytes {from}-{}/{}", body.len() - 1, body.len());
            ("206 Partial Content".to_owned(), range)
        } else {
            (status, extra)
        };
        let body = if is_layer { &body[from..] } else { &body[..] };
        let head = format!("HTTP/1.1 {status}\r\n{extra}\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut writer = stream;
        if writer.write_all(head.as_bytes()).is_err() || !send(stream, body, from, is_layer, state) {
            return;
        }
    }
}

/// Sends a body, and stops where it is told to. False if nobody takes it.
fn send(mut stream: &TcpStream, body: &[u8], from: usize, is_layer: bool, state: &Mutex<State>) -> bool {
    let mut at = from;
    for piece in body.chunks(PIECE) {
        while is_layer
            && state.lock().pause_after.is_some_and(|after| body.len() + from > after + PIECE && at >= after)
        {
            state.lock().is_paused = true;
            thread::sleep(Duration::from_millis(20));
        }
        if stream.write_all(piece).is_err() {
            return false;
        }
        at += piece.len();
        if is_layer {
            state.lock().sent += piece.len();
        }
    }
    true
}

fn answer(state: &State, path: &str, shown: Option<&str>, port: u16) -> (String, String, Vec<u8>) {
    let none = "X-None: 1".to_owned();
    let found = |status: &str, body: Vec<u8>| (status.to_owned(), none.clone(), body);
    if let (Some(token), true) = (&state.token, path.starts_with("/token")) {
        return found("200 OK", json!({"token": token}).to_string().into_bytes());
    }
    if let Some((_, status, header, body)) =
        state.answers.iter().find(|(part, ..)| path.contains(part.as_str()))
    {
        return (status.clone(), header.clone(), body.clone());
    }
    if state.token.as_ref().is_some_and(|token| shown != Some(&format!("Bearer {token}"))) {
        let wanted =
            format!("WWW-Authenticate: Bearer realm=\"http://127.0.0.1:{port}/token\",service=\"liar\"");
        return ("401 Unauthorized".to_owned(), wanted, Vec::new());
    }
    let is_manifest = |known: &str| known.contains("/manifests/") && path.contains("/manifests/");
    let content = state.content.iter().find(|(known, _)| known == path || is_manifest(known));
    match content {
        Some((_, body)) if state.spoils && state.layers.iter().any(|layer| path.ends_with(layer)) => {
            found("200 OK", body.iter().map(|byte| byte ^ 1).collect())
        }
        Some((_, body)) => found("200 OK", body.clone()),
        None => found("404 Not Found", Vec::new()),
    }
}

/// The path and headers of a request.
fn request(reader: &mut BufReader<&TcpStream>) -> Option<(String, Vec<(String, String)>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split_whitespace().nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    reader.take(length).read_to_end(&mut Vec::new()).ok()?;
    Some((path, headers))
}
