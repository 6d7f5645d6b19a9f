//! What a worker is told when it is started.

use super::Orchestration;
use domain::{Sandbox, Task, Ticket};
use std::collections::BTreeMap;

/// The variables of a worker. Its token is among them, so they are never logged.
pub fn of(
    orchestration: &Orchestration,
    head: &Sandbox,
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
    set("HEARTBEAT_INTERVAL", heartbeat_secs(orchestration).map(|secs| secs.to_string()));
    variables
}

/// How often a worker usually gives a sign of life.
const USUAL_HEARTBEAT_SECS: i64 = 30;

/// How often it is to do so where it would count as dead before its fourth. Whoever says how often is left alone.
fn heartbeat_secs(orchestration: &Orchestration) -> Option<i64> {
    let secs = (orchestration.thresholds.heartbeat_timeout_secs / 4).max(1);
    let said = orchestration.worker_variables.contains_key("HEARTBEAT_INTERVAL");
    (secs < USUAL_HEARTBEAT_SECS && !said).then_some(secs)
}

/// What there is to do: the title says it if there is nothing more.
fn description(task: &Task) -> String {
    if task.description.trim().is_empty() { task.title.clone() } else { task.description.clone() }
}

fn revision(feedback: &str) -> String {
    format!("An earlier result of this task was judged not good enough. What was said of it:\n\n{feedback}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_soon_taken_for_dead_gives_signs_of_life_more_often() {
        for (timeout, interval) in [(120, None), (600, None), (60, Some(15)), (3, Some(1)), (1, Some(1))] {
            let mut orchestration = Orchestration::default();
            orchestration.thresholds.heartbeat_timeout_secs = timeout;
            assert_eq!(heartbeat_secs(&orchestration), interval, "{timeout}");
        }
    }
}
