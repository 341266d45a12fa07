//! What an owner's templates are: names, tags, and the snapshots that sandboxes begin with.
//!
//! A template has builds, and tags that each name one of them. A snapshot that a client takes of a sandbox is a build too, of a
//! template of its own or of the one whose name it was given. What no tag names any more is forgotten, and its snapshot with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use warren_core::{SandboxId, SnapshotId, TemplateName};

use super::reference::{DEFAULT_TAG, Reference, is_uuid};
use super::start::Start;
use crate::e2b::control::E2bError;

/// Templates of one owner.
const MOST_TEMPLATES: usize = 1000;
/// Tags of one template.
const MOST_TAGS: usize = 100;
/// Builds that came to nothing, or did not begin, of which a template remembers.
const MOST_UNTAGGED: usize = 10;
/// States between steps that are kept for later builds.
const MOST_LAYERS: usize = 64;

/// All templates of one owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Book {
    /// By id.
    pub(super) templates: BTreeMap<String, Template>,
    /// What builds left on their way, the one used last at the end.
    layers: Vec<Layer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Template {
    pub(super) name: Option<String>,
    pub(super) kind: Kind,
    pub(super) created_unix_ms: u64,
    pub(super) updated_unix_ms: u64,
    /// Processors and memory of sandboxes, where a client said so.
    pub(super) cpus: Option<u32>,
    pub(super) memory_mb: Option<u64>,
    /// How many builds there were, also those that are forgotten.
    pub(super) build_count: u64,
    pub(super) tags: BTreeMap<String, Tag>,
    /// By id.
    pub(super) builds: BTreeMap<String, Build>,
}

/// Where a template came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Steps,
    Sandbox,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tag {
    pub(super) build: String,
    pub(super) since_unix_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Build {
    pub(super) created_unix_ms: u64,
    pub(super) outcome: Outcome,
    /// What it is to be called once it is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<String>,
}

/// How far a build came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// Its steps are not known yet.
    Waiting,
    /// Somebody is at it. If nobody is, the server stopped meanwhile.
    Begun,
    Ready(Box<Image>),
    Failed {
        message: String,
        step: String,
    },
}

/// What a sandbox begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Image {
    pub(super) snapshot: SnapshotId,
    /// Which the snapshot was taken of.
    pub(super) sandbox: SandboxId,
    #[serde(flatten)]
    pub(super) context: Context,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<Start>,
}

/// In which surroundings commands run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Context {
    /// What the snapshot stands on.
    pub(super) template: TemplateName,
    pub(super) env: BTreeMap<String, String>,
    /// Absent: the template's.
    pub(super) user: Option<String>,
    pub(super) workdir: Option<PathBuf>,
}

/// The state after some steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Layer {
    /// Of all that led to it.
    pub(super) key: String,
    pub(super) snapshot: SnapshotId,
    #[serde(flatten)]
    pub(super) context: Context,
}

/// A build that somebody announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewBuild {
    /// For a template that does not exist yet.
    pub(super) template: String,
    pub(super) build: String,
    pub(super) name: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) cpus: Option<u32>,
    pub(super) memory_mb: Option<u64>,
    pub(super) now: u64,
}

impl Template {
    fn new(name: Option<String>, kind: Kind, now: u64) -> Self {
        Self {
            name,
            kind,
            created_unix_ms: now,
            updated_unix_ms: now,
            cpus: None,
            memory_mb: None,
            build_count: 0,
            tags: BTreeMap::new(),
            builds: BTreeMap::new(),
        }
    }

    /// What one gets by a tag, or by a build's id.
    pub(super) fn image(&self, tag: &str) -> Option<&Image> {
        let id = if is_uuid(tag) { tag } else { &self.tags.get(tag)?.build };
        match &self.builds.get(id)?.outcome {
            Outcome::Ready(image) => Some(image),
            _ => None,
        }
    }

    /// The build that was last announced.
    pub(super) fn newest(&self) -> Option<(&String, &Build)> {
        self.builds.iter().max_by_key(|(id, build)| (build.created_unix_ms, (*id).clone()))
    }

    fn put_tags(&mut self, tags: &[String], build: &str, now: u64) -> Result<(), E2bError> {
        for tag in tags {
            let put = Tag { build: build.to_owned(), since_unix_ms: now };
            self.tags.insert(tag.clone(), put);
        }
        self.updated_unix_ms = now;
        if self.tags.len() > MOST_TAGS {
            let message = format!("a template has up to {MOST_TAGS} tags: take some away");
            return Err(E2bError::bad_request(message));
        }
        Ok(())
    }

    /// Forgets what no tag names. The newest of those that have nothing to show stay, so that one can ask what became of them.
    fn forget(&mut self) {
        let tagged: BTreeSet<&String> = self.tags.values().map(|tag| &tag.build).collect();
        let mut rest: Vec<(u64, String)> = Vec::new();
        let mut gone: Vec<String> = Vec::new();
        for (id, build) in self.builds.iter().filter(|(id, _)| !tagged.contains(id)) {
            match build.outcome {
                Outcome::Ready(_) => gone.push(id.clone()),
                Outcome::Waiting | Outcome::Failed { .. } => rest.push((build.created_unix_ms, id.clone())),
                Outcome::Begun => {}
            }
        }
        rest.sort_unstable_by(|one, other| other.cmp(one));
        gone.extend(rest.into_iter().skip(MOST_UNTAGGED).map(|(_, id)| id));
        self.builds.retain(|id, _| !gone.contains(id));
    }
}

impl Book {
    /// By name or by id.
    pub(super) fn find(&self, name: &str) -> Option<(&String, &Template)> {
        let named = self.templates.iter().find(|(_, template)| template.name.as_deref() == Some(name));
        named.or_else(|| self.templates.get_key_value(name))
    }

    pub(super) fn find_mut(&mut self, name: &str) -> Option<(String, &mut Template)> {
        let id = self.find(name)?.0.clone();
        self.templates.get_mut(&id).map(|template| (id, template))
    }

    /// Writes down that something is to be built. Says under which template.
    pub(super) fn announce(&mut self, new: NewBuild) -> Result<String, E2bError> {
        let id = self.settle(new.name.as_deref(), &new.template, Kind::Steps, new.now)?;
        let template = self.templates.get_mut(&id).ok_or_else(|| missing(&id))?;
        template.build_count += 1;
        template.cpus = new.cpus.or(template.cpus);
        template.memory_mb = new.memory_mb.or(template.memory_mb);
        let build = Build { created_unix_ms: new.now, outcome: Outcome::Waiting, tags: new.tags };
        template.builds.insert(new.build, build);
        template.forget();
        Ok(id)
    }

    /// The template of a name, made if there is none.
    fn settle(&mut self, name: Option<&str>, fresh: &str, kind: Kind, now: u64) -> Result<String, E2bError> {
        if let Some((id, _)) = name.and_then(|name| self.find(name)) {
            return Ok(id.clone());
        }
        if self.templates.len() >= MOST_TEMPLATES {
            let message = format!("there are {MOST_TEMPLATES} templates and snapshots already: delete some");
            return Err(E2bError::bad_request(message));
        }
        self.templates.insert(fresh.to_owned(), Template::new(name.map(str::to_owned), kind, now));
        Ok(fresh.to_owned())
    }

    /// A snapshot of a sandbox becomes a template's build. Says under which template.
    pub(super) fn keep(&mut self, new: NewBuild, image: Image) -> Result<String, E2bError> {
        let id = self.settle(new.name.as_deref(), &new.template, Kind::Sandbox, new.now)?;
        let template = self.templates.get_mut(&id).ok_or_else(|| missing(&id))?;
        template.build_count += 1;
        let outcome = Outcome::Ready(Box::new(image));
        let build = Build { created_unix_ms: new.now, outcome, tags: Vec::new() };
        template.builds.insert(new.build.clone(), build);
        template.put_tags(&new.tags, &new.build, new.now)?;
        template.forget();
        Ok(id)
    }

    /// Somebody begins with a build. A build is made once.
    pub(super) fn begin(&mut self, template: &str, build: &str) -> Result<(), E2bError> {
        let found = self.build_mut(template, build)?;
        if found.outcome != Outcome::Waiting {
            return Err(E2bError::conflict(format!("the build {build} has begun already")));
        }
        found.outcome = Outcome::Begun;
        Ok(())
    }

    /// What came of a build. One that is ready gets its tags; a template that is gone meanwhile is an error.
    pub(super) fn finish(
        &mut self,
        template: &str,
        build: &str,
        outcome: Outcome,
        now: u64,
    ) -> Result<(), E2bError> {
        let ready = matches!(outcome, Outcome::Ready(_));
        let found = self.build_mut(template, build)?;
        found.outcome = outcome;
        let tags = std::mem::take(&mut found.tags);
        let template = self.templates.get_mut(template).ok_or_else(|| missing(template))?;
        if ready {
            template.put_tags(&tags, build, now)?;
        }
        template.forget();
        Ok(())
    }

    fn build_mut(&mut self, template: &str, build: &str) -> Result<&mut Build, E2bError> {
        let found = self.templates.get_mut(template).and_then(|template| template.builds.get_mut(build));
        found.ok_or_else(|| E2bError::not_found(format!("the template `{template}` has no build `{build}`")))
    }

    /// More tags for what a reference names. Says which build that is.
    pub(super) fn tag(&mut self, target: &Reference, tags: &[String], now: u64) -> Result<String, E2bError> {
        let (_, template) = self.find_mut(&target.name).ok_or_else(|| missing(&target.name))?;
        let tag = target.tag_or_default();
        let found = if is_uuid(tag) {
            Some(tag.to_owned())
        } else {
            template.tags.get(tag).map(|tag| tag.build.clone())
        };
        let ready = found.filter(|_| template.image(tag).is_some());
        let build = ready.ok_or_else(|| {
            E2bError::not_found(format!("`{}` has no build with the tag `{tag}`", target.name))
        })?;
        template.put_tags(tags, &build, now)?;
        template.forget();
        Ok(build)
    }

    pub(super) fn untag(&mut self, name: &str, tags: &[String], now: u64) -> Result<(), E2bError> {
        let (_, template) = self.find_mut(name).ok_or_else(|| missing(name))?;
        if let Some(unknown) = tags.iter().find(|tag| !template.tags.contains_key(*tag)) {
            return Err(E2bError::not_found(format!("`{name}` has no tag `{unknown}`")));
        }
        template.tags.retain(|tag, _| !tags.contains(tag));
        template.updated_unix_ms = now;
        template.forget();
        Ok(())
    }

    /// Takes away a template; of one that is named with a tag only that tag, and the template with its last.
    pub(super) fn delete(&mut self, reference: &Reference, now: u64) -> Result<(), E2bError> {
        let (id, template) = self.find_mut(&reference.name).ok_or_else(|| missing(&reference.name))?;
        if let Some(tag) = &reference.tag {
            if template.tags.remove(tag).is_none() {
                return Err(E2bError::not_found(format!("`{}` has no tag `{tag}`", reference.name)));
            }
            template.updated_unix_ms = now;
            template.forget();
            if !template.tags.is_empty() {
                return Ok(());
            }
        }
        self.templates.remove(&id);
        Ok(())
    }

    /// Builds at which somebody was when the server stopped came to nothing.
    pub(super) fn abandon(&mut self, message: &str) {
        let builds = self.templates.values_mut().flat_map(|template| template.builds.values_mut());
        for build in builds.filter(|build| build.outcome == Outcome::Begun) {
            build.outcome = Outcome::Failed { message: message.to_owned(), step: String::new() };
        }
    }

    pub(super) fn layer(&self, key: &str) -> Option<&Layer> {
        self.layers.iter().find(|layer| layer.key == key)
    }

    /// Keeps a state for later builds; those that nobody used for the longest time go.
    pub(super) fn keep_layer(&mut self, layer: Layer) {
        self.layers.retain(|known| known.key != layer.key);
        self.layers.push(layer);
        let surplus = self.layers.len().saturating_sub(MOST_LAYERS);
        self.layers.drain(..surplus);
    }

    /// A layer was used, or turned out to be gone.
    pub(super) fn use_layer(&mut self, key: &str, there: bool) {
        let Some(place) = self.layers.iter().position(|layer| layer.key == key) else { return };
        let layer = self.layers.remove(place);
        if there {
            self.layers.push(layer);
        }
    }

    /// Every snapshot that is needed.
    pub(super) fn snapshots(&self) -> BTreeSet<&SnapshotId> {
        let builds = self.templates.values().flat_map(|template| template.builds.values());
        let images = builds.filter_map(|build| match &build.outcome {
            Outcome::Ready(image) => Some(&image.snapshot),
            _ => None,
        });
        images.chain(self.layers.iter().map(|layer| &layer.snapshot)).collect()
    }
}

pub(super) fn missing(name: &str) -> E2bError {
    E2bError::not_found(format!("template '{name}' not found"))
}

/// The tags that a request names, or the default one.
pub(super) fn tags_or_default(tags: Vec<String>) -> Vec<String> {
    if tags.is_empty() { vec![DEFAULT_TAG.to_owned()] } else { tags }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
