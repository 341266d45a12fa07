use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::sizes::Load;
use crate::errand::output_of;
use crate::plan::Subject;
use crate::session::Session;
use crate::statistics::Samples;

/// Others who copy the same files: `cp -a`, a btrfs snapshot, `docker commit`.
pub(super) struct Peers {
    folder: PathBuf,
    script: String,
    prefix: String,
    /// The directories that the image lacks, as docker takes them.
    volumes: Vec<String>,
    docker: bool,
    rounds: usize,
}

impl Peers {
    pub(super) fn ready(session: &Session<'_>, load: &Load) -> anyhow::Result<Self> {
        let folder = session.ground.file("travel");
        fs::create_dir_all(&folder)?;
        Ok(Self {
            script: load.script("$PLACE"),
            prefix: session.ground.prefix.clone(),
            volumes: session.ground.volumes().collect(),
            docker: session.takes(Subject::Docker),
            rounds: load.peer_rounds,
            folder,
        })
    }

    pub(super) fn measure(self, session: &mut Session<'_>, case: &str) -> anyhow::Result<()> {
        type Measure = fn(&Peers) -> anyhow::Result<Samples>;
        let ways: [(&str, Measure); 3] =
            [("cp_a", Self::copy), ("btrfs", Self::btrfs), ("docker_commit", Self::commit)];
        for (subject, measure) in &ways[..if self.docker { 3 } else { 2 }] {
            session.progress(&format!("{case}: {subject}"));
            match measure(&self) {
                Ok(samples) => session.enter_times(case, subject, &samples),
                Err(error) => session.skip(subject, format!("{case}: {error:#}")),
            }
        }
        session.go_on()
    }

    fn copy(&self) -> anyhow::Result<Samples> {
        let (tree, copy) = (self.folder.join("tree"), self.folder.join("copy"));
        let mut samples = Samples::default();
        self.fill(&tree)?;
        for _ in 0..self.rounds {
            samples.push(timed("cp", |command| command.arg("-a").arg(&tree).arg(&copy))?);
            run("rm", |command| command.arg("-r").arg(&copy))?;
        }
        run("rm", |command| command.arg("-r").arg(&tree)).map(|()| samples)
    }

    /// On a file system of its own, with what was just written still in memory, as it is at the end
    /// of a turn.
    fn btrfs(&self) -> anyhow::Result<Samples> {
        let (image, place) = (self.folder.join("btrfs.img"), self.folder.join("btrfs"));
        fs::create_dir_all(&place)?;
        run("truncate", |command| command.args(["-s", "8G"]).arg(&image))?;
        run("mkfs.btrfs", |command| command.args(["-q", "-f"]).arg(&image))?;
        run("mount", |command| command.args(["-o", "loop"]).arg(&image).arg(&place))?;
        let measured = self.btrfs_rounds(&place);
        run("umount", |command| command.arg(&place))?;
        fs::remove_file(&image)?;
        measured
    }

    fn btrfs_rounds(&self, place: &Path) -> anyhow::Result<Samples> {
        let mut samples = Samples::default();
        for round in 0..self.rounds {
            let (tree, snapshot) = (place.join(format!("t{round}")), place.join(format!("s{round}")));
            run("btrfs", |command| command.args(["-q", "subvolume", "create"]).arg(&tree))?;
            self.fill(&tree)?;
            samples.push(timed("btrfs", |command| {
                command.args(["-q", "subvolume", "snapshot", "-r"]).arg(&tree).arg(&snapshot)
            })?);
            for subvolume in [&tree, &snapshot] {
                run("btrfs", |command| command.args(["-q", "subvolume", "delete"]).arg(subvolume))?;
            }
        }
        Ok(samples)
    }

    fn commit(&self) -> anyhow::Result<Samples> {
        let (tree, name) = (self.folder.join("tree"), format!("{}-travel", self.prefix));
        let image = format!("{name}-image");
        self.fill(&tree)?;
        run("docker", |command| {
            let volumes = self.volumes.iter().flat_map(|volume| ["--volume", volume]);
            command.args(["run", "-d", "--name", &name, "--network", "none"]).args(volumes);
            command.args([&self.prefix, "/bin/sleep", "1d"])
        })?;
        let measured = || {
            let target = format!("{name}:/load");
            run("docker", |command| command.arg("cp").arg(&tree).arg(&target))?;
            let mut samples = Samples::default();
            for _ in 0..self.rounds {
                samples.push(timed("docker", |command| command.args(["commit", &name, &image]))?);
                run("docker", |command| command.args(["rmi", &image]))?;
            }
            Ok(samples)
        };
        let measured = measured();
        run("docker", |command| command.args(["rm", "-f", &name]))?;
        run("rm", |command| command.arg("-r").arg(&tree))?;
        measured
    }

    fn fill(&self, place: &Path) -> anyhow::Result<()> {
        run("sh", |command| {
            command.arg("-ec").arg(self.script.replace("$PLACE", &place.display().to_string()))
        })
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn timed(program: &str, change: impl FnOnce(&mut Command) -> &mut Command) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    run(program, change).map(|()| begun.elapsed())
}

fn run(program: &str, change: impl FnOnce(&mut Command) -> &mut Command) -> anyhow::Result<()> {
    output_of(change(&mut Command::new(program))).map(drop)
}
