//! A ticket: what a person wants done. Tasks do it.
//!
//! What may happen to a ticket is in [`moves`]; whether it may be worked on at all is its [`Approval`]. Both are tables
//! of states. Whoever changes a ticket calls one of the functions there and writes what it gives back under the condition
//! that the ticket is still the one that was read.

pub mod approval;
pub mod moves;

pub use approval::{Approval, ApprovalSettings, ApprovalStatus};
pub use moves::Refused;

use crate::task::{self, Execution, MAX_RETRIES, Priority, Task};
use crate::{OrgId, ProjectId, TaskId, TicketId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest title of a ticket, and of the task that is made of it.
pub const MAX_TITLE_CHARS: usize = 500;
/// The kind of task that does what a ticket asks for.
pub const IMPLEMENT_FEATURE: &str = "implement_feature";
/// The kind of task that finds out what a ticket asks for.
pub const ANALYZE_REQUIREMENTS: &str = "analyze_requirements";

/// One ticket, as the plane knows it. Everything that was added since the first version has a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Which ticket.
    pub id: TicketId,
    /// Whose.
    pub org: OrgId,
    /// In a few words.
    pub title: String,
    /// In full: what the person wrote.
    pub description: String,
    /// Where in the work it stands: `PHASE_IMPLEMENTATION`. Follows the status, and may be anything before the first
    /// move.
    pub phase: String,
    /// The phase before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_phase: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// How much it matters.
    pub priority: Priority,
    /// Present while something is in its way. Beside the status, not instead of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// Whether it may be worked on.
    #[serde(default)]
    pub approval: Approval,
    /// The project that its tasks count towards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    /// The repository that it is about, as a URL or `owner/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// How it becomes tasks.
    #[serde(default)]
    pub workflow_mode: WorkflowMode,
    /// What the workers of its tasks are told beside the text.
    #[serde(default)]
    pub execution: Execution,
    /// On what terms its first task is done.
    #[serde(default)]
    pub terms: Terms,
    /// The task that began the work on it, once it may be worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_task: Option<TaskId>,
    /// Who wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// Fingerprint of what it was created from, to tell a repeat from a second ticket under the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When anything of it last changed.
    pub updated_at: Timestamp,
    /// Moves with every write.
    pub version: u64,
    /// The last sequence number of its log.
    #[serde(default)]
    pub seq: u64,
    /// How many items the log is stored in.
    #[serde(default)]
    pub segments: u64,
}

/// Where a ticket stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Nobody has begun.
    Backlog,
    /// Somebody finds out what is wanted.
    Analyzing,
    /// It is being made.
    Building,
    /// It is made.
    BuildingDone,
    /// It is being tried.
    Testing,
    /// It is over.
    Done,
}

impl Status {
    /// Every status, in the usual order.
    pub const ALL: [Self; 6] =
        [Self::Backlog, Self::Analyzing, Self::Building, Self::BuildingDone, Self::Testing, Self::Done];

    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::Analyzing => "analyzing",
            Self::Building => "building",
            Self::BuildingDone => "building-done",
            Self::Testing => "testing",
            Self::Done => "done",
        }
    }

    /// From the wire.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// The phase that goes with it.
    pub fn phase(self) -> &'static str {
        match self {
            Self::Backlog => "PHASE_BACKLOG",
            Self::Analyzing => "PHASE_REQUIREMENTS",
            Self::Building => "PHASE_IMPLEMENTATION",
            Self::BuildingDone => "PHASE_DEPLOYMENT",
            Self::Testing => "PHASE_TESTING",
            Self::Done => "PHASE_DONE",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is in a ticket's way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// What: `dependency`, `waiting_on_clarification`, `failing_checks`, `environment`.
    pub reason: String,
    /// Since when.
    pub at: Timestamp,
}

/// How a ticket becomes tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowMode {
    /// One task does all of it.
    Quick,
    /// First somebody finds out what is wanted.
    #[default]
    Phased,
}

impl WorkflowMode {
    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Phased => "phased",
        }
    }
}

/// On what terms a task is done. They stand with the ticket, because its task may be made long after it. What is absent
/// is as usual.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// How long it may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
    /// How often it is tried again by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Whether somebody has to look at the result before it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<bool>,
}

/// A task that is to be made of a ticket. Its id and its times are the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    /// What it is done for.
    pub ticket: TicketId,
    /// Whose.
    pub org: OrgId,
    /// The project whose limit it counts towards.
    pub project: Option<ProjectId>,
    /// What kind of work.
    pub task_type: String,
    /// In a few words.
    pub title: String,
    /// What the agent is told.
    pub description: String,
    /// The phase of such work.
    pub phase: String,
    /// As the ticket's.
    pub priority: Priority,
    /// As the ticket's, with its repository.
    pub execution: Execution,
    /// As the ticket's.
    pub terms: Terms,
}

impl NewTask {
    /// The task, before anything is told of it: see [`Task::created`].
    pub fn into_task(self, id: TaskId, now: Timestamp) -> Task {
        Task {
            id,
            org: self.org,
            ticket: Some(self.ticket),
            project: self.project,
            task_type: self.task_type,
            title: self.title,
            description: self.description,
            phase: self.phase,
            priority: self.priority,
            status: task::Status::Pending,
            created_at: now,
            updated_at: now,
            started_at: None,
            completed_at: None,
            since: now,
            depends_on: Vec::new(),
            unmet: 0,
            dependents: 0,
            place: None,
            attempt: 0,
            sandbox: None,
            retry_count: 0,
            max_retries: self.terms.max_retries.unwrap_or(MAX_RETRIES),
            not_before: None,
            timeout_secs: self.terms.timeout_secs,
            deadline_at: None,
            validation: self.terms.validation.unwrap_or(false),
            feedback: None,
            revisions: 0,
            result: None,
            error: None,
            execution: self.execution,
            digest: None,
            version: 0,
            seq: 0,
            segments: 0,
        }
    }
}

/// The task that begins the work on a ticket, once it is approved.
pub fn first_task(ticket: &Ticket) -> NewTask {
    let (task_type, verb, status) = match ticket.workflow_mode {
        WorkflowMode::Quick => (IMPLEMENT_FEATURE, "Implement", Status::Building),
        WorkflowMode::Phased => (ANALYZE_REQUIREMENTS, "Analyze requirements", Status::Analyzing),
    };
    let told = if ticket.description.trim().is_empty() { &ticket.title } else { &ticket.description };
    let mut execution = ticket.execution.clone();
    execution.repository = execution.repository.or_else(|| ticket.repository.clone());
    NewTask {
        ticket: ticket.id.clone(),
        org: ticket.org.clone(),
        project: ticket.project.clone(),
        task_type: task_type.to_owned(),
        title: format!("{verb}: {}", ticket.title).chars().take(MAX_TITLE_CHARS).collect(),
        description: told.clone(),
        phase: status.phase().to_owned(),
        priority: ticket.priority,
        execution,
        terms: ticket.terms.clone(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn ticket(status: Status) -> Ticket {
        Ticket {
            id: TicketId::parse("k-1").unwrap(),
            org: OrgId::parse("o-1").unwrap(),
            title: "Add a login page".into(),
            description: "With OAuth.".into(),
            phase: status.phase().into(),
            previous_phase: None,
            status,
            priority: Priority::High,
            blocked: None,
            approval: Approval::default(),
            project: None,
            repository: Some("acme/shop".into()),
            workflow_mode: WorkflowMode::Phased,
            execution: Execution::default(),
            terms: Terms::default(),
            first_task: None,
            created_by: None,
            digest: None,
            created_at: Timestamp::from_secs(100),
            updated_at: Timestamp::from_secs(100),
            version: 1,
            seq: 1,
            segments: 1,
        }
    }

    #[test]
    fn a_quick_ticket_is_implemented_and_another_is_analyzed_first() {
        let phased = first_task(&ticket(Status::Backlog));
        assert_eq!(
            (phased.task_type.as_str(), phased.phase.as_str()),
            ("analyze_requirements", "PHASE_REQUIREMENTS")
        );
        assert_eq!(phased.title, "Analyze requirements: Add a login page");
        let quick = Ticket { workflow_mode: WorkflowMode::Quick, ..ticket(Status::Backlog) };
        let task = first_task(&quick);
        assert_eq!(
            (task.task_type.as_str(), task.phase.as_str()),
            ("implement_feature", "PHASE_IMPLEMENTATION")
        );
        assert_eq!(task.title, "Implement: Add a login page");
        assert_eq!(task.description, "With OAuth.");
        assert_eq!(
            (task.priority, task.execution.repository.as_deref()),
            (Priority::High, Some("acme/shop"))
        );
    }

    #[test]
    fn an_agent_is_always_told_something_and_a_title_stays_within_bounds() {
        let long =
            Ticket {
                title: "é".repeat(MAX_TITLE_CHARS), description: " ".into(), ..ticket(Status::Backlog)
            };
        let task = first_task(&long);
        assert_eq!(task.title.chars().count(), MAX_TITLE_CHARS);
        assert_eq!(task.description, long.title);
        let execution = Execution { repository: Some("acme/other".into()), ..Execution::default() };
        let particular = first_task(&Ticket { execution, ..ticket(Status::Backlog) });
        assert_eq!(particular.execution.repository.as_deref(), Some("acme/other"), "the nearer one holds");
    }

    #[test]
    fn a_task_of_a_ticket_is_new_and_done_on_the_tickets_terms() {
        let (id, now) = (TaskId::parse("t-1").unwrap(), Timestamp::from_secs(200));
        let usual = first_task(&ticket(Status::Backlog)).into_task(id.clone(), now);
        assert_eq!((usual.max_retries, usual.timeout_secs, usual.validation), (MAX_RETRIES, None, false));
        let terms = Terms { timeout_secs: Some(60), max_retries: Some(0), validation: Some(true) };
        let strict = first_task(&Ticket { terms, ..ticket(Status::Backlog) }).into_task(id, now);
        assert_eq!((strict.max_retries, strict.timeout_secs, strict.validation), (0, Some(60), true));
        let created = strict.created(&crate::score::Weights::default(), now);
        let told: Vec<&str> = created.told.iter().map(|told| told.event_type.as_str()).collect();
        assert_eq!(told, ["task.created", "task.ready"]);
        assert!(created.task.place.is_some() && created.task.version == 1);
    }

    #[test]
    fn a_ticket_reads_back_what_it_wrote_and_what_an_older_version_wrote() {
        let full = Ticket {
            blocked: Some(Blocked { reason: "environment".into(), at: Timestamp::from_secs(5) }),
            status: Status::BuildingDone,
            workflow_mode: WorkflowMode::Quick,
            ..ticket(Status::Backlog)
        };
        let text = serde_json::to_string(&full).unwrap();
        assert!(
            text.contains(r#""status":"building-done""#) && text.contains(r#""workflow_mode":"quick""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Ticket>(&text).unwrap(), full);
        let old = r#"{"id":"k-1","org":"o-1","title":"t","description":"d","phase":"PHASE_BACKLOG","status":"backlog",
            "priority":"LOW","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","version":3,"new":1}"#;
        let old = serde_json::from_str::<Ticket>(old).unwrap();
        assert_eq!((old.workflow_mode, old.approval), (WorkflowMode::Phased, Approval::default()));
        for status in Status::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
            assert_eq!(Status::parse(status.as_str()), Some(status));
        }
        assert_eq!(Status::parse("building_done"), None);
    }
}
