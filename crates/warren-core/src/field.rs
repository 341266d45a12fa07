//! The parts of requests that a refusal can be about, by what they are to the domain. Each
//! interface has its own names for them.

use std::fmt;

macro_rules! fields {
    ($($variant:ident $name:literal,)*) => {
        /// A value that can be wrong. Its text is the domain's own name for it.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Field {
            $($variant,)*
            /// A part of a sandbox's network policy.
            Network(PolicyField),
            /// A parameter of a tool, as the tool's schema names it.
            ToolParameter(String),
        }

        impl fmt::Display for Field {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($name),)*
                    Self::Network(field) => write!(f, "network.{field}"),
                    Self::ToolParameter(name) => write!(f, "params.{name}"),
                }
            }
        }
    };
}

fields! {
    Template "template",
    Image "image",
    SandboxName "name",
    Memory "memory",
    Cpus "cpus",
    Pids "pids",
    Disk "disk",
    Inodes "inodes",
    OpenFiles "open_files",
    Lifetime "lifetime_s",
    Env "env",
    Labels "labels",
    Metadata "metadata",
    User "user",
    Hostname "hostname",
    Workdir "workdir",
    Mounts "mounts",
    MountSource "mounts.source",
    MountTarget "mounts.target",
    Backend "backend",
    WallTier "tier",
    Traffic "traffic",
    NetworkRules "rules",
    ActiveTime "timeouts.active_s",
    DetachedTime "timeouts.detached_s",
    SuspendedTime "timeouts.suspended_s",
    RunCount "limits.runs",
    RunTime "limits.run_s",
    RunTokens "limits.tokens",
    RunDuration "limits.duration_s",
    RequiredReadable "required.readable",
    RequiredWritable "required.writable",
    RequiredLabels "required.labels",
    RequiredNetwork "required.network",
    RequiredMemory "required.memory",
    Tier "tier",
    Client "client",
    IdempotencyKey "idempotency_key",
    ThinkingTime "seconds",
    Task "task",
    RunResult "result",
    Provider "provider",
    Screenshots "screenshots",
    FailureReason "reason",
    ProvisionUrl "url",
    ProvisionJob "job",
    Snapshot "snapshot",
    SnapshotName "name",
    Steps "steps",
    ForkCount "count",
    MergeTarget "into",
    ComparedTo "to",
    Since "since",
    Session "session",
    Process "process",
    Path "path",
    Operation "operation",
    Tool "tool",
    ToolCall "call",
    ToolParameters "params",
    ToolTime "timeout",
    ToolOutput "most_output_bytes",
    ToolMemory "memory_bytes",
    SecretName "name",
    SecretHosts "hosts",
    SecretValue "value",
    SecretHeader "header",
    SecretTemplate "template",
    SecretPlaceholder "placeholder",
    SecretHeaders "headers",
    Chat "chat",
    Agent "agent",
    Volume "volume",
}

impl Field {
    /// True for a part of a request for a new sandbox.
    pub fn is_of_new_sandbox(&self) -> bool {
        matches!(
            self,
            Self::Template
                | Self::Image
                | Self::SandboxName
                | Self::Memory
                | Self::Cpus
                | Self::Pids
                | Self::Disk
                | Self::Inodes
                | Self::OpenFiles
                | Self::Lifetime
                | Self::WallTier
                | Self::Mounts
                | Self::MountSource
                | Self::MountTarget
                | Self::Network(_)
                | Self::ActiveTime
                | Self::DetachedTime
                | Self::SuspendedTime
        )
    }
}

/// A part of a network policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyField {
    Mode,
    Allow,
    Deny,
    Grants,
    Secrets,
    Limit(NetworkLimit),
}

/// A limit of a network policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NetworkLimit {
    Connections,
    NewConnections,
    Download,
    Upload,
}

impl fmt::Display for PolicyField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode => f.write_str("mode"),
            Self::Allow => f.write_str("allow"),
            Self::Deny => f.write_str("deny"),
            Self::Grants => f.write_str("grants"),
            Self::Secrets => f.write_str("secrets"),
            Self::Limit(limit) => write!(f, "limits.{limit}"),
        }
    }
}

impl fmt::Display for NetworkLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connections => "connections",
            Self::NewConnections => "new_connections_per_s",
            Self::Download => "down_bytes_per_s",
            Self::Upload => "up_bytes_per_s",
        })
    }
}
