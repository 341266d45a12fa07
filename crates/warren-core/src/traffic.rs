use serde::{Deserialize, Serialize};

/// How traffic from outside meets a sandbox: who may reach its ports, how, and whether the sandbox
/// goes on for it. The default is closed to everybody without leave, and stays paused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Everybody who knows the sandbox's id may use its ports.
    pub public: bool,
    /// The host that applications are told; `${PORT}` in it is the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask_host: Option<String>,
    /// Ports on which applications speak TLS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub https_ports: Vec<u16>,
    /// Present: a sandbox that somebody paused goes on when traffic comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake: Option<Wake>,
}

/// The settings of a sandbox that traffic wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// Its time to live from then on. It gets some minutes at least.
    pub lifetime_s: u64,
}

impl Traffic {
    /// The host that the application on a port is told, if not the one that the client asked for.
    pub fn host_of(&self, port: u16) -> Option<String> {
        self.mask_host.as_ref().map(|host| host.replace("${PORT}", &port.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_are_told_a_host_with_their_port() {
        let masked = Traffic { mask_host: Some("a:${PORT}".to_owned()), ..Traffic::default() };
        assert_eq!(masked.host_of(80).as_deref(), Some("a:80"));
        assert_eq!(Traffic::default().host_of(80), None);
    }

    #[test]
    fn what_is_not_written_is_closed() {
        assert_eq!(serde_json::from_str::<Traffic>("{}").unwrap(), Traffic::default());
    }
}
