//! Requests of workers, and the registration of a sandbox for one.

use crate::limits::{MAX_BATCH_EVENTS, MAX_ENTRIES};
use crate::messages::MAX_RECEIPTS;
use crate::workspaces::{MAX_LEFT_OUT, MAX_PIECES};
use domain::kept::{DIGEST_PATTERN, Format, LeftOut, MAX_FILE_BYTES};
use domain::message::State;
use domain::{EventId, EventType, JsonObject, MessageId, OrgId, SandboxId, SessionId, Source, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// The largest integer that a double represents exactly.
const MAX_NUMBER: u64 = 9_007_199_254_740_991;

/// `POST /api/v1/sandboxes`. The body may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RegisterSandbox {
    /// Generated when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// Default: the org of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub org: Option<OrgId>,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub name: Option<String>,
    /// The session that its agent continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumes: Option<SessionId>,
}

/// `POST /api/v1/sandboxes/{id}/events`: one event, or a numbered batch, which has `events`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SendEvents {
    Batch(SendBatch),
    Single(SendEvent),
}

/// A numbered batch. A retry with the same number is stored once.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SendBatch {
    /// Number of the worker's run.
    #[schemars(range(min = 1, max = MAX_NUMBER))]
    pub epoch: u64,
    /// 1 for the first batch of an epoch, then one more each time.
    #[schemars(range(min = 1, max = MAX_NUMBER))]
    pub batch: u64,
    #[schemars(length(min = 1, max = MAX_BATCH_EVENTS))]
    pub events: Vec<SendEvent>,
}

/// An event of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SendEvent {
    /// Types of the plane, such as `message.queued`, are reserved.
    pub event_type: EventType,
    /// Default: `{}`. `docs/event-payloads.schema.json` has the fields that the plane and the console read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, with = "JsonObject")]
    pub event_data: Option<JsonObject>,
    /// Default: `agent`. A worker may send `agent` and `worker`, an operator also `guardian`; the others are those of the
    /// plane's own events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, with = "Source")]
    pub source: Option<Source>,
    /// Generated when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emitted_at: Option<Timestamp>,
}

/// `POST /api/v1/sandboxes/{id}/messages/ack`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SendReceipts {
    #[schemars(length(min = 1, max = MAX_RECEIPTS))]
    pub receipts: Vec<SendReceipt>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SendReceipt {
    pub message_id: MessageId,
    /// `delivered`, `started`, `completed` or `cancelled`.
    #[schemars(extend("enum" = ["delivered", "started", "completed", "cancelled"]))]
    pub state: State,
    /// A remark, shortened if it is too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// `POST …/sessions/{session_id}/entries`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AppendEntries {
    /// Number of the first entry.
    #[schemars(range(min = 1, max = MAX_NUMBER))]
    pub first: u64,
    #[schemars(length(min = 1, max = MAX_ENTRIES))]
    pub entries: Vec<JsonObject>,
}

/// `POST /api/v1/sandboxes/{id}/workspace/pieces`: a piece of a file of the workspace. A retry stores it once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeepPiece {
    /// SHA-256 of the whole file.
    #[schemars(regex(pattern = DIGEST_PATTERN))]
    pub sha256: String,
    /// 1 for the first piece.
    #[schemars(range(min = 1, max = MAX_PIECES))]
    pub piece: u64,
    /// In base64: 2 MiB, the last piece possibly less.
    pub data: String,
}

/// `POST /api/v1/sandboxes/{id}/workspace`: what is kept of the workspace, once all pieces are stored. It replaces what was
/// kept of this attempt before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeepWork {
    /// One of each format.
    #[schemars(length(min = 1, max = 3))]
    pub files: Vec<KeepFile>,
    /// The first parts of the workspace that are not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_LEFT_OUT))]
    pub left_out: Option<Vec<LeftOut>>,
    /// Number of parts that are not kept. Default: the length of `left_out`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out_count: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeepFile {
    pub format: Format,
    #[schemars(range(max = MAX_FILE_BYTES))]
    pub size_bytes: u64,
    #[schemars(regex(pattern = DIGEST_PATTERN))]
    pub sha256: String,
}
