//! Session transcripts of agents.

use super::{Call, Handler, json};
use app::{Error, sessions};
use bytes::Bytes;
use contract::limits::MAX_PAGE;
use contract::sessions::Entries;
use domain::SessionId;
use http::{Response, StatusCode};

/// `POST …/sessions/{session_id}/entries`.
pub const APPEND: Handler = |call| Box::pin(append(call));
/// `GET …/sessions/{session_id}/entries`.
pub const READ: Handler = |call| Box::pin(read(call));

async fn append(call: Call) -> Result<Response<Bytes>, Error> {
    let (sandbox, session) = (call.sandbox()?, session(&call)?);
    let entries = Entries::decode(&call.body)?;
    let deps = sessions::append::Deps { store: &call.plane.store, clock: call.plane.clock.as_ref() };
    let command = sessions::append::Command { principal: call.principal, sandbox, session, entries };
    Ok(json(StatusCode::OK, &sessions::append::run(deps, command).await?))
}

async fn read(call: Call) -> Result<Response<Bytes>, Error> {
    let limit = call.query.number("limit", 1..=MAX_PAGE as u64)?.unwrap_or(MAX_PAGE as u64);
    let command = sessions::read::Command {
        sandbox: call.sandbox()?,
        session: session(&call)?,
        after: call.query.number("after", 0..=u64::MAX)?.unwrap_or(0),
        limit: usize::try_from(limit).unwrap_or(MAX_PAGE),
        principal: call.principal,
    };
    let deps = sessions::read::Deps { store: &call.plane.store };
    Ok(json(StatusCode::OK, &sessions::read::run(deps, command).await?))
}

fn session(call: &Call) -> Result<SessionId, Error> {
    Ok(SessionId::parse(call.parameters.get(1).cloned().unwrap_or_default())?)
}
