use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use http::{HeaderMap, HeaderName, HeaderValue};
use warren_core::catalog::SandboxFilter;
use warren_core::{Owner, PageRequest, SandboxRecord};
use warren_face::auth::Caller;
use warren_face::extract::Params;

use super::answer;
use crate::error::E2bError;
use crate::page::{Order, Token};
use crate::rest;
use crate::shown::{Shown, shown_as};
use crate::state::BY;
use crate::state::E2b;

pub(super) const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-next-token");
const TOTAL_RUNNING: HeaderName = HeaderName::from_static("x-total-running");
pub(super) const MOST: u64 = 100;

type Listed = Vec<rest::ListedSandbox>;

/// The list of early clients: what runs, all of it.
pub(crate) async fn running(
    State(state): State<E2b>,
    caller: Caller,
    params: Params,
) -> Result<Json<Listed>, E2bError> {
    let known = known(&state, &caller.owner, metadata(&params)?).await?;
    let running = known.iter().filter(|(_, shown)| *shown == Shown::Running);
    Ok(Json(running.map(|(record, shown)| answer::listed(record, *shown)).collect()))
}

pub(crate) async fn list(
    State(state): State<E2b>,
    caller: Caller,
    params: Params,
) -> Result<(HeaderMap, Json<Listed>), E2bError> {
    let wanted = Wanted::read(&params)?;
    let order = Order::read(&params)?;
    let token = params.text("nextToken").map(|text| Token::read(text, order)).transpose()?;
    let limit = params.number("limit", 1, MOST)?.unwrap_or(MOST);
    let mut known = known(&state, &caller.owner, metadata(&params)?).await?;
    known.retain(|(record, shown)| wanted.has(record, *shown));
    let mut headers = HeaderMap::new();
    if wanted.states.contains(&rest::State::Running) {
        let running = known.iter().filter(|(_, shown)| *shown == Shown::Running).count();
        headers.insert(TOTAL_RUNNING, HeaderValue::from(running));
    }
    order.sort(&mut known, |(record, _)| Token::of(record));
    let mut page: Vec<_> =
        known.iter().filter(|(record, _)| order.follows(&Token::of(record), token.as_ref())).collect();
    let more = page.len() as u64 > limit;
    page.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    if let (true, Some((last, _))) = (more, page.last()) {
        headers.insert(NEXT_TOKEN, Token::of(last).written(order)?);
    }
    Ok((headers, Json(page.into_iter().map(|(record, shown)| answer::listed(record, *shown)).collect())))
}

/// The filters beside the metadata.
struct Wanted {
    states: Vec<rest::State>,
    started_after_unix_ms: Option<u64>,
    template: Option<String>,
}

impl Wanted {
    fn read(params: &Params) -> Result<Self, E2bError> {
        let template = params.text("template").map(str::to_owned);
        if template.as_ref().is_some_and(|template| template.contains(':')) {
            return Err(E2bError::bad_request("template: name it without a tag"));
        }
        let started_after_unix_ms = params.text("startedAfter").map(crate::page::unix_ms).transpose()?;
        Ok(Self { states: states(params)?, started_after_unix_ms, template })
    }

    fn has(&self, record: &SandboxRecord, shown: Shown) -> bool {
        let late = self.started_after_unix_ms.is_none_or(|after| record.created_unix_ms >= after);
        let made_of = self.template.as_ref().is_none_or(|template| answer::is_made_of(record, template));
        self.states.contains(&shown.state()) && late && made_of
    }
}

/// Nothing said is everything, and so is an empty list.
fn states(params: &Params) -> Result<Vec<rest::State>, E2bError> {
    let words = params.all("state").flat_map(|text| text.split(',')).filter(|word| !word.is_empty());
    let states: Result<Vec<_>, _> = words
        .map(|word| match word {
            "running" => Ok(rest::State::Running),
            "paused" => Ok(rest::State::Paused),
            _ => Err(E2bError::bad_request("state: name `running`, `paused`, or both with a comma")),
        })
        .collect();
    let states = states?;
    Ok(if states.is_empty() { vec![rest::State::Running, rest::State::Paused] } else { states })
}

fn metadata(params: &Params) -> Result<BTreeMap<String, String>, E2bError> {
    let Some(text) = params.text("metadata") else { return Ok(BTreeMap::new()) };
    rest::metadata_filter(text).map_err(|error| E2bError::bad_request(format!("metadata: {error}")))
}

/// All sandboxes of the owner that clients may know of, with what they are told of their state.
async fn known(
    state: &E2b,
    owner: &Owner,
    metadata: BTreeMap<String, String>,
) -> Result<Vec<(SandboxRecord, Shown)>, E2bError> {
    let filter = SandboxFilter { metadata, ..SandboxFilter::default() };
    let mut request = PageRequest { limit: PageRequest::MOST, after: None };
    let mut known = Vec::new();
    loop {
        let page = state.engine_as(BY, owner).sandboxes().list(&filter, &request).await?;
        known.extend(
            page.items.into_iter().filter_map(|record| shown_as(&record).map(|shown| (record, shown))),
        );
        match page.next {
            Some(next) => request.after = Some(next),
            None => return Ok(known),
        }
    }
}
