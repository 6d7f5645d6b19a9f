//! Messages to a working agent: what they are, and how far each has come.

use crate::access::Principal;
use crate::{Invalid, MessageId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest text of a message.
pub const MAX_CONTENT_CHARS: usize = 10_000;
/// Longest remark on a receipt.
pub const MAX_DETAIL_CHARS: usize = 1_000;

/// A message, as the ledger keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its sender's name for it, or ours.
    pub id: MessageId,
    /// Its place: the sequence number of the event that told of it.
    pub number: u64,
    /// What it is meant to do.
    pub message_type: MessageType,
    /// Its text.
    pub content: String,
    /// Who sent it.
    pub sender: Sender,
    /// How many waited when it was sent, itself included: what its sender was told.
    pub queue_size: u64,
    /// How often it was handed to a worker.
    pub deliveries: u32,
    /// How far it has come: one for each state that it was in, in that order. The first is `queued`.
    pub receipts: Vec<Receipt>,
}

/// When a message reached a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Which.
    pub state: State,
    /// When.
    pub at: Timestamp,
    /// What the worker has to say about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What a message is meant to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageType {
    /// A person says something to the agent.
    UserMessage,
    /// Stop this turn, then read what I say. Overtakes everything.
    Interrupt,
    /// Stop everything, also what you were told and have not begun, and then wait. Overtakes everything.
    Stop,
    /// Whoever watches the agent nudges it. OmoiOS calls it `guardian_nudge`.
    Guidance,
    /// A notice of the plane.
    System,
}

/// How far a message has come. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Stored.
    Queued,
    /// Handed to a worker, which has not confirmed it yet.
    Fetched,
    /// The worker has given it to the agent.
    Delivered,
    /// The agent works on it.
    Started,
    /// The agent is done with it.
    Completed,
    /// It will not be worked on, or no longer.
    Cancelled,
}

/// Who sent a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// `user` or `operator`.
    pub kind: String,
    /// Which user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Message {
    /// A message that was just sent.
    pub fn new(id: MessageId, draft: Draft, sender: Sender, place: Place, now: Timestamp) -> Self {
        let Draft { message_type, content } = draft;
        let Place { number, queue_size } = place;
        let receipts = vec![Receipt { state: State::Queued, at: now, detail: None }];
        Self { id, number, message_type, content, sender, queue_size, deliveries: 0, receipts }
    }

    /// How far it has come.
    pub fn state(&self) -> State {
        self.receipts.last().map_or(State::Queued, |receipt| receipt.state)
    }

    /// When it was sent.
    pub fn sent_at(&self) -> Timestamp {
        self.receipts.first().map_or(Timestamp::from_micros(0), |receipt| receipt.at)
    }

    /// Whether a worker still has to confirm it.
    pub fn is_waiting(&self) -> bool {
        self.state() < State::Delivered
    }

    /// Notes that it was handed to a worker, perhaps again.
    pub fn hand_out(&mut self, now: Timestamp) {
        self.deliveries += 1;
        self.advance(Receipt { state: State::Fetched, at: now, detail: None });
    }

    /// Notes a receipt; `false` if it was that far already, or is done with.
    ///
    /// **Invariant:** a message goes forward only, whatever comes late or twice.
    pub fn advance(&mut self, receipt: Receipt) -> bool {
        let state = self.state();
        let forward = !state.is_final() && receipt.state > state;
        if forward {
            self.receipts.push(receipt);
        }
        forward
    }

    /// Whether it says the same.
    pub fn says(&self, draft: &Draft) -> bool {
        self.message_type == draft.message_type && self.content == draft.content
    }
}

/// Where a message stands among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The sequence number of the event that tells of it.
    pub number: u64,
    /// How many wait, itself included.
    pub queue_size: u64,
}

/// What somebody wants to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// What it is meant to do.
    pub message_type: MessageType,
    /// Its text.
    pub content: String,
}

impl Draft {
    /// A text without control characters that holds something.
    pub fn new(message_type: MessageType, content: &str) -> Result<Self, Invalid> {
        let content = without_controls(content);
        if content.trim().is_empty() {
            return Err(Invalid::new("content", "must hold something besides white space"));
        }
        if content.chars().count() > MAX_CONTENT_CHARS {
            return Err(Invalid::new("content", format!("must be at most {MAX_CONTENT_CHARS} characters")));
        }
        Ok(Self { message_type, content })
    }
}

/// A remark on a receipt, made fit to be stored: this is said by a program, which cannot do better if it is refused.
pub fn remark(detail: &str) -> Option<String> {
    let detail: String = without_controls(detail).chars().take(MAX_DETAIL_CHARS).collect();
    Some(detail).filter(|detail| !detail.trim().is_empty())
}

/// Line ends become `\n`, tabs stay, and whatever else steers a terminal goes.
fn without_controls(text: &str) -> String {
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    lines.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

impl MessageType {
    const NAMES: [(&'static str, Self); 6] = [
        ("user_message", Self::UserMessage),
        ("interrupt", Self::Interrupt),
        ("stop", Self::Stop),
        ("guidance", Self::Guidance),
        ("guardian_nudge", Self::Guidance),
        ("system", Self::System),
    ];

    /// From the wire.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let named = Self::NAMES.iter().find(|(name, _)| *name == text);
        let reason = "must be one of user_message, interrupt, stop, guidance, system";
        named.map(|(_, kind)| *kind).ok_or_else(|| Invalid::new("message_type", reason))
    }

    /// What OmoiOS calls it. Its workers know one way to stop an agent.
    pub fn omoios_name(self) -> &'static str {
        match self {
            Self::UserMessage => "user_message",
            Self::Interrupt | Self::Stop => "interrupt",
            Self::Guidance => "guardian_nudge",
            Self::System => "system",
        }
    }

    /// Whether it overtakes others.
    pub fn is_urgent(self) -> bool {
        matches!(self, Self::Interrupt | Self::Stop)
    }
}

impl State {
    /// Every state, in order.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Fetched, Self::Delivered, Self::Started, Self::Completed, Self::Cancelled];

    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Fetched => "fetched",
            Self::Delivered => "delivered",
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }

    /// What a worker may say of a message. That it is queued or fetched, the plane knows by itself.
    pub fn parse_receipt(text: &str) -> Result<Self, Invalid> {
        let mut reported = Self::ALL.into_iter().filter(|state| *state >= Self::Delivered);
        reported
            .find(|state| state.as_str() == text)
            .ok_or_else(|| Invalid::new("state", "must be one of delivered, started, completed, cancelled"))
    }

    /// Whether nothing comes after it.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Sender {
    /// Who is asking.
    pub fn of(principal: &Principal) -> Self {
        let (kind, id) = match principal {
            Principal::Operator => ("operator", None),
            Principal::User { id, .. } => ("user", Some(id.clone())),
            Principal::Worker { sandbox, .. } => ("worker", Some(sandbox.to_string())),
            Principal::Anonymous => ("nobody", None),
        };
        Self { kind: kind.to_owned(), id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn message() -> Message {
        let draft = Draft::new(MessageType::UserMessage, "use sqlite").unwrap();
        let sender = Sender::of(&Principal::Operator);
        Message::new(
            MessageId::parse("m-1").unwrap(),
            draft,
            sender,
            Place { number: 7, queue_size: 1 },
            at(0),
        )
    }

    #[test]
    fn a_text_is_cleaned_and_must_hold_something() {
        let content = |text: &str| Draft::new(MessageType::System, text).map(|draft| draft.content);
        assert_eq!(content("a\u{0}b\u{1b}[31m\r\nc\rd\te\u{85}").unwrap(), "ab[31m\nc\nd\te");
        for blank in ["", " \n\t", "\u{7}"] {
            assert_eq!(content(blank).unwrap_err().field, "content", "{blank:?}");
        }
        assert!(content(&"語".repeat(MAX_CONTENT_CHARS)).is_ok(), "characters are counted, not bytes");
        assert!(content(&"x".repeat(MAX_CONTENT_CHARS + 1)).is_err());
        assert_eq!(remark("\u{7} "), None);
        assert_eq!(remark(&"x".repeat(MAX_DETAIL_CHARS + 1)).unwrap().len(), MAX_DETAIL_CHARS);
    }

    #[test]
    fn every_type_has_its_names() {
        for (name, kind) in MessageType::NAMES {
            assert_eq!(MessageType::parse(name), Ok(kind));
            let there = MessageType::parse(kind.omoios_name()).unwrap();
            assert!(there == kind || (kind, there) == (MessageType::Stop, MessageType::Interrupt), "{name}");
            assert_eq!(there.is_urgent(), kind.is_urgent(), "{name}");
        }
        assert_eq!(MessageType::parse("shout").unwrap_err().field, "message_type");
        assert_eq!(State::parse_receipt("fetched").unwrap_err().field, "state");
    }

    proptest! {
        #[test]
        fn a_message_goes_forward_only(
            told in proptest::collection::vec((0usize..5, 0i64..100), 0..30),
        ) {
            let states = [State::Fetched, State::Delivered, State::Started, State::Completed, State::Cancelled];
            let mut message = message();
            for (state, secs) in told {
                let before = message.state();
                let noted = message.advance(Receipt { state: states[state], at: at(secs), detail: None });
                prop_assert_eq!(noted, message.state() != before);
                prop_assert!(message.state() >= before);
                prop_assert!(!before.is_final() || message.state() == before);
            }
            let reached: Vec<State> = message.receipts.iter().map(|receipt| receipt.state).collect();
            prop_assert!(reached.windows(2).all(|pair| pair[0] < pair[1]), "each once: {:?}", reached);
        }
    }
}
