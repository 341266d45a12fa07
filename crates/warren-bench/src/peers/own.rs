use super::{Inhabited, PYTHON, Peer, Place, TRUE};
use crate::errand::Errand;
use crate::plan::Subject;

/// The same commands without any sandbox.
pub(super) fn host() -> Peer {
    Peer {
        subject: Subject::Host,
        version: None,
        place: Place::Here,
        run_true: Errand::new(TRUE),
        run_python: Errand::new(PYTHON),
        exec_true: None,
        prepare: Vec::new(),
        clear: Vec::new(),
        clear_abandoned: Vec::new(),
    }
}

/// The program, as its users type it.
pub(super) fn command_line(inhabited: &Inhabited<'_>) -> Peer {
    let program = inhabited.plan.warren.to_string_lossy();
    let data_dir = inhabited.plan.data_dir.to_string_lossy();
    let of = |verb: &[&str], argv: &[&str]| {
        let words = [&[&*program, "--data-dir", &*data_dir], verb, &["--"], argv].concat();
        Errand::new(words)
    };
    Peer {
        subject: Subject::WarrenCli,
        version: None,
        place: Place::Here,
        run_true: of(&["run", "--net", "none"], &TRUE),
        run_python: of(&["run", "--net", "none"], &PYTHON),
        exec_true: Some(of(&["exec", inhabited.id.as_str()], &TRUE)),
        prepare: Vec::new(),
        clear: Vec::new(),
        clear_abandoned: Vec::new(),
    }
}
