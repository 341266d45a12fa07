use super::{PYTHON, Peer, TRUE, first_line};
use crate::errand::Errand;
use crate::ground::Ground;
use crate::plan::Subject;

/// Namespaces and bind mounts only: it knows no limits, no writable layer, and nothing to execute
/// in later.
pub(super) fn peer(ground: &Ground, program: &str) -> Peer {
    let mut words = vec![program.to_owned(), "--unshare-all".to_owned()];
    let mut bind = |from: String, to: String| words.extend(["--ro-bind".to_owned(), from, to]);
    bind(ground.rootfs.display().to_string(), "/".to_owned());
    for tree in &ground.binds {
        if let Some(source) = tree.lowers.last() {
            bind(source.display().to_string(), tree.at.display().to_string());
        }
    }
    words.extend(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"].map(str::to_owned));
    let of = |argv: &[&str]| Errand::new(words.iter().map(String::as_str).chain(argv.iter().copied()));
    let mut peer = Peer::new(Subject::Bwrap, of(&TRUE), of(&PYTHON));
    peer.version = first_line(&[program, "--version"]);
    peer
}
