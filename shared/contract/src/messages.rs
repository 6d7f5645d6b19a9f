//! `…/messages`: sending messages to an agent, pulling and acknowledging them, and their history.

use crate::bad_input::BadInput;
use domain::message::{Draft, Message, MessageType, Receipt, Sender, State, clean_detail};
use domain::{Invalid, MessageId, SandboxId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum wait of a long poll. API Gateway ends a request after 30 s, and SQS supports no longer wait.
pub const MAX_WAIT_SECS: u64 = 20;
/// `docs/cost.md` explains the choice.
pub const DEFAULT_WAIT_SECS: u64 = 2;
/// Maximum number of messages per pull.
pub const MAX_PULL: usize = 10;
/// Maximum number of messages that a pull can report as held.
pub const MAX_HOLDING: usize = 20;
/// Default visibility timeout of a pulled message.
pub const DEFAULT_HIDDEN_SECS: u64 = 30;
pub const MAX_HIDDEN_SECS: u64 = 600;
/// Maximum number of receipts per request: each may write two items, and a transaction is limited to a hundred.
pub const MAX_RECEIPTS: usize = 25;
/// Maximum number of messages on a page of the history.
pub const MAX_HISTORY: usize = 100;

/// `POST …/messages`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Send {
    /// Generated when absent. With an id, the request is idempotent.
    pub id: Option<MessageId>,
    pub draft: Draft,
}

impl Send {
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageQueued {
    /// Always `queued`.
    pub status: String,
    pub message_id: MessageId,
    pub sandbox_id: SandboxId,
    /// Number of waiting messages at that time, including this one.
    pub queue_size: u64,
    /// Sequence number of its `message.queued` event: the events of its receipts follow in the log.
    pub seq: u64,
}

impl MessageQueued {
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

/// `GET …/messages?ack=manual`: to be acknowledged with receipts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PulledMessages")]
pub struct Pulled {
    pub sandbox_id: SandboxId,
    /// Urgent messages first, then in the order in which they were sent.
    pub messages: Vec<MessageOut>,
    /// Number of messages that are not acknowledged, including these.
    pub queue_size: u64,
}

/// A message on the SQS queue of a sandbox. It outlives the deploy that wrote it: new fields need defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedMessage {
    pub id: MessageId,
    pub version: u32,
    pub message_type: MessageType,
    pub sender: Sender,
    pub content: String,
    pub sent_at: Timestamp,
    /// When this version was sent.
    pub queued_at: Timestamp,
}

impl QueuedMessage {
    /// SQS accepts the characters of XML 1.0 only, so the two that JSON does not escape are escaped here.
    pub fn encode(&self) -> String {
        let json = serde_json::to_string(self).expect("our own structs serialize to JSON");
        json.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff")
    }

    pub fn decode(body: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(body)
    }

    pub fn deduplication_id(&self) -> String {
        format!("{}.{}", self.id, self.version)
    }
}

impl From<&Message> for QueuedMessage {
    fn from(message: &Message) -> Self {
        Self {
            id: message.id.clone(),
            version: message.version,
            message_type: message.message_type,
            sender: message.sender.clone(),
            content: message.content.clone(),
            sent_at: message.sent_at(),
            queued_at: message.queued_at(),
        }
    }
}

/// A message in the response to a pull.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageOut {
    pub id: MessageId,
    pub message_type: MessageType,
    pub sender: Sender,
    pub content: String,
    pub timestamp: Timestamp,
    pub receipt: Delivery,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessageDelivery")]
pub struct Delivery {
    /// `fetched`.
    pub state: State,
    /// How often it was pulled, including this time.
    pub delivery: u32,
    /// End of the visibility timeout: the message is delivered again unless it is acknowledged before.
    pub returns_at: Timestamp,
}

impl MessageOut {
    /// `delivery` counts the pulls of the message, including this one.
    pub fn new(message: QueuedMessage, delivery: u32, returns_at: Timestamp) -> Self {
        Self {
            id: message.id,
            message_type: message.message_type,
            sender: message.sender,
            content: message.content,
            timestamp: message.sent_at,
            receipt: Delivery { state: State::Fetched, delivery, returns_at },
        }
    }
}

/// A message in the list that OmoiOS workers read. It is acknowledged by being in that list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlainMessage {
    pub id: MessageId,
    pub content: String,
    /// The name in OmoiOS.
    pub message_type: String,
    pub timestamp: Timestamp,
}

impl From<QueuedMessage> for PlainMessage {
    fn from(message: QueuedMessage) -> Self {
        Self {
            message_type: message.message_type.omoios_name().to_owned(),
            id: message.id,
            content: message.content,
            timestamp: message.sent_at,
        }
    }
}

/// A receipt in `POST …/messages/ack`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptIn {
    pub message_id: MessageId,
    pub state: State,
    pub detail: Option<String>,
}

impl ReceiptIn {
    /// Decodes a body `{"receipts":[…]}`.
    pub fn decode(body: &[u8]) -> Result<Vec<Self>, BadInput> {
        let object = read_object(body)?;
        let receipts = object.get("receipts").ok_or_else(|| BadInput::invalid("receipts", "is missing"))?;
        let receipts = receipts.as_array().filter(|list| (1..=MAX_RECEIPTS).contains(&list.len()));
        let reason = format!("must be a list of 1 to {MAX_RECEIPTS} receipts");
        let receipts = receipts.ok_or_else(|| BadInput::invalid("receipts", reason))?;
        let each = receipts.iter().enumerate().map(|(index, receipt)| {
            let path = format!("receipts[{index}]");
            match receipt.as_object() {
                Some(receipt) => Self::check(receipt).map_err(|wrong| wrong.inside(&path).into()),
                None => Err(BadInput::invalid(path, "must be an object")),
            }
        });
        each.collect()
    }

    fn check(receipt: &Map<String, Value>) -> Result<Self, Invalid> {
        let required = |field: &str| text(receipt, field)?.ok_or_else(|| Invalid::new(field, "is missing"));
        Ok(Self {
            message_id: MessageId::parse(required("message_id")?)?,
            state: State::parse_receipt(required("state")?)?,
            detail: text(receipt, "detail")?.and_then(clean_detail),
        })
    }
}

/// Response to `POST …/messages/ack`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessagesAcknowledged")]
pub struct Acknowledged {
    /// Always `acknowledged`.
    pub status: String,
    pub sandbox_id: SandboxId,
    /// One per receipt, in order.
    pub receipts: Vec<ReceiptOut>,
    /// Number of messages that are not acknowledged.
    pub queue_size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptOut {
    pub message_id: MessageId,
    /// The state of the message now.
    pub state: State,
    /// Whether this receipt changed the state; `false` for a repeated or late receipt.
    pub changed: bool,
}

/// `GET …/messages/history`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessageHistory")]
pub struct History {
    pub sandbox_id: SandboxId,
    /// Newest first.
    pub messages: Vec<MessageRecord>,
    /// Number of messages that are not acknowledged.
    pub queue_size: u64,
    /// Send it as `before` for older messages; `null` on the last page.
    pub next_before: Option<u64>,
}

/// A message in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageRecord {
    pub id: MessageId,
    /// Sequence number of its `message.queued` event.
    pub seq: u64,
    pub message_type: MessageType,
    pub sender: Sender,
    pub content: String,
    pub timestamp: Timestamp,
    pub state: State,
    /// 1, and one more each time it was sent again.
    pub version: u32,
    /// How often a worker has pulled this version.
    pub deliveries: u32,
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
            version: message.version,
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

    #[test]
    fn queued_message_keeps_every_character_and_is_valid_for_sqs() {
        let content = "a\u{ffff}\u{fffe}\u{1f600}\n\"\\";
        let message = QueuedMessage {
            id: MessageId::parse("m-1").unwrap(),
            version: 2,
            message_type: MessageType::Interrupt,
            sender: Sender { kind: "user".into(), id: None },
            content: content.into(),
            sent_at: Timestamp::from_secs(7),
            queued_at: Timestamp::from_secs(8),
        };
        let body = message.encode();
        assert!(!body.contains(['\u{ffff}', '\u{fffe}']), "{body}");
        assert_eq!(QueuedMessage::decode(&body).unwrap(), message);
        assert_eq!(message.deduplication_id(), "m-1.2");
    }

    fn wrong_field<T: std::fmt::Debug>(read: Result<T, BadInput>) -> String {
        match read {
            Err(BadInput::Invalid(wrong)) => wrong.field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_the_content_of_a_message_is_required() {
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
    fn the_invalid_receipt_is_named() {
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
