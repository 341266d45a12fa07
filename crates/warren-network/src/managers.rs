//! Programs that look after a machine's network take every card they see for theirs, unless told
//! otherwise: a link of ours that gets an address from them, or loses its own, is dead without a
//! word. They are told in files of this boot of the machine, so that nothing is left of it in its
//! settings.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::place;

/// One word to one program.
struct Word {
    path: &'static str,
    text: String,
    /// The command that has the program read the file, and the unit that must be running for it.
    reload: Option<(&'static str, [&'static str; 2])>,
}

/// Read before files of any other name.
pub(crate) const NETWORKD: &str = "/run/systemd/network/00-warren.network";
/// NetworkManager, and newer versions of networkd, ask udev.
const UDEV: &str = "/run/udev/rules.d/00-warren.rules";
/// A program that does not answer is not waited for any longer.
const PATIENCE: Duration = Duration::from_secs(10);

fn words() -> [Word; 2] {
    let links = format!("{}*", place::LINK_PREFIX);
    [
        Word {
            path: NETWORKD,
            text: format!(
                "# Links of Warren's sandboxes, which have all they need.\n[Match]\nName={links}\n\n[Link]\nUnmanaged=yes\n"
            ),
            reload: Some(("systemd-networkd.service", ["networkctl", "reload"])),
        },
        Word {
            path: UDEV,
            text: format!(
                "# Links of Warren's sandboxes, which have all they need.\nSUBSYSTEM==\"net\", KERNEL==\"{links}\", \
                 ENV{{NM_UNMANAGED}}=\"1\", ENV{{ID_NET_MANAGED_BY}}=\"warren\"\n"
            ),
            // udev looks for itself whether its rules have changed.
            reload: None,
        },
    ]
}

/// Has network managers leave our links alone, on a machine that systemd runs; where it does not,
/// they have no such files. Best done before the first link is made. What cannot be told is no
/// reason to have no network: most machines have nobody who would listen.
pub(crate) fn tell() {
    if !Path::new("/run/systemd/system").is_dir() {
        return;
    }
    for word in words() {
        match say(&word) {
            Ok(true) => {
                if let Some((unit, [program, order])) = word.reload {
                    let running = run("systemctl", &["is-active", "--quiet", unit]);
                    if running && !run(program, &[order]) {
                        tracing::warn!(
                            "`{program} {order}` failed: {unit} may take links of sandboxes for its own"
                        );
                    }
                }
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, path = word.path, "network managers may take links of sandboxes for theirs")
            }
        }
    }
}

/// Says whether that was news.
fn say(word: &Word) -> io::Result<bool> {
    let path = Path::new(word.path);
    if fs::read(path).is_ok_and(|found| found == word.text.as_bytes()) {
        return Ok(false);
    }
    if let Some(directory) = path.parent() {
        // Its readers are not root, so this process's mask must not count.
        fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    }
    let staged = path.with_extension(format!("new-{}", std::process::id()));
    let written = fs::write(&staged, &word.text)
        .and_then(|()| fs::set_permissions(&staged, std::os::unix::fs::PermissionsExt::from_mode(0o644)))
        .and_then(|()| fs::rename(&staged, path));
    if written.is_err() {
        drop(fs::remove_file(&staged));
    }
    written.map(|()| true)
}

/// Runs a program to its end. Says whether it ended well, and in time.
fn run(program: &str, words: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let deadline = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
            Ok(None) | Err(_) => {
                drop(child.kill().and_then(|()| child.wait()));
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_exactly_our_links() {
        let [networkd, udev] = words();
        assert!(networkd.text.contains("\nName=wrn*\n") && networkd.text.contains("\nUnmanaged=yes\n"));
        assert!(udev.text.contains("KERNEL==\"wrn*\"") && udev.text.contains("ENV{NM_UNMANAGED}=\"1\""));
    }

    #[test]
    fn what_was_said_is_not_said_again() {
        let directory = std::env::temp_dir().join(format!("warren-managers-{}", std::process::id()));
        let path: &'static str =
            Box::leak(directory.join("below/00-warren.network").display().to_string().into_boxed_str());
        let word = Word { path, text: "[Match]\n".to_owned(), reload: None };
        assert!(say(&word).unwrap());
        assert!(!say(&word).unwrap());
        fs::write(path, "torn").unwrap();
        assert!(say(&word).unwrap());
        assert_eq!(fs::read_to_string(path).unwrap(), "[Match]\n");
        fs::remove_dir_all(directory).unwrap();
    }
}
