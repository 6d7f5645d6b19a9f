//! Requests and responses about tickets. Field names are those of OmoiOS.

use crate::bad_input::BadInput;
use crate::execution;
use crate::fields::Fields;
use crate::query::{Parameter, Query};
use domain::duplicates::DEFAULT_THRESHOLD;
use domain::task::{self, Execution, MergeMethod, Priority};
use domain::ticket::merge::TicketMerge;
use domain::ticket::{ApprovalStatus, MAX_TITLE_CHARS, Status, TaskOptions, Ticket, WorkflowMode, title_of};
use domain::{OrgId, ProjectId, SandboxId, Task, TaskId, TicketId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Maximum size of a description. A worker gets it as an environment variable, which Linux limits to 128 KiB, and a list
/// has many of them.
pub const MAX_DESCRIPTION_BYTES: usize = 64 * 1024;
pub const MAX_PHASE_CHARS: usize = 50;
/// A day.
pub const MAX_TIMEOUT_SECS: u64 = 86_400;
pub const MAX_RETRIES: u64 = 10;
/// Maximum length of the reason for a transition or a rejection.
pub const MAX_REASON_CHARS: usize = 1_000;
pub const MAX_SEARCH_CHARS: usize = 200;

/// `POST /api/v1/tickets`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTicket {
    /// Generated when absent. With an id, the request is idempotent.
    pub id: Option<TicketId>,
    /// Default: the org of the caller.
    pub org: Option<OrgId>,
    /// The similarity from which another ticket counts as a duplicate; `None` to skip the check.
    pub duplicate_threshold: Option<f64>,
    pub spec: TicketSpec,
}

/// The part of a request that must be equal in a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TicketSpec {
    pub title: String,
    pub description: String,
    pub priority: Priority,
    /// The initial phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The project whose concurrency limit its tasks count towards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    pub workflow_mode: WorkflowMode,
    pub execution: Execution,
    pub task_options: TaskOptions,
}

impl CreateTicket {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let fields = Fields::decode(body)?;
        let description = description(&fields)?;
        let title = title(&fields, &description)?;
        let check_duplicates = fields.flag("check_duplicates")?.unwrap_or(true);
        let force_create = fields.flag("force_create")?.unwrap_or(false);
        let threshold = fields.fraction("similarity_threshold")?.unwrap_or(DEFAULT_THRESHOLD);
        // OmoiOS calls it `spec_driven`.
        let modes = [
            (WorkflowMode::Quick.as_str(), WorkflowMode::Quick),
            (WorkflowMode::Phased.as_str(), WorkflowMode::Phased),
            ("spec_driven", WorkflowMode::Phased),
        ];
        let max_retries = fields.integer("max_retries", 0..=MAX_RETRIES)?;
        let spec = TicketSpec {
            title,
            description,
            priority: fields.one_of("priority", &priorities())?.unwrap_or_default(),
            phase: fields.line("phase_id", MAX_PHASE_CHARS)?,
            project: fields.text("project_id")?.map(ProjectId::parse).transpose()?,
            workflow_mode: fields.one_of("workflow_mode", &modes)?.unwrap_or(WorkflowMode::Quick),
            execution: execution::decode(&fields)?,
            task_options: TaskOptions {
                timeout_secs: fields.integer("timeout_seconds", 1..=MAX_TIMEOUT_SECS)?,
                max_retries: max_retries.and_then(|retries| u32::try_from(retries).ok()),
                validation: fields.flag("validation")?,
            },
        };
        Ok(Self {
            id: fields.text("ticket_id")?.map(TicketId::parse).transpose()?,
            org: fields.text("org")?.map(OrgId::parse).transpose()?,
            duplicate_threshold: Some(threshold).filter(|_| check_duplicates && !force_create),
            spec,
        })
    }
}

impl TicketSpec {
    /// Hash of the spec. The order of fields in the request does not matter.
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(self).expect("our own structs serialize to JSON");
        Sha256::digest(text)[..12].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Removes control characters, which users paste without noticing.
fn description(fields: &Fields) -> Result<String, BadInput> {
    let text = fields.text("description")?.unwrap_or_default();
    if text.len() > MAX_DESCRIPTION_BYTES {
        return Err(BadInput::too_large("description", MAX_DESCRIPTION_BYTES));
    }
    Ok(text.chars().filter(|character| !character.is_control() || "\n\r\t".contains(*character)).collect())
}

fn title(fields: &Fields, description: &str) -> Result<String, BadInput> {
    if let Some(title) = fields.line("title", MAX_TITLE_CHARS)? {
        return Ok(title);
    }
    match title_of(description) {
        title if title.is_empty() => {
            Err(BadInput::invalid("title", "is required when there is no description"))
        }
        title => Ok(title),
    }
}

fn priorities() -> [(&'static str, Priority); 4] {
    Priority::ALL.map(|priority| (priority.as_str(), priority))
}

/// `POST /api/v1/tickets/{id}/transition`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    pub to: Status,
    pub reason: Option<String>,
    /// Whether to allow any transition.
    pub force: bool,
}

impl Transition {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let fields = Fields::decode(body)?;
        let statuses = Status::ALL.map(|status| (status.as_str(), status));
        let to = fields.one_of("to_status", &statuses)?;
        Ok(Self {
            to: to.ok_or_else(|| BadInput::invalid("to_status", "is missing"))?,
            reason: fields.line("reason", MAX_REASON_CHARS)?,
            force: fields.flag("force")?.unwrap_or(false),
        })
    }
}

/// `POST /api/v1/tickets/{id}/merge`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeTicket {
    pub method: MergeMethod,
    /// Whether to delete each branch afterwards.
    pub delete_branch: bool,
    /// Whether an agent gets a task for each conflict.
    pub resolve_conflicts: bool,
}

impl MergeTicket {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let fields = Fields::decode(body)?;
        Ok(Self {
            method: fields.one_of("method", &MergeMethod::NAMES)?.unwrap_or_default(),
            delete_branch: fields.flag("delete_branch")?.unwrap_or(true),
            resolve_conflicts: fields.flag("resolve_conflicts")?.unwrap_or(false),
        })
    }
}

/// Decodes the reason in `POST /api/v1/tickets/{id}/reject`.
pub fn decode_rejection(body: &[u8]) -> Result<String, BadInput> {
    let reason = Fields::decode(body)?.line("rejection_reason", MAX_REASON_CHARS)?;
    reason.ok_or_else(|| BadInput::invalid("rejection_reason", "is missing"))
}

/// A ticket must match all filters that are present.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub status: Option<Status>,
    pub priority: Option<Priority>,
    pub phase: Option<String>,
    pub project: Option<ProjectId>,
    pub approval: Option<ApprovalStatus>,
    /// Part of the title or description, in lower case.
    pub search: Option<String>,
}

impl Filter {
    pub const STATUS: Parameter = Parameter::one_of(
        "status",
        || Status::ALL.map(Status::as_str).to_vec(),
        "Only tickets in this status.",
    );
    pub const PRIORITY: Parameter = Parameter::one_of(
        "priority",
        || Priority::ALL.map(Priority::as_str).to_vec(),
        "Only tickets with this priority.",
    );
    pub const PHASE: Parameter = Parameter::text("phase_id", "Only tickets in this phase.");
    pub const PROJECT: Parameter = Parameter::id("project_id", "Only tickets of this project.");
    pub const APPROVAL: Parameter = Parameter::one_of(
        "approval_status",
        || ApprovalStatus::ALL.map(ApprovalStatus::as_str).to_vec(),
        "Only tickets with this approval.",
    );
    pub const SEARCH: Parameter =
        Parameter::text("search", "Part of the title or description; upper and lower case are equal.")
            .up_to_chars(MAX_SEARCH_CHARS);

    /// Decodes the parameters above.
    pub fn decode(query: &Query) -> Result<Self, BadInput> {
        let search = query.get(&Self::SEARCH).map(str::trim).filter(|search| !search.is_empty());
        if search.is_some_and(|search| search.chars().count() > MAX_SEARCH_CHARS) {
            let rule = format!("must be at most {MAX_SEARCH_CHARS} characters");
            return Err(BadInput::invalid("search", rule));
        }
        let (priority, approval) = (query.one_of(&Self::PRIORITY)?, query.one_of(&Self::APPROVAL)?);
        Ok(Self {
            status: query.one_of(&Self::STATUS)?.and_then(Status::parse),
            priority: priority
                .and_then(|name| Priority::ALL.into_iter().find(|priority| priority.as_str() == name)),
            phase: query.get(&Self::PHASE).map(str::to_owned),
            project: query.parsed(&Self::PROJECT, ProjectId::parse)?,
            approval: approval
                .and_then(|name| ApprovalStatus::ALL.into_iter().find(|status| status.as_str() == name)),
            search: search.map(str::to_lowercase),
        })
    }
}

/// A ticket in a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TicketOut {
    pub id: TicketId,
    pub org: OrgId,
    pub title: String,
    pub description: String,
    pub phase_id: String,
    pub previous_phase_id: Option<String>,
    pub status: Status,
    pub priority: Priority,
    pub is_blocked: bool,
    pub blocked_reason: Option<String>,
    pub blocked_at: Option<Timestamp>,
    pub approval_status: ApprovalStatus,
    pub approval_deadline_at: Option<Timestamp>,
    pub rejection_reason: Option<String>,
    pub reviewed_by: Option<String>,
    pub project_id: Option<ProjectId>,
    pub repository: Option<String>,
    pub workflow_mode: WorkflowMode,
    /// The first task.
    pub task_id: Option<TaskId>,
    /// The latest merge of all its finished branches.
    #[serde(default)]
    pub merge: Option<TicketMerge>,
    pub created_by: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Last sequence number of its log.
    pub last_seq: u64,
}

impl From<&Ticket> for TicketOut {
    fn from(ticket: &Ticket) -> Self {
        Self {
            id: ticket.id.clone(),
            org: ticket.org.clone(),
            title: ticket.title.clone(),
            description: ticket.description.clone(),
            phase_id: ticket.phase.clone(),
            previous_phase_id: ticket.previous_phase.clone(),
            status: ticket.status,
            priority: ticket.priority,
            is_blocked: ticket.blocked.is_some(),
            blocked_reason: ticket.blocked.as_ref().map(|blocked| blocked.reason.clone()),
            blocked_at: ticket.blocked.as_ref().map(|blocked| blocked.at),
            approval_status: ticket.approval.status,
            approval_deadline_at: ticket.approval.deadline_at,
            rejection_reason: ticket.approval.reason.clone(),
            reviewed_by: ticket.approval.by.clone(),
            project_id: ticket.project.clone(),
            repository: ticket.repository.clone(),
            workflow_mode: ticket.workflow_mode,
            task_id: ticket.first_task.clone(),
            merge: ticket.merge.clone(),
            created_by: ticket.created_by.clone(),
            created_at: ticket.created_at,
            updated_at: ticket.updated_at,
            last_seq: ticket.seq,
        }
    }
}

/// `GET /api/v1/tickets/{id}`: a ticket and its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TicketDetails {
    #[serde(flatten)]
    pub ticket: TicketOut,
    /// The newest tasks, newest first.
    pub tasks: Vec<TicketTask>,
    /// Whether there are more, for `GET /api/v1/tasks?ticket_id=`.
    pub has_more_tasks: bool,
}

/// Summary of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TicketTask {
    pub id: TaskId,
    pub title: String,
    pub task_type: String,
    pub status: task::Status,
    /// The sandbox of the latest attempt.
    pub sandbox_id: Option<SandboxId>,
    pub created_at: Timestamp,
}

impl From<&Task> for TicketTask {
    fn from(task: &Task) -> Self {
        Self {
            id: task.id.clone(),
            title: task.title.clone(),
            task_type: task.task_type.clone(),
            status: task.status,
            sandbox_id: task.sandbox.clone(),
            created_at: task.created_at,
        }
    }
}

/// `GET /api/v1/tickets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TicketList {
    /// Newest first.
    pub tickets: Vec<TicketOut>,
    /// Send it as `cursor` for the next page; `null` on the last page. A page may be empty and not the last.
    pub next_cursor: Option<String>,
    /// Whether there may be more.
    pub has_more: bool,
}

/// Response when a ticket is not created because it is a duplicate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DuplicateTickets")]
pub struct Duplicates {
    /// Always true: distinguishes this response from a ticket.
    pub is_duplicate: bool,
    /// A text for people.
    pub message: String,
    /// The most similar first.
    pub candidates: Vec<Candidate>,
    /// Similarity of the first candidate.
    pub highest_similarity: f64,
}

impl Duplicates {
    /// Takes the candidates with the most similar first.
    pub fn new(candidates: Vec<Candidate>) -> Self {
        let first = candidates.first().map_or_else(String::new, |first| {
            format!("ticket {} (\"{}\", {})", first.ticket_id, first.title, first.status)
        });
        let others = match candidates.len() {
            0 | 1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let message = format!(
            "The ticket was not created: it duplicates {first}{others}. Use the existing ticket, or retry with \
             \"force_create\": true."
        );
        let highest_similarity = candidates.first().map_or(0.0, |candidate| candidate.similarity_score);
        Self { is_duplicate: true, message, candidates, highest_similarity }
    }
}

/// A similar ticket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DuplicateTicket")]
pub struct Candidate {
    pub ticket_id: TicketId,
    pub title: String,
    pub description: String,
    pub status: Status,
    /// From 0 to 1.
    pub similarity_score: f64,
}

#[cfg(test)]
mod tests;
