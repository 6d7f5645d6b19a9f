//! Events: ingest and read.

use super::endpoint::ok;
use super::parameters::{LogPage, OFFSET, check_offset};
use super::{Call, Endpoint, json};
use crate::metrics::{self, Metric};
use app::events::ingest::Outcome;
use app::events::trajectory::Direction;
use app::{Error, events};
use bytes::Bytes;
use contract::ProblemCode::{BatchChanged, BatchExpired, BatchGap, EpochTooHigh, StaleEpoch};
use contract::events::{EventPage, Trajectory};
use contract::ingest::{BatchReceived, EventReceived, decode};
use contract::limits::{MAX_IDEMPOTENCY_KEY_CHARS, MAX_TRAJECTORY_PAGE};
use contract::query::Parameter;
use contract::requests::SendEvents;
use domain::access::claimable_sources;
use domain::{Invalid, JsonObject, Source};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

/// `POST …/events`.
pub const INGEST: Endpoint =
    Endpoint::new(|call| Box::pin(ingest(call)), &[ok::<BatchReceived>(), ok::<EventReceived>()])
        .headers(&[IDEMPOTENCY_KEY])
        .body::<SendEvents>()
        .problems(&[StaleEpoch, EpochTooHigh, BatchGap, BatchChanged, BatchExpired])
        .counts_its_writes();
/// `GET …/events`.
pub const LIST: Endpoint = Endpoint::new(|call| Box::pin(list(call)), &[ok::<EventPage>()]).query(&[
    LogPage::AFTER_SEQ,
    LogPage::BEFORE_SEQ,
    LogPage::ORDER,
    LogPage::LIMIT,
    EVENT_TYPES,
    SOURCE,
    OFFSET,
]);
/// `GET …/events/{seq}/body`.
pub const BODY: Endpoint = Endpoint::new(|call| Box::pin(body(call)), &[ok::<JsonObject>()]);
/// `GET …/trajectory`.
pub const TRAJECTORY: Endpoint = Endpoint::new(|call| Box::pin(trajectory(call)), &[ok::<Trajectory>()])
    .query(&[TRAJECTORY_CURSOR, DIRECTION, TRAJECTORY_LIMIT]);

const IDEMPOTENCY_KEY: Parameter =
    Parameter::text("Idempotency-Key", "Only with a single event: a retry with the same key stores it once.")
        .up_to_chars(MAX_IDEMPOTENCY_KEY_CHARS);
pub(crate) const EVENT_TYPES: Parameter =
    Parameter::list("event_types", "Event types in any spelling, comma-separated or repeated. Default: all.")
        .also(&["event_type"]);
const SOURCE: Parameter =
    Parameter::one_of("source", || Source::ALL.map(Source::as_str).to_vec(), "Only events of this source.");
const TRAJECTORY_CURSOR: Parameter =
    Parameter::integer("cursor", 0, u64::MAX, "`next_cursor` or `prev_cursor` of an earlier page.");
const DIRECTION: Parameter = Parameter::one_of(
    "direction",
    || vec!["older", "newer"],
    "Where to go from the cursor. Default: `older`.",
);
const TRAJECTORY_LIMIT: Parameter =
    Parameter::integer("limit", 1, MAX_TRAJECTORY_PAGE as u64, "Maximum number of events on the page.")
        .or(100);

async fn ingest(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let ingest = decode(&call.body, claimable_sources(&call.principal), || call.plane.ids.event())?;
    let idempotency_key = idempotency_key(&call)?;
    let plane = &call.plane;
    let deps = events::ingest::Deps {
        store: &plane.store,
        locks: &plane.locks,
        clock: plane.clock.as_ref(),
        ids: plane.ids.as_ref(),
        quotas: plane.quota_deps(),
        adopting_org: plane.settings.adopt_unknown_sandboxes.then_some(&plane.settings.default_org),
        orchestration_jobs: plane.orchestration_jobs()?,
    };
    let (principal, body_bytes) = (call.principal, call.body.len() as u64);
    let command = events::ingest::Command { principal, sandbox, ingest, body_bytes, idempotency_key };
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
    check_offset(query, "before_seq or after_seq")?;
    let LogPage { after_seq, before_seq, order, limit } = LogPage::decode(query)?;
    let command = events::read::Command {
        sandbox,
        after_seq,
        before_seq,
        order,
        limit,
        event_types: query.list(&EVENT_TYPES)?,
        source: query.one_of(&SOURCE)?.map(Source::parse).transpose()?,
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
        cursor: call.query.number(&TRAJECTORY_CURSOR)?,
        direction: match call.query.one_of(&DIRECTION)? {
            Some("newer") => Direction::Newer,
            _ => Direction::Older,
        },
        limit: call.query.size(&TRAJECTORY_LIMIT)?,
        principal: call.principal,
    };
    let deps = events::trajectory::Deps { store: &call.plane.store };
    Ok(json(StatusCode::OK, &events::trajectory::run(deps, command).await?))
}
