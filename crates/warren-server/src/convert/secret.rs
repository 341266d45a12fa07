use warren_core::network::{Injection, Secret, SecretName, SecretRecord};
use warren_face::error::ApiError;
use warren_wire::api;

use super::network::rules;
use super::rfc3339;

const USUAL_HEADER: &str = "Authorization";
const USUAL_TEMPLATE: &str = "Bearer {}";

/// The secret that a body asks for, with the usual header where it names none. The engine checks
/// the rest, and sets the times.
pub(crate) fn new_secret(name: SecretName, body: api::PutSecret) -> Result<Secret, ApiError> {
    let api::PutSecret { value, hosts, header, template, placeholder } = body;
    let hosts = rules(&hosts, "hosts")?;
    let injection = match placeholder {
        Some(_) if header.is_some() || template.is_some() => {
            let detail = "`placeholder` is instead of `header` and `template`";
            return Err(ApiError::invalid("placeholder", detail));
        }
        Some(placeholder) => Injection::Placeholder { placeholder },
        None => Injection::Header {
            header: header.unwrap_or_else(|| USUAL_HEADER.to_owned()),
            template: template.unwrap_or_else(|| USUAL_TEMPLATE.to_owned()),
        },
    };
    let record = SecretRecord { name, hosts, injection, created_unix_ms: 0, changed_unix_ms: 0 };
    Ok(Secret { record, value })
}

pub(crate) fn secret(record: &SecretRecord) -> api::Secret {
    let (header, template, placeholder) = match record.injection.clone() {
        Injection::Header { header, template } => (Some(header), Some(template), None),
        Injection::Placeholder { placeholder } => (None, None, Some(placeholder)),
        // Nobody is told of one.
        Injection::Transform { .. } => (None, None, None),
    };
    api::Secret {
        name: record.name.to_string(),
        hosts: record.hosts.iter().map(ToString::to_string).collect(),
        header,
        template,
        placeholder,
        created_at: rfc3339(record.created_unix_ms),
        changed_at: rfc3339(record.changed_unix_ms),
    }
}
