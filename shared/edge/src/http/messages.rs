//! Messages to a running agent.

use super::endpoint::ok;
use super::{Call, Endpoint, json};
use crate::metrics::{self, Metric};
use app::messages::pull::{Confirmation, Delivered};
use app::{Error, messages};
use bytes::Bytes;
use contract::ProblemCode::{
    MailboxFull, MessageChanged, MessageDelivered, MessageNotUndeliverable, SandboxFinished,
};
use contract::messages::{
    Acknowledged, DEFAULT_HIDDEN_SECS, DEFAULT_WAIT_SECS, History, MAX_HIDDEN_SECS, MAX_HISTORY, MAX_HOLDING,
    MAX_PULL, MAX_WAIT_SECS, MessageOut, MessageQueued, MessageRecord, PlainMessage, Pulled, ReceiptIn, Send,
};
use contract::query::Parameter;
use contract::requests::{NewMessage, SendReceipts};
use domain::{Invalid, MessageId, Timestamp};
use http::{Response, StatusCode};
use std::time::Duration;

/// `POST …/messages`.
pub const SEND: Endpoint = Endpoint::new(|call| Box::pin(send(call)), &[ok::<MessageQueued>()])
    .body::<NewMessage>()
    .problems(&[SandboxFinished, MessageChanged, MailboxFull]);
/// `GET …/messages`.
pub const PULL: Endpoint =
    Endpoint::new(|call| Box::pin(pull(call)), &[ok::<Vec<PlainMessage>>(), ok::<Pulled>()])
        .query(&[ACKNOWLEDGE, WAIT, MAX, VISIBILITY, HOLDING])
        .problems(&[SandboxFinished]);
/// `POST …/messages/ack`.
pub const ACK: Endpoint =
    Endpoint::new(|call| Box::pin(ack(call)), &[ok::<Acknowledged>()]).body::<SendReceipts>();
/// `POST …/messages/{message_id}/cancel`.
pub const CANCEL: Endpoint =
    Endpoint::new(|call| Box::pin(cancel(call)), &[ok::<MessageRecord>()]).problems(&[MessageDelivered]);
/// `POST …/messages/{message_id}/resend`.
pub const RESEND: Endpoint = Endpoint::new(|call| Box::pin(resend(call)), &[ok::<MessageRecord>()])
    .problems(&[SandboxFinished, MessageNotUndeliverable, MailboxFull]);
/// `GET …/messages/history`.
pub const HISTORY: Endpoint =
    Endpoint::new(|call| Box::pin(history(call)), &[ok::<History>()]).query(&[BEFORE, HISTORY_LIMIT]);

const ACKNOWLEDGE: Parameter = Parameter::one_of(
    "ack",
    || vec!["manual", "auto"],
    "`manual`: the worker sends receipts. `auto`: being in the response acknowledges a message. Default: `auto`.",
);
const WAIT: Parameter =
    Parameter::integer("wait", 0, MAX_WAIT_SECS, "Seconds to wait for a message.").or(DEFAULT_WAIT_SECS);
const MAX: Parameter =
    Parameter::integer("max", 1, MAX_PULL as u64, "Maximum number of messages.").or(MAX_PULL as u64);
const VISIBILITY: Parameter = Parameter::integer(
    "visibility",
    1,
    MAX_HIDDEN_SECS,
    "Seconds until an unacknowledged message is delivered again.",
)
.or(DEFAULT_HIDDEN_SECS);
const HOLDING: Parameter = Parameter::list(
    "holding",
    "Messages that the worker holds and has not acknowledged: they are not delivered again.",
);
const BEFORE: Parameter =
    Parameter::integer("before", 1, u64::MAX, "`next_before` of the previous page, for older messages.");
const HISTORY_LIMIT: Parameter =
    Parameter::integer("limit", 1, MAX_HISTORY as u64, "Maximum number of messages on the page.")
        .or(MAX_HISTORY as u64);

async fn send(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let send = Send::decode(&call.body)?;
    let plane = &call.plane;
    let deps = messages::send::Deps {
        messages: plane.message_deps()?,
        orchestration_jobs: plane.orchestration_jobs()?,
    };
    let command = messages::send::Command { principal: call.principal, sandbox, send };
    let queued = messages::send::run(deps, command).await?;
    metrics::emit("messages-send", plane.clock.now(), &[Metric::count("MessagesSent", 1)]);
    Ok(json(StatusCode::OK, &queued))
}

async fn pull(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let query = &call.query;
    let wait = Duration::from_secs(query.number_or_default(&WAIT)?);
    let limit = query.size(&MAX)?;
    let hidden_secs = query.number_or_default(&VISIBILITY)?;
    let confirmation = match query.one_of(&ACKNOWLEDGE)? {
        Some("manual") => Confirmation::Receipts { hidden_secs: hidden_secs.cast_signed() },
        _ => Confirmation::Implicit,
    };
    let plane = &call.plane;
    let deps = plane.message_deps()?;
    let principal = call.principal;
    let holding = holding(&query.list(&HOLDING)?)?;
    let command =
        messages::pull::Command { principal, sandbox: sandbox.clone(), wait, limit, confirmation, holding };
    let found = messages::pull::run(deps, command).await?;
    emit_pulled(plane.clock.now(), &found);
    let messages = found.messages.into_iter();
    if confirmation == Confirmation::Implicit {
        let plain: Vec<PlainMessage> = messages.map(|delivered| delivered.message.into()).collect();
        return Ok(json(StatusCode::OK, &plain));
    }
    let out = |Delivered { message, delivery }| MessageOut::new(message, delivery, found.returns_at);
    let messages = messages.map(out).collect();
    Ok(json(StatusCode::OK, &Pulled { sandbox_id: sandbox, messages, queue_size: found.queue_size }))
}

/// The ids in `holding=m-1,m-2`.
fn holding(ids: &[String]) -> Result<Vec<MessageId>, Error> {
    if ids.len() > MAX_HOLDING {
        let reason = format!("must name at most {MAX_HOLDING} messages");
        return Err(Invalid::new("holding", reason).into());
    }
    let parse = |id: &String| {
        MessageId::parse(id.as_str()).map_err(|invalid| Invalid::new("holding", invalid.reason))
    };
    Ok(ids.iter().map(parse).collect::<Result<_, _>>()?)
}

/// Most pulls are empty; a metric line for each would only cost.
fn emit_pulled(now: Timestamp, found: &messages::pull::Outcome) {
    let first_deliveries = found.messages.iter().filter(|delivered| delivered.delivery == 1);
    let latency =
        first_deliveries.map(|delivered| now.as_micros() - delivered.message.queued_at.as_micros()).max();
    if found.messages.is_empty() && found.undeliverable == 0 {
        return;
    }
    let mut pulled = vec![
        Metric::count("MessagesPulled", found.messages.len()),
        Metric::count("MessagesFromLedger", found.from_ledger),
        Metric::count("MessagesUndeliverable", found.undeliverable),
    ];
    pulled.extend(latency.map(|micros| Metric::millis("MessageLatency", micros)));
    metrics::emit("messages-pull", now, &pulled);
}

async fn ack(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let receipts = ReceiptIn::decode(&call.body)?;
    let deps =
        messages::acknowledge::Deps { messages: call.plane.message_deps()?, quotas: call.plane.quota_deps() };
    let body_bytes = call.body.len() as u64;
    let command = messages::acknowledge::Command { principal: call.principal, sandbox, receipts, body_bytes };
    Ok(json(StatusCode::OK, &messages::acknowledge::run(deps, command).await?))
}

async fn cancel(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let message = MessageId::parse(call.parameters.get(1).cloned().unwrap_or_default())?;
    let deps = call.plane.message_deps()?;
    let command = messages::cancel::Command { principal: call.principal, sandbox, message };
    Ok(json(StatusCode::OK, &messages::cancel::run(deps, command).await?))
}

async fn resend(call: Call) -> Result<Response<Bytes>, Error> {
    let sandbox = call.sandbox()?;
    let message = MessageId::parse(call.parameters.get(1).cloned().unwrap_or_default())?;
    let plane = &call.plane;
    let deps = messages::resend::Deps {
        messages: plane.message_deps()?,
        orchestration_jobs: plane.orchestration_jobs()?,
    };
    let command = messages::resend::Command { principal: call.principal, sandbox, message };
    Ok(json(StatusCode::OK, &messages::resend::run(deps, command).await?))
}

async fn history(call: Call) -> Result<Response<Bytes>, Error> {
    let command = messages::history::Command {
        sandbox: call.sandbox()?,
        before: call.query.number(&BEFORE)?,
        limit: call.query.size(&HISTORY_LIMIT)?,
        principal: call.principal,
    };
    let deps = messages::history::Deps { store: &call.plane.store };
    Ok(json(StatusCode::OK, &messages::history::run(deps, command).await?))
}
