//! An entry from its beginning to its end.

use std::sync::Arc;

use warren_core::catalog::Durability;
use warren_core::{Action, Caller, FileDeed, JournalEntry, Outcome, SandboxRecord, SessionId, SnapshotId};
use warren_wire::guest::{Exit, ExitCause};

use crate::cell::Door;
use crate::error::sentence;
use crate::ports::{blocking, promptly};
use crate::shown::cut;
use crate::state::{Job, Unwatched};
use crate::{Engine, EngineError};

/// An entry that goes on. If it is dropped before its end, the watcher of processes closes it.
#[derive(Debug)]
pub(crate) struct OpenEntry {
    engine: Engine,
    door: Door,
    /// Stays when the entry is over.
    number: u64,
    /// Absent once somebody else sees to it, or it is over.
    entry: Option<JournalEntry>,
    /// It changes nothing.
    looks: bool,
}

impl Engine {
    /// Writes down that something begins. A failure of the journal is no failure of the call: the
    /// answer is `None` then.
    pub(crate) async fn begin_entry(
        &self,
        by: &Caller,
        door: &Door,
        action: Action,
        session: Option<SessionId>,
        before: Option<SnapshotId>,
    ) -> Option<OpenEntry> {
        let record = door.cell.record();
        let mut entry = self.new_entry(by, &record, action, session);
        entry.before = before;
        let (engine, door) = (self.inner(), door.clone());
        // The process is started as soon as this is done.
        promptly(move || {
            let entry = engine.append_now(entry)?;
            engine.shared.journal.begin(&entry);
            Some(OpenEntry { engine, door, number: entry.number, entry: Some(entry), looks: false })
        })
        .await
    }

    pub(super) fn new_entry(
        &self,
        by: &Caller,
        record: &SandboxRecord,
        action: Action,
        session: Option<SessionId>,
    ) -> JournalEntry {
        JournalEntry {
            number: 0,
            owner: record.owner.clone(),
            sandbox: record.id.clone(),
            session,
            turn: record.history.turn.saturating_add(1),
            action,
            by: by.name.clone(),
            began_unix_ms: self.shared.parts.clock.unix_ms(),
            ended_unix_ms: None,
            outcome: None,
            before: None,
            after: None,
            not_kept: None,
        }
    }

    pub(super) async fn append(&self, entry: JournalEntry) -> Option<JournalEntry> {
        let engine = self.inner();
        blocking(move || engine.append_now(entry)).await
    }

    /// Blocks.
    fn append_now(&self, mut entry: JournalEntry) -> Option<JournalEntry> {
        match self.shared.parts.catalog.append_entry(&entry, Durability::Process) {
            Ok(number) => {
                entry.number = number;
                Some(entry)
            }
            Err(error) => {
                self.fault();
                tracing::error!(error = sentence(&error), "cannot write to the journal");
                None
            }
        }
    }

    /// Writes down how an entry ended. What it did may have changed the sandbox's files, which are
    /// captured in time.
    pub(super) fn close_entry(&self, door: &Door, entry: JournalEntry, outcome: Outcome) {
        let ended = self.end_entry(entry, outcome);
        door.cell.mark_changed();
        self.shared.journal.expect_capture(ended);
        self.shared.journal.later(Job::Capture(Arc::clone(&door.cell)));
    }

    fn end_entry(&self, mut entry: JournalEntry, outcome: Outcome) -> JournalEntry {
        entry.ended_unix_ms = Some(self.shared.parts.clock.unix_ms());
        entry.outcome = Some(outcome);
        self.shared.journal.change(entry.clone());
        entry
    }
}

impl OpenEntry {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The process that an exec is about.
    pub(crate) fn started(&mut self, number: u64) {
        if let Some(entry) = &mut self.entry
            && let Action::Exec { process, .. } | Action::Terminal { process, .. } = &mut entry.action
        {
            *process = Some(number);
            self.engine.shared.journal.change(entry.clone());
        }
    }

    /// The process has ended; that of a tool is not all there is to it.
    pub(crate) fn exited(&mut self, exit: &Exit) {
        if self
            .entry
            .as_ref()
            .is_some_and(|entry| matches!(entry.action, Action::Exec { .. } | Action::Terminal { .. }))
        {
            self.close(outcome_of(exit));
        }
    }

    /// Sets how much was written in all.
    pub(crate) fn wrote(&mut self, count: u64, total: u64) {
        if let Some(JournalEntry { action: Action::Files { operation, bytes, files, .. }, .. }) =
            &mut self.entry
        {
            *bytes = Some(total);
            *files = Some(count).filter(|count| *count > 1 || *operation == FileDeed::Unpack);
        }
    }

    /// It changes nothing: the state after it is the one before it.
    pub(crate) fn only_looks(&mut self) {
        self.looks = true;
        if let Some(entry) = &mut self.entry {
            entry.after.clone_from(&entry.before);
        }
    }

    pub(crate) fn close(&mut self, outcome: Outcome) {
        match self.entry.take() {
            Some(entry) if self.looks => drop(self.engine.end_entry(entry, outcome)),
            Some(entry) => self.engine.close_entry(&self.door, entry, outcome),
            None => {}
        }
    }

    pub(crate) fn fail(&mut self, error: &EngineError) {
        let known = self.entry.as_ref().and_then(process_of);
        if known.is_none() || matches!(error, EngineError::SandboxEnded { .. }) {
            self.close(Outcome { exit_code: None, detail: Some(cut(&sentence(error))) });
        }
        // Else it runs, and somebody will see its end.
    }
}

impl Drop for OpenEntry {
    fn drop(&mut self) {
        if let Some(process) = self.entry.as_ref().and_then(process_of)
            && let Some(entry) = self.entry.take()
        {
            let unwatched = Unwatched { door: self.door.clone(), entry, process };
            self.engine.shared.journal.later(Job::Watch(Box::new(unwatched)));
        }
        let detail = Some("whoever asked left before anybody saw it begin".to_owned());
        self.close(Outcome { exit_code: None, detail });
    }
}

pub(super) fn process_of(entry: &JournalEntry) -> Option<u64> {
    match &entry.action {
        Action::Exec { process, .. } | Action::Terminal { process, .. } => *process,
        Action::Tool { .. }
        | Action::Files { .. }
        | Action::Turn
        | Action::Rollback { .. }
        | Action::Move { .. }
        | Action::Promote { .. } => None,
    }
}

pub(super) fn outcome_of(exit: &Exit) -> Outcome {
    let detail = match exit.cause {
        ExitCause::Exited => None,
        ExitCause::Signalled { signal } => Some(format!("killed by signal {signal}")),
        ExitCause::TimedOut => Some("killed: it took longer than it was given".to_owned()),
    };
    Outcome { exit_code: Some(exit.code), detail }
}
