//! Environment variables passed to a worker.

use super::Orchestration;
use domain::{Sandbox, Task, Ticket};
use std::collections::BTreeMap;

/// They include the worker's token, so they must never be logged.
pub fn of(
    orchestration: &Orchestration,
    sandbox: &Sandbox,
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
    set("SANDBOX_ID", Some(sandbox.id.to_string()));
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

/// The default heartbeat interval of a worker.
const DEFAULT_HEARTBEAT_SECS: i64 = 30;

/// A shorter heartbeat interval, if fewer than four default ones fit into the heartbeat timeout. An explicit setting
/// wins.
fn heartbeat_secs(orchestration: &Orchestration) -> Option<i64> {
    let secs = (orchestration.thresholds.heartbeat_timeout_secs / 4).max(1);
    let is_set = orchestration.worker_variables.contains_key("HEARTBEAT_INTERVAL");
    (secs < DEFAULT_HEARTBEAT_SECS && !is_set).then_some(secs)
}

/// The description, or the title if it is empty.
fn description(task: &Task) -> String {
    if task.description.trim().is_empty() { task.title.clone() } else { task.description.clone() }
}

fn revision(feedback: &str) -> String {
    format!("An earlier result of this task was rejected in review. The feedback was:\n\n{feedback}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeat_interval_shrinks_with_heartbeat_timeout() {
        for (timeout, interval) in [(120, None), (600, None), (60, Some(15)), (3, Some(1)), (1, Some(1))] {
            let mut orchestration = Orchestration::default();
            orchestration.thresholds.heartbeat_timeout_secs = timeout;
            assert_eq!(heartbeat_secs(&orchestration), interval, "{timeout}");
        }
    }
}
