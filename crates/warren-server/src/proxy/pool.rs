//! Connections to applications that wait for their next request, each for one port in one life of
//! one sandbox: another life finds none of them, whatever else is the same. A connection that waits
//! does not keep the sandbox awake.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Body;
use hyper::client::conn::http1::SendRequest;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use warren_core::{Owner, SandboxId};
use warren_engine::LifeMark;

use super::Target;
use crate::config::Ports;

/// Connections that wait for one port at most.
const MOST_WAITING: usize = 64;

/// Ports of a sandbox for which connections wait.
const MOST_PORTS: usize = 16;

/// How long one waits. Most servers hang up later than that.
const PATIENCE: Duration = Duration::from_secs(15);

/// How often those are looked for whose time is over.
const SWEEP: Duration = Duration::from_secs(5);

/// See the module's documentation.
pub(super) struct Pool {
    places: Mutex<HashMap<SandboxId, Place>>,
    visitors: Mutex<HashMap<Owner, Weak<Semaphore>>>,
    /// Requests and upgraded connections of one sandbox at a time.
    most: usize,
    /// Connections of one owner's visitors, who have no key.
    most_visitors: usize,
}

/// The right to use a sandbox's ports once.
pub(super) struct Permit {
    _of_sandbox: OwnedSemaphorePermit,
    _of_owner: Option<OwnedSemaphorePermit>,
}

struct Place {
    life: LifeMark,
    permits: Arc<Semaphore>,
    waiting: HashMap<u16, Vec<Waiting>>,
}

struct Waiting {
    connection: SendRequest<Body>,
    since: Instant,
}

impl Pool {
    pub(super) fn new(ports: &Ports) -> Self {
        let size = |value| usize::try_from(value).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self {
            places: Mutex::default(),
            visitors: Mutex::default(),
            most: size(ports.max_connections),
            most_visitors: size(ports.max_visitors_per_owner),
        }
    }

    /// The right to use the sandbox's ports once; `None` if too many do, of the sandbox or, without
    /// a key, of its owner.
    pub(super) fn permit(
        &self,
        (sandbox, life): (&SandboxId, &LifeMark),
        visited: Option<&Owner>,
    ) -> Option<Permit> {
        let of_owner = match visited {
            Some(owner) => Some(self.visitor_of(owner)?),
            None => None,
        };
        Some(Permit { _of_sandbox: self.of_sandbox(sandbox, life)?, _of_owner: of_owner })
    }

    fn visitor_of(&self, owner: &Owner) -> Option<OwnedSemaphorePermit> {
        let mut visitors = self.visitors.lock();
        let permits = visitors.get(owner).and_then(Weak::upgrade).unwrap_or_else(|| {
            visitors.retain(|_, permits| permits.strong_count() > 0);
            let permits = Arc::new(Semaphore::new(self.most_visitors));
            visitors.insert(owner.clone(), Arc::downgrade(&permits));
            permits
        });
        permits.try_acquire_owned().ok()
    }

    fn of_sandbox(&self, sandbox: &SandboxId, life: &LifeMark) -> Option<OwnedSemaphorePermit> {
        let mut places = self.places();
        let place = places.entry(sandbox.clone()).or_insert_with(|| Place {
            life: life.clone(),
            permits: Arc::new(Semaphore::new(self.most)),
            waiting: HashMap::new(),
        });
        if place.life != *life {
            place.life = life.clone();
            place.waiting.clear();
        }
        Arc::clone(&place.permits).try_acquire_owned().ok()
    }

    /// A connection that waits for a request to this port in this life.
    pub(super) fn take(&self, target: &Target, life: &LifeMark) -> Option<SendRequest<Body>> {
        let mut places = self.places();
        let place = places.get_mut(&target.sandbox).filter(|place| place.life == *life)?;
        let waiting = place.waiting.get_mut(&target.port)?;
        while let Some(Waiting { connection, since }) = waiting.pop() {
            if connection.is_ready() && since.elapsed() < PATIENCE {
                return Some(connection);
            }
        }
        None
    }

    /// Lets a connection wait, if it can be of use again.
    pub(super) fn put(&self, target: &Target, life: &LifeMark, connection: SendRequest<Body>) {
        let mut places = self.places();
        let Some(place) = places.get_mut(&target.sandbox).filter(|place| place.life == *life) else { return };
        if !place.waiting.contains_key(&target.port) && place.waiting.len() >= MOST_PORTS {
            return;
        }
        let waiting = place.waiting.entry(target.port).or_default();
        if waiting.len() < MOST_WAITING {
            waiting.push(Waiting { connection, since: Instant::now() });
        }
    }

    /// Drops connections that nobody needs any more.
    fn clear(&self) {
        self.places().retain(|_, place| {
            let over = place.life.is_over();
            place.waiting.retain(|_, waiting| {
                waiting.retain(|one| !over && one.connection.is_ready() && one.since.elapsed() < PATIENCE);
                !waiting.is_empty()
            });
            !place.waiting.is_empty() || place.permits.available_permits() < self.most
        });
    }

    fn places(&self) -> MutexGuard<'_, HashMap<SandboxId, Place>> {
        self.places.lock()
    }
}

/// Clears the pool now and then, for as long as somebody has it.
pub(super) async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.clear();
    }
}
