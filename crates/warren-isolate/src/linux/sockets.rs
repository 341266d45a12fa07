//! Sockets in the networks of sandboxes, for traffic to their ports.
//!
//! A socket belongs to the network that its maker was in. One thread makes all of them: it enters a
//! sandbox's network, makes the socket and comes back. So no other thread is ever in the wrong
//! network, and none keeps the network of a removed sandbox alive. Nothing inside a sandbox can
//! make the thread wait.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use parking_lot::Mutex;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::record::Record;
use super::{Backend, not_found, sys};

/// The thread that makes sockets. The first call starts it, a drop ends it.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    orders: Mutex<Option<Sender<Order>>>,
}

#[derive(Debug)]
struct Order {
    network: OwnedFd,
    family: AddressFamily,
    made: SyncSender<io::Result<OwnedFd>>,
}

/// A nonblocking TCP socket in the sandbox's network.
pub(super) fn socket(backend: &Backend, id: &SandboxId, v6: bool) -> Result<OwnedFd, IsolationError> {
    let record = Record::load(&backend.data.sandbox(id)).ok_or_else(|| not_found(id))?;
    let network = network(&record).ok_or_else(|| {
        IsolationError::new(IsolationErrorKind::Ended, format!("enter the network of {id}, which has ended"))
    })?;
    backend.sockets.one(id, network, v6)
}

/// The network of the recorded process; `None` if that has ended. It is opened before the process
/// is compared with the record, so it never belongs to another process with the same number.
fn network(record: &Record) -> Option<OwnedFd> {
    let network = fs::File::open(format!("/proc/{}/ns/net", record.pid)).ok()?;
    record.is_alive().then(|| network.into())
}

impl Sockets {
    /// A nonblocking TCP socket in the network of a sandbox.
    pub(crate) fn one(&self, id: &SandboxId, network: OwnedFd, v6: bool) -> Result<OwnedFd, IsolationError> {
        let family = if v6 { AddressFamily::INET6 } else { AddressFamily::INET };
        self.make(network, family).map_err(|error| {
            let action = format!("make a socket in the network of {id}");
            IsolationError::caused(IsolationErrorKind::Host, action, error)
        })
    }

    fn make(&self, network: OwnedFd, family: AddressFamily) -> io::Result<OwnedFd> {
        let (made, answer) = sync_channel(1);
        let mut order = Order { network, family, made };
        let mut orders = self.orders.lock();
        if let Some(sender) = orders.as_ref() {
            match sender.send(order) {
                Ok(()) => {
                    drop(orders);
                    return answer.recv().map_err(|_| gone())?;
                }
                // The thread could not return from a network, and ended.
                Err(unsent) => order = unsent.0,
            }
        }
        let sender = start()?;
        sender.send(order).map_err(|_| gone())?;
        *orders = Some(sender);
        drop(orders);
        answer.recv().map_err(|_| gone())?
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that makes sockets ended")
}

fn start() -> io::Result<Sender<Order>> {
    let (sender, orders) = channel();
    std::thread::Builder::new().name("warren-sockets".to_owned()).spawn(move || work(&orders))?;
    Ok(sender)
}

/// Ends when the orders end, or when it cannot come back from a sandbox's network.
fn work(orders: &Receiver<Order>) {
    let Ok(home) = fs::File::open("/proc/thread-self/ns/net").map(OwnedFd::from) else { return };
    while let Ok(Order { network, family, made }) = orders.recv() {
        let socket = sys::enter_network(&network).and_then(|()| {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            rustix::net::socket_with(family, SocketType::STREAM, flags, None)
        });
        let back = sys::enter_network(&home);
        // If this fails, nobody waits for the answer.
        drop(made.send(socket.map_err(io::Error::from)));
        if back.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;
    use std::time::Instant;

    use super::*;

    /// A network of its own with loopback up; `None` without the rights for it.
    fn elsewhere() -> Option<(OwnedFd, TcpListener)> {
        let made = std::thread::spawn(|| {
            sys::unshare_network().ok()?;
            sys::raise_loopback().ok()?;
            let network = fs::File::open("/proc/thread-self/ns/net").ok()?;
            Some((network.into(), TcpListener::bind("127.0.0.1:0").ok()?))
        });
        made.join().unwrap()
    }

    fn connected(socket: OwnedFd, port: u16) -> io::Result<TcpStream> {
        rustix::io::ioctl_fionbio(&socket, false)?;
        rustix::net::connect(&socket, &std::net::SocketAddr::from(([127, 0, 0, 1], port)))?;
        Ok(socket.into())
    }

    #[test]
    fn a_socket_reaches_what_listens_on_the_loopback_of_its_network_and_no_other() {
        let Some((network, listener)) = elsewhere() else { return };
        let (port, here) = (listener.local_addr().unwrap().port(), TcpListener::bind("127.0.0.1:0").unwrap());
        let sockets = Sockets::default();
        let make =
            || sockets.make(network.as_fd().try_clone_to_owned().unwrap(), AddressFamily::INET).unwrap();
        connected(make(), port).unwrap();
        assert!(listener.accept().is_ok());
        let host = connected(make(), here.local_addr().unwrap().port());
        assert_eq!(host.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn making_one_takes_microseconds() {
        let Some((network, _listener)) = elsewhere() else { return };
        let sockets = Sockets::default();
        let make =
            || sockets.make(network.as_fd().try_clone_to_owned().unwrap(), AddressFamily::INET6).unwrap();
        drop(make());
        let mut times: Vec<_> = (0..200)
            .map(|_| {
                let began = Instant::now();
                drop(make());
                began.elapsed()
            })
            .collect();
        times.sort();
        // One of the faster ones, as a busy machine delays others.
        assert!(times[20].as_micros() < 500, "{:?}", times[20]);
    }

    #[test]
    fn the_thread_is_home_again_and_holds_no_network() {
        let Some((network, _listener)) = elsewhere() else { return };
        let sockets = Sockets::default();
        let wrong = fs::File::open("/dev/null").unwrap().into();
        assert!(sockets.make(wrong, AddressFamily::INET).is_err());
        drop(sockets.make(network, AddressFamily::INET).unwrap());
        let here = TcpListener::bind("127.0.0.1:0").unwrap();
        let home = fs::File::open("/proc/thread-self/ns/net").unwrap().into();
        let socket = sockets.make(home, AddressFamily::INET).unwrap();
        connected(socket, here.local_addr().unwrap().port()).unwrap();
    }
}
