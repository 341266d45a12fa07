use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// A placeholder for the worker's number in an errand that several do at once.
pub(crate) const WORKER: &str = "{worker}";

/// A program whose time from being started to having ended is measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Errand {
    argv: Vec<String>,
}

/// The reason why an errand failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ErrandError {
    #[error("start `{program}`: {source}")]
    Start { program: String, source: io::Error },
    #[error("`{program}` failed with {status}: {complaint}")]
    Failed { program: String, status: ExitStatus, complaint: String },
    #[error("{0}")]
    Elsewhere(String),
}

/// A number of errands, and the time that they took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) elapsed: Duration,
}

impl Tally {
    pub(crate) fn per_second(&self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.elapsed += other.elapsed;
    }
}

impl Errand {
    pub(crate) fn new<W: Into<String>>(argv: impl IntoIterator<Item = W>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect() }
    }

    pub(crate) fn for_worker(&self, worker: usize) -> Self {
        let number = worker.to_string();
        Self { argv: self.argv.iter().map(|word| word.replace(WORKER, &number)).collect() }
    }

    /// Does it once, with nothing on its streams.
    pub(crate) fn time(&self) -> Result<Duration, ErrandError> {
        self.run(Stdio::null()).map_err(|failure| self.failed(failure, "run it again to see why"))
    }

    /// Does it once and keeps its complaints for the case that it fails: in a file, since a program
    /// that it leaves running would hold a pipe open.
    pub(crate) fn attempt(&self, complaints: &Path) -> Result<Duration, ErrandError> {
        let file = File::create(complaints).map_err(|source| self.unstarted(source))?;
        self.run(file.into()).map_err(|failure| {
            let text = std::fs::read_to_string(complaints).unwrap_or_default();
            self.failed(failure, text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default())
        })
    }

    /// Does it again and again with several workers until the window is over.
    pub(crate) fn repeat(&self, work: Work, stop: &AtomicBool) -> Result<Tally, ErrandError> {
        work.share(stop, |worker| {
            let errand = self.for_worker(worker);
            move || errand.time().map(drop)
        })
    }

    fn run(&self, stderr: Stdio) -> Result<Duration, Result<ExitStatus, io::Error>> {
        let (program, arguments) =
            self.argv.split_first().ok_or_else(|| Err(io::ErrorKind::InvalidInput.into()))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let begun = Instant::now();
        let status = command.status().map_err(Err)?;
        let elapsed = begun.elapsed();
        if status.success() { Ok(elapsed) } else { Err(Ok(status)) }
    }

    fn failed(&self, failure: Result<ExitStatus, io::Error>, complaint: &str) -> ErrandError {
        let complaint = complaint.chars().take(300).collect();
        match failure {
            Ok(status) => ErrandError::Failed { program: self.argv.join(" "), status, complaint },
            Err(source) => self.unstarted(source),
        }
    }

    fn unstarted(&self, source: io::Error) -> ErrandError {
        ErrandError::Start { program: self.argv.first().cloned().unwrap_or_default(), source }
    }
}

/// The number of workers, and the time for which they work.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) workers: usize,
    pub(crate) window: Duration,
}

impl Work {
    /// Lets each worker do its job over and over until the window is over. The tally's time ends
    /// with the last job.
    pub(crate) fn share<J, E>(self, stop: &AtomicBool, job_of: impl Fn(usize) -> J + Sync) -> Result<Tally, E>
    where
        J: FnMut() -> Result<(), E>,
        E: Send,
    {
        let (begun, count) = (Instant::now(), AtomicU64::new(0));
        let repeat = |worker| {
            let mut job = job_of(worker);
            while begun.elapsed() < self.window && !stop.load(Ordering::Relaxed) {
                job()?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let repeat = &repeat;
            let threads: Vec<_> =
                (0..self.workers).map(|worker| scope.spawn(move || repeat(worker))).collect();
            threads.into_iter().try_for_each(joined)
        })?;
        Ok(Tally { count: count.into_inner(), elapsed: begun.elapsed() })
    }
}

/// The result of a thread, or its panic.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs a program to its end, and answers its output, or fails with its complaint.
pub(crate) fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| program.clone())?;
    anyhow::ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The path of a program, also in the administrator's places that the user's path may leave out.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_the_program_said() {
        let folder = tempfile::tempdir().unwrap();
        let errand = Errand::new(["/bin/sh", "-c", "echo first >&2; echo no such thing >&2; exit 3"]);
        let error = errand.attempt(&folder.path().join("complaints")).unwrap_err().to_string();
        assert!(error.ends_with("failed with exit status: 3: no such thing"), "{error}");
    }

    #[test]
    fn each_worker_has_a_name_of_its_own() {
        assert_eq!(Errand::new(["run", "box-{worker}"]).for_worker(7).argv, ["run", "box-7"]);
    }

    #[test]
    fn workers_count_together_and_stop_when_told() {
        let work = Work { workers: 2, window: Duration::from_millis(20) };
        let pause = |_| {
            || -> Result<(), ErrandError> {
                std::thread::sleep(Duration::from_millis(1));
                Ok(())
            }
        };
        assert!(work.share(&AtomicBool::new(false), pause).unwrap().count >= 2);
        assert_eq!(work.share(&AtomicBool::new(true), pause).unwrap().count, 0);
    }
}
