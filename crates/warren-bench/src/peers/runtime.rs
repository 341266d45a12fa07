//! OCI runtimes: one bundle for each command, and one container that stays for commands to be
//! executed in.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{IDLE, PYTHON, Peer, PeerError, Place, TRUE, first_line};
use crate::annex::Annex;
use crate::errand::{Errand, WORKER};
use crate::ground::Ground;
use crate::machine::CgroupLayout;
use crate::plan::{MOST_WORKERS, Subject};

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

pub(super) fn runsc(ground: &Ground, program: &str) -> Result<Peer, PeerError> {
    let options = ["--platform=ptrace", "--network=none", "--ignore-cgroups", "--rootless=false"];
    peer(ground, Subject::Runsc, &[&[program], &options[..]].concat(), Place::Here)
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
