//! Ends a sandbox: nobody can write to its agent any more, and whoever did is told so.

use crate::error::Error;
use crate::lanes::Lanes;
use crate::telling::{event, of_message, tell};
use crate::turn::Turn;
use crate::{Clock, sight};
use domain::access::Principal;
use domain::head::{Ended, Status};
use domain::ingest::NewEvent;
use domain::message::{Receipt, Sender, State};
use domain::{EventType, Head, MessageId, SandboxId, Source, Timestamp};
use serde_json::json;
use store::ledger::Change;
use store::log::Appended;
use store::{Mailboxes, Store};

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the head and the ledger; writes them and the log.
    pub store: &'a Store,
    /// Rings, and removes the mailbox.
    pub mailboxes: &'a Mailboxes,
    /// The process's lanes.
    pub lanes: &'a Lanes,
    /// The time.
    pub clock: &'a dyn Clock,
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
pub type Outcome = Head;

/// How many messages are given up in one transaction, with two items each.
const AT_ONCE: usize = 25;

/// A repeat ends what the first one may have left over, and the first reason stays.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let sandbox = &command.sandbox;
    let mut turn = Turn::begin(deps.store, deps.lanes, deps.clock, sandbox).await;
    loop {
        let head = turn.seen(sandbox).await?;
        sight::check(&command.principal, &head)?;
        let now = deps.clock.now();
        let step = match (head.status.is_final(), head.activity.waiting) {
            (false, _) => end(&head, &command, now),
            (true, 0) => {
                turn.keep(head.clone());
                drop(turn);
                close(deps, &head).await?;
                return Ok(head);
            }
            (true, _) => cancel(deps, &head, now).await?,
        };
        match tell(deps.store, (&head, &step.after), step.events, &step.changes, now).await? {
            Appended::Stored(head) => turn.returned(*head),
            Appended::HeadMoved(head) => turn.lost(head).await?,
            odd => return Err(Error::Internal(format!("the end was not stored: {odd:?}").into())),
        }
    }
}

/// Whoever waits at the mailbox is told first, or would only see it when their wait is over.
async fn close(deps: Deps<'_>, head: &Head) -> Result<(), Error> {
    deps.mailboxes.ring(&head.id, "ended").await?;
    Ok(deps.mailboxes.remove(&head.id).await?)
}

/// One write on the way to the end.
struct Step {
    after: Head,
    events: Vec<NewEvent>,
    changes: Vec<Change>,
}

fn end(head: &Head, command: &Command, now: Timestamp) -> Step {
    let reason = command.reason.clone();
    let by = Sender::of(&command.principal);
    let data = json!({"reason": reason, "by": by});
    let events = vec![event(EventType::sandbox_terminated(), Source::System, &data)];
    let mut after = head.telling(&events);
    after.status = Status::Terminated;
    after.activity.ended = Some(Ended { at: now, reason });
    Step { after, events, changes: Vec::new() }
}

/// Those that nobody has confirmed will not be worked on.
async fn cancel(deps: Deps<'_>, head: &Head, now: Timestamp) -> Result<Step, Error> {
    let waiting = deps.store.waiting_messages(&head.id, AT_ONCE).await?;
    let ids: Vec<MessageId> = waiting.into_iter().map(|one| one.id).collect();
    let mut messages = deps.store.messages(&head.id, &ids).await?;
    let mut events = Vec::new();
    for message in &mut messages {
        let detail = "the sandbox ended";
        message.advance(Receipt { state: State::Cancelled, at: now, detail: Some(detail.into()) });
        let data = json!({"message_id": message.id, "detail": detail});
        events.push(of_message(State::Cancelled, Source::System, &data));
    }
    let mut after = head.telling(&events);
    after.activity.waiting = match messages.len() as u64 {
        0 => 0,
        cancelled => head.activity.waiting.saturating_sub(cancelled),
    };
    let changes = messages.into_iter().map(Change::Settled).collect();
    Ok(Step { after, events, changes })
}
