//! Every setting: its name, type, default and purpose, written down once. The structs, the table
//! that the loader checks names against, and `docs/configuration.md` all come from here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_norway::Value;
use warren_core::{
    Automatic, ByteSize, Cpus, Flush, HostName, IsolationKind, LayerDriver, NetworkRule, RootImageName,
    RunLimits, TemplateName,
};
use warren_engine::RaiseWhen;

use super::assigned::Assigned;
use super::backends::{EnabledBackends, OptionalEngine};
use super::error::ConfigError;
use super::images::{Mirrors, RegistryHosts};
use super::network::{DefaultNetwork, OptionalFile, Resolver, Subnet};
use super::policy::MinimumTier;
use super::value::{LogFormat, LogLevel, Setting};

/// A setting without its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// `section.name`.
    pub(super) path: &'static str,
    pub(super) kind: &'static str,
    /// As people write it.
    pub(super) default: &'static str,
    /// Its purpose, line by line.
    purpose: &'static [&'static str],
    /// Its value is never shown.
    pub(super) secret: bool,
    /// Reads a value and shows it in its usual form, or says what is wrong with it.
    pub(super) normalize: fn(&Value) -> Result<Value, String>,
}

impl Key {
    pub(super) fn purpose(&self) -> String {
        self.purpose.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }
}

macro_rules! sections {
    ($(
        $(#[doc = $about:literal])*
        $section:ident: $struct:ident {
            $($(#[doc = $purpose:literal])* $field:ident: $type:ty = $default:literal $($secret:ident)?;)*
        }
    )*) => {
        $(
            $(#[doc = $about])*
            #[derive(Debug, Clone, PartialEq)]
            pub struct $struct {
                $($(#[doc = $purpose])* pub $field: $type,)*
            }

            impl $struct {
                fn read(assigned: &Assigned) -> Result<Self, ConfigError> {
                    Ok(Self { $($field: assigned.get(concat!(stringify!($section), ".", stringify!($field)))?,)* })
                }
            }
        )*

        /// How the server behaves. A value that exists is complete and valid.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Config {
            $(pub $section: $struct,)*
        }

        impl Config {
            pub(super) fn read(assigned: &Assigned) -> Result<Self, ConfigError> {
                Ok(Self { $($section: $struct::read(assigned)?,)* })
            }
        }

        /// Sections in the order of the documents, with what they are about.
        pub(super) const SECTIONS: &[(&str, &[&str])] = &[$((stringify!($section), &[$($about),*]),)*];

        /// Every setting, in the same order.
        pub(super) const KEYS: &[Key] = &[$($(Key {
            path: concat!(stringify!($section), ".", stringify!($field)),
            kind: <$type as Setting>::TYPE,
            default: $default,
            purpose: &[$($purpose),*],
            secret: sections!(@secret $($secret)?),
            normalize: |value| <$type as Setting>::read(value).map(|value| value.show()),
        },)*)*];
    };
    (@secret) => { false };
    (@secret secret) => { true };
}

sections! {
    /// Where the server answers, and where it keeps its data.
    server: Server {
        /// The address to listen on. Anything but a loopback address needs keys to be on.
        listen: SocketAddr = "127.0.0.1:7777";
        /// Sandboxes, templates, records and keys are kept here.
        data_dir: PathBuf = "/var/lib/warren";
        /// Network namespaces kept ready, so that a create does not wait for one.
        prepared_networks: u32 = "16";
        /// How long requests may take to end when the server is told to.
        shutdown_grace: Duration = "10s";
    }
    /// Backends that isolate sandboxes.
    backends: Backends {
        /// Which backends are on, in the order in which they are tried for a sandbox that names
        /// none. `native` is the kernel's own namespaces, and needs no other program.
        enabled: EnabledBackends = "[native]";
        /// The socket of the Docker engine, for the backend `docker`. Who may write to it is root
        /// of the machine.
        docker_socket: PathBuf = "/var/run/docker.sock";
        /// A Docker engine on another machine instead: `tcp://HOST:PORT`. Its sandboxes have no
        /// network and no snapshots.
        docker_host: OptionalEngine = "";
        /// The directory with `ca.pem`, `cert.pem` and `key.pem` for it. Without one, the address
        /// has to be a loopback address: the end of a tunnel.
        docker_certificates: OptionalFile = "";
    }
    /// LXD or Incus, whose system containers the backend `lxd` starts.
    lxd: LxdSection {
        /// The daemon's unix socket. Empty: the first of the usual ones that is there, of LXD as a
        /// snap, of LXD as a package, of Incus.
        socket: OptionalFile = "";
        /// The storage pool that the roots of sandboxes are in. Empty: `default`, or the only one.
        pool: String = "";
    }
    /// The walls that sandboxes must have. A tier is the kind of a backend's wall: `namespaces`,
    /// `user_kernel`, `vm` or `remote`, in order of strength ([guide](guide/walls.md)).
    policy: Policy {
        /// The least tier of sandboxes: `none`, a tier for every owner, or a table such as `{ada:
        /// namespaces, '*': user_kernel}`. Nothing of an owner ever runs behind a weaker wall, and
        /// what does when the server starts is stopped with its files kept.
        minimum_tier: MinimumTier = "none";
        /// The tiers of sandboxes of these templates that ask for neither a tier nor a backend:
        /// `{untrusted: user_kernel}`.
        template_tiers: BTreeMap<TemplateName, IsolationKind> = "{}";
    }
    /// Rules that give sandboxes a stronger wall by themselves.
    tiers: Tiers {
        /// When: `network_opened` (it may reach something beyond itself), `secret_attached`
        /// (secrets are put into what it sends), `import` (its files came from an archive). A
        /// create, a fork and a change of the network policy are looked at; a sandbox that exists
        /// is moved first, which ends its processes.
        raise_when: Vec<RaiseWhen> = "[]";
        /// The least tier of such sandboxes.
        raise_to: IsolationKind = "user_kernel";
    }
    /// API keys.
    auth: Auth {
        /// Requests need a key. Without keys the server listens on loopback addresses only.
        enabled: bool = "true";
        /// Failed attempts from one address within the window before it is told to wait. Right keys
        /// always pass.
        max_failures: u64 = "100";
        /// How long failed attempts are remembered.
        failure_window: Duration = "10s";
    }
    /// How connections and requests are served.
    http: Http {
        /// Connections at once. Whoever comes when there are so many gets in, and the one of least
        /// use is closed: one that says nothing, or rests between two requests. Three quarters at
        /// most are those that have shown no key.
        max_connections: u32 = "1024";
        /// Connections at once from one IPv4 address or one IPv6 network of 64 bits that have shown
        /// no key or token. With a proxy in front of the server all of its visitors without keys
        /// are one address.
        max_connections_per_address: u32 = "256";
        /// Longest time for a request's head to arrive.
        header_timeout: Duration = "10s";
        /// A connection on which nothing happens is closed after this long.
        idle_timeout: Duration = "1m";
        /// Longest pause in the middle of a request's body.
        read_timeout: Duration = "30s";
        /// Longest time in which a client may take nothing of its answer.
        write_timeout: Duration = "2m";
        /// Longest time for a request that is neither a stream nor told by its client how long to
        /// wait.
        request_timeout: Duration = "1m";
        /// Headers of one request.
        max_headers: u32 = "100";
        /// Bytes of a request's head, or of one header list in HTTP/2.
        max_header_bytes: ByteSize = "64KiB";
        /// Bytes of a JSON body.
        max_body: ByteSize = "1MiB";
        /// Bytes of a file that is written into a sandbox.
        max_upload: ByteSize = "10GiB";
        /// Requests at once on one HTTP/2 connection.
        max_streams: u32 = "128";
    }
    /// Limits of sandboxes.
    limits: LimitSettings {
        /// Sandboxes alive at once, all owners together.
        max_sandboxes: u32 = "100";
        /// Sandboxes of one owner alive at once. 0: all of them while only one owner has keys or
        /// sandboxes, three quarters as soon as another has.
        max_sandboxes_per_owner: u32 = "0";
        /// Calls under way in one sandbox: commands that are followed, file calls, watches.
        calls_per_sandbox: u32 = "256";
        /// Calls under way in all sandboxes of one owner.
        calls_per_owner: u32 = "1024";
        /// Requests and connections under way to ports of one sandbox.
        visits_per_sandbox: u32 = "1024";
        /// Requests and connections under way to ports of all sandboxes of one owner.
        visits_per_owner: u32 = "4096";
        /// Comparisons, searches and merges of files that the machine does at once: diffs, blame,
        /// counts in the journal, promotions, templates from snapshots. Each has a thread of low
        /// priority. 0: as many as there are processors, and at least 2.
        heavy_work: u32 = "0";
        /// The same of one owner. 0: half of them, so that others find a place.
        heavy_work_per_owner: u32 = "0";
        /// Longest time for one of these.
        heavy_work_time: Duration = "5m";
        /// Archives on their way at once: exports, imports, templates, files for template builds,
        /// archives that are unpacked.
        transfers: u32 = "16";
        /// The same of one owner.
        transfers_per_owner: u32 = "4";
        /// Lists of files and searches in sandboxes that are put together at once.
        listings: u32 = "16";
        /// The same of one owner.
        listings_per_owner: u32 = "4";
        /// Requests of one owner that may wait for a place, of each of these kinds. Further ones
        /// are refused at once.
        waiting_per_owner: u32 = "16";
        /// How long each may wait.
        waiting_time: Duration = "10s";
        /// Memory of a sandbox that asks for no other.
        memory: ByteSize = "4GiB";
        /// Processors of a sandbox that asks for no other.
        cpus: Cpus = "2";
        /// Processes of a sandbox that asks for no other.
        pids: u32 = "1024";
        /// Disk space of a sandbox that asks for no other.
        disk: ByteSize = "10GiB";
        /// Files of a sandbox that asks for no other.
        inodes: u64 = "1000000";
        /// Open files of a process, for a sandbox that asks for no other.
        open_files: u64 = "4096";
        /// Life of a sandbox that asks for no other.
        ttl: Duration = "4h";
        /// The most memory that may be asked for.
        max_memory: ByteSize = "64GiB";
        /// The most processors that may be asked for.
        max_cpus: Cpus = "64";
        /// The most processes that may be asked for.
        max_pids: u32 = "32768";
        /// The most disk space that may be asked for.
        max_disk: ByteSize = "100GiB";
        /// The most files that may be asked for.
        max_inodes: u64 = "10000000";
        /// The most open files of a process that may be asked for.
        max_open_files: u64 = "1048576";
        /// The longest life that may be asked for.
        max_ttl: Duration = "1d";
    }
    /// When what nobody uses makes room.
    timeouts: TimeoutSettings {
        /// An idle sandbox is frozen after this long.
        active: Duration = "5m";
        /// A session without its client expires after this long.
        detached: Duration = "1h";
        /// A frozen sandbox is stopped after this long; its files stay.
        suspended: Duration = "1d";
        /// The longest `thinking` lease.
        max_thinking: Duration = "1h";
        /// How long a call of a tool may take that names no time of its own.
        tool: Duration = "2m";
        /// How often expired things are looked for.
        sweep: Duration = "1m";
        /// How long health believes what a backend said of itself.
        health: Duration = "30s";
        /// How long records of ended sandboxes and events are kept.
        history: Duration = "7d";
    }
    /// Room on the disk that holds the data directory.
    disk: Disk {
        /// Below this much free space health warns.
        warn: ByteSize = "5GiB";
        /// Below this much free space new work is refused.
        critical: ByteSize = "1GiB";
    }
    /// Snapshots of sandboxes.
    snapshots: Snapshots {
        /// How a sandbox's files are captured. `overlay` works everywhere. `reflink` needs a file
        /// system that shares extents, such as XFS, and `btrfs` one of its name.
        driver: LayerDriver = "overlay";
        /// Which are taken without being asked for, of a sandbox that does not say: around
        /// `commands`, at the end of `turns`, or none (`off`).
        automatic: Automatic = "commands";
        /// How many of those are kept for each sandbox, and how many that were asked for and have
        /// no name. Older ones are thinned out; those with a name stay.
        keep_automatic: u32 = "200";
        /// Programs that run in a sandbox stand still for a moment while an automatic snapshot
        /// copies what changed. It is not taken if more files changed than this; the log says so.
        copy_entries: u64 = "2000";
        /// Nor if more bytes changed than this, where files cannot share them.
        copy_bytes: ByteSize = "64MiB";
        /// Nor if they would stand still for more milliseconds than this.
        copy_still_ms: u64 = "20";
        /// When what commands write is put on disk, where a power cut cannot reach it: `background`
        /// is some seconds later, as the machine does it; `commands` is before anybody is told that
        /// a command has ended, which takes as long as the disk does.
        durability: Flush = "background";
        /// How many seconds a pause waits for commands that somebody waits for, if it does not say.
        pause_drain_s: u64 = "5";
    }
    /// Where sandboxes' packets may go. What every sandbox is kept from is in [the
    /// guide](guide/network.md).
    network: NetworkSection {
        /// Sandboxes can have a network at all. Without, nothing of this machine's own network is
        /// touched.
        enabled: bool = "true";
        /// The policy of a sandbox that asks for none: `auto` (`public` where this machine can give
        /// sandboxes a network, else `none`), `none`, `public`, `allow`, `ask` or `learn`, or a
        /// whole policy such as `{mode: allow, allow: [pypi.org, '*.pythonhosted.org']}`.
        default: DefaultNetwork = "auto";
        /// The parts of this machine's networks that sandboxes may reach although they are closed
        /// to them: addresses and networks, best with a port, such as `10.1.2.3:5432`. Every
        /// sandbox whose policy is otherwise open to it can go there.
        exceptions: Vec<NetworkRule> = "[]";
        /// The range that sandboxes' addresses are taken from; it must not be used on this machine
        /// otherwise.
        subnet: Subnet = "10.213.0.0/16";
        /// Which name servers are asked for sandboxes: addresses, with a port if it is not 53.
        /// Empty: those of `/etc/resolv.conf`, followed when they change.
        dns: Vec<Resolver> = "[]";
        /// How long a connection in mode `ask` waits for an answer before it is refused.
        ask_patience: Duration = "30s";
        /// Links kept ready, so that a create does not wait for one.
        prepared: u32 = "16";
        /// A file of certificates, in PEM, of authorities that servers are believed by beside the
        /// machine's own, where a secret is put into what a sandbox sends.
        extra_ca: OptionalFile = "";
        /// Connections of a sandbox that asks for no other number.
        connections: u32 = "2500";
        /// New connections in a second, for a sandbox that asks for no other number.
        new_connections_per_s: u32 = "500";
        /// The most connections that may be asked for.
        max_connections: u32 = "10000";
        /// The most new connections in a second that may be asked for.
        max_new_connections_per_s: u32 = "2000";
        /// Bytes in a second to one sandbox, which may ask for less and never for more. 0 is no
        /// limit.
        download: ByteSize = "0";
        /// Bytes in a second from one sandbox, which may ask for less and never for more. 0 is no
        /// limit.
        upload: ByteSize = "0";
    }
    /// Which template each type of sandbox starts from.
    templates: TemplateSettings {
        /// For `terminal`.
        terminal: TemplateName = "host";
        /// For `research`.
        research: TemplateName = "browser";
        /// For `playwright_mcp`. `warren template build browser` makes it.
        playwright_mcp: TemplateName = "browser";
        /// Images of the Docker engine that clients of the E2B protocol get by the name of a
        /// template: `{base: 'python:3.12'}`. Other clients ask for images by `image`.
        images: BTreeMap<TemplateName, RootImageName> = "{}";
    }
    /// Machines that run before anybody asks for one, so that a create takes no longer than a
    /// question.
    pools: Pools {
        /// How many of each template are kept ready: `{host: 3}`. They serve requests that ask for
        /// no other limits, network, user, variables or mounts than a sandbox has by default.
        templates: BTreeMap<TemplateName, u32> = "{}";
        /// One that is older than this is replaced.
        max_age: Duration = "25m";
    }
    /// Directories of this machine that sandboxes may be given.
    mounts: Mounts {
        /// These and all below them. Nothing else can be mounted.
        allow: Vec<PathBuf> = "[]";
    }
    /// Limits of a session's recorded runs.
    runs: RunSettings {
        /// Runs of one session.
        runs: u32 = "10";
        /// Longest run.
        run_time: Duration = "5m";
        /// Tokens of all runs of a session.
        tokens: u64 = "50000";
        /// Longest session.
        duration: Duration = "15m";
        /// Other limits for classes of customers: `{gold: {runs: 100, run_time: 10m, tokens:
        /// 1000000, duration: 1h}}`. What is left out is as above.
        tiers: BTreeMap<String, RunLimits> = "{}";
    }
    /// Sandboxes of chats.
    chats: Chats {
        /// Life of a chat's sandbox.
        ttl: Duration = "5m";
        /// The port on which the service in the sandbox listens.
        port: u16 = "8000";
        /// Set in every chat's sandbox, beside `AGENT_ID`.
        env: BTreeMap<String, String> = "{}" secret;
    }
    /// Ports of sandboxes, as addresses of their own.
    ports: Ports {
        /// Port 8000 of a sandbox is at `8000-ID.DOMAIN`. Names below `localhost` are this
        /// machine's without any DNS, and always work too. Not the API's own domain: pages of
        /// sandboxes are next to one another there.
        domain: HostName = "localhost";
        /// The address to listen on with TLS, or `off`. It answers all that the other one does.
        tls_listen: Option<SocketAddr> = "off";
        /// The certificate with its chain, in PEM, for `*.DOMAIN`. `off`: what `warren tls init`
        /// made in the data directory.
        cert: Option<PathBuf> = "off";
        /// The certificate's private key, in PEM.
        key: Option<PathBuf> = "off";
        /// Something in front of the server speaks TLS at port 443: addresses begin with `https://`
        /// and have no port.
        behind_tls: bool = "false";
        /// Requests and web sockets of one sandbox at a time.
        max_connections: u32 = "512";
        /// Requests and web sockets of visitors without a key at a time, to all sandboxes of one
        /// owner.
        max_visitors_per_owner: u32 = "512";
        /// How long an application may take to begin its answer, and a client to go on with what it
        /// sends.
        timeout: Duration = "5m";
    }
    /// The E2B protocol, which is spoken below `/e2b` in any case ([guide](guide/e2b.md)).
    e2b: E2b {
        /// The address of a listener for it alone, or `off`: everything there that is for no port
        /// of a sandbox is the protocol's, at the root.
        listen: Option<SocketAddr> = "off";
    }
    /// Images that are pulled from registries ([guide](guide/images.md)).
    images: Images {
        /// Hosts that are asked for a registry's images before the registry itself, in this order:
        /// `{docker.io: [mirror.example.com]}`. They are shown no credentials.
        mirrors: Mirrors = "{}";
        /// Registries and mirrors that speak no TLS: `[localhost:5000]`.
        plain_http: RegistryHosts = "[]";
        /// Registries whose images every owner may have pulled, to begin builds with them:
        /// `[docker.io]`. They become templates, which all owners see.
        open: RegistryHosts = "[]";
        /// A file of certificates, in PEM, of authorities that registries are believed by beside
        /// the machine's own.
        extra_ca: OptionalFile = "";
    }
    /// The server's own log, on standard error.
    log: Log {
        /// Lines for people, or one JSON object each.
        format: LogFormat = "text";
        /// Lines of lesser importance are not written.
        level: LogLevel = "info";
    }
}
