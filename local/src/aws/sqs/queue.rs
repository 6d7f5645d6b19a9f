//! One FIFO queue: what happened to it and what follows from that. It has no clock and never waits.

use super::attributes::Attributes;
use super::limits::MAX_VISIBILITY;
use super::refusal::Refusal;
use app::IdSource;
use app::ids::RandomIds;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) attributes: Attributes,
    /// By sequence number, and so in the order in which they were sent.
    messages: BTreeMap<u64, Message>,
    last_sequence: u64,
    recent: Recent,
    /// Begins every handle, so that a handle of another queue is none of this one's.
    mark: String,
}

/// What is to be sent.
pub(super) struct Letter {
    pub(super) body: String,
    pub(super) group: String,
    pub(super) deduplication_id: String,
}

/// What was sent, now or by an earlier call with the same deduplication id.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) sequence: u64,
}

/// A message in somebody's hands.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) id: String,
    pub(super) handle: String,
    pub(super) body: String,
}

#[derive(Debug)]
struct Message {
    id: String,
    body: String,
    group: String,
    expires_at: Instant,
    /// How often it was received. Only the last receiver's handle is good.
    receives: u64,
    received_at: Instant,
    hidden_until: Instant,
}

/// Which deduplication ids were used lately. A message that was deleted is remembered as well.
#[derive(Debug, Default)]
struct Recent {
    sent: HashMap<String, Sent>,
    forget_at: VecDeque<(Instant, String)>,
}

/// For so long a deduplication id is remembered:
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html>
const DEDUPLICATION: Duration = Duration::from_secs(5 * 60);

impl Queue {
    pub(super) fn new(attributes: Attributes) -> Self {
        let (messages, recent) = (BTreeMap::new(), Recent::default());
        Self { attributes, messages, last_sequence: 0, recent, mark: RandomIds.request() }
    }

    /// A repeat is answered like the first and not queued.
    pub(super) fn send(&mut self, now: Instant, letter: Letter) -> Sent {
        self.purge(now);
        if let Some(sent) = self.recent.sent.get(&letter.deduplication_id) {
            return sent.clone();
        }
        self.last_sequence += 1;
        let sent = Sent { id: RandomIds.request(), sequence: self.last_sequence };
        self.recent.remember(now, letter.deduplication_id, sent.clone());
        let message = Message {
            id: sent.id.clone(),
            body: letter.body,
            group: letter.group,
            expires_at: now + self.attributes.retention,
            receives: 0,
            received_at: now,
            hidden_until: now,
        };
        self.messages.insert(sent.sequence, message);
        sent
    }

    /// The oldest messages of groups that nobody has messages of.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        limit: usize,
        visibility: Option<Duration>,
    ) -> Vec<Received> {
        self.purge(now);
        let hidden_until = now + visibility.unwrap_or(self.attributes.visibility);
        let held: HashSet<String> = self.in_flight(now).map(|message| message.group.clone()).collect();
        let free = self.messages.iter_mut().filter(|(_, message)| !held.contains(&message.group));
        let taken = free.take(limit).map(|(sequence, message)| {
            message.receives += 1;
            message.received_at = now;
            message.hidden_until = hidden_until;
            let handle = format!("{}-{sequence}-{}", self.mark, message.receives);
            Received { id: message.id.clone(), handle, body: message.body.clone() }
        });
        taken.collect()
    }

    /// When there may next be something to receive if nobody does anything.
    pub(super) fn opens_at(&self, now: Instant) -> Option<Instant> {
        self.in_flight(now).map(|message| message.hidden_until.min(message.expires_at)).min()
    }

    /// A message that is gone already is fine: the call may be a repeat.
    pub(super) fn delete(&mut self, now: Instant, handle: &str) -> Result<(), Refusal> {
        let (sequence, receives) = self.open(handle)?;
        self.purge(now);
        match self.messages.get(&sequence) {
            Some(message) if !message.is_held_by(now, receives) => {
                Err(Refusal::value("ReceiptHandle", handle, "The receipt handle has expired."))
            }
            _ => {
                self.messages.remove(&sequence);
                Ok(())
            }
        }
    }

    /// Hides a message for so long from now on, or shows it again.
    pub(super) fn change_visibility(
        &mut self,
        now: Instant,
        handle: &str,
        visibility: Duration,
    ) -> Result<(), Refusal> {
        let (sequence, receives) = self.open(handle)?;
        self.purge(now);
        let found = self.messages.get_mut(&sequence).filter(|message| message.is_held_by(now, receives));
        let Some(message) = found else {
            let why = "Message does not exist or is not available for visibility timeout change.";
            return Err(Refusal::value("ReceiptHandle", handle, why));
        };
        if now + visibility > message.received_at + MAX_VISIBILITY {
            let why = "Total VisibilityTimeout for the message is beyond the limit.";
            return Err(Refusal::value("VisibilityTimeout", visibility.as_secs(), why));
        }
        message.hidden_until = now + visibility;
        Ok(())
    }

    /// How many can be seen, and how many are in somebody's hands.
    pub(super) fn count(&mut self, now: Instant) -> (usize, usize) {
        self.purge(now);
        let in_flight = self.in_flight(now).count();
        (self.messages.len() - in_flight, in_flight)
    }

    /// Forgets what is too old: messages, in whose hands ever they are, and deduplication ids.
    pub(super) fn purge(&mut self, now: Instant) {
        while self.messages.first_entry().is_some_and(|oldest| oldest.get().expires_at <= now) {
            self.messages.pop_first();
        }
        self.recent.purge(now);
    }

    fn in_flight(&self, now: Instant) -> impl Iterator<Item = &Message> {
        self.messages.values().filter(move |message| now < message.hidden_until)
    }

    /// The message's sequence number, and which receive of it the handle is from. It needs no memory of handles.
    fn open(&self, handle: &str) -> Result<(u64, u64), Refusal> {
        let numbers =
            handle.strip_prefix(&self.mark).and_then(|rest| rest.strip_prefix('-')?.split_once('-'));
        let numbers =
            numbers.and_then(|(sequence, receives)| Some((sequence.parse().ok()?, receives.parse().ok()?)));
        numbers.filter(|(sequence, _)| (1..=self.last_sequence).contains(sequence)).ok_or(Refusal::BadHandle)
    }
}

impl Message {
    fn is_held_by(&self, now: Instant, receives: u64) -> bool {
        self.receives == receives && now < self.hidden_until
    }
}

impl Recent {
    fn remember(&mut self, now: Instant, id: String, sent: Sent) {
        self.forget_at.push_back((now + DEDUPLICATION, id.clone()));
        self.sent.insert(id, sent);
    }

    fn purge(&mut self, now: Instant) {
        while let Some((_, id)) = self.forget_at.pop_front_if(|(forget_at, _)| *forget_at <= now) {
            self.sent.remove(&id);
        }
    }
}
