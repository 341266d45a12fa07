//! Refusals by the kernel itself: UDP and ICMP, and TCP that was cut. The table reports such
//! packets (`NFLOG`), a few of each link per second, and a thread here makes entries of them.

mod packet;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use warren_core::network::{Decision, Protocol, Why, Wish};
use warren_core::{NetworkEntry, NetworkVerdict};

use crate::book::{Book, Guest};
use crate::netlink::{Message, Protocol as Netlink, Request, Socket, attribute, text};
use crate::nft::{TOLD_LIMIT, log_group};

/// The same refusal within this time is counted, not reported again.
const WINDOW: Duration = Duration::from_secs(1);
/// How long the end of the thread may take.
const ROUND: Duration = Duration::from_millis(200);
/// Different refusals that are remembered at a time. More than these are not told.
const MOST: usize = 4096;

const SUBSYSTEM: u16 = 4 << 8;
const PACKET: u16 = SUBSYSTEM;
const CONFIG: u16 = SUBSYSTEM | 1;
const HEADER: usize = 4;
const CONFIG_COMMAND: u16 = 1;
const CONFIG_MODE: u16 = 2;
const CONFIG_TIMEOUT: u16 = 4;
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const COPIED_BYTES: u32 = 96;
/// In hundredths of a second: packets are handed over together.
const GATHERED: u32 = 5;
const PAYLOAD: u16 = 9;
const PREFIX: u16 = 10;
/// The port that HTTP goes over by UDP. Clients fall back to TCP, so nobody misses it.
const QUIC: u16 = 443;

/// Packets of one kind that were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Refusal {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: Protocol,
    /// Zero where the protocol has none.
    pub(crate) port: u16,
    /// It was one too many, and not forbidden in itself.
    pub(crate) is_excess: bool,
}

/// The thread that hears of refusals. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Refusals {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Refusals {
    /// Hears of a block's refusals, in the calling thread's namespace, and reports them.
    pub(crate) fn start(block: u8, book: Arc<Book>) -> io::Result<Self> {
        Self::hear(block, move |refusal, count| tell(&book, refusal, count))
    }

    /// Hears of them and gives each to somebody, with how often it was seen.
    pub(crate) fn hear(block: u8, told: impl FnMut(&Refusal, u32) + Send + 'static) -> io::Result<Self> {
        let socket = listen(log_group(block))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let work = move || attend(socket, Recent::default(), told, &over);
        let thread = std::thread::Builder::new().name("warren-refusals".to_owned()).spawn(work)?;
        Ok(Self { is_over, thread: Some(thread) })
    }
}

impl Drop for Refusals {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn listen(group: u16) -> io::Result<Socket> {
    let mut socket = Socket::open(Netlink::Netfilter)?;
    let [high, low] = group.to_be_bytes();
    let config = || Request::new(CONFIG, 0, &[0, 0, high, low]);
    let mut bind = config();
    bind.bytes(CONFIG_COMMAND, &[BIND]);
    socket.act(bind)?;
    let mut mode = config();
    let [a, b, c, d] = COPIED_BYTES.to_be_bytes();
    mode.bytes(CONFIG_MODE, &[a, b, c, d, COPY_PACKET, 0]).be32(CONFIG_TIMEOUT, GATHERED);
    socket.act(mode)?;
    Ok(socket)
}

fn attend(mut socket: Socket, mut recent: Recent, mut told: impl FnMut(&Refusal, u32), over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        let now = Instant::now();
        let heard = socket.hear(ROUND, |message| {
            if let Some(refusal) = read(message)
                && recent.is_new(refusal, now)
            {
                told(&refusal, 1);
            }
        });
        for (refusal, count) in recent.over(Instant::now()) {
            told(&refusal, count);
        }
        // What is lost is lost: it was refused all the same.
        if heard.is_err_and(|error| error.errno != Errno::NOBUFS) {
            std::thread::sleep(ROUND);
        }
    }
}

fn read(message: Message<'_>) -> Option<Refusal> {
    let attributes = message.attributes(HEADER);
    let packet = attribute(&attributes, PAYLOAD).filter(|_| message.kind == PACKET)?;
    let is_excess = attribute(&attributes, PREFIX).and_then(text) == Some(TOLD_LIMIT);
    packet::read(packet).map(|refusal| Refusal { is_excess, ..refusal })
}

/// The latest refusals, and how often each was repeated since its report.
#[derive(Debug, Default)]
struct Recent {
    since: HashMap<Refusal, (Instant, u32)>,
}

impl Recent {
    /// True if it is to be reported now; otherwise it is counted.
    fn is_new(&mut self, refusal: Refusal, now: Instant) -> bool {
        if let Some((_, count)) = self.since.get_mut(&refusal) {
            *count = count.saturating_add(1);
            return false;
        }
        let has_room = self.since.len() < MOST;
        if has_room {
            self.since.insert(refusal, (now, 0));
        }
        has_room
    }

    /// Forgets those whose time is over, and gives those that came again.
    fn over(&mut self, now: Instant) -> Vec<(Refusal, u32)> {
        let mut over = Vec::new();
        self.since.retain(|refusal, (since, count)| {
            let is_recent = now.saturating_duration_since(*since) < WINDOW;
            if !is_recent && *count > 0 {
                over.push((*refusal, *count));
            }
            is_recent
        });
        over
    }
}

/// Makes an entry of it, unless nobody would miss what was refused.
fn tell(book: &Book, refusal: &Refusal, count: u32) {
    let Some(guest) = book.by_address(refusal.source) else { return };
    let Some((verdict, rule)) = why(book, &guest, refusal) else { return };
    let entry = NetworkEntry {
        verdict,
        protocol: refusal.protocol,
        host: guest.pins.names(refusal.destination).first().map(ToString::to_string),
        address: Some(refusal.destination),
        port: refusal.port,
        rule,
        process: None,
        count,
    };
    book.report(&guest, entry);
}

fn why(book: &Book, guest: &Guest, refusal: &Refusal) -> Option<(NetworkVerdict, String)> {
    if refusal.is_excess {
        return Some((NetworkVerdict::Denied, Why::Limit.to_string()));
    }
    let wish = Wish {
        protocol: refusal.protocol,
        name: None,
        address: Some(refusal.destination),
        port: refusal.port,
    };
    match book.decide(guest, &wish) {
        Decision::Denied(why) => Some((NetworkVerdict::Denied, why.to_string())),
        Decision::Ask => Some((NetworkVerdict::Asked, Why::NotListed.to_string())),
        // A connection that has to be made again, over the proxy.
        Decision::Allowed(_) if refusal.protocol == Protocol::Tcp => None,
        Decision::Allowed(_) if refusal.protocol == Protocol::Udp && refusal.port == QUIC => None,
        // What no policy knows and the kernel does.
        Decision::Allowed(_) => Some((NetworkVerdict::Denied, Why::Host.to_string())),
    }
}

#[cfg(test)]
mod tests;
