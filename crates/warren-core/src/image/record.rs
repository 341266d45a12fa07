use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::reference::ImageId;
use crate::id::{SandboxId, TemplateName};
use crate::node::NodeId;
use crate::owner::Owner;
use crate::quantity::{ByteSize, Cpus};
use crate::unique::{BuildId, SnapshotId};

/// The most tags of one image.
const MOST_TAGS: usize = 100;
/// Builds without a tag that are remembered although they failed or have not begun.
const MOST_UNTAGGED: usize = 10;

/// The catalog's record of an image, with its builds and tags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRecord {
    pub id: ImageId,
    pub owner: Owner,
    /// Counts the changes of this record; a writer must know the last one.
    pub generation: u64,
    pub name: Option<String>,
    pub origin: ImageOrigin,
    pub created_unix_ms: u64,
    pub updated_unix_ms: u64,
    /// Processors and memory of its sandboxes, where a client said so.
    pub cpus: Option<Cpus>,
    pub memory: Option<ByteSize>,
    /// How many builds there were, including those that are forgotten.
    pub build_count: u64,
    pub tags: BTreeMap<String, Tag>,
    pub builds: BTreeMap<BuildId, BuildRecord>,
}

/// How an image came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageOrigin {
    /// It was built of steps.
    Steps,
    /// It is the state of a sandbox.
    Sandbox,
}

/// A name of one of an image's builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    pub build: BuildId,
    pub since_unix_ms: u64,
}

/// One build of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildRecord {
    pub created_unix_ms: u64,
    pub outcome: BuildOutcome,
    /// The tags that it gets once it is ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// How far a build came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildOutcome {
    /// Its steps are not known yet.
    Waiting,
    /// A node builds it. If it does not, it was stopped meanwhile.
    Begun {
        node: NodeId,
    },
    Ready(Box<Built>),
    Failed(BuildFailure),
}

/// Why a build failed, and in which step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildFailure {
    pub message: String,
    /// `base`, the number of a step, `finalize`, or empty.
    pub step: String,
    /// Present if that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_user: Option<UnknownUser>,
}

/// A command was to run as a user who does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownUser {
    pub command: String,
    pub user: String,
}

/// A finished build: all that a sandbox needs to begin with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    pub snapshot: SnapshotId,
    /// The sandbox that the snapshot was taken of.
    pub sandbox: SandboxId,
    #[serde(flatten)]
    pub context: ImageContext,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartCommands>,
}

/// The template, user, directory and variables with which commands run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageContext {
    /// The template that the snapshot stands on.
    pub template: TemplateName,
    pub env: BTreeMap<String, String>,
    /// Absent: the template's.
    pub user: Option<String>,
    pub workdir: Option<PathBuf>,
}

/// Commands that run in each sandbox from its beginning. Snapshots hold files and no processes, so
/// they are started anew with every sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartCommands {
    /// Runs for as long as the sandbox does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Succeeds once the sandbox is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
}

/// The state after some steps of a build, kept for later builds that begin with the same steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptStep {
    /// A digest of all that led to it.
    pub key: String,
    pub snapshot: SnapshotId,
    #[serde(flatten)]
    pub context: ImageContext,
    /// When it was made or used last.
    pub used_unix_ms: u64,
}

/// A change of an image that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageDenied {
    #[error("the image has no build `{build}`")]
    NoBuild { build: String },
    #[error("the build {build} has begun already")]
    Begun { build: BuildId },
    #[error("the image has no tag `{tag}`")]
    NoTag { tag: String },
    #[error("the image has no finished build with the tag `{tag}`")]
    NotReady { tag: String },
    #[error("an image has up to {MOST_TAGS} tags: take some away")]
    TooManyTags,
}

impl StartCommands {
    /// An empty command is none, and nothing to start is absent.
    pub fn new(command: Option<String>, ready: Option<String>) -> Option<Self> {
        let said = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let start = Self { command: said(command), ready: said(ready) };
        (start != Self::default()).then_some(start)
    }
}

impl ImageRecord {
    /// An image without any build.
    pub fn new(id: ImageId, owner: Owner, name: Option<String>, origin: ImageOrigin, now: u64) -> Self {
        Self {
            id,
            owner,
            generation: 1,
            name,
            origin,
            created_unix_ms: now,
            updated_unix_ms: now,
            cpus: None,
            memory: None,
            build_count: 0,
            tags: BTreeMap::new(),
            builds: BTreeMap::new(),
        }
    }

    /// The finished build of a tag, or of a build's id.
    pub fn built(&self, tag: &str) -> Option<&Built> {
        match &self.builds.get(&self.build_of(tag)?)?.outcome {
            BuildOutcome::Ready(built) => Some(built),
            _ => None,
        }
    }

    fn build_of(&self, tag: &str) -> Option<BuildId> {
        tag.parse().ok().or_else(|| self.tags.get(tag).map(|tag| tag.build.clone()))
    }

    /// The build that was last announced.
    pub fn newest(&self) -> Option<(&BuildId, &BuildRecord)> {
        self.builds.iter().max_by_key(|(id, build)| (build.created_unix_ms, (*id).clone()))
    }

    /// True while one of its builds has begun and not ended.
    pub fn is_building(&self) -> bool {
        self.builds.values().any(|build| matches!(build.outcome, BuildOutcome::Begun { .. }))
    }

    /// Every snapshot that it needs.
    pub fn snapshots(&self) -> BTreeSet<&SnapshotId> {
        let built = self.builds.values().filter_map(|build| match &build.outcome {
            BuildOutcome::Ready(built) => Some(&built.snapshot),
            _ => None,
        });
        built.collect()
    }

    /// Writes down that something is to be built.
    pub fn announce(&mut self, id: BuildId, tags: Vec<String>, now: u64) {
        self.build_count += 1;
        let build = BuildRecord { created_unix_ms: now, outcome: BuildOutcome::Waiting, tags };
        self.builds.insert(id, build);
        self.forget();
    }

    /// Adds a build that is finished.
    pub fn add(&mut self, id: BuildId, built: Built, tags: &[String], now: u64) -> Result<(), ImageDenied> {
        self.build_count += 1;
        let outcome = BuildOutcome::Ready(Box::new(built));
        self.builds.insert(id.clone(), BuildRecord { created_unix_ms: now, outcome, tags: Vec::new() });
        self.put_tags(tags, &id, now)?;
        self.forget();
        Ok(())
    }

    /// A build begins on a node. It is made once.
    pub fn begin(&mut self, id: &BuildId, node: &NodeId) -> Result<(), ImageDenied> {
        let build = self.build_mut(id)?;
        if build.outcome != BuildOutcome::Waiting {
            return Err(ImageDenied::Begun { build: id.clone() });
        }
        build.outcome = BuildOutcome::Begun { node: node.clone() };
        Ok(())
    }

    /// A build is over. One that is ready gets its tags.
    pub fn finish(&mut self, id: &BuildId, outcome: BuildOutcome, now: u64) -> Result<(), ImageDenied> {
        let ready = matches!(outcome, BuildOutcome::Ready(_));
        let build = self.build_mut(id)?;
        build.outcome = outcome;
        let tags = std::mem::take(&mut build.tags);
        if ready {
            self.put_tags(&tags, id, now)?;
        }
        self.forget();
        Ok(())
    }

    fn build_mut(&mut self, id: &BuildId) -> Result<&mut BuildRecord, ImageDenied> {
        self.builds.get_mut(id).ok_or_else(|| ImageDenied::NoBuild { build: id.to_string() })
    }

    /// Builds that had begun on a node came to nothing.
    pub fn abandon(&mut self, node: &NodeId, message: &str) {
        let begun = BuildOutcome::Begun { node: node.clone() };
        for build in self.builds.values_mut().filter(|build| build.outcome == begun) {
            let failure =
                BuildFailure { message: message.to_owned(), step: String::new(), unknown_user: None };
            build.outcome = BuildOutcome::Failed(failure);
        }
    }

    /// More tags for the finished build of a tag or an id. Says which build that is.
    pub fn tag(&mut self, tag: &str, more: &[String], now: u64) -> Result<BuildId, ImageDenied> {
        let ready = self.build_of(tag).filter(|_| self.built(tag).is_some());
        let build = ready.ok_or_else(|| ImageDenied::NotReady { tag: tag.to_owned() })?;
        self.put_tags(more, &build, now)?;
        self.forget();
        Ok(build)
    }

    pub fn untag(&mut self, tags: &[String], now: u64) -> Result<(), ImageDenied> {
        if let Some(unknown) = tags.iter().find(|tag| !self.tags.contains_key(*tag)) {
            return Err(ImageDenied::NoTag { tag: unknown.clone() });
        }
        self.tags.retain(|tag, _| !tags.contains(tag));
        self.updated_unix_ms = now;
        self.forget();
        Ok(())
    }

    fn put_tags(&mut self, tags: &[String], build: &BuildId, now: u64) -> Result<(), ImageDenied> {
        for tag in tags {
            self.tags.insert(tag.clone(), Tag { build: build.clone(), since_unix_ms: now });
        }
        self.updated_unix_ms = now;
        if self.tags.len() > MOST_TAGS { Err(ImageDenied::TooManyTags) } else { Ok(()) }
    }

    /// Forgets builds that no tag names. The newest of those that have nothing to show stay, so
    /// that one can ask what became of them.
    fn forget(&mut self) {
        let tagged: BTreeSet<&BuildId> = self.tags.values().map(|tag| &tag.build).collect();
        let mut rest: Vec<(u64, BuildId)> = Vec::new();
        let mut gone: BTreeSet<BuildId> = BTreeSet::new();
        for (id, build) in self.builds.iter().filter(|(id, _)| !tagged.contains(id)) {
            match build.outcome {
                BuildOutcome::Ready(_) => drop(gone.insert(id.clone())),
                BuildOutcome::Waiting | BuildOutcome::Failed(_) => {
                    rest.push((build.created_unix_ms, id.clone()));
                }
                BuildOutcome::Begun { .. } => {}
            }
        }
        rest.sort_unstable_by(|one, other| other.cmp(one));
        gone.extend(rest.into_iter().skip(MOST_UNTAGGED).map(|(_, id)| id));
        self.builds.retain(|id, _| !gone.contains(id));
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
