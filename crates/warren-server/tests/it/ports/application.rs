use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A small HTTP server by hand, so that it sees the very bytes, and may say whatever it likes.
pub(crate) struct Application {
    pub(crate) port: u16,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    heads: Mutex<Vec<Head>>,
    connections: AtomicUsize,
    open: AtomicUsize,
}

/// A request's head as it arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    /// As they were written.
    pub(crate) names: Vec<String>,
}

impl Application {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::<Seen>::default();
        let held = Arc::clone(&seen);
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&held);
                thread::spawn(move || {
                    seen.connections.fetch_add(1, Ordering::SeqCst);
                    seen.open.fetch_add(1, Ordering::SeqCst);
                    drop(serve(stream, &seen));
                    seen.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, seen }
    }

    /// The last request.
    pub(crate) fn last(&self) -> Head {
        self.seen.heads.lock().unwrap().last().cloned().expect("a request")
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.heads.lock().unwrap().len()
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn open(&self) -> usize {
        self.seen.open.load(Ordering::SeqCst)
    }
}

fn serve(stream: TcpStream, seen: &Seen) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while let Some(head) = read_head(&mut reader)? {
        let path = head.line.split(' ').nth(1).unwrap_or_default().to_owned();
        seen.heads.lock().unwrap().push(head.clone());
        let body = read_body(&mut reader, &head)?;
        match path.split('?').next().unwrap_or_default() {
            "/echo" => answer(&mut writer, "", &body)?,
            "/redirect" => write!(
                writer,
                "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n"
            )?,
            "/spelled" => answer(&mut writer, "x-lower: 1\r\nX-MiXed: 2\r\nETag: 3\r\n", b"")?,
            "/cookies" => answer(
                &mut writer,
                "Set-Cookie: a=1; Domain=localhost; Path=/\r\nSet-Cookie: warren-port=evil\r\n",
                b"",
            )?,
            "/endless-head" => {
                write!(writer, "HTTP/1.1 200 OK\r\n")?;
                for number in 0.. {
                    write!(writer, "X-{number}: {}\r\n", "x".repeat(1000))?;
                }
            }
            "/garbage" => return writer.write_all(b"SSH-2.0-not-http\r\n\r\n"),
            "/hangup" => return Ok(()),
            "/slow" => {
                write!(writer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")?;
                writer.flush()?;
                while writer.write_all(b"1\r\nx\r\n").is_ok() {
                    thread::sleep(Duration::from_millis(50));
                }
            }
            "/quiet" => {
                write!(writer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")?;
                // Says nothing more, and waits for the other end to go.
                return reader.read(&mut [0; 1]).map(drop);
            }
            "/silent" => {
                return reader.read(&mut [0; 1]).map(drop);
            }
            "/upgrade" => {
                write!(
                    writer,
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-Own: yes\r\n\r\n"
                )?;
                return echo(&mut reader, &mut writer);
            }
            "/once" => {
                write!(writer, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nonce")?;
                return Ok(());
            }
            "/then-gone" => {
                answer(&mut writer, "", b"kept")?;
                return Ok(());
            }
            _ => answer(&mut writer, "Connection: keep-alive\r\nKeep-Alive: 5\r\nAlt-Svc: h3\r\n", b"hello")?,
        }
    }
    Ok(())
}

fn answer(writer: &mut TcpStream, headers: &str, body: &[u8]) -> std::io::Result<()> {
    let mut bytes =
        format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    writer.write_all(&bytes)
}

fn echo(reader: &mut BufReader<TcpStream>, writer: &mut TcpStream) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match reader.read(&mut bytes)? {
            0 => return Ok(()),
            count => writer.write_all(&bytes[..count])?,
        }
    }
}

fn read_head(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Head>> {
    let mut head = Head::default();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        match line.split_once(": ") {
            _ if line.is_empty() => return Ok(Some(head)),
            _ if head.line.is_empty() => head.line = line.to_owned(),
            Some((name, value)) => {
                head.names.push(name.to_owned());
                head.headers.insert(name.to_ascii_lowercase(), value.to_owned());
            }
            None => {}
        }
    }
}

fn read_body(reader: &mut BufReader<TcpStream>, head: &Head) -> std::io::Result<Vec<u8>> {
    if let Some(length) = head.headers.get("content-length") {
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body)?;
        return Ok(body);
    }
    let mut body = Vec::new();
    while head.headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).unwrap();
        let mut piece = vec![0; length + 2];
        reader.read_exact(&mut piece)?;
        if length == 0 {
            break;
        }
        body.extend_from_slice(&piece[..length]);
    }
    Ok(body)
}
