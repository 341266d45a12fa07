//! The whole service on one machine: bind, open, answer, end.

mod crash;
mod environment;
mod link_keys;
mod local_key;
mod machine;
mod notify;

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use warren_core::catalog::CatalogError;
use warren_engine::{Engine, Mode, ShutdownPolicy};

pub use crash::{CrashAt, CrashAtError};
pub use environment::E2bAddress;

use crate::assembly::{Assembly, AssemblyError, Machine, Purpose};
use crate::config::Config;
use crate::listener::Sockets;
use crate::logging;
use crate::server::{Server, ServerParts};
use crate::tls::{Tls, TlsError};
use crate::world::MachineRandom;
use warren_face::auth::KeyringError;

/// Threads for what blocks: creates, file systems, the catalog.
const BLOCKING_THREADS: usize = 64;
/// How far threads that serve requests are ahead of the program in priority.
const SERVING: i32 = 10;
/// How far those are that wait for the catalog.
const WAITING: i32 = 5;

/// How long the remains of ended sandboxes may take to be removed at the end.
const REMAINS: Duration = Duration::from_secs(5);

/// How long tasks that were told to end may take to do so.
const LAST_TASKS: Duration = Duration::from_secs(5);

/// How the service is to be run, beyond its configuration.
#[derive(Debug, Default)]
pub struct ServeOptions {
    /// Gets `WARREN_URL` and `WARREN_API_KEY` once requests are answered, and what clients of the
    /// E2B protocol read.
    pub env_file: Option<PathBuf>,
    /// Replaces the local administrator's key.
    pub reset_key: bool,
    /// Stops all sandboxes at the end. Their files stay.
    pub stop_sandboxes: bool,
    /// The socket of systemd that is told when the service is ready.
    pub notify_socket: Option<OsString>,
    /// The step at which the process kills itself, for tests of crashes.
    pub crash_at: Option<CrashAt>,
}

/// The messages for people once requests are answered.
#[derive(Debug, Clone)]
pub struct Announcement {
    pub url: String,
    pub e2b: E2bAddress,
    pub data_dir: PathBuf,
    pub key: AnnouncedKey,
    /// Why the server only answers questions, if it does.
    pub read_only: Option<String>,
    /// Why sandboxes can have no network, if they cannot.
    pub no_network: Option<String>,
}

/// The message about the local administrator's key.
#[derive(Clone, PartialEq, Eq)]
pub enum AnnouncedKey {
    /// It was made just now: the one time to show it.
    New(String),
    /// It is where it was.
    Kept,
    /// Nobody can read it any more.
    Lost,
    /// The server asks for none.
    None,
}

impl std::fmt::Debug for AnnouncedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::New(_) => "New(…)",
            Self::Kept => "Kept",
            Self::Lost => "Lost",
            Self::None => "None",
        })
    }
}

/// Why the service did not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("listen on {address}")]
    Bind {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    #[error("start the engine")]
    Engine(#[source] warren_engine::OpenError),
    #[error("read or make keys")]
    Keys(#[source] KeyringError),
    #[error("read `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("write `{}`", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "the local key is lost, so there is none to write to the environment file: use --reset-key to make another one"
    )]
    KeyLost,
    #[error("`{}` is damaged: take it away, and all links to ports are void", path.display())]
    LinkKeys { path: PathBuf },
    #[error("speak TLS")]
    Tls(#[source] TlsError),
    #[error("start the runtime")]
    Runtime(#[source] io::Error),
    #[error("the log is set up already")]
    Log(#[source] tracing::subscriber::SetGlobalDefaultError),
    #[error("ended at once, as a second signal asked: requests may have been cut short")]
    Interrupted,
}

impl From<CatalogError> for ServeError {
    fn from(error: CatalogError) -> Self {
        Self::Keys(KeyringError::Catalog(error))
    }
}

/// Runs the service until SIGTERM or SIGINT. `announce` is called once requests are answered.
pub fn serve(
    config: Config,
    options: ServeOptions,
    announce: impl FnOnce(&Announcement),
) -> Result<(), ServeError> {
    tracing::subscriber::set_global_default(logging::subscriber(&config.log, io::stderr))
        .map_err(ServeError::Log)?;
    // First of all, so that a taken port changes nothing.
    let doors = Doors { main: bind(config.server.listen)?, e2b: config.e2b.listen.map(bind).transpose()? };
    raise_open_files();
    let assembly = Assembly::new(config.clone(), Purpose::Server)?;
    let machine = assembly.crash_at(options.crash_at.and_then(CrashAt::backend)).machine()?;
    prepare_template(&machine);
    let runtime = runtime().map_err(ServeError::Runtime)?;
    let ended = runtime.block_on(run(machine, config, &options, doors, announce));
    if matches!(ended, Err(ServeError::Interrupted)) {
        runtime.shutdown_background();
    } else {
        // The last to hold the catalog closes it: what is in its log alone would be missing from a
        // copy of the database.
        runtime.shutdown_timeout(LAST_TASKS);
    }
    ended
}

/// Makes the built-in template, which takes a second in a fresh data directory, before anybody
/// waits for a sandbox of it. Who asks for one on a machine that cannot have it hears why not.
fn prepare_template(machine: &Machine) {
    if let Err(error) = machine.templates.host() {
        let error = warren_core::error_chain(&error);
        tracing::warn!(error, "the template `host` cannot be used");
    }
}

/// Threads that serve requests come first, then those that wait for the catalog, then all that does
/// what one request asks for: a small request must not wait for large ones. The runtime begins with
/// those that serve, and makes the others when they are needed.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let serving = std::thread::available_parallelism().map_or(1, usize::from);
    let usual = rustix::process::getpriority_process(None).unwrap_or(0);
    let begun = AtomicUsize::new(0);
    let place = move || {
        let serves = begun.fetch_add(1, Ordering::Relaxed) < serving;
        // Without the right to, all are equal.
        let ahead = if serves { SERVING } else { WAITING };
        let _ignored = rustix::process::setpriority_process(None, usual - ahead);
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(serving).max_blocking_threads(BLOCKING_THREADS).on_thread_start(place);
    runtime.enable_all().build()
}

/// Sockets that are bound, with their addresses.
struct Doors {
    main: (TcpListener, SocketAddr),
    e2b: Option<(TcpListener, SocketAddr)>,
}

impl Doors {
    /// As requests are answered on them, where TLS may be spoken on another one.
    fn open(self, tls: Option<(tokio::net::TcpListener, Tls)>) -> io::Result<Sockets> {
        let open = |(socket, _)| tokio::net::TcpListener::from_std(socket);
        Ok(Sockets { main: open(self.main)?, tls, e2b: self.e2b.map(open).transpose()? })
    }
}

fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Bind { address, source };
    let socket = TcpListener::bind(address).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?;
    Ok((socket, bound))
}

async fn open_engine(
    machine: &Machine,
    config: &Config,
    crash_at: Option<CrashAt>,
) -> Result<Engine, ServeError> {
    let network = machine.networks.unavailable().is_none();
    let parts = machine.parts(crash::hook(crash_at));
    Engine::open(parts, config.settings(network)).await.map_err(ServeError::Engine)
}

async fn run(
    machine: Machine,
    config: Config,
    options: &ServeOptions,
    doors: Doors,
    announce: impl FnOnce(&Announcement),
) -> Result<(), ServeError> {
    let mut signals = Signals::new().map_err(ServeError::Runtime)?;
    let engine = open_engine(&machine, &config, options.crash_at).await?;
    let link_keys = link_keys::settle(&config.server.data_dir)?;
    let secure = secure_door(&config)?;
    let server = Server::new(ServerParts {
        engine: engine.clone(),
        catalog: machine.catalog,
        templates: machine.templates,
        clock: machine.clock,
        random: Arc::new(MachineRandom),
        config: config.clone(),
        link_keys,
        networks: Arc::clone(&machine.networks),
    })?;
    let tls_port = secure.as_ref().and_then(|(socket, _)| socket.local_addr().ok()).map(|bound| bound.port());
    let announcement = announcement(&server, &engine, (&doors, tls_port), options)?;
    let sockets = doors.open(secure).map_err(ServeError::Runtime)?;
    let shutdown = server.shutdown();
    let served = tokio::spawn(server.run_on(sockets));
    announce(&announcement);
    notify::tell(options.notify_socket.as_deref(), "READY=1");
    signals.next().await;
    tracing::info!("shutting down");
    notify::tell(options.notify_socket.as_deref(), "STOPPING=1");
    shutdown.cancel();
    let policy = shutdown_policy(options).await;
    let ended = async {
        let listening = async {
            if let Err(error) = served.await {
                tracing::error!(%error, "the listener ended early");
            }
        };
        if policy == ShutdownPolicy::MachineGoesDown {
            // Nobody waits for requests: they end with their sandboxes.
            tokio::join!(listening, engine.shutdown(policy));
            machine::sync(&config.server.data_dir).await;
        } else {
            listening.await;
            engine.shutdown(policy).await;
        }
        // The next start would remove what is left as well, but nobody waits for that one.
        let backends = machine.backends;
        let settle = move || {
            for backend in &backends {
                backend.settle(REMAINS);
            }
        };
        drop(tokio::task::spawn_blocking(settle).await);
    };
    tokio::select! {
        () = ended => Ok(()),
        () = signals.next() => Err(ServeError::Interrupted),
    }
}

async fn shutdown_policy(options: &ServeOptions) -> ShutdownPolicy {
    if machine::goes_down().await {
        tracing::info!("the machine goes down: sandboxes are brought to rest");
        return ShutdownPolicy::MachineGoesDown;
    }
    if options.stop_sandboxes { ShutdownPolicy::Stop } else { ShutdownPolicy::Leave }
}

/// Where TLS is spoken, if it is to be.
fn secure_door(config: &Config) -> Result<Option<(tokio::net::TcpListener, Tls)>, ServeError> {
    let Some(address) = config.ports.tls_listen else { return Ok(None) };
    let tls = Tls::open(config).map_err(ServeError::Tls)?;
    let (socket, _) = bind(address)?;
    let socket = tokio::net::TcpListener::from_std(socket).map_err(ServeError::Runtime)?;
    Ok(Some((socket, tls)))
}

/// Makes the key that is missing, and writes down what local commands need.
fn announcement(
    server: &Server,
    engine: &Engine,
    (doors, tls_port): (&Doors, Option<u16>),
    options: &ServeOptions,
) -> Result<Announcement, ServeError> {
    let config = &server.state().config;
    let (main, own) = (doors.main.1, doors.e2b.as_ref().map(|(_, address)| *address));
    let url = format!("http://{}", reachable(main));
    for address in [Some(main), own].into_iter().flatten().filter(|address| !address.ip().is_loopback()) {
        tracing::warn!(%address, "keys and data travel in the clear: put something that speaks TLS in front");
    }
    let e2b = E2bAddress::new(config, &url, own.map(reachable), tls_port);
    let key = local_key::settle(server, &url, &e2b, options)?;
    let read_only = match engine.mode() {
        Mode::Normal => None,
        Mode::ReadOnly { reason } => Some(reason),
    };
    let no_network = server.state().networks.unavailable();
    if let Some(reason) = &no_network {
        tracing::warn!(reason, "sandboxes can have no network");
    }
    Ok(Announcement { url, e2b, data_dir: config.server.data_dir.clone(), key, read_only, no_network })
}

/// An address at which this machine reaches itself.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, address.port()).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, address.port()).into(),
        _ => address,
    }
}

/// Every sandbox and every connection takes descriptors, and the usual limit is for programs with
/// few.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
