//! Parts that the commands about a sandbox's history share.

pub(crate) mod path;
pub(crate) mod point;
pub(crate) mod present;
pub(crate) mod search;
pub(crate) mod throwaway;
pub(crate) mod tree;

#[cfg(test)]
mod tests {
    use warren_wire::api::{JournalAction, JournalEntry, Snapshot, SnapshotMethod, SnapshotReason};

    pub(super) fn snapshot(id: &str, parent: Option<&str>) -> Snapshot {
        Snapshot {
            snapshot_id: id.to_owned(),
            sandbox_id: "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned(),
            session_id: None,
            parent_id: parent.map(str::to_owned),
            name: None,
            reason: SnapshotReason::Command,
            turn: None,
            created_at: "2026-01-01T00:00:00.000Z".to_owned(),
            method: SnapshotMethod::Sealed,
            durable: true,
            damaged: false,
            depth: 1,
            memory: false,
            bytes: None,
            inodes: None,
            template: "host".to_owned(),
            image: None,
            frozen_ms: None,
            took_ms: None,
        }
    }

    pub(super) fn entry(number: u64, after: Option<&str>) -> JournalEntry {
        JournalEntry {
            number,
            turn: 1,
            action: JournalAction::Exec,
            command: Some("make".to_owned()),
            process_id: None,
            tool: None,
            call_id: None,
            params: None,
            operation: None,
            path: None,
            from: None,
            to: None,
            bytes: None,
            files: None,
            snapshot_id: None,
            from_id: None,
            session_id: None,
            by: "local".to_owned(),
            began_at: "2026-01-01T00:00:00.000Z".to_owned(),
            ended_at: None,
            exit_code: None,
            detail: None,
            before_id: None,
            after_id: after.map(str::to_owned),
            not_kept: None,
            changed: None,
        }
    }
}
