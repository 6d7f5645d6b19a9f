//! Ends a sandbox: nobody can write to its agent any more, and whoever did is told so.

use crate::error::Error;
use crate::events::emit::{EventBatch, Written, ring};
use crate::sandboxes::write_guard::WriteGuard;
use crate::{IdSource, messages, reconcile, visibility};
use contract::jobs::Job;
use domain::access::Principal;
use domain::attempt;
use domain::message::{Receipt, Sender, State};
use domain::sandbox::{Ended, Status};
use domain::{EventType, MessageId, Sandbox, SandboxId, Source, Timestamp};
use serde_json::json;
use store::Jobs;
use store::ledger::Change;
use store::mailboxes::WakeUp;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Ends the sandbox, and what was sent to it.
    pub steering: messages::Deps<'a>,
    /// Asks for the sandbox to be removed, if the plane made it.
    pub work: &'a Jobs,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Which one.
    pub sandbox: SandboxId,
    /// Why, in words for people.
    pub reason: String,
}

/// The sandbox, as it is now.
pub type Outcome = Sandbox;

/// How many messages are given up in one transaction, with two items each.
const AT_ONCE: usize = 25;

/// A repeat ends what the first one may have left over, and the first reason stays.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let head = end_and_cancel(deps.steering, command).await?;
    if head.needs_reconcile() {
        reconcile::jobs::ask(deps.work, &Job::ReconcileSandbox { sandbox_id: head.id.clone() }).await;
    }
    Ok(head)
}

async fn end_and_cancel(deps: messages::Deps<'_>, command: Command) -> Result<Sandbox, Error> {
    let sandbox = &command.sandbox;
    let mut turn = WriteGuard::begin(deps.store, deps.lanes, deps.clock, sandbox).await;
    loop {
        let head = turn.seen(sandbox).await?;
        visibility::check(&command.principal, &head)?;
        let now = deps.clock.now();
        let (after, tale) = match (head.status.is_final(), head.activity.waiting) {
            (false, _) => end(deps.ids, &head, &command, now),
            (true, 0) => {
                turn.keep(head.clone());
                drop(turn);
                // Whoever waits there is told first, or would only see it when their wait is over.
                ring(deps.mailboxes, sandbox, WakeUp::Ended).await;
                deps.mailboxes.remove(sandbox).await?;
                return Ok(head);
            }
            (true, _) => cancel(deps, &head, now).await?,
        };
        match tale.write(deps.store, &head, &after, now).await? {
            Written::Stored(head) => turn.won(*head),
            Written::Conflict(head) => turn.lost(head).await?,
            Written::MessageKnown(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}

/// Gives up what waits in the mailbox of a sandbox that is over, and removes the mailbox.
pub(crate) async fn wind_up(deps: messages::Deps<'_>, sandbox: &SandboxId) -> Result<Sandbox, Error> {
    let reason = String::new();
    end_and_cancel(deps, Command { principal: Principal::Operator, sandbox: sandbox.clone(), reason }).await
}

fn end<'a>(
    ids: &'a dyn IdSource,
    head: &Sandbox,
    command: &Command,
    now: Timestamp,
) -> (Sandbox, EventBatch<'a>) {
    let reason = command.reason.clone();
    let mut tale = EventBatch::new(ids);
    let data = json!({"reason": reason, "by": Sender::of(&command.principal)});
    tale.event(EventType::sandbox_terminated(), Source::System, &data);
    let mut after = tale.sandbox_after(head);
    after.status = Status::Terminated;
    if after.assignment.is_some() {
        after.activity.outcome.get_or_insert(attempt::Outcome::CalledOff { reason: reason.clone(), at: now });
        if let Some(spawn) = &mut after.activity.spawn {
            spawn.left_at.get_or_insert(now);
            // Whatever was waited for before is of no use any more.
            (spawn.retry_at, spawn.tries) = (None, 0);
        }
    }
    after.activity.ended = Some(Ended { at: now, reason });
    (after, tale)
}

/// Those that nobody has confirmed will not be worked on.
async fn cancel<'a>(
    deps: messages::Deps<'a>,
    head: &Sandbox,
    now: Timestamp,
) -> Result<(Sandbox, EventBatch<'a>), Error> {
    let waiting = deps.store.waiting_messages(&head.id, AT_ONCE).await?;
    let ids: Vec<MessageId> = waiting.into_iter().map(|one| one.id).collect();
    let mut tale = EventBatch::new(deps.ids);
    for mut message in deps.store.messages(&head.id, &ids).await? {
        let detail = "the sandbox ended";
        message.advance(Receipt { state: State::Cancelled, at: now, detail: Some(detail.into()) });
        tale.message(State::Cancelled, Source::System, &json!({"message_id": message.id, "detail": detail}));
        tale.changes.push(Change::Settled(message));
    }
    let mut after = tale.sandbox_after(head);
    if tale.changes.is_empty() {
        // The number was wrong; without this it would be asked for again and again.
        after.activity.waiting = 0;
    }
    Ok((after, tale))
}
