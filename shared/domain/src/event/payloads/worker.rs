//! Events about the worker itself: how it isolates the agent, and what it could not deliver.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the agent is isolated from the worker and from the machine. Emitted at each start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerIsolation {
    /// `namespaces`, `landlock`, `sandbox-exec` or `none`.
    pub tier: String,
    /// What the agent can still do, in sentences.
    pub not_covered: Vec<String>,
}

/// The outbox drops events: emitted when that begins and when it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerOutboxFull {
    /// `true` when it begins.
    pub ongoing: bool,
    /// When it began.
    pub since: String,
    /// Size of the outbox.
    pub bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Number of dropped events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_by_type: Option<BTreeMap<String, u64>>,
    /// Number of events with shortened texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortened: Option<u64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The counts are a lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<bool>,
}

/// A record that the plane will never accept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Refusal {
    /// The plane's error code.
    pub code: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The invalid field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    pub size_bytes: u64,
}

/// The plane rejected an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerEventRefused(pub Refusal);

/// The plane rejected a receipt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerReceiptRefused(pub Refusal);

/// An entry of the agent's transcript is too large, or the plane rejected it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerTranscriptRefused {
    #[serde(flatten)]
    pub refusal: Refusal,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Number of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
}

/// The plane misses entries of the agent's transcript; they are sent again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerTranscriptBehind {
    pub session_id: String,
    /// Number of the first entry that the plane misses.
    pub expected_first: u64,
    /// Number of the entry that was sent.
    pub first: u64,
}

/// Records of the outbox are damaged or missing on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerSpoolDamaged {
    /// `events`, `receipts` or `transcripts`.
    pub queue: String,
    /// Number of the damaged record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Number of missing records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_records: Option<u64>,
}

/// The agent's transcript is no longer copied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerTranscriptLost {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The plane's error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    pub error: String,
}
