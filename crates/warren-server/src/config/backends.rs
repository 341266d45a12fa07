//! The list of backends that are on.

use serde_norway::Value;

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
