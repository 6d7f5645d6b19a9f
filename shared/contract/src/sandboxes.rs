//! Registering, listing and showing sandboxes.

use crate::bad_input::BadInput;
use crate::events::HeartbeatSummary;
use crate::query::Query;
use domain::sandbox::{Ended, Status};
use domain::{Invalid, OrgId, Sandbox, SandboxId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `POST /api/v1/sandboxes`: a sandbox that somebody else runs.
#[derive(Debug, Clone, Default)]
pub struct Register {
    /// Its id; made up when absent.
    pub id: Option<SandboxId>,
    /// Its org; the caller's own when absent.
    pub org: Option<OrgId>,
    /// A person's name for it.
    pub name: Option<String>,
    /// The session that its agent goes on with.
    pub resumes: Option<SessionId>,
}

impl Register {
    /// Reads a body; an empty one is a sandbox without wishes.
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
                "must be at most 200 characters, none of them control characters",
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

/// A sandbox and the token of its worker, which is shown this once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Registered {
    /// The sandbox.
    pub sandbox: SandboxOut,
    /// What its worker sends as `Authorization: Bearer …`.
    pub worker_token: String,
    /// When that token ends.
    pub expires_at: Timestamp,
}

/// One sandbox, as it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxOut {
    /// Its id.
    pub sandbox_id: SandboxId,
    /// Its org.
    pub org: OrgId,
    /// A person's name for it.
    pub name: Option<String>,
    /// The session that its agent goes on with, if it was registered to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<SessionId>,
    /// Where it stands in its life.
    pub status: Status,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When anything last came in.
    pub last_event_at: Option<Timestamp>,
    /// When something that shows work last came in.
    pub last_work_at: Option<Timestamp>,
    /// Last sequence number of its log.
    pub last_seq: u64,
    /// The last batch that was stored.
    pub epoch: u64,
    /// The last batch that was stored.
    pub batch: u64,
    /// Signs of life.
    pub heartbeats: HeartbeatSummary,
    /// What the latest heartbeat said of the agent's state.
    pub heartbeat_status: Option<String>,
    /// Events by type, as far as they are counted.
    pub event_counts: BTreeMap<String, u64>,
    /// How many messages wait until its worker confirms them.
    #[serde(default)]
    pub queue_size: u64,
    /// When and why it ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

impl From<&Sandbox> for SandboxOut {
    fn from(head: &Sandbox) -> Self {
        let mut event_counts = BTreeMap::new();
        for (kind, count) in &head.activity.counts.kinds {
            let event_type = kind.split_once(' ').map_or(kind.as_str(), |(_, event_type)| event_type);
            *event_counts.entry(event_type.to_owned()).or_insert(0) += count;
        }
        Self {
            sandbox_id: head.id.clone(),
            org: head.org.clone(),
            name: head.name.clone(),
            resumes: head.resumes.clone(),
            status: head.status,
            created_at: head.created_at,
            last_event_at: head.activity.last_event_at,
            last_work_at: head.activity.last_work_at,
            last_seq: head.seq,
            epoch: head.activity.batch.epoch,
            batch: head.activity.batch.batch,
            heartbeats: HeartbeatSummary::from(head),
            heartbeat_status: head.activity.heartbeats.last_status.clone(),
            event_counts,
            queue_size: head.activity.waiting,
            ended: head.activity.ended.clone(),
        }
    }
}

impl From<&Sandbox> for HeartbeatSummary {
    fn from(head: &Sandbox) -> Self {
        Self {
            count: head.activity.heartbeats.count,
            first_heartbeat: head.activity.heartbeats.first_at,
            last_heartbeat: head.activity.heartbeats.last_at,
        }
    }
}

/// `GET /api/v1/sandboxes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxList {
    /// Newest first.
    pub sandboxes: Vec<SandboxOut>,
    /// Give it back as `cursor` for the next page; `null` at the end.
    pub next_cursor: Option<String>,
}

/// `GET /api/v1/sandboxes/{id}/logs`: which lines of the worker's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogQuery {
    /// How many at most.
    pub lines: usize,
    /// Where.
    pub position: LogPosition,
}

/// A place in a worker's log. Offsets are those that a page has answered.
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
    /// Reads `lines`, `before` and `after`.
    pub fn decode(query: &Query) -> Result<Self, BadInput> {
        let lines = query.number("lines", 1..=1000)?.unwrap_or(100);
        let offset = |name| query.number(name, 0..=u64::MAX);
        let position = match (offset("before")?, offset("after")?) {
            (None, None) => LogPosition::End,
            (Some(before), None) => LogPosition::Before(before),
            (None, Some(after)) => LogPosition::After(after),
            (Some(_), Some(_)) => return Err(BadInput::invalid("before", "must not be given with after")),
        };
        Ok(Self { lines: usize::try_from(lines).unwrap_or(usize::MAX), position })
    }
}

/// Lines of a worker's log, without the secrets that the worker was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPage {
    /// Whose worker's.
    pub sandbox_id: SandboxId,
    /// Oldest first.
    pub lines: Vec<String>,
    /// Give it back as `before` for older lines; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Give it back as `after` for the lines that come next.
    pub after: u64,
}

/// `GET /api/v1/sandboxes/health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// `sandbox-api`.
    pub service: String,
    /// Now.
    pub timestamp: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_may_say_nothing_and_must_say_it_right() {
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
    fn log_query_names_the_wrong_field() {
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
