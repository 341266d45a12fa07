//! The attached sandboxes and their policies. The proxies look here for every question and every
//! connection.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tokio::sync::watch;
use warren_core::network::{Decision, NetworkEntry, NetworkPolicy, NetworkRule, NetworkVerdict, Wish};
use warren_core::{NetworkObserver, Owner, SandboxId};

use crate::budget::Budget;
use crate::pins::Pins;

/// All that are attached, by id and by address.
#[derive(Default)]
pub(crate) struct Book {
    guests: RwLock<Guests>,
    observer: OnceLock<Arc<dyn NetworkObserver>>,
    /// Exceptions that the operator makes from the ranges that are closed to all.
    exceptions: Vec<NetworkRule>,
}

#[derive(Default)]
struct Guests {
    by_id: HashMap<SandboxId, Arc<Guest>>,
    by_address: HashMap<IpAddr, Arc<Guest>>,
}

/// One attached sandbox.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) id: SandboxId,
    pub(crate) owner: Owner,
    pub(crate) addresses: Vec<IpAddr>,
    /// Every one of these must allow what it does. Who waits for an answer waits for a change here.
    pub(crate) policies: watch::Sender<Arc<[NetworkPolicy]>>,
    /// The addresses that its questions were answered with.
    pub(crate) pins: Pins,
    /// How much it may ask.
    pub(crate) questions: Budget,
    pub(crate) figures: Figures,
}

/// The counters of one sandbox.
#[derive(Debug, Default)]
pub struct Figures {
    /// Connections through the proxy now.
    pub proxied: AtomicU64,
    pub denied: AtomicU64,
}

impl Book {
    pub(crate) fn new(exceptions: Vec<NetworkRule>) -> Self {
        Self { exceptions, ..Self::default() }
    }

    pub(crate) fn exceptions(&self) -> &[NetworkRule] {
        &self.exceptions
    }

    /// Only the first is heard.
    pub(crate) fn observe(&self, observer: Arc<dyn NetworkObserver>) {
        drop(self.observer.set(observer));
    }

    pub(crate) fn enter(&self, guest: Guest) -> Arc<Guest> {
        let guest = Arc::new(guest);
        let mut guests = self.guests.write();
        for address in &guest.addresses {
            guests.by_address.insert(*address, Arc::clone(&guest));
        }
        guests.by_id.insert(guest.id.clone(), Arc::clone(&guest));
        guest
    }

    /// Removes a sandbox. The sender of its policies closes, so all of its connections are cut.
    pub(crate) fn leave(&self, id: &SandboxId) -> Option<Arc<Guest>> {
        let mut guests = self.guests.write();
        let guest = guests.by_id.remove(id)?;
        for address in &guest.addresses {
            guests.by_address.remove(address);
        }
        guest.policies.send_replace(Arc::from([NetworkPolicy::none()]));
        Some(guest)
    }

    pub(crate) fn by_id(&self, id: &SandboxId) -> Option<Arc<Guest>> {
        self.guests.read().by_id.get(id).cloned()
    }

    /// The sandbox that sends from this address. The kernel has made sure that no other one does.
    pub(crate) fn by_address(&self, address: IpAddr) -> Option<Arc<Guest>> {
        self.guests.read().by_address.get(&address).cloned()
    }

    /// Decides a wish by all policies: one that any of them denies is denied, and one that any asks
    /// about is asked.
    pub(crate) fn decide(&self, guest: &Guest, wish: &Wish<'_>) -> Decision {
        let policies = Arc::clone(&guest.policies.borrow());
        let now_unix_ms = unix_ms();
        let mut sofar = None;
        for policy in policies.iter() {
            match policy.decide(wish, &self.exceptions, now_unix_ms) {
                denied @ Decision::Denied(_) => return denied,
                Decision::Ask => sofar = Some(Decision::Ask),
                allowed @ Decision::Allowed(_) => sofar = sofar.or(Some(allowed)),
            }
        }
        // Without any policy nothing is open.
        sofar.unwrap_or(Decision::Denied(warren_core::network::Why::Mode(warren_core::NetworkMode::None)))
    }

    /// Tells the observer. Denials are counted.
    pub(crate) fn report(&self, guest: &Guest, entry: NetworkEntry) {
        if entry.verdict == NetworkVerdict::Denied {
            guest.figures.denied.fetch_add(entry.count.into(), Ordering::Relaxed);
        }
        if let Some(observer) = self.observer.get() {
            observer.saw(&guest.id, entry);
        }
    }
}

impl Guest {
    pub(crate) fn new(
        id: SandboxId,
        owner: Owner,
        addresses: Vec<IpAddr>,
        policies: &[NetworkPolicy],
    ) -> Self {
        Self {
            id,
            owner,
            addresses,
            policies: watch::Sender::new(Arc::from(policies)),
            pins: Pins::default(),
            questions: Budget::default(),
            figures: Figures::default(),
        }
    }
}

/// Milliseconds since 1970, for what expires by the calendar.
pub(crate) fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Book").finish_non_exhaustive()
    }
}
