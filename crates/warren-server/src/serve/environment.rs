use std::net::SocketAddr;
use std::path::PathBuf;

use warren_face::auth::Secret;

use crate::config::Config;
use crate::tls;

/// Clients insist on a key, also where none is asked for.
const NO_KEY: &str = "e2b_0000000000000000000000000000000000000000";

/// How clients of the E2B protocol reach this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct E2bAddress {
    pub api_url: String,
    /// For every sandbox: they are told apart by headers.
    pub sandbox_url: String,
    /// The domain, which alone is enough where TLS is spoken, with its port.
    pub domain: Option<String>,
    /// The local authority that clients have to trust then, if it is one.
    pub authority: Option<PathBuf>,
}

impl E2bAddress {
    pub(super) fn new(config: &Config, url: &str, own: Option<SocketAddr>, tls_port: Option<u16>) -> Self {
        let ports = &config.ports;
        let domain = match tls_port.filter(|_| !ports.behind_tls) {
            Some(443) => Some(ports.domain.to_string()),
            Some(port) => Some(format!("{}:{port}", ports.domain)),
            None => ports.behind_tls.then(|| ports.domain.to_string()),
        };
        let local = tls_port.is_some() && !ports.behind_tls && ports.cert.is_none();
        Self {
            api_url: own.map_or_else(|| format!("{url}/e2b"), |own| format!("http://{own}")),
            sandbox_url: url.to_owned(),
            domain,
            authority: local.then(|| tls::authority_file(&config.server.data_dir)),
        }
    }

    /// The variables for clients, as lines of a file of shell variables.
    pub fn variables(&self, key: Option<&str>) -> String {
        let key = key.and_then(|key| key.parse::<Secret>().ok());
        let key = key.map_or_else(|| NO_KEY.to_owned(), |key| key.shown_to_e2b());
        let (api, sandbox) = (&self.api_url, &self.sandbox_url);
        let mut lines = vec![
            format!("E2B_API_URL={api}"),
            format!("E2B_SANDBOX_URL={sandbox}"),
            format!("E2B_API_KEY={key}"),
        ];
        lines.extend(self.domain.as_ref().map(|domain| format!("E2B_DOMAIN={domain}")));
        if let Some(path) = self.authority.as_ref().map(|path| path.display()) {
            lines.push(format!("NODE_EXTRA_CA_CERTS={path}"));
            lines.push("# Python trusts it with the following, and then perhaps nobody else:".to_owned());
            lines.push(format!("# SSL_CERT_FILE={path}"));
        }
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Loaded;

    fn config(assignments: &[&str]) -> Config {
        let assignments = assignments.iter().map(|text| (*text).to_owned()).collect();
        let sources = crate::config::Sources { assignments, ..crate::config::Sources::default() };
        Loaded::load(&sources).unwrap().config
    }

    #[test]
    fn plain_http_needs_two_addresses_and_a_key() {
        let address = E2bAddress::new(&config(&[]), "http://127.0.0.1:7777", None, None);
        let key = format!("wrn_{}", "ab".repeat(20));
        let lines = format!(
            "E2B_API_URL=http://127.0.0.1:7777/e2b\nE2B_SANDBOX_URL=http://127.0.0.1:7777\nE2B_API_KEY=e2b_{}\n",
            "ab".repeat(20)
        );
        assert_eq!(address.variables(Some(&key)), lines);
        assert!(address.variables(None).contains(NO_KEY));
        let own = E2bAddress::new(&config(&[]), "http://127.0.0.1:7777", "127.0.0.1:3000".parse().ok(), None);
        assert_eq!(own.api_url, "http://127.0.0.1:3000");
    }

    #[test]
    fn with_tls_the_domain_is_told_too() {
        let named = ["ports.domain=box.example"];
        let local = E2bAddress::new(&config(&named), "http://127.0.0.1:7777", None, Some(8443));
        assert_eq!(local.domain.as_deref(), Some("box.example:8443"));
        assert!(local.authority.is_some() && local.variables(None).contains("NODE_EXTRA_CA_CERTS="));
        let usual = E2bAddress::new(&config(&named), "http://127.0.0.1:7777", None, Some(443));
        assert_eq!(usual.domain.as_deref(), Some("box.example"));
        let behind = config(&["ports.domain=box.example", "ports.behind_tls=true"]);
        let behind = E2bAddress::new(&behind, "http://127.0.0.1:7777", None, None);
        assert_eq!((behind.domain.as_deref(), behind.authority), (Some("box.example"), None));
    }
}
