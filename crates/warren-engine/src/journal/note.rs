//! What is done at once, as far as the journal goes.

use warren_core::{Action, Outcome, Owner, SandboxId, SandboxRecord, SessionId, SnapshotId, SnapshotRecord};

use crate::Engine;
use crate::snapshots::RolledBack;

impl Engine {
    /// A turn is complete, and this is the state it left.
    pub(crate) async fn note_turn(
        &self,
        owner: &Owner,
        id: &SandboxId,
        session: Option<SessionId>,
        snapshot: &SnapshotRecord,
    ) {
        if let Ok(record) = self.sandbox(owner, id).await {
            let states = (snapshot.parent.clone(), Some(snapshot.id.clone()));
            self.note(&record, session, Action::Turn, snapshot.turn, states).await;
        }
    }

    pub(crate) async fn note_rollback(&self, rolled: &RolledBack) {
        let to = rolled.to.id.clone();
        let states = (Some(rolled.safety.id.clone()), Some(to.clone()));
        self.note(&rolled.sandbox, None, Action::Rollback { to }, None, states).await;
    }

    /// What a fork changed is now in this sandbox, too.
    pub(crate) async fn note_promote(&self, rolled: &RolledBack, fork: &SandboxId) {
        let states = (Some(rolled.safety.id.clone()), Some(rolled.to.id.clone()));
        self.note(&rolled.sandbox, None, Action::Promote { from: fork.clone() }, None, states).await;
    }

    async fn note(
        &self,
        record: &SandboxRecord,
        session: Option<SessionId>,
        action: Action,
        turn: Option<u32>,
        (before, after): (Option<SnapshotId>, Option<SnapshotId>),
    ) {
        let mut entry = self.new_entry(record, action, session);
        entry.turn = turn.unwrap_or(entry.turn);
        entry.ended_unix_ms = Some(entry.began_unix_ms);
        (entry.before, entry.after) = (before, after);
        entry.outcome = Some(Outcome { exit_code: None, detail: None });
        self.append(entry).await;
    }
}
