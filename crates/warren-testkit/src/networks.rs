//! A network in memory.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warren_core::{
    Attachment, Check, NetworkEntry, NetworkError, NetworkErrorKind, NetworkObserver, NetworkPolicy,
    NetworkUsage, Networks, Owner, SandboxId,
};

/// Links that exist in memory alone. Strict: a link is changed only while it is there.
#[derive(Default)]
pub struct FakeNetworks {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    links: HashMap<SandboxId, Vec<NetworkPolicy>>,
    unavailable: Option<String>,
    failures: Vec<&'static str>,
    observer: Option<Arc<dyn NetworkObserver>>,
}

impl FakeNetworks {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on no sandbox can have a network.
    pub fn break_down(&self, reason: &str) {
        self.lock().unavailable = Some(reason.to_owned());
    }

    /// The next call of this name fails.
    pub fn fail_next(&self, call: &'static str) {
        self.lock().failures.push(call);
    }

    /// The policies that hold for a sandbox now; `None` when it is not attached.
    pub fn policies(&self, id: &SandboxId) -> Option<Vec<NetworkPolicy>> {
        self.lock().links.get(id).cloned()
    }

    pub fn attached(&self) -> HashSet<SandboxId> {
        self.lock().links.keys().cloned().collect()
    }

    /// Tells the observer that a sandbox did something.
    pub fn act(&self, id: &SandboxId, entry: NetworkEntry) {
        let observer = self.lock().observer.clone();
        if let Some(observer) = observer {
            observer.saw(id, entry);
        }
    }

    fn call(&self, name: &'static str) -> Result<MutexGuard<'_, Inner>, NetworkError> {
        let mut inner = self.lock();
        if let Some(index) = inner.failures.iter().position(|failing| *failing == name) {
            inner.failures.remove(index);
            return Err(NetworkError::new(NetworkErrorKind::Host, format!("{name} was told to fail")));
        }
        match &inner.unavailable {
            Some(reason) => Err(NetworkError::new(NetworkErrorKind::Unavailable, reason.clone())),
            None => Ok(inner),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Networks for FakeNetworks {
    fn probe(&self) -> Vec<Check> {
        Vec::new()
    }

    fn unavailable(&self) -> Option<String> {
        self.lock().unavailable.clone()
    }

    fn attach(&self, id: &SandboxId, _: &Owner, policy: &NetworkPolicy) -> Result<Attachment, NetworkError> {
        assert!(!policy.is_none(), "{id} needs no link");
        let mut inner = self.call("attach")?;
        inner.links.insert(id.clone(), vec![policy.clone()]);
        Ok(attachment(inner.links.len()))
    }

    fn adopt(&self, id: &SandboxId, _: &Owner, policy: &NetworkPolicy) -> Result<Attachment, NetworkError> {
        let mut inner = self.call("adopt")?;
        let count = inner.links.len();
        let link = inner.links.get_mut(id).ok_or_else(|| not_found(id))?;
        *link = vec![policy.clone()];
        Ok(attachment(count))
    }

    fn set(&self, id: &SandboxId, policies: &[NetworkPolicy]) -> Result<(), NetworkError> {
        let mut inner = self.call("set")?;
        let link = inner.links.get_mut(id).ok_or_else(|| not_found(id))?;
        *link = policies.to_vec();
        Ok(())
    }

    fn detach(&self, id: &SandboxId) -> Result<(), NetworkError> {
        self.call("detach")?.links.remove(id);
        Ok(())
    }

    fn retain(&self, ids: &HashSet<SandboxId>) -> Result<(), NetworkError> {
        self.call("retain")?.links.retain(|id, _| ids.contains(id));
        Ok(())
    }

    fn usage(&self, id: &SandboxId) -> Option<NetworkUsage> {
        self.lock().links.contains_key(id).then(NetworkUsage::default)
    }

    fn observe(&self, observer: Arc<dyn NetworkObserver>) {
        self.lock().observer = Some(observer);
    }
}

fn attachment(number: usize) -> Attachment {
    let last = u8::try_from(number % 250).unwrap_or(0);
    Attachment {
        namespace: None,
        addresses: vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))],
        env: Vec::new(),
    }
}

fn not_found(id: &SandboxId) -> NetworkError {
    NetworkError::new(NetworkErrorKind::NotFound, format!("{id} is not attached"))
}

impl std::fmt::Debug for FakeNetworks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeNetworks").field("links", &self.lock().links.len()).finish_non_exhaustive()
    }
}
