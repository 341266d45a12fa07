use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use warren_core::SandboxRecord;

/// Its name in a sandbox's record.
const ANNOTATION: &str = "e2b";

/// Facts about a sandbox that only E2B knows, kept as an annotation. The default serves sandboxes
/// that were made in another way: their owner may use them by E2B too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotation {
    /// The template's name, as the client wrote it.
    pub template: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Absent if its client did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_internet_access: Option<bool>,
    /// As its client wrote it, but for what is secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<serde_json::Value>,
}

impl Annotation {
    pub fn of(record: &SandboxRecord) -> Self {
        let written = record.annotations.get(ANNOTATION);
        // Of what cannot be read nothing is open.
        written.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// True if the sandbox was made through E2B, and so follows its rules.
    pub fn is_written(record: &SandboxRecord) -> bool {
        record.annotations.contains_key(ANNOTATION)
    }

    /// Variables that tell the processes of a sandbox where they run. They are not in its spec: a
    /// fork has another id.
    pub fn own_env(record: &SandboxRecord) -> [(&'static str, String); 3] {
        let template = Self::of(record).template_of(record);
        [
            ("E2B_SANDBOX", "true".to_owned()),
            ("E2B_SANDBOX_ID", record.id.to_string()),
            ("E2B_TEMPLATE_ID", template),
        ]
    }

    /// The same for a sandbox that was made through E2B; none for others.
    pub fn env_if_written(record: &SandboxRecord) -> Vec<(&'static str, String)> {
        if Self::is_written(record) { Self::own_env(record).into() } else { Vec::new() }
    }

    /// All variables that every process of a sandbox has.
    pub fn env(record: &SandboxRecord) -> BTreeMap<String, String> {
        let own = Self::own_env(record).map(|(name, value)| (name.to_owned(), value));
        record.spec.env.clone().into_iter().chain(own).collect()
    }

    /// As the sandbox's client called the template; of a sandbox that was made in another way, the
    /// template's name.
    pub fn template_of(&self, record: &SandboxRecord) -> String {
        if self.template.is_empty() { record.spec.template.to_string() } else { self.template.clone() }
    }

    /// The same annotations with these.
    pub fn written_to(&self, mut annotations: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let text = serde_json::to_string(self).unwrap_or_default();
        annotations.insert(ANNOTATION.to_owned(), text);
        annotations
    }
}

#[cfg(test)]
mod tests {
    use warren_core::Owner;
    use warren_testkit::sample_sandbox;

    use super::*;

    #[test]
    fn processes_are_told_where_they_run_whatever_the_spec_says() {
        let mut record = sample_sandbox(&"ann".parse::<Owner>().unwrap(), 1);
        record.spec.env = [("A", "1"), ("E2B_SANDBOX_ID", "other")].map(|(k, v)| (k.into(), v.into())).into();
        let env = Annotation::env(&record);
        assert_eq!((env["A"].as_str(), env["E2B_SANDBOX"].as_str()), ("1", "true"));
        assert_eq!(env["E2B_SANDBOX_ID"], record.id.as_str());
        assert_eq!(env["E2B_TEMPLATE_ID"], record.spec.template.as_str());
    }

    #[test]
    fn traits_are_read_as_they_were_written() {
        let network = Some(serde_json::json!({"allowOut": ["a.example"]}));
        let annotation = Annotation { template: "base".to_owned(), network, ..Annotation::default() };
        let annotations = annotation.written_to(BTreeMap::new());
        let text = annotations.get(ANNOTATION).unwrap();
        assert_eq!(serde_json::from_str::<Annotation>(text).unwrap(), annotation);
        assert_eq!(serde_json::from_str::<Annotation>("{}").unwrap(), Annotation::default());
    }
}
