//! The head of a sandbox: everything about it that is not its log.

pub mod reconcile;

use crate::attempt::{Assignment, Outcome, Spawn, Stage};
use crate::event::plain_name;
use crate::ingest::NewEvent;
use crate::{OrgId, SandboxId, SessionId, Source, TaskId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Most kinds of event (type and source together) that are counted one by one, so that a worker with odd
/// habits cannot grow the head, which every ingest rewrites.
pub const MAX_COUNTED_KINDS: usize = 100;

/// One sandbox, as the plane knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sandbox {
    /// Which sandbox.
    pub id: SandboxId,
    /// Whose.
    pub org: OrgId,
    /// A person's name for it.
    pub name: Option<String>,
    /// The session that its agent goes on with, if it does not begin a new one.
    pub resumes: Option<SessionId>,
    /// What it is for, if the plane made it.
    pub assignment: Option<Assignment>,
    /// Where it stands in its life.
    pub status: Status,
    /// When it was registered.
    pub created_at: Timestamp,
    /// Worker tokens of other generations are refused.
    pub generation: u32,
    /// Moves with every write; whoever writes names the one that they read.
    pub version: u64,
    /// The last sequence number of the log.
    pub seq: u64,
    /// How many items the log is stored in: with `seq` it tells how many to ask for.
    pub segments: u64,
    /// What happened so far.
    pub activity: Activity,
}

/// What happened so far, in numbers. Everything has a default, so that what an older version wrote can be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// The last batch that was stored. (0, 0) before the first.
    pub batch: BatchNumber,
    /// What the senders of this and the batches before it were told, to tell them again: newest first.
    pub receipts: VecDeque<Receipt>,
    /// Signs of life.
    pub heartbeats: Heartbeats,
    /// When anything last came in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event_at: Option<Timestamp>,
    /// When something that shows work last came in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_work_at: Option<Timestamp>,
    /// Log events by source and type.
    pub counts: Counts,
    /// How much came in lately.
    pub rate: RateWindow,
    /// How many messages wait until the worker confirms them.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting: u64,
    /// How it ended, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// How far it has come at its provider, if the plane made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawn: Option<Spawn>,
    /// What came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Who waited for its task when its worker reported over `task-complete`: whoever repeats that gets the same answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiters: Vec<TaskId>,
    /// What a newer version wrote and this one does not know: it goes back as it came.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, serde_json::Value>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How a sandbox ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// Why, in words for people.
    pub reason: String,
}

/// Where a sandbox stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Somebody else runs it, and it was silent so far.
    Registered,
    /// The plane has written it down and will make it.
    Pending,
    /// The plane makes it.
    Creating,
    /// Something came from it.
    Running,
    /// Its agent is done; it is being taken down.
    Completing,
    /// Its agent was done, and it is gone. Its log stays, and still takes what its worker had left to say.
    Completed,
    /// It did not do what it was made for. Its log stays, as above.
    Failed,
    /// Somebody called it off. Its log stays, as above.
    Terminated,
    /// What a newer version wrote and this one does not know. It stays as it is in the table.
    #[serde(other)]
    Unknown,
}

impl Status {
    /// As on the wire.
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

    /// Whether it is over.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Terminated)
    }
}

/// A worker's numbering of what it sends: a run of the worker, and a batch within it. Both start at 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BatchNumber {
    /// Grows when a worker starts afresh; whoever still sends under an older one is fenced off.
    pub epoch: u64,
    /// Grows by one with each batch.
    pub batch: u64,
}

/// The answer to a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Sequence number of its first log event; `None` if it held none.
    pub first_seq: Option<u64>,
    /// How many log events it held.
    pub events: u64,
    /// How many heartbeats it held.
    pub heartbeats: u64,
    /// When it was stored.
    pub received_at: Timestamp,
    /// Fingerprint of its content: a repeat must be a repeat.
    pub digest: String,
}

/// Heartbeats in summary; the log holds none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Heartbeats {
    /// How many.
    pub count: u64,
    /// The first.
    pub first_at: Option<Timestamp>,
    /// The latest.
    pub last_at: Option<Timestamp>,
    /// What the latest said of the agent's state.
    pub last_status: Option<String>,
}

/// How many events of each kind the log holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// `agent agent.tool_use` → 12.
    pub kinds: BTreeMap<String, u64>,
    /// Events of kinds past [`MAX_COUNTED_KINDS`].
    pub uncounted: u64,
}

impl Counts {
    /// Counts one event.
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

    /// How many events have one of these types (any, if empty) and this source (any, if none), if that is
    /// known exactly.
    pub fn matching(&self, event_types: &[String], source: Option<Source>) -> Option<u64> {
        if self.uncounted > 0 && !(event_types.is_empty() && source.is_none()) {
            return None;
        }
        let wanted: Vec<String> = event_types.iter().map(|name| plain_name(name)).collect();
        let counted = self.kinds.iter().filter(|(kind, _)| {
            kind.split_once(' ').is_some_and(|(by, event_type)| {
                source.is_none_or(|source| source.as_str() == by)
                    && (event_types.is_empty() || wanted.contains(&plain_name(event_type)))
            })
        });
        Some(counted.map(|(_, count)| count).sum::<u64>() + self.uncounted)
    }
}

/// A fixed window of a minute in which what a sandbox sends is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RateWindow {
    /// The minute, counted from 1970.
    pub minute: i64,
    /// Events in it.
    pub count: u64,
}

impl Sandbox {
    /// A sandbox that nothing has been heard of.
    pub fn new(id: SandboxId, org: OrgId, name: Option<String>, now: Timestamp) -> Self {
        Self {
            id,
            org,
            name,
            resumes: None,
            assignment: None,
            status: Status::Registered,
            created_at: now,
            generation: 1,
            version: 1,
            seq: 0,
            segments: 0,
            activity: Activity::default(),
        }
    }

    /// A sandbox that the plane will make.
    pub fn assigned(id: SandboxId, org: OrgId, name: String, assignment: Assignment, now: Timestamp) -> Self {
        let mut head = Self::new(id, org, Some(name), now);
        head.assignment = Some(assignment);
        head.status = Status::Pending;
        head.activity.spawn = Some(Spawn::recorded(now));
        head
    }

    /// Whether somebody has to look after it: the plane made it, and its provider may still have it.
    pub fn needs_reconcile(&self) -> bool {
        self.assignment.is_some()
            && self.activity.spawn.as_ref().is_some_and(|spawn| spawn.released_at.is_none())
    }

    /// Its status after its worker was heard. One that was not started yet cannot be heard, and one that is over does
    /// not come back.
    pub fn status_when_heard(&self) -> Status {
        let started = self.activity.spawn.as_ref().is_some_and(|spawn| spawn.stage >= Stage::Starting);
        match self.status {
            Status::Registered => Status::Running,
            Status::Creating if started => Status::Running,
            same => same,
        }
    }

    /// The head with these events in its log, and nothing else changed: whoever tells them changes the rest.
    #[must_use]
    pub fn telling(&self, events: &[NewEvent]) -> Self {
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
    fn counts_answer_exactly_or_not_at_all() {
        let mut counts = Counts::default();
        counts.add(Source::Agent, "agent.message");
        counts.add(Source::Agent, "agent.message");
        counts.add(Source::User, "agent.message");
        let message = ["agent.message".to_owned()];
        assert_eq!(counts.matching(&message, None), Some(3));
        assert_eq!(counts.matching(&["SANDBOX_AGENT_MESSAGE".to_owned()], None), Some(3));
        assert_eq!(counts.matching(&[], Some(Source::User)), Some(1));
        assert_eq!(counts.matching(&["agent.none".to_owned()], None), Some(0));
        for odd in 0..MAX_COUNTED_KINDS {
            counts.add(Source::Agent, &format!("odd.{odd}"));
        }
        assert_eq!(counts.matching(&message, None), None);
        assert_eq!(counts.matching(&[], None), Some(3 + MAX_COUNTED_KINDS as u64));
    }
}
