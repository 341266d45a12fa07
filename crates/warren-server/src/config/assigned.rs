use std::collections::BTreeMap;

use serde_norway::Value;
use strsim::levenshtein;

use super::error::{ConfigError, Origin};
use super::sections::{KEYS, Key};
use super::value::Setting;

/// Settings that somebody gave a value, each with where it came from. Later ones win.
#[derive(Debug, Clone, Default)]
pub(super) struct Assigned {
    values: BTreeMap<&'static str, (Value, Origin)>,
}

impl Assigned {
    /// Gives a setting a value, which is checked at once so that the error leads to where it
    /// stands.
    pub(super) fn set(&mut self, path: &str, value: Value, origin: Origin) -> Result<(), ConfigError> {
        let Some(key) = KEYS.iter().find(|key| key.path == path) else {
            return Err(ConfigError::Unknown { key: path.to_owned(), nearest: nearest(path), origin });
        };
        match (key.normalize)(&value) {
            Ok(_) => {
                self.values.insert(key.path, (value, origin));
                Ok(())
            }
            Err(message) => Err(ConfigError::Value { key: path.to_owned(), message, origin }),
        }
    }

    /// The value of a setting, or its default.
    pub(super) fn get<T: Setting>(&self, path: &str) -> Result<T, ConfigError> {
        let (value, origin) = self.value(path);
        T::read(&value).map_err(|message| ConfigError::Value { key: path.to_owned(), message, origin })
    }

    pub(super) fn origin(&self, path: &str) -> Origin {
        self.values.get(path).map_or(Origin::Default, |(_, origin)| origin.clone())
    }

    /// The value of a setting in its usual form.
    pub(super) fn shown(&self, key: &Key) -> Value {
        let (value, _) = self.value(key.path);
        (key.normalize)(&value).unwrap_or(value)
    }

    fn value(&self, path: &str) -> (Value, Origin) {
        let default =
            || KEYS.iter().find(|key| key.path == path).map_or(Value::Null, |key| key.default.into());
        self.values.get(path).cloned().unwrap_or_else(|| (default(), Origin::Default))
    }
}

/// The known setting that looks most like this one, if any does.
pub(super) fn nearest(path: &str) -> Option<&'static str> {
    let ranked = KEYS.iter().map(|key| {
        let name = key.path.split_once('.').map_or(key.path, |(_, name)| name);
        let last = path.rsplit('.').next().unwrap_or(path);
        (levenshtein(key.path, path).min(levenshtein(name, last) + 1), key.path)
    });
    ranked.min_by_key(|(distance, _)| *distance).filter(|(distance, _)| *distance <= 4).map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_setting_is_told_its_neighbour() {
        assert_eq!(nearest("http.max_bodies"), Some("http.max_body"));
        assert_eq!(nearest("max_sandboxes"), Some("limits.max_sandboxes"));
        assert_eq!(nearest("limits.max_sandbox"), Some("limits.max_sandboxes"));
        assert_eq!(nearest("something.else_entirely"), None);
    }

    #[test]
    fn every_default_can_be_read() {
        for key in KEYS {
            assert!((key.normalize)(&key.default.into()).is_ok(), "{}", key.path);
        }
    }
}
