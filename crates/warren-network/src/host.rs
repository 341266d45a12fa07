//! A process that gives sandboxes a network: joins links, table, guard and proxies to the one port
//! that the engine knows.
//!
//! ```text
//!   open    claim the domain → clear away the dead → find or claim the block
//!           → guard → rules → proxies → stock
//!   attach  take a link from the stock → write down its owner → enter it in the book
//!           → tell the table
//!   set     table: what old and new both allow → book: new → table: new
//!   detach  book → table → the link itself, a little later
//!   close   a command leaves its table, empty, to the next one (`lease`)
//! ```
//!
//! Nothing passes a link that the table does not know, and the table is told last. A change is
//! tightened before it is relaxed, and one that fails midway leaves the tighter of both.

mod open;
mod proxies;
mod reaper;
mod sandbox;
mod watcher;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Runtime;
use warren_core::catalog::SecretCatalog;
use warren_core::network::{Cidr, NetworkRule};
use warren_core::{
    Attachment, Check, NetworkError, NetworkObserver, NetworkPolicy, NetworkUsage, Networks, Owner, SandboxId,
};

pub use self::open::OpenError;
use self::reaper::Reaper;
use self::sandbox::Linked;
use self::watcher::Watcher;
use crate::book::Book;
use crate::claims::{Claim, DomainKind};
use crate::lease::Ports;
use crate::ledger::Ledger;
use crate::links::Guard;
use crate::netlink::Socket;
use crate::nft::Table;
use crate::place::Place;
use crate::probe;
use crate::refusals::Refusals;
use crate::stock::{Maker, Stock};

/// How a process gives sandboxes a network.
#[derive(Clone)]
pub struct NetworkOptions {
    pub data_dir: PathBuf,
    pub kind: DomainKind,
    /// The addresses of all sandboxes of this machine: an IPv4 network with a prefix of 16.
    pub subnet: Cidr,
    /// Name servers; none: those that the host asks itself.
    pub dns: Vec<SocketAddr>,
    /// Exceptions from the ranges that are closed to all sandboxes.
    pub exceptions: Vec<NetworkRule>,
    /// How long a connection is held while somebody is asked about it.
    pub ask_patience: Duration,
    /// How many links are made ahead of time.
    pub prepared: usize,
    /// A file of certificates to trust in servers, besides those that the host trusts.
    pub extra_ca: Option<PathBuf>,
    /// Absent: policies that name secrets are refused.
    pub secrets: Option<Arc<dyn SecretCatalog>>,
}

/// A network for sandboxes, by links, rules and proxies of this host. Dropping it leaves a server's
/// sandboxes linked and closes those that need a proxy; a command's links are closed and go with
/// their namespaces.
pub struct HostNetwork {
    // In the order in which they end.
    watcher: Option<Watcher>,
    /// Absent where somebody else hears what the kernel refuses.
    refusals: Option<Refusals>,
    runtime: Option<Runtime>,
    shared: Arc<NetworkState>,
    stock: Stock,
    reaper: Option<Reaper>,
    kind: DomainKind,
    /// Where the proxies listen.
    ports: Ports,
    /// Freed last: then nothing of the domain is in anybody's hands.
    claim: Claim,
}

/// The state that all threads share.
pub(crate) struct NetworkState {
    book: Arc<Book>,
    table: Table,
    guard: Guard,
    ledger: Ledger,
    maker: Arc<Maker>,
    /// To the host's links, addresses and queues.
    socket: Mutex<Socket>,
    linked: Mutex<HashMap<SandboxId, Arc<Linked>>>,
    /// Links of sandboxes that an earlier process attached and that nobody has adopted yet.
    found: Mutex<HashMap<SandboxId, Place>>,
    secrets: Option<Arc<dyn SecretCatalog>>,
    /// Variables that sandboxes get in their environment.
    environment: Vec<String>,
}

impl HostNetwork {
    /// The needs of the network, each with what was found on this machine. Changes nothing.
    pub fn examine() -> Vec<Check> {
        probe::examine()
    }

    /// How many links are ready to be given away.
    pub fn prepared(&self) -> usize {
        self.stock.ready()
    }
}

impl Networks for HostNetwork {
    fn probe(&self) -> Vec<Check> {
        probe::examine()
    }

    fn unavailable(&self) -> Option<String> {
        None
    }

    fn attach(
        &self,
        id: &SandboxId,
        owner: &Owner,
        policy: &NetworkPolicy,
    ) -> Result<Attachment, NetworkError> {
        self.attach_new(id, owner, policy)
    }

    fn adopt(
        &self,
        id: &SandboxId,
        owner: &Owner,
        policy: &NetworkPolicy,
    ) -> Result<Attachment, NetworkError> {
        self.adopt_found(id, owner, policy)
    }

    fn set(&self, id: &SandboxId, policies: &[NetworkPolicy]) -> Result<(), NetworkError> {
        self.shared.change(id, policies)
    }

    fn detach(&self, id: &SandboxId) -> Result<(), NetworkError> {
        self.take_away(id)
    }

    fn retain(&self, ids: &HashSet<SandboxId>) -> Result<(), NetworkError> {
        let linked: Vec<SandboxId> = self.shared.linked.lock().keys().cloned().collect();
        let found: Vec<SandboxId> = self.shared.found.lock().keys().cloned().collect();
        let others = linked.iter().chain(&found).filter(|id| !ids.contains(id));
        // All are tried, whatever happens to one; the first failure is told.
        let results: Vec<_> = others.map(|id| self.take_away(id)).collect();
        results.into_iter().collect()
    }

    fn usage(&self, id: &SandboxId) -> Option<NetworkUsage> {
        self.shared.usage(id)
    }

    fn observe(&self, observer: Arc<dyn NetworkObserver>) {
        self.shared.book.observe(observer);
    }
}

impl Drop for HostNetwork {
    fn drop(&mut self) {
        self.watcher = None;
        if let Some(refusals) = self.refusals.take() {
            // It takes a moment to notice, and nobody has to wait for it: without a thread to wait
            // in, this one does.
            drop(std::thread::Builder::new().name("warren-end".to_owned()).spawn(move || drop(refusals)));
        }
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped by a thread that may not wait for others.
            runtime.shutdown_background();
        }
        self.close();
    }
}

impl fmt::Debug for HostNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostNetwork").field("block", &self.shared.maker.block).finish_non_exhaustive()
    }
}

impl fmt::Debug for NetworkOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkOptions")
            .field("data_dir", &self.data_dir)
            .field("kind", &self.kind)
            .field("subnet", &self.subnet)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
