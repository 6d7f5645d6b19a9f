//! Requests and responses about sandboxes.

use crate::bad_input::BadInput;
use crate::events::HeartbeatSummary;
use crate::query::{Parameter, Query};
use domain::message::Sender;
use domain::sandbox::{Ended, Status};
use domain::{Invalid, LogHash, OrgId, Sandbox, SandboxId, SessionId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// `POST /api/v1/sandboxes`: registers a sandbox that another system runs.
#[derive(Debug, Clone, Default)]
pub struct Register {
    /// Generated when absent.
    pub id: Option<SandboxId>,
    /// Default: the org of the caller.
    pub org: Option<OrgId>,
    /// Display name.
    pub name: Option<String>,
    /// The session that its agent continues.
    pub resumes: Option<SessionId>,
}

impl Register {
    /// The body may be empty.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        if body.is_empty() {
            return Ok(Self::default());
        }
        let value: serde_json::Value = serde_json::from_slice(body)
            .map_err(|e| BadInput::Malformed(format!("The body is not valid JSON: {e}.")))?;
        let object = value.as_object().ok_or_else(|| BadInput::invalid("body", "must be a JSON object"))?;
        let text = |field: &str| match object.get(field) {
            None | Some(serde_json::Value::Null) => Ok(None),
            Some(serde_json::Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(BadInput::invalid(field, "must be a string")),
        };
        let name = text("name")?.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        if name.as_ref().is_some_and(|name| name.chars().count() > 200 || name.chars().any(char::is_control))
        {
            return Err(BadInput::invalid(
                "name",
                "must be at most 200 characters, without control characters",
            ));
        }
        Ok(Self {
            id: text("sandbox_id")?.map(SandboxId::parse).transpose()?,
            org: text("org")?.map(OrgId::parse).transpose()?,
            name,
            resumes: text("resumes")?
                .map(SessionId::parse)
                .transpose()
                .map_err(|wrong| Invalid::new("resumes", wrong.reason))?,
        })
    }
}

/// A sandbox and the token of its worker, which is not shown again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SandboxRegistered")]
pub struct Registered {
    pub sandbox: SandboxOut,
    /// Sent by the worker as `Authorization: Bearer …`.
    pub worker_token: String,
    pub expires_at: Timestamp,
}

/// A sandbox in a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxOut {
    pub sandbox_id: SandboxId,
    pub org: OrgId,
    /// Display name.
    pub name: Option<String>,
    /// The session that its agent continues, if it was registered to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<SessionId>,
    /// Who registered it; not of a sandbox that the plane created for a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_by: Option<Sender>,
    pub status: Status,
    pub created_at: Timestamp,
    /// When the worker last sent anything.
    pub last_event_at: Option<Timestamp>,
    /// When an event last showed work.
    pub last_work_at: Option<Timestamp>,
    /// Last sequence number of its log.
    pub last_seq: u64,
    /// Epoch of the last batch that was stored.
    pub epoch: u64,
    /// Number of the last batch that was stored.
    pub batch: u64,
    pub heartbeats: HeartbeatSummary,
    /// The agent's state, as the latest heartbeat reported it.
    pub heartbeat_status: Option<String>,
    /// Number of events by type; rare types may have no counter.
    pub event_counts: BTreeMap<String, u64>,
    /// Number of messages that the worker has not acknowledged.
    #[serde(default)]
    pub queue_size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

impl From<&Sandbox> for SandboxOut {
    fn from(sandbox: &Sandbox) -> Self {
        let mut event_counts = BTreeMap::new();
        for (kind, count) in &sandbox.activity.counts.kinds {
            let event_type = kind.split_once(' ').map_or(kind.as_str(), |(_, event_type)| event_type);
            *event_counts.entry(event_type.to_owned()).or_insert(0) += count;
        }
        Self {
            sandbox_id: sandbox.id.clone(),
            org: sandbox.org.clone(),
            name: sandbox.name.clone(),
            resumes: sandbox.resumes.clone(),
            registered_by: sandbox.registered_by.clone(),
            status: sandbox.status(),
            created_at: sandbox.created_at,
            last_event_at: sandbox.activity.last_event_at,
            last_work_at: sandbox.activity.last_work_at,
            last_seq: sandbox.seq,
            epoch: sandbox.activity.batch.epoch,
            batch: sandbox.activity.batch.batch,
            heartbeats: HeartbeatSummary::from(sandbox),
            heartbeat_status: sandbox.activity.heartbeats.last_status.clone(),
            event_counts,
            queue_size: sandbox.activity.waiting,
            ended: sandbox.activity.ended.clone(),
        }
    }
}

impl From<&Sandbox> for HeartbeatSummary {
    fn from(sandbox: &Sandbox) -> Self {
        Self {
            count: sandbox.activity.heartbeats.count,
            first_heartbeat: sandbox.activity.heartbeats.first_at,
            last_heartbeat: sandbox.activity.heartbeats.last_at,
        }
    }
}

/// `GET /api/v1/sandboxes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxList {
    /// Newest first.
    pub sandboxes: Vec<SandboxOut>,
    /// Send it as `cursor` for the next page; `null` on the last page.
    pub next_cursor: Option<String>,
}

/// `GET /api/v1/sandboxes/{id}/logs`: which lines of the worker's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogQuery {
    /// Maximum number of lines.
    pub lines: usize,
    pub position: LogPosition,
}

/// A position in a worker's log. Offsets come from the fields of a [`LogPage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPosition {
    /// The last lines.
    End,
    /// The last lines before this offset.
    Before(u64),
    /// The first lines from this offset on.
    After(u64),
}

impl LogQuery {
    pub const PARAMETERS: &[Parameter] = &[Self::LINES, Self::BEFORE, Self::AFTER];

    const LINES: Parameter = Parameter::integer("lines", 1, 1000, "Maximum number of lines.").or(100);
    const BEFORE: Parameter =
        Parameter::integer("before", 0, u64::MAX, "The last lines before this offset; not with `after`.");
    const AFTER: Parameter =
        Parameter::integer("after", 0, u64::MAX, "The first lines from this offset on; not with `before`.");

    /// Decodes [`Self::PARAMETERS`].
    pub fn decode(query: &Query) -> Result<Self, BadInput> {
        let lines = query.size(&Self::LINES)?;
        let position = match (query.number(&Self::BEFORE)?, query.number(&Self::AFTER)?) {
            (None, None) => LogPosition::End,
            (Some(before), None) => LogPosition::Before(before),
            (None, Some(after)) => LogPosition::After(after),
            (Some(_), Some(_)) => return Err(BadInput::invalid("before", "must not be given with after")),
        };
        Ok(Self { lines, position })
    }
}

/// Lines of a worker's log, with secrets redacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPage {
    pub sandbox_id: SandboxId,
    /// Oldest first.
    pub lines: Vec<String>,
    /// Send it as `before` for older lines; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Send it as `after` for the next lines.
    pub after: u64,
}

/// `GET /api/v1/sandboxes/{id}/verification`: which part of the log to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerificationQuery {
    pub after_seq: u64,
    pub to_seq: Option<u64>,
}

impl VerificationQuery {
    pub const PARAMETERS: &[Parameter] = &[Self::AFTER_SEQ, Self::TO_SEQ];

    const AFTER_SEQ: Parameter = Parameter::integer(
        "after_seq",
        0,
        u64::MAX - 1,
        "Continue after this event: `verified_seq` of the previous response.",
    )
    .or(0);
    const TO_SEQ: Parameter = Parameter::integer(
        "to_seq",
        1,
        u64::MAX,
        "Stop at this event, to compare `log_hash` with one that is known from the event bus.",
    );

    /// Decodes [`Self::PARAMETERS`].
    pub fn decode(query: &Query) -> Result<Self, BadInput> {
        let after_seq = query.number_or_default(&Self::AFTER_SEQ)?;
        let to_seq = query.number(&Self::TO_SEQ)?;
        if to_seq.is_some_and(|to_seq| to_seq <= after_seq) {
            return Err(BadInput::invalid("to_seq", "must be greater than after_seq"));
        }
        Ok(Self { after_seq, to_seq })
    }
}

/// Whether a part of a log is what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogVerification {
    pub sandbox_id: SandboxId,
    /// Last sequence number of the log.
    pub last_seq: u64,
    /// The log is verified up to this event. Send it as `after_seq` to continue.
    pub verified_seq: u64,
    /// The running hash of the log at `verified_seq`. `null` if no event up to there has one.
    pub log_hash: Option<LogHash>,
    /// Number of events in this part that were stored before logs had hashes. They are not verified.
    pub unhashed_events: u64,
    /// Whether there are events after `verified_seq` to verify.
    pub has_more: bool,
    /// The first problem; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<LogProblem>,
}

/// Where a log is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogProblem {
    pub seq: u64,
    /// A sentence for people.
    pub reason: String,
}

/// `GET /api/v1/sandboxes/{id}/previews/{port}`: where a page of the sandbox can be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PreviewLink {
    pub sandbox_id: SandboxId,
    pub port: u16,
    /// Made by the provider of the sandbox, not by what runs in it.
    pub url: String,
}

/// `POST /api/v1/sandboxes/{id}/git-access`: with what the worker fetches and pushes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GitAccess {
    /// URL without a credential, or a directory.
    pub url: String,
    /// `null` if git uses none.
    pub username: Option<String>,
    /// `null` if git needs none.
    pub token: Option<String>,
    /// When to ask again; `null` if the token does not expire, or if that is unknown.
    pub expires_at: Option<Timestamp>,
}

impl fmt::Debug for GitAccess {
    /// Omits the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitAccess")
            .field("url", &self.url)
            .field("username", &self.username)
            .field("has_token", &self.token.is_some())
            .field("expires_at", &self.expires_at)
            .finish()
    }
}

/// `GET /api/v1/sandboxes/health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// `sandbox-api`.
    pub service: String,
    pub timestamp: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fields_of_a_registration_are_optional() {
        assert!(Register::decode(b"").unwrap().id.is_none());
        assert!(Register::decode(b"{}").unwrap().name.is_none());
        for (body, field) in [
            (r#"{"sandbox_id":"a b"}"#, "sandbox_id"),
            (r#"{"sandbox_id":7}"#, "sandbox_id"),
            (r#"{"org":"*"}"#, "org"),
            (r#"{"name":"a\u0000b"}"#, "name"),
            (r#"{"resumes":"a b"}"#, "resumes"),
            (r#"{"resumes":7}"#, "resumes"),
            ("[]", "body"),
        ] {
            match Register::decode(body.as_bytes()) {
                Err(BadInput::Invalid(wrong)) => assert_eq!(wrong.field, field, "{body}"),
                other => panic!("{body}: {other:?}"),
            }
        }
    }

    #[test]
    fn verification_query_names_the_invalid_field() {
        let read = |text: &str| VerificationQuery::decode(&Query::parse(text));
        assert_eq!(read("").unwrap(), VerificationQuery { after_seq: 0, to_seq: None });
        for (text, field) in
            [("after_seq=-1", "after_seq"), ("to_seq=0", "to_seq"), ("after_seq=7&to_seq=7", "to_seq")]
        {
            match read(text) {
                Err(BadInput::Invalid(wrong)) => assert_eq!(wrong.field, field, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn log_query_names_the_invalid_field() {
        let read = |text: &str| LogQuery::decode(&Query::parse(text));
        assert_eq!(read("").unwrap(), LogQuery { lines: 100, position: LogPosition::End });
        assert_eq!(
            read("lines=7&before=0").unwrap(),
            LogQuery { lines: 7, position: LogPosition::Before(0) }
        );
        assert_eq!(read("after=9").unwrap(), LogQuery { lines: 100, position: LogPosition::After(9) });
        for (text, field) in [
            ("lines=0", "lines"),
            ("lines=1001", "lines"),
            ("lines=", "lines"),
            ("before=-1", "before"),
            ("after=end", "after"),
            ("before=1&after=1", "before"),
        ] {
            match read(text) {
                Err(BadInput::Invalid(wrong)) => assert_eq!(wrong.field, field, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
