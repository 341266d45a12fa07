use std::io::{BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Answers as the package expects, and does nothing: a program's time here is its own.
#[derive(Debug)]
pub(super) struct Nothing {
    address: SocketAddr,
}

const SANDBOX: &str = r#"{"templateID":"base","sandboxID":"inothing","clientID":"c","envdVersion":"0.6.13","envdAccessToken":"t","domain":null}"#;

/// A process that began and ended: the three envelopes of a stream.
const STREAM: [(u8, &str); 3] = [
    (0, r#"{"event":{"start":{"pid":2}}}"#),
    (0, r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#),
    (2, "{}"),
];

impl Nothing {
    pub(super) fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                thread::spawn(move || serve(caller));
            }
        });
        Ok(Self { address })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Answers one connection until it ends.
fn serve(caller: TcpStream) -> Option<()> {
    caller.set_nodelay(true).ok()?;
    let mut answers = caller.try_clone().ok()?;
    let mut requests = BufReader::new(caller);
    loop {
        let first = line(&mut requests)?;
        let mut length = 0;
        let mut chunked = false;
        loop {
            let header = line(&mut requests)?.to_ascii_lowercase();
            match header.split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().ok()?,
                Some(("transfer-encoding", _)) => chunked = true,
                Some(_) => {}
                None => break,
            }
        }
        while chunked {
            let size = usize::from_str_radix(&line(&mut requests)?, 16).ok()?;
            skip(&mut requests, size + 2)?;
            chunked = size > 0;
        }
        skip(&mut requests, length)?;
        answers.write_all(&answer(&first)).ok()?;
    }
}

fn answer(request: &str) -> Vec<u8> {
    let (status, kind, body) = if request.contains("/process.Process/Start") {
        ("200 OK", "application/connect+json", stream())
    } else if request.starts_with("DELETE") {
        ("204 No Content", "application/json", Vec::new())
    } else {
        ("201 Created", "application/json", SANDBOX.into())
    };
    let mut whole =
        format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    if body.is_empty() {
        whole = format!("HTTP/1.1 {status}\r\n\r\n");
    }
    [whole.into_bytes(), body].concat()
}

fn stream() -> Vec<u8> {
    let envelope = |(flags, text): (u8, &str)| {
        let length = u32::try_from(text.len()).unwrap_or(0).to_be_bytes();
        [&[flags][..], &length, text.as_bytes()].concat()
    };
    STREAM.map(envelope).concat()
}

fn line(from: &mut impl std::io::BufRead) -> Option<String> {
    let mut text = String::new();
    from.read_line(&mut text).ok().filter(|count| *count > 0)?;
    Some(text.trim_end().to_owned())
}

fn skip(from: &mut impl std::io::Read, bytes: usize) -> Option<()> {
    let mut rest = vec![0; bytes];
    from.read_exact(&mut rest).ok()
}
