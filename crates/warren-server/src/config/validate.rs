use std::fmt::Display;
use std::time::Duration;

use serde_norway::Value;
use warren_core::network::{PolicyError, PolicyFault, Target};
use warren_core::{Field, Limits, NetworkLimit, NetworkPolicy, PolicyField};

use super::assigned::Assigned;
use super::error::ConfigError;
use super::sections::Config;
use super::value::Setting;

/// The longest time to wait for a pause.
const LONGEST_DRAIN_S: u64 = 600;

/// Clients give up waiting for a connection after some minutes anyway.
const LONGEST_ASK: Duration = Duration::from_secs(600);

/// Refuses what cannot work, naming the setting that somebody gave.
pub(super) fn check(config: &Config, assigned: &Assigned) -> Result<(), ConfigError> {
    let check = Check { assigned };
    check.listen(config)?;
    check.http(config)?;
    check.times(config)?;
    check.limits(config)?;
    check.network(config)?;
    check.at_least("snapshots.keep_automatic", config.snapshots.keep_automatic, 1)?;
    if config.snapshots.pause_drain_s > LONGEST_DRAIN_S {
        let detail = format!("may not be more than {LONGEST_DRAIN_S}");
        return Err(check.wrong("snapshots.pause_drain_s", &detail));
    }
    check.ports(config)?;
    let disk = &config.disk;
    check.at_most(("disk.critical", disk.critical), ("disk.warn", disk.warn))?;
    if config.mounts.allow.iter().any(|path| path.parent().is_none()) {
        return Err(check.wrong("mounts.allow", "the root directory may not be given away"));
    }
    Ok(())
}

struct Check<'a> {
    assigned: &'a Assigned,
}

impl Check<'_> {
    fn listen(&self, config: &Config) -> Result<(), ConfigError> {
        let addresses = [("server.listen", Some(config.server.listen)), ("e2b.listen", config.e2b.listen)];
        let open = |address: &std::net::SocketAddr| !config.auth.enabled && !address.ip().is_loopback();
        match addresses.into_iter().find(|(_, address)| address.as_ref().is_some_and(open)) {
            None => Ok(()),
            Some((key, _)) => Err(self.wrong(
                key,
                "without keys (auth.enabled = false) only a loopback address may be served, such as 127.0.0.1",
            )),
        }
    }

    fn http(&self, config: &Config) -> Result<(), ConfigError> {
        let http = &config.http;
        self.at_least("http.max_connections", http.max_connections, 1)?;
        self.at_least("http.max_connections_per_address", http.max_connections_per_address, 1)?;
        self.at_least("http.max_headers", http.max_headers, 16)?;
        self.at_least("http.max_streams", http.max_streams, 1)?;
        // The least that the connection's buffer can be.
        self.bytes("http.max_header_bytes", http.max_header_bytes.0, 8 << 10)?;
        self.bytes("http.max_body", http.max_body.0, 1 << 10)?;
        for (key, duration) in [
            ("http.header_timeout", http.header_timeout),
            ("http.idle_timeout", http.idle_timeout),
            ("http.read_timeout", http.read_timeout),
            ("http.write_timeout", http.write_timeout),
            ("http.request_timeout", http.request_timeout),
        ] {
            self.lasts(key, duration, Duration::from_millis(100))?;
        }
        self.at_least("auth.max_failures", config.auth.max_failures, 1)?;
        self.lasts("auth.failure_window", config.auth.failure_window, Duration::from_millis(100))
    }

    fn ports(&self, config: &Config) -> Result<(), ConfigError> {
        let ports = &config.ports;
        self.at_least("ports.max_connections", ports.max_connections, 1)?;
        self.at_least("ports.max_visitors_per_owner", ports.max_visitors_per_owner, 1)?;
        self.lasts("ports.timeout", ports.timeout, Duration::from_secs(1))?;
        match (&ports.cert, &ports.key) {
            (Some(_), None) => Err(self.wrong("ports.cert", "needs ports.key beside it")),
            (None, Some(_)) => Err(self.wrong("ports.key", "needs ports.cert beside it")),
            (Some(_), Some(_)) | (None, None) => Ok(()),
        }
    }

    fn times(&self, config: &Config) -> Result<(), ConfigError> {
        let (timeouts, runs) = (&config.timeouts, &config.runs);
        for (key, duration) in [
            ("timeouts.active", timeouts.active),
            ("timeouts.detached", timeouts.detached),
            ("timeouts.suspended", timeouts.suspended),
            ("timeouts.max_thinking", timeouts.max_thinking),
            ("timeouts.tool", timeouts.tool),
            ("timeouts.sweep", timeouts.sweep),
            ("timeouts.history", timeouts.history),
            ("chats.ttl", config.chats.ttl),
            ("runs.run_time", runs.run_time),
            ("runs.duration", runs.duration),
        ] {
            self.lasts(key, duration, Duration::from_secs(1))?;
        }
        Ok(())
    }

    fn limits(&self, config: &Config) -> Result<(), ConfigError> {
        let limits = &config.limits;
        self.at_least("limits.max_sandboxes", limits.max_sandboxes, 1)?;
        self.at_least("limits.calls_per_sandbox", limits.calls_per_sandbox, 1)?;
        self.at_least("limits.calls_per_owner", limits.calls_per_owner, 1)?;
        self.at_least("limits.visits_per_sandbox", limits.visits_per_sandbox, 1)?;
        self.at_least("limits.visits_per_owner", limits.visits_per_owner, 1)?;
        for (key, number) in [
            ("limits.transfers", limits.transfers),
            ("limits.transfers_per_owner", limits.transfers_per_owner),
            ("limits.listings", limits.listings),
            ("limits.listings_per_owner", limits.listings_per_owner),
        ] {
            self.at_least(key, number, 1)?;
        }
        self.lasts("limits.heavy_work_time", limits.heavy_work_time, Duration::from_secs(1))?;
        self.at_most(("limits.memory", limits.memory), ("limits.max_memory", limits.max_memory))?;
        self.at_most(("limits.cpus", limits.cpus), ("limits.max_cpus", limits.max_cpus))?;
        self.at_most(("limits.pids", limits.pids), ("limits.max_pids", limits.max_pids))?;
        self.at_most(("limits.disk", limits.disk), ("limits.max_disk", limits.max_disk))?;
        self.at_most(("limits.inodes", limits.inodes), ("limits.max_inodes", limits.max_inodes))?;
        self.at_most(
            ("limits.open_files", limits.open_files),
            ("limits.max_open_files", limits.max_open_files),
        )?;
        self.at_most(("limits.ttl", limits.ttl), ("limits.max_ttl", limits.max_ttl))?;
        self.possible("limits.", &limits.default_limits())?;
        self.possible("limits.max_", &limits.most_limits())
    }

    fn network(&self, config: &Config) -> Result<(), ConfigError> {
        let network = &config.network;
        let by_address = |target: &Target| matches!(target, Target::Network(_));
        if let Some(rule) = network.exceptions.iter().find(|rule| !by_address(&rule.target)) {
            let detail =
                format!("`{rule}` is no address or network: names are open to those whose policy says so");
            return Err(self.wrong("network.exceptions", &detail));
        }
        self.lasts("network.ask_patience", network.ask_patience, Duration::from_secs(1))?;
        if network.ask_patience > LONGEST_ASK {
            return Err(self.wrong("network.ask_patience", &format!("may not be more than {LONGEST_ASK:?}")));
        }
        let most = ("network.max_connections", network.max_connections);
        self.at_most(("network.connections", network.connections), most)?;
        let most = ("network.max_new_connections_per_s", network.max_new_connections_per_s);
        self.at_most(("network.new_connections_per_s", network.new_connections_per_s), most)?;
        self.policy("network.", NetworkPolicy { limits: network.default_limits(), ..NetworkPolicy::none() })?;
        self.policy(
            "network.max_",
            NetworkPolicy { limits: network.most_limits(), ..NetworkPolicy::none() },
        )?;
        let default = config.network.settings(true);
        default
            .default
            .validate(&default.exceptions)
            .map_err(|error| self.wrong("network.default", &error.to_string()))
    }

    fn policy(&self, prefix: &str, policy: NetworkPolicy) -> Result<(), ConfigError> {
        policy.validate(&[]).map_err(|error| match error {
            PolicyError { field: PolicyField::Limit(limit), fault: PolicyFault::Range { least, most } } => {
                match limit {
                    NetworkLimit::Download => {
                        self.wrong("network.download", &format!("must be 0 or at least {least}"))
                    }
                    NetworkLimit::Upload => {
                        self.wrong("network.upload", &format!("must be 0 or at least {least}"))
                    }
                    NetworkLimit::Connections | NetworkLimit::NewConnections => self
                        .wrong(&format!("{prefix}{limit}"), &format!("must be between {least} and {most}")),
                }
            }
            error => self.wrong("network.default", &error.to_string()),
        })
    }

    fn possible(&self, prefix: &str, limits: &Limits) -> Result<(), ConfigError> {
        limits.validate().map_err(|error| {
            let name =
                if error.field == Field::Lifetime { "ttl".to_owned() } else { error.field.to_string() };
            self.wrong(
                &format!("{prefix}{name}"),
                &format!("must be between {} and {}", error.least, error.most),
            )
        })
    }

    fn at_most<T: Setting + PartialOrd>(
        &self,
        (key, value): (&str, T),
        (other, most): (&str, T),
    ) -> Result<(), ConfigError> {
        if value <= most {
            return Ok(());
        }
        let most = match most.show() {
            Value::String(text) => text,
            _ => String::new(),
        };
        Err(self.wrong(key, &format!("may not be more than {other} ({most})")))
    }

    fn at_least<T: PartialOrd + Display>(&self, key: &str, value: T, least: T) -> Result<(), ConfigError> {
        if value >= least { Ok(()) } else { Err(self.wrong(key, &format!("must be at least {least}"))) }
    }

    fn bytes(&self, key: &str, value: u64, least: u64) -> Result<(), ConfigError> {
        if value >= least {
            return Ok(());
        }
        Err(self.wrong(key, &format!("must be at least {}KiB", least >> 10)))
    }

    fn lasts(&self, key: &str, value: Duration, least: Duration) -> Result<(), ConfigError> {
        if value >= least { Ok(()) } else { Err(self.wrong(key, &format!("must be at least {least:?}"))) }
    }

    fn wrong(&self, key: &str, message: &str) -> ConfigError {
        ConfigError::Value {
            key: key.to_owned(),
            message: message.to_owned(),
            origin: self.assigned.origin(key),
        }
    }
}
