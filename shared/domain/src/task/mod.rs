//! A task: one piece of work for an agent, from the wish to the result.
//!
//! What may happen to a task is in [`transitions`]: a table of states and what transitions them. Whoever changes a task calls one
//! of the functions there and writes what it gives back under the condition that the task is still the one that was
//! read; so nothing that comes late, twice or from somebody else's sandbox changes anything.

pub mod edits;
pub mod transitions;

use crate::{JsonObject, OrgId, ProjectId, SandboxId, TaskId, TicketId, Timestamp};
use serde::{Deserialize, Serialize};

/// How often a task is tried again by itself, unless it says otherwise.
pub const MAX_RETRIES: u32 = 3;

/// How often a task goes back to be revised.
pub const MAX_REVISIONS: u32 = 3;

/// One task, as the plane knows it. Everything that was added since the first version has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Which task.
    pub id: TaskId,
    /// Whose.
    pub org: OrgId,
    /// What it is done for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<TicketId>,
    /// The project whose limit it counts towards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    /// What kind of work: `implement_feature`.
    pub task_type: String,
    /// In a few words.
    pub title: String,
    /// In full: what the agent is told.
    pub description: String,
    /// Phase of its ticket.
    pub phase: String,
    /// How much it matters.
    pub priority: Priority,
    /// Where it stands.
    pub status: Status,
    /// When it was created.
    pub created_at: Timestamp,
    /// When anything of it last changed.
    pub updated_at: Timestamp,
    /// When an agent first worked on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// When it came into the state that it is in.
    pub since: Timestamp,
    /// What must be completed before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<TaskId>,
    /// How many of those are not completed. At 0 it is ready.
    #[serde(default)]
    pub unmet: u32,
    /// How many tasks wait for it.
    #[serde(default)]
    pub dependents: u32,
    /// Where it stands in the queue, while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Number of the current try, or of the last; 0 before the first.
    #[serde(default)]
    pub attempt: u32,
    /// The sandbox of that try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
    /// How often it was tried again by itself since somebody last asked for it.
    #[serde(default)]
    pub retry_count: u32,
    /// How often it may be.
    pub max_retries: u32,
    /// It is not tried before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// How long it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
    /// When it should be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// Whether somebody has to look at the result before it counts.
    #[serde(default)]
    pub validation: bool,
    /// What whoever looked had to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// How often it went back to be revised.
    #[serde(default)]
    pub revisions: u32,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::json::as_text")]
    pub result: Option<JsonObject>,
    /// Why it, or the last try, failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What its worker is to be told beside the description.
    #[serde(default)]
    pub execution: Execution,
    /// Fingerprint of what it was created from, to tell a repeat from a second task under the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Moves with every write.
    pub version: u64,
    /// The last sequence number of its log.
    #[serde(default)]
    pub seq: u64,
    /// How many items the log is stored in.
    #[serde(default)]
    pub segments: u64,
}

impl Task {
    /// Whether somebody has to look after it though no sandbox is at work for it: it waits until it may be tried again,
    /// or for somebody's judgement, or others wait to be told that it is completed.
    pub fn needs_reconcile(&self) -> bool {
        match self.status {
            Status::Pending => self.not_before.is_some() && self.place.is_none(),
            Status::Validating | Status::NeedsRevision => true,
            // Those that wait for it have not all been told.
            Status::Completed => self.dependents > 0,
            _ => false,
        }
    }
}

/// What a worker is told beside the task's text. What is absent is as the plane's settings say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Execution {
    /// `claude`, `acp:<command>`, `scripted:<file>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The repository, as a URL or `owner/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Its branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The provider of its sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Memory of its sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<u32>,
    /// Processors of its sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Disk of its sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_gb: Option<u32>,
    /// The snapshot that its sandbox is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Whether the worker goes on until the work is complete, rather than once through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuous: Option<bool>,
}

/// How much a task matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Priority {
    /// When there is nothing else.
    Low,
    /// As usual.
    #[default]
    Medium,
    /// Soon.
    High,
    /// Now.
    Critical,
}

impl Priority {
    /// Every priority.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "LOW",
            Self::Medium => "MEDIUM",
            Self::High => "HIGH",
            Self::Critical => "CRITICAL",
        }
    }
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It waits: for what it depends on, for its turn, or until it may be tried again.
    Pending,
    /// It has a sandbox on paper.
    Claiming,
    /// Its sandbox is being made.
    Assigned,
    /// An agent works on it.
    Running,
    /// It is done, and somebody has to look at it.
    Validating,
    /// Somebody looked, and it is not good enough.
    NeedsRevision,
    /// It is done.
    Completed,
    /// It will not be done unless somebody asks for it.
    Failed,
    /// Somebody called it off.
    Cancelled,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Claiming,
        Self::Assigned,
        Self::Running,
        Self::Validating,
        Self::NeedsRevision,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Claiming => "claiming",
            Self::Assigned => "assigned",
            Self::Running => "running",
            Self::Validating => "validating",
            Self::NeedsRevision => "needs_revision",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether a sandbox is at work for it. These count towards the limits.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Claiming | Self::Assigned | Self::Running)
    }

    /// Whether it is over, unless somebody asks for it again.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A place in the queue. It is static: what makes a task more urgent as time passes is the same for all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Smaller is sooner: see [`crate::score::rank`].
    pub rank: i64,
    /// It also stands among those with a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
}
