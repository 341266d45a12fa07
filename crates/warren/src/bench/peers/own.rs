use super::{Inhabited, PYTHON, Peer, PeerError, Place, TRUE};
use crate::bench::Subject;
use crate::bench::errand::{Errand, ErrandError};

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

/// This very program, as its users type it.
pub(super) fn command_line(inhabited: &Inhabited) -> Result<Peer, PeerError> {
    let own = std::env::current_exe()
        .map_err(|source| ErrandError::Start { program: "warren".to_owned(), source })?
        .display()
        .to_string();
    let of = |verb: &[&str], argv: &[&str]| {
        let words = [&[own.as_str(), "--data-dir", &inhabited.data_dir], verb, &["--"], argv].concat();
        Errand::new(words)
    };
    Ok(Peer {
        subject: Subject::WarrenCli,
        version: None,
        place: Place::Here,
        run_true: of(&["run", "--net", "none"], &TRUE),
        run_python: of(&["run", "--net", "none"], &PYTHON),
        exec_true: Some(of(&["exec", inhabited.id.as_str()], &TRUE)),
        prepare: Vec::new(),
        clear: Vec::new(),
        clear_abandoned: Vec::new(),
    })
}
