//! problem+json (RFC 9457): every refusal and every failure in one shape.

use serde::{Deserialize, Serialize};

/// What went wrong, for the one who asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:sunaba:problem:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The HTTP status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A stable word to match on.
    pub code: String,
    /// A sentence for a person. OmoiOS clients read this field too.
    pub detail: String,
    /// The field that is wrong, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// To find it in the logs.
    pub request_id: String,
    /// Facts that a program can act on: the epoch that holds, the batch that is expected.
    #[serde(flatten)]
    pub facts: serde_json::Map<String, serde_json::Value>,
}

/// Its media type.
pub const MEDIA_TYPE: &str = "application/problem+json";
