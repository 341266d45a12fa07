//! The code service of a fake sandbox. `python3 - PORT` ignores the script that it reads, and knows
//! the answers to a few cells.

use std::sync::Arc;

use serde_json::{Value, json};
use warren_wire::guest::{ByteString, FrameKind, WriteMode};

use super::line::Line;
use super::{Gone, Guest};

/// Written when a client hangs up on the cell `wait`.
const INTERRUPTED: &str = "/interrupted";

/// Serves requests of one connection, each in one piece or more.
pub(super) fn serve(guest: &Arc<Guest>, mut line: Line) -> Result<(), Gone> {
    let mut received = Vec::new();
    while let Some(frame) = line.receive()? {
        if frame.kind != FrameKind::Data {
            return Ok(());
        }
        received.extend_from_slice(&frame.payload);
        if let Some(request) = Request::take(&mut received) {
            answer(guest, &mut line, &request)?;
        }
    }
    Ok(())
}

struct Request {
    method: String,
    path: String,
    body: Value,
}

impl Request {
    /// Takes a whole request off the front.
    fn take(received: &mut Vec<u8>) -> Option<Self> {
        let end = received.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&received[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let whole = end + length.unwrap_or(0);
        let body = received.get(end..whole)?;
        let body = serde_json::from_slice(body).unwrap_or(Value::Null);
        let first = String::from_utf8_lossy(&received[..end]).lines().next()?.to_owned();
        let mut words = first.split(' ').map(str::to_owned);
        let (method, path) = (words.next()?, words.next()?);
        received.drain(..whole);
        Some(Self { method, path, body })
    }
}

fn answer(guest: &Arc<Guest>, line: &mut Line, request: &Request) -> Result<(), Gone> {
    let context = |id: &str| json!({"id": id, "language": "python", "cwd": "/home/user"});
    match (request.method.as_str(), request.path.trim_matches('/').split('/').collect::<Vec<_>>().as_slice())
    {
        ("POST", ["execute"]) => execute(guest, line, &request.body),
        ("GET", ["health"]) => say(guest, line, 200, "OK"),
        ("GET", ["contexts"]) => say(guest, line, 200, &json!([context("first")]).to_string()),
        ("POST", ["contexts"]) if request.body["cwd"] == "/nowhere" => {
            let body = "cwd: /nowhere is not a directory";
            let head = format!("HTTP/1.1 400 Said\r\nx-warren-field: cwd\r\ncontent-length: {}", body.len());
            line.send(guest, FrameKind::Data, format!("{head}\r\n\r\n{body}").as_bytes())
        }
        ("POST", ["contexts"]) => say(guest, line, 200, &context("second").to_string()),
        (_, ["contexts", "first" | "python", ..]) => say(guest, line, 200, "{}"),
        (_, ["contexts", other, ..]) => say(guest, line, 404, &format!("Context {other} not found")),
        _ => say(guest, line, 404, "there is no such place"),
    }
}

fn execute(guest: &Arc<Guest>, line: &mut Line, order: &Value) -> Result<(), Gone> {
    if order["context_id"] == "nobody" {
        return say(guest, line, 404, "Context nobody not found");
    }
    if order["language"] == "klingon" {
        return say(guest, line, 400, "this sandbox cannot run klingon: install a kernel for it");
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
    line.send(guest, FrameKind::Data, head.as_bytes())?;
    tell(guest, line, &json!({"type": "number_of_executions", "execution_count": 1}).to_string())?;
    match order["code"].as_str().unwrap_or_default() {
        "fail" => tell(
            guest,
            line,
            &json!({"type": "error", "name": "E", "value": "v", "traceback": "t"}).to_string(),
        )?,
        "garbage" => tell(guest, line, "this is no event")?,
        "wait" => {
            tell(
                guest,
                line,
                &json!({"type": "stdout", "text": "waiting\n", "timestamp": "now"}).to_string(),
            )?;
            while let Ok(Some(_)) = line.receive() {}
            let path = ByteString::from(INTERRUPTED);
            drop(guest.tree.write(&path, WriteMode::Replace, None, true, b""));
            return Err(Gone);
        }
        _ => {
            tell(guest, line, &json!({"type": "stdout", "text": "out\n", "timestamp": "now"}).to_string())?;
            tell(guest, line, "{\"type\": \"keepalive\"}")?;
            tell(guest, line, &json!({"type": "stderr", "text": "err\n", "timestamp": "now"}).to_string())?;
            let asked = json!({"type": "result", "text": "42", "json": order, "is_main_result": true});
            tell(guest, line, &asked.to_string())?;
        }
    }
    tell(guest, line, "{\"type\": \"end_of_execution\"}")?;
    line.send(guest, FrameKind::Data, b"0\r\n\r\n")
}

/// One line of a stream.
fn tell(guest: &Guest, line: &Line, text: &str) -> Result<(), Gone> {
    line.send(guest, FrameKind::Data, format!("{:x}\r\n{text}\n\r\n", text.len() + 1).as_bytes())
}

fn say(guest: &Guest, line: &Line, status: u16, body: &str) -> Result<(), Gone> {
    let answer = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    line.send(guest, FrameKind::Data, answer.as_bytes())
}
