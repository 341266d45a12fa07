//! Removes links after those who had them are done. The kernel takes tens of milliseconds for one, and hardly longer for many.

use std::io;
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
        let socket = Socket::open(Protocol::Route)?;
        let work = move || reap(&receiver, socket, &maker);
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

fn reap(places: &Receiver<Place>, mut socket: Socket, maker: &Maker) {
    while let Ok(first) = places.recv() {
        let batch: Vec<Place> = [first].into_iter().chain(places.try_iter()).collect();
        match links::remove(&mut socket, &batch, doomed(maker.block)) {
            Ok(()) => batch.into_iter().for_each(|place| maker.give_back(place)),
            // Nothing passes them: no table knows them. The next start removes them.
            Err(error) => tracing::warn!(%error, count = batch.len(), "links could not be removed"),
        }
    }
}
