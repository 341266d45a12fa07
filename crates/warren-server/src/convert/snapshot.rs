use std::time::Duration;

use warren_core::catalog::SnapshotFilter;
use warren_core::{LeaveOut, SandboxId, SnapshotReason, SnapshotRecord};
use warren_engine::{
    EndedProcess, EndedSession, EngineError, ForkOrder, PromoteOrder, Promoted, RolledBack, TakeSnapshot,
    Taken, TurnDone, WayBack,
};
use warren_face::error::{ApiError, conflict, parsed};
use warren_face::extract::Params;
use warren_wire::api;

use super::diff::{change, inside};
use super::rfc3339;
use super::sandbox::sandbox;
use super::session::session;
use super::words::{on_expiry, snapshot_method};

const LONGEST_NAME: usize = 128;
const MOST_FORKS: u32 = 100;
const MOST_STEPS: u32 = 10_000;

/// Changes and conflicts of a merge that are told in one answer.
const MOST_TOLD: usize = 10_000;

pub(crate) fn snapshot(record: &SnapshotRecord) -> api::Snapshot {
    api::Snapshot {
        snapshot_id: record.id.to_string(),
        sandbox_id: record.sandbox.to_string(),
        session_id: record.session.as_ref().map(ToString::to_string),
        parent_id: record.parent.as_ref().map(ToString::to_string),
        name: record.name.clone(),
        reason: reason(record.reason),
        turn: record.turn,
        created_at: rfc3339(record.created_unix_ms),
        method: snapshot_method(record.method),
        durable: record.durable,
        damaged: record.damaged,
        memory: record.memory.is_some(),
        depth: u32::try_from(record.stack.depth()).unwrap_or(u32::MAX),
        bytes: record.space.map(|space| space.bytes),
        inodes: record.space.map(|space| space.inodes),
        template: record.spec.template.to_string(),
        image: record.spec.image.as_ref().map(ToString::to_string),
        frozen_ms: None,
        took_ms: None,
    }
}

/// The answer to the request that took it, which also tells how long that was.
pub(crate) fn taken(taken: &Taken) -> api::Snapshot {
    api::Snapshot {
        frozen_ms: Some(milliseconds(taken.frozen)),
        took_ms: Some(milliseconds(taken.took)),
        ..snapshot(&taken.snapshot)
    }
}

pub(crate) fn turn(done: &TurnDone) -> api::Turn {
    api::Turn {
        turn: done.turn,
        snapshot: taken(&done.taken),
        space_used_bytes: done.space_used.map(|space| space.bytes),
        space_used_inodes: done.space_used.map(|space| space.inodes),
    }
}

pub(crate) fn ended_session(ended: &EndedSession) -> api::EndedSession {
    api::EndedSession { session: session(&ended.session), snapshot: taken(&ended.taken) }
}

pub(crate) fn rolled_back(done: &RolledBack) -> api::RolledBack {
    api::RolledBack {
        sandbox: sandbox(&done.sandbox),
        to: snapshot(&done.to),
        safety: snapshot(&done.safety),
        ended: done.ended.iter().map(ended_process).collect(),
        memory: done.to.memory.is_some().then_some(done.memory),
        back: done.back.map(way_back),
        took_ms: milliseconds(done.took),
    }
}

pub(super) fn ended_process(process: &EndedProcess) -> api::EndedProcess {
    api::EndedProcess { process_id: process.id, command: process.command.clone() }
}

fn way_back(back: WayBack) -> api::WayBack {
    match back {
        WayBack::Undo(steps) => api::WayBack { by: api::WayBackBy::Undo, steps },
        WayBack::Redo(steps) => api::WayBack { by: api::WayBackBy::Redo, steps },
    }
}

/// The result of a merge. One that was to be applied and was not is a refusal.
pub(crate) fn promoted(done: &Promoted, apply: bool) -> Result<api::Promoted, ApiError> {
    let merge = &done.merge;
    if apply && done.applied.is_none() && !merge.conflicts.is_empty() {
        let (into, conflicts) = (done.into.clone(), merge.conflicts.clone());
        return Err(EngineError::MergeConflict { into, conflicts }.into());
    }
    Ok(api::Promoted {
        into: done.into.to_string(),
        changes: merge.changes.iter().take(MOST_TOLD).map(change).collect(),
        conflicts: merge.conflicts.iter().take(MOST_TOLD).map(conflict).collect(),
        truncated: merge.changes.len().max(merge.conflicts.len()) > MOST_TOLD,
        applied: done.applied.as_ref().map(rolled_back),
    })
}

pub(crate) fn take_snapshot(body: api::TakeSnapshot) -> Result<TakeSnapshot, ApiError> {
    let name = body.name.clone().map(|name| snapshot_name("name", name)).transpose()?;
    let api::TakeSnapshot { durable, memory, force, .. } = body;
    if force && !memory {
        return Err(ApiError::invalid("force", "it is for snapshots with `memory`: others wait for nobody"));
    }
    Ok(TakeSnapshot { name, durable, session: None, memory, force })
}

/// `name` is where the name stands in the request.
pub(crate) fn snapshot_name(field: &str, name: String) -> Result<String, ApiError> {
    let fits = (1..=LONGEST_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    let wrong = || {
        ApiError::invalid(
            field,
            format!("a name has 1 to {LONGEST_NAME} characters, and no control characters"),
        )
    };
    fits.then_some(name).ok_or_else(wrong)
}

pub(crate) fn snapshot_filter(
    params: &Params,
    sandbox: Option<SandboxId>,
) -> Result<SnapshotFilter, ApiError> {
    Ok(SnapshotFilter {
        sandbox,
        session: params.parsed_as("session_id", "session")?,
        name: params.text("name").map(ToOwned::to_owned),
        named: params.flag("named")?,
    })
}

pub(crate) fn steps(body: &api::Steps) -> Result<u32, ApiError> {
    let wrong = || ApiError::invalid("steps", format!("`steps` must be from 1 to {MOST_STEPS}"));
    (1..=MOST_STEPS).contains(&body.steps).then_some(body.steps).ok_or_else(wrong)
}

pub(crate) fn fork_order(body: api::Fork, caller: String) -> Result<ForkOrder, ApiError> {
    if !(1..=MOST_FORKS).contains(&body.count) {
        return Err(ApiError::invalid("count", format!("`count` must be from 1 to {MOST_FORKS}")));
    }
    let words = [("labels", &body.labels), ("metadata", &body.metadata)];
    for (field, words) in words {
        warren_core::check_labels(words).map_err(|reason| ApiError::invalid(field, reason))?;
    }
    Ok(ForkOrder {
        count: body.count,
        name: body.name.map(|name| parsed("name", &name)).transpose()?,
        client: body.client.unwrap_or(caller),
        lifetime_s: body.ttl_s,
        on_expiry: body.on_expiry.map(on_expiry),
        labels: body.labels,
        metadata: body.metadata,
    })
}

pub(crate) fn promote_order(body: &api::Promote, into: Option<SandboxId>) -> Result<PromoteOrder, ApiError> {
    Ok(PromoteOrder {
        into,
        apply: body.apply,
        conflicts: match body.conflicts {
            api::ConflictRule::Refuse => warren_core::Conflicts::Refuse,
            api::ConflictRule::Ours => warren_core::Conflicts::Ours,
            api::ConflictRule::Theirs => warren_core::Conflicts::Theirs,
        },
        below: body.path.as_deref().map_or_else(|| Ok("/".into()), |path| inside("path", path))?,
        force: body.force,
        leave_out: leave_out(body.leave_ignored, body.exclude.clone())?,
    })
}

/// Patterns of paths that are passed over.
const MOST_PATTERNS: usize = 256;

/// Paths that are passed over.
pub(crate) fn leave_out(ignored: bool, patterns: Vec<String>) -> Result<LeaveOut, ApiError> {
    let usable = |pattern: &String| (1..=4095).contains(&pattern.len());
    if patterns.len() > MOST_PATTERNS || !patterns.iter().all(usable) {
        let text = format!("`exclude` has up to {MOST_PATTERNS} patterns of 1 to 4095 bytes");
        return Err(ApiError::invalid("exclude", text));
    }
    Ok(LeaveOut { ignored, patterns })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn reason(reason: SnapshotReason) -> api::SnapshotReason {
    match reason {
        SnapshotReason::Start => api::SnapshotReason::Start,
        // Who keeps it as an image asked for it.
        SnapshotReason::Request | SnapshotReason::Image => api::SnapshotReason::Request,
        SnapshotReason::Turn => api::SnapshotReason::Turn,
        SnapshotReason::Tool => api::SnapshotReason::Tool,
        SnapshotReason::Command => api::SnapshotReason::Command,
        SnapshotReason::Safety => api::SnapshotReason::Safety,
        SnapshotReason::Rollback => api::SnapshotReason::Rollback,
        SnapshotReason::Fork => api::SnapshotReason::Fork,
        SnapshotReason::End => api::SnapshotReason::End,
        SnapshotReason::Promote => api::SnapshotReason::Promote,
        SnapshotReason::Import => api::SnapshotReason::Import,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_printable() {
        assert_eq!(snapshot_name("name", "before the upgrade ✓".into()).unwrap(), "before the upgrade ✓");
        for name in [String::new(), "x".repeat(129), "a\nb".into(), "a\0".into(), "\u{85}".into()] {
            let problem = snapshot_name("name", name).unwrap_err().problem();
            assert_eq!((problem.status, problem.field.as_deref()), (422, Some("name")));
        }
    }

    #[test]
    fn forks_and_steps_are_counted_from_one() {
        for count in [0, 101, u32::MAX] {
            let body = api::Fork { count, ..api::Fork::default() };
            assert_eq!(fork_order(body, "me".into()).unwrap_err().problem().field.as_deref(), Some("count"));
        }
        for steps in [0, 10_001] {
            assert!(super::steps(&api::Steps { steps, force: false }).is_err());
        }
        assert_eq!(fork_order(api::Fork::default(), "me".into()).unwrap().client, "me");
    }
}
