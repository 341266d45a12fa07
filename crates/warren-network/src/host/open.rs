//! Opening: from an empty machine, or from what an earlier process has left, to a network that is
//! ready.

use std::collections::HashSet;
use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use warren_core::Networks;
use warren_core::network::Cidr;

use super::proxies::{self, Sockets};
use super::reaper::Reaper;
use super::watcher::Watcher;
use super::{HostNetwork, NetworkOptions, NetworkState};
use crate::book::Book;
use crate::ca::{self, Authority, AuthorityError};
use crate::claims::{Claim, ClaimError, DomainKind};
use crate::domain::{self, TakenBlock};
use crate::edge::{Edge, EdgeParts};
use crate::lease::Lease;
use crate::ledger::Ledger;
use crate::links::{self, Guard};
use crate::managers;
use crate::namespace;
use crate::netlink::{Protocol, Socket};
use crate::nft::{Skeleton, Table};
use crate::numbers::Numbers;
use crate::place::{self, NUMBERS};
use crate::probe;
use crate::refusals::Refusals;
use crate::rules::Reach;
use crate::stock::{Maker, Stock};

/// Why a process cannot give sandboxes a network.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("subnet: `{0}` is not a network of IPv4 with a prefix of 16, such as 10.213.0.0/16")]
    Subnet(Cidr),
    #[error("the rights to make links and rules are missing (CAP_NET_ADMIN and CAP_SYS_ADMIN): run as root")]
    Rights,
    #[error("subnet: `{subnet}` has {address} in it, an address of this machine: set another one")]
    OwnAddress { subnet: Cidr, address: IpAddr },
    #[error("claim the networks of the data directory")]
    Claim(#[source] ClaimError),
    #[error("open the certificate authority")]
    Authority(#[source] AuthorityError),
    #[error("{action}")]
    Host { action: &'static str, source: Box<dyn Error + Send + Sync> },
}

impl OpenError {
    fn host<E: Into<Box<dyn Error + Send + Sync>>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Host { action, source: source.into() }
    }
}

impl HostNetwork {
    /// Takes over what this domain had before, and removes what dead commands of the data directory
    /// have left. Sandboxes that were attached stay closed or open as they were until they are
    /// adopted.
    pub fn open(options: NetworkOptions) -> Result<Self, OpenError> {
        if !options.subnet.address().is_ipv4() || options.subnet.prefix() != 16 {
            return Err(OpenError::Subnet(options.subnet));
        }
        if !probe::has_rights() {
            return Err(OpenError::Rights);
        }
        let mut socket =
            Socket::open(Protocol::Route).map_err(OpenError::host("talk to the kernel about links"))?;
        keep_apart(&mut socket, options.subnet)?;
        let mut claim = Claim::take(&options.data_dir, options.kind).map_err(OpenError::Claim)?;
        let ledger = Ledger::open(&options.data_dir).map_err(OpenError::host("open the ledger of links"))?;
        claim.begin();
        let lease = claim.lease.take();
        if lease.is_none() || !claim.is_tidy {
            domain::clear_dead(&claim, &mut socket)
                .and_then(|()| domain::clear_abandoned(&claim, &mut socket))
                .map_err(OpenError::host("remove what dead processes have left"))?;
        }
        managers::tell();
        forward().map_err(OpenError::host("switch forwarding on"))?;
        let v6 = probe::has_v6();
        let resumed = lease.as_ref().and_then(|lease| resume(&options, &claim, lease, v6, &mut socket));
        let Ground { block: TakenBlock { table, links }, guard, sockets } = match resumed {
            Some(ground) => ground,
            None => begin(&options, &claim, &ledger, v6, &mut socket)?,
        };
        let (block, start) = (table.block(), lease.map(|lease| lease.next));
        let ports = sockets.ports().map_err(OpenError::host("name the proxies' sockets"))?;
        let maker = Arc::new(maker(&claim, start, block, options.subnet, v6, &links));
        // A command needs one, and has other things to do meanwhile.
        let stock = match (options.kind, options.prepared) {
            (DomainKind::Run, 0) => Stock::start_with_one(Arc::clone(&maker)),
            (_, prepared) => Stock::start(Arc::clone(&maker), prepared),
        };
        let stock = stock.map_err(OpenError::host("start the maker of links"))?;

        let book = Arc::new(Book::new(options.exceptions.clone()));
        let edge = edge(&options, &book)?;
        let environment = edge.as_ref().map_or_else(Vec::new, |_| ca::environment());
        let runtime =
            proxies::start(&options, &book, edge, sockets).map_err(OpenError::host("start the proxies"))?;

        let refusals = refusals(block, &book);
        let found = links.into_iter().filter_map(|(link, owner)| Some((owner.sandbox?, link.place)));
        let shared = Arc::new(NetworkState {
            book,
            table,
            guard,
            ledger,
            maker: Arc::clone(&maker),
            socket: Mutex::new(socket),
            linked: Mutex::default(),
            found: Mutex::new(found.collect()),
            secrets: options.secrets.clone(),
            environment,
        });
        let watcher = Watcher::start(Arc::clone(&shared)).map_err(OpenError::host("start the watcher"))?;
        let reaper = Reaper::start(Arc::clone(&maker)).map_err(OpenError::host("start the reaper"))?;
        Ok(Self {
            watcher: Some(watcher),
            refusals,
            runtime: Some(runtime),
            shared,
            stock,
            reaper: Some(reaper),
            kind: options.kind,
            ports,
            claim,
        })
    }

    /// Takes away what nobody will come back to. What cannot be taken away now, the next to open
    /// the data directory does.
    pub(super) fn close(&mut self) {
        if self.kind == DomainKind::Run {
            drop(self.retain(&HashSet::new()));
        }
        let prepared = self.stock.close();
        if let Some(reaper) = self.reaper.take() {
            prepared.iter().for_each(|pair| reaper.remove(pair.place));
        }
        let is_empty = self.shared.linked.lock().is_empty() && self.shared.found.lock().is_empty();
        if is_empty && self.kind == DomainKind::Run && self.leave() {
            return;
        }
        if is_empty {
            match self.shared.table.delete().and_then(|()| self.shared.guard.lift()) {
                Ok(()) => self.claim.tidy(),
                Err(error) => tracing::warn!(%error, "the table or its guard could not be removed"),
            }
        }
    }

    /// Leaves table and guard to the next command, with no link in them. False if they have to go.
    fn leave(&mut self) -> bool {
        let shared = &self.shared;
        let next = shared.maker.numbers.lock().next();
        let lease = shared.table.imprint().zip(next).map(|(imprint, next)| Lease {
            block: shared.maker.block,
            next,
            imprint,
            ports: self.ports,
        });
        let left = lease.map(|lease| self.claim.leave(&lease));
        matches!(left, Some(Ok(true)))
    }
}

/// All that links and proxies stand on.
struct Ground {
    block: TakenBlock,
    guard: Guard,
    sockets: Sockets,
}

/// From what a command before has left, if all is as it was and as it would be made now.
fn resume(
    options: &NetworkOptions,
    claim: &Claim,
    lease: &Lease,
    v6: bool,
    socket: &mut Socket,
) -> Option<Ground> {
    let block = lease.block;
    // First: whoever has the ports, nothing leads there that is a sandbox's.
    let sockets = Sockets::open_at(v6.then(|| place::proxy_v6(block)), lease.ports).ok()?;
    let skeleton = skeleton(options, &sockets).ok()?;
    let owner = claim.domain.to_string();
    let table = Table::resume(block, &owner, &skeleton, lease.imprint).ok().flatten()?;
    let guard = Guard::new(block, options.subnet).ok()?;
    guard.hold().ok()?;
    // Links of those before that are on their way out: the table does not know them.
    let links = domain::leaving(block, socket).ok()?;
    Some(Ground { block: TakenBlock { table, links }, guard, sockets })
}

/// From the beginning, or from where a process of the domain was when it ended.
fn begin(
    options: &NetworkOptions,
    claim: &Claim,
    ledger: &Ledger,
    v6: bool,
    socket: &mut Socket,
) -> Result<Ground, OpenError> {
    let block = domain::settle(claim, ledger, socket)
        .map_err(OpenError::host("have a block of addresses and a table of nftables"))?;
    let table = &block.table;
    let guard = Guard::new(table.block(), options.subnet).map_err(OpenError::host("make the guard"))?;
    guard.hold().map_err(OpenError::host("keep what has no mark from being routed"))?;
    let sockets = Sockets::open(v6.then(|| place::proxy_v6(table.block())))
        .map_err(OpenError::host("listen on the gateway's address"))?;
    let skeleton = skeleton(options, &sockets).map_err(OpenError::host("name the proxies' sockets"))?;
    table.install(&skeleton).map_err(OpenError::host("put down the rules of nftables"))?;
    Ok(Ground { block, guard, sockets })
}

/// An error if the block has an address of the host: rules against sandboxes would then hit the
/// host itself.
fn keep_apart(socket: &mut Socket, subnet: Cidr) -> Result<(), OpenError> {
    let own = links::own_addresses(socket).map_err(OpenError::host("list the addresses of this machine"))?;
    match own.into_iter().find(|address| subnet.contains(*address)) {
        Some(address) => Err(OpenError::OwnAddress { subnet, address }),
        None => Ok(()),
    }
}

/// Packets go from link to link only where the host is a router.
fn forward() -> io::Result<()> {
    if namespace::sysctl("ipv4/ip_forward").as_deref() == Some("1") {
        return Ok(());
    }
    tracing::info!("switching net.ipv4.ip_forward on: sandboxes' packets are forwarded");
    namespace::set_sysctl("ipv4/ip_forward", "1")
}

/// Without it, what the kernel refuses by itself is refused all the same.
fn refusals(block: u8, book: &Arc<Book>) -> Option<Refusals> {
    let heard = Refusals::start(block, Arc::clone(book));
    heard.inspect_err(|error| tracing::warn!(%error, "refused packets cannot be heard of")).ok()
}

fn skeleton(options: &NetworkOptions, sockets: &Sockets) -> io::Result<Skeleton> {
    Ok(Skeleton {
        subnets: [Some(options.subnet), place::all_v6()].into_iter().flatten().collect(),
        dns: sockets.dns()?,
        egress: sockets.egress()?,
        exceptions: Reach::of(&options.exceptions),
    })
}

fn maker(
    claim: &Claim,
    start: Option<u16>,
    block: u8,
    subnet: Cidr,
    v6: bool,
    links: &[(links::FoundLink, crate::claims::LinkOwner)],
) -> Maker {
    let taken: HashSet<u16> = links.iter().map(|(link, _)| link.place.number).collect();
    // Without chance, the beginning: then numbers of before are given a little sooner.
    let drawn =
        || getrandom::u32().map_or(0, |number| u16::try_from(number % u32::from(NUMBERS)).unwrap_or(0));
    let start = start.unwrap_or_else(drawn);
    let numbers = Mutex::new(Numbers::new(start, &taken));
    Maker { block, subnet, v6, domain: claim.domain.clone(), numbers }
}

fn edge(options: &NetworkOptions, book: &Arc<Book>) -> Result<Option<Arc<Edge>>, OpenError> {
    let Some(secrets) = &options.secrets else { return Ok(None) };
    let authority = Authority::open(&options.data_dir.join("ca")).map_err(OpenError::Authority)?;
    let parts = EdgeParts {
        secrets: Arc::clone(secrets),
        book: Arc::clone(book),
        authority: Arc::new(authority),
        extra_ca: options.extra_ca.clone(),
    };
    let edge = Edge::new(parts).map_err(OpenError::host("read the certificates of extra_ca"))?;
    Ok(Some(Arc::new(edge)))
}
