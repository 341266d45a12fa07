use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use warren_core::{
    Automatic, ByteSize, CopyBound, Cpus, Flush, IsolationKind, Limits, NetworkLimits, NetworkPolicy,
    NetworkRule, Owner, RootImageName, RunLimits, SandboxKind, SandboxSpec, TemplateName, Timeouts,
    WallChoice,
};

use crate::bounds::HeavyWorkLimits;
use crate::bounds::InFlight;
use crate::bounds::in_flight::Most;

/// How the engine behaves. The server fills it from its configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Most sandboxes that may be alive at once, all owners together.
    pub max_sandboxes: usize,
    /// Most of them that may be one owner's. Absent: all while there is one owner, three quarters
    /// as soon as there are more.
    pub max_sandboxes_per_owner: Option<usize>,
    /// Most calls under way in one sandbox: commands that are followed, file calls, watches.
    pub calls_per_sandbox: usize,
    /// Most calls under way in all sandboxes of one owner.
    pub calls_per_owner: usize,
    /// Most requests and connections under way to ports of one sandbox.
    pub visits_per_sandbox: usize,
    /// Most of those to all sandboxes of one owner.
    pub visits_per_owner: usize,
    /// Limits of a sandbox that asks for none.
    pub default_limits: Limits,
    /// The most that a sandbox may ask for.
    pub most_limits: Limits,
    pub timeouts: Timeouts,
    pub run_limits: RunLimits,
    /// Run limits of classes of customers, by name.
    pub tiers: TierLimits,
    /// Which template each kind of sandbox starts from, by the name of the kind.
    pub templates: BTreeMap<String, TemplateName>,
    /// Images of backends, by the names of templates that they stand for where a client has no
    /// word for images.
    pub images: BTreeMap<TemplateName, RootImageName>,
    pub disk: DiskThresholds,
    /// How long a call of a tool may take that says nothing of it.
    pub tool_ms: u64,
    /// How long the answer of a backend about itself is reused: asking takes it some milliseconds.
    pub health_ms: u64,
    /// How often expired things are looked for.
    pub sweep_s: u64,
    /// How long records of ended sandboxes and events are kept.
    pub history_s: u64,
    /// Time to live of a chat's sandbox.
    pub chat_ttl_s: u64,
    /// The port on which the service in a chat's sandbox listens.
    pub chat_port: u16,
    /// Set in every chat's sandbox, beside `AGENT_ID`.
    pub chat_env: BTreeMap<String, String>,
    /// Longest a caller may hold a `thinking` lease at a time.
    pub most_thinking_s: u64,
    /// Which snapshots are taken without being asked for, of a sandbox that does not say.
    pub automatic_snapshots: Automatic,
    /// How many of those are kept for each sandbox. The newest stay dense, older ones become
    /// sparse.
    pub automatic_snapshots_kept: usize,
    /// How much an automatic snapshot may cost while programs run in the sandbox.
    pub copy_bound: CopyBound,
    /// When what commands write is put on disk.
    pub flush: Flush,
    /// How long a pause waits for what goes on, if it does not say.
    pub pause_drain_ms: u64,
    pub network: NetworkSettings,
    pub pools: PoolSettings,
    /// How much heavy work is done at once.
    pub heavy_work: HeavyWorkLimits,
    pub walls: WallSettings,
    /// How often a backend that is away is asked again.
    pub away_retry: Duration,
}

/// Where sandboxes may go.
#[derive(Debug, Clone)]
pub struct NetworkSettings {
    /// The policy of a sandbox that does not say.
    pub default: NetworkPolicy,
    /// Rules by which the operator opens what is otherwise closed to every sandbox.
    pub exceptions: Vec<NetworkRule>,
    /// The most that a sandbox may ask for.
    pub most: NetworkLimits,
}

/// Machines that are made ahead of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSettings {
    /// How many of each template are kept ready, with the limits and the network of a sandbox that
    /// asks for none.
    pub templates: BTreeMap<TemplateName, usize>,
    /// One that is older than this is replaced.
    pub oldest: Duration,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self { templates: BTreeMap::new(), oldest: Duration::from_secs(25 * 60) }
    }
}

/// The walls that sandboxes get and may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WallSettings {
    /// The least tier of every owner that is not named.
    pub least: Option<IsolationKind>,
    /// The least tiers of these owners.
    pub least_of: BTreeMap<Owner, IsolationKind>,
    /// The tiers of sandboxes of these templates that ask for neither a tier nor a backend.
    pub templates: BTreeMap<TemplateName, IsolationKind>,
    /// Sandboxes of which one of these is true go behind a wall of the tier `raise_to`.
    pub raise_when: Vec<RaiseWhen>,
    pub raise_to: Option<IsolationKind>,
}

/// A reason for a stronger wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RaiseWhen {
    /// It may reach something beyond itself.
    NetworkOpened,
    /// Secrets are put into what it sends.
    SecretAttached,
    /// Its files came from elsewhere.
    Import,
}

/// Run limits by tier.
pub type TierLimits = BTreeMap<String, RunLimits>;

/// Free space at which health warns, and below which new work is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskThresholds {
    pub warn_bytes: u64,
    pub critical_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_sandboxes: 100,
            max_sandboxes_per_owner: None,
            calls_per_sandbox: 256,
            calls_per_owner: 1024,
            visits_per_sandbox: 1024,
            visits_per_owner: 4096,
            default_limits: Limits::default(),
            most_limits: Limits {
                memory: ByteSize::gib(64),
                cpus: Cpus::from_milli(64_000),
                pids: 32_768,
                disk: ByteSize::gib(100),
                inodes: 10_000_000,
                open_files: 1_048_576,
                lifetime_s: 24 * 3600,
            },
            timeouts: Timeouts::default(),
            run_limits: RunLimits::default(),
            tiers: TierLimits::new(),
            templates: BTreeMap::new(),
            images: BTreeMap::new(),
            disk: DiskThresholds { warn_bytes: 5 << 30, critical_bytes: 1 << 30 },
            tool_ms: 120_000,
            health_ms: 30_000,
            sweep_s: 60,
            history_s: 7 * 86_400,
            chat_ttl_s: 300,
            chat_port: 8000,
            chat_env: BTreeMap::new(),
            most_thinking_s: 3600,
            automatic_snapshots: Automatic::default(),
            automatic_snapshots_kept: 200,
            copy_bound: CopyBound::default(),
            flush: Flush::default(),
            pause_drain_ms: 5000,
            network: NetworkSettings::default(),
            pools: PoolSettings::default(),
            heavy_work: HeavyWorkLimits::default(),
            walls: WallSettings::default(),
            away_retry: Duration::from_secs(5),
        }
    }
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            default: NetworkPolicy::none(),
            exceptions: Vec::new(),
            most: NetworkLimits {
                connections: 10_000,
                new_connections_per_s: 2000,
                ..NetworkLimits::default()
            },
        }
    }
}

impl WallSettings {
    /// The least tier of an owner's sandboxes.
    pub fn least_for(&self, owner: &Owner) -> Option<IsolationKind> {
        self.least_of.get(owner).copied().or(self.least)
    }

    /// The tier that a sandbox of this policy has to have by the rules; `imported` says whether its
    /// files came from elsewhere.
    pub(crate) fn raised(&self, network: &NetworkPolicy, imported: bool) -> Option<IsolationKind> {
        let holds = |when: &RaiseWhen| match when {
            RaiseWhen::NetworkOpened => !network.is_none(),
            RaiseWhen::SecretAttached => !network.secrets.is_empty(),
            RaiseWhen::Import => imported,
        };
        self.raise_to.filter(|_| self.raise_when.iter().any(holds))
    }

    /// The choice for a sandbox of a template, where the request leaves it open.
    pub(crate) fn effective(&self, asked: &WallChoice, spec: &SandboxSpec) -> WallChoice {
        match spec.used_template().and_then(|template| self.templates.get(template)) {
            Some(tier) if asked.is_free() => WallChoice::tier(*tier),
            _ => asked.clone(),
        }
    }
}

impl Settings {
    pub(crate) fn calls_in_flight(&self) -> Arc<InFlight> {
        InFlight::new(
            Most { count: self.calls_per_sandbox, setting: "limits.calls_per_sandbox" },
            Most { count: self.calls_per_owner, setting: "limits.calls_per_owner" },
        )
    }

    pub(crate) fn visits_in_flight(&self) -> Arc<InFlight> {
        InFlight::new(
            Most { count: self.visits_per_sandbox, setting: "limits.visits_per_sandbox" },
            Most { count: self.visits_per_owner, setting: "limits.visits_per_owner" },
        )
    }

    pub fn template_of(&self, kind: SandboxKind) -> TemplateName {
        let name = match kind {
            SandboxKind::Terminal => "terminal",
            SandboxKind::Research => "research",
            SandboxKind::PlaywrightMcp => "playwright_mcp",
        };
        self.templates.get(name).cloned().unwrap_or_else(TemplateName::host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_is_named_has_a_least_tier_of_its_own() {
        let named: Owner = "ada".parse().expect("an owner");
        let settings = WallSettings {
            least: Some(IsolationKind::UserKernel),
            least_of: BTreeMap::from([(named.clone(), IsolationKind::Namespaces)]),
            ..WallSettings::default()
        };
        assert_eq!(settings.least_for(&named), Some(IsolationKind::Namespaces));
        assert_eq!(settings.least_for(&Owner::first()), Some(IsolationKind::UserKernel));
        assert_eq!(WallSettings::default().least_for(&named), None);
    }

    #[test]
    fn a_rule_raises_what_it_is_about_and_nothing_else() {
        let rules = |raise_when: Vec<RaiseWhen>| WallSettings {
            raise_when,
            raise_to: Some(IsolationKind::Vm),
            ..WallSettings::default()
        };
        let (none, open) = (NetworkPolicy::none(), NetworkPolicy::public());
        let network = rules(vec![RaiseWhen::NetworkOpened]);
        assert_eq!(network.raised(&none, true), None);
        assert_eq!(network.raised(&open, false), Some(IsolationKind::Vm));
        let import = rules(vec![RaiseWhen::Import, RaiseWhen::SecretAttached]);
        assert_eq!(import.raised(&open, false), None);
        assert_eq!(import.raised(&none, true), Some(IsolationKind::Vm));
        assert_eq!(WallSettings::default().raised(&open, true), None);
    }

    #[test]
    fn the_tier_of_a_template_is_for_those_who_leave_it_open() {
        let templates = BTreeMap::from([(TemplateName::host(), IsolationKind::Vm)]);
        let settings = WallSettings { templates, ..WallSettings::default() };
        let spec = SandboxSpec::new(TemplateName::host());
        let free = settings.effective(&WallChoice::default(), &spec);
        assert_eq!(free, WallChoice::tier(IsolationKind::Vm));
        let named = WallChoice::backend("native");
        assert_eq!(settings.effective(&named, &spec), named);
    }
}
