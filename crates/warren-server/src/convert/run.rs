use warren_core::{NewRun, RunLimits, RunRecord, RunTotals};
use warren_engine::Allowance;
use warren_face::error::ApiError;
use warren_wire::api;

use super::rfc3339;
use super::words::{run_denied, run_status};

/// Numbers above this one lose their last digits in some readers of JSON.
const MOST_NUMBER: u64 = 9_007_199_254_740_991;

pub(crate) fn run(record: &RunRecord) -> api::Run {
    api::Run {
        run_id: record.id.to_string(),
        session_id: record.session.to_string(),
        number: record.number,
        status: run_status(record.status),
        at: rfc3339(record.at_unix_ms),
        task: record.run.task.clone(),
        result: record.run.result.clone(),
        duration_ms: record.run.duration_ms,
        tokens: record.run.tokens,
        screenshots: record.run.screenshots.clone(),
        provider: record.run.provider.clone(),
    }
}

pub(crate) fn new_run(body: api::NewRun) -> Result<NewRun, ApiError> {
    for (field, number) in [("duration_ms", body.duration_ms), ("tokens", body.tokens)] {
        if number > MOST_NUMBER {
            return Err(ApiError::invalid(field, format!("{field} must be at most {MOST_NUMBER}")));
        }
    }
    Ok(NewRun {
        task: body.task,
        result: body.result,
        duration_ms: body.duration_ms,
        tokens: body.tokens,
        screenshots: body.screenshots,
        provider: body.provider,
    })
}

pub(crate) fn can_run(allowance: &Allowance) -> api::CanRun {
    api::CanRun {
        allowed: allowance.denied.is_none(),
        reason: allowance.denied.map(run_denied),
        runs_left: allowance.runs_left,
        tokens_left: allowance.tokens_left,
        seconds_left: allowance.seconds_left,
    }
}

pub(super) fn run_limits(limits: RunLimits) -> api::RunLimits {
    let RunLimits { runs, run_s, tokens, duration_s } = limits;
    api::RunLimits { runs, run_s, tokens, duration_s }
}

pub(super) fn totals(totals: RunTotals) -> api::RunTotals {
    let RunTotals { runs, tokens, duration_ms } = totals;
    api::RunTotals { runs, tokens, duration_ms }
}
