//! Asks the machine's name servers.
//!
//! Every try has its own socket, with a port and an id that nobody can guess, and hears one server
//! only. A try that is not answered for a while gets company by the next one and may still win; one
//! that fails makes way at once. So a dead server costs a moment and a slow one nothing but its
//! slowness.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use warren_core::HostName;

use super::exchange::{ExchangeError, exchange};
use super::question::{Wants, wire_name};
use super::servers::Servers;
use super::sift::Sifted;

/// Clients give up after five seconds, or ask again: they hear of a failure before that.
const PATIENCE: Duration = Duration::from_secs(4);
/// When the next try begins beside one that has not been answered.
const STAGGER: Duration = Duration::from_secs(1);
/// How often each server is tried for one question.
const ROUNDS: usize = 2;
/// Questions of all sandboxes that are under way. Each takes a descriptor or two.
const MOST_ASKED: usize = 1024;

/// The servers that know the names of the world.
#[derive(Debug)]
pub(crate) struct Upstream {
    servers: Servers,
    /// The one that answered last is asked first.
    first: AtomicUsize,
    places: Semaphore,
}

/// The addresses of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// As the servers say, closed ones among them: a caller judges an address before it dials it.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) ttl: Duration,
    /// The names that it is an alias of, for [`super::denied_alias`].
    pub(crate) aliases: Vec<HostName>,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    #[error("no name server answered in time")]
    Silent,
    #[error("there is no name server to ask")]
    NoServer,
    #[error("too many questions are under way")]
    Busy,
    #[error("there is no such name, or it has no address")]
    NoSuchName,
    #[error("the name server has no answer: {code}")]
    Refused { code: ResponseCode },
    #[error("ask the name server {server}")]
    Exchange { server: SocketAddr, source: ExchangeError },
}

impl Upstream {
    pub(crate) fn new(servers: Servers) -> Self {
        Self { servers, first: AtomicUsize::new(0), places: Semaphore::new(MOST_ASKED) }
    }

    /// All addresses of a name, IPv4 first.
    pub(crate) async fn resolve(&self, name: &HostName) -> Result<Resolved, UpstreamError> {
        let name = wire_name(name).ok_or(UpstreamError::NoSuchName)?;
        let (v4, v6) =
            tokio::join!(self.addresses(&name, RecordType::A), self.addresses(&name, RecordType::AAAA));
        let (mut found, failure) = match (v4, v6) {
            (Ok(v4), Ok(v6)) => (vec![v4, v6], None),
            (Ok(one), Err(failure)) | (Err(failure), Ok(one)) => (vec![one], Some(failure)),
            (Err(failure), Err(_)) => return Err(failure),
        };
        found.retain(|sifted| !sifted.addresses().is_empty());
        let Some(ttl) = found.iter().map(Sifted::ttl).min() else {
            return Err(failure.unwrap_or(UpstreamError::NoSuchName));
        };
        let addresses = found.iter().flat_map(Sifted::addresses).collect();
        let aliases = found.iter().flat_map(Sifted::aliases).collect();
        Ok(Resolved { addresses, ttl, aliases })
    }

    async fn addresses(&self, name: &Name, kind: RecordType) -> Result<Sifted, UpstreamError> {
        let query = Query::query(name.clone(), kind);
        let answer = self.ask(&query, Wants::default()).await?;
        let code = answer.response_code;
        match Sifted::of(&query, answer, Wants::default()) {
            sifted if sifted.code == ResponseCode::ServFail => Err(UpstreamError::Refused { code }),
            sifted => Ok(sifted),
        }
    }

    /// The first answer of any server; what a server says who cannot tell only where no other can.
    pub(super) async fn ask(&self, query: &Query, wants: Wants) -> Result<Message, UpstreamError> {
        let _place = self.places.try_acquire().map_err(|_| UpstreamError::Busy)?;
        timeout(PATIENCE, self.race(query, wants)).await.unwrap_or(Err(UpstreamError::Silent))
    }

    async fn race(&self, query: &Query, wants: Wants) -> Result<Message, UpstreamError> {
        let servers = self.servers.now();
        let first = self.first.load(Ordering::Relaxed);
        let order = (0..servers.len() * ROUNDS).map(|turn| (first + turn) % servers.len());
        let mut order = order.map(|index| (index, servers[index])).peekable();
        let mut under_way = FuturesUnordered::new();
        let mut told = Vec::new();
        let mut outcome = Err(UpstreamError::NoServer);
        loop {
            if let Some((index, server)) = order.find(|(index, _)| !told.contains(index)) {
                under_way.push(async move { (index, server, exchange(server, query, wants).await) });
            }
            tokio::select! {
                ended = under_way.next() => match ended {
                    Some((index, _, Ok(answer))) if is_final(&answer) => {
                        self.first.store(index, Ordering::Relaxed);
                        return Ok(answer);
                    }
                    Some((index, _, Ok(answer))) => {
                        told.push(index);
                        outcome = Ok(answer);
                    }
                    Some((_, server, Err(source))) if outcome.is_err() => {
                        outcome = Err(UpstreamError::Exchange { server, source });
                    }
                    Some(_) => {}
                    None => return outcome,
                },
                () = sleep(STAGGER), if order.peek().is_some() => {}
            }
        }
    }
}

/// True if another server would say the same.
fn is_final(answer: &Message) -> bool {
    matches!(answer.response_code, ResponseCode::NoError | ResponseCode::NXDomain)
}
