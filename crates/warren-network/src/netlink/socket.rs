//! A socket to the kernel: requests and their answers, lists, batches, and what it tells of its own
//! accord.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::message::{Attributes, Message, Messages, Request, attribute, text};
use super::sys;
use crate::namespace;

/// How often a list is read that changes all the time: sandboxes come and go.
const LIST_TRIES: u32 = 50;
/// The kernel answers while it is asked. A wait that takes longer than this has lost an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// No datagram of the kernel is longer.
const LONGEST: usize = 64 << 10;
/// Room for a batch, and for what is told while nobody reads.
const ROOM: usize = 16 << 20;

/// `NFNL_MSG_BATCH_BEGIN` and `_END`, around what takes effect as a whole.
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
/// The header of both: no family, version 0, and whose batch it is (`NFNL_SUBSYS_NFTABLES`).
const BATCH_HEADER: [u8; 4] = [0, 0, 0, 10];
/// In an answer that refuses: the attribute with the kernel's words (`NLMSGERR_ATTR_MSG`).
const WORDS: u16 = 1;

/// The part of the kernel to talk to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Links, addresses, routes, rules, queues.
    Route,
    /// Packet rules and connections.
    Netfilter,
}

/// The kernel refused, or could not be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetlinkError {
    pub(crate) errno: Errno,
    /// The kernel's own words, where it has any.
    pub(crate) words: Option<String>,
    /// Which request of a batch it was, from zero; `None` if none in particular.
    pub(crate) request: Option<usize>,
}

/// A socket in the network namespace it was opened in, whichever thread uses it.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    number: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// In the calling thread's namespace.
    pub(crate) fn open(protocol: Protocol) -> Result<Self, NetlinkError> {
        let flags = SocketFlags::CLOEXEC;
        let protocol = match protocol {
            Protocol::Route => None,
            Protocol::Netfilter => Some(rustix::net::netlink::NETFILTER),
        };
        let kind = SocketType::RAW;
        let descriptor = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, protocol)?;
        rustix::net::bind(&descriptor, &SocketAddrNetlink::new(0, 0))?;
        sockopt::set_socket_timeout(&descriptor, Timeout::Recv, Some(PATIENCE))?;
        // More room than an ordinary user may have; without the right to it, what there is has to
        // do.
        let _ = sockopt::set_socket_send_buffer_size_force(&descriptor, ROOM);
        let _ = sockopt::set_socket_recv_buffer_size_force(&descriptor, ROOM);
        let _ = sys::set_option(descriptor.as_fd(), libc::NETLINK_EXT_ACK, 1);
        let _ = sys::set_option(descriptor.as_fd(), libc::NETLINK_CAP_ACK, 1);
        Ok(Self { descriptor, number: 0, buffer: Vec::new() })
    }

    /// In another network namespace.
    pub(crate) fn open_in(protocol: Protocol, namespace: BorrowedFd<'_>) -> io::Result<Self> {
        namespace::visit(namespace, || Ok(Self::open(protocol)?))
    }

    /// Asks for something to be done, and waits until it is.
    pub(crate) fn act(&mut self, request: Request) -> Result<(), NetlinkError> {
        self.act_all(vec![request])
    }

    /// Several requests in one system call, each done or refused by itself; the first refusal is
    /// told.
    pub(crate) fn act_all(&mut self, requests: Vec<Request>) -> Result<(), NetlinkError> {
        let (first, count) = (self.number.wrapping_add(1), requests.len());
        let mut bytes = Vec::new();
        for request in requests {
            self.number = self.number.wrapping_add(1);
            bytes.extend(request.finish(self.number, libc::NLM_F_ACK));
        }
        self.send(&bytes)?;
        let (mut answered, mut refusal) = (0, None);
        while answered < count {
            self.receive(|message| {
                let at = message.number.wrapping_sub(first) as usize;
                if at < count && i32::from(message.kind) == libc::NLMSG_ERROR {
                    answered += 1;
                    keep_first(&mut refusal, verdict(message).map_err(|error| error.at(at)));
                }
            })?;
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Requests to nftables that take effect together or not at all.
    pub(crate) fn batch(&mut self, requests: Vec<Request>) -> Result<(), NetlinkError> {
        let count = requests.len();
        if count == 0 {
            return Ok(());
        }
        let begin = self.number.wrapping_add(1);
        let mut bytes = Request::new(BATCH_BEGIN, 0, &BATCH_HEADER).finish(begin, 0);
        for (at, request) in requests.into_iter().enumerate() {
            // The last one's answer comes after the whole took effect.
            let flags = if at + 1 == count { libc::NLM_F_ACK } else { 0 };
            let number = begin.wrapping_add(1).wrapping_add(u32::try_from(at).unwrap_or(u32::MAX));
            bytes.extend(request.finish(number, flags));
        }
        let end = begin.wrapping_add(1).wrapping_add(u32::try_from(count).unwrap_or(u32::MAX));
        self.number = end;
        bytes.extend(Request::new(BATCH_END, 0, &BATCH_HEADER).finish(end, 0));
        self.send(&bytes)?;
        let (mut done, mut refusal) = (false, None);
        while !done {
            self.receive(|message| {
                let at = message.number.wrapping_sub(begin) as usize;
                if at <= count && i32::from(message.kind) == libc::NLMSG_ERROR {
                    // What is refused as a whole is answered by its first message alone.
                    done |= at == 0 || at == count;
                    let verdict = verdict(message);
                    keep_first(
                        &mut refusal,
                        verdict.map_err(|error| if at == 0 { error } else { error.at(at - 1) }),
                    );
                }
            })?;
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Asks a question with one answer.
    pub(crate) fn ask<T>(
        &mut self,
        request: Request,
        mut read: impl FnMut(Message<'_>) -> T,
    ) -> Result<T, NetlinkError> {
        let number = self.start(request, 0)?;
        let mut answer = None;
        while answer.is_none() {
            self.receive(|message| {
                if message.number == number && answer.is_none() {
                    answer = Some(match i32::from(message.kind) {
                        libc::NLMSG_ERROR => match verdict(message) {
                            Ok(()) => Err(NetlinkError::from(Errno::BADMSG)),
                            Err(error) => Err(error),
                        },
                        _ => Ok(read(message)),
                    });
                }
            })?;
        }
        answer.unwrap_or_else(|| Err(NetlinkError::from(Errno::BADMSG)))
    }

    /// Asks for a list, and once more where it changed while it was read.
    pub(crate) fn list<T>(
        &mut self,
        request: impl Fn() -> Request,
        read: impl Fn(Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        let mut tries = 1;
        loop {
            let mut all = Vec::new();
            match self.dump(request(), |message| all.extend(read(message))) {
                Err(error) if error.errno == Errno::INTR && tries < LIST_TRIES => tries += 1,
                done => return done.map(|()| all),
            }
        }
    }

    /// Asks for a list. What changed while it was read fails with `EINTR`.
    fn dump(&mut self, request: Request, mut each: impl FnMut(Message<'_>)) -> Result<(), NetlinkError> {
        let number = self.start(request, libc::NLM_F_DUMP)?;
        let interrupted = u16::try_from(libc::NLM_F_DUMP_INTR).unwrap_or(0);
        let (mut end, mut torn) = (None, false);
        while end.is_none() {
            self.receive(|message| {
                if message.number != number || end.is_some() {
                    return;
                }
                torn |= message.flags & interrupted != 0;
                match i32::from(message.kind) {
                    libc::NLMSG_DONE | libc::NLMSG_ERROR => end = Some(verdict(message)),
                    _ => each(message),
                }
            })?;
        }
        match end {
            Some(Ok(())) | None if torn => Err(NetlinkError::from(Errno::INTR)),
            Some(end) => end,
            None => Ok(()),
        }
    }

    /// From now on hears what the kernel tells this group, with [`Socket::hear`].
    pub(crate) fn subscribe(&mut self, group: u32) -> Result<(), NetlinkError> {
        Ok(sys::set_option(self.descriptor.as_fd(), libc::NETLINK_ADD_MEMBERSHIP, group)?)
    }

    /// Waits for what the kernel tells, at most so long. False when nothing came. `ENOBUFS`:
    /// something was missed.
    pub(crate) fn hear(
        &mut self,
        patience: Duration,
        each: impl FnMut(Message<'_>),
    ) -> Result<bool, NetlinkError> {
        let patience = rustix::event::Timespec::try_from(patience).map_err(|_| Errno::INVAL)?;
        let mut waits = [rustix::event::PollFd::new(&self.descriptor, rustix::event::PollFlags::IN)];
        match rustix::event::poll(&mut waits, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.receive(each)?;
        Ok(true)
    }

    fn start(&mut self, request: Request, flags: libc::c_int) -> Result<u32, NetlinkError> {
        self.number = self.number.wrapping_add(1);
        self.send(&request.finish(self.number, flags))?;
        Ok(self.number)
    }

    fn send(&self, bytes: &[u8]) -> Result<(), NetlinkError> {
        let kernel = SocketAddrNetlink::new(0, 0);
        let sent = rustix::io::retry_on_intr(|| {
            rustix::net::sendto(&self.descriptor, bytes, SendFlags::empty(), &kernel)
        })?;
        if sent == bytes.len() { Ok(()) } else { Err(Errno::MSGSIZE.into()) }
    }

    /// One datagram. Only the kernel is listened to.
    fn receive(&mut self, each: impl FnMut(Message<'_>)) -> Result<(), NetlinkError> {
        self.buffer.resize(LONGEST, 0);
        let (received, _, sender) = rustix::io::retry_on_intr(|| {
            rustix::net::recvfrom(&self.descriptor, &mut self.buffer[..], RecvFlags::empty())
        })?;
        let sender = sender.and_then(|sender| SocketAddrNetlink::try_from(sender).ok());
        if sender.is_some_and(|sender| sender.pid() == 0) {
            Messages { rest: &self.buffer[..received] }.for_each(each);
        }
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Reads an answer: a negative error number, or zero, and perhaps the request's header and a text.
fn verdict(message: Message<'_>) -> Result<(), NetlinkError> {
    let code = message.body.get(..4).and_then(|code| code.try_into().ok()).map_or(0, i32::from_ne_bytes);
    if code >= 0 {
        return Ok(());
    }
    let capped = i32::from(message.flags) & libc::NLM_F_CAPPED != 0;
    let after =
        if i32::from(message.kind) == libc::NLMSG_DONE { 4 } else { 4 + request_length(message, capped) };
    let attributes = Attributes::of(message.body.get(after..).unwrap_or_default());
    let words = attribute(&attributes, WORDS).and_then(text).map(str::to_owned);
    Err(NetlinkError { errno: Errno::from_raw_os_error(-code), words, request: None })
}

/// How much of the refused request is repeated in the answer.
fn request_length(message: Message<'_>, capped: bool) -> usize {
    let repeated =
        message.body.get(4..8).and_then(|length| length.try_into().ok()).map_or(0, u32::from_ne_bytes);
    if capped { super::message::HEADER } else { (repeated as usize).next_multiple_of(4) }
}

fn keep_first(refusal: &mut Option<NetlinkError>, verdict: Result<(), NetlinkError>) {
    if let Err(error) = verdict {
        refusal.get_or_insert(error);
    }
}

impl NetlinkError {
    fn at(self, request: usize) -> Self {
        Self { request: Some(request), ..self }
    }

    /// True if the thing to remove or to read does not exist.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.errno, Errno::NOENT | Errno::NODEV | Errno::SRCH | Errno::ADDRNOTAVAIL)
    }
}

impl From<Errno> for NetlinkError {
    fn from(errno: Errno) -> Self {
        Self { errno, words: None, request: None }
    }
}

impl From<NetlinkError> for io::Error {
    fn from(error: NetlinkError) -> Self {
        let kind = io::Error::from(error.errno).kind();
        io::Error::new(kind, error)
    }
}

impl fmt::Display for NetlinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from(self.errno).fmt(f)?;
        if let Some(words) = &self.words {
            write!(f, ": {words}")?;
        }
        match self.request {
            Some(request) => write!(f, " (message {request})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for NetlinkError {}

#[cfg(test)]
mod tests {
    use super::*;

    const RTM_GETLINK: u16 = 18;
    const RTM_DELLINK: u16 = 17;
    const IFINFO: [u8; 16] = [0; 16];

    #[test]
    fn every_namespace_has_a_loopback() {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let mut names = Vec::new();
        let request = Request::new(RTM_GETLINK, 0, &IFINFO);
        let each = |message: Message<'_>| {
            let name = attribute(&message.attributes(IFINFO.len()), 3).and_then(text).map(str::to_owned);
            names.extend(name);
        };
        socket.dump(request, each).unwrap();
        assert!(names.iter().any(|name| name == "lo"), "{names:?}");
        let mut request = Request::new(RTM_GETLINK, 0, &IFINFO);
        request.text(3, "lo");
        let index = socket.ask(request, |message| message.body[4]).unwrap();
        assert_eq!(index, 1);
    }

    #[test]
    fn a_refusal_has_its_reason() {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let absent = |name: &str| {
            let mut request = Request::new(RTM_GETLINK, 0, &IFINFO);
            request.text(3, name);
            request
        };
        let error = socket.ask(absent("no-such-link"), |_| ()).unwrap_err();
        assert_eq!(error.errno, Errno::NODEV);
        assert!(error.is_absent());
        // The socket is still in step afterwards.
        assert!(socket.ask(absent("lo"), |_| ()).is_ok());
        let mut request = Request::new(RTM_DELLINK, 0, &IFINFO);
        request.text(3, "no-such-link");
        assert!(socket.act(request).is_err());
    }
}
