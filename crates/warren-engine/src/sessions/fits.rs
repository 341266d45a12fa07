use std::collections::BTreeMap;
use std::path::{Component, Path};

use warren_core::{ByteSize, Mount, MountAccess, RootTree, SandboxSpec};

use crate::admit::check_words;
use crate::error::Field;
use crate::{EngineError, Requirements};

/// The sandbox's own system directories: readable, and never anybody's to write.
pub(super) const SYSTEM: [&str; 2] = ["/proc", "/sys"];

impl Requirements {
    /// Refuses requirements that no sandbox can meet.
    pub(crate) fn validate(&self) -> Result<(), EngineError> {
        for (field, paths) in
            [(Field::RequiredReadable, &self.readable), (Field::RequiredWritable, &self.writable)]
        {
            if let Some(path) = paths.iter().find(|path| !is_plain(path)) {
                let shown: String = path.display().to_string().escape_default().take(200).collect();
                return Err(EngineError::invalid(
                    field,
                    format!("`{shown}` is not an absolute path without `..`"),
                ));
            }
        }
        check_words(Field::RequiredLabels, &self.labels)
    }

    /// True if the roots and mounts of a sandbox have to be known to judge it.
    pub(crate) fn asks_for_paths(&self) -> bool {
        self.write_access || !self.writable.is_empty()
    }

    /// Makes a fresh sandbox's spec one that fits, or says which requirement it contradicts.
    pub(crate) fn complete(&self, spec: &mut SandboxSpec, most_memory: ByteSize) -> Result<(), EngineError> {
        if self.network && spec.network.is_none() {
            let message = "the network is required, and the sandbox is asked for without one";
            return Err(EngineError::invalid(Field::RequiredNetwork, message));
        }
        if let Some(memory) = self.memory {
            if memory > most_memory {
                let message = format!(
                    "{memory} of memory are required, and no sandbox may have more than {most_memory}"
                );
                return Err(EngineError::invalid(Field::RequiredMemory, message));
            }
            spec.limits.memory = spec.limits.memory.max(memory);
        }
        spec.labels.extend(self.labels.clone());
        Ok(())
    }

    /// Why an existing sandbox does not fit; `None` when it does.
    pub(crate) fn unmet_by(&self, spec: &SandboxSpec) -> Option<String> {
        if self.network && spec.network.is_none() {
            return Some("it has no network".to_owned());
        }
        if let Some(memory) = self.memory.filter(|memory| spec.limits.memory < *memory) {
            return Some(format!("it has {} of memory, and {memory} are required", spec.limits.memory));
        }
        missing_label(&self.labels, &spec.labels)
            .map(|key| format!("its label `{key}` is not the required one"))
    }

    /// Which place cannot be written as required; `None` when all can.
    pub(crate) fn unwritable_in(&self, root: &[RootTree], mounts: &[Mount]) -> Option<String> {
        if self.write_access && !somewhere_writable(root, mounts) {
            return Some("nothing in it can be written".to_owned());
        }
        let closed = self.writable.iter().find(|path| access(path, root, mounts) == MountAccess::ReadOnly)?;
        Some(format!("`{}` cannot be written in it", closed.display()))
    }
}

/// Why a path that must be readable is not.
pub(super) fn unreadable(path: &Path, why: &str) -> String {
    format!("`{}` cannot be read in it: {why}", path.display())
}

fn is_plain(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    path.is_absolute()
        && bytes.len() <= 4095
        && !bytes.contains(&0)
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

fn missing_label<'a>(
    required: &'a BTreeMap<String, String>,
    present: &BTreeMap<String, String>,
) -> Option<&'a str> {
    let missing = required.iter().find(|(key, value)| present.get(*key) != Some(*value));
    missing.map(|(key, _)| key.as_str())
}

fn somewhere_writable(root: &[RootTree], mounts: &[Mount]) -> bool {
    root.is_empty()
        || root
            .iter()
            .map(|tree| tree.access)
            .chain(mounts.iter().map(|mount| mount.access))
            .any(|access| access == MountAccess::ReadWrite)
}

/// The access to a path: that of the deepest mount or root tree it lies in. A root without trees is
/// writable.
fn access(path: &Path, root: &[RootTree], mounts: &[Mount]) -> MountAccess {
    let trees = root.iter().map(|tree| (tree.at.as_path(), tree.access));
    let mounts = mounts.iter().map(|mount| (mount.target.as_path(), mount.access));
    let system = SYSTEM.iter().map(|place| (Path::new(place), MountAccess::ReadOnly));
    let holders = trees.chain(mounts).chain(system).filter(|(place, _)| path.starts_with(place));
    holders
        .max_by_key(|(place, _)| place.components().count())
        .map_or(MountAccess::ReadWrite, |(_, access)| access)
}

#[cfg(test)]
mod tests {
    use warren_core::TemplateName;

    use super::*;

    fn spec() -> SandboxSpec {
        SandboxSpec::new(TemplateName::host())
    }

    fn labels(key: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), value.to_owned())])
    }

    fn tree(at: &str, access: MountAccess) -> RootTree {
        RootTree { at: at.into(), lowers: Vec::new(), access }
    }

    #[test]
    fn an_existing_sandbox_that_lacks_something_is_told_what() {
        let cases = [
            (Requirements::default(), None),
            (Requirements { network: true, ..Requirements::default() }, Some("it has no network")),
            (
                Requirements { memory: Some(ByteSize::gib(5)), ..Requirements::default() },
                Some("it has 4 GiB of memory, and 5 GiB are required"),
            ),
            (Requirements { memory: Some(ByteSize::gib(4)), ..Requirements::default() }, None),
            (
                Requirements { labels: labels("team", "red"), ..Requirements::default() },
                Some("its label `team` is not the required one"),
            ),
            (Requirements { labels: labels("team", "blue"), ..Requirements::default() }, None),
        ];
        let spec = SandboxSpec { labels: labels("team", "blue"), ..spec() };
        for (required, expected) in cases {
            assert_eq!(required.unmet_by(&spec).as_deref(), expected);
        }
    }

    #[test]
    fn a_fresh_sandbox_is_made_to_fit_or_the_contradiction_is_named() {
        let required = Requirements {
            memory: Some(ByteSize::gib(6)),
            labels: labels("a", "b"),
            ..Requirements::default()
        };
        let mut fresh = spec();
        required.complete(&mut fresh, ByteSize::gib(8)).unwrap();
        assert_eq!((fresh.limits.memory, fresh.labels), (ByteSize::gib(6), labels("a", "b")));
        let error = required.complete(&mut spec(), ByteSize::gib(5)).unwrap_err();
        assert!(matches!(error, EngineError::Invalid { field: Field::RequiredMemory, .. }));
        let required = Requirements { network: true, ..Requirements::default() };
        let error = required.complete(&mut spec(), ByteSize::gib(5)).unwrap_err();
        assert!(matches!(error, EngineError::Invalid { field: Field::RequiredNetwork, .. }));
    }

    #[test]
    fn the_deepest_mount_decides_what_can_be_written() {
        let root = [tree("/", MountAccess::ReadWrite), tree("/usr", MountAccess::ReadOnly)];
        let mount = |target: &str, access| Mount { source: "/srv".into(), target: target.into(), access };
        let mounts = [mount("/data", MountAccess::ReadOnly), mount("/data/out", MountAccess::ReadWrite)];
        let cases = [
            ("/home/user", true),
            ("/usr/lib", false),
            ("/usrlocal", true),
            ("/data", false),
            ("/data/in/x", false),
            ("/data/out/x", true),
            ("/proc/sys", false),
        ];
        for (path, writable) in cases {
            let required = Requirements { writable: vec![path.into()], ..Requirements::default() };
            assert_eq!(required.unwritable_in(&root, &mounts).is_none(), writable, "{path}");
        }
        let closed = [tree("/", MountAccess::ReadOnly)];
        let required = Requirements { write_access: true, ..Requirements::default() };
        assert_eq!(required.unwritable_in(&closed, &mounts), None);
        assert!(required.unwritable_in(&closed, &mounts[..1]).is_some());
    }

    #[test]
    fn paths_that_could_lead_elsewhere_are_refused() {
        for path in ["relative", "/a/../b", "/nul\0"] {
            let required = Requirements { readable: vec![path.into()], ..Requirements::default() };
            assert!(required.validate().is_err(), "{path}");
        }
    }
}
