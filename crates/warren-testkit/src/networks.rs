//! Networks in memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use parking_lot::Mutex;
use warren_core::{
    Attachment, Check, NetworkEntry, NetworkError, NetworkErrorKind, NetworkObserver, NetworkPolicy,
    NetworkUsage, Networks, Owner, SandboxId,
};

use crate::gate::Gate;

/// Links in memory, stricter than real ones. A call that breaks a rule of [`Networks`] is not
/// stopped but noted, and [`FakeNetworks::assert_clean`] fails.
///
/// Rules: one call at a time for one id; no link for a policy of mode `none`; no change of what is
/// not attached; at least one policy for what is; [`Networks::retain`] once for each process.
///
/// It represents the machine, so it outlives an engine that is dropped, and can be given to the
/// next one.
#[derive(Default)]
pub struct FakeNetworks {
    inner: Mutex<Inner>,
    gate: Gate<&'static str>,
}

#[derive(Default)]
struct Inner {
    links: BTreeMap<SandboxId, Link>,
    made: u8,
    busy: HashMap<SandboxId, &'static str>,
    retained: bool,
    violations: Vec<String>,
    unavailable: Option<String>,
    failures: Vec<&'static str>,
    observer: Option<Arc<dyn NetworkObserver>>,
}

struct Link {
    policies: Vec<NetworkPolicy>,
    addresses: Vec<IpAddr>,
    usage: NetworkUsage,
    /// The other end of the socket that represents the namespace. It is closed when nobody holds
    /// that any more.
    namespace: UnixStream,
}

impl FakeNetworks {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Makes every later attach fail.
    pub fn break_down(&self, reason: &str) {
        self.inner.lock().unavailable = Some(reason.to_owned());
    }

    /// Makes the next call of this name fail, without any effect.
    pub fn fail_next(&self, call: &'static str) {
        self.inner.lock().failures.push(call);
    }

    /// Cancels failures that have not happened yet.
    pub fn forgive(&self) {
        self.inner.lock().failures.clear();
    }

    /// Sets a hook that is called before each call, on its thread. It may wait.
    pub fn before_each(&self, hook: impl Fn(&'static str) + Send + Sync + 'static) {
        self.gate.before_each(hook);
    }

    /// Blocks every change by a thread for which `barred` returns true, for ever: its process has
    /// ended.
    pub fn bar(&self, barred: impl Fn() -> bool + Send + Sync + 'static) {
        self.gate.bar(Arc::new(barred));
    }

    /// True while a call has not returned.
    pub fn is_busy(&self) -> bool {
        !self.inner.lock().busy.is_empty()
    }

    /// Restarts the machine: no link is left.
    pub fn reboot(&self) {
        self.inner.lock().links.clear();
    }

    /// Makes the link vanish, as if it had been removed.
    pub fn lose(&self, id: &SandboxId) {
        self.inner.lock().links.remove(id);
    }

    /// The policies that hold for a sandbox now; `None` when it is not attached.
    pub fn policies(&self, id: &SandboxId) -> Option<Vec<NetworkPolicy>> {
        self.inner.lock().links.get(id).map(|link| link.policies.clone())
    }

    pub fn attached(&self) -> HashSet<SandboxId> {
        self.inner.lock().links.keys().cloned().collect()
    }

    /// True while somebody holds the namespace that a sandbox was attached with.
    pub fn is_namespace_held(&self, id: &SandboxId) -> bool {
        let inner = self.inner.lock();
        let Some(link) = inner.links.get(id) else { return false };
        // Nobody ever writes, so the read either would block or finds the end.
        let read = (&link.namespace).read_exact(&mut [0]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Changes the answer of [`Networks::usage`] for a sandbox.
    pub fn change_usage(&self, id: &SandboxId, change: impl FnOnce(&mut NetworkUsage)) {
        if let Some(link) = self.inner.lock().links.get_mut(id) {
            change(&mut link.usage);
        }
    }

    /// Tells the observer that a sandbox did something.
    pub fn act(&self, id: &SandboxId, entry: NetworkEntry) {
        let observer = self.inner.lock().observer.clone();
        if let Some(observer) = observer {
            observer.saw(id, entry);
        }
    }

    /// The rules broken so far.
    pub fn violations(&self) -> Vec<String> {
        self.inner.lock().violations.clone()
    }

    /// # Panics
    ///
    /// If a rule was broken.
    pub fn assert_clean(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "rules of the networks were broken: {violations:#?}");
    }

    /// A call that changes something.
    fn call<T>(
        &self,
        name: &'static str,
        id: Option<&SandboxId>,
        act: impl FnOnce(&mut Inner) -> Result<T, NetworkError>,
    ) -> Result<T, NetworkError> {
        self.gate.announce(name);
        self.gate.admit(&self.inner).enter(name, id);
        std::thread::yield_now();
        let mut inner = self.inner.lock();
        if let Some(id) = id {
            inner.busy.remove(id);
        }
        inner.suffer(name)?;
        act(&mut inner)
    }
}

impl Inner {
    fn enter(&mut self, name: &'static str, id: Option<&SandboxId>) {
        if let Some(id) = id
            && let Some(other) = self.busy.insert(id.clone(), name)
        {
            self.violations.push(format!("{name} of {id} while {other} runs"));
        }
    }

    fn suffer(&mut self, name: &'static str) -> Result<(), NetworkError> {
        if let Some(index) = self.failures.iter().position(|failing| *failing == name) {
            self.failures.remove(index);
            return Err(NetworkError::new(NetworkErrorKind::Host, format!("{name}, as the test asked")));
        }
        match &self.unavailable {
            Some(reason) => Err(NetworkError::new(NetworkErrorKind::Unavailable, reason.clone())),
            None => Ok(()),
        }
    }

    fn attach(&mut self, id: &SandboxId, policy: &NetworkPolicy) -> Result<Attachment, NetworkError> {
        let failed = |error| NetworkError::caused(NetworkErrorKind::Host, "make a namespace", error);
        let (namespace, held) = UnixStream::pair().map_err(failed)?;
        held.set_nonblocking(true).map_err(failed)?;
        self.made = self.made % 250 + 1;
        let addresses = vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, self.made))];
        let link = Link {
            policies: vec![policy.clone()],
            addresses: addresses.clone(),
            usage: NetworkUsage::default(),
            namespace: held,
        };
        self.links.insert(id.clone(), link);
        Ok(Attachment { namespace: Some(namespace.into()), addresses, env: vec!["FAKE_LINK=up".to_owned()] })
    }

    fn link(&mut self, call: &str, id: &SandboxId) -> Result<&mut Link, NetworkError> {
        if !self.links.contains_key(id) && call == "set" {
            self.violations.push(format!("{call} of {id}, which is not attached"));
        }
        let missing = || NetworkError::new(NetworkErrorKind::NotFound, format!("{id} is not attached"));
        self.links.get_mut(id).ok_or_else(missing)
    }

    fn expect_network(&mut self, call: &str, id: &SandboxId, policy: &NetworkPolicy) {
        if policy.is_none() {
            self.violations.push(format!("{call} of {id} with a policy that needs no link"));
        }
    }
}

impl Networks for FakeNetworks {
    fn probe(&self) -> Vec<Check> {
        Vec::new()
    }

    fn unavailable(&self) -> Option<String> {
        self.inner.lock().unavailable.clone()
    }

    fn attach(&self, id: &SandboxId, _: &Owner, policy: &NetworkPolicy) -> Result<Attachment, NetworkError> {
        self.call("attach", Some(id), |inner| {
            inner.expect_network("attach", id, policy);
            inner.attach(id, policy)
        })
    }

    fn adopt(&self, id: &SandboxId, _: &Owner, policy: &NetworkPolicy) -> Result<Attachment, NetworkError> {
        self.call("adopt", Some(id), |inner| {
            inner.expect_network("adopt", id, policy);
            let link = inner.link("adopt", id)?;
            link.policies = vec![policy.clone()];
            Ok(Attachment { namespace: None, addresses: link.addresses.clone(), env: Vec::new() })
        })
    }

    fn set(&self, id: &SandboxId, policies: &[NetworkPolicy]) -> Result<(), NetworkError> {
        self.call("set", Some(id), |inner| {
            if policies.is_empty() {
                inner.violations.push(format!("set of {id} without a policy"));
            }
            inner.link("set", id)?.policies = policies.to_vec();
            Ok(())
        })
    }

    fn detach(&self, id: &SandboxId) -> Result<(), NetworkError> {
        self.call("detach", Some(id), |inner| {
            inner.links.remove(id);
            Ok(())
        })
    }

    fn retain(&self, ids: &HashSet<SandboxId>) -> Result<(), NetworkError> {
        self.call("retain", None, |inner| {
            if std::mem::replace(&mut inner.retained, true) {
                inner.violations.push("retain for the second time".to_owned());
            }
            inner.links.retain(|id, _| ids.contains(id));
            Ok(())
        })
    }

    fn usage(&self, id: &SandboxId) -> Option<NetworkUsage> {
        self.inner.lock().links.get(id).map(|link| link.usage)
    }

    fn observe(&self, observer: Arc<dyn NetworkObserver>) {
        let mut inner = self.inner.lock();
        // Another process begins.
        inner.retained = false;
        inner.observer = Some(observer);
    }
}

impl fmt::Debug for FakeNetworks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeNetworks").field("attached", &self.attached()).finish_non_exhaustive()
    }
}
