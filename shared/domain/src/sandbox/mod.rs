//! A sandbox as the plane knows it: everything except its log.

pub mod reconcile;
pub mod transitions;

use crate::attempt::{Assignment, Outcome, Provisioning, Stage};
use crate::continuous::ContinuousRun;
use crate::event::normalized_name;
use crate::ingest::NewEvent;
use crate::message::Sender;
use crate::{LogHash, OrgId, SandboxId, SessionId, Source, TaskId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of event kinds (type and source together) with a counter of their own. Without a limit, a worker that
/// invents event types would grow the stored sandbox, which every ingest rewrites.
pub const MAX_COUNTED_KINDS: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct Sandbox {
    pub id: SandboxId,
    pub org: OrgId,
    /// Display name.
    pub name: Option<String>,
    /// The session that its agent continues, if it does not begin a new one.
    pub resumes: Option<SessionId>,
    /// Who registered it. `None` if the plane provisioned it, or an earlier version stored it.
    pub registered_by: Option<Sender>,
    /// Present if the plane provisioned the sandbox.
    pub assignment: Option<Assignment>,
    /// Private: only [`transitions`] changes it.
    status: Status,
    pub created_at: Timestamp,
    /// Worker tokens of other generations are rejected.
    pub generation: u32,
    /// Grows with every write: a write is conditional on the version that was read.
    pub version: u64,
    /// The last sequence number of the log.
    pub seq: u64,
    /// Number of items that hold the log. Together with `seq` it gives a reader the size of a page.
    pub segments: u64,
    /// The running hash of the log. `None` until something is appended to it.
    pub log_hash: Option<LogHash>,
    pub activity: Activity,
}

/// Everything that an ingest or a transition writes on a sandbox: counters, timestamps, provisioning and results. Every
/// field has a default, so that items of an older version can be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// The last batch that was stored. (0, 0) before the first.
    pub batch: BatchNumber,
    /// Receipts of the latest batches, newest first: a retried batch gets its original receipt.
    pub receipts: VecDeque<Receipt>,
    pub heartbeats: Heartbeats,
    /// When the worker last sent anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event_at: Option<Timestamp>,
    /// When the worker last sent an event that shows progress ([`EventType::is_work`](crate::EventType::is_work)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_work_at: Option<Timestamp>,
    pub counts: Counts,
    pub rate: RateWindow,
    /// Number of messages that the worker has not acknowledged yet.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Present if the plane provisioned the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning: Option<Provisioning>,
    /// Result of the attempt at its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The continuous run of a worker that reports its end with `continuous.completed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuous_run: Option<ContinuousRun>,
    /// Dependents of its task when the worker sent `task-complete`, so that a retry of that request gets the same response.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<TaskId>,
    /// Fields that a newer version wrote. They are written back unchanged.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, serde_json::Value>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SandboxEnded")]
pub struct Ended {
    pub at: Timestamp,
    /// A sentence for people.
    pub reason: String,
}

/// Lifecycle status of a sandbox. [`transitions`] has the table of what leads where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SandboxStatus")]
pub enum Status {
    /// Run by another system, which registered it; nothing has arrived from its worker yet.
    Registered,
    /// Recorded by the plane, which has not begun to provision it.
    Pending,
    /// Being provisioned.
    Creating,
    /// Its worker has reported.
    Running,
    /// Its agent completed the task; the sandbox is being deleted.
    Completing,
    /// Its agent completed the task, and the sandbox is deleted. The log stays and still accepts late events.
    Completed,
    /// Its task was not completed. The log stays, as above.
    Failed,
    /// Ended on request or because it was idle or not needed. The log stays, as above.
    Terminated,
    /// A status that a newer version wrote. It is not rewritten.
    #[serde(other)]
    Unknown,
}

impl Status {
    pub const ALL: [Self; 9] = [
        Self::Registered,
        Self::Pending,
        Self::Creating,
        Self::Running,
        Self::Completing,
        Self::Completed,
        Self::Failed,
        Self::Terminated,
        Self::Unknown,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Pending => "pending",
            Self::Creating => "creating",
            Self::Running => "running",
            Self::Completing => "completing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Terminated => "terminated",
            Self::Unknown => "unknown",
        }
    }

    /// A final status never changes.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Terminated)
    }
}

/// A worker's number for a batch: the run of the worker, and the batch within that run. Both start at 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BatchNumber {
    /// Grows when a worker restarts; batches of an older epoch are rejected.
    pub epoch: u64,
    pub batch: u64,
}

/// The response to a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Sequence number of the batch's first log event; `None` if it had none.
    pub first_seq: Option<u64>,
    /// Number of log events.
    pub events: u64,
    /// Number of heartbeats.
    pub heartbeats: u64,
    pub received_at: Timestamp,
    /// Hash of the content: a retry must carry the same content.
    pub digest: String,
}

/// Summary of the heartbeats, which are not stored in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Heartbeats {
    pub count: u64,
    pub first_at: Option<Timestamp>,
    pub last_at: Option<Timestamp>,
    /// The agent's state, as the latest heartbeat reported it.
    pub last_status: Option<String>,
}

/// Number of log events by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// `agent agent.tool_use` → 12.
    pub kinds: BTreeMap<String, u64>,
    /// Events of kinds past [`MAX_COUNTED_KINDS`].
    pub uncounted: u64,
}

impl Counts {
    pub fn add(&mut self, source: Source, event_type: &str) {
        let kind = format!("{source} {event_type}");
        if let Some(count) = self.kinds.get_mut(&kind) {
            *count += 1;
        } else if self.kinds.len() < MAX_COUNTED_KINDS {
            self.kinds.insert(kind, 1);
        } else {
            self.uncounted += 1;
        }
    }

    /// Number of events with one of these types (any, if empty) and this source (any, if none); `None` if some kinds
    /// have no counter, so that the exact number is unknown.
    pub fn matching(&self, event_types: &[String], source: Option<Source>) -> Option<u64> {
        if self.uncounted > 0 && !(event_types.is_empty() && source.is_none()) {
            return None;
        }
        let wanted: Vec<String> = event_types.iter().map(|name| normalized_name(name)).collect();
        let counted = self.kinds.iter().filter(|(kind, _)| {
            kind.split_once(' ').is_some_and(|(counted_source, event_type)| {
                source.is_none_or(|source| source.as_str() == counted_source)
                    && (event_types.is_empty() || wanted.contains(&normalized_name(event_type)))
            })
        });
        Some(counted.map(|(_, count)| count).sum::<u64>() + self.uncounted)
    }
}

/// What was stored within one minute, for the quota of the sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RateWindow {
    /// Minutes since the Unix epoch.
    pub minute: i64,
    /// Number of events.
    pub count: u64,
    /// Size of the request bodies.
    pub bytes: u64,
}

impl Sandbox {
    /// When it ended, or when its worker reported that.
    pub fn ended_at(&self) -> Option<Timestamp> {
        let activity = &self.activity;
        let ended = activity.ended.as_ref().map(|ended| ended.at);
        ended.or_else(|| activity.outcome.as_ref().map(Outcome::at))
    }

    /// A sandbox that another system runs. The caller sets `registered_by`.
    pub fn new(id: SandboxId, org: OrgId, name: Option<String>, now: Timestamp) -> Self {
        Self { name, ..Self::restored(id, org, Status::Registered, now) }
    }

    /// A sandbox that the plane will provision.
    pub fn assigned(id: SandboxId, org: OrgId, name: String, assignment: Assignment, now: Timestamp) -> Self {
        let activity = Activity { provisioning: Some(Provisioning::recorded(now)), ..Activity::default() };
        Self {
            name: Some(name),
            assignment: Some(assignment),
            activity,
            ..Self::restored(id, org, Status::Pending, now)
        }
    }

    /// For the store: a sandbox with the status that was read. The store sets the other fields.
    pub fn restored(id: SandboxId, org: OrgId, status: Status, created_at: Timestamp) -> Self {
        Self {
            id,
            org,
            name: None,
            resumes: None,
            registered_by: None,
            assignment: None,
            status,
            created_at,
            generation: 1,
            version: 1,
            seq: 0,
            segments: 0,
            log_hash: None,
            activity: Activity::default(),
        }
    }

    /// Whether reconciliation may have something to do: the plane provisioned it, and its provider has not confirmed
    /// its deletion.
    pub fn needs_reconcile(&self) -> bool {
        self.assignment.is_some()
            && self
                .activity
                .provisioning
                .as_ref()
                .is_some_and(|provisioning| provisioning.released_at.is_none())
    }

    /// Whether its worker may have been started. Before that, nothing has its token.
    pub fn may_have_worker(&self) -> bool {
        self.activity.provisioning.as_ref().is_none_or(|provisioning| provisioning.stage >= Stage::Starting)
    }

    /// A copy that counts these events as part of its log. The caller makes all other changes.
    #[must_use]
    pub fn with_events(&self, events: &[NewEvent]) -> Self {
        let mut next = self.clone();
        next.version += 1;
        next.seq += events.len() as u64;
        for event in events {
            next.activity.counts.add(event.source, event.event_type.as_str());
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_or_unknown() {
        let mut counts = Counts::default();
        counts.add(Source::Agent, "agent.message");
        counts.add(Source::Agent, "agent.message");
        counts.add(Source::User, "agent.message");
        let message = ["agent.message".to_owned()];
        assert_eq!(counts.matching(&message, None), Some(3));
        assert_eq!(counts.matching(&["SANDBOX_AGENT_MESSAGE".to_owned()], None), Some(3));
        assert_eq!(counts.matching(&[], Some(Source::User)), Some(1));
        assert_eq!(counts.matching(&["agent.none".to_owned()], None), Some(0));
        for index in 0..MAX_COUNTED_KINDS {
            counts.add(Source::Agent, &format!("custom.{index}"));
        }
        assert_eq!(counts.matching(&message, None), None);
        assert_eq!(counts.matching(&[], None), Some(3 + MAX_COUNTED_KINDS as u64));
    }
}
