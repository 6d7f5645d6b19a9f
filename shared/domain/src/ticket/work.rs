//! The tasks of a ticket: the first, and the one that follows it.

use super::{
    ANALYZE_REQUIREMENTS, IMPLEMENT_FEATURE, MAX_TITLE_CHARS, RESOLVE_CONFLICTS, Status, TaskOptions, Ticket,
    WorkflowMode,
};
use crate::event::catalogue;
use crate::event::payloads::{AgentCompleted, RunReport};
use crate::task::{self, Execution, MAX_RETRIES, Priority, Task, TaskBranch};
use crate::{OrgId, ProjectId, TaskId, TicketId, Timestamp};

/// A task to create for a ticket. The caller chooses its id and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    pub ticket: TicketId,
    pub org: OrgId,
    pub project: Option<ProjectId>,
    pub task_type: String,
    pub title: String,
    pub description: String,
    pub phase: String,
    pub priority: Priority,
    /// That of the ticket, with its repository.
    pub execution: Execution,
    pub task_options: TaskOptions,
}

impl NewTask {
    /// The task before its first transition: see [`Task::created`].
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
            max_retries: self.task_options.max_retries.unwrap_or(MAX_RETRIES),
            not_before: None,
            timeout_secs: self.task_options.timeout_secs,
            deadline_at: None,
            validation: self.task_options.validation.unwrap_or(false),
            feedback: None,
            revisions: 0,
            result: None,
            error: None,
            execution: self.execution,
            branch: None,
            rounds: None,
            digest: None,
            version: 0,
            seq: 0,
            segments: 0,
        }
    }
}

/// The first task of a ticket, once it is approved.
pub fn first_task(ticket: &Ticket) -> NewTask {
    match ticket.workflow_mode {
        WorkflowMode::Quick => implement(ticket),
        WorkflowMode::Phased => analyze(ticket),
    }
}

/// The task that follows a completed one, and its id: an analysis is followed by the implementation. The id is derived
/// from the completed task, so that a repeated completion creates no second task. A ticket that is done gets none.
pub fn next_task(ticket: &Ticket, completed: &Task) -> Option<(TaskId, NewTask)> {
    let was_first = ticket.first_task.as_ref() == Some(&completed.id);
    let follows = ticket.workflow_mode == WorkflowMode::Phased
        && was_first
        && completed.task_type == ANALYZE_REQUIREMENTS
        && completed.status == task::Status::Completed
        && ticket.status != Status::Done;
    if !follows {
        return None;
    }
    let id = TaskId::parse(format!("{}-implement", completed.id)).ok()?;
    let mut next = implement(ticket);
    next.description.push_str(&findings(completed));
    Some((id, next))
}

/// A task that resolves the conflicts of a branch with its base, on that branch.
pub fn resolve_conflicts(ticket: &Ticket, of: &Task, branch: &TaskBranch, files: &[&str]) -> NewTask {
    let TaskBranch { name, base, .. } = branch;
    let listed: String = files.iter().map(|file| format!("\n- {file}")).collect();
    let listed = if files.is_empty() { String::new() } else { format!("\n\nFiles in conflict:\n{listed}") };
    let description = format!(
        "The branch {name} conflicts with {base}. Resolve the conflicts on {name}: run `git fetch origin`, merge \
         `origin/{base}` into the branch, and keep what both sides want. Run the tests, then commit the merge. Do not \
         change anything else, and do not rebase.{listed}\n\nThe branch is the work on this task:\n\n{}",
        of.description
    );
    NewTask {
        ticket: ticket.id.clone(),
        org: of.org.clone(),
        project: of.project.clone(),
        task_type: RESOLVE_CONFLICTS.to_owned(),
        title: format!("Resolve conflicts: {}", of.title).chars().take(MAX_TITLE_CHARS).collect(),
        description,
        phase: of.phase.clone(),
        priority: of.priority,
        execution: of.execution.clone(),
        task_options: TaskOptions {
            timeout_secs: of.timeout_secs,
            max_retries: Some(of.max_retries),
            validation: Some(of.validation),
        },
    }
}

/// The output of the analysis, as part of the prompt for the implementation.
fn findings(analysis: &Task) -> String {
    let result: Option<AgentCompleted> = analysis.result.as_ref().and_then(catalogue::read);
    let RunReport { final_output, output, .. } = result.unwrap_or_default().report;
    let texts = [Some(final_output), output];
    let Some(output) = texts.into_iter().flatten().find(|text| !text.trim().is_empty()) else {
        return String::new();
    };
    format!("\n\nThe requirements were analyzed before (task {}). Findings:\n\n{output}", analysis.id)
}

fn implement(ticket: &Ticket) -> NewTask {
    new_task(ticket, IMPLEMENT_FEATURE, "Implement", Status::Building)
}

fn analyze(ticket: &Ticket) -> NewTask {
    new_task(ticket, ANALYZE_REQUIREMENTS, "Analyze requirements", Status::Analyzing)
}

fn new_task(ticket: &Ticket, task_type: &str, verb: &str, status: Status) -> NewTask {
    let prompt = if ticket.description.trim().is_empty() { &ticket.title } else { &ticket.description };
    let mut execution = ticket.execution.clone();
    execution.repository = execution.repository.or_else(|| ticket.repository.clone());
    NewTask {
        ticket: ticket.id.clone(),
        org: ticket.org.clone(),
        project: ticket.project.clone(),
        task_type: task_type.to_owned(),
        title: format!("{verb}: {}", ticket.title).chars().take(MAX_TITLE_CHARS).collect(),
        description: prompt.clone(),
        phase: status.phase().to_owned(),
        priority: ticket.priority,
        execution,
        task_options: ticket.task_options.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JsonObject;
    use crate::ticket::tests::ticket;
    use serde_json::json;

    #[test]
    fn the_workflow_mode_chooses_the_first_task() {
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
    fn the_prompt_is_never_blank_and_the_title_is_limited() {
        let long =
            Ticket {
                title: "é".repeat(MAX_TITLE_CHARS), description: " ".into(), ..ticket(Status::Backlog)
            };
        let task = first_task(&long);
        assert_eq!(task.title.chars().count(), MAX_TITLE_CHARS);
        assert_eq!(task.description, long.title);
        let execution = Execution { repository: Some("acme/other".into()), ..Execution::default() };
        let task = first_task(&Ticket { execution, ..ticket(Status::Backlog) });
        assert_eq!(task.execution.repository.as_deref(), Some("acme/other"), "the more specific one counts");
    }

    #[test]
    fn a_task_gets_the_options_of_its_ticket() {
        let (id, now) = (TaskId::parse("t-1").unwrap(), Timestamp::from_secs(200));
        let default = first_task(&ticket(Status::Backlog)).into_task(id.clone(), now);
        assert_eq!(
            (default.max_retries, default.timeout_secs, default.validation),
            (MAX_RETRIES, None, false)
        );
        let task_options =
            TaskOptions { timeout_secs: Some(60), max_retries: Some(0), validation: Some(true) };
        let strict = first_task(&Ticket { task_options, ..ticket(Status::Backlog) }).into_task(id, now);
        assert_eq!((strict.max_retries, strict.timeout_secs, strict.validation), (0, Some(60), true));
        let created = strict.created(&crate::score::Weights::default(), now);
        let events: Vec<&str> = created.events.iter().map(|event| event.event_type.as_str()).collect();
        assert_eq!(events, ["task.created", "task.ready"]);
        assert!(created.task.place.is_some() && created.task.version == 1);
    }

    /// A phased ticket whose analysis is completed with this result.
    fn analyzed(result: serde_json::Value) -> (Ticket, Task) {
        let id = TaskId::parse("t-1").unwrap();
        let phased = Ticket { first_task: Some(id.clone()), ..ticket(Status::Analyzing) };
        let mut analysis = first_task(&phased).into_task(id, Timestamp::from_secs(200));
        (analysis.status, analysis.result) = (task::Status::Completed, Some(JsonObject::of(&result)));
        (phased, analysis)
    }

    #[test]
    fn an_analysis_is_followed_by_the_implementation() {
        let (phased, analysis) = analyzed(json!({"final_output": "Use PKCE.", "turns": 3}));
        let (id, next) = next_task(&phased, &analysis).unwrap();
        assert_eq!((id.as_str(), next.task_type.as_str()), ("t-1-implement", IMPLEMENT_FEATURE));
        assert_eq!(
            (next.title.as_str(), next.phase.as_str()),
            ("Implement: Add a login page", "PHASE_IMPLEMENTATION")
        );
        assert!(next.description.starts_with("With OAuth.\n\n"), "{}", next.description);
        assert!(next.description.ends_with("(task t-1). Findings:\n\nUse PKCE."), "{}", next.description);
        assert_eq!(next_task(&phased, &analysis).unwrap().0, id, "idempotent");
        for without_output in [json!({}), json!({"final_output": " ", "output": 7})] {
            let (phased, analysis) = analyzed(without_output);
            assert_eq!(next_task(&phased, &analysis).unwrap().1.description, "With OAuth.");
        }
        let task = next.into_task(id, Timestamp::from_secs(300));
        assert!(task.depends_on.is_empty(), "its only dependency is completed");
        let mut implemented = task.clone();
        implemented.status = task::Status::Completed;
        assert_eq!(next_task(&phased, &implemented), None, "nothing follows an implementation");
    }

    #[test]
    fn only_the_completed_analysis_of_a_phased_ticket_is_followed() {
        let (phased, analysis) = analyzed(json!({}));
        for status in task::Status::ALL {
            let analysis = Task { status, ..analysis.clone() };
            let follows = next_task(&phased, &analysis).is_some();
            assert_eq!(follows, status == task::Status::Completed, "{status:?}");
        }
        let done = Ticket { status: Status::Done, ..phased.clone() };
        let quick = Ticket { workflow_mode: WorkflowMode::Quick, ..phased.clone() };
        let other = Ticket { first_task: Some(TaskId::parse("t-2").unwrap()), ..phased.clone() };
        let none = Ticket { first_task: None, ..phased };
        for ticket in [done, quick, other, none] {
            assert_eq!(next_task(&ticket, &analysis), None, "{ticket:?}");
        }
    }
}
