//! One connection of one sandbox: what it asks for, whether it may, and for how long.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use warren_core::HostName;
use warren_core::network::{NetworkPolicy, NetworkVerdict, Protocol, Why};

use super::Egress;
use super::judge::{Basis, Goal, Judge, Verdict};
use super::meter::Slot;
use super::refusal::{Reason, Refusal};
use crate::book::{Guest, unix_ms};
use crate::dial::DialError;
use crate::dns::denied_alias;
use crate::report::Incident;

/// A refused connection stays open at most this much longer while the program behind it is looked
/// for.
const SEARCH: Duration = Duration::from_millis(100);

/// How often a client that has sent something is looked after while it waits.
const LOOK: Duration = Duration::from_millis(250);

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(super) egress: Arc<Egress>,
    pub(super) guest: Arc<Guest>,
    pub(super) client: SocketAddr,
    pub(super) goal: Goal,
    pub(super) port: u16,
    /// Held until the last part of the connection is over.
    pub(super) _slot: Slot,
}

/// The target that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Name(HostName),
    /// An address where a name could stand.
    Literal(IpAddr),
    /// No name where one should stand, or one that is none.
    Unnamed(Option<String>),
    /// A name, and behind it another that nobody but the server can read.
    Hidden(Option<String>),
    /// It speaks something that has no names.
    Raw,
}

/// Leave to connect.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    /// One of these.
    pub(crate) addresses: Vec<IpAddr>,
    asked: Asked,
    names: Vec<HostName>,
}

/// Changes of a sandbox's policies, to be waited for.
pub(crate) type Changes = watch::Receiver<Arc<[NetworkPolicy]>>;

impl Asked {
    pub(crate) fn shown(&self) -> Option<String> {
        match self {
            Self::Name(name) => Some(name.to_string()),
            Self::Literal(address) => Some(address.to_string()),
            Self::Unnamed(text) | Self::Hidden(text) => text.clone(),
            Self::Raw => None,
        }
    }
}

impl Admission {
    /// To one address, whatever was asked.
    pub(super) fn of(address: IpAddr, asked: Asked) -> Self {
        Self { addresses: vec![address], asked, names: Vec::new() }
    }

    /// The reason to let a connection to one of its addresses through.
    pub(crate) fn basis(&self, address: IpAddr) -> Basis {
        match &self.asked {
            Asked::Name(name) => Basis::Name(name.clone(), address),
            Asked::Literal(_) | Asked::Unnamed(_) | Asked::Hidden(_) | Asked::Raw => {
                Basis::Address(address, self.names.clone())
            }
        }
    }
}

impl Visit {
    pub(crate) fn judge(&self) -> Judge<'_> {
        Judge { book: &self.egress.book, guest: &self.guest, port: self.port }
    }

    /// Leave for what the client asks, or why not. Waits while somebody is asked.
    pub(crate) async fn admit(&self, asked: &Asked) -> Result<Admission, Refusal> {
        match self.settle(asked).await {
            Ok((admission, why)) => {
                self.tell_allowed(asked, &why);
                Ok(admission)
            }
            Err(reason) => Err(self.refuse(asked, reason).await),
        }
    }

    /// A refusal, which is told when it was decided here.
    pub(crate) async fn refuse(&self, asked: &Asked, reason: Reason) -> Refusal {
        if reason.is_denial() {
            self.tell_denied(asked, &reason).await;
        }
        Refusal { reason, host: asked.shown(), address: self.goal.address(), port: self.port }
    }

    /// As [`Self::admit`], for a connection that is closed when it is refused. `None` when the
    /// client did not wait.
    pub(crate) async fn admit_unless_gone(
        &self,
        asked: &Asked,
        stream: &TcpStream,
    ) -> Option<Result<Admission, Reason>> {
        let settled = tokio::select! {
            biased;
            settled = self.settle(asked) => settled,
            () = hung_up(stream) => return None,
        };
        Some(match settled {
            Ok((admission, why)) => {
                self.tell_allowed(asked, &why);
                Ok(admission)
            }
            Err(reason) => {
                if reason.is_denial() {
                    self.tell_denied(asked, &reason).await;
                }
                Err(reason)
            }
        })
    }

    /// True if a secret is for this target. A failure means that this is not known, and that the
    /// connection goes nowhere.
    pub(crate) async fn is_secret(&self, asked: &Asked) -> Result<bool, Reason> {
        let Asked::Name(name) = asked else { return Ok(false) };
        if self.guest.policies.borrow().iter().all(|policy| policy.secrets.is_empty()) {
            return Ok(false);
        }
        let edge = self.egress.edge.as_ref().ok_or(Reason::Secrets)?;
        edge.binds(&self.guest, name, self.port).await.map_err(|error| {
            tracing::warn!(sandbox.id = %self.guest.id, "cannot tell which secrets are for {name}: {}", error.in_full());
            Reason::Secrets
        })
    }

    /// Tells a refusal. The first of its kind waits a moment for its program to be found, which is
    /// gone when it has heard the answer.
    pub(crate) async fn tell_denied(&self, asked: &Asked, reason: &Reason) {
        if let Some(search) = self.tell(NetworkVerdict::Denied, asked, reason.rule()) {
            drop(timeout(SEARCH, search).await);
        }
    }

    /// Connects to one of the addresses that there is leave for.
    pub(crate) async fn connect(&self, admission: &Admission) -> Result<TcpStream, DialError> {
        self.egress.dialer.dial_any(&admission.addresses, self.port).await
    }

    /// Ends when what was let through is no longer allowed.
    pub(crate) async fn until_cut(&self, basis: Basis) {
        let mut changes = self.changes();
        while self.judge().still_allows(&basis) {
            self.change(&mut changes).await;
        }
    }

    /// The target of a connection in a protocol without names. A connection to the gateway came
    /// there by a name.
    pub(crate) fn asked_raw(&self) -> Asked {
        match self.goal {
            Goal::Gateway => self.guest.pins.stood_in().map_or(Asked::Raw, Asked::Name),
            Goal::Address(_) => Asked::Raw,
        }
    }

    pub(crate) fn changes(&self) -> Changes {
        self.guest.policies.subscribe()
    }

    /// Ends when another answer is possible than before: somebody changed the policy, or a grant is
    /// over.
    pub(crate) async fn change(&self, changes: &mut Changes) {
        let now = unix_ms();
        match self.judge().next_change(now) {
            Some(then) => {
                let over = sleep(Duration::from_millis(then - now));
                tokio::select! {
                    _ = changes.changed() => {}
                    () = over => {}
                }
            }
            None => drop(changes.changed().await),
        }
    }

    async fn settle(&self, asked: &Asked) -> Result<(Admission, Why), Reason> {
        let mut changes = self.changes();
        let patience = self.egress.ask_patience;
        let deadline = Instant::now() + patience;
        let mut is_told = false;
        loop {
            match self.verdict(asked)? {
                Verdict::Allowed(why) => return Ok((self.admission(asked)?, why)),
                Verdict::Unproven(why) => return self.resolve(asked, why).await,
                Verdict::Denied(Why::NoName) if matches!(asked, Asked::Hidden(_)) => {
                    return Err(Reason::Hidden);
                }
                Verdict::Denied(why) => return Err(Reason::Denied(why)),
                Verdict::Ask => {}
            }
            if !std::mem::replace(&mut is_told, true) {
                drop(self.tell(NetworkVerdict::Asked, asked, "somebody is asked".to_owned()));
            }
            tokio::select! {
                () = self.change(&mut changes) => {}
                () = sleep_until(deadline) => return Err(Reason::Unanswered(patience)),
            }
        }
    }

    fn verdict(&self, asked: &Asked) -> Result<Verdict, Reason> {
        if let Goal::Address(address) = self.goal {
            self.egress.dialer.check(SocketAddr::new(address, self.port))?;
        }
        let judge = self.judge();
        Ok(match asked {
            Asked::Name(name) => judge.named(self.goal, name),
            Asked::Literal(address) => judge.literal(self.goal, *address),
            Asked::Unnamed(_) | Asked::Hidden(_) => judge.unnamed(self.goal),
            Asked::Raw => judge.nameless(self.goal),
        })
    }

    fn admission(&self, asked: &Asked) -> Result<Admission, Reason> {
        let address = self.goal.address().ok_or(Reason::Denied(Why::NoName))?;
        let names = match asked {
            Asked::Raw => self.guest.pins.names(address),
            Asked::Name(_) | Asked::Literal(_) | Asked::Unnamed(_) | Asked::Hidden(_) => Vec::new(),
        };
        Ok(Admission { addresses: vec![address], asked: asked.clone(), names })
    }

    /// Finds out a name's addresses. A client that was sent to one of its own choice must have
    /// chosen one of them.
    async fn resolve(&self, asked: &Asked, why: Why) -> Result<(Admission, Why), Reason> {
        let Asked::Name(name) = asked else { return Err(Reason::Denied(Why::NoName)) };
        let resolved = (self.egress.resolve)(name.clone()).await.map_err(Reason::Unresolved)?;
        if let Some(why) = denied_alias(&self.egress.book, &self.guest, &resolved.aliases) {
            return Err(Reason::Denied(why));
        }
        let mut addresses = resolved.addresses;
        if let Goal::Address(chosen) = self.goal {
            addresses.retain(|address| address.to_canonical() == chosen);
        }
        let mut reason = Reason::Denied(Why::NotPinned);
        addresses.retain(|address| match self.closes(name, *address) {
            Some(closed) => {
                reason = closed;
                false
            }
            None => true,
        });
        if addresses.is_empty() {
            return Err(reason);
        }
        self.guest.pins.pin(name, &addresses, resolved.ttl);
        Ok((Admission { addresses, asked: asked.clone(), names: Vec::new() }, why))
    }

    /// Why a name's address is closed all the same.
    fn closes(&self, name: &HostName, address: IpAddr) -> Option<Reason> {
        if let Err(error) = self.egress.dialer.check(SocketAddr::new(address, self.port)) {
            return Some(error.into());
        }
        let basis = Basis::Name(name.clone(), address.to_canonical());
        (!self.judge().still_allows(&basis)).then_some(Reason::Denied(Why::NotListed))
    }

    /// Connections that are allowed are told only where somebody wants to learn from them.
    pub(super) fn tell_allowed(&self, asked: &Asked, why: &Why) {
        if self.judge().tells_all() {
            drop(self.tell(NetworkVerdict::Allowed, asked, why.to_string()));
        }
    }

    fn tell(&self, verdict: NetworkVerdict, asked: &Asked, rule: String) -> Option<JoinHandle<()>> {
        let incident = Incident {
            verdict,
            protocol: Protocol::Tcp,
            host: asked.shown(),
            address: self.goal.address(),
            port: self.port,
            rule,
        };
        self.egress.reporter.saw(&self.guest, incident, self.client)
    }
}

/// Ends when the client has closed. What it sends meanwhile is left unread.
async fn hung_up(stream: &TcpStream) {
    while let Ok(ready) = stream.ready(Interest::READABLE).await {
        if ready.is_read_closed() {
            return;
        }
        sleep(LOOK).await;
    }
}
