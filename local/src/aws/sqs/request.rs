//! SQS requests as the SDK sends them. Unknown fields are rejected.

use super::refusal::Refusal;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::Malformed(error.to_string()))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct CreateQueue {
    pub(super) queue_name: String,
    #[serde(default)]
    pub(super) attributes: BTreeMap<String, String>,
    // Unlike all other fields, it is not capitalised.
    #[serde(default, rename = "tags")]
    pub(super) tags: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct ListQueues {
    #[serde(default)]
    pub(super) queue_name_prefix: String,
    pub(super) max_results: Option<usize>,
    pub(super) next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct ListQueueTags {
    pub(super) queue_url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct DeleteQueue {
    pub(super) queue_url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct GetQueueAttributes {
    pub(super) queue_url: String,
    #[serde(default)]
    pub(super) attribute_names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct SendMessage {
    pub(super) queue_url: String,
    pub(super) message_body: String,
    #[serde(default)]
    pub(super) delay_seconds: u64,
    pub(super) message_group_id: Option<String>,
    pub(super) message_deduplication_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct ReceiveMessage {
    pub(super) queue_url: String,
    pub(super) max_number_of_messages: Option<i64>,
    pub(super) wait_time_seconds: Option<i64>,
    pub(super) visibility_timeout: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct DeleteMessage {
    pub(super) queue_url: String,
    pub(super) receipt_handle: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct ChangeMessageVisibility {
    pub(super) queue_url: String,
    pub(super) receipt_handle: String,
    pub(super) visibility_timeout: i64,
}
