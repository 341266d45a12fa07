//! A backend without a machine: sandboxes are records, their agents are threads, and every rule of
//! the port is checked.

mod book;
mod faults;
mod host;
mod seal;

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use warren_core::{
    Capabilities, Check, CheckStatus, CreateRequest, Created, DiskQuota, DiskSpace, Found, FoundImage,
    Isolation, IsolationError, IsolationErrorKind, IsolationKind, Layered, Memory, MountAccess, MountRefusal,
    MountSource, Need, NetworkSupport, RootImage, RootKind, RootTree, SandboxId, SandboxSpec, Sealed,
    SnapshotSupport, Usage,
};

use crate::FakeLayers;
use crate::gate::{Bar, Gate};
use book::Book;
pub use faults::{Call, Hold};
use host::Host;

/// A backend in memory that is stricter than the real one. A call that breaks a rule of
/// [`Isolation`] is not stopped but noted, and [`FakeIsolation::assert_clean`] fails.
///
/// Rules: one lifecycle call at a time for one id; no create of an id that exists;
/// [`warren_core::RootState::Kept`] only for a sandbox that has ended and has files, and on other
/// layers only if nothing was written on the ones before; no freeze or thaw of a halted sandbox,
/// and no clear of a running one; a seal on the sandbox's present root, into a free place that
/// [`FakeLayers`] gave; no lifecycle call for a destroyed sandbox; a namespace for exactly the
/// sandboxes that are to have a network.
///
/// Its agents speak the guest protocol and know these programs: `true`, `false`, `exit N`, `fail`
/// (code 3), `echo WORDS`, `yes N`, `sleep SECONDS` (real time), `cat`, `env`, `listen PORT`,
/// `write PATH TEXT`, `read PATH`; any other exits with 127. A frozen agent does not answer. Files
/// are in memory and outlive [`Isolation::halt`]: they are those of the layers in the request's
/// root with what was written on top. A sandbox is busy while a program runs in it or its agent has
/// a file open.
///
/// It represents the machine, so it outlives an engine that is dropped, and can be given to the
/// next one.
pub struct FakeIsolation {
    name: &'static str,
    capabilities: Capabilities,
    layers: Arc<FakeLayers>,
    host: Host,
    book: Mutex<Book>,
    changed: Condvar,
    gate: Gate<Call>,
    shares_network: AtomicBool,
    /// Its images by name, each with its digest.
    images: Mutex<BTreeMap<String, String>>,
}

/// How long to wait for a call on another thread to return.
const CALL_PATIENCE: Duration = Duration::from_secs(60);

/// The real state of a sandbox of a [`FakeIsolation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Running,
    Frozen,
    /// Its first process has ended; nobody has cleaned up.
    Dead,
    /// Only its files are left.
    Halted,
}

impl FakeIsolation {
    /// A backend called `fake` that can do everything.
    pub fn new() -> Arc<Self> {
        Self::named("fake")
    }

    pub fn named(name: &'static str) -> Arc<Self> {
        Self::able(name, Self::everything())
    }

    /// The capabilities of a backend with layers that can do everything.
    pub fn everything() -> Capabilities {
        Capabilities {
            snapshots: SnapshotSupport::Sealed,
            memory_snapshots: true,
            roots: vec![RootKind::Layers],
            network: NetworkSupport::Namespace,
            host_mounts: true,
            disk_quota: DiskQuota::Project,
            freeze: true,
            socket: false,
            outlives_server: true,
            isolation: IsolationKind::Namespaces,
        }
    }

    /// The store of this backend's layers.
    pub fn layers(&self) -> Arc<FakeLayers> {
        Arc::clone(&self.layers)
    }

    /// A backend with these capabilities.
    pub fn able(name: &'static str, capabilities: Capabilities) -> Arc<Self> {
        Self::on(Arc::default(), name, capabilities)
    }

    /// Another backend on the same machine, whose sandboxes stand on the same layers.
    pub fn beside(&self, name: &'static str, capabilities: Capabilities) -> Arc<Self> {
        Self::on(self.layers(), name, capabilities)
    }

    fn on(layers: Arc<FakeLayers>, name: &'static str, capabilities: Capabilities) -> Arc<Self> {
        let mut book = Book::new(name, Arc::clone(&layers));
        book.unmovable = capabilities.snapshots == SnapshotSupport::Copied;
        Arc::new(Self {
            name,
            capabilities,
            layers,
            host: Host::new(),
            book: Mutex::new(book),
            changed: Condvar::new(),
            gate: Gate::default(),
            shares_network: AtomicBool::new(false),
            images: Mutex::default(),
        })
    }

    /// Blocks every lifecycle call and change of layers by a thread for which `barred` returns
    /// true, for ever: its process has ended.
    pub fn bar(&self, barred: impl Fn() -> bool + Send + Sync + 'static) {
        let barred: Arc<Bar> = Arc::new(barred);
        self.layers.set_bar(Arc::clone(&barred));
        self.gate.bar(barred);
    }

    /// Sets the free bytes of its disk; with `None` the disk cannot be read.
    pub fn set_free(&self, free_bytes: Option<u64>) {
        self.host.set_free(free_bytes);
    }

    /// Gives an image's name to this content, of which there is nothing but the digest. It has to
    /// have [`RootKind::Image`] among its roots.
    pub fn tag_image(&self, name: &str, digest: &str) {
        self.images.lock().insert(name.to_owned(), digest.to_owned());
    }

    /// Allows mounts of these directories and all below them.
    pub fn allow_mounts(&self, directories: Vec<PathBuf>) {
        self.host.allow(directories);
    }

    /// Sets whether sandboxes' files cannot be moved: then a seal is [`Sealed::Unmovable`].
    pub fn set_unmovable(&self, unmovable: bool) {
        self.book.lock().unmovable = unmovable;
    }

    /// Makes every sandbox's loopback that of the test's own process, and gives out sockets in its
    /// network, which the capabilities do not mention.
    pub fn share_network(&self) {
        self.shares_network.store(true, Ordering::Relaxed);
    }

    /// Sets a hook that is called before each call, on its thread. It may wait.
    pub fn before_each(&self, hook: impl Fn(Call) + Send + Sync + 'static) {
        self.gate.before_each(hook);
    }

    /// Ends the sandbox's first process, by itself or for lack of memory. Only [`Isolation::watch`]
    /// tells.
    pub fn die(&self, id: &SandboxId, oom: bool) {
        self.gate.admit(&self.book).die(id, oom);
    }

    /// Makes the sandbox vanish with its files, as if its directory had been removed.
    pub fn lose(&self, id: &SandboxId) {
        self.book.lock().lose(id);
    }

    /// Restarts the machine: nothing runs, files are there. For the clock see
    /// [`crate::FakeClock::reboot`].
    pub fn reboot(&self) {
        self.book.lock().reboot();
    }

    /// Ends the process that used this backend, and the sandboxes that die with it. The next one
    /// knows nothing of it.
    pub fn owner_ended(&self) {
        self.book.lock().owner_ended();
    }

    /// Changes the answer of [`Isolation::usage`] for a sandbox.
    pub fn change_usage(&self, id: &SandboxId, change: impl FnOnce(&mut Usage)) {
        if let Some(usage) = self.book.lock().usage_of(id) {
            change(usage);
        }
    }

    /// Makes the next call of this kind fail, without any effect.
    pub fn fail_next(&self, call: Call, kind: IsolationErrorKind) {
        self.book.lock().faults.fail_next(call, kind);
    }

    /// Makes every call of this kind fail, until this is called with `None`.
    pub fn fail_always(&self, call: Call, kind: Option<IsolationErrorKind>) {
        self.book.lock().faults.fail_always(call, kind);
    }

    /// Takes away the daemon that the backend needs: every call is
    /// [`IsolationErrorKind::Away`] and every watch tells of an end, while sandboxes run on.
    pub fn go_away(&self) {
        let mut book = self.book.lock();
        book.faults.set_away(true);
        book.drop_watchers();
    }

    /// Brings the daemon back.
    pub fn come_back(&self) {
        self.book.lock().faults.set_away(false);
    }

    /// Cancels failures that have not happened yet.
    pub fn forgive(&self) {
        self.book.lock().faults.forgive();
    }

    /// Delays every call of this kind.
    pub fn delay(&self, call: Call, span: Duration) {
        self.book.lock().faults.delay(call, span);
    }

    /// Makes every call of this kind wait until the returned value is dropped.
    pub fn hold(self: &Arc<Self>, call: Call) -> Hold {
        self.book.lock().faults.hold(call);
        Hold::new(Arc::clone(self), call)
    }

    /// Calls of this kind that wait for a [`Hold`].
    pub fn held(&self, call: Call) -> usize {
        self.book.lock().faults.held(call)
    }

    /// How often this was called.
    pub fn calls(&self, call: Call) -> u64 {
        self.book.lock().faults.calls(call)
    }

    /// The state of a sandbox; `None` if nothing is left of it.
    pub fn standing(&self, id: &SandboxId) -> Option<Standing> {
        self.book.lock().standing(id)
    }

    /// The states of all sandboxes.
    pub fn standings(&self) -> BTreeMap<SandboxId, Standing> {
        self.book.lock().standings()
    }

    /// The content of a file, of a sandbox that may have ended.
    pub fn file(&self, id: &SandboxId, path: &str) -> Option<Vec<u8>> {
        self.book.lock().tree(id)?.content(path)
    }

    /// Programs that run in a sandbox.
    pub fn running(&self, id: &SandboxId) -> usize {
        self.book.lock().running(id)
    }

    /// True while a lifecycle call has not returned.
    pub fn is_busy(&self) -> bool {
        !self.book.lock().busy.is_empty()
    }

    /// The rules broken so far, with those of the layers.
    pub fn violations(&self) -> Vec<String> {
        let mut violations = self.book.lock().violations.clone();
        violations.extend(self.layers.violations());
        violations
    }

    /// # Panics
    ///
    /// If a rule was broken, or a call does not return.
    pub fn assert_clean(&self) {
        let begun = Instant::now();
        while self.is_busy() && begun.elapsed() < CALL_PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let violations = self.violations();
        assert!(violations.is_empty(), "rules of the backend were broken: {violations:#?}");
        let book = self.book.lock();
        assert!(book.busy.is_empty(), "calls have not returned: {:?}", book.busy);
    }

    /// Like [`FakeIsolation::assert_clean`], and exactly these sandboxes exist.
    ///
    /// # Panics
    ///
    /// If there is more, or less.
    pub fn assert_only(&self, ids: &[SandboxId]) {
        self.assert_clean();
        let mut expected = ids.to_vec();
        expected.sort();
        let found: Vec<SandboxId> = self.standings().into_keys().collect();
        assert_eq!(found, expected, "what is left on the machine, and what should be");
    }

    fn let_go(&self, call: Call) {
        self.book.lock().faults.let_go(call);
        self.changed.notify_all();
    }

    /// Delays a call of this kind as asked for, then fails it if that was asked for.
    fn suffer(&self, call: Call, id: Option<&SandboxId>) -> Result<(), IsolationError> {
        let delay = self.book.lock().faults.begin(call);
        match delay {
            Some(span) => std::thread::sleep(span),
            None => std::thread::yield_now(),
        }
        let mut book = self.book.lock();
        while book.faults.is_held(call) {
            self.changed.wait(&mut book);
        }
        match book.faults.end(call) {
            Some(kind) => {
                let of = id.map_or_else(String::new, |id| format!(" of {id}"));
                Err(IsolationError::new(kind, format!("{}{of}, as the test asked", call.word())))
            }
            None => Ok(()),
        }
    }

    /// A call of which there is one at a time for one id.
    fn lifecycle<T>(
        &self,
        call: Call,
        id: &SandboxId,
        act: impl FnOnce(&mut Book) -> Result<T, IsolationError>,
    ) -> Result<T, IsolationError> {
        self.gate.announce(call);
        let alone = self.gate.admit(&self.book).enter(call, id);
        let result = self.suffer(call, Some(id)).and_then(|()| act(&mut self.book.lock()));
        if alone {
            self.book.lock().leave(id);
        }
        result
    }
}

impl fmt::Debug for FakeIsolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeIsolation").field("standings", &self.standings()).finish_non_exhaustive()
    }
}

impl Isolation for FakeIsolation {
    fn name(&self) -> &'static str {
        self.name
    }

    fn probe(&self) -> Vec<Check> {
        // One that is away can still be probed.
        let _away = self.suffer(Call::Probe, None);
        let found = "a backend in memory".to_owned();
        vec![Check { name: "memory", status: CheckStatus::Ok, found, advice: String::new() }]
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn layered(&self) -> Option<&dyn Layered> {
        let layered =
            matches!(self.capabilities.snapshots, SnapshotSupport::Sealed | SnapshotSupport::Copied);
        layered.then_some(self)
    }

    fn memory(&self) -> Option<&dyn Memory> {
        self.capabilities.memory_snapshots.then_some(self)
    }

    fn mount_source(&self, asked: &Path) -> Result<MountSource, MountRefusal> {
        if self.capabilities.host_mounts {
            self.host.mount_source(asked)
        } else {
            Err(MountRefusal::NotAllowed)
        }
    }

    fn image(&self, asked: &RootImage) -> Result<FoundImage, IsolationError> {
        self.capabilities.require(&[Need::Root(RootKind::Image)])?;
        self.suffer(Call::Image, None)?;
        let images = self.images.lock();
        let named = || images.get(asked.name.as_str());
        let known = asked.digest.as_ref().filter(|digest| images.values().any(|known| known == *digest));
        let Some(digest) = known.or_else(|| named().filter(|_| asked.digest.is_none())) else {
            return Err(IsolationError::new(
                IsolationErrorKind::Invalid,
                format!("there is no image `{asked}`"),
            ));
        };
        let lowers = vec![Path::new("/fake/images").join(digest)];
        let trees = vec![RootTree { at: "/".into(), lowers, access: MountAccess::ReadWrite }];
        let image = RootImage { digest: Some(digest.clone()), ..asked.clone() };
        Ok(FoundImage { image, trees })
    }

    fn space(&self) -> Result<Option<DiskSpace>, IsolationError> {
        self.host.space().map(Some)
    }

    fn create(&self, request: CreateRequest) -> Result<Created, IsolationError> {
        self.capabilities.require(&request.needs())?;
        let id = request.id.clone();
        self.lifecycle(Call::Create, &id, |book| book.create(request))
    }

    fn hand_over(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<(), IsolationError> {
        self.lifecycle(Call::HandOver, id, |book| book.hand_over(id, spec))
    }

    fn dial(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
        self.gate.announce(Call::Dial);
        self.suffer(Call::Dial, Some(id))?;
        let guest = self.book.lock().guest(id)?;
        guest.dial().map_err(|error| {
            IsolationError::caused(IsolationErrorKind::Host, format!("dial the agent of {id}"), error)
        })
    }

    fn socket(&self, id: &SandboxId, v6: bool) -> Result<Option<OwnedFd>, IsolationError> {
        if !self.shares_network.load(Ordering::Relaxed) {
            return Ok(None);
        }
        drop(self.book.lock().guest(id)?);
        let family = if v6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None);
        socket.map(Some).map_err(|error| {
            IsolationError::caused(IsolationErrorKind::Host, format!("make a socket for {id}"), error)
        })
    }

    fn watch(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
        self.gate.announce(Call::Watch);
        self.suffer(Call::Watch, Some(id))?;
        self.book.lock().watch(id)
    }

    fn freeze(&self, id: &SandboxId) -> Result<(), IsolationError> {
        self.capabilities.require(&[Need::Freeze])?;
        self.lifecycle(Call::Freeze, id, |book| book.set_frozen(id, true))
    }

    fn thaw(&self, id: &SandboxId) -> Result<(), IsolationError> {
        self.capabilities.require(&[Need::Freeze])?;
        self.lifecycle(Call::Thaw, id, |book| book.set_frozen(id, false))
    }

    fn halt(&self, id: &SandboxId) -> Result<(), IsolationError> {
        self.lifecycle(Call::Halt, id, |book| book.halt(id))
    }

    fn destroy(&self, id: &SandboxId) -> Result<(), IsolationError> {
        self.lifecycle(Call::Destroy, id, |book| book.destroy(id))
    }

    fn flush(&self, id: &SandboxId) -> Result<(), IsolationError> {
        self.gate.announce(Call::Flush);
        self.suffer(Call::Flush, Some(id))
    }

    fn settle(&self, _: Duration) -> bool {
        true
    }

    fn list(&self) -> Result<Vec<Found>, IsolationError> {
        self.gate.announce(Call::List);
        self.suffer(Call::List, None)?;
        Ok(self.book.lock().list())
    }

    fn usage(&self, id: &SandboxId) -> Result<Usage, IsolationError> {
        self.gate.announce(Call::Usage);
        self.suffer(Call::Usage, Some(id))?;
        self.book.lock().usage(id)
    }
}

impl Layered for FakeIsolation {
    fn seal(&self, id: &SandboxId, into: &Path, below: &[RootTree]) -> Result<Sealed, IsolationError> {
        self.lifecycle(Call::Seal, id, |book| book.seal(id, into, below))
    }

    fn is_untouched(&self, id: &SandboxId) -> bool {
        self.book.lock().is_untouched(id)
    }

    fn writable(&self, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
        self.lifecycle(Call::Writable, id, |book| book.writable(id))
    }

    fn clear(&self, id: &SandboxId) -> Result<(), IsolationError> {
        self.lifecycle(Call::Clear, id, |book| book.clear(id))
    }
}

impl Memory for FakeIsolation {
    fn suspend(&self, id: &SandboxId, into: &Path) -> Result<(), IsolationError> {
        self.lifecycle(Call::Suspend, id, |book| book.suspend(id, into))
    }
}

#[cfg(test)]
mod seal_tests;
#[cfg(test)]
mod tests;

/// Writes files as programs in a sandbox would.
#[cfg(test)]
pub(crate) fn write_files(backend: &FakeIsolation, id: &SandboxId, files: &[(&str, &str)]) {
    use warren_wire::guest::{Connection, Request, Start};
    for (path, text) in files {
        let argv = ["write", path, text].map(Into::into).to_vec();
        let stream = std::os::unix::net::UnixStream::from(backend.dial(id).unwrap());
        let start = Request::Start(Start { argv, ..Start::default() });
        Connection::ask(stream, &start).unwrap();
    }
}
