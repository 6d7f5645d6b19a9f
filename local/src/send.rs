//! `sunaba send`: sends a message to a running agent and prints its receipts.

use crate::config::Send;
use crate::{messages, tasks};
use anyhow::{Context, bail};
use app::IdSource;
use app::ids::RandomIds;
use client::{Follow, Follower, IDLE_TIMEOUT, MessageIn, Messenger, Plane, Refused};
use contract::messages::{History, MessageQueued};
use domain::message::{Draft, MessageType, State};
use domain::{MessageId, SandboxId};
use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;
use terminal::print_line;
use tokio::time::timeout;

/// Timeout with all retries.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// With `--watch`, waits until the agent has completed the message.
pub async fn run(options: &Send) -> anyhow::Result<ExitCode> {
    let sandbox = SandboxId::parse(&options.sandbox)?;
    let message = message(options)?;
    let (url, token) = (options.address.plane(), options.address.token()?);
    let messenger = Messenger::new(url, &sandbox, token.clone(), ATTEMPT_TIMEOUT);
    let Ok(response) = timeout(TIMEOUT, messenger.send(&message)).await else {
        let hint = format!("to retry safely, add --id {}", message.message_id);
        bail!("the plane at {url} did not answer within {} s; {hint}", TIMEOUT.as_secs());
    };
    let queued = response.map_err(|Refused::ByPlane(problem)| anyhow::anyhow!("{}", problem.detail))?;
    print_line(&format!("queued     {} (position {} in the queue)", queued.message_id, queued.queue_size));
    if !options.watch {
        return Ok(ExitCode::SUCCESS);
    }
    let follow = Follow {
        plane: url.to_owned(),
        sockets: options.address.sockets.clone(),
        sandbox,
        token,
        after_seq: queued.seq,
        idle_timeout: IDLE_TIMEOUT,
    };
    watch(Follower::new(follow), &tasks::plane(&options.address)?, &queued).await
}

/// Prints each receipt.
async fn watch(mut follower: Follower, plane: &Plane, queued: &MessageQueued) -> anyhow::Result<ExitCode> {
    let id = queued.message_id.as_str();
    loop {
        let event = follower.next().await;
        if event.event_type == "sandbox.terminated" {
            print_line(&format!("ended      {} sandbox terminated", event.created_at));
            return Ok(ExitCode::FAILURE);
        }
        let Some(state) = event.event_type.strip_prefix("message.") else { continue };
        if event.data["message_id"] != id {
            continue;
        }
        let detail = event.data["detail"].as_str().unwrap_or_default();
        print_line(format!("{state:<10} {} {detail}", event.created_at).trim_end());
        match state {
            "completed" => return Ok(ExitCode::SUCCESS),
            // A worker without receipts: this is the final state.
            "delivered" if event.data["last"] == true => return Ok(ExitCode::SUCCESS),
            "cancelled" => return Ok(ExitCode::FAILURE),
            "undeliverable" => check_deliverable(plane, queued).await?,
            _ => {}
        }
    }
}

/// Fails if the message is undeliverable now. After a retry with the same id, the event may be an old one: the message
/// may have been sent again or acknowledged since.
async fn check_deliverable(plane: &Plane, queued: &MessageQueued) -> anyhow::Result<()> {
    let MessageQueued { sandbox_id: sandbox, message_id: id, seq, .. } = queued;
    let path = format!("/api/v1/sandboxes/{sandbox}/messages/history?limit=1&before={}", seq + 1);
    let response = plane.get_with_retries(&path).await;
    let response = response.map_err(|Refused::ByPlane(problem)| anyhow::anyhow!("{}", problem.detail))?;
    let history: History = messages::decode(response)?;
    match history.messages.first() {
        Some(message) if message.id == *id && message.state == State::Undeliverable => bail!(
            "message {id} is undeliverable: the worker pulled it {} times and never acknowledged it; to send it \
             again, run `sunaba resend {sandbox} {id}`",
            message.deliveries
        ),
        _ => Ok(()),
    }
}

fn message(options: &Send) -> anyhow::Result<MessageIn> {
    let message_type = match (options.interrupt, options.stop) {
        (true, _) => MessageType::Interrupt,
        (_, true) => MessageType::Stop,
        _ => MessageType::parse(&options.message_type)?,
    };
    let content = match (&options.text, message_type) {
        (Some(text), _) => text.clone(),
        (None, MessageType::Interrupt | MessageType::Stop) => "Stop.".to_owned(),
        (None, _) => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("cannot read the message")?;
            text
        }
    };
    let Draft { message_type, content } = Draft::new(message_type, &content)?;
    let message_id = match &options.id {
        Some(id) => MessageId::parse(id)?,
        None => RandomIds.message(),
    };
    Ok(MessageIn { message_id, message_type, content })
}
