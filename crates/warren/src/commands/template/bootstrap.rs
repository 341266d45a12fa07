//! Runs the program that makes a root file system of packages, and reads what it makes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};

use tempfile::TempDir;

use super::telling::{News, Telling};
use crate::error::CliError;
use crate::ui::{self, Progress};

const PROGRAM: &str = "mmdebstrap";

/// The variable that tells hooks where fetched files are.
pub(super) const FETCHED: &str = "WARREN_FETCHED";

/// Files of packages that nobody reads in a sandbox; licences stay.
const LEFT_OUT: [&str; 4] =
    ["/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/doc/*/[!c]*"];

/// The root file system to make.
#[derive(Debug)]
pub(super) struct Bootstrap {
    pub(super) suite: String,
    pub(super) mirrors: Vec<String>,
    pub(super) packages: Vec<String>,
    /// Run when the packages are there, with the root as `$1`.
    pub(super) hooks: Vec<&'static str>,
    /// A directory of files that hooks put there, which they know as [`FETCHED`].
    pub(super) fetched: Option<TempDir>,
}

/// A root file system that is being made: an archive to be read as it grows. Dropping it ends the
/// program.
#[derive(Debug)]
pub(super) struct Made {
    child: Child,
    archive: Option<ChildStdout>,
    complaints: Option<JoinHandle<Vec<String>>>,
}

impl Bootstrap {
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            "--variant=minbase".to_owned(),
            "--format=tar".to_owned(),
            "--aptopt=APT::Install-Recommends \"false\"".to_owned(),
            format!("--include={}", self.packages.join(",")),
        ];
        arguments.extend(LEFT_OUT.iter().map(|place| format!("--dpkgopt=path-exclude={place}")));
        // Packages of Java put links to their manuals there, and fail where it is not.
        arguments.push("--essential-hook=mkdir -p \"$1/usr/share/man/man1\"".to_owned());
        arguments.extend(self.hooks.iter().map(|hook| format!("--customize-hook={hook}")));
        arguments.extend([self.suite.clone(), "-".to_owned()]);
        arguments.extend(self.mirrors.iter().cloned());
        arguments
    }

    pub(super) fn begin(&self) -> Result<Made, CliError> {
        let mut command = Command::new(PROGRAM);
        let (told, telling) = if Progress::is_seen() { terminal() } else { pipe() }.map_err(CliError::new)?;
        command.args(self.arguments()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(telling);
        // What it says is read, and shown in our own way.
        command.env("ANSI_COLORS_DISABLED", "1");
        if let Some(fetched) = &self.fetched {
            command.env(FETCHED, fetched.path());
        }
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(),
            _ => CliError::new(error),
        })?;
        let archive = child.stdout.take();
        // Its end of the stream closes with it, and not before we let go of ours.
        drop(command);
        let complaints = Some(thread::spawn(|| follow(told)));
        Ok(Made { child, archive, complaints })
    }
}

/// Fails if the program is not there.
pub(super) fn require() -> Result<(), CliError> {
    match Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing()),
        _ => Ok(()),
    }
}

fn missing() -> CliError {
    CliError::new(format!("there is no `{PROGRAM}` on this machine"))
        .hint(format!("install it: apt install {PROGRAM}"))
}

impl Made {
    /// Tells whether the program has failed.
    pub(super) fn has_failed(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(status)) if !status.success())
    }

    /// Waits for the end of the program, and fails with its complaints if it failed.
    pub(super) fn finish(&mut self) -> Result<(), CliError> {
        // A program that is still writing must not wait for a reader that has left.
        self.archive = None;
        let status = self.child.wait().map_err(CliError::new)?;
        let complaints = self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        if status.success() {
            return Ok(());
        }
        let error = CliError::new(format!("{PROGRAM} ended with {status}\n{}", complaints.join("\n")));
        Err(error.hint("are the packages within reach? --mirror names another place for them"))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // It has ended before, unless its archive could not be used.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Read for Made {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(archive) = &mut self.archive else { return Ok(0) };
        let count = archive.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        self.archive = None;
        // An archive is whole only if its maker says so.
        if self.child.wait()?.success() {
            return Ok(0);
        }
        Err(io::Error::other(format!("{PROGRAM} failed")))
    }
}

/// A stream that a program tells how far it is on, and the program's end of it.
type Stream = io::Result<(File, Stdio)>;

fn pipe() -> Stream {
    let (read, write) = io::pipe()?;
    Ok((File::from(OwnedFd::from(read)), write.into()))
}

/// The program shows shares of its work only to a terminal.
fn terminal() -> Stream {
    use rustix::pty::OpenptFlags;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&ours)?;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    Ok((File::from(ours), theirs.into()))
}

/// Shows how far it is, and keeps the last complaints.
fn follow(mut stream: File) -> Vec<String> {
    let progress = Progress::new();
    let mut show = |news: News<'_>| match news {
        News::Step(step) if Progress::is_seen() => progress.step(None, step),
        News::Step(step) => ui::say(step),
        News::Share { step, percent } => progress.step(Some(percent), step),
    };
    let mut telling = Telling::default();
    let mut buffer = [0; 4096];
    // A terminal whose other end is closed fails, and a pipe ends.
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        telling.take(buffer.get(..count).unwrap_or_default(), &mut show);
    }
    telling.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_told_everything() {
        let bootstrap = Bootstrap {
            suite: "bookworm".to_owned(),
            mirrors: vec!["/etc/apt/sources.list".to_owned()],
            packages: vec!["bash".to_owned(), "curl".to_owned()],
            hooks: vec!["true"],
            fetched: None,
        };
        let arguments = bootstrap.arguments();
        assert!(arguments.contains(&"--include=bash,curl".to_owned()));
        assert!(arguments.contains(&"--customize-hook=true".to_owned()));
        assert_eq!(arguments[arguments.len() - 3..], ["bookworm", "-", "/etc/apt/sources.list"]);
    }
}
