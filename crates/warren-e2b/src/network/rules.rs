//! Headers that are set in what a sandbox sends to some domains. Their values are secrets at the
//! edge: the sandbox's record names them and does not have them.

use std::collections::BTreeMap;

use warren_core::network::{NetworkRule, SecretName};
use warren_engine::Secrets;

use super::policy::{domain, shown};
use crate::error::E2bError;
use crate::rest::Rule;

/// By domain, as clients write them.
pub(super) type Rules = BTreeMap<String, Vec<Rule>>;

const MOST_DOMAINS: usize = 10;
const MOST_DOMAIN: usize = 128;
const MOST_HEADERS: usize = 20;
const MOST_NAME: usize = 64;
const MOST_VALUE: usize = 2048;

/// Shown in place of a value.
const HIDDEN: &str = "***";

/// The headers to be set for one domain.
#[derive(Debug, PartialEq, Eq)]
struct Transform {
    domain: NetworkRule,
    headers: Vec<(String, String)>,
}

/// Keeps the values, and says by which names a policy gets them. Either all are kept or none.
pub(super) async fn keep(secrets: &Secrets, rules: Option<&Rules>) -> Result<Vec<SecretName>, E2bError> {
    let mut kept = Vec::new();
    for transform in rules.map(read).transpose()?.unwrap_or_default() {
        let Transform { domain, headers } = transform;
        let text = domain.to_string();
        match secrets.keep_transform(vec![domain], headers).await {
            Ok(name) => kept.push(name),
            Err(error) => {
                secrets.drop_transforms(&kept).await?;
                return Err(E2bError::from(error).about(&format!("rules: `{text}`")));
            }
        }
    }
    Ok(kept)
}

/// The same without what is secret.
pub(super) fn without_values(rules: &Rules) -> Rules {
    let mut rules = rules.clone();
    for rule in rules.values_mut().flatten() {
        let headers = rule.transform.as_mut().and_then(|transform| transform.headers.as_mut());
        headers.into_iter().flat_map(BTreeMap::values_mut).for_each(|value| HIDDEN.clone_into(value));
    }
    rules
}

fn read(rules: &Rules) -> Result<Vec<Transform>, E2bError> {
    let wrong = |message: String| Err(E2bError::bad_request(format!("rules: {message}")));
    if rules.len() > MOST_DOMAINS {
        return wrong(format!("{} domains are more than the {MOST_DOMAINS} allowed", rules.len()));
    }
    let mut transforms = Vec::new();
    for (text, list) in rules {
        let name = shown(text);
        let Some(target) = domain(text).filter(|_| text.len() <= MOST_DOMAIN) else {
            return wrong(format!(
                "`{name}` is no domain such as api.example.com or *.example.com, {MOST_DOMAIN} characters at most"
            ));
        };
        if list.len() > 1 {
            return wrong(format!("`{name}` has {} rules, and may have one", list.len()));
        }
        let transform = list.first().and_then(|rule| rule.transform.as_ref());
        let headers = transform.and_then(|transform| transform.headers.as_ref());
        let Some(headers) = headers.filter(|headers| !headers.is_empty()) else { continue };
        check(&name, headers)?;
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        transforms.push(Transform { domain: NetworkRule { target, ports: None }, headers });
    }
    Ok(transforms)
}

fn check(domain: &str, headers: &BTreeMap<String, String>) -> Result<(), E2bError> {
    let wrong = |message: String| Err(E2bError::bad_request(format!("rules: `{domain}`: {message}")));
    if headers.len() > MOST_HEADERS {
        return wrong(format!("{} headers are more than the {MOST_HEADERS} allowed", headers.len()));
    }
    for (name, value) in headers {
        if name.len() > MOST_NAME || value.len() > MOST_VALUE {
            let name = shown(name);
            return wrong(format!(
                "`{name}`: a header's name has {MOST_NAME} bytes at most, its value {MOST_VALUE}"
            ));
        }
        if value.contains("${") {
            let name = shown(name);
            return wrong(format!(
                "`{name}`: placeholders such as ${{e2b.identity.tokens.NAME}} are not there; write the value"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(value: serde_json::Value) -> Rules {
        serde_json::from_value(value).unwrap()
    }

    fn set(headers: serde_json::Value) -> serde_json::Value {
        json!([{"transform": {"headers": headers}}])
    }

    #[test]
    fn each_domain_has_its_headers() {
        let read = read(&rules(json!({
            "api.example.com": set(json!({"Authorization": "Bearer t", "X-A": "1"})),
            "*.example.com": set(json!({"X-A": "2"})),
            "nothing.example.com": set(json!({})),
            "empty.example.com": [],
        })));
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        assert_eq!(
            read.unwrap(),
            [
                Transform { domain: "*.example.com".parse().unwrap(), headers: pairs(&[("X-A", "2")]) },
                Transform {
                    domain: "api.example.com".parse().unwrap(),
                    headers: pairs(&[("Authorization", "Bearer t"), ("X-A", "1")]),
                },
            ]
        );
    }

    #[test]
    fn what_is_more_than_allowed_or_cannot_be_is_refused() {
        let many =
            |count: usize, name: &dyn Fn(usize) -> String| -> serde_json::Map<String, serde_json::Value> {
                (0..count).map(|number| (name(number), json!("1"))).collect()
            };
        let domains: serde_json::Map<_, _> =
            (0..11).map(|number| (format!("a{number}.example"), set(json!({"a": "1"})))).collect();
        let one = json!({"transform": {"headers": {"a": "1"}}});
        for wrong in [
            json!(domains),
            json!({"192.0.2.1": set(json!({"a": "1"}))}),
            json!({"*": set(json!({"a": "1"}))}),
            json!({format!("{}.example", "a.".repeat(70)): set(json!({"a": "1"}))}),
            json!({"a.example": [one.clone(), one]}),
            json!({"a.example": set(json!(many(21, &|number| format!("x-{number}"))))}),
            json!({"a.example": set(json!({"x".repeat(65): "1"}))}),
            json!({"a.example": set(json!({"a": "1".repeat(2049)}))}),
            json!({"a.example": set(json!({"a": "Bearer ${e2b.identity.tokens.x}"}))}),
        ] {
            let error = read(&rules(wrong.clone())).unwrap_err().failure();
            assert!(error.code == 400 && error.message.starts_with("rules: "), "{wrong}: {error:?}");
        }
    }

    #[test]
    fn no_value_is_shown() {
        let shown =
            without_values(&rules(json!({"a.example": set(json!({"Authorization": "tell-nobody"}))})));
        let text = serde_json::to_string(&shown).unwrap();
        assert!(!text.contains("tell-nobody") && text.contains("Authorization"), "{text}");
    }
}
