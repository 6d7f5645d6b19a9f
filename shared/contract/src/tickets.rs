//! Tickets: creating, listing, showing, moving and judging them. Fields are called as in OmoiOS.

use crate::bad_input::BadInput;
use crate::execution;
use crate::fields::Fields;
use crate::query::Query;
use domain::similar::DEFAULT_THRESHOLD;
use domain::task::{self, Execution, Priority};
use domain::ticket::{ApprovalStatus, MAX_TITLE_CHARS, Status, Terms, Ticket, WorkflowMode, title_of};
use domain::{OrgId, ProjectId, SandboxId, Task, TaskId, TicketId, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Longest description. A worker gets it as a variable, of which Linux takes 128 KB, and a list holds many.
pub const MAX_DESCRIPTION_BYTES: usize = 64 * 1024;
/// Longest name of a phase.
pub const MAX_PHASE_CHARS: usize = 50;
/// Longest time that a task may run: a day.
pub const MAX_TIMEOUT_SECS: u64 = 86_400;
/// Most tries after the first.
pub const MAX_RETRIES: u64 = 10;
/// Longest reason for a move or a rejection.
pub const MAX_REASON_CHARS: usize = 1_000;
/// Longest text that is searched for.
pub const MAX_SEARCH_CHARS: usize = 200;

/// `POST /api/v1/tickets`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTicket {
    /// The sender's id; made up when absent. A repeat with the same id is one ticket.
    pub id: Option<TicketId>,
    /// Its org; the caller's own when absent.
    pub org: Option<OrgId>,
    /// From which similarity on another ticket is taken for the same; `None` to create it whatever there is.
    pub duplicates_from: Option<f64>,
    /// What is wanted.
    pub wish: TicketSpec,
}

/// What is wanted: what makes two tickets the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TicketSpec {
    /// In a few words.
    pub title: String,
    /// In full.
    pub description: String,
    /// How much it matters.
    pub priority: Priority,
    /// A phase of its own to begin in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The project that its tasks count towards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    /// How it becomes tasks.
    pub workflow_mode: WorkflowMode,
    /// How the work is to be done.
    pub execution: Execution,
    /// On what terms.
    pub terms: Terms,
}

impl CreateTicket {
    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let fields = Fields::decode(body)?;
        let description = description(&fields)?;
        let title = title(&fields, &description)?;
        let check_duplicates = fields.flag("check_duplicates")?.unwrap_or(true);
        let force_create = fields.flag("force_create")?.unwrap_or(false);
        let threshold = fields.fraction("similarity_threshold")?.unwrap_or(DEFAULT_THRESHOLD);
        // `spec_driven` is OmoiOS's word for it.
        let modes = [
            (WorkflowMode::Quick.as_str(), WorkflowMode::Quick),
            (WorkflowMode::Phased.as_str(), WorkflowMode::Phased),
            ("spec_driven", WorkflowMode::Phased),
        ];
        let max_retries = fields.whole("max_retries", 0..=MAX_RETRIES)?;
        let wish = TicketSpec {
            title,
            description,
            priority: fields.word("priority", &priorities())?.unwrap_or_default(),
            phase: fields.line("phase_id", MAX_PHASE_CHARS)?,
            project: fields.text("project_id")?.map(ProjectId::parse).transpose()?,
            workflow_mode: fields.word("workflow_mode", &modes)?.unwrap_or(WorkflowMode::Quick),
            execution: execution::decode(&fields)?,
            terms: Terms {
                timeout_secs: fields.whole("timeout_seconds", 1..=MAX_TIMEOUT_SECS)?,
                max_retries: max_retries.and_then(|retries| u32::try_from(retries).ok()),
                validation: fields.flag("validation")?,
            },
        };
        Ok(Self {
            id: fields.text("ticket_id")?.map(TicketId::parse).transpose()?,
            org: fields.text("org")?.map(OrgId::parse).transpose()?,
            duplicates_from: Some(threshold).filter(|_| check_duplicates && !force_create),
            wish,
        })
    }
}

impl TicketSpec {
    /// A fingerprint: the same for a repeat, in whatever order its fields came.
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(self).expect("a wish serialises");
        Sha256::digest(text)[..12].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Without what a terminal would act on, which people paste without seeing it.
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
            Err(BadInput::invalid("title", "is missing, and there is no description to take it from"))
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
    /// Where it should stand.
    pub to: Status,
    /// Why.
    pub reason: Option<String>,
    /// Whether the usual ways may be left.
    pub force: bool,
}

impl Transition {
    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let fields = Fields::decode(body)?;
        let statuses = Status::ALL.map(|status| (status.as_str(), status));
        let to = fields.word("to_status", &statuses)?;
        Ok(Self {
            to: to.ok_or_else(|| BadInput::invalid("to_status", "is missing"))?,
            reason: fields.line("reason", MAX_REASON_CHARS)?,
            force: fields.flag("force")?.unwrap_or(false),
        })
    }
}

/// Reads the body of `POST /api/v1/tickets/{id}/reject`: why.
pub fn decode_rejection(body: &[u8]) -> Result<String, BadInput> {
    let reason = Fields::decode(body)?.line("rejection_reason", MAX_REASON_CHARS)?;
    reason.ok_or_else(|| BadInput::invalid("rejection_reason", "is missing"))
}

/// Which tickets a list holds: those that fit everything that is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those that stand here.
    pub status: Option<Status>,
    /// Those that matter so much.
    pub priority: Option<Priority>,
    /// Those of a project.
    pub project: Option<ProjectId>,
    /// Those whose approval stands so.
    pub approval: Option<ApprovalStatus>,
    /// Those with this in their title or description, in lower case.
    pub search: Option<String>,
}

impl Filter {
    /// Reads `status`, `priority`, `project_id`, `approval_status` and `search`.
    pub fn decode(query: &Query) -> Result<Self, BadInput> {
        let status = query.word("status", &Status::ALL.map(Status::as_str))?;
        let priority = query.word("priority", &Priority::ALL.map(Priority::as_str))?;
        let approval = query.word("approval_status", &ApprovalStatus::ALL.map(ApprovalStatus::as_str))?;
        let search = query.get("search").map(str::trim).filter(|search| !search.is_empty());
        if search.is_some_and(|search| search.chars().count() > MAX_SEARCH_CHARS) {
            let rule = format!("must be at most {MAX_SEARCH_CHARS} characters");
            return Err(BadInput::invalid("search", rule));
        }
        Ok(Self {
            status: status.and_then(Status::parse),
            priority: priority
                .and_then(|word| Priority::ALL.into_iter().find(|priority| priority.as_str() == word)),
            project: query.get("project_id").map(ProjectId::parse).transpose()?,
            approval: approval
                .and_then(|word| ApprovalStatus::ALL.into_iter().find(|status| status.as_str() == word)),
            search: search.map(str::to_lowercase),
        })
    }
}

/// One ticket, as it is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketOut {
    /// Its id.
    pub id: TicketId,
    /// Its org.
    pub org: OrgId,
    /// In a few words.
    pub title: String,
    /// In full.
    pub description: String,
    /// The phase it is in.
    pub phase_id: String,
    /// The phase before.
    pub previous_phase_id: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// How much it matters.
    pub priority: Priority,
    /// Whether something is in its way.
    pub is_blocked: bool,
    /// What.
    pub blocked_reason: Option<String>,
    /// Since when.
    pub blocked_at: Option<Timestamp>,
    /// Whether it may be worked on.
    pub approval_status: ApprovalStatus,
    /// By when somebody has to say so.
    pub approval_deadline_at: Option<Timestamp>,
    /// Why it may not.
    pub rejection_reason: Option<String>,
    /// Who decided.
    pub reviewed_by: Option<String>,
    /// Its project.
    pub project_id: Option<ProjectId>,
    /// The repository that it is about.
    pub repository: Option<String>,
    /// How it becomes tasks.
    pub workflow_mode: WorkflowMode,
    /// The task that began the work on it.
    pub task_id: Option<TaskId>,
    /// Who wants it.
    pub created_by: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When anything of it last changed.
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
            created_by: ticket.created_by.clone(),
            created_at: ticket.created_at,
            updated_at: ticket.updated_at,
            last_seq: ticket.seq,
        }
    }
}

/// `GET /api/v1/tickets/{id}`: a ticket, and what is done for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketShown {
    /// The ticket.
    #[serde(flatten)]
    pub ticket: TicketOut,
    /// Its newest tasks, newest first.
    pub tasks: Vec<TaskOfTicket>,
    /// Whether there are more, for `GET /api/v1/tasks?ticket_id=`.
    pub has_more_tasks: bool,
}

/// One task of a ticket, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOfTicket {
    /// Its id.
    pub id: TaskId,
    /// In a few words.
    pub title: String,
    /// What kind of work.
    pub task_type: String,
    /// Where it stands.
    pub status: task::Status,
    /// The sandbox of its latest try.
    pub sandbox_id: Option<SandboxId>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl From<&Task> for TaskOfTicket {
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketList {
    /// Newest first.
    pub tickets: Vec<TicketOut>,
    /// Give it back as `cursor` for the next page; `null` at the end. A page may be empty and not the last.
    pub next_cursor: Option<String>,
    /// Whether there may be more.
    pub has_more: bool,
}

/// The answer to a ticket that is not created, because there is one like it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Duplicates {
    /// Always true: what tells this answer from a ticket.
    pub is_duplicate: bool,
    /// For a person.
    pub message: String,
    /// The most similar first.
    pub candidates: Vec<Candidate>,
    /// Of the first of them.
    pub highest_similarity: f64,
}

impl Duplicates {
    /// Of these, the most similar first.
    pub fn new(candidates: Vec<Candidate>) -> Self {
        let first = candidates.first().map_or_else(String::new, |one| {
            format!("ticket {} (\"{}\", {})", one.ticket_id, one.title, one.status)
        });
        let others = match candidates.len() {
            0 | 1 => String::new(),
            2 => ", and one more does".to_owned(),
            several => format!(", and {} more do", several - 1),
        };
        let message = format!(
            "Nothing was created: {first} asks for much the same{others}. Follow that one, or send this again with \
             \"force_create\": true."
        );
        let highest_similarity = candidates.first().map_or(0.0, |candidate| candidate.similarity_score);
        Self { is_duplicate: true, message, candidates, highest_similarity }
    }
}

/// A ticket that asks for much the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Which.
    pub ticket_id: TicketId,
    /// In a few words.
    pub title: String,
    /// In full.
    pub description: String,
    /// Where it stands.
    pub status: Status,
    /// From 0 to 1.
    pub similarity_score: f64,
}

#[cfg(test)]
mod tests;
