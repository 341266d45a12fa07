use crate::id::SandboxId;

/// How a port of a sandbox is reached from outside. The default holds for every port of which
/// nobody said otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortSettings {
    /// Everybody may reach it.
    pub public: bool,
    /// The host that the application is told, if not the one that the client asked for.
    pub host: Option<String>,
}

/// The settings of one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRecord {
    pub sandbox: SandboxId,
    pub port: u16,
    pub settings: PortSettings,
}
