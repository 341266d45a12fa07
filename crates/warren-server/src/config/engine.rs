use std::collections::BTreeMap;
use std::time::Duration;

use warren_core::{CopyBound, Limits, RunLimits, Timeouts};
use warren_engine::{DiskThresholds, HeavyWorkLimits, PoolSettings, Settings, Share};
use warren_face::{AuthSettings, HttpSettings, PortSettings};

use super::sections::{Config, LimitSettings, Pools};

impl Config {
    /// The engine's settings. `network` is true if this machine can give sandboxes one.
    pub(crate) fn settings(&self, network: bool) -> Settings {
        Settings {
            max_sandboxes: usize::try_from(self.limits.max_sandboxes).unwrap_or(usize::MAX),
            max_sandboxes_per_owner: usize::try_from(self.limits.max_sandboxes_per_owner)
                .ok()
                .filter(|most| *most > 0),
            calls_per_sandbox: usize::try_from(self.limits.calls_per_sandbox).unwrap_or(usize::MAX),
            calls_per_owner: usize::try_from(self.limits.calls_per_owner).unwrap_or(usize::MAX),
            visits_per_sandbox: usize::try_from(self.limits.visits_per_sandbox).unwrap_or(usize::MAX),
            visits_per_owner: usize::try_from(self.limits.visits_per_owner).unwrap_or(usize::MAX),
            default_limits: self.limits.default_limits(),
            most_limits: self.limits.most_limits(),
            timeouts: Timeouts {
                active_s: self.timeouts.active.as_secs(),
                detached_s: self.timeouts.detached.as_secs(),
                suspended_s: self.timeouts.suspended.as_secs(),
            },
            run_limits: RunLimits {
                runs: self.runs.runs,
                run_s: self.runs.run_time.as_secs(),
                tokens: self.runs.tokens,
                duration_s: self.runs.duration.as_secs(),
            },
            tiers: self.runs.tiers.clone(),
            templates: BTreeMap::from([
                ("terminal".to_owned(), self.templates.terminal.clone()),
                ("research".to_owned(), self.templates.research.clone()),
                ("playwright_mcp".to_owned(), self.templates.playwright_mcp.clone()),
            ]),
            images: self.templates.images.clone(),
            disk: DiskThresholds { warn_bytes: self.disk.warn.0, critical_bytes: self.disk.critical.0 },
            sweep_s: self.timeouts.sweep.as_secs(),
            tool_ms: u64::try_from(self.timeouts.tool.as_millis()).unwrap_or(u64::MAX),
            health_ms: u64::try_from(self.timeouts.health.as_millis()).unwrap_or(u64::MAX),
            history_s: self.timeouts.history.as_secs(),
            chat_ttl_s: self.chats.ttl.as_secs(),
            chat_port: self.chats.port,
            chat_env: self.chats.env.clone(),
            most_thinking_s: self.timeouts.max_thinking.as_secs(),
            automatic_snapshots: self.snapshots.automatic,
            automatic_snapshots_kept: usize::try_from(self.snapshots.keep_automatic).unwrap_or(usize::MAX),
            copy_bound: CopyBound {
                entries: self.snapshots.copy_entries,
                bytes: self.snapshots.copy_bytes.0,
                still: Duration::from_millis(self.snapshots.copy_still_ms),
            },
            flush: self.snapshots.durability,
            pause_drain_ms: self.snapshots.pause_drain_s.saturating_mul(1000),
            network: self.network.settings(network),
            pools: self.pools.settings(),
            heavy_work: self.limits.heavy_work_limits(),
            walls: self.policy.settings(&self.tiers),
            ..Settings::default()
        }
    }
}

impl Config {
    /// The settings of all faces.
    pub(crate) fn of_faces(&self) -> warren_face::Settings {
        warren_face::Settings {
            auth: AuthSettings {
                enabled: self.auth.enabled,
                max_failures: self.auth.max_failures,
                failure_window: self.auth.failure_window,
            },
            http: HttpSettings {
                max_body: self.http.max_body.0,
                max_upload: self.http.max_upload.0,
                read_timeout: self.http.read_timeout,
                request_timeout: self.http.request_timeout,
            },
            ports: PortSettings { domain: self.ports.domain.clone(), behind_tls: self.ports.behind_tls },
        }
    }
}

impl Pools {
    fn settings(&self) -> PoolSettings {
        let counts = self.templates.iter().filter(|(_, count)| **count > 0);
        let counts = counts.map(|(name, count)| (name.clone(), usize::try_from(*count).unwrap_or(0)));
        PoolSettings { templates: counts.collect(), oldest: self.max_age }
    }
}

impl LimitSettings {
    /// Limits of heavy work. Those that are left to the machine follow from its processors.
    fn heavy_work_limits(&self) -> HeavyWorkLimits {
        let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let usual = HeavyWorkLimits::default();
        let comparisons =
            if self.heavy_work == 0 { usual.comparisons } else { Share::half_of(number(self.heavy_work)) };
        let each_owner = Some(number(self.heavy_work_per_owner)).filter(|number| *number > 0);
        HeavyWorkLimits {
            comparisons: Share { each_owner: each_owner.unwrap_or(comparisons.each_owner), ..comparisons },
            transfers: Share { all: number(self.transfers), each_owner: number(self.transfers_per_owner) },
            listings: Share { all: number(self.listings), each_owner: number(self.listings_per_owner) },
            waiting: number(self.waiting_per_owner),
            patience: self.waiting_time,
            longest: self.heavy_work_time,
        }
    }

    pub(super) fn default_limits(&self) -> Limits {
        Limits {
            memory: self.memory,
            cpus: self.cpus,
            pids: self.pids,
            disk: self.disk,
            inodes: self.inodes,
            open_files: self.open_files,
            lifetime_s: self.ttl.as_secs(),
        }
    }

    pub(super) fn most_limits(&self) -> Limits {
        Limits {
            memory: self.max_memory,
            cpus: self.max_cpus,
            pids: self.max_pids,
            disk: self.max_disk,
            inodes: self.max_inodes,
            open_files: self.max_open_files,
            lifetime_s: self.max_ttl.as_secs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_engine() {
        let (ours, theirs) = (Config::default().settings(false), Settings::default());
        assert_eq!(ours.default_limits, theirs.default_limits);
        assert_eq!(ours.most_limits, theirs.most_limits);
        assert_eq!((ours.timeouts, ours.run_limits), (theirs.timeouts, theirs.run_limits));
        assert_eq!((ours.disk, ours.max_sandboxes), (theirs.disk, theirs.max_sandboxes));
        assert_eq!(
            (ours.calls_per_sandbox, ours.calls_per_owner),
            (theirs.calls_per_sandbox, theirs.calls_per_owner)
        );
        assert_eq!(
            (ours.visits_per_sandbox, ours.visits_per_owner),
            (theirs.visits_per_sandbox, theirs.visits_per_owner)
        );
        assert_eq!((ours.sweep_s, ours.history_s), (theirs.sweep_s, theirs.history_s));
        assert_eq!((ours.tool_ms, ours.health_ms), (theirs.tool_ms, theirs.health_ms));
        assert_eq!((ours.chat_ttl_s, ours.chat_port), (theirs.chat_ttl_s, theirs.chat_port));
        assert_eq!(ours.most_thinking_s, theirs.most_thinking_s);
        assert_eq!(ours.automatic_snapshots, theirs.automatic_snapshots);
        assert_eq!(ours.automatic_snapshots_kept, theirs.automatic_snapshots_kept);
        assert_eq!(ours.pause_drain_ms, theirs.pause_drain_ms);
        assert_eq!((ours.network.default, ours.network.most), (theirs.network.default, theirs.network.most));
    }
}
