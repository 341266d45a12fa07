//! The list of backends that are on, where the Docker engine is, and which of its images have
//! names of their own.

use std::collections::BTreeMap;

use serde_norway::Value;
use warren_core::{RootImageName, TemplateName};
use warren_isolate::{EngineAddress, FarAddress, FarEngine};

use super::sections::Backends;
use super::value::{Setting, flow, word};
use crate::backends::Backend;

/// In the order in which they are tried. Never empty, and no backend is in it twice.
#[derive(Debug, Clone, PartialEq)]
pub struct EnabledBackends(Vec<&'static Backend>);

impl EnabledBackends {
    pub fn iter(&self) -> impl Iterator<Item = &'static Backend> {
        self.0.iter().copied()
    }
}

impl Setting for EnabledBackends {
    const TYPE: &'static str = "list of backends";

    fn read(value: &Value) -> Result<Self, String> {
        let names = match value {
            Value::Sequence(items) => items.iter().map(word).collect::<Result<Vec<_>, _>>()?,
            Value::String(text) if text.starts_with('[') => return Self::read(&flow(text)?),
            Value::String(text) => {
                text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
            }
            _ => return Err("expected a list of backends".to_owned()),
        };
        let mut enabled = Vec::new();
        for name in &names {
            let backend = Backend::named(name).map_err(|error| error.to_string())?;
            if enabled.contains(&backend) {
                return Err(format!("`{name}` is named twice"));
            }
            enabled.push(backend);
        }
        if enabled.is_empty() {
            return Err("at least one backend has to be on".to_owned());
        }
        Ok(Self(enabled))
    }

    fn show(&self) -> Value {
        Value::Sequence(self.iter().map(|backend| backend.name.into()).collect())
    }
}

/// The address of an engine on another machine, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionalEngine(pub Option<FarAddress>);

impl Setting for OptionalEngine {
    const TYPE: &'static str = "address";

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self(None)),
            Value::String(text) if text.is_empty() => Ok(Self(None)),
            Value::String(text) => match text.parse() {
                Ok(address) => Ok(Self(Some(address))),
                Err(error) => Err(format!("{error}")),
            },
            _ => Err("expected `tcp://HOST:PORT`".to_owned()),
        }
    }

    fn show(&self) -> Value {
        self.0.as_ref().map(ToString::to_string).unwrap_or_default().into()
    }
}

impl Setting for BTreeMap<TemplateName, RootImageName> {
    const TYPE: &'static str = "table of images";

    fn read(value: &Value) -> Result<Self, String> {
        let image = |value: &Value| word(value)?.parse::<RootImageName>().map_err(|error| error.to_string());
        match value {
            Value::Mapping(pairs) => {
                pairs.iter().map(|(name, value)| Ok((TemplateName::read(name)?, image(value)?))).collect()
            }
            Value::String(text) if text.starts_with('{') => Self::read(&flow(text)?),
            _ => Err("expected a table: {TEMPLATE: IMAGE}".to_owned()),
        }
    }

    fn show(&self) -> Value {
        Value::Mapping(
            self.iter().map(|(name, image)| (name.to_string().into(), image.to_string().into())).collect(),
        )
    }
}

impl Backends {
    /// The Docker engine of these settings.
    pub fn docker(&self) -> EngineAddress {
        match &self.docker_host.0 {
            None => EngineAddress::Socket(self.docker_socket.clone()),
            Some(at) => EngineAddress::Far(FarEngine {
                at: at.clone(),
                certificates: self.docker_certificates.0.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_are_listed_in_the_order_in_which_they_are_tried() {
        for text in ["native", "[native]"] {
            let read = EnabledBackends::read(&text.into()).unwrap();
            assert_eq!(read.iter().map(|backend| backend.name).collect::<Vec<_>>(), ["native"]);
            assert_eq!(read.show(), Value::Sequence(vec!["native".into()]));
        }
    }

    #[test]
    fn a_list_with_nothing_twice_or_unknown_in_it_is_refused() {
        for (text, expected) in [
            ("", "at least one backend has to be on"),
            ("[]", "at least one backend has to be on"),
            ("native,native", "`native` is named twice"),
            (
                "native,vm",
                "there is no backend `vm`: this program has `native`, `crun`, `runc`, `runsc`, `lxd`, `docker`",
            ),
            ("[[native]]", "expected one value, not a list or a table"),
        ] {
            assert_eq!(EnabledBackends::read(&text.into()).unwrap_err(), expected, "{text}");
        }
    }
}
