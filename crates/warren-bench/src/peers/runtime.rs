//! OCI runtimes: one bundle for each command, and one container that stays for commands to be
//! executed in.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{IDLE, PYTHON, Peer, PeerError, Place, TRUE, first_line};
use crate::annex::Annex;
use crate::errand::{Errand, WORKER};
use crate::ground::Ground;
use crate::machine::CgroupLayout;
use crate::plan::{MOST_WORKERS, Subject};

/// How long a program may take to fill its memory, and the pause between two looks.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn crun(ground: &Ground, program: &str, layout: &CgroupLayout) -> Result<Peer, PeerError> {
    let place = match layout {
        CgroupLayout::Hybrid { cgroup2 } => Place::Annex(Arc::new(Mutex::new(Annex::open(cgroup2)?))),
        CgroupLayout::V1 | CgroupLayout::V2 => Place::Here,
    };
    peer(ground, Subject::Crun, &[program], place)
}

pub(super) fn runc(ground: &Ground, program: &str) -> Result<Peer, PeerError> {
    peer(ground, Subject::Runc, &[program], Place::Here)
}

const GVISOR: [&str; 4] = ["--platform=ptrace", "--network=none", "--ignore-cgroups", "--rootless=false"];

pub(super) fn runsc(ground: &Ground, program: &str) -> Result<Peer, PeerError> {
    peer(ground, Subject::Runsc, &[&[program], &GVISOR[..]].concat(), Place::Here)
}

/// A container of gVisor's whose memory is put on disk, with which it ends.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    start: Errand,
    is_ready: Errand,
    checkpoint: Errand,
    restore: Errand,
    clear: Errand,
    image: PathBuf,
}

impl Checkpoint {
    /// `argv` makes the file `/tmp/ready` when its memory is as it is to be.
    pub(crate) fn of(ground: &Ground, argv: &[&str]) -> Result<Self, PeerError> {
        let program = super::installed("runsc")?;
        let bundle = ground.bundle("runsc-memory", argv).map_err(PeerError::Bundle)?;
        let (bundle, image) = (bundle.display().to_string(), ground.file("checkpoint"));
        let (name, at) = (format!("{}-memory", ground.prefix), image.display().to_string());
        let of = |rest: &[&str]| Errand::new([&[&*program], &GVISOR[..], rest].concat());
        Ok(Self {
            start: of(&["run", "--detach", "--bundle", &bundle, &name]),
            is_ready: of(&["exec", &name, "/bin/sh", "-c", "test -e /tmp/ready"]),
            checkpoint: of(&["checkpoint", "--image-path", &at, &name]),
            restore: of(&["restore", "--detach", "--bundle", &bundle, "--image-path", &at, &name]),
            clear: of(&["delete", "--force", &name]),
            image,
        })
    }

    /// Starts it, waits until it is ready, and answers the time of the checkpoint, and of a restore
    /// after it.
    pub(crate) fn time(&self) -> anyhow::Result<(Duration, Duration)> {
        drop(self.clear.time());
        drop(std::fs::remove_dir_all(&self.image));
        self.start.time()?;
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = self.is_ready.time() {
            anyhow::ensure!(Instant::now() < deadline, "it is not ready: {error}");
            std::thread::sleep(PAUSE);
        }
        let taken = self.checkpoint.time();
        drop(self.clear.time());
        let restored = self.restore.time();
        drop(self.clear.time());
        Ok((taken?, restored?))
    }
}

fn peer(ground: &Ground, subject: Subject, words: &[&str], place: Place) -> Result<Peer, PeerError> {
    let bundle = |name: &str, argv: &[&str]| {
        let folder = ground.bundle(&format!("{}-{name}", subject.name()), argv).map_err(PeerError::Bundle)?;
        Ok::<_, PeerError>(folder.display().to_string())
    };
    let (run_true, run_python) = (bundle("true", &TRUE)?, bundle("python", &PYTHON)?);
    let idle = bundle("idle", &IDLE)?;
    let of = |rest: &[&str]| Errand::new([words, rest].concat());
    let (passing, staying) = (format!("{}-{WORKER}", ground.prefix), format!("{}-idle", ground.prefix));
    let clear = |prefix: &str| -> Vec<Errand> {
        let names = (0..MOST_WORKERS).map(|worker| worker.to_string()).chain(["idle".to_owned()]);
        names.map(|name| of(&["delete", "--force", &format!("{prefix}-{name}")])).collect()
    };
    Ok(Peer {
        subject,
        version: first_line(&[words[0], "--version"]),
        place,
        run_true: of(&["run", "--bundle", &run_true, &passing]),
        run_python: of(&["run", "--bundle", &run_python, &passing]),
        exec_true: Some(of(&["exec", &staying, TRUE[0]])),
        prepare: vec![of(&["run", "--detach", "--bundle", &idle, &staying])],
        clear: clear(&ground.prefix),
        clear_abandoned: ground.abandoned.iter().flat_map(|prefix| clear(prefix)).collect(),
    })
}
