use super::{LiveSandbox, PYTHON, Peer, TRUE};
use crate::errand::Errand;
use crate::plan::Subject;

/// The same commands without any sandbox.
pub(super) fn host() -> Peer {
    Peer::new(Subject::Host, Errand::new(TRUE), Errand::new(PYTHON))
}

/// The program, as its users type it.
pub(super) fn command_line(live: &LiveSandbox<'_>) -> Peer {
    let run = ["run", "--net", "none"];
    let mut peer = Peer::new(Subject::WarrenCli, command(live, &run, &TRUE), command(live, &run, &PYTHON));
    peer.exec_true = Some(command(live, &["exec", live.id.as_str()], &TRUE));
    peer
}

/// The same without a word about the network.
pub(super) fn command_line_with_network(live: &LiveSandbox<'_>) -> Peer {
    Peer::new(Subject::WarrenCliNet, command(live, &["run"], &TRUE), command(live, &["run"], &PYTHON))
}

fn command(live: &LiveSandbox<'_>, verb: &[&str], argv: &[&str]) -> Errand {
    let program = live.plan.warren.to_string_lossy();
    let data_dir = live.plan.data_dir.to_string_lossy();
    Errand::new([&[&*program, "--data-dir", &*data_dir], verb, &["--"], argv].concat())
}
