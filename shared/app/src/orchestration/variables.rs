//! What a worker is told when it is started.

use super::Orchestration;
use domain::{Head, Task, Ticket};
use std::collections::BTreeMap;

/// The variables of a worker. Its token is among them, so they are never logged.
pub fn of(
    orchestration: &Orchestration,
    head: &Head,
    task: &Task,
    ticket: Option<&Ticket>,
    token: String,
) -> BTreeMap<String, String> {
    let mut variables = orchestration.worker_variables.clone();
    let execution = &task.execution;
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            variables.insert(name.to_owned(), value);
        }
    };
    set("SANDBOX_ID", Some(head.id.to_string()));
    set("SANDBOX_TOKEN", Some(token));
    set("CALLBACK_URL", Some(orchestration.callback_url.clone()));
    set("SOCKET_URL", orchestration.socket_url.clone());
    set("TASK_ID", Some(task.id.to_string()));
    set("AGENT", Some(execution.agent.clone().unwrap_or_else(|| orchestration.default_agent.clone())));
    set("MODEL", execution.model.clone());
    set("TASK_DESCRIPTION", Some(description(task)));
    set("TICKET_TITLE", ticket.map(|ticket| ticket.title.clone()));
    set("CONVERSATION_CONTEXT", task.feedback.as_deref().map(revision));
    let repository =
        execution.repository.clone().or_else(|| ticket.and_then(|ticket| ticket.repository.clone()));
    match repository {
        Some(url) if url.contains("://") || url.starts_with('/') => set("REPOSITORY_URL", Some(url)),
        other => set("GITHUB_REPO", other),
    }
    set("BRANCH_NAME", execution.branch.clone());
    set("CONTINUOUS_MODE", execution.continuous.map(|continuous| continuous.to_string()));
    set("EXIT_WHEN_DONE", Some("true".to_owned()));
    variables
}

/// What there is to do: the title says it if there is nothing more.
fn description(task: &Task) -> String {
    if task.description.trim().is_empty() { task.title.clone() } else { task.description.clone() }
}

fn revision(feedback: &str) -> String {
    format!("An earlier result of this task was judged not good enough. What was said of it:\n\n{feedback}")
}
