//! Serves one connection, from its first byte.
//!
//! ```text
//!   the address ──► nothing a name could change ─────────────► passed on unread
//!      └ listen: who speaks first, and what
//!          ├ TLS ─────► by the name in the greeting ─────► passed on, or intercepted for a secret
//!          ├ HTTP ────► each request by its host ────────► `http`
//!          └ else ────► by the address and its names ────► passed on
//! ```
//!
//! Where something without a name would be let through, the server is dialled before anybody has
//! spoken: some speak first.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};
use warren_core::network::Why;

use super::hello::Hello;
use super::judge::{AddressVerdict, Basis, Goal, Verdict};
use super::refusal::{ACCESS_DENIED, Reason};
use super::rewound::Rewound;
use super::sniff::{self, MOST_HEARD, Sniffed};
use super::splice::{bid_farewell, reset, splice, write_all};
use super::visit::{Admission, Asked, Changes, Visit};
use super::{http, peek};
use crate::dial::DialError;
use crate::edge::Dial;

/// A client that is going to be refused has this long to show its protocol.
const SILENCE_PATIENCE: Duration = Duration::from_millis(300);
/// A client that has begun to speak has this long to make its protocol clear.
const UNCLEAR_PATIENCE: Duration = Duration::from_secs(5);

/// A connection to the server, made before it is known what for.
#[derive(Default)]
pub(super) enum Early {
    #[default]
    Not,
    Dialling(Pin<Box<dyn Future<Output = Result<TcpStream, DialError>> + Send>>),
    Connected(TcpStream),
    Failed(DialError),
}

/// The first thing that happened on a connection.
enum Heard {
    Client(Sniffed),
    Server,
    /// Nothing, or nothing clear, for too long.
    Nothing,
    /// The client has gone.
    Farewell,
    /// The policy is another now.
    Change,
}

/// A client before it is known what it wants.
struct NewClient {
    stream: TcpStream,
    heard: Vec<u8>,
    since: Option<Instant>,
}

/// Serves a connection to its end. What it turns out to be has room of its own, so that the many
/// that say nothing take little.
pub(super) async fn serve(visit: Visit, stream: TcpStream) {
    let visit = Arc::new(visit);
    let mut client = NewClient { stream, heard: Vec::new(), since: None };
    let mut early = Early::Not;
    let heard = loop {
        let mut changes = visit.changes();
        let by_address = visit.judge().address_only(visit.goal);
        if let AddressVerdict::Open(why) = by_address {
            return Box::pin(pass_open(&visit, client, early, &why)).await;
        }
        early.prepare(&visit, &by_address);
        match client.listen(&visit, &mut early, &mut changes).await {
            Ok(Heard::Change) => {}
            Ok(heard) => break heard,
            Err(_) => return,
        }
    };
    match heard {
        Heard::Client(Sniffed::Tls(hello)) => Box::pin(pass_tls(&visit, client, early, &hello)).await,
        Heard::Client(Sniffed::Http1) => Box::pin(pass_http(&visit, client, early, http::Kind::One)).await,
        Heard::Client(Sniffed::Http2) => Box::pin(pass_http(&visit, client, early, http::Kind::Two)).await,
        Heard::Nothing if !client.heard.is_empty() => {
            turn_away(&visit, client.stream, &Asked::Unnamed(None), Reason::Denied(Why::NoName)).await;
        }
        Heard::Client(Sniffed::Other | Sniffed::Unclear) | Heard::Server | Heard::Nothing => {
            Box::pin(pass_raw(&visit, client, early)).await;
        }
        Heard::Farewell | Heard::Change => {}
    }
}

impl Early {
    /// Dials where a connection without a name would be let through, and hangs up where it no
    /// longer would.
    fn prepare(&mut self, visit: &Visit, by_address: &AddressVerdict) {
        let (AddressVerdict::ByName(Verdict::Allowed(_)), Goal::Address(address)) = (by_address, visit.goal)
        else {
            *self = Self::Not;
            return;
        };
        if matches!(self, Self::Not) {
            *self = Self::dialling(visit, SocketAddr::new(address, visit.port));
        }
    }

    fn dialling(visit: &Visit, address: SocketAddr) -> Self {
        let egress = Arc::clone(&visit.egress);
        Self::Dialling(Box::pin(async move { egress.dialer.dial(address).await }))
    }

    /// True if no server will answer, so that there is no need to wait for the client.
    fn is_hopeless(&self) -> bool {
        matches!(self, Self::Not | Self::Failed(_))
    }

    /// Ends when the server speaks, or hangs up. What begins like HTTP/2 leaves the first word to
    /// the client.
    pub(super) async fn server_speaks(&mut self) {
        loop {
            match self {
                Self::Not | Self::Failed(_) => return std::future::pending().await,
                Self::Dialling(dialling) => match dialling.await {
                    Ok(stream) => *self = Self::Connected(stream),
                    Err(error) => {
                        *self = Self::Failed(error);
                        return;
                    }
                },
                Self::Connected(stream) => {
                    let mut first = [0; 16];
                    match stream.peek(&mut first).await {
                        Ok(length) if sniff::begins_http2(&first[..length]) => {
                            return std::future::pending().await;
                        }
                        Ok(_) | Err(_) => return,
                    }
                }
            }
        }
    }

    /// The connection, made now if it was not made before.
    pub(super) async fn connect(self, visit: &Visit, admission: &Admission) -> Result<TcpStream, DialError> {
        match self {
            Self::Connected(stream) => Ok(stream),
            Self::Dialling(dialling) => dialling.await,
            Self::Failed(error) => Err(error),
            Self::Not => visit.connect(admission).await,
        }
    }
}

impl NewClient {
    async fn listen(&mut self, visit: &Visit, early: &mut Early, changes: &mut Changes) -> io::Result<Heard> {
        let hesitation = Instant::now() + SILENCE_PATIENCE;
        loop {
            if !self.heard.is_empty() {
                match sniff::sniff(&self.heard) {
                    Sniffed::Unclear => {}
                    sniffed => return Ok(Heard::Client(sniffed)),
                }
            }
            let deadline = match self.since {
                Some(since) => Some(since + UNCLEAR_PATIENCE),
                None => early.is_hopeless().then_some(hesitation),
            };
            tokio::select! {
                biased;
                ready = self.stream.readable() => {
                    ready?;
                    match self.hear()? {
                        Some(0) if self.heard.is_empty() => return Ok(Heard::Farewell),
                        // No more will come: what it is now it stays.
                        Some(0) => return Ok(Heard::Client(Sniffed::Other)),
                        Some(_) | None => {}
                    }
                }
                () = early.server_speaks() => {
                    if !early.is_hopeless() {
                        return Ok(Heard::Server);
                    }
                }
                () = visit.change(changes) => return Ok(Heard::Change),
                () = at(deadline) => return Ok(Heard::Nothing),
            }
        }
    }

    /// Reads what is there; `None` if nothing was.
    fn hear(&mut self) -> io::Result<Option<usize>> {
        self.heard.reserve(MOST_HEARD.saturating_sub(self.heard.len()).min(4096));
        match self.stream.try_read_buf(&mut self.heard) {
            Ok(length) => {
                self.since.get_or_insert_with(Instant::now);
                Ok(Some(length))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Nothing that it says can change what becomes of it.
async fn pass_open(visit: &Arc<Visit>, mut client: NewClient, mut early: Early, why: &Why) {
    let Goal::Address(address) = visit.goal else { return reset(client.stream) };
    if matches!(early, Early::Not) {
        early = Early::dialling(visit, SocketAddr::new(address, visit.port));
    }
    let mut asked = Asked::Raw;
    if visit.judge().learns() {
        // The bytes of a short moment may give it a name; it goes on without one, too.
        peek::listen(&client.stream, &mut client.heard, &mut early).await;
        asked = peek::asked(&client.heard);
    }
    let admission = Admission::of(address, asked.clone());
    match early.connect(visit, &admission).await {
        Ok(upstream) => {
            visit.tell_allowed(&asked, why);
            pass(visit, client, upstream, Basis::Address(address, Vec::new())).await;
        }
        Err(error) => fail(visit, client, &asked, error).await,
    }
}

/// No server is reached: a client that speaks HTTP is told why.
async fn fail(visit: &Arc<Visit>, mut client: NewClient, asked: &Asked, error: DialError) {
    let mut changes = visit.changes();
    let heard = client.listen(visit, &mut Early::Not, &mut changes).await;
    let early = Early::Failed(error);
    match heard {
        Ok(Heard::Client(Sniffed::Http1)) => pass_http(visit, client, early, http::Kind::One).await,
        Ok(Heard::Client(Sniffed::Http2)) => pass_http(visit, client, early, http::Kind::Two).await,
        Ok(_) => give_up(visit, client.stream, asked, early).await,
        Err(_) => {}
    }
}

/// Ends a connection that reached nobody.
async fn give_up(visit: &Visit, stream: TcpStream, asked: &Asked, early: Early) {
    if let Early::Failed(error) = early
        && let reason = Reason::from(error)
        && reason.is_denial()
    {
        visit.tell_denied(asked, &reason).await;
    }
    reset(stream);
}

async fn pass_tls(visit: &Arc<Visit>, client: NewClient, early: Early, hello: &Hello) {
    let asked = hello.asked();
    let admission = match visit.admit_unless_gone(&asked, &client.stream).await {
        Some(Ok(admission)) => admission,
        Some(Err(reason)) => return alert(client.stream, &reason).await,
        None => return,
    };
    match visit.is_secret(&asked).await {
        Ok(true) => return intercept(visit, client, &asked, admission).await,
        Ok(false) => {}
        Err(reason) => return turn_away(visit, client.stream, &asked, reason).await,
    }
    match early.connect(visit, &admission).await {
        Ok(upstream) => pass_on(visit, client, upstream, &admission).await,
        Err(DialError::Closed(why)) => {
            visit.tell_denied(&asked, &Reason::Denied(why)).await;
            bid_farewell(client.stream, &ACCESS_DENIED).await;
        }
        Err(_) => reset(client.stream),
    }
}

/// Hands a connection over to where secrets are put in.
async fn intercept(visit: &Arc<Visit>, client: NewClient, asked: &Asked, admission: Admission) {
    let (Asked::Name(name), Some(edge)) = (asked, &visit.egress.edge) else { return reset(client.stream) };
    let Some(address) = admission.addresses.first().copied() else { return reset(client.stream) };
    let basis = admission.basis(address);
    let dial: Dial = {
        let visit = Arc::clone(visit);
        Arc::new(move || {
            let (visit, admission) = (Arc::clone(&visit), admission.clone());
            Box::pin(async move {
                let dialled = visit.connect(&admission).await;
                dialled.map_err(io::Error::other)
            })
        })
    };
    let client = Rewound::new(client.heard, client.stream);
    let intercepted = edge.intercept(&visit.guest, name, visit.port, client, dial);
    tokio::select! {
        ended = intercepted => if let Err(error) = ended {
            tracing::debug!(sandbox.id = %visit.guest.id, host = %name, "a connection with a secret ended: {}", error.in_full());
        },
        () = visit.until_cut(basis) => {}
    }
}

async fn pass_raw(visit: &Visit, client: NewClient, early: Early) {
    let asked = visit.asked_raw();
    let admission = match visit.admit_unless_gone(&asked, &client.stream).await {
        Some(Ok(admission)) => admission,
        Some(Err(_)) => return reset(client.stream),
        None => return,
    };
    match early.connect(visit, &admission).await {
        Ok(upstream) => pass_on(visit, client, upstream, &admission).await,
        Err(error) => give_up(visit, client.stream, &asked, Early::Failed(error)).await,
    }
}

async fn pass_http(visit: &Arc<Visit>, client: NewClient, early: Early, kind: http::Kind) {
    http::serve(visit, Rewound::new(client.heard, client.stream), early, kind).await;
}

async fn pass_on(visit: &Visit, client: NewClient, upstream: TcpStream, admission: &Admission) {
    match upstream.peer_addr() {
        Ok(peer) => pass(visit, client, upstream, admission.basis(peer.ip().to_canonical())).await,
        Err(_) => reset(client.stream),
    }
}

/// Passes everything on for as long as that is allowed. What is cut, or breaks, ends with a reset
/// on both sides.
async fn pass(visit: &Visit, client: NewClient, upstream: TcpStream, basis: Basis) {
    let NewClient { stream, heard, .. } = client;
    let passing = async {
        write_all(&upstream, &heard).await?;
        drop(heard);
        splice(&stream, &upstream).await
    };
    let is_whole = tokio::select! {
        passed = passing => passed.is_ok(),
        () = visit.until_cut(basis) => false,
    };
    if !is_whole {
        reset(stream);
        reset(upstream);
    }
}

/// Tells a client that speaks TLS.
async fn alert(stream: TcpStream, reason: &Reason) {
    if reason.is_denial() {
        bid_farewell(stream, &ACCESS_DENIED).await;
    } else {
        reset(stream);
    }
}

/// Refuses at once, in no language.
async fn turn_away(visit: &Visit, stream: TcpStream, asked: &Asked, reason: Reason) {
    visit.tell_denied(asked, &reason).await;
    reset(stream);
}
