//! Links that nobody has yet, made ahead of time: a namespace and a pair take a thousand times as
//! long to make as to give away.
//!
//! Nothing passes a link in stock: no table knows it.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use warren_core::network::Cidr;

use crate::claims::Domain;
use crate::links;
use crate::namespace;
use crate::netlink::{Protocol, Socket};
use crate::numbers::Numbers;
use crate::place::Place;

/// How long the maker rests after a failure. Who takes from an empty stock makes its own and hears
/// why not.
const REST: Duration = Duration::from_secs(5);

/// While half of the stock is left, the maker waits until nobody has taken one for this long: who
/// takes one is about to start a sandbox, and needs the processors and the kernel's locks.
const QUIET: Duration = Duration::from_millis(50);

/// A link with its namespace.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) place: Place,
    /// The kernel's number of the host's end.
    pub(crate) index: u32,
    pub(crate) namespace: OwnedFd,
}

/// Makes links in one block.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) block: u8,
    pub(crate) subnet: Cidr,
    /// Set if sandboxes have IPv6 too.
    pub(crate) v6: bool,
    pub(crate) domain: Domain,
    pub(crate) numbers: Mutex<Numbers>,
}

/// No link could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    #[error("all addresses are in use, or were until a moment ago")]
    Exhausted,
    #[error("make a network namespace")]
    Namespace(#[source] io::Error),
    #[error("make the link `{link}`")]
    Link { link: Place, source: io::Error },
}

impl Maker {
    /// Makes a link. The calling thread stays where it is.
    pub(crate) fn make(&self, socket: &mut Socket) -> Result<Pair, MakeError> {
        let number = self.numbers.lock().take(Instant::now()).ok_or(MakeError::Exhausted)?;
        let place = Place { block: self.block, number };
        self.make_at(socket, place).inspect_err(|_| {
            drop(links::remove(socket, &[place], crate::place::doomed(self.block)));
            self.give_back(place);
        })
    }

    fn make_at(&self, socket: &mut Socket, place: Place) -> Result<Pair, MakeError> {
        let (namespace, mut inside) = links::found(self.v6).map_err(MakeError::Namespace)?;
        let failed = |source: io::Error| MakeError::Link { link: place, source };
        let index = links::create(socket, place, self.subnet, namespace.as_fd(), self.v6)
            .map_err(|error| failed(error.into()))?;
        let owner = self.domain.link_owner(None).to_string();
        links::describe(socket, place, &owner).map_err(|error| failed(error.into()))?;
        close_v6(place, self.v6).map_err(failed)?;
        links::settle(&mut inside, place, self.subnet, self.v6).map_err(|error| failed(error.into()))?;
        links::find(socket, place).map_err(|error| failed(error.into()))?;
        Ok(Pair { place, index, namespace })
    }

    /// A sandbox's addresses there.
    pub(crate) fn addresses(&self, place: Place) -> Vec<IpAddr> {
        let v6 = self.v6.then(|| IpAddr::V6(place.v6()));
        [Some(IpAddr::V4(place.v4(self.subnet))), v6].into_iter().flatten().collect()
    }

    /// The number rests before anybody has it again.
    pub(crate) fn give_back(&self, place: Place) {
        self.numbers.lock().give_back(place.number, Instant::now());
    }
}

/// No sandbox tells the host about routers, and without IPv6 there is nothing to tell.
fn close_v6(place: Place, v6: bool) -> io::Result<()> {
    if namespace::sysctl("ipv6/conf/all/disable_ipv6").is_none() {
        return Ok(());
    }
    if v6 {
        namespace::set_sysctl(&format!("ipv6/conf/{place}/accept_ra"), "0")
    } else {
        namespace::set_sysctl(&format!("ipv6/conf/{place}/disable_ipv6"), "1")
    }
}

/// Links that are ready to use. Dropping it ends the thread; links that are left have to be taken
/// out.
#[derive(Debug)]
pub(crate) struct Stock {
    maker: Arc<Maker>,
    shelf: Arc<Shelf>,
    thread: Option<JoinHandle<()>>,
    /// The first link, if it is being made.
    first: Mutex<Option<JoinHandle<Result<Pair, MakeError>>>>,
}

#[derive(Debug)]
struct Shelf {
    state: Mutex<State>,
    changed: Condvar,
    /// How many are to be ready.
    wanted: usize,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Pair>,
    last_taken: Option<Instant>,
    is_closed: bool,
}

impl State {
    /// The rest of the time that the maker leaves to those who take.
    fn quiet_left(&self, wanted: usize) -> Option<Duration> {
        let since = self.last_taken.filter(|_| self.ready.len() * 2 >= wanted)?.elapsed();
        QUIET.checked_sub(since).filter(|left| !left.is_zero())
    }
}

impl Stock {
    /// Keeps so many ready, in a thread of its own.
    pub(crate) fn start(maker: Arc<Maker>, wanted: usize) -> io::Result<Self> {
        let shelf = Arc::new(Shelf { state: Mutex::default(), changed: Condvar::new(), wanted });
        let thread = if wanted == 0 {
            None
        } else {
            let (maker, shelf) = (Arc::clone(&maker), Arc::clone(&shelf));
            let work = move || shelf.fill(&maker);
            Some(std::thread::Builder::new().name("warren-links".to_owned()).spawn(work)?)
        };
        Ok(Self { maker, shelf, thread, first: Mutex::default() })
    }

    /// Begins to make one, for who will take it in a moment and then no more.
    pub(crate) fn start_with_one(maker: Arc<Maker>) -> io::Result<Self> {
        let own = Arc::clone(&maker);
        let work = move || make(&own);
        let first = std::thread::Builder::new().name("warren-links".to_owned()).spawn(work)?;
        let stock = Self::start(maker, 0)?;
        *stock.first.lock() = Some(first);
        Ok(stock)
    }

    /// One that is ready, or else one made now.
    pub(crate) fn take(&self) -> Result<Pair, MakeError> {
        let mut state = self.shelf.state.lock();
        let ready = state.ready.pop_front();
        state.last_taken = Some(Instant::now());
        // The maker wakes by itself where it only waits for quiet.
        if state.quiet_left(self.shelf.wanted).is_none() || state.ready.len() + 1 == self.shelf.wanted {
            self.shelf.changed.notify_all();
        }
        drop(state);
        if let Some(pair) = ready {
            return Ok(pair);
        }
        let first = self.first.lock().take();
        match first.map(JoinHandle::join) {
            Some(Ok(made)) => made,
            // Its thread panicked.
            Some(Err(_)) | None => make(&self.maker),
        }
    }

    pub(crate) fn ready(&self) -> usize {
        self.shelf.state.lock().ready.len()
    }

    /// Ends the making. The caller has to remove the links that are left.
    pub(crate) fn close(&mut self) -> Vec<Pair> {
        self.shelf.state.lock().is_closed = true;
        self.shelf.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        let first = self.first.lock().take().and_then(|first| first.join().ok()?.ok());
        self.shelf.state.lock().ready.drain(..).chain(first).collect()
    }
}

fn make(maker: &Maker) -> Result<Pair, MakeError> {
    let mut socket =
        Socket::open(Protocol::Route).map_err(|error| MakeError::Namespace(io::Error::from(error)))?;
    maker.make(&mut socket)
}

impl Shelf {
    fn fill(&self, maker: &Maker) {
        let mut socket = None;
        while self.wait(|state| state.ready.len() >= self.wanted, None) && self.wait_for_quiet() {
            let made = match &mut socket {
                Some(socket) => maker.make(socket),
                None => match Socket::open(Protocol::Route) {
                    Ok(opened) => maker.make(socket.insert(opened)),
                    Err(error) => Err(MakeError::Namespace(error.into())),
                },
            };
            match made {
                Ok(pair) => self.state.lock().ready.push_back(pair),
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "no link could be made ahead of time"
                    );
                    self.wait(|_| true, Some(REST));
                }
            }
        }
    }

    /// Waits until those who take pause, or half of the stock is gone. False when there is nothing
    /// more to do.
    fn wait_for_quiet(&self) -> bool {
        loop {
            let left = self.state.lock().quiet_left(self.wanted);
            let Some(left) = left else { return true };
            if !self.wait(|state| state.quiet_left(self.wanted).is_some(), Some(left)) {
                return false;
            }
        }
    }

    /// Waits as long as the condition holds, or so long. False when there is nothing more to do.
    fn wait(&self, holds: impl Fn(&State) -> bool, at_most: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        let waits = |state: &mut State| !state.is_closed && holds(state);
        match at_most {
            None => self.changed.wait_while(&mut state, waits),
            Some(patience) => drop(self.changed.wait_while_for(&mut state, waits, patience)),
        }
        !state.is_closed
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        drop(self.close());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::claims::LinkOwner;
    use crate::world::World;

    fn maker() -> Arc<Maker> {
        let domain = Domain { instance: "1".to_owned(), name: "serve".to_owned() };
        let numbers = Mutex::new(Numbers::new(1, &HashSet::new()));
        Arc::new(Maker { block: 2, subnet: "10.213.0.0/16".parse().unwrap(), v6: false, domain, numbers })
    }

    #[test]
    fn the_stock_refills_itself_and_gives_more_than_it_has() {
        let Some(world) = World::new() else { return };
        world.on_host(|| {
            let mut stock = Stock::start(maker(), 3).unwrap();
            let full = |stock: &Stock| {
                let deadline = Instant::now() + Duration::from_secs(60);
                while stock.ready() < 3 && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(5));
                }
                stock.ready()
            };
            assert_eq!(full(&stock), 3);
            let started = Instant::now();
            let taken: Vec<Pair> = (0..5).map(|_| stock.take().unwrap()).collect();
            println!("five links, three of them ready, take {:?}", started.elapsed());
            assert_eq!(full(&stock), 3);
            let mut socket = Socket::open(Protocol::Route).unwrap();
            let links = links::list(&mut socket).unwrap();
            assert_eq!(links.len(), 8);
            assert!(
                links
                    .iter()
                    .all(|link| LinkOwner::parse(&link.alias).is_some_and(|owner| owner.sandbox.is_none()))
            );
            let left = stock.close();
            let mut places: Vec<Place> = taken.iter().chain(&left).map(|pair| pair.place).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), 8, "no two are in the same place");
            let started = Instant::now();
            links::remove(&mut socket, &places, crate::place::doomed(2)).unwrap();
            println!("eight links are removed in {:?}", started.elapsed());
            assert_eq!(links::list(&mut socket).unwrap(), []);
        });
    }
}
