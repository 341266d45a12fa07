//! Journal entries that are complete when they are written: turns, rollbacks and merges.

use std::path::Path;

use warren_core::catalog::CatalogError;
use warren_core::{Action, Caller, Outcome, SandboxId, SandboxRecord, SessionId, SnapshotId, SnapshotRecord};

use crate::Engine;
use crate::cell::{Moved, RolledBack, head_or_start};
use crate::error::sentence;
use crate::shown::{cut, in_a_line};

/// Entries that are looked at for what was done in a fork.
const LOOKED_AT: u32 = 500;

/// Bytes after which no older command of a fork is told.
const SHOWN_OF_FORK: usize = 400;

impl Engine {
    /// A turn is complete, and this is the state it left.
    pub(crate) async fn note_turn(
        &self,
        by: &Caller,
        id: &SandboxId,
        session: Option<SessionId>,
        snapshot: &SnapshotRecord,
    ) {
        if let Ok(record) = self.record_of(&by.owner, id).await {
            let states = (snapshot.parent.clone(), Some(snapshot.id.clone()));
            self.note(by, &record, session, Action::Turn, snapshot.turn, states).await;
        }
    }

    /// The number of the entry that says so, if it could be written.
    pub(crate) async fn note_rollback(&self, by: &Caller, rolled: &RolledBack) -> Option<u64> {
        let to = rolled.to.id.clone();
        self.note(by, &rolled.sandbox, None, Action::Rollback { to }, None, states_around(rolled)).await
    }

    /// Notes that it is behind another wall, in the state that it was in.
    pub(crate) async fn note_move(&self, by: &Caller, moved: &Moved) {
        let action = Action::Move { from: moved.from.clone(), to: moved.to.clone() };
        let state = Some(head_or_start(&moved.sandbox));
        self.note(by, &moved.sandbox, None, action, None, (state.clone(), state)).await;
    }

    /// Notes that a fork's changes at or below a path are now in this sandbox, too. The number of
    /// the entry, if it could be written.
    pub(crate) async fn note_promote(
        &self,
        by: &Caller,
        rolled: &RolledBack,
        fork: &SandboxId,
        below: &Path,
    ) -> Option<u64> {
        let command = self.done_in(&rolled.sandbox, fork, below).await;
        let path = Some(below).filter(|below| *below != Path::new("/"));
        let path = path.map(|path| path.to_string_lossy().into_owned());
        let action = Action::Promote { from: fork.clone(), path, command };
        self.note(by, &rolled.sandbox, None, action, None, states_around(rolled)).await
    }

    /// The commands of a fork since its changes below a path last came to a sandbox, in a line.
    /// Only the newest if there are many.
    async fn done_in(&self, into: &SandboxRecord, fork: &SandboxId, below: &Path) -> Option<String> {
        let (into, fork, below) = (into.clone(), fork.clone(), below.to_owned());
        let found = self.catalog(move |catalog| {
            let earlier = catalog.entries(&into.owner, &into.id, None, LOOKED_AT)?.into_iter();
            let came = |action: &Action| brought(action, &fork, &below);
            let since = earlier.filter(|entry| came(&entry.action)).map(|entry| entry.began_unix_ms).max();
            let mut done = Vec::new();
            let mut length = 0;
            for entry in catalog.entries(&into.owner, &fork, None, LOOKED_AT)? {
                let is_old = since.is_some_and(|since| entry.began_unix_ms < since);
                if is_old || length > SHOWN_OF_FORK {
                    break;
                }
                done.extend(in_a_line(&entry.action).inspect(|line| length += line.len()));
            }
            done.reverse();
            Ok::<_, CatalogError>(done.join("; "))
        });
        match found.await {
            Ok(line) => Some(cut(&line)).filter(|line| !line.is_empty()),
            Err(error) => {
                self.fault();
                tracing::error!(error = sentence(&error), "cannot read what was done in a fork");
                None
            }
        }
    }

    async fn note(
        &self,
        by: &Caller,
        record: &SandboxRecord,
        session: Option<SessionId>,
        action: Action,
        turn: Option<u32>,
        (before, after): (Option<SnapshotId>, Option<SnapshotId>),
    ) -> Option<u64> {
        let mut entry = self.new_entry(by, record, action, session);
        entry.turn = turn.unwrap_or(entry.turn);
        entry.ended_unix_ms = Some(entry.began_unix_ms);
        (entry.before, entry.after) = (before, after);
        entry.outcome = Some(Outcome { exit_code: None, detail: None });
        Some(self.append(entry).await?.number)
    }
}

/// The state that was replaced, and the one that the sandbox has now.
fn states_around(rolled: &RolledBack) -> (Option<SnapshotId>, Option<SnapshotId>) {
    (Some(rolled.safety.id.clone()), rolled.sandbox.history.head.clone())
}

/// True for a promotion that brought all that a fork had changed below a path.
fn brought(action: &Action, fork: &SandboxId, below: &Path) -> bool {
    match action {
        Action::Promote { from, path, .. } if from == fork => {
            path.as_ref().is_none_or(|path| below.starts_with(path))
        }
        _ => false,
    }
}
