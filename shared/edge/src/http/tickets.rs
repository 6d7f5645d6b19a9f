//! Tickets: requested changes, each worked on by tasks.

use super::endpoint::{created, ok};
use super::parameters::{CURSOR, LIMIT, LogPage, OFFSET, ORG, check_offset};
use super::{Call, Endpoint, json};
use app::{Error, events, tickets};
use bytes::Bytes;
use contract::ProblemCode::{
    AlreadyInStatus, ApprovalNotPending, NoPullRequest, OwnTicket, TicketChanged, TicketIdTaken,
    TransitionNotAllowed,
};
use contract::events::EventPage;
use contract::query::Parameter;
use contract::requests::{MergeBranches, NewTicket, RejectTicket, TransitionTicket};
use contract::tickets::{
    CreateTicket, Duplicates, Filter, MergeTicket, TicketDetails, TicketList, TicketOut, TicketTask,
    Transition, decode_rejection,
};
use domain::{Entity, OrgId, TicketId};
use http::{Response, StatusCode};

/// `POST /api/v1/tickets`.
pub const CREATE: Endpoint = Endpoint::new(
    |call| Box::pin(create(call)),
    &[created::<TicketOut>(), ok::<TicketOut>(), ok::<Duplicates>()],
)
.query(&[REQUESTED_BY])
.body::<NewTicket>()
.problems(&[TicketIdTaken, TicketChanged]);
/// `GET /api/v1/tickets`.
pub const LIST: Endpoint = Endpoint::new(|call| Box::pin(list(call)), &[ok::<TicketList>()]).query(&[
    ORG,
    Filter::STATUS,
    Filter::PRIORITY,
    Filter::PHASE,
    Filter::PROJECT,
    Filter::APPROVAL,
    Filter::SEARCH,
    CURSOR,
    LIMIT,
    OFFSET,
]);
/// `GET /api/v1/tickets/{id}`.
pub const GET: Endpoint = Endpoint::new(|call| Box::pin(get(call)), &[ok::<TicketDetails>()]);
/// `GET /api/v1/tickets/{id}/events`.
pub const EVENTS: Endpoint =
    Endpoint::new(|call| Box::pin(events(call)), &[ok::<EventPage>()]).query(LogPage::PARAMETERS);
/// `POST /api/v1/tickets/{id}/transition`.
pub const TRANSITION: Endpoint = Endpoint::new(|call| Box::pin(transition(call)), &[ok::<TicketOut>()])
    .body::<TransitionTicket>()
    .problems(&[AlreadyInStatus, TransitionNotAllowed]);
/// `POST /api/v1/tickets/{id}/approve`.
pub const APPROVE: Endpoint = Endpoint::new(|call| Box::pin(approve(call)), &[ok::<TicketOut>()])
    .problems(&[ApprovalNotPending, OwnTicket]);
/// `POST /api/v1/tickets/{id}/reject`.
pub const REJECT: Endpoint = Endpoint::new(|call| Box::pin(reject(call)), &[ok::<TicketOut>()])
    .body::<RejectTicket>()
    .problems(&[ApprovalNotPending]);

/// `POST /api/v1/tickets/{id}/merge`.
pub const MERGE: Endpoint = Endpoint::new(|call| Box::pin(merge(call)), &[ok::<TicketOut>()])
    .optional_body::<MergeBranches>()
    .problems(&[NoPullRequest]);

const REQUESTED_BY: Parameter =
    Parameter::text("requested_by_agent_id", "Ignored. OmoiOS clients may send it.");

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
    check_offset(&call.query, "cursor")?;
    let command = tickets::list::Command {
        org: call.query.parsed(&ORG, OrgId::parse)?,
        filter: Filter::decode(&call.query)?,
        cursor: call.query.get(&CURSOR).map(str::to_owned),
        limit: call.query.size(&LIMIT)?,
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
    let LogPage { after_seq, before_seq, order, limit } = LogPage::decode(&call.query)?;
    let command =
        events::history::Command { entity, after_seq, before_seq, order, limit, principal: call.principal };
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

async fn merge(call: Call) -> Result<Response<Bytes>, Error> {
    let ticket = ticket(&call)?;
    let request = MergeTicket::decode(&call.body)?;
    let command = tickets::merge::Command { principal: call.principal, ticket, request };
    let merging = tickets::merge::run(call.plane.orchestration()?, command).await?;
    Ok(json(StatusCode::OK, &TicketOut::from(&merging)))
}

/// The ticket in the path.
fn ticket(call: &Call) -> Result<TicketId, Error> {
    Ok(TicketId::parse(call.parameters.first().cloned().unwrap_or_default())?)
}
