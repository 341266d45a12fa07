//! The walls that sandboxes must have.

use std::collections::BTreeMap;

use serde_norway::{Mapping, Value};
use warren_core::{IsolationKind, Owner, TemplateName};
use warren_engine::{RaiseWhen, WallSettings};

use super::sections::{Policy, Tiers};
use super::value::{Setting, flow, word};

/// How people write that there is no least tier.
const NONE: &str = "none";
/// How people write all owners that are not named.
const OTHERS: &str = "*";

/// The least tier of sandboxes, by owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MinimumTier {
    others: Option<IsolationKind>,
    owners: BTreeMap<Owner, IsolationKind>,
}

impl Policy {
    /// The least tier of every owner that is not named.
    pub fn least_tier(&self) -> Option<IsolationKind> {
        self.minimum_tier.others
    }

    pub(super) fn settings(&self, rules: &Tiers) -> WallSettings {
        WallSettings {
            least: self.minimum_tier.others,
            least_of: self.minimum_tier.owners.clone(),
            templates: self.template_tiers.clone(),
            raise_when: rules.raise_when.clone(),
            raise_to: Some(rules.raise_to),
        }
    }
}

impl Setting for MinimumTier {
    const TYPE: &'static str = "tier, or table of tiers";

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Mapping(pairs) => {
                let mut read = Self::default();
                for (name, tier) in pairs {
                    let (name, tier) = (word(name)?, tier_of(tier)?);
                    if name == OTHERS {
                        read.others = Some(tier);
                    } else {
                        let owner = name.parse().map_err(|error| format!("{error}"))?;
                        read.owners.insert(owner, tier);
                    }
                }
                Ok(read)
            }
            Value::String(text) if text.starts_with('{') => Self::read(&flow(text)?),
            value if word(value)? == NONE => Ok(Self::default()),
            value => Ok(Self { others: Some(tier_of(value)?), owners: BTreeMap::new() }),
        }
    }

    fn show(&self) -> Value {
        let told = |tier: IsolationKind| Value::from(tier.word());
        if self.owners.is_empty() {
            return self.others.map_or_else(|| Value::from(NONE), told);
        }
        let mut table: Mapping =
            self.owners.iter().map(|(owner, tier)| (owner.to_string().into(), told(*tier))).collect();
        if let Some(tier) = self.others {
            table.insert(OTHERS.into(), told(tier));
        }
        Value::Mapping(table)
    }
}

impl Setting for BTreeMap<TemplateName, IsolationKind> {
    const TYPE: &'static str = "table of tiers";

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Mapping(pairs) => {
                pairs.iter().map(|(name, tier)| Ok((TemplateName::read(name)?, tier_of(tier)?))).collect()
            }
            Value::String(text) if text.starts_with('{') => Self::read(&flow(text)?),
            _ => Err("expected a table: {TEMPLATE: TIER}".to_owned()),
        }
    }

    fn show(&self) -> Value {
        Value::Mapping(
            self.iter().map(|(name, tier)| (name.to_string().into(), tier.word().into())).collect(),
        )
    }
}

impl Setting for IsolationKind {
    const TYPE: &'static str = "tier";

    fn read(value: &Value) -> Result<Self, String> {
        tier_of(value)
    }

    fn show(&self) -> Value {
        self.word().into()
    }
}

/// The rules by the words that people write.
const RULES: [(&str, RaiseWhen); 3] = [
    ("network_opened", RaiseWhen::NetworkOpened),
    ("secret_attached", RaiseWhen::SecretAttached),
    ("import", RaiseWhen::Import),
];

impl Setting for Vec<RaiseWhen> {
    const TYPE: &'static str = "list of rules";

    fn read(value: &Value) -> Result<Self, String> {
        let words = match value {
            Value::Sequence(items) => items.iter().map(word).collect::<Result<Vec<_>, _>>()?,
            Value::String(text) if text.starts_with('[') => return Self::read(&flow(text)?),
            value => {
                let text = word(value)?;
                text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
            }
        };
        words.iter().map(|word| rule_of(word)).collect()
    }

    fn show(&self) -> Value {
        let told = |rule: &RaiseWhen| RULES.iter().find(|(_, known)| known == rule).map(|(word, _)| *word);
        Value::Sequence(self.iter().filter_map(told).map(Value::from).collect())
    }
}

fn rule_of(text: &str) -> Result<RaiseWhen, String> {
    let known = RULES.iter().find(|(word, _)| *word == text).map(|(_, rule)| *rule);
    known.ok_or_else(|| {
        format!("`{text}` is not a rule: write `network_opened`, `secret_attached` or `import`")
    })
}

fn tier_of(value: &Value) -> Result<IsolationKind, String> {
    word(value)?.parse().map_err(|error| format!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_least_tier_is_one_for_all_or_one_for_each_owner() {
        let kernel = Some(IsolationKind::UserKernel);
        let read = |text: &str| MinimumTier::read(&text.into());
        assert_eq!(read("none").unwrap(), MinimumTier::default());
        assert_eq!(read("user_kernel").unwrap().others, kernel);
        let table = read("{ada: vm, '*': user_kernel}").unwrap();
        assert_eq!((table.others, table.owners.len()), (kernel, 1));
        for text in ["none", "user_kernel", "{ada: vm, '*': user_kernel}", "{ada: vm}"] {
            let once = read(text).unwrap();
            assert_eq!(MinimumTier::read(&once.show()).unwrap(), once, "{text}");
        }
    }

    #[test]
    fn rules_are_written_as_a_list_of_words() {
        let all = "[network_opened, secret_attached, import]";
        let read = Vec::<RaiseWhen>::read(&all.into()).unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(Vec::<RaiseWhen>::read(&read.show()).unwrap(), read);
        assert_eq!(Vec::<RaiseWhen>::read(&"import".into()).unwrap(), [RaiseWhen::Import]);
        let error = Vec::<RaiseWhen>::read(&"[opened]".into()).unwrap_err();
        assert!(error.starts_with("`opened` is not a rule"), "{error}");
    }

    #[test]
    fn what_is_no_tier_or_no_owner_is_refused() {
        let wrong = "`gvisor` is not a tier: write `namespaces`, `user_kernel`, `vm` or `remote`";
        assert_eq!(MinimumTier::read(&"gvisor".into()).unwrap_err(), wrong);
        assert_eq!(MinimumTier::read(&"{ada: gvisor}".into()).unwrap_err(), wrong);
        assert!(MinimumTier::read(&"{Ada Lovelace: vm}".into()).unwrap_err().contains("is not an owner"));
        let templates = BTreeMap::<TemplateName, IsolationKind>::read(&"{host: gvisor}".into());
        assert_eq!(templates.unwrap_err(), wrong);
    }
}
