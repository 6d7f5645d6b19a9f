//! ReconcileDeps a sandbox's messages to its worker, and waits for them if there are none.

use crate::error::{Error, chain};
use crate::events::emit::{EventBatch, Written};
use crate::sandboxes::write_guard::WriteGuard;
use crate::{IdSource, visibility};
use domain::access::Principal;
use domain::mailbox::{MAX_WAITING, ROOM_FOR_URGENT, due, next_return};
use domain::message::{Receipt, State};
use domain::{Message, MessageId, SandboxId, Source, Timestamp};
use serde_json::json;
use std::time::Duration;
use store::ledger::Change;
use store::mailboxes::{Mailboxes, Waited};

pub use crate::messages::Deps;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which sandbox.
    pub sandbox: SandboxId,
    /// For how long to wait if there is nothing, in whole seconds.
    pub wait: Duration,
    /// How many at most.
    pub most: usize,
    /// How they are confirmed.
    pub confirmation: Confirmation,
}

/// How messages are confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// By receipts. Until then each is hidden for so many seconds, and then comes back.
    Receipts {
        /// How many.
        hidden_secs: i64,
    },
    /// What is handed out is confirmed. For workers of OmoiOS, which know nothing else.
    Handover,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Urgent ones first, then in the order in which they were sent.
    pub messages: Vec<Message>,
    /// When they come back unless they are confirmed.
    pub returns_at: Timestamp,
    /// How many wait to be confirmed, these included.
    pub queue_size: u64,
}

/// How many of those that wait are looked at: more than one pull hands out, because some may be hidden. If all of them
/// are, at all that there can be.
const LOOK_AT: [usize; 2] = [50, (MAX_WAITING + ROOM_FOR_URGENT) as usize];
/// How often somebody looks who cannot wait for a bell.
const WITHOUT_A_BELL: Duration = Duration::from_secs(1);
/// How long somebody waits for a bell before they look: so much later a message comes whose bell was lost.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(5);

/// A repeat gets what the first one did not: what that was handed comes back when its time is over.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let mut left = command.wait;
    let mut ear = Ear { deps, sandbox: &command.sandbox, mailbox: Mailbox::Expected, complained: false };
    loop {
        let (returns, queue_size) = match look(deps, &command).await? {
            Look::Found(outcome) => return Ok(outcome),
            Look::Nothing { returns, queue_size } => (returns, queue_size),
        };
        let began = deps.clock.now();
        if left.is_zero() {
            return Ok(Outcome { messages: Vec::new(), returns_at: began, queue_size });
        }
        let patience = returns.map_or(left, |returns| between(began, returns)).min(left).min(LONGEST_SILENCE);
        let silence = ear.listen(patience).await;
        // A clock that is set back, or stands still as in tests, must not make this wait for ever.
        left = left.saturating_sub(silence.max(between(began, deps.clock.now())));
    }
}

/// Whoever waits at a mailbox.
struct Ear<'a> {
    deps: Deps<'a>,
    sandbox: &'a SandboxId,
    mailbox: Mailbox,
    /// IdempotencyRecord is enough.
    complained: bool,
}

/// What is known of the mailbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mailbox {
    /// It should be there.
    Expected,
    /// It is not; whoever has looked since may make it.
    Missing,
    /// It was made.
    Made,
    /// It was made and is not there: a new one may take a second until it answers.
    Slow,
}

impl Ear<'_> {
    /// Returns when there is a reason to look; how long it was silent, if it was.
    async fn listen(&mut self, patience: Duration) -> Duration {
        let mailboxes = self.deps.mailboxes;
        let heard = match self.mailbox {
            Mailbox::Missing => mailboxes.make(self.sandbox).await.map(|()| {
                self.mailbox = Mailbox::Made;
                Waited::Rang
            }),
            Mailbox::Slow => {
                self.mailbox = Mailbox::Expected;
                return pause(patience).await;
            }
            Mailbox::Expected | Mailbox::Made => mailboxes.wait(self.sandbox, patience).await,
        };
        match heard {
            Ok(Waited::Rang) => Duration::ZERO,
            Ok(Waited::Silence) => Mailboxes::in_whole_seconds(patience),
            // The sandbox may have ended: whoever looks sees it, and makes no mailbox for it.
            Ok(Waited::NoMailbox) => {
                self.mailbox = match self.mailbox {
                    Mailbox::Made => Mailbox::Slow,
                    _ => Mailbox::Missing,
                };
                Duration::ZERO
            }
            Err(error) => {
                if !self.complained {
                    let (sandbox, why) = (self.sandbox, chain(&error));
                    tracing::warn!(sandbox.id = %sandbox, "Looks for messages to {sandbox} without a bell: {why}");
                }
                (self.mailbox, self.complained) = (Mailbox::Expected, true);
                pause(patience).await
            }
        }
    }
}

/// What one look found.
enum Look {
    Found(Outcome),
    Nothing { returns: Option<Timestamp>, queue_size: u64 },
}

async fn look(deps: Deps<'_>, command: &Command) -> Result<Look, Error> {
    let sandbox = &command.sandbox;
    let mut turn = WriteGuard::begin(deps.store, deps.lanes, deps.clock, sandbox).await;
    loop {
        let head = turn.seen(sandbox).await?;
        visibility::check(&command.principal, &head)?;
        visibility::alive(&head)?;
        if head.activity.waiting == 0 {
            turn.keep(head);
            return Ok(Look::Nothing { returns: None, queue_size: 0 });
        }
        let now = deps.clock.now();
        let (ids, returns) = next_up(deps, command, now).await?;
        if ids.is_empty() {
            let queue_size = head.activity.waiting;
            turn.keep(head);
            return Ok(Look::Nothing { returns, queue_size });
        }
        let messages = deps.store.messages(sandbox, &ids).await?;
        let handover = Handover::of(deps.ids, messages, command.confirmation, now);
        let after = handover.tale.sandbox_after(&head);
        match handover.tale.write(deps.store, &head, &after, now).await? {
            Written::Stored(head) => {
                turn.keep(*head);
                let (messages, returns_at) = (handover.messages, handover.returns_at);
                let queue_size = after.activity.waiting;
                return Ok(Look::Found(Outcome { messages, returns_at, queue_size }));
            }
            Written::Conflict(head) => turn.lost(head).await?,
            Written::MessageKnown(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}

/// Those that may be handed out; if there are none, when the first comes back.
async fn next_up(
    deps: Deps<'_>,
    command: &Command,
    now: Timestamp,
) -> Result<(Vec<MessageId>, Option<Timestamp>), Error> {
    let mut returns = None;
    for limit in LOOK_AT {
        let waiting = deps.store.waiting_messages(&command.sandbox, limit).await?;
        let next = due(&waiting, command.most, now);
        returns = next_return(&waiting, now);
        if !next.is_empty() || waiting.len() < limit {
            return Ok((next.into_iter().map(|one| one.id.clone()).collect(), returns));
        }
    }
    Ok((Vec::new(), returns))
}

/// Messages on their way to the worker, and what is told of it.
struct Handover<'a> {
    messages: Vec<Message>,
    returns_at: Timestamp,
    tale: EventBatch<'a>,
}

impl<'a> Handover<'a> {
    fn of(
        ids: &'a dyn IdSource,
        mut messages: Vec<Message>,
        confirmation: Confirmation,
        now: Timestamp,
    ) -> Self {
        let returns_at = match confirmation {
            Confirmation::Receipts { hidden_secs } => now.plus_secs(hidden_secs),
            Confirmation::Handover => now,
        };
        let mut tale = EventBatch::new(ids);
        for message in &mut messages {
            message.hand_out(now);
            let data = json!({"message_id": message.id, "delivery": message.deliveries});
            tale.message(State::Fetched, Source::System, &data);
            let change = match confirmation {
                Confirmation::Receipts { .. } => Change::HandedOut(message.clone(), returns_at),
                Confirmation::Handover => {
                    message.advance(Receipt { state: State::Delivered, at: now, detail: None });
                    // Nobody will say more of it.
                    let data = json!({"message_id": message.id, "last": true});
                    tale.message(State::Delivered, Source::System, &data);
                    Change::Settled(message.clone())
                }
            };
            tale.changes.push(change);
        }
        Self { messages, returns_at, tale }
    }
}

async fn pause(left: Duration) -> Duration {
    let pause = WITHOUT_A_BELL.min(left);
    tokio::time::sleep(pause).await;
    pause
}

fn between(began: Timestamp, now: Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(now.as_micros() - began.as_micros()).unwrap_or(0))
}
