//! Messages to a running agent, and their delivery state.

use crate::access::Principal;
use crate::{Invalid, MessageId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

pub const MAX_CONTENT_CHARS: usize = 10_000;
pub const MAX_DETAIL_CHARS: usize = 1_000;

/// A message as stored in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Chosen by the sender, or generated.
    pub id: MessageId,
    /// Sequence number of its first `message.queued` event.
    pub number: u64,
    /// Its place in the mailbox: the sequence number of its last `message.queued` event.
    pub position: u64,
    /// 1, and one more each time it was sent again. A copy on the queue with another version is obsolete.
    pub version: u32,
    pub message_type: MessageType,
    pub content: String,
    pub sender: Sender,
    /// Number of waiting messages when it was sent, including itself, as answered to the sender.
    pub queue_size: u64,
    /// How often a worker has pulled this version.
    pub deliveries: u32,
    /// Opaque handle of the copy that the last pull received from the queue; it deletes that copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_handle: Option<String>,
    /// One per state that it has reached, in order. The first of each version is `queued`.
    pub receipts: Vec<Receipt>,
}

/// Records that a message reached a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessageReceipt")]
pub struct Receipt {
    pub state: State,
    pub at: Timestamp,
    /// A remark of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageType {
    /// A prompt from a user.
    UserMessage,
    /// Stops the current turn; then the content is the next prompt. Urgent.
    Interrupt,
    /// Stops the current turn, discards prompts that are not started, and waits. Urgent.
    Stop,
    /// Guidance from a supervisor of the agent. OmoiOS calls it `guardian_nudge`.
    Guidance,
    /// A notice from the plane.
    System,
}

/// Delivery state of a message. Later states are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "MessageState")]
pub enum State {
    /// Stored.
    Queued,
    /// Pulled by a worker, which has not acknowledged it yet.
    Fetched,
    /// Pulled too often without an acknowledgement. It can be sent again or cancelled.
    Undeliverable,
    /// The worker has passed it to the agent.
    Delivered,
    /// The agent works on it.
    Started,
    /// The agent has completed it.
    Completed,
    /// The agent will not work on it, or has stopped.
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessageSender")]
pub struct Sender {
    /// `user` or `operator`.
    pub kind: String,
    /// The id of the user, the name of the operator, or the sandbox of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Message {
    /// A queued message.
    pub fn new(id: MessageId, draft: Draft, sender: Sender, position: Position, now: Timestamp) -> Self {
        let Draft { message_type, content } = draft;
        let Position { number, queue_size } = position;
        let receipts = vec![Receipt { state: State::Queued, at: now, detail: None }];
        Self {
            id,
            number,
            position: number,
            version: 1,
            message_type,
            content,
            sender,
            queue_size,
            deliveries: 0,
            queue_handle: None,
            receipts,
        }
    }

    /// The next version of an undeliverable message, at the end of the mailbox.
    pub fn send_again(&mut self, position: Position, now: Timestamp) {
        self.version += 1;
        (self.position, self.queue_size) = (position.number, position.queue_size);
        (self.deliveries, self.queue_handle) = (0, None);
        self.receipts.push(Receipt { state: State::Queued, at: now, detail: None });
    }

    pub fn state(&self) -> State {
        self.receipts.last().map_or(State::Queued, |receipt| receipt.state)
    }

    pub fn sent_at(&self) -> Timestamp {
        self.receipts.first().map_or(Timestamp::from_micros(0), |receipt| receipt.at)
    }

    /// When its last version was sent.
    pub fn queued_at(&self) -> Timestamp {
        let queued = self.receipts.iter().rev().find(|receipt| receipt.state == State::Queued);
        queued.map_or(self.sent_at(), |receipt| receipt.at)
    }

    /// Whether it is in the mailbox: no worker has acknowledged it yet.
    pub fn is_waiting(&self) -> bool {
        self.state() < State::Undeliverable
    }

    /// Records a receipt; `false` if the message has reached that state before, or a final one.
    ///
    /// **Invariant:** the state of a version only advances, even if receipts arrive late or twice.
    pub fn advance(&mut self, receipt: Receipt) -> bool {
        let state = self.state();
        let advances = !state.is_final() && receipt.state > state;
        if advances {
            self.receipts.push(receipt);
        }
        advances
    }

    /// Whether it has the same type and content.
    pub fn matches(&self, draft: &Draft) -> bool {
        self.message_type == draft.message_type && self.content == draft.content
    }
}

/// Position of a message in the mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Sequence number of its `message.queued` event.
    pub number: u64,
    /// Number of waiting messages, including itself.
    pub queue_size: u64,
}

/// A validated message that is not sent yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub message_type: MessageType,
    pub content: String,
}

impl Draft {
    /// Removes control characters and rejects blank or long content.
    pub fn new(message_type: MessageType, content: &str) -> Result<Self, Invalid> {
        let content = without_controls(content);
        if content.trim().is_empty() {
            return Err(Invalid::new("content", "must not be blank"));
        }
        if content.chars().count() > MAX_CONTENT_CHARS {
            return Err(Invalid::new("content", format!("must be at most {MAX_CONTENT_CHARS} characters")));
        }
        Ok(Self { message_type, content })
    }
}

/// The remark on a receipt, shortened and without control characters. It is never rejected: it comes from a program, which
/// could not correct it.
pub fn clean_detail(detail: &str) -> Option<String> {
    let detail: String = without_controls(detail).chars().take(MAX_DETAIL_CHARS).collect();
    Some(detail).filter(|detail| !detail.trim().is_empty())
}

/// Normalizes line ends to `\n`, keeps tabs, and removes all other control characters.
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

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let known = Self::NAMES.iter().find(|(name, _)| *name == text);
        let reason = "must be one of user_message, interrupt, stop, guidance, system";
        known.map(|(_, kind)| *kind).ok_or_else(|| Invalid::new("message_type", reason))
    }

    /// The name in OmoiOS, whose workers know only one way to stop an agent.
    pub fn omoios_name(self) -> &'static str {
        match self {
            Self::UserMessage => "user_message",
            Self::Interrupt | Self::Stop => "interrupt",
            Self::Guidance => "guardian_nudge",
            Self::System => "system",
        }
    }

    /// Whether it overtakes other messages.
    pub fn is_urgent(self) -> bool {
        matches!(self, Self::Interrupt | Self::Stop)
    }
}

impl State {
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Fetched,
        Self::Undeliverable,
        Self::Delivered,
        Self::Started,
        Self::Completed,
        Self::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Fetched => "fetched",
            Self::Undeliverable => "undeliverable",
            Self::Delivered => "delivered",
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Parses a state that a worker may report. The plane itself sets the earlier ones.
    pub fn parse_receipt(text: &str) -> Result<Self, Invalid> {
        let mut reported = Self::ALL.into_iter().filter(|state| *state >= Self::Delivered);
        reported
            .find(|state| state.as_str() == text)
            .ok_or_else(|| Invalid::new("state", "must be one of delivered, started, completed, cancelled"))
    }

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
    pub fn of(principal: &Principal) -> Self {
        let (kind, id) = match principal {
            Principal::Operator { name } => ("operator", Some(name.clone())),
            Principal::User { id, .. } => ("user", Some(id.clone())),
            Principal::Worker { sandbox, .. } => ("worker", Some(sandbox.to_string())),
            Principal::Anonymous => ("anonymous", None),
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
        let sender = Sender::of(&Principal::operator("local"));
        Message::new(
            MessageId::parse("m-1").unwrap(),
            draft,
            sender,
            Position { number: 7, queue_size: 1 },
            at(0),
        )
    }

    #[test]
    fn content_is_cleaned_and_must_not_be_blank() {
        let content = |text: &str| Draft::new(MessageType::System, text).map(|draft| draft.content);
        assert_eq!(content("a\u{0}b\u{1b}[31m\r\nc\rd\te\u{85}").unwrap(), "ab[31m\nc\nd\te");
        for blank in ["", " \n\t", "\u{7}"] {
            assert_eq!(content(blank).unwrap_err().field, "content", "{blank:?}");
        }
        assert!(content(&"語".repeat(MAX_CONTENT_CHARS)).is_ok(), "characters are counted, not bytes");
        assert!(content(&"x".repeat(MAX_CONTENT_CHARS + 1)).is_err());
        assert_eq!(clean_detail("\u{7} "), None);
        assert_eq!(clean_detail(&"x".repeat(MAX_DETAIL_CHARS + 1)).unwrap().len(), MAX_DETAIL_CHARS);
    }

    #[test]
    fn message_types_round_trip_through_omoios_names() {
        for (name, kind) in MessageType::NAMES {
            assert_eq!(MessageType::parse(name), Ok(kind));
            let translated = MessageType::parse(kind.omoios_name()).unwrap();
            assert!(
                translated == kind || (kind, translated) == (MessageType::Stop, MessageType::Interrupt),
                "{name}"
            );
            assert_eq!(translated.is_urgent(), kind.is_urgent(), "{name}");
        }
        assert_eq!(MessageType::parse("shout").unwrap_err().field, "message_type");
        assert_eq!(State::parse_receipt("fetched").unwrap_err().field, "state");
    }

    #[test]
    fn late_acknowledgement_of_an_undeliverable_message_counts() {
        let mut message = message();
        let receipt = |state| Receipt { state, at: at(1), detail: None };
        assert!(message.advance(receipt(State::Undeliverable)));
        assert!(!message.is_waiting());
        assert!(message.advance(receipt(State::Delivered)));
    }

    #[test]
    fn message_that_is_sent_again_is_a_new_version_at_the_end() {
        let mut message = message();
        message.deliveries = 5;
        message.advance(Receipt { state: State::Undeliverable, at: at(1), detail: None });
        message.send_again(Position { number: 90, queue_size: 3 }, at(2));
        assert_eq!((message.version, message.deliveries, message.state()), (2, 0, State::Queued));
        assert_eq!((message.number, message.position), (7, 90), "its place in the history stays");
        assert_eq!(message.sent_at(), at(0));
    }

    proptest! {
        #[test]
        fn state_only_advances(
            receipts in proptest::collection::vec((0usize..6, 0i64..100), 0..30),
        ) {
            let states = [State::Fetched, State::Undeliverable, State::Delivered, State::Started, State::Completed, State::Cancelled];
            let mut message = message();
            for (state, secs) in receipts {
                let before = message.state();
                let advanced = message.advance(Receipt { state: states[state], at: at(secs), detail: None });
                prop_assert_eq!(advanced, message.state() != before);
                prop_assert!(message.state() >= before);
                prop_assert!(!before.is_final() || message.state() == before);
            }
            let reached: Vec<State> = message.receipts.iter().map(|receipt| receipt.state).collect();
            prop_assert!(reached.windows(2).all(|pair| pair[0] < pair[1]), "each once: {:?}", reached);
        }
    }
}
