use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use futures_util::future::join_all;
use http::StatusCode;
use warren_core::SandboxId;
use warren_engine::{Acquired, EngineError, ForkOrder, Point};
use warren_face::address::Address;
use warren_face::auth::Caller;

use super::answer;
use super::create::{read_timeout, started};
use crate::error::E2bError;
use crate::extract::{Body, Id};
use crate::rest;
use crate::shown::{Shown, find, shown_as};
use crate::state::E2b;

const USUAL_TIMEOUT_S: u64 = 15;
const MOST_FORKS: u64 = 100;

pub(crate) async fn fork(
    State(state): State<E2b>,
    caller: Caller,
    address: Address,
    Id(id): Id,
    Body(body): Body<rest::Fork>,
) -> Result<(StatusCode, Json<Vec<rest::Forked>>), E2bError> {
    let timeout_s = read_timeout(body.timeout, USUAL_TIMEOUT_S, &state)?;
    let count = read_count(&body)?;
    let record = find(&state, &caller, &id).await?;
    if shown_as(&record) != Some(Shown::Running) {
        return Err(E2bError::conflict(format!("{id} is paused: connect to it first")));
    }
    let order = ForkOrder {
        name: None,
        count: 1,
        client: caller.name.clone(),
        lifetime_s: Some(timeout_s),
        on_expiry: None,
        labels: BTreeMap::new(),
        metadata: record.metadata,
    };
    let forks = fork_each(&state, &caller, id, order, count).await?;
    let told = forks.into_iter().map(|fork| match fork {
        Ok(fork) => {
            let sandbox = answer::sandbox(&state, &fork.sandbox, &address);
            rest::Forked { sandbox: Some(sandbox), error: None }
        }
        Err(error) => rest::Forked { sandbox: None, error: Some(error.failure()) },
    });
    Ok((StatusCode::CREATED, Json(told.collect())))
}

fn read_count(body: &rest::Fork) -> Result<u64, E2bError> {
    let count = body.count.unwrap_or(1);
    if (1..=MOST_FORKS).contains(&count) {
        return Ok(count);
    }
    Err(E2bError::bad_request(format!("count: a number from 1 to {MOST_FORKS}, not {count}")))
}

/// All forks are of one state. The first one captures it, and without it there are none; each
/// further one succeeds or fails by itself.
async fn fork_each(
    state: &E2b,
    caller: &Caller,
    id: SandboxId,
    order: ForkOrder,
    count: u64,
) -> Result<Vec<Result<Acquired, E2bError>>, E2bError> {
    let snapshots = state.engine.as_(caller).snapshots();
    let one = |from: Point| {
        let (snapshots, order) = (&snapshots, order.clone());
        async move {
            let made = snapshots.fork(&from, order).await?.pop();
            let made = made.ok_or_else(|| E2bError::from(EngineError::ShuttingDown))?;
            started(state, caller, &made.sandbox).await?;
            Ok(made)
        }
    };
    let first = one(Point::Sandbox(id.clone())).await?;
    let from = first.sandbox.history.head.clone().map_or(Point::Sandbox(id), Point::Snapshot);
    let others = join_all((1..count).map(|_| one(from.clone()))).await;
    let forks: Vec<_> = std::iter::once(Ok(first)).chain(others).collect();
    state.counters.forked(forks.iter().filter(|fork| fork.is_ok()).count());
    Ok(forks)
}
