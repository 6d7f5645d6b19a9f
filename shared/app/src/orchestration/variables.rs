//! Environment variables passed to a worker.

use super::Orchestration;
use contract::repository::{self, TokenScope};
use domain::{Sandbox, Task, Ticket};
use std::collections::BTreeMap;

/// `agent` is the definition of the task's agent. The variables include the worker's token, so they must never be logged.
pub fn of(
    orchestration: &Orchestration,
    sandbox: &Sandbox,
    task: &Task,
    ticket: Option<&Ticket>,
    agent: String,
    token: String,
) -> BTreeMap<String, String> {
    let mut variables = orchestration.worker_variables.of(&task.org, task.project.as_ref());
    let heartbeat_is_set = variables.contains_key(HEARTBEAT_INTERVAL);
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
    set("AGENT", Some(agent));
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
    // An explicit setting wins.
    if !heartbeat_is_set {
        set(HEARTBEAT_INTERVAL, heartbeat_secs(orchestration).map(|secs| secs.to_string()));
    }
    if !has_token_of_its_repository(&variables) {
        TOKENS.iter().for_each(|name| drop(variables.remove(*name)));
    }
    variables
}

/// Variables with tokens of code hosts.
const TOKENS: [&str; 2] = ["GITHUB_TOKEN", "GH_TOKEN"];

/// Whether the token is for the repository. The author of a task chooses the repository, and so the server that would
/// receive the token.
fn has_token_of_its_repository(variables: &BTreeMap<String, String>) -> bool {
    let variable = |name: &str| variables.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
    // As the worker reads them.
    let location = variable("REPOSITORY_URL").or_else(|| variable("GITHUB_REPO")).map(str::to_owned);
    let location = location
        .or_else(|| Some(format!("{}/{}", variable("GITHUB_REPO_OWNER")?, variable("GITHUB_REPO_NAME")?)));
    let address = location.and_then(|location| repository::parse(&location).ok());
    // A scope that cannot be read covers nothing.
    let scope = TokenScope::parse(variable("GITHUB_HOST"), variable("GITHUB_REPOSITORIES"));
    scope.is_ok_and(|scope| address.is_some_and(|address| scope.covers(&address)))
}

const HEARTBEAT_INTERVAL: &str = "HEARTBEAT_INTERVAL";

/// The default heartbeat interval of a worker.
const DEFAULT_HEARTBEAT_SECS: i64 = 30;

/// A shorter heartbeat interval, if fewer than four default ones fit into the heartbeat timeout.
fn heartbeat_secs(orchestration: &Orchestration) -> Option<i64> {
    let secs = (orchestration.thresholds.heartbeat_timeout_secs / 4).max(1);
    (secs < DEFAULT_HEARTBEAT_SECS).then_some(secs)
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
    fn token_is_handed_only_to_workers_of_its_repositories() {
        for (settings, handed) in [
            (&[("GITHUB_REPO", "acme/shop")][..], true),
            (&[("GITHUB_REPO_OWNER", "acme"), ("GITHUB_REPO_NAME", "shop")], true),
            (&[("REPOSITORY_URL", "https://github.com/acme/shop.git")], true),
            (&[("REPOSITORY_URL", "https://attacker.example/acme/shop.git")], false),
            (&[("REPOSITORY_URL", "https://attacker.example/a.git"), ("GITHUB_REPO", "acme/shop")], false),
            (&[], false),
            (&[("GITHUB_HOST", "git.example"), ("REPOSITORY_URL", "https://git.example/a.git")], true),
            (&[("GITHUB_HOST", "git.example"), ("GITHUB_REPO", "acme/shop")], false),
            (&[("GITHUB_HOST", "not a host"), ("GITHUB_REPO", "acme/shop")], false),
            (&[("GITHUB_REPOSITORIES", "acme/*"), ("GITHUB_REPO", "acme/shop")], true),
            (&[("GITHUB_REPOSITORIES", "acme/*"), ("GITHUB_REPO", "other/shop")], false),
        ] {
            let variables = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            assert_eq!(has_token_of_its_repository(&variables.collect()), handed, "{settings:?}");
        }
    }

    #[test]
    fn heartbeat_interval_shrinks_with_heartbeat_timeout() {
        for (timeout, interval) in [(120, None), (600, None), (60, Some(15)), (3, Some(1)), (1, Some(1))] {
            let mut orchestration = Orchestration::default();
            orchestration.thresholds.heartbeat_timeout_secs = timeout;
            assert_eq!(heartbeat_secs(&orchestration), interval, "{timeout}");
        }
    }
}
