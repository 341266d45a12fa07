//! One sandbox's link, from its attachment to its end.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use warren_core::network::{NetworkErrorKind, NetworkLimits, SecretName};
use warren_core::{Attachment, NetworkError, NetworkPolicy, NetworkUsage, Owner, SandboxId};

use super::{HostNetwork, NetworkState};
use crate::book::{Guest, unix_ms};
use crate::claims::DomainKind;
use crate::links;
use crate::netlink::{NetlinkError, Protocol, Socket};
use crate::nft::LinkRules;
use crate::place::Place;
use crate::rules::{Rules, next_change};
use crate::stock::MakeError;

/// When to try again what failed, in milliseconds.
const AGAIN_MS: u64 = 1000;

/// A sandbox that is attached.
#[derive(Debug)]
pub(super) struct Linked {
    place: Place,
    guest: Arc<Guest>,
    /// Held while its rules change.
    applied: Mutex<Applied>,
}

/// The state that the kernel was given last.
#[derive(Debug, Clone, Copy)]
struct Applied {
    limits: NetworkLimits,
    /// When its policies mean something else by themselves.
    until_unix_ms: Option<u64>,
}

impl HostNetwork {
    pub(super) fn attach_new(
        &self,
        id: &SandboxId,
        owner: &Owner,
        policy: &NetworkPolicy,
    ) -> Result<Attachment, NetworkError> {
        self.shared.check_secrets(owner, policy)?;
        self.take_away(id)?;
        let pair = self.stock.take().map_err(not_made)?;
        let (place, namespace) = (pair.place, pair.namespace);
        let noted = self.shared.ledger.write(place, pair.index, id);
        let noted = noted.map_err(|error| host(format!("write down whose the link `{place}` is"), error));
        let linked =
            noted.and_then(|()| self.shared.introduce(id, owner, policy, place, Some(namespace.as_fd())));
        match linked {
            Ok(addresses) => {
                if let Some(reaper) = &self.reaper {
                    reaper.describe(place, self.shared.maker.domain.link_owner(Some(id)));
                }
                let env = self.shared.environment_of(policy);
                Ok(Attachment { namespace: Some(namespace), addresses, env })
            }
            Err(error) => {
                // Once: a number that is given back twice would be two sandboxes'.
                let is_linked = self.shared.linked.lock().contains_key(id);
                if is_linked {
                    drop(self.take_away(id))
                } else {
                    self.remove_link(place)
                }
                Err(error)
            }
        }
    }

    pub(super) fn adopt_found(
        &self,
        id: &SandboxId,
        owner: &Owner,
        policy: &NetworkPolicy,
    ) -> Result<Attachment, NetworkError> {
        let place = match self.shared.linked.lock().get(id) {
            Some(linked) => Some(linked.place),
            None => self.shared.found.lock().get(id).copied(),
        };
        let Some(place) = place else {
            return Err(NetworkError::new(
                NetworkErrorKind::NotFound,
                format!("find the link of sandbox {id}"),
            ));
        };
        let addresses = self.shared.introduce(id, owner, policy, place, None)?;
        self.shared.found.lock().remove(id);
        Ok(Attachment { namespace: None, addresses, env: self.shared.environment_of(policy) })
    }

    /// Closed at once; the link itself goes a little later.
    pub(super) fn take_away(&self, id: &SandboxId) -> Result<(), NetworkError> {
        let linked = self.shared.linked.lock().get(id).cloned();
        // Nobody changes its rules any more.
        let _applied = linked.as_ref().map(|linked| linked.applied.lock());
        self.shared.linked.lock().remove(id);
        let found = self.shared.found.lock().remove(id);
        let Some(place) = linked.as_ref().map(|linked| linked.place).or(found) else { return Ok(()) };
        self.shared.book.leave(id);
        let closed = self.shared.table.remove(&place.link());
        self.remove_link(place);
        closed.map_err(|error| host(format!("close the link of sandbox {id}"), error))
    }

    fn remove_link(&self, place: Place) {
        self.shared.ledger.erase(place);
        match &self.reaper {
            // The kernel takes tens of milliseconds to remove a link, and a command would wait for
            // it.
            Some(reaper) if self.kind == DomainKind::Run => reaper.let_go(place),
            Some(reaper) => reaper.remove(place),
            None => {}
        }
    }
}

impl NetworkState {
    /// Variables for a sandbox. The authority is named only where secrets are put in: elsewhere the
    /// template's own list holds.
    fn environment_of(&self, policy: &NetworkPolicy) -> Vec<String> {
        if policy.secrets.is_empty() { Vec::new() } else { self.environment.clone() }
    }

    /// Makes a link a sandbox's: everybody is told, the table last.
    fn introduce(
        &self,
        id: &SandboxId,
        owner: &Owner,
        policy: &NetworkPolicy,
        place: Place,
        namespace: Option<BorrowedFd<'_>>,
    ) -> Result<Vec<IpAddr>, NetworkError> {
        let policies = std::slice::from_ref(policy);
        let now = unix_ms();
        let rules = Rules::of(policies, now);
        self.shape(place, namespace, NetworkLimits::default(), rules.limits)?;
        let addresses = self.maker.addresses(place);
        let guest = self.book.enter(Guest::new(id.clone(), owner.clone(), addresses.clone(), policies));
        let applied = Applied { limits: rules.limits, until_unix_ms: next_change(policies, now) };
        let linked = Linked { place, guest, applied: Mutex::new(applied) };
        self.linked.lock().insert(id.clone(), Arc::new(linked));
        self.put(place, rules).map_err(|error| host(format!("open the link of sandbox {id}"), error))?;
        Ok(addresses)
    }

    /// Tightens, then tells the proxies, then relaxes.
    pub(super) fn change(&self, id: &SandboxId, policies: &[NetworkPolicy]) -> Result<(), NetworkError> {
        let linked = self.linked.lock().get(id).cloned();
        let Some(linked) = linked else {
            return Err(NetworkError::new(
                NetworkErrorKind::NotFound,
                format!("find the link of sandbox {id}"),
            ));
        };
        let mut applied = linked.applied.lock();
        let now = unix_ms();
        let old = Arc::clone(&linked.guest.policies.borrow());
        let both: Arc<[NetworkPolicy]> = old.iter().chain(policies).cloned().collect();
        let failed = |error: NetlinkError| host(format!("change the rules of sandbox {id}"), error);

        let tight = Rules::of(&both, now);
        self.put(linked.place, tight).map_err(failed)?;
        linked.guest.policies.send_replace(Arc::clone(&both));
        let rules = Rules::of(policies, now);
        self.shape(linked.place, None, applied.limits, rules.limits)?;
        applied.limits = rules.limits;
        linked.guest.policies.send_replace(Arc::from(policies));
        // Until the kernel agrees, the proxies allow no more than it did before.
        self.put(linked.place, rules).map_err(|error| {
            linked.guest.policies.send_replace(both);
            failed(error)
        })?;
        applied.until_unix_ms = next_change(policies, now);
        Ok(())
    }

    /// Applies what has come to mean something else with time. Tells when that is next.
    pub(super) fn follow_time(&self, now_unix_ms: u64) -> Option<u64> {
        let all: Vec<Arc<Linked>> = self.linked.lock().values().cloned().collect();
        all.iter().filter_map(|linked| self.follow(linked, now_unix_ms)).min()
    }

    fn follow(&self, linked: &Linked, now_unix_ms: u64) -> Option<u64> {
        let mut applied = linked.applied.lock();
        let until = applied.until_unix_ms?;
        if until > now_unix_ms {
            return Some(until);
        }
        let policies = Arc::clone(&linked.guest.policies.borrow());
        // One that was taken away meanwhile has no rules, and gets none.
        let is_here = self.linked.lock().get(&linked.guest.id).is_some_and(|here| here.place == linked.place);
        if is_here && let Err(error) = self.put(linked.place, Rules::of(&policies, now_unix_ms)) {
            tracing::error!(sandbox.id = %linked.guest.id, %error, "what is over could not be closed");
            return Some(now_unix_ms + AGAIN_MS);
        }
        // Who waits, or has a connection that was allowed for a while, looks again.
        linked.guest.policies.send_modify(|_| {});
        applied.until_unix_ms = next_change(&policies, now_unix_ms);
        applied.until_unix_ms
    }

    fn put(&self, place: Place, rules: Rules) -> Result<(), NetlinkError> {
        let addresses = self.maker.addresses(place);
        self.table.put(&LinkRules { link: place.link(), mac: place.mac(), addresses, rules })
    }

    /// Limits both directions: at the host's end what goes to the sandbox, at the sandbox's what
    /// comes from it.
    fn shape(
        &self,
        place: Place,
        namespace: Option<BorrowedFd<'_>>,
        old: NetworkLimits,
        new: NetworkLimits,
    ) -> Result<(), NetworkError> {
        let failed = |error: io::Error| host(format!("limit the bandwidth of `{place}`"), error);
        if old.down_bytes_per_s != new.down_bytes_per_s {
            let mut socket = self.socket.lock();
            let shaped = links::shape(&mut socket, &place.link(), new.down_bytes_per_s);
            shaped.map_err(|error| failed(error.into()))?;
        }
        if old.up_bytes_per_s != new.up_bytes_per_s {
            let inside = self.shape_inside(place, namespace, new.up_bytes_per_s);
            inside.map_err(failed)?;
        }
        Ok(())
    }

    fn shape_inside(
        &self,
        place: Place,
        namespace: Option<BorrowedFd<'_>>,
        rate: Option<u64>,
    ) -> io::Result<()> {
        let found;
        let namespace = match namespace {
            Some(given) => given,
            None => {
                found = self.namespace_of(place)?;
                found.as_fd()
            }
        };
        let mut socket = Socket::open_in(Protocol::Route, namespace)?;
        Ok(links::shape(&mut socket, links::INSIDE, rate)?)
    }

    fn namespace_of(&self, place: Place) -> io::Result<std::os::fd::OwnedFd> {
        let mut socket = self.socket.lock();
        let number = links::find(&mut socket, place)?.and_then(|link| link.namespace);
        let found = number.and_then(|number| links::find_namespace(&mut socket, number));
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no process is in the sandbox's network"))
    }

    pub(super) fn usage(&self, id: &SandboxId) -> Option<NetworkUsage> {
        let linked = self.linked.lock().get(id).cloned()?;
        let traffic = links::traffic(&mut self.socket.lock(), linked.place).ok().flatten()?;
        let figures = &linked.guest.figures;
        // What the host's end sends, the sandbox receives.
        Some(NetworkUsage {
            received_bytes: traffic.sent_bytes,
            sent_bytes: traffic.received_bytes,
            received_packets: traffic.sent_packets,
            sent_packets: traffic.received_packets,
            proxied: figures.proxied.load(std::sync::atomic::Ordering::Relaxed),
            denied: figures.denied.load(std::sync::atomic::Ordering::Relaxed),
        })
    }

    fn check_secrets(&self, owner: &Owner, policy: &NetworkPolicy) -> Result<(), NetworkError> {
        if policy.secrets.is_empty() {
            return Ok(());
        }
        let missing = |name: &SecretName| {
            NetworkError::new(NetworkErrorKind::NoSecret, format!("find the secret `{name}`"))
        };
        let known = match &self.secrets {
            Some(secrets) => {
                secrets.secrets(owner).map_err(|error| host("read the secrets".to_owned(), error))?
            }
            None => Vec::new(),
        };
        match policy.secrets.iter().find(|name| !known.iter().any(|record| record.name == **name)) {
            Some(name) => Err(missing(name)),
            None => Ok(()),
        }
    }
}

fn not_made(error: MakeError) -> NetworkError {
    let kind = match error {
        MakeError::Exhausted => NetworkErrorKind::Exhausted,
        MakeError::Namespace(_) | MakeError::Link { .. } => NetworkErrorKind::Host,
    };
    NetworkError::caused(kind, "make a link", error)
}

fn host(action: String, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> NetworkError {
    NetworkError::caused(NetworkErrorKind::Host, action, source)
}
