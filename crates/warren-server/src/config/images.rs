//! Types of settings that speak of registries of images.

use std::collections::BTreeMap;
use std::{fs, io};

use serde_norway::Value;
use warren_core::ImageAddress;
use warren_registry::{Registries, RegistrySettings};

use super::sections::Images;
use super::value::{Setting, flow, word};

/// Hosts, each with a port if it has one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryHosts(pub Vec<String>);

/// The mirrors of each registry, in the order in which they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirrors(pub BTreeMap<String, Vec<String>>);

impl Images {
    /// The registries as these settings reach them.
    pub fn registries(&self) -> io::Result<Registries> {
        let extra_ca = self.extra_ca.0.as_ref().map(fs::read).transpose()?;
        Ok(Registries::new(RegistrySettings {
            mirrors: self.mirrors.0.clone(),
            plain_http: self.plain_http.0.clone(),
            open: self.open.0.clone(),
            extra_ca,
        }))
    }
}

fn host(text: &str) -> Result<String, String> {
    let text = text.trim().to_ascii_lowercase();
    if ImageAddress::is_registry(&text) {
        Ok(text)
    } else {
        Err(format!("`{text}` is not a registry: write HOST or HOST:PORT, without `https://`"))
    }
}

impl Setting for RegistryHosts {
    const TYPE: &'static str = "list of hosts";

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self::default()),
            Value::Sequence(items) => {
                items.iter().map(|item| host(&word(item)?)).collect::<Result<_, _>>().map(Self)
            }
            Value::String(text) if text.starts_with('[') => Self::read(&flow(text)?),
            Value::String(text) => {
                let parts = text.split(',').filter(|part| !part.is_empty());
                parts.map(host).collect::<Result<_, _>>().map(Self)
            }
            _ => Err("expected a list of hosts".to_owned()),
        }
    }

    fn show(&self) -> Value {
        Value::Sequence(self.0.iter().map(|host| host.as_str().into()).collect())
    }
}

impl Setting for Mirrors {
    const TYPE: &'static str = "table of lists of hosts";

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self::default()),
            Value::Mapping(pairs) => {
                let pair = |(registry, mirrors): (&Value, &Value)| {
                    Ok((host(&word(registry)?)?, RegistryHosts::read(mirrors)?.0))
                };
                pairs.iter().map(pair).collect::<Result<_, String>>().map(Self)
            }
            Value::String(text) if text.starts_with('{') => Self::read(&flow(text)?),
            _ => Err("expected a table: {docker.io: [mirror.example.com]}".to_owned()),
        }
    }

    fn show(&self) -> Value {
        let pair = |(registry, mirrors): (&String, &Vec<String>)| {
            (registry.as_str().into(), RegistryHosts(mirrors.clone()).show())
        };
        Value::Mapping(self.0.iter().map(pair).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_are_hosts() {
        let hosts = |text: &str| RegistryHosts::read(&text.into()).map(|hosts| hosts.0);
        assert_eq!(hosts("localhost:5000,A.b"), Ok(vec!["localhost:5000".to_owned(), "a.b".to_owned()]));
        assert_eq!(hosts("[ghcr.io]"), Ok(vec!["ghcr.io".to_owned()]));
        assert!(hosts("https://ghcr.io").unwrap_err().contains("without `https://`"));
        let mirrors = Mirrors::read(&"{docker.io: [m.example, n.example:5000]}".into()).unwrap();
        assert_eq!(mirrors.0["docker.io"], ["m.example", "n.example:5000"]);
        assert_eq!(Mirrors::read(&mirrors.show()), Ok(mirrors));
        assert!(Mirrors::read(&"m.example".into()).is_err());
    }
}
