//! `…/messages`: what is sent to an agent, what its worker takes, and how far each message has come.

use crate::bad_input::BadInput;
use domain::message::{Draft, Message, MessageType, Receipt, Sender, State, remark};
use domain::{Invalid, MessageId, SandboxId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest wait of a pull. API Gateway ends a request after 30 s, and SQS waits no longer than this.
pub const MAX_WAIT_SECS: u64 = 20;
/// The wait of a pull that does not say: `docs/cost.md` has the numbers it was chosen by.
pub const DEFAULT_WAIT_SECS: u64 = 2;
/// Most messages of one pull.
pub const MAX_PULL: usize = 10;
/// For how long a message that was handed out stays hidden, unless the worker says otherwise.
pub const DEFAULT_HIDDEN_SECS: u64 = 30;
/// And for how long at most.
pub const MAX_HIDDEN_SECS: u64 = 600;
/// Most receipts of one request: each may write two items, and a transaction holds a hundred.
pub const MAX_RECEIPTS: usize = 25;
/// Most messages on a page of the history.
pub const MAX_HISTORY: usize = 100;

/// `POST …/messages`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Send {
    /// The sender's id; made up when absent. A repeat with the same id is one message.
    pub id: Option<MessageId>,
    /// What is said.
    pub draft: Draft,
}

impl Send {
    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let object = read_object(body)?;
        let content = text(&object, "content")?.ok_or_else(|| BadInput::invalid("content", "is missing"))?;
        let message_type = match text(&object, "message_type")? {
            Some(name) => MessageType::parse(name)?,
            None => MessageType::UserMessage,
        };
        let id = text(&object, "message_id")?.map(MessageId::parse).transpose()?;
        Ok(Self { id, draft: Draft::new(message_type, content)? })
    }
}

/// The answer to a message: it is stored, and will reach the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageQueued {
    /// Always `queued`.
    pub status: String,
    /// Under which id.
    pub message_id: MessageId,
    /// For whom.
    pub sandbox_id: SandboxId,
    /// How many waited for the worker then, this one included.
    pub queue_size: u64,
    /// The sequence number of the event that tells of it: whoever follows the log from there sees its receipts.
    pub seq: u64,
}

impl MessageQueued {
    /// What its sender is told.
    pub fn new(sandbox_id: SandboxId, message: &Message) -> Self {
        Self {
            status: State::Queued.to_string(),
            message_id: message.id.clone(),
            sandbox_id,
            queue_size: message.queue_size,
            seq: message.number,
        }
    }
}

/// `GET …/messages?ack=manual`: to be confirmed with receipts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulled {
    /// Whose.
    pub sandbox_id: SandboxId,
    /// Urgent ones first, then in the order in which they were sent.
    pub messages: Vec<MessageOut>,
    /// How many wait to be confirmed, these included.
    pub queue_size: u64,
}

/// A message, as a worker gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageOut {
    /// Its id.
    pub id: MessageId,
    /// What it is meant to do.
    pub message_type: MessageType,
    /// Who sent it.
    pub sender: Sender,
    /// Its text.
    pub content: String,
    /// When it was sent.
    pub timestamp: Timestamp,
    /// What is expected of the worker.
    pub receipt: Handover,
}

/// A message in a worker's hands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// `fetched`.
    pub state: State,
    /// How often it was handed out, this time included.
    pub delivery: u32,
    /// When it comes back unless it is confirmed.
    pub returns_at: Timestamp,
}

impl MessageOut {
    /// A message on its way out, to come back at a time.
    pub fn new(message: &Message, returns_at: Timestamp) -> Self {
        Self {
            id: message.id.clone(),
            message_type: message.message_type,
            sender: message.sender.clone(),
            content: message.content.clone(),
            timestamp: message.sent_at(),
            receipt: Handover { state: message.state(), delivery: message.deliveries, returns_at },
        }
    }
}

/// One of the plain list that OmoiOS workers read: what is in it is confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainMessage {
    /// Its id.
    pub id: MessageId,
    /// Its text.
    pub content: String,
    /// What it is meant to do, as OmoiOS calls it.
    pub message_type: String,
    /// When it was sent.
    pub timestamp: Timestamp,
}

impl From<&Message> for PlainMessage {
    fn from(message: &Message) -> Self {
        Self {
            id: message.id.clone(),
            content: message.content.clone(),
            message_type: message.message_type.omoios_name().to_owned(),
            timestamp: message.sent_at(),
        }
    }
}

/// What a worker says of one message, in `POST …/messages/ack`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptIn {
    /// Which.
    pub message_id: MessageId,
    /// How far it has come.
    pub state: State,
    /// A remark.
    pub detail: Option<String>,
}

impl ReceiptIn {
    /// Reads a body `{"receipts":[…]}`.
    pub fn decode(body: &[u8]) -> Result<Vec<Self>, BadInput> {
        let object = read_object(body)?;
        let receipts = object.get("receipts").ok_or_else(|| BadInput::invalid("receipts", "is missing"))?;
        let receipts = receipts.as_array().filter(|list| (1..=MAX_RECEIPTS).contains(&list.len()));
        let reason = format!("must be a list of 1 to {MAX_RECEIPTS} receipts");
        let receipts = receipts.ok_or_else(|| BadInput::invalid("receipts", reason))?;
        let each = receipts.iter().enumerate().map(|(index, receipt)| {
            let place = format!("receipts[{index}]");
            match receipt.as_object() {
                Some(receipt) => Self::check(receipt).map_err(|wrong| wrong.inside(&place).into()),
                None => Err(BadInput::invalid(place, "must be an object")),
            }
        });
        each.collect()
    }

    fn check(receipt: &Map<String, Value>) -> Result<Self, Invalid> {
        let required = |field: &str| text(receipt, field)?.ok_or_else(|| Invalid::new(field, "is missing"));
        Ok(Self {
            message_id: MessageId::parse(required("message_id")?)?,
            state: State::parse_receipt(required("state")?)?,
            detail: text(receipt, "detail")?.and_then(remark),
        })
    }
}

/// The answer to receipts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// Always `acknowledged`.
    pub status: String,
    /// Whose.
    pub sandbox_id: SandboxId,
    /// One for each receipt, in their order.
    pub receipts: Vec<ReceiptOut>,
    /// How many still wait to be confirmed.
    pub queue_size: u64,
}

/// What became of a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptOut {
    /// Which message.
    pub message_id: MessageId,
    /// How far it has come now.
    pub state: State,
    /// Whether this receipt brought it there; `false` for a repeat, or for one that came too late.
    pub changed: bool,
}

/// `GET …/messages/history`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Whose.
    pub sandbox_id: SandboxId,
    /// Newest first.
    pub messages: Vec<MessageRecord>,
    /// How many wait for the worker.
    pub queue_size: u64,
    /// Ask for what came before with this `before`; `null` at the beginning.
    pub next_before: Option<u64>,
}

/// A message and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRecord {
    /// Its id.
    pub id: MessageId,
    /// The sequence number of the event that told of it.
    pub seq: u64,
    /// What it is meant to do.
    pub message_type: MessageType,
    /// Who sent it.
    pub sender: Sender,
    /// Its text.
    pub content: String,
    /// When it was sent.
    pub timestamp: Timestamp,
    /// How far it has come.
    pub state: State,
    /// How often it was handed to a worker.
    pub deliveries: u32,
    /// When it reached each state.
    pub receipts: Vec<Receipt>,
}

impl From<Message> for MessageRecord {
    fn from(message: Message) -> Self {
        Self {
            seq: message.number,
            timestamp: message.sent_at(),
            state: message.state(),
            id: message.id,
            message_type: message.message_type,
            sender: message.sender,
            content: message.content,
            deliveries: message.deliveries,
            receipts: message.receipts,
        }
    }
}

fn read_object(body: &[u8]) -> Result<Map<String, Value>, BadInput> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|e| BadInput::Malformed(format!("The body is not valid JSON: {e}.")))?;
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(BadInput::invalid("body", "must be a JSON object")),
    }
}

fn text<'a>(object: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, Invalid> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Invalid::new(field, "must be a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_field<T: std::fmt::Debug>(read: Result<T, BadInput>) -> String {
        match read {
            Err(BadInput::Invalid(wrong)) => wrong.field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_says_what_it_must_and_may_say_more() {
        let plain = Send::decode(br#"{"content":"use sqlite"}"#).unwrap();
        assert_eq!((plain.id, plain.draft.message_type), (None, MessageType::UserMessage));
        let nudge =
            Send::decode(br#"{"content":"a\u0007b","message_type":"guardian_nudge","message_id":"m-1"}"#);
        let nudge = nudge.unwrap();
        assert_eq!((nudge.draft.message_type, nudge.draft.content.as_str()), (MessageType::Guidance, "ab"));
        for (body, field) in [
            ("{}", "content"),
            (r#"{"content":null}"#, "content"),
            (r#"{"content":""}"#, "content"),
            (r#"{"content":7}"#, "content"),
            (r#"{"content":"a","message_type":"shout"}"#, "message_type"),
            (r#"{"content":"a","message_type":1}"#, "message_type"),
            (r#"{"content":"a","message_id":"a b"}"#, "message_id"),
            ("[]", "body"),
        ] {
            assert_eq!(wrong_field(Send::decode(body.as_bytes())), field, "{body}");
        }
        assert!(matches!(Send::decode(b"{"), Err(BadInput::Malformed(_))));
    }

    #[test]
    fn receipts_are_read_or_refused_by_place() {
        let read = ReceiptIn::decode(
            br#"{"receipts":[{"message_id":"m-1","state":"delivered"},
                             {"message_id":"m-1","state":"cancelled","detail":"stopped"}]}"#,
        );
        let states: Vec<State> = read.unwrap().into_iter().map(|receipt| receipt.state).collect();
        assert_eq!(states, [State::Delivered, State::Cancelled]);
        for (body, field) in [
            ("{}", "receipts"),
            (r#"{"receipts":[]}"#, "receipts"),
            (r#"{"receipts":{}}"#, "receipts"),
            (r#"{"receipts":[3]}"#, "receipts[0]"),
            (r#"{"receipts":[{"state":"delivered"}]}"#, "receipts[0].message_id"),
            (r#"{"receipts":[{"message_id":"m-1"}]}"#, "receipts[0].state"),
            (r#"{"receipts":[{"message_id":"m-1","state":"queued"}]}"#, "receipts[0].state"),
            (r#"{"receipts":[{"message_id":"m-1","state":"started","detail":1}]}"#, "receipts[0].detail"),
        ] {
            assert_eq!(wrong_field(ReceiptIn::decode(body.as_bytes())), field, "{body}");
        }
    }
}
