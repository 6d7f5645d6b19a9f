//! Session transcripts of agents.

use super::endpoint::ok;
use super::{Call, Endpoint, json};
use app::{Error, sessions};
use bytes::Bytes;
use contract::ProblemCode::{EntriesChanged, EntriesGap, SessionSuperseded};
use contract::limits::MAX_PAGE;
use contract::query::Parameter;
use contract::requests::AppendEntries;
use contract::sessions::{Entries, EntriesStored, EntryPage};
use domain::SessionId;
use http::{Response, StatusCode};

/// `POST …/sessions/{session_id}/entries`.
pub const APPEND: Endpoint = Endpoint::new(|call| Box::pin(append(call)), &[ok::<EntriesStored>()])
    .body::<AppendEntries>()
    .problems(&[EntriesGap, EntriesChanged, SessionSuperseded])
    .counts_its_writes();
/// `GET …/sessions/{session_id}/entries`.
pub const READ: Endpoint =
    Endpoint::new(|call| Box::pin(read(call)), &[ok::<EntryPage>()]).query(&[AFTER, LIMIT]);

const AFTER: Parameter =
    Parameter::integer("after", 0, u64::MAX, "`next_after` of the previous page, for the next one.").or(0);
const LIMIT: Parameter =
    Parameter::integer("limit", 1, MAX_PAGE as u64, "Maximum number of entries on the page.")
        .or(MAX_PAGE as u64);

async fn append(call: Call) -> Result<Response<Bytes>, Error> {
    let (sandbox, session) = (call.sandbox()?, session(&call)?);
    let entries = Entries::decode(&call.body)?;
    let plane = &call.plane;
    let (store, clock, quotas) = (&plane.store, plane.clock.as_ref(), plane.quota_deps());
    let deps = sessions::append::Deps { store, clock, quotas };
    let (principal, body_bytes) = (call.principal, call.body.len() as u64);
    let command = sessions::append::Command { principal, sandbox, session, entries, body_bytes };
    Ok(json(StatusCode::OK, &sessions::append::run(deps, command).await?))
}

async fn read(call: Call) -> Result<Response<Bytes>, Error> {
    let command = sessions::read::Command {
        sandbox: call.sandbox()?,
        session: session(&call)?,
        after: call.query.number(&AFTER)?.unwrap_or(0),
        limit: call.query.size(&LIMIT)?,
        principal: call.principal,
    };
    let deps = sessions::read::Deps { store: &call.plane.store };
    Ok(json(StatusCode::OK, &sessions::read::run(deps, command).await?))
}

fn session(call: &Call) -> Result<SessionId, Error> {
    Ok(SessionId::parse(call.parameters.get(1).cloned().unwrap_or_default())?)
}
