//! A sandbox's link to the world: made before it starts, changed while it exists, taken away when
//! its processes are gone.
//!
//! ```text
//! attach ─► create ─► … ─► set [old, new] ─► record ─► set [new] ─► … ─► halt ─► detach
//! ```

use std::net::IpAddr;
use std::sync::Arc;

use warren_core::catalog::Durability;
use warren_core::{Event, Need, NetworkError, NetworkPolicy, Networks, Request, SandboxId, SandboxRecord};

use super::Driver;
use crate::cell::NetworkChange;
use crate::error::sentence;
use crate::ports::blocking;
use crate::{Engine, EngineError, EngineStep};

/// The driver's knowledge of its sandbox's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// There is none.
    None,
    /// It obeys the record.
    Held,
    /// It is tighter than the record says, because a change failed.
    Behind,
    /// It is to be removed, and may still be there.
    Doomed,
}

/// The link of a sandbox that was found alive.
#[derive(Debug)]
pub(crate) enum Adopted {
    /// It has none, and should have none.
    NoLink,
    Linked(Vec<IpAddr>),
    /// It could not be taken over, for this reason, and was removed: nothing would enforce its
    /// policy.
    Lost(String),
}

impl Adopted {
    pub(crate) fn is_as_recorded(&self, record: &SandboxRecord) -> bool {
        match self {
            Self::NoLink => record.addresses.is_empty(),
            Self::Linked(addresses) => *addresses == record.addresses,
            Self::Lost(_) => false,
        }
    }
}

impl Driver {
    /// Changes where the sandbox may go.
    pub(super) async fn change_network(
        &mut self,
        change: NetworkChange,
        by: String,
    ) -> Result<(), EngineError> {
        if !self.record.is_live() && !self.record.files_kept() {
            return self.check(Request::Resume);
        }
        let now_unix_ms = self.engine.shared.parts.clock.unix_ms();
        let durability = match change {
            NetworkChange::Expire => Durability::Process,
            // A power cut must not bring back what somebody closed.
            NetworkChange::Replace(_) | NetworkChange::Grant(_) => Durability::Disk,
        };
        let new = change.apply(&self.record.spec.network, now_unix_ms)?;
        if new == self.record.spec.network {
            return Ok(());
        }
        self.check_new(&new)?;
        let mode = new.mode;
        match self.link {
            Link::Held | Link::Behind => self.change_link(new, durability).await?,
            Link::None | Link::Doomed => self.write_policy(new, durability).await?,
        }
        self.engine
            .shared
            .sightings
            .judge_asks(&self.record.id, |entry| self.engine.still_asks(&self.record.spec.network, entry));
        self.emit(Event::NetworkChanged { mode, by });
        Ok(())
    }

    fn check_new(&self, new: &NetworkPolicy) -> Result<(), EngineError> {
        self.engine.check_change(&self.record, new)?;
        if new.is_none() || !self.record.spec.network.is_none() {
            return Ok(());
        }
        self.cell.backend.require(Need::Network)?;
        match self.engine.why_no_link(new) {
            Some(why) => {
                let reasons = vec![(self.record.backend.clone(), why)];
                Err(EngineError::NothingFits { asked: None, reasons })
            }
            None => Ok(()),
        }
    }

    /// Tightens, writes, relaxes. If the process ends in between, the link is not looser than the
    /// record.
    async fn change_link(&mut self, new: NetworkPolicy, durability: Durability) -> Result<(), EngineError> {
        let both = vec![self.record.spec.network.clone(), new.clone()];
        let tightened = self.link(move |networks, id| networks.set(id, &both)).await;
        self.link = Link::Behind;
        if let Err(source) = tightened {
            self.straighten_link().await;
            return Err(EngineError::Network { id: self.record.id.clone(), source });
        }
        self.passed(EngineStep::NetworkTightened);
        if let Err(error) = self.write_policy(new, durability).await {
            self.straighten_link().await;
            return Err(error);
        }
        self.passed(EngineStep::NetworkWritten);
        if self.record.spec.network.is_none() {
            self.unlink().await;
        } else {
            self.straighten_link().await;
        }
        self.passed(EngineStep::NetworkRelaxed);
        Ok(())
    }

    async fn write_policy(&mut self, new: NetworkPolicy, durability: Durability) -> Result<(), EngineError> {
        self.write(durability, |record| {
            if new.is_none() {
                record.addresses.clear();
            }
            record.spec.network = new;
        })
        .await
    }

    /// Grants that are over are forgotten, and what only they allowed is cut.
    pub(super) async fn expire_grants(&mut self) -> Result<(), EngineError> {
        let now_unix_ms = self.engine.shared.parts.clock.unix_ms();
        match self.record.spec.network.next_expiry() {
            Some(expiry) if expiry <= now_unix_ms => {
                self.change_network(NetworkChange::Expire, "time".to_owned()).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Makes the link obey the record, or removes it. A failure is tried again later.
    pub(super) async fn straighten_link(&mut self) {
        match self.link {
            Link::None | Link::Held => {}
            Link::Doomed => self.unlink().await,
            Link::Behind => {
                let policy = self.record.spec.network.clone();
                match self.link(move |networks, id| networks.set(id, &[policy])).await {
                    Ok(()) => self.link = Link::Held,
                    Err(error) => {
                        self.engine.fault();
                        tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "a sandbox may reach less than its policy says");
                    }
                }
            }
        }
    }

    /// Removes the link. A failure is tried again later.
    pub(super) async fn unlink(&mut self) {
        if self.link == Link::None {
            return;
        }
        let engine = self.engine.inner();
        let id = self.record.id.clone();
        match blocking(move || engine.remove_link(&id)).await {
            Ok(()) => {
                self.link = Link::None;
                self.passed(EngineStep::NetworkDetached);
            }
            Err(error) => {
                self.link = Link::Doomed;
                self.engine.fault();
                tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "the link of a sandbox is still there");
            }
        }
    }

    /// Calls the networks on a thread.
    async fn link<R: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Networks, &SandboxId) -> R + Send + 'static,
    ) -> R {
        let (networks, id) = (Arc::clone(&self.engine.shared.parts.networks), self.record.id.clone());
        blocking(move || work(networks.as_ref(), &id)).await
    }

    /// Takes over what was found of an adopted sandbox's link. Returns the addresses if the record
    /// has to be corrected.
    pub(super) fn take_over_link(&mut self, adopted: Adopted) -> Option<Vec<IpAddr>> {
        let addresses = match adopted {
            Adopted::NoLink => Vec::new(),
            Adopted::Linked(addresses) => {
                self.link = Link::Held;
                addresses
            }
            Adopted::Lost(detail) => {
                self.engine.fault();
                tracing::error!(sandbox.id = %self.record.id, detail, "a sandbox runs on without its network");
                self.emit(Event::NetworkLost { detail });
                Vec::new()
            }
        };
        (addresses != self.record.addresses).then_some(addresses)
    }
}

impl Engine {
    /// Takes a link away, and remembers what went over it. Blocks.
    pub(crate) fn remove_link(&self, id: &SandboxId) -> Result<(), NetworkError> {
        let networks = &self.shared.parts.networks;
        let usage = networks.usage(id);
        networks.detach(id)?;
        if let Some(usage) = usage {
            self.shared.figures.link_ended(&usage);
        }
        Ok(())
    }

    /// Takes over the link of a sandbox that was found alive. One that cannot be taken over is cut.
    /// Blocks.
    pub(crate) fn adopt_link(&self, record: &SandboxRecord) -> Adopted {
        if record.spec.network.is_none() {
            return Adopted::NoLink;
        }
        match self.shared.parts.networks.adopt(&record.id, &record.owner, &record.spec.network) {
            Ok(attachment) => Adopted::Linked(attachment.addresses),
            Err(error) => {
                if let Err(error) = self.remove_link(&record.id) {
                    tracing::error!(sandbox.id = %record.id, error = sentence(&error), "the link of a sandbox is still there");
                }
                Adopted::Lost(sentence(&error))
            }
        }
    }
}
