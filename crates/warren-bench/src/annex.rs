//! A second process of this program in a mount namespace of its own, without the bare cgroup2 mount
//! of a hybrid layout: some runtimes refuse to work beside it. Times are taken inside, so that the
//! way there costs nothing. The process does one thing for each line that it reads, so that all
//! subjects still take turns.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::errand::{Errand, ErrandError, Tally, Work};
use crate::screen;
use crate::stop::stop_flag;

/// The other process, seen from here. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Annex {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Time(Errand),
    Attempt { errand: Errand, complaints: PathBuf },
    Repeat { errand: Errand, work: Work },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Time(Duration),
    Tally(Tally),
    Failed(String),
}

impl Annex {
    pub(crate) fn open(cgroup2: &Path) -> Result<Self, ErrandError> {
        let script = "umount \"$1\" && shift && exec \"$@\"";
        let started = std::env::current_exe().and_then(|own| {
            Command::new("unshare")
                .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
                .arg(cgroup2)
                .arg(own)
                .arg("--annex")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
        });
        let mut child =
            started.map_err(|source| ErrandError::Start { program: "unshare".to_owned(), source })?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ErrandError::Elsewhere(
                "the process in the private namespace has no pipes".to_owned(),
            ));
        };
        Ok(Self { child, requests: Some(requests), answers: BufReader::new(answers) })
    }

    pub(crate) fn time(&mut self, request: &Request) -> Result<Duration, ErrandError> {
        match self.ask(request)? {
            Answer::Time(time) => Ok(time),
            other => Err(unexpected(other)),
        }
    }

    pub(crate) fn tally(&mut self, request: &Request) -> Result<Tally, ErrandError> {
        match self.ask(request)? {
            Answer::Tally(tally) => Ok(tally),
            other => Err(unexpected(other)),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, ErrandError> {
        let mut line = serde_json::to_string(request).map_err(elsewhere)?;
        line.push('\n');
        if let Some(requests) = &mut self.requests {
            requests.write_all(line.as_bytes()).map_err(elsewhere)?;
        }
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(elsewhere)?;
        serde_json::from_str(&answer).map_err(elsewhere)
    }
}

impl Drop for Annex {
    fn drop(&mut self) {
        drop(self.requests.take());
        drop(self.child.wait());
    }
}

/// Serves as the other process until nobody asks any more. An interrupt does not end it, since the
/// race needs its help to clear up.
pub(crate) fn serve() -> anyhow::Result<()> {
    let stop = stop_flag()?;
    for line in io::stdin().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let answer = obey(&request, &stop).unwrap_or_else(|error| Answer::Failed(error.to_string()));
        screen::print(&serde_json::to_string(&answer)?);
    }
    Ok(())
}

fn obey(request: &Request, stop: &AtomicBool) -> Result<Answer, ErrandError> {
    Ok(match request {
        Request::Time(errand) => Answer::Time(errand.time()?),
        Request::Attempt { errand, complaints } => Answer::Time(errand.attempt(complaints)?),
        Request::Repeat { errand, work } => Answer::Tally(errand.repeat(*work, stop)?),
    })
}

fn unexpected(answer: Answer) -> ErrandError {
    match answer {
        Answer::Failed(reason) => ErrandError::Elsewhere(reason),
        other => ErrandError::Elsewhere(format!("the private namespace answered {other:?}")),
    }
}

fn elsewhere(error: impl std::error::Error) -> ErrandError {
    ErrandError::Elsewhere(format!("ask the process in the private namespace: {error}"))
}
