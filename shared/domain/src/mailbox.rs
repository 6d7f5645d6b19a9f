//! The messages of a sandbox that wait for its worker: which may be handed out next.

use crate::{MessageId, Timestamp};
use serde::{Deserialize, Serialize};

/// How many messages of a sandbox may wait for their worker.
pub const MAX_WAITING: u64 = 1_000;
/// A full mailbox still takes this many urgent messages: they are what somebody sends whose other messages pile up.
pub const ROOM_FOR_URGENT: u64 = 100;

/// A message's place in the mailbox: there while a worker has to confirm it, and no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Which message.
    pub id: MessageId,
    /// Its number.
    pub number: u64,
    /// Whether it overtakes others.
    pub urgent: bool,
    /// It was handed out, and comes back then if it is not confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_until: Option<Timestamp>,
}

impl Waiting {
    fn is_hidden(&self, now: Timestamp) -> bool {
        self.hidden_until.is_some_and(|until| until > now)
    }
}

/// Those that may be handed out now, at most `most`, in their order. `waiting` is in the mailbox's order: urgent ones
/// first, each kind by number.
///
/// **Invariant:** nothing overtakes a message that was handed out and not confirmed, except what is urgent: it may come
/// back, and would then come too late.
pub fn due(waiting: &[Waiting], most: usize, now: Timestamp) -> Vec<&Waiting> {
    let urgent = waiting.iter().filter(|one| one.urgent && !one.is_hidden(now));
    let others = waiting.iter().filter(|one| !one.urgent).take_while(|one| !one.is_hidden(now));
    urgent.chain(others).take(most).collect()
}

/// When the next of those that were handed out comes back.
pub fn next_return(waiting: &[Waiting], now: Timestamp) -> Option<Timestamp> {
    waiting.iter().filter_map(|one| one.hidden_until).filter(|until| *until > now).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn waiting(number: u64, urgent: bool, hidden_until: Option<i64>) -> Waiting {
        let id = MessageId::parse(format!("m-{number}")).unwrap();
        Waiting { id, number, urgent, hidden_until: hidden_until.map(at) }
    }

    fn numbers(due: Vec<&Waiting>) -> Vec<u64> {
        due.into_iter().map(|one| one.number).collect()
    }

    #[test]
    fn nothing_overtakes_what_may_come_back() {
        let handed_out = [waiting(1, false, Some(30)), waiting(2, false, None)];
        assert!(due(&handed_out, 10, at(29)).is_empty());
        assert_eq!(next_return(&handed_out, at(29)), Some(at(30)));
        assert_eq!(numbers(due(&handed_out, 10, at(30))), [1, 2]);
        assert_eq!(next_return(&handed_out, at(30)), None);
    }

    #[test]
    fn an_interrupt_overtakes_everything() {
        let mut mailbox =
            vec![waiting(9, true, Some(30)), waiting(51, true, None), waiting(1, false, Some(30))];
        mailbox.extend((2..=50).map(|number| waiting(number, false, None)));
        assert_eq!(numbers(due(&mailbox, 10, at(0))), [51]);
        assert_eq!(numbers(due(&mailbox, 3, at(30))), [9, 51, 1]);
    }
}
