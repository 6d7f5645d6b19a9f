//! problem+json (RFC 9457): the format of every error response.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// `urn:sunaba:problem:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The reason phrase of the HTTP status.
    pub title: String,
    pub status: u16,
    /// Stable error code.
    pub code: String,
    /// A sentence for people. OmoiOS clients read this field too.
    pub detail: String,
    /// The invalid field, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Identifies the request in the logs of the plane.
    pub request_id: String,
    /// Details that a program can act on, such as the current epoch or the expected batch.
    #[serde(flatten)]
    pub facts: serde_json::Map<String, serde_json::Value>,
}

pub const MEDIA_TYPE: &str = "application/problem+json";
