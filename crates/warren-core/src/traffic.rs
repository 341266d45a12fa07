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

/// A rule for traffic that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TrafficError {
    #[error("a host such as localhost:${{PORT}}, {MOST_HOST} characters at most")]
    MaskHost,
    #[error("{MOST_HTTPS_PORTS} ports at most, from 1 to 65535")]
    HttpsPorts,
}

const MOST_HOST: usize = 255;
const MOST_HTTPS_PORTS: usize = 64;

impl Traffic {
    pub fn validate(&self) -> Result<(), TrafficError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
        let fits = |host: &String| host.len() <= MOST_HOST && host.replace("${PORT}", "").bytes().all(plain);
        if !self.mask_host.as_ref().is_none_or(fits) {
            return Err(TrafficError::MaskHost);
        }
        if self.https_ports.len() > MOST_HTTPS_PORTS || self.https_ports.contains(&0) {
            return Err(TrafficError::HttpsPorts);
        }
        Ok(())
    }

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
    fn hosts_and_ports_that_cannot_be_are_refused() {
        let host = |host: &str| Traffic { mask_host: Some(host.to_owned()), ..Traffic::default() };
        let ports = |ports: &[u16]| Traffic { https_ports: ports.to_vec(), ..Traffic::default() };
        for good in [host("localhost:${PORT}"), host("[::1]"), ports(&[443, 8443]), Traffic::default()] {
            assert_eq!(good.validate(), Ok(()), "{good:?}");
        }
        for wrong in ["a b", "a\r\nb", "${HOST}", &"a".repeat(256)] {
            assert_eq!(host(wrong).validate(), Err(TrafficError::MaskHost), "{wrong}");
        }
        for wrong in [&[0][..], &[1; 65]] {
            assert_eq!(ports(wrong).validate(), Err(TrafficError::HttpsPorts));
        }
    }

    #[test]
    fn what_is_not_written_is_closed() {
        assert_eq!(serde_json::from_str::<Traffic>("{}").unwrap(), Traffic::default());
    }
}
