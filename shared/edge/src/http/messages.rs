//! Messages to a running agent.

use super::{Call, Handler, json};
use crate::metrics::{self, Metric};
use app::messages::pull::{Confirmation, Delivered};
use app::{Error, messages};
use bytes::Bytes;
use contract::messages::{
    DEFAULT_HIDDEN_SECS, DEFAULT_WAIT_SECS, MAX_HIDDEN_SECS, MAX_HISTORY, MAX_HOLDING, MAX_PULL,
    MAX_WAIT_SECS, MessageOut, PlainMessage, Pulled, ReceiptIn, Send,
};
use domain::{Invalid, MessageId, Timestamp};
use http::{Response, StatusCode};
use std::time::Duration;

/// `POST …/messages`.
pub const SEND: Handler = |call| Box::pin(send(call));
/// `GET …/messages`.
pub const PULL: Handler = |call| Box::pin(pull(call));
/// `POST …/messages/ack`.
pub const ACK: Handler = |call| Box::pin(ack(call));
/// `POST …/messages/{message_id}/cancel`.
pub const CANCEL: Handler = |call| Box::pin(cancel(call));
/// `POST …/messages/{message_id}/resend`.
pub const RESEND: Handler = |call| Box::pin(resend(call));
/// `GET …/messages/history`.
pub const HISTORY: Handler = |call| Box::pin(history(call));

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
    let number = |name, bounds, default| query.number(name, bounds).map(|value| value.unwrap_or(default));
    let wait = Duration::from_secs(number("wait", 0..=MAX_WAIT_SECS, DEFAULT_WAIT_SECS)?);
    let limit = usize::try_from(number("max", 1..=MAX_PULL as u64, MAX_PULL as u64)?).unwrap_or(MAX_PULL);
    let hidden_secs = number("visibility", 1..=MAX_HIDDEN_SECS, DEFAULT_HIDDEN_SECS)?;
    let confirmation = match query.one_of("ack", &["manual", "auto"])? {
        Some("manual") => Confirmation::Receipts { hidden_secs: hidden_secs.cast_signed() },
        _ => Confirmation::Implicit,
    };
    let plane = &call.plane;
    let deps = plane.message_deps()?;
    let principal = call.principal;
    let holding = holding(&query.list("holding"))?;
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
    let deps = call.plane.message_deps()?;
    let command = messages::acknowledge::Command { principal: call.principal, sandbox, receipts };
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
    let limit = call.query.number("limit", 1..=MAX_HISTORY as u64)?.unwrap_or(MAX_HISTORY as u64);
    let command = messages::history::Command {
        sandbox: call.sandbox()?,
        before: call.query.number("before", 1..=u64::MAX)?,
        limit: usize::try_from(limit).unwrap_or(MAX_HISTORY),
        principal: call.principal,
    };
    let deps = messages::history::Deps { store: &call.plane.store };
    Ok(json(StatusCode::OK, &messages::history::run(deps, command).await?))
}
