//! Looks at the first bytes of a connection that is let through anyway, to learn the name of its
//! target.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::Early;
use super::sniff::{self, MOST_HEARD, Sniffed};
use super::visit::Asked;

/// A connection is held up for no longer.
const PATIENCE: Duration = Duration::from_millis(100);

/// Reads until it is clear what is spoken, or somebody has to wait for it.
pub(super) async fn listen(stream: &TcpStream, heard: &mut Vec<u8>, early: &mut Early) {
    let looking = async {
        while heard.len() < MOST_HEARD && sniff::sniff(heard) == Sniffed::Unclear {
            tokio::select! {
                biased;
                ready = stream.readable() => if ready.is_err() { return },
                () = early.server_speaks() => return,
            }
            heard.reserve(4096);
            match stream.try_read_buf(heard) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    };
    drop(timeout(PATIENCE, looking).await);
}

/// The target that these bytes ask for.
pub(super) fn asked(heard: &[u8]) -> Asked {
    match sniff::sniff(heard) {
        Sniffed::Tls(hello) => hello.asked(),
        Sniffed::Http1 => host_of(heard).unwrap_or(Asked::Unnamed(None)),
        Sniffed::Http2 | Sniffed::Other | Sniffed::Unclear => Asked::Raw,
    }
}

/// The host of a request whose head has begun.
fn host_of(heard: &[u8]) -> Option<Asked> {
    let lines = heard.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    // Servers forgive empty lines in front; the one after the head ends it, and what follows is for
    // the server alone.
    let mut head = lines.skip_while(|line| line.is_empty()).skip(1).take_while(|line| !line.is_empty());
    let value = head.find_map(|line| {
        let (name, value) = line.split_at_checked(5)?;
        name.eq_ignore_ascii_case(b"host:").then(|| value.trim_ascii())
    })?;
    super::addressee::read(value).ok().map(|addressee| addressee.asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_called_by_its_host() {
        let asked = asked(b"GET / HTTP/1.1\r\nAccept: */*\r\nhOST: Example.com:8080\r\n\r\n");
        assert_eq!(asked, Asked::Name("example.com".parse().unwrap()));
    }

    #[test]
    fn what_stands_in_a_body_is_not_the_host() {
        assert_eq!(
            asked(b"POST / HTTP/1.1\r\nContent-Length: 17\r\n\r\nHost: b.example\r\n"),
            Asked::Unnamed(None)
        );
        let behind_blank_lines = b"\r\n\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\nHost: b.example\r\n";
        assert_eq!(asked(behind_blank_lines), Asked::Name("a.example".parse().unwrap()));
    }

    #[test]
    fn what_says_no_name_has_none() {
        assert_eq!(asked(b"GET / HTTP/1.1\r\nAccept: */*\r\n\r\n"), Asked::Unnamed(None));
        assert_eq!(asked(b"\0\0\0\x08"), Asked::Raw);
        assert_eq!(asked(b""), Asked::Raw);
    }
}
