//! Does what nobody has to wait for: writes on links whose they are, and removes them after those
//! who had them are done. The kernel takes tens of milliseconds to remove one, and hardly longer
//! for many.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::claims::LinkOwner;
use crate::links;
use crate::netlink::{Protocol, Socket};
use crate::place::{Place, doomed};
use crate::stock::Maker;

/// A job that concerns one link.
#[derive(Debug)]
enum Job {
    Describe(Place, LinkOwner),
    Remove(Place),
    /// A link that goes with its namespace, if nobody used it.
    LetGo(Place),
}

/// A thread that removes. Dropping it waits until all is removed.
#[derive(Debug)]
pub(super) struct Reaper {
    sender: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Reaper {
    pub(super) fn start(maker: Arc<Maker>) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let sockets = (Socket::open(Protocol::Route)?, Socket::open(Protocol::Netfilter)?);
        let work = move || reap(&receiver, sockets, &maker);
        let thread = std::thread::Builder::new().name("warren-reaper".to_owned()).spawn(work)?;
        Ok(Self { sender: Some(sender), thread: Some(thread) })
    }

    /// The link goes, and then its number rests.
    pub(super) fn remove(&self, place: Place) {
        self.send(Job::Remove(place));
    }

    /// The link is left to the kernel, which removes it with its namespace when nobody is there any
    /// more. One that was used is removed: connections that were cut would keep the namespace for
    /// minutes.
    pub(super) fn let_go(&self, place: Place) {
        self.send(Job::LetGo(place));
    }

    /// Says on the link itself whose it is, for people who look.
    pub(super) fn describe(&self, place: Place, owner: LinkOwner) {
        self.send(Job::Describe(place, owner));
    }

    fn send(&self, job: Job) {
        if let Some(sender) = &self.sender {
            let sent = sender.send(job);
            debug_assert!(sent.is_ok(), "the thread ends after this sender");
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn reap(errands: &Receiver<Job>, (mut route, mut netfilter): (Socket, Socket), maker: &Maker) {
    while let Ok(first) = errands.recv() {
        let mut doomed = Vec::new();
        for job in [first].into_iter().chain(errands.try_iter()) {
            match job {
                Job::Remove(place) => doomed.push(place),
                Job::LetGo(place) if is_unused(place, &mut route) => {}
                Job::LetGo(place) => doomed.push(place),
                // It may be gone already, and the ledger says the same.
                Job::Describe(place, owner) => drop(links::describe(&mut route, place, &owner.to_string())),
            }
        }
        remove(doomed, &mut route, &mut netfilter, maker);
    }
}

/// True if nothing ever came from it: then there is nothing to forget either.
fn is_unused(place: Place, route: &mut Socket) -> bool {
    let traffic = links::traffic(route, place);
    traffic.is_ok_and(|traffic| traffic.is_none_or(|traffic| traffic.received_packets == 0))
}

fn remove(places: Vec<Place>, route: &mut Socket, netfilter: &mut Socket, maker: &Maker) {
    if places.is_empty() {
        return;
    }
    if let Err(error) = links::remove(route, &places, doomed(maker.block)) {
        // Nothing passes them: no table knows them. The next start removes them.
        tracing::warn!(%error, count = places.len(), "links could not be removed");
        return;
    }
    let addresses: Vec<IpAddr> = places.iter().flat_map(|place| maker.addresses(*place)).collect();
    if let Err(error) = links::forget(netfilter, &addresses) {
        tracing::warn!(%error, "the connections of sandboxes that are gone could not be forgotten");
    }
    places.into_iter().for_each(|place| maker.give_back(place));
}
