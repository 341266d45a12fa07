//! Removes links after those who had them are done. The kernel takes tens of milliseconds for one, and hardly longer for many.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::links;
use crate::netlink::{Protocol, Socket};
use crate::place::{Place, doomed};
use crate::stock::Maker;

/// A thread that removes. Dropping it waits until all is removed.
#[derive(Debug)]
pub(super) struct Reaper {
    sender: Option<Sender<Place>>,
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
        if let Some(sender) = &self.sender {
            let sent = sender.send(place);
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

fn reap(places: &Receiver<Place>, (mut route, mut netfilter): (Socket, Socket), maker: &Maker) {
    while let Ok(first) = places.recv() {
        let batch: Vec<Place> = [first].into_iter().chain(places.try_iter()).collect();
        if let Err(error) = links::remove(&mut route, &batch, doomed(maker.block)) {
            // Nothing passes them: no table knows them. The next start removes them.
            tracing::warn!(%error, count = batch.len(), "links could not be removed");
            continue;
        }
        let addresses: Vec<IpAddr> = batch.iter().flat_map(|place| maker.addresses(*place)).collect();
        if let Err(error) = links::forget(&mut netfilter, &addresses) {
            tracing::warn!(%error, "the connections of sandboxes that are gone could not be forgotten");
        }
        batch.into_iter().for_each(|place| maker.give_back(place));
    }
}
