//! A FIFO queue as a pure state machine: it has no clock and never waits.

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
    /// By sequence number, which is the order of sending.
    messages: BTreeMap<u64, Message>,
    last_sequence: u64,
    recent: Recent,
    /// Prefix of every receipt handle, so that a handle of another queue is invalid.
    handle_prefix: String,
    dead_letters: Vec<NewMessage>,
}

#[derive(Debug)]
pub(super) struct NewMessage {
    pub(super) body: String,
    pub(super) group: String,
    pub(super) deduplication_id: String,
}

/// A sent message, now or by an earlier call with the same deduplication id.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) sequence: u64,
}

/// A message in flight.
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
    /// Number of receives. Only the handle of the last one is valid.
    receives: u64,
    received_at: Instant,
    hidden_until: Instant,
}

/// Recent deduplication ids, including those of deleted messages.
#[derive(Debug, Default)]
struct Recent {
    sent: HashMap<String, Sent>,
    expiries: VecDeque<(Instant, String)>,
}

/// Deduplication interval:
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html>
const DEDUPLICATION: Duration = Duration::from_secs(5 * 60);

impl Queue {
    pub(super) fn new(attributes: Attributes) -> Self {
        let (messages, recent) = (BTreeMap::new(), Recent::default());
        let handle_prefix = RandomIds.request();
        Self { attributes, messages, last_sequence: 0, recent, handle_prefix, dead_letters: Vec::new() }
    }

    /// A duplicate gets the result of the first message and is not queued.
    pub(super) fn send(&mut self, now: Instant, message: NewMessage) -> Sent {
        self.purge(now);
        if let Some(sent) = self.recent.sent.get(&message.deduplication_id) {
            return sent.clone();
        }
        self.last_sequence += 1;
        let sent = Sent { id: RandomIds.request(), sequence: self.last_sequence };
        self.recent.remember(now, message.deduplication_id, sent.clone());
        let stored = Message {
            id: sent.id.clone(),
            body: message.body,
            group: message.group,
            expires_at: now + self.attributes.retention,
            receives: 0,
            received_at: now,
            hidden_until: now,
        };
        self.messages.insert(sent.sequence, stored);
        sent
    }

    /// The oldest messages of groups without messages in flight.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        limit: usize,
        visibility: Option<Duration>,
    ) -> Vec<Received> {
        self.purge(now);
        let hidden_until = now + visibility.unwrap_or(self.attributes.visibility);
        self.set_dead_letters_aside(now, limit);
        let blocked: HashSet<String> = self.in_flight(now).map(|message| message.group.clone()).collect();
        let free = self.messages.iter_mut().filter(|(_, message)| !blocked.contains(&message.group));
        let taken = free.take(limit).map(|(sequence, message)| {
            message.receives += 1;
            message.received_at = now;
            message.hidden_until = hidden_until;
            let handle = format!("{}-{sequence}-{}", self.handle_prefix, message.receives);
            Received { id: message.id.clone(), handle, body: message.body.clone() }
        });
        taken.collect()
    }

    /// The messages that were received too often since the last call. They belong into the dead-letter queue.
    pub(super) fn take_dead_letters(&mut self) -> Vec<NewMessage> {
        std::mem::take(&mut self.dead_letters)
    }

    /// Like AWS, which moves a message when it would be received once more.
    fn set_dead_letters_aside(&mut self, now: Instant, limit: usize) {
        let Some(max) = self.attributes.redrive.as_ref().map(|redrive| redrive.max_receive_count) else {
            return;
        };
        let blocked: HashSet<String> = self.in_flight(now).map(|message| message.group.clone()).collect();
        let free = self.messages.iter().filter(|(_, message)| !blocked.contains(&message.group));
        let exhausted = free.take(limit).filter(|(_, message)| message.receives >= max);
        let exhausted: Vec<u64> = exhausted.map(|(sequence, _)| *sequence).collect();
        for sequence in exhausted {
            if let Some(message) = self.messages.remove(&sequence) {
                let Message { id, body, group, .. } = message;
                self.dead_letters.push(NewMessage { body, group, deduplication_id: id });
            }
        }
    }

    /// When a message may next become receivable without another call.
    pub(super) fn visible_at(&self, now: Instant) -> Option<Instant> {
        self.in_flight(now).map(|message| message.hidden_until.min(message.expires_at)).min()
    }

    /// Idempotent: a message that is already deleted is fine.
    pub(super) fn delete(&mut self, now: Instant, handle: &str) -> Result<(), Refusal> {
        let (sequence, receives) = self.parse_handle(handle)?;
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

    /// Zero makes the message visible immediately.
    pub(super) fn change_visibility(
        &mut self,
        now: Instant,
        handle: &str,
        visibility: Duration,
    ) -> Result<(), Refusal> {
        let (sequence, receives) = self.parse_handle(handle)?;
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

    /// Number of visible messages, and of those in flight.
    pub(super) fn count(&mut self, now: Instant) -> (usize, usize) {
        self.purge(now);
        let in_flight = self.in_flight(now).count();
        (self.messages.len() - in_flight, in_flight)
    }

    /// Removes expired messages, also those in flight, and expired deduplication ids.
    pub(super) fn purge(&mut self, now: Instant) {
        while self.messages.first_entry().is_some_and(|oldest| oldest.get().expires_at <= now) {
            self.messages.pop_first();
        }
        self.recent.purge(now);
    }

    fn in_flight(&self, now: Instant) -> impl Iterator<Item = &Message> {
        self.messages.values().filter(move |message| now < message.hidden_until)
    }

    /// The sequence number of the message and the number of the receive. Both are in the handle, so none is stored.
    fn parse_handle(&self, handle: &str) -> Result<(u64, u64), Refusal> {
        let numbers =
            handle.strip_prefix(&self.handle_prefix).and_then(|rest| rest.strip_prefix('-')?.split_once('-'));
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
        self.expiries.push_back((now + DEDUPLICATION, id.clone()));
        self.sent.insert(id, sent);
    }

    fn purge(&mut self, now: Instant) {
        while let Some((_, id)) = self.expiries.pop_front_if(|(expires_at, _)| *expires_at <= now) {
            self.sent.remove(&id);
        }
    }
}
