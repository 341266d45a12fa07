//! A template made of a state: the template below it, and its layers as one.

use std::fs::{self, File};
use std::os::fd::AsFd as _;

use warren_core::{LayerError, LayerErrorKind, LayerStore as _, RootTree, Stack, TemplateInfo, TemplateName};

use super::failure::{self, invalid};
use super::import::now;
use crate::digest::Digest;
use crate::layers::LayerDirectory;
use crate::layers::squash::squash_into;
use crate::manifest::{Manifest, ReadError, SourceKind};
use crate::staging::{self, NamesLock, Staging, StagingError};
use crate::store::LAYER;
use crate::template::Template;
use crate::templates::described;

pub(super) fn make(
    store: &LayerDirectory,
    below: &TemplateName,
    stack: &Stack,
    name: &TemplateName,
) -> Result<TemplateInfo, LayerError> {
    let templates = &store.templates;
    if name.is_host() {
        return Err(invalid("`host` is the built-in template: choose another name"));
    }
    let target = templates.directory().join(name.as_str());
    let taken =
        || invalid(format!("template `{name}` already exists: remove it first, or choose another name"));
    if target.exists() {
        return Err(taken());
    }
    let base = templates.get_as_base(below).map_err(|error| unusable(below, error))?;
    check_fits(store, &base, stack)?;
    let failed = staging_failed(name);
    let staging = Staging::create(templates.directory()).map_err(&failed)?;
    let layer = staging.path().join(LAYER);
    let describing = failure::io("begin a template");
    fs::create_dir(&layer).map_err(&describing)?;
    let directory = File::open(&layer).map_err(describing)?;
    let space = squash_into(store, &stack.0, directory.as_fd())?;
    let manifest = Manifest {
        format: Manifest::FORMAT_WITH_BASE,
        name: name.clone(),
        digest: digest(&base, stack),
        created_unix: now() / 1000,
        source: SourceKind::Snapshot,
        size_bytes: space.bytes,
        entries: space.inodes,
        config: base.manifest.config,
        base: Some(below.clone()),
    };
    manifest.write(staging.path()).map_err(|error| {
        LayerError::caused(LayerErrorKind::Host, format!("describe template `{name}`"), error)
    })?;
    staging.sync().map_err(&failed)?;
    let _names = NamesLock::acquire(templates.directory()).map_err(&failed)?;
    if target.exists() {
        return Err(taken());
    }
    // While names could change, the template below could have gone, or become another.
    let now = templates.get_as_base(below).map_err(|error| unusable(below, error))?;
    if now.manifest.digest != base.manifest.digest {
        return Err(invalid(format!("template `{below}` was replaced meanwhile")));
    }
    staging.publish(&target).map_err(&failed)?;
    staging::sync_names(templates.directory()).map_err(failed)?;
    // Read as every other will read it: one that nobody can use is no success.
    let made = templates.get(name).map_err(|error| unusable(name, error))?;
    Ok(described(made.manifest))
}

/// An error if this template cannot have these layers on top.
fn check_fits(store: &LayerDirectory, base: &Template, stack: &Stack) -> Result<(), LayerError> {
    let tree = |tree: &crate::template::Tree| RootTree {
        at: tree.at.clone(),
        lowers: tree.lowers.clone(),
        access: warren_core::MountAccess::ReadWrite,
    };
    let mut root: Vec<_> = base.trees.iter().map(tree).collect();
    store.stand_on(stack, &mut root)
}

/// Layers never change, so that their names stand for what they hold.
fn digest(base: &Template, stack: &Stack) -> Digest {
    let mut text = base.manifest.digest.to_string();
    for layer in &stack.0 {
        text.push('\n');
        text.push_str(layer.as_str());
    }
    Digest::of(text.as_bytes())
}

fn unusable(name: &TemplateName, error: ReadError) -> LayerError {
    LayerError::caused(kind_of(&error), format!("use template `{name}`"), error)
}

fn kind_of(error: &ReadError) -> LayerErrorKind {
    match error {
        ReadError::NotFound { .. } => LayerErrorKind::NotFound,
        ReadError::TooManyBases { .. } => LayerErrorKind::Invalid,
        ReadError::Host(_) | ReadError::Read { .. } | ReadError::List { .. } => LayerErrorKind::Host,
        ReadError::Base { source, .. } => match kind_of(source) {
            LayerErrorKind::NotFound => LayerErrorKind::Damaged,
            kind => kind,
        },
        _ => LayerErrorKind::Damaged,
    }
}

fn staging_failed(name: &TemplateName) -> impl Fn(StagingError) -> LayerError {
    move |error| LayerError::caused(LayerErrorKind::Host, format!("store template `{name}`"), error)
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
