use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use warren_core::{Limits, RootTree};

use crate::oci;

/// The ground that all subjects share: one root file system, one set of limits, and a directory for
/// their files beside the sandboxes, on the same file system. Dropping this removes the directory.
#[derive(Debug)]
pub(crate) struct Ground {
    folder: PathBuf,
    /// A copy of the template's skeleton, for runtimes that might change it.
    pub(crate) rootfs: PathBuf,
    /// Host directories that appear read-only in it.
    pub(crate) binds: Vec<RootTree>,
    pub(crate) limits: Limits,
    /// The beginning of every container's name.
    pub(crate) prefix: String,
    /// The same of runs that were killed.
    pub(crate) abandoned: Vec<String>,
}

impl Ground {
    pub(crate) fn lay(data_dir: &Path, root: &[RootTree]) -> anyhow::Result<Self> {
        let all = data_dir.join("bench");
        let abandoned = remove_abandoned(&all);
        let folder = all.join(std::process::id().to_string());
        fs::create_dir_all(&folder)?;
        let ground = Self {
            rootfs: folder.join("rootfs"),
            binds: root.iter().skip(1).cloned().collect(),
            limits: Limits::default(),
            prefix: prefix(&std::process::id().to_string()),
            abandoned,
            folder,
        };
        let skeleton = root.first().and_then(|tree| tree.lowers.first());
        let skeleton = skeleton.ok_or_else(|| anyhow::anyhow!("the host template has no root"))?;
        let copied = Command::new("cp").arg("-a").arg(skeleton).arg(&ground.rootfs).status();
        match copied {
            Ok(status) if status.success() => Ok(ground),
            Ok(status) => Err(anyhow::anyhow!("copy the host template's skeleton: {status}")),
            Err(error) => Err(error.into()),
        }
    }

    /// A directory with the configuration for one command, as OCI runtimes take it.
    pub(crate) fn bundle(&self, name: &str, argv: &[&str]) -> Result<PathBuf, io::Error> {
        let bundle = self.folder.join(name);
        fs::create_dir_all(&bundle)?;
        let config: Value = oci::config(&self.rootfs, &self.binds, &self.limits, argv);
        fs::write(bundle.join("config.json"), config.to_string())?;
        Ok(bundle)
    }

    /// The binds as docker takes them.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = String> {
        let volume =
            |tree: &RootTree| Some(format!("{}:{}:ro", tree.lowers.last()?.display(), tree.at.display()));
        self.binds.iter().filter_map(volume)
    }

    /// The path for a file of this name.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
        // Stays as long as another run uses it.
        drop(self.folder.parent().map(fs::remove_dir));
    }
}

fn prefix(process: &str) -> String {
    format!("warren-bench-{process}")
}

/// Clears up after runs that were killed, and answers the prefixes of their containers.
fn remove_abandoned(all: &Path) -> Vec<String> {
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    let abandoned = entries.filter(|entry| !Path::new("/proc").join(entry.file_name()).exists());
    let remove = |entry: fs::DirEntry| {
        drop(fs::remove_dir_all(entry.path()));
        prefix(&entry.file_name().to_string_lossy())
    };
    abandoned.map(remove).collect()
}
