use warren_wire::guest::{
    ByteString, Exit, FailureCode, ProcessId, ProcessInfo, ProcessSelector, Reply, Request, SignalCall,
    Start, TerminalSize,
};

use crate::guest::{ANSWER, Guest, Piece};
use crate::{EngineError, Missing};

/// More rows than an honest agent keeps.
const MOST_PROCESSES: usize = 8192;

/// Bytes of a command that events show.
const COMMAND_BYTES: usize = 200;

impl Guest {
    /// Starts a process and leaves it alone.
    pub(super) async fn spawn(&self, mut spec: Start) -> Result<ProcessInfo, EngineError> {
        spec.follow = None;
        let (started, _) = self.start_process(spec).await?;
        self.process(&ProcessSelector::Id(started.process)).await
    }

    pub(crate) async fn processes(&self) -> Result<Vec<ProcessInfo>, EngineError> {
        let mut call = self.open(&Request::List).await?;
        let mut rows = Vec::new();
        loop {
            match call.next(ANSWER).await? {
                Piece::Reply(Reply::Processes(more)) if rows.len() + more.len() <= MOST_PROCESSES => {
                    rows.extend(more);
                }
                Piece::Reply(Reply::Processes(_)) => return Err(self.unexpected("too many processes")),
                Piece::End => return Ok(rows),
                Piece::Reply(_) | Piece::Data(_) => {
                    return Err(self.unexpected("something other than processes"));
                }
            }
        }
    }

    pub(crate) async fn process(&self, selector: &ProcessSelector) -> Result<ProcessInfo, EngineError> {
        let rows = self.processes().await?;
        pick(rows, selector).ok_or_else(|| missing(selector))
    }

    pub(super) async fn signal(
        &self,
        process: ProcessSelector,
        signal: i32,
        group: bool,
    ) -> Result<(), EngineError> {
        let request = Request::Signal(SignalCall { process: process.clone(), signal, group });
        self.tell(&request, ANSWER).await.map_err(|error| about(&process, error))
    }

    pub(super) async fn resize(
        &self,
        process: ProcessSelector,
        size: TerminalSize,
    ) -> Result<(), EngineError> {
        let request = Request::Resize { process: process.clone(), size };
        self.tell(&request, ANSWER).await.map_err(|error| about(&process, error))
    }

    /// Waits as long as the process runs.
    pub(crate) async fn wait(&self, process: ProcessSelector) -> Result<Exit, EngineError> {
        let mut call = self.open(&Request::Wait { process: process.clone() }).await?;
        match call.next_at_leisure().await.map_err(|error| about(&process, error))? {
            Piece::Reply(Reply::Exited(exit)) => Ok(exit),
            _ => Err(self.unexpected("something other than the process's end")),
        }
    }
}

/// Finds a row as the agent would.
fn pick(rows: Vec<ProcessInfo>, selector: &ProcessSelector) -> Option<ProcessInfo> {
    let newest = |matches: &dyn Fn(&ProcessInfo) -> bool| {
        rows.iter().filter(|row| matches(row)).max_by_key(|row| row.process)
    };
    match selector {
        ProcessSelector::Id(id) => newest(&|row| row.process == *id),
        ProcessSelector::Pid(pid) => {
            newest(&|row| row.pid == *pid && row.exit.is_none()).or_else(|| newest(&|row| row.pid == *pid))
        }
        ProcessSelector::Tag(tag) => newest(&|row| row.tag.as_ref() == Some(tag)),
    }
    .cloned()
}

/// The agent's refusal of a call on a process, where it says that there is no such process.
pub(super) fn about(selector: &ProcessSelector, error: EngineError) -> EngineError {
    match error {
        EngineError::Refused(failure) if failure.code == FailureCode::NotFound => missing(selector),
        error => error,
    }
}

fn missing(selector: &ProcessSelector) -> EngineError {
    let id = match selector {
        ProcessSelector::Id(ProcessId(id)) => id.to_string(),
        ProcessSelector::Pid(pid) => format!("pid:{pid}"),
        ProcessSelector::Tag(tag) => format!("tag:{}", tag.to_text()),
    };
    EngineError::NotFound { what: Missing::Process, id }
}

/// A command as one line of text, cut where it gets long.
pub(super) fn shortened(argv: &[ByteString]) -> String {
    let mut text = String::new();
    for word in argv {
        if !text.is_empty() {
            text.push(' ');
        }
        // No more of a word than could be shown is even looked at.
        let bytes = word.as_bytes();
        text.push_str(&String::from_utf8_lossy(&bytes[..bytes.len().min(COMMAND_BYTES + 4)]));
        if text.len() > COMMAND_BYTES {
            let end = (0..=COMMAND_BYTES).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or(0));
            text.push('…');
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_cut_between_characters() {
        let words = ["echo".into(), "ä".repeat(500).into()];
        let text = shortened(&words);
        assert!(text.starts_with("echo ää") && text.ends_with("ä…"), "{text}");
        assert!(text.len() <= COMMAND_BYTES + '…'.len_utf8());
    }

    #[test]
    fn a_short_command_is_shown_whole() {
        assert_eq!(shortened(&["ls".into(), "-l".into()]), "ls -l");
    }
}
