//! The store behind the engine's port.

use std::error::Error;

use warren_core::{
    CreateRequest, OwnerBond, SandboxId, SandboxSpec, TemplateError, TemplateErrorKind, TemplateInfo,
    TemplateName, Templates,
};

use crate::manifest::{Manifest, ReadError, SourceKind};
use crate::store::{RemoveError, TemplateStore};

impl Templates for TemplateStore {
    fn templates(&self) -> Result<Vec<TemplateInfo>, TemplateError> {
        let mut names =
            self.names().map_err(|error| unusable("list templates", TemplateErrorKind::Host, error))?;
        names.push(TemplateName::host());
        names.sort();
        // One that was removed since is not there, and no error.
        let info = |name| match self.get(&name) {
            Ok(template) => Some(described(template.manifest)),
            Err(ReadError::NotFound { .. }) => None,
            Err(error) => Some(broken(name, &error)),
        };
        Ok(names.into_iter().filter_map(info).collect())
    }

    fn request(
        &self,
        id: &SandboxId,
        spec: &SandboxSpec,
        owner: OwnerBond,
    ) -> Result<CreateRequest, TemplateError> {
        match self.get(&spec.template) {
            Ok(template) => Ok(template.request(id.clone(), spec.clone(), owner)),
            Err(error) => {
                let kind = kind_of(&error);
                Err(unusable(&format!("use template `{}`", spec.template), kind, error))
            }
        }
    }

    fn remove_template(&self, name: &TemplateName, in_use: &[TemplateName]) -> Result<(), TemplateError> {
        self.remove(name, &|name| in_use.contains(name)).map_err(|error| {
            let kind = match &error {
                RemoveError::BuiltIn | RemoveError::InUse { .. } => TemplateErrorKind::InUse,
                RemoveError::NotFound { .. } => TemplateErrorKind::NotFound,
                RemoveError::Discard { .. } => TemplateErrorKind::Host,
            };
            unusable(&format!("remove template `{name}`"), kind, error)
        })
    }
}

pub(crate) fn described(manifest: Manifest) -> TemplateInfo {
    let source = match manifest.source {
        SourceKind::Host => "built_in",
        SourceKind::Directory => "directory",
        SourceKind::Rootfs => "archive",
        SourceKind::OciImage | SourceKind::DockerImage => "image",
        SourceKind::Snapshot => "snapshot",
    };
    TemplateInfo {
        name: manifest.name,
        digest: manifest.digest.to_string(),
        size_bytes: manifest.size_bytes,
        created_unix_ms: manifest.created_unix.saturating_mul(1000),
        source: source.to_owned(),
        user: manifest.config.user,
        workdir: manifest.config.workdir,
        broken: None,
    }
}

/// All that can be told of a template that cannot be read.
fn broken(name: TemplateName, error: &ReadError) -> TemplateInfo {
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        why = format!("{why}: {error}");
        cause = error.source();
    }
    TemplateInfo {
        source: if name.is_host() { "built_in" } else { "" }.to_owned(),
        name,
        digest: String::new(),
        size_bytes: 0,
        created_unix_ms: 0,
        user: String::new(),
        workdir: String::new(),
        broken: Some(why),
    }
}

fn kind_of(error: &ReadError) -> TemplateErrorKind {
    match error {
        ReadError::NotFound { .. } => TemplateErrorKind::NotFound,
        ReadError::Host(_) | ReadError::Read { .. } | ReadError::List { .. } => TemplateErrorKind::Host,
        // That the base is not there is not that this one is not there.
        ReadError::Base { source, .. } => match kind_of(source) {
            TemplateErrorKind::NotFound => TemplateErrorKind::Broken,
            kind => kind,
        },
        ReadError::TooManyBases { .. }
        | ReadError::Malformed { .. }
        | ReadError::TooLarge { .. }
        | ReadError::NewerFormat { .. }
        | ReadError::OtherName { .. }
        | ReadError::Config { .. } => TemplateErrorKind::Broken,
    }
}

/// An error without a cause says all in its own words, which then need no heading.
fn unusable<E: Error + Send + Sync + 'static>(
    action: &str,
    kind: TemplateErrorKind,
    error: E,
) -> TemplateError {
    if error.source().is_none() {
        TemplateError { kind, action: error.to_string(), source: None }
    } else {
        TemplateError { kind, action: action.to_owned(), source: Some(Box::new(error)) }
    }
}
