//! The store behind the engine's port.

use std::error::Error;

use warren_core::{
    CreateRequest, ErrorCode, ImageAddress, OwnerBond, SandboxId, SandboxSpec, TemplateError,
    TemplateErrorKind, TemplateInfo, TemplateName, Templates,
};

use crate::import::error::ImportError;
use crate::import::limits::ImportLimits;
use crate::import::{ImportRequest, ImportSource, Replace};
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
            Ok(template) => {
                let image = self.image_of(&name).map(|image| image.address);
                Some(TemplateInfo { image, ..described(template.manifest) })
            }
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

    fn is_open(&self, registry: &str) -> bool {
        self.registries.as_ref().is_some_and(|registries| registries.is_open(registry))
    }

    fn pull_open(&self, image: &ImageAddress) -> Result<TemplateName, TemplateError> {
        let failed = |kind, why| TemplateError::new(kind, format!("pull `{image}`: {why}"));
        let registries = self.registries.as_ref().filter(|registries| registries.is_open(image.registry()));
        let closed = || failed(TemplateErrorKind::NotOpen, "its registry is not open to everybody");
        let registries = registries.ok_or_else(closed)?;
        let unnamed = || failed(TemplateErrorKind::Image, "no template can have its name");
        let name = image.template_name().ok_or_else(unnamed)?;
        if self.image_of(&name).is_some_and(|found| found.address == image.to_string()) {
            return Ok(name);
        }
        let source = registries.image(image).map_err(ImportError::Registry);
        let pulled = source.and_then(|source| {
            let (source, replace) = (ImportSource::Registry(source.as_ref()), Replace::Never);
            let limits = ImportLimits::default();
            self.import(ImportRequest { name: name.clone(), source, replace, limits, progress: &mut |_| {} })
        });
        match pulled {
            Ok(_) => Ok(name),
            // Somebody else was quicker.
            Err(ImportError::AlreadyExists { .. })
                if self.image_of(&name).is_some_and(|found| found.address == image.to_string()) =>
            {
                Ok(name)
            }
            Err(error) => Err(TemplateError::caused(kind_of_pull(&error), format!("pull `{image}`"), error)),
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
        image: None,
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
        image: None,
        broken: Some(why),
    }
}

fn kind_of_pull(error: &ImportError) -> TemplateErrorKind {
    match error {
        ImportError::Registry(error) => TemplateErrorKind::Registry(error.kind),
        ImportError::Stale(error) => kind_of_pull(error),
        error => match error.code() {
            ErrorCode::InvalidValue => TemplateErrorKind::Image,
            ErrorCode::PayloadTooLarge => TemplateErrorKind::TooLarge,
            ErrorCode::AlreadyExists | ErrorCode::InUse => TemplateErrorKind::NameTaken,
            _ => TemplateErrorKind::Host,
        },
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
