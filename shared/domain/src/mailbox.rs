//! The mailbox of a sandbox: which messages its worker gets next.

use crate::{Message, MessageId, Timestamp};
use serde::{Deserialize, Serialize};

/// Maximum number of messages that wait for acknowledgement.
pub const MAX_WAITING: u64 = 1_000;
/// A full mailbox still accepts this many urgent messages: an interrupt must get through when other messages pile up.
pub const URGENT_RESERVE: u64 = 100;
/// A message that was pulled this often without an acknowledgement is undeliverable. SQS moves its copy to the
/// dead-letter queue after as many receives.
pub const MAX_DELIVERIES: u32 = 10;

/// A mailbox entry. It exists until the worker acknowledges the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub id: MessageId,
    /// [`Message::position`].
    pub position: u64,
    /// [`Message::version`].
    pub version: u32,
    /// Urgent messages overtake all others.
    pub urgent: bool,
    /// How often it was pulled.
    pub deliveries: u32,
    /// Visibility timeout: the message was pulled, and is delivered again after this time unless it is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_until: Option<Timestamp>,
}

impl Waiting {
    pub fn of(message: &Message, hidden_until: Option<Timestamp>) -> Self {
        Self {
            id: message.id.clone(),
            position: message.position,
            version: message.version,
            urgent: message.message_type.is_urgent(),
            deliveries: message.deliveries,
            hidden_until,
        }
    }

    pub fn is_exhausted(&self) -> bool {
        self.deliveries >= MAX_DELIVERIES
    }

    fn is_hidden(&self, now: Timestamp) -> bool {
        self.hidden_until.is_some_and(|until| until > now)
    }
}

/// The messages that may be delivered now, in order. `waiting` is in the order of the mailbox: urgent messages first, each
/// kind by position.
///
/// **Invariant:** only an urgent message overtakes one that was pulled and not acknowledged: that one may be delivered
/// again, and would then be out of order.
pub fn due(waiting: &[Waiting], max: usize, now: Timestamp) -> Vec<&Waiting> {
    let urgent = waiting.iter().filter(|message| message.urgent && !message.is_hidden(now));
    let others =
        waiting.iter().filter(|message| !message.urgent).take_while(|message| !message.is_hidden(now));
    urgent.chain(others).take(max).collect()
}

/// When the next visibility timeout ends.
pub fn next_visible_at(waiting: &[Waiting], now: Timestamp) -> Option<Timestamp> {
    waiting.iter().filter_map(|message| message.hidden_until).filter(|until| *until > now).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn waiting(number: u64, urgent: bool, hidden_until: Option<i64>) -> Waiting {
        let id = MessageId::parse(format!("m-{number}")).unwrap();
        let hidden_until = hidden_until.map(at);
        Waiting { id, position: number, version: 1, urgent, deliveries: 0, hidden_until }
    }

    fn numbers(due: Vec<&Waiting>) -> Vec<u64> {
        due.into_iter().map(|message| message.position).collect()
    }

    #[test]
    fn nothing_overtakes_an_unacknowledged_message() {
        let pulled = [waiting(1, false, Some(30)), waiting(2, false, None)];
        assert!(due(&pulled, 10, at(29)).is_empty());
        assert_eq!(next_visible_at(&pulled, at(29)), Some(at(30)));
        assert_eq!(numbers(due(&pulled, 10, at(30))), [1, 2]);
        assert_eq!(next_visible_at(&pulled, at(30)), None);
    }

    #[test]
    fn urgent_messages_overtake_all_others() {
        let mut mailbox =
            vec![waiting(9, true, Some(30)), waiting(51, true, None), waiting(1, false, Some(30))];
        mailbox.extend((2..=50).map(|number| waiting(number, false, None)));
        assert_eq!(numbers(due(&mailbox, 10, at(0))), [51]);
        assert_eq!(numbers(due(&mailbox, 3, at(30))), [9, 51, 1]);
    }
}
