//! Hands a sandbox's messages to its worker, and waits for them if there are none.

use crate::error::{Error, chain};
use crate::lanes::Lanes;
use crate::telling::{of_message, tell};
use crate::turn::Turn;
use crate::{Clock, sight};
use domain::access::Principal;
use domain::message::{MAX_WAITING, ROOM_FOR_INTERRUPTS, Receipt, State, due, next_return};
use domain::{Message, MessageId, SandboxId, Source, Timestamp};
use serde_json::json;
use std::time::Duration;
use store::ledger::Change;
use store::log::Appended;
use store::mailboxes::Waited;
use store::{Mailboxes, Store};

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the head and the ledger; writes them and the log.
    pub store: &'a Store,
    /// Waits.
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
    /// Interrupts first, then in the order in which they were sent.
    pub messages: Vec<Message>,
    /// When they come back unless they are confirmed.
    pub returns_at: Timestamp,
    /// How many wait to be confirmed, these included.
    pub queue_size: u64,
}

/// How many of those that wait are looked at: more than one pull hands out, because some may be hidden. If all of them
/// are, at all that there can be.
const LOOK_AT: [usize; 2] = [50, (MAX_WAITING + ROOM_FOR_INTERRUPTS) as usize];
/// How often somebody looks whom no bell reaches.
const WITHOUT_A_BELL: Duration = Duration::from_secs(1);

/// A repeat gets what the first one did not: what that was handed comes back when its time is over.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let mut left = command.wait;
    let mut made = false;
    loop {
        let (returns, queue_size) = match look(deps, &command).await? {
            Look::Found(outcome) => return Ok(outcome),
            Look::Nothing { returns, queue_size } => (returns, queue_size),
        };
        if left.as_secs() == 0 {
            return Ok(Outcome { messages: Vec::new(), returns_at: deps.clock.now(), queue_size });
        }
        let began = deps.clock.now();
        let patience = returns.map_or(left, |returns| secs_until(returns, began).min(left));
        left -= match deps.mailboxes.wait(&command.sandbox, patience).await {
            Ok(Waited::Silence) => patience,
            Ok(Waited::Rang) => between(began, deps.clock.now()).min(left),
            // A new queue may take a second until it answers.
            Ok(Waited::Made) if !made => {
                made = true;
                Duration::ZERO
            }
            Ok(Waited::Made) => pause(left).await,
            Err(error) => {
                tracing::warn!("Looks for messages to {} without a bell: {}", command.sandbox, chain(&error));
                // It may have failed late: a call that hangs takes the whole wait with it.
                let spent = between(began, deps.clock.now()).min(left);
                spent + pause(left - spent).await
            }
        };
    }
}

/// What one look found.
enum Look {
    Found(Outcome),
    Nothing { returns: Option<Timestamp>, queue_size: u64 },
}

async fn look(deps: Deps<'_>, command: &Command) -> Result<Look, Error> {
    let sandbox = &command.sandbox;
    let mut turn = Turn::begin(deps.store, deps.lanes, deps.clock, sandbox).await;
    loop {
        let head = turn.seen(sandbox).await?;
        sight::check(&command.principal, &head)?;
        sight::alive(&head)?;
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
        let handover = Handover::of(messages, command.confirmation, now);
        let mut after = head.telling(&handover.events);
        after.activity.waiting -= handover.settled().min(head.activity.waiting);
        match tell(deps.store, (&head, &after), handover.events, &handover.changes, now).await? {
            Appended::Stored(head) => {
                turn.keep(*head);
                let (messages, returns_at) = (handover.messages, handover.returns_at);
                let queue_size = after.activity.waiting;
                return Ok(Look::Found(Outcome { messages, returns_at, queue_size }));
            }
            Appended::HeadMoved(head) => turn.lost(head).await?,
            odd => return Err(Error::Internal(format!("messages were not handed out: {odd:?}").into())),
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

/// Messages on their way to the worker, and what the log and the ledger say of it.
struct Handover {
    messages: Vec<Message>,
    returns_at: Timestamp,
    events: Vec<domain::ingest::NewEvent>,
    changes: Vec<Change>,
}

impl Handover {
    fn of(mut messages: Vec<Message>, confirmation: Confirmation, now: Timestamp) -> Self {
        let returns_at = match confirmation {
            Confirmation::Receipts { hidden_secs } => now.plus_secs(hidden_secs),
            Confirmation::Handover => now,
        };
        let (mut events, mut changes) = (Vec::new(), Vec::new());
        for message in &mut messages {
            message.hand_out(now);
            let data = json!({"message_id": message.id, "delivery": message.deliveries});
            events.push(of_message(State::Fetched, Source::System, &data));
            changes.push(match confirmation {
                Confirmation::Receipts { .. } => Change::HandedOut(message.clone(), returns_at),
                Confirmation::Handover => {
                    message.advance(Receipt { state: State::Delivered, at: now, detail: None });
                    let data = json!({"message_id": message.id});
                    events.push(of_message(State::Delivered, Source::System, &data));
                    Change::Settled(message.clone())
                }
            });
        }
        Self { messages, returns_at, events, changes }
    }

    fn settled(&self) -> u64 {
        self.changes.iter().filter(|change| matches!(change, Change::Settled(_))).count() as u64
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

/// Whole seconds, rounded up: a queue counts in no others.
fn secs_until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::from_secs(
        between(now, then).as_micros().div_ceil(1_000_000).max(1).try_into().unwrap_or(u64::MAX),
    )
}
