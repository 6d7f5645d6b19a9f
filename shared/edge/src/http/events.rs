//! Events: ingest and read.

use super::{Call, Handler, json};
use crate::metrics::{self, Metric};
use app::events::ingest::Outcome;
use app::events::read::Order;
use app::events::trajectory::Direction;
use app::{Error, events};
use bytes::Bytes;
use contract::ingest::decode;
use contract::limits::{MAX_IDEMPOTENCY_KEY_CHARS, MAX_PAGE, MAX_TRAJECTORY_PAGE};
use domain::{Invalid, Source};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

/// `POST …/events`.
pub const INGEST: Handler = |call| Box::pin(ingest(call));
/// `GET …/events`.
pub const LIST: Handler = |call| Box::pin(list(call));
/// `GET …/events/{seq}/body`.
pub const BODY: Handler = |call| Box::pin(body(call));
/// `GET …/trajectory`.
pub const TRAJECTORY: Handler = |call| Box::pin(trajectory(call));

async fn ingest(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let ingest = decode(&call.body, || call.plane.ids.event())?;
    let idempotency_key = idempotency_key(&call)?;
    let plane = &call.plane;
    let deps = events::ingest::Deps {
        store: &plane.store,
        locks: &plane.locks,
        clock: plane.clock.as_ref(),
        ids: plane.ids.as_ref(),
        events_per_minute: plane.settings.events_per_minute,
        adopting_org: plane.settings.adopt_unknown_sandboxes.then_some(&plane.settings.default_org),
        orchestration_jobs: plane.orchestration_jobs()?,
    };
    let principal = call.principal;
    let command = events::ingest::Command { principal, sandbox, ingest, idempotency_key };
    let (stored, response) = match events::ingest::run(deps, command).await? {
        Outcome::Event(event) if event.event_type.is_partial() => (0, json(StatusCode::OK, &event)),
        Outcome::Event(event) => (1, json(StatusCode::OK, &event)),
        Outcome::Batch(batch) if batch.repeated => (0, json(StatusCode::OK, &batch)),
        Outcome::Batch(batch) => {
            let stored = batch.events + batch.heartbeats;
            (usize::try_from(stored).unwrap_or(usize::MAX), json(StatusCode::OK, &batch))
        }
    };
    metrics::emit("events-ingest", plane.clock.now(), &[Metric::count("EventsStored", stored)]);
    Ok(response)
}

fn idempotency_key(call: &Call) -> Result<Option<String>, Error> {
    let Some(header) = call.headers.get("idempotency-key") else { return Ok(None) };
    match header.to_str() {
        Ok(key) if (1..=MAX_IDEMPOTENCY_KEY_CHARS).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => {
            let reason = format!("must be 1 to {MAX_IDEMPOTENCY_KEY_CHARS} visible ASCII characters");
            Err(Invalid::new("Idempotency-Key", reason).into())
        }
    }
}

async fn list(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let query = &call.query;
    if query.number("offset", 0..=u64::MAX)?.is_some_and(|offset| offset > 0) {
        // OmoiOS used offsets, which shift while events arrive.
        return Err(Invalid::new("offset", "is not supported; page with before_seq or after_seq").into());
    }
    let after_seq = query.number("after_seq", 0..=u64::MAX)?;
    let before_seq = query.number("before_seq", 1..=u64::MAX)?;
    let order = match query.one_of("order", &["newest", "oldest"])? {
        Some("oldest") => Order::Oldest,
        Some(_) => Order::Newest,
        // A request with only `after_seq` continues forward from there.
        None if after_seq.is_some() && before_seq.is_none() => Order::Oldest,
        None => Order::Newest,
    };
    let command = events::read::Command {
        sandbox,
        after_seq: after_seq.unwrap_or(0),
        before_seq,
        order,
        limit: limit(&call, MAX_PAGE)?,
        event_types: query.list("event_type"),
        source: query.get("source").map(Source::parse).transpose()?,
        principal: call.principal,
    };
    let deps = events::read::Deps { store: &call.plane.store };
    Ok(json(StatusCode::OK, &events::read::run(deps, command).await?))
}

async fn body(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let seq = call.parameters.get(1).and_then(|seq| seq.parse().ok());
    let seq = seq.ok_or_else(|| Invalid::new("seq", "must be a whole number"))?;
    let deps = events::body::Deps { store: &call.plane.store };
    let data =
        events::body::run(deps, events::body::Command { principal: call.principal, sandbox, seq }).await?;
    // Unchanged, byte for byte.
    let mut response = Response::new(Bytes::from(data.text().to_owned()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

async fn trajectory(call: Call) -> Result<Response<Bytes>, Error> {
    let command = events::trajectory::Command {
        sandbox: call.sandbox()?,
        cursor: call.query.number("cursor", 0..=u64::MAX)?,
        direction: match call.query.one_of("direction", &["older", "newer"])? {
            Some("newer") => Direction::Newer,
            _ => Direction::Older,
        },
        limit: limit(&call, MAX_TRAJECTORY_PAGE)?,
        principal: call.principal,
    };
    let deps = events::trajectory::Deps { store: &call.plane.store };
    Ok(json(StatusCode::OK, &events::trajectory::run(deps, command).await?))
}

fn limit(call: &Call, max: usize) -> Result<usize, Error> {
    let limit = call.query.number("limit", 1..=max as u64)?.unwrap_or(100);
    Ok(usize::try_from(limit).unwrap_or(max))
}
