use super::{LiveSandbox, PYTHON, Peer, TRUE};
use crate::errand::Errand;
use crate::plan::Subject;

/// The same commands without any sandbox.
pub(super) fn host() -> Peer {
    Peer::new(Subject::Host, Errand::new(TRUE), Errand::new(PYTHON))
}

/// The program, as its users type it.
pub(super) fn command_line(live: &LiveSandbox<'_>) -> Peer {
    let program = live.plan.warren.to_string_lossy();
    let data_dir = live.plan.data_dir.to_string_lossy();
    let of = |verb: &[&str], argv: &[&str]| {
        Errand::new([&[&*program, "--data-dir", &*data_dir], verb, &["--"], argv].concat())
    };
    let run = ["run", "--net", "none"];
    let mut peer = Peer::new(Subject::WarrenCli, of(&run, &TRUE), of(&run, &PYTHON));
    peer.exec_true = Some(of(&["exec", live.id.as_str()], &TRUE));
    peer
}
