//! A connection with a server, byte for byte, with TLS or without.
//!
//! Two threads may use one at the same time, one that reads and one that writes. With TLS both need
//! its state, but neither keeps it while it waits for the network: a reader that had to wait for a
//! writer would stop the writer's peer in turn.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use ureq::http::Uri;

use super::{CONNECT_PATIENCE, Client, ClientError, Trust};

/// The bytes that are taken from the network at once.
const PIECE: usize = 16 << 10;

/// A connection. A clone is the same one.
#[derive(Debug, Clone)]
pub struct Connection(Arc<Ends>);

#[derive(Debug)]
struct Ends {
    stream: TcpStream,
    tls: Option<Mutex<Secret>>,
    /// Held while something is sent, so that it stays in one piece.
    turn: Mutex<()>,
}

/// The state of TLS.
#[derive(Debug)]
struct Secret {
    tls: ClientConnection,
    /// Bytes from the network that have not been looked at.
    arrived: Vec<u8>,
}

impl Client {
    /// Connects with the server.
    pub(super) fn dial(&self) -> Result<Connection, ClientError> {
        Connection::dial(&self.base, self.trust.as_ref()).map_err(|error| ClientError::Stream {
            address: self.base.clone(),
            source: Box::new(tungstenite::Error::Io(error)),
        })
    }

    /// The server's name and port, as the head of a request has them.
    pub(super) fn authority(&self) -> &str {
        self.base.split_once("://").map_or(self.base.as_str(), |(_, authority)| authority)
    }
}

impl Connection {
    fn dial(base: &str, trust: Option<&Trust>) -> io::Result<Self> {
        let uri: Uri = base.parse().map_err(io::Error::other)?;
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or_else(|| if trust.is_some() { 443 } else { 80 });
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
                Ok(stream) => return Self::greet(stream, host, trust),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn greet(mut stream: TcpStream, host: &str, trust: Option<&Trust>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let tls = match trust {
            None => None,
            Some(trust) => {
                let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
                let mut tls =
                    ClientConnection::new(trust.of_connections(), name).map_err(io::Error::other)?;
                stream.set_read_timeout(Some(CONNECT_PATIENCE))?;
                tls.complete_io(&mut stream)?;
                stream.set_read_timeout(None)?;
                Some(Mutex::new(Secret { tls, arrived: Vec::new() }))
            }
        };
        Ok(Self(Arc::new(Ends { stream, tls, turn: Mutex::default() })))
    }

    /// How long a read waits; for ever if `None`.
    pub fn set_read_timeout(&self, patience: Option<Duration>) -> io::Result<()> {
        self.0.stream.set_read_timeout(patience)
    }

    /// Ends it for both sides: whoever reads is told that there is no more.
    pub fn close(&self) {
        // One that is closed already is what was wanted.
        self.0.stream.shutdown(Shutdown::Both).ok();
    }

    /// Says that nothing more will be sent.
    pub fn end(&self) -> io::Result<()> {
        let turn = held(&self.0.turn);
        if let Some(secret) = &self.0.tls {
            held(secret).tls.send_close_notify();
            self.0.send_sealed(secret)?;
        }
        drop(turn);
        self.0.stream.shutdown(Shutdown::Write)
    }
}

impl Read for &Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.0.tls {
            None => (&self.0.stream).read(buffer),
            Some(secret) => self.0.read_sealed(secret, buffer),
        }
    }
}

impl Write for &Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _turn = held(&self.0.turn);
        match &self.0.tls {
            None => (&self.0.stream).write_all(bytes)?,
            Some(secret) => {
                for piece in bytes.chunks(PIECE) {
                    held(secret).tls.writer().write_all(piece)?;
                    self.0.send_sealed(secret)?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Ends {
    /// Sends what TLS has ready. The caller holds the turn.
    fn send_sealed(&self, secret: &Mutex<Secret>) -> io::Result<()> {
        let mut sealed = Vec::new();
        {
            let mut secret = held(secret);
            while secret.tls.wants_write() {
                secret.tls.write_tls(&mut sealed)?;
            }
        }
        (&self.stream).write_all(&sealed)
    }

    fn read_sealed(&self, secret: &Mutex<Secret>, buffer: &mut [u8]) -> io::Result<usize> {
        let mut piece = vec![0; PIECE];
        loop {
            if let Some(count) = held(secret).open(buffer)? {
                return Ok(count);
            }
            let count = (&self.stream).read(&mut piece)?;
            let mut secret = held(secret);
            secret.arrived.extend_from_slice(&piece[..count]);
            if count == 0 {
                secret.tls.read_tls(&mut io::empty())?;
            }
        }
    }
}

impl Secret {
    /// Reads of what has arrived; `None` if more has to arrive first.
    fn open(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome.map(Some),
            }
            if self.arrived.is_empty() {
                return Ok(None);
            }
            let taken = self.tls.read_tls(&mut self.arrived.as_slice())?;
            self.arrived.drain(..taken);
            self.tls
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
