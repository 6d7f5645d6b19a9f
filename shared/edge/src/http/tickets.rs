//! Tickets: requested changes, each worked on by tasks.

use super::{Call, Handler, json};
use app::events::history::Order;
use app::{Error, events, tickets};
use bytes::Bytes;
use contract::limits::MAX_PAGE;
use contract::tickets::{
    CreateTicket, Duplicates, Filter, TicketDetails, TicketList, TicketOut, TicketTask, Transition,
    decode_rejection,
};
use domain::{Entity, OrgId, TicketId};
use http::{Response, StatusCode};

/// `POST /api/v1/tickets`.
pub const CREATE: Handler = |call| Box::pin(create(call));
/// `GET /api/v1/tickets`.
pub const LIST: Handler = |call| Box::pin(list(call));
/// `GET /api/v1/tickets/{id}`.
pub const GET: Handler = |call| Box::pin(get(call));
/// `GET /api/v1/tickets/{id}/events`.
pub const EVENTS: Handler = |call| Box::pin(events(call));
/// `POST /api/v1/tickets/{id}/transition`.
pub const TRANSITION: Handler = |call| Box::pin(transition(call));
/// `POST /api/v1/tickets/{id}/approve`.
pub const APPROVE: Handler = |call| Box::pin(approve(call));
/// `POST /api/v1/tickets/{id}/reject`.
pub const REJECT: Handler = |call| Box::pin(reject(call));

async fn create(call: Call) -> Result<Response<Bytes>, Error> {
    let create = CreateTicket::decode(&call.body)?;
    let plane = &call.plane;
    let deps =
        tickets::create::Deps { base: plane.orchestration()?, default_org: &plane.settings.default_org };
    let command = tickets::create::Command { principal: call.principal, create };
    Ok(match tickets::create::run(deps, command).await? {
        tickets::create::Outcome::Created(ticket) => json(StatusCode::CREATED, &TicketOut::from(&*ticket)),
        tickets::create::Outcome::Repeated(ticket) => json(StatusCode::OK, &TicketOut::from(&*ticket)),
        tickets::create::Outcome::Similar(candidates) => json(StatusCode::OK, &Duplicates::new(candidates)),
    })
}

async fn list(call: Call) -> Result<Response<Bytes>, Error> {
    let limit = call.query.number("limit", 1..=100)?.unwrap_or(50);
    let command = tickets::list::Command {
        org: call.query.get("org").map(OrgId::parse).transpose()?,
        filter: Filter::decode(&call.query)?,
        cursor: call.query.get("cursor").map(str::to_owned),
        limit: usize::try_from(limit).unwrap_or(50),
        principal: call.principal,
    };
    let page = tickets::list::run(tickets::list::Deps { store: &call.plane.store }, command).await?;
    let tickets = page.tickets.iter().map(TicketOut::from).collect();
    let (next_cursor, has_more) = (page.next_cursor.clone(), page.next_cursor.is_some());
    Ok(json(StatusCode::OK, &TicketList { tickets, next_cursor, has_more }))
}

async fn get(call: Call) -> Result<Response<Bytes>, Error> {
    let ticket = ticket(&call)?;
    let deps = tickets::get::Deps { store: &call.plane.store };
    let found = tickets::get::run(deps, tickets::get::Command { principal: call.principal, ticket }).await?;
    let details = TicketDetails {
        ticket: TicketOut::from(&found.ticket),
        tasks: found.tasks.iter().map(TicketTask::from).collect(),
        has_more_tasks: found.has_more_tasks,
    };
    Ok(json(StatusCode::OK, &details))
}

async fn events(call: Call) -> Result<Response<Bytes>, Error> {
    let entity = Entity::Ticket(ticket(&call)?);
    let after_seq = call.query.number("after_seq", 0..=u64::MAX)?;
    let before_seq = call.query.number("before_seq", 1..=u64::MAX)?;
    let order = match call.query.one_of("order", &["newest", "oldest"])? {
        Some("oldest") => Order::Oldest,
        Some(_) => Order::Newest,
        // A request with only `after_seq` continues forward from there.
        None if after_seq.is_some() && before_seq.is_none() => Order::Oldest,
        None => Order::Newest,
    };
    let limit = call.query.number("limit", 1..=MAX_PAGE as u64)?.unwrap_or(100);
    let command = events::history::Command {
        entity,
        after_seq: after_seq.unwrap_or(0),
        before_seq,
        order,
        limit: usize::try_from(limit).unwrap_or(MAX_PAGE),
        principal: call.principal,
    };
    let deps = events::history::Deps { store: &call.plane.store };
    Ok(json(StatusCode::OK, &events::history::run(deps, command).await?))
}

async fn transition(call: Call) -> Result<Response<Bytes>, Error> {
    let ticket = ticket(&call)?;
    let transition = Transition::decode(&call.body)?;
    let plane = &call.plane;
    let deps = tickets::transition::Deps {
        store: &plane.store,
        clock: plane.clock.as_ref(),
        ids: plane.ids.as_ref(),
    };
    let command = tickets::transition::Command { principal: call.principal, ticket, transition };
    Ok(json(StatusCode::OK, &TicketOut::from(&tickets::transition::run(deps, command).await?)))
}

async fn approve(call: Call) -> Result<Response<Bytes>, Error> {
    let ticket = ticket(&call)?;
    let command = tickets::approve::Command { principal: call.principal, ticket };
    let approved = tickets::approve::run(call.plane.orchestration()?, command).await?;
    Ok(json(StatusCode::OK, &TicketOut::from(&approved)))
}

async fn reject(call: Call) -> Result<Response<Bytes>, Error> {
    let ticket = ticket(&call)?;
    let reason = decode_rejection(&call.body)?;
    let plane = &call.plane;
    let deps =
        tickets::reject::Deps { store: &plane.store, clock: plane.clock.as_ref(), ids: plane.ids.as_ref() };
    let command = tickets::reject::Command { principal: call.principal, ticket, reason };
    Ok(json(StatusCode::OK, &TicketOut::from(&tickets::reject::run(deps, command).await?)))
}

/// The ticket in the path.
fn ticket(call: &Call) -> Result<TicketId, Error> {
    Ok(TicketId::parse(call.parameters.first().cloned().unwrap_or_default())?)
}
