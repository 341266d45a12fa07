use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use warren_core::RootTree;

use super::sizes::Load;
use crate::plan::Subject;
use crate::report::{Figures, Row, Skipped};
use crate::session::Session;
use crate::statistics::Samples;

/// Others who copy the same files: `cp -a`, a btrfs snapshot, `docker commit`.
pub(super) struct Peers {
    folder: PathBuf,
    script: String,
    prefix: String,
    /// What the image lacks, as docker takes it.
    volumes: Vec<String>,
    docker: bool,
    rounds: usize,
    failures: Vec<(&'static str, String)>,
}

impl Peers {
    pub(super) fn ready(session: &Session<'_>, load: &Load) -> anyhow::Result<Self> {
        let folder = session.ground.file("travel");
        fs::create_dir_all(&folder)?;
        Ok(Self {
            script: load.script("$PLACE"),
            prefix: session.ground.prefix.clone(),
            volumes: volumes(&session.ground.binds),
            docker: session.takes(Subject::Docker),
            rounds: load.peer_rounds,
            folder,
            failures: Vec::new(),
        })
    }

    pub(super) fn measure(mut self, session: &mut Session<'_>, case: &str) -> anyhow::Result<()> {
        session.progress(&format!("{case}: cp -a"));
        let copied = self.copy();
        self.enter(session, case, "cp_a", copied);
        session.progress(&format!("{case}: btrfs"));
        let snapped = self.btrfs();
        self.enter(session, case, "btrfs", snapped);
        if self.docker {
            session.progress(&format!("{case}: docker commit"));
            let committed = self.commit();
            self.enter(session, case, "docker_commit", committed);
        }
        for (subject, reason) in &self.failures {
            let skipped = Skipped { subject: (*subject).to_owned(), reason: format!("{case}: {reason}") };
            session.report.skipped.push(skipped);
        }
        session.go_on()
    }

    fn enter(
        &mut self,
        session: &mut Session<'_>,
        case: &str,
        subject: &'static str,
        done: Result<Samples, String>,
    ) {
        match done {
            Ok(samples) => session.report.rows.push(Row {
                case: case.to_owned(),
                subject: subject.to_owned(),
                n: samples.len(),
                figures: Figures::Time { median_ms: samples.median_ms(), p99_ms: samples.p99_ms() },
            }),
            Err(reason) => self.failures.push((subject, reason)),
        }
    }

    fn copy(&self) -> Result<Samples, String> {
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
    fn btrfs(&self) -> Result<Samples, String> {
        let (image, place) = (self.folder.join("btrfs.img"), self.folder.join("btrfs"));
        fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        run("truncate", |command| command.args(["-s", "8G"]).arg(&image))?;
        run("mkfs.btrfs", |command| command.args(["-q", "-f"]).arg(&image))?;
        run("mount", |command| command.args(["-o", "loop"]).arg(&image).arg(&place))?;
        let measured = self.btrfs_rounds(&place);
        run("umount", |command| command.arg(&place))?;
        fs::remove_file(&image).map_err(|error| error.to_string())?;
        measured
    }

    fn btrfs_rounds(&self, place: &Path) -> Result<Samples, String> {
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

    fn commit(&self) -> Result<Samples, String> {
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

    fn fill(&self, place: &Path) -> Result<(), String> {
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

fn volumes(binds: &[RootTree]) -> Vec<String> {
    let volume =
        |tree: &RootTree| Some(format!("{}:{}:ro", tree.lowers.last()?.display(), tree.at.display()));
    binds.iter().filter_map(volume).collect()
}

fn timed(program: &str, change: impl FnOnce(&mut Command) -> &mut Command) -> Result<Duration, String> {
    let begun = Instant::now();
    run(program, change).map(|()| begun.elapsed())
}

fn run(program: &str, change: impl FnOnce(&mut Command) -> &mut Command) -> Result<(), String> {
    let mut command = Command::new(program);
    let output = change(&mut command).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
