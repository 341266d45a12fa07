use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::backend::Backend;
use crate::gate::{self, Alongside};
use crate::output::Output;
use crate::{binary, census};

/// A data directory of its own, and `warren` on it. When it is dropped, nothing may be left of any
/// sandbox.
#[derive(Debug)]
pub struct TestEnv {
    place: TempDir,
    _gate: File,
}

/// No run of `warren` in a test takes longer.
const PATIENCE: Duration = Duration::from_secs(180);

impl TestEnv {
    #[expect(clippy::new_without_default, reason = "it touches the machine, which a default should not")]
    pub fn new() -> Self {
        Self::beside(Alongside::Others)
    }

    /// For tests that measure the machine or change a setting of it: no other test runs meanwhile.
    pub fn alone() -> Self {
        Self::beside(Alongside::Nobody)
    }

    fn beside(alongside: Alongside) -> Self {
        assert!(rustix::process::geteuid().is_root(), "end-to-end tests make sandboxes: run them as root");
        binary::warren();
        let disk =
            std::env::var_os("WARREN_TEST_DIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        let gate = gate::pass(&disk, alongside);
        let place = tempfile::Builder::new().prefix("warren-e2e-").tempdir_in(disk);
        Self { place: place.expect("a directory for the test can be made"), _gate: gate }
    }

    pub fn data_dir(&self) -> PathBuf {
        self.place.path().join("data")
    }

    /// A path beside the data directory, for files of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// `warren` with these words, not yet started.
    pub fn command<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> Command {
        self.command_on(&self.data_dir(), words)
    }

    /// As [`TestEnv::command`], on another data directory.
    pub fn command_on<I: AsRef<OsStr>>(
        &self,
        data_dir: &Path,
        words: impl IntoIterator<Item = I>,
    ) -> Command {
        let mut command = Command::new(binary::warren());
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.place.path());
        // A network of their own have the tests about networks alone, each on a machine of its own.
        command.env("WARREN_NETWORK__ENABLED", "false");
        command.env("TERM", "dumb").arg("--data-dir").arg(data_dir).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `warren` with these words.
    pub fn warren<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> Output {
        finish(self.command(words), &[])
    }

    /// As [`TestEnv::warren`], on another data directory.
    pub fn warren_on<I: AsRef<OsStr>>(&self, data_dir: &Path, words: impl IntoIterator<Item = I>) -> Output {
        finish(self.command_on(data_dir, words), &[])
    }

    /// Runs a command in a fresh sandbox.
    pub fn run<I: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = I>) -> Output {
        self.run_with(&[] as &[&str], command)
    }

    /// As [`TestEnv::run`], with flags of `warren run`.
    pub fn run_with<F: AsRef<OsStr>, I: AsRef<OsStr>>(
        &self,
        flags: &[F],
        command: impl IntoIterator<Item = I>,
    ) -> Output {
        finish(self.run_command(flags, command), &[])
    }

    /// As [`TestEnv::run`], with standard input.
    pub fn run_fed<I: AsRef<OsStr>>(&self, input: &[u8], command: impl IntoIterator<Item = I>) -> Output {
        finish(self.run_command(&[] as &[&str], command), input)
    }

    /// `warren run`, not yet started.
    pub fn run_command<F: AsRef<OsStr>, I: AsRef<OsStr>>(
        &self,
        flags: &[F],
        command: impl IntoIterator<Item = I>,
    ) -> Command {
        let mut run = self.command(["run"]);
        run.args(flags).arg("--").args(command);
        run
    }

    /// Leaves a sandbox running and answers its id.
    pub fn keep<F: AsRef<OsStr>>(&self, flags: &[F]) -> String {
        let mut words = vec![OsStr::new("--keep")];
        words.extend(flags.iter().map(AsRef::as_ref));
        let errors = self.run_with(&words, ["sh", "-c", ":"]).ok().errors();
        let id = errors
            .split_whitespace()
            .map(|word| word.trim_end_matches(';'))
            .find(|word| word.starts_with("sbx"));
        id.unwrap_or_else(|| panic!("no id is printed: {errors}")).to_owned()
    }

    /// Runs a command in a kept sandbox.
    pub fn exec<I: AsRef<OsStr>>(&self, id: &str, command: impl IntoIterator<Item = I>) -> Output {
        let mut exec = self.command(["exec", id, "--"]);
        exec.args(command);
        finish(exec, &[])
    }

    pub fn remove(&self, id: &str) -> Output {
        self.warren(["rm", id])
    }

    /// Everything that exists for this data directory's sandboxes right now.
    pub fn census(&self) -> Vec<String> {
        census::census(&self.data_dir())
    }

    /// The mark of this data directory's control groups.
    pub fn instance(&self) -> String {
        census::instance(&self.data_dir()).expect("the data directory has been opened")
    }

    /// Lets a process that opens the data directory reclaim what is left, as the next `warren`
    /// would, and insists that nothing is.
    #[track_caller]
    pub fn assert_clean(&self) {
        if !self.data_dir().join("instance").exists() {
            return;
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut left = self.census();
        while !left.is_empty() && Instant::now() < deadline {
            for backend in crate::backend::open_all(&self.data_dir()) {
                backend.settle(Duration::from_secs(60));
            }
            left = self.census();
        }
        assert!(left.is_empty(), "left behind: {left:#?}");
    }

    /// A backend in this process, on the same data directory.
    pub fn backend(&self) -> Backend<'_> {
        Backend::open(self)
    }

    /// As [`TestEnv::backend`], whatever `WARREN_TEST_BACKEND` names.
    pub fn backend_named(&self, name: &str) -> Backend<'_> {
        Backend::open_named(self, name)
    }

    pub fn place(&self) -> &Path {
        self.place.path()
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The first failure is the one to report; still nothing is left running.
            crate::backend::remove_all(&self.data_dir());
        } else {
            self.assert_clean();
        }
        census::remove_parents(&self.data_dir());
    }
}

/// Waits for the end, and ends what does not end.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Output {
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().expect("warren can be started");
    let watchdog = Watchdog::on(&child);
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
        child.wait_with_output()
    });
    let late = watchdog.dismiss();
    let output = Output::from(output.expect("warren can be waited for"));
    assert!(!late, "warren did not end within {PATIENCE:?}: {} {}", output.text(), output.errors());
    output
}

/// Kills a process that has not ended in time.
struct Watchdog {
    done: mpsc::Sender<()>,
    thread: std::thread::JoinHandle<bool>,
}

impl Watchdog {
    fn on(child: &Child) -> Self {
        let (done, ended) = mpsc::channel();
        let pid = child.id();
        let thread = std::thread::spawn(move || {
            let late = ended.recv_timeout(PATIENCE).is_err();
            if late {
                kill(pid);
            }
            late
        });
        Self { done, thread }
    }

    /// Says whether it had to bite.
    fn dismiss(self) -> bool {
        let _ = self.done.send(());
        self.thread.join().unwrap_or(true)
    }
}

fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}
