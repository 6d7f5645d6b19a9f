//! Environment variables passed to a worker.

use super::Orchestration;
use super::code_hosts::{CodeHosts, repository_of};
use domain::event::catalogue;
use domain::event::payloads::AgentCompleted;
use domain::{Sandbox, Task, Ticket, feedback};
use std::collections::BTreeMap;

/// What a worker is started for.
#[derive(Debug)]
pub struct Work<'a> {
    pub sandbox: &'a Sandbox,
    pub task: &'a Task,
    pub ticket: Option<&'a Ticket>,
    /// The definition of the task's agent.
    pub agent: String,
    /// Whether the plane has a code host for the repository, so that the worker asks the plane for git access.
    pub has_code_host: bool,
}

/// The variables include the worker's token, so they must never be logged.
pub fn of(
    orchestration: &Orchestration,
    code_hosts: &CodeHosts,
    work: Work<'_>,
    token: String,
) -> BTreeMap<String, String> {
    let Work { sandbox, task, ticket, agent, has_code_host } = work;
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
    set("CONVERSATION_CONTEXT", context(task));
    match repository_of(task, ticket) {
        Some(url) if url.contains("://") || url.starts_with('/') => set("REPOSITORY_URL", Some(url)),
        other => set("GITHUB_REPO", other),
    }
    let branch = task.branch.as_ref();
    set("BRANCH_NAME", branch.map(|branch| branch.name.clone()).or_else(|| execution.branch.clone()));
    set("BASE_BRANCH", branch.map(|branch| branch.base.clone()).or_else(|| execution.base_branch.clone()));
    set("GIT_ACCESS", has_code_host.then(|| "plane".to_owned()));
    set("REQUESTED_BY", ticket.and_then(|ticket| ticket.created_by.clone()));
    set("CONTINUOUS_MODE", execution.continuous.map(|continuous| continuous.to_string()));
    set("EXIT_WHEN_DONE", Some("true".to_owned()));
    // An explicit setting wins.
    if !heartbeat_is_set {
        set(HEARTBEAT_INTERVAL, heartbeat_secs(orchestration).map(|secs| secs.to_string()));
    }
    // A worker asks the plane for git access.
    TOKENS.iter().for_each(|name| drop(variables.remove(*name)));
    code_hosts.remove_secrets(&mut variables);
    variables
}

/// Variables with tokens of code hosts.
const TOKENS: [&str; 2] = ["GITHUB_TOKEN", "GH_TOKEN"];

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

/// What the agent has to know besides the task: the feedback on its pull request, or of a review.
fn context(task: &Task) -> Option<String> {
    let round = task.rounds.as_ref().and_then(|rounds| rounds.round.as_ref());
    let branch = task.branch.as_ref();
    let link = branch.and_then(|branch| branch.pull_request.as_ref());
    if let (Some(round), Some(branch), Some(link)) = (round, branch, link) {
        let result: Option<AgentCompleted> = task.result.as_ref().and_then(catalogue::read);
        let summary = result.map(|result| feedback::without_answers(&result.report.final_output));
        return Some(feedback::prompt(round, &link.url, &branch.base, summary.as_deref()));
    }
    task.feedback.as_deref().map(revision)
}

fn revision(feedback: &str) -> String {
    format!("An earlier result of this task was rejected in review. The feedback was:\n\n{feedback}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orchestration::WorkerVariables;
    use code_hosts::{CODE_HOSTS, Environment};
    use domain::{OrgId, SandboxId, Timestamp};
    use serde_json::json;
    use std::sync::Arc;

    /// The author of a task chooses its repository, and so the server to which the worker would send them.
    #[test]
    fn worker_receives_no_credential_of_a_code_host() {
        let task = json!({
            "id": "t-1", "org": "acme", "task_type": "implement_feature", "title": "Count the words",
            "description": "", "phase": "p", "priority": "MEDIUM", "status": "pending",
            "created_at": Timestamp::from_secs(1), "updated_at": Timestamp::from_secs(1),
            "since": Timestamp::from_secs(1), "max_retries": 0, "version": 0,
            "repository": "https://attacker.example/acme/shop.git",
        });
        let task: Task = serde_json::from_value(task).unwrap();
        let (id, org) = (SandboxId::parse("s-1").unwrap(), OrgId::parse("acme").unwrap());
        let sandbox = Sandbox::new(id, org, None, Timestamp::from_secs(1));
        let planted = ["GITHUB_TOKEN", "GH_TOKEN", "GITHUB_APP_PRIVATE_KEY", "ANTHROPIC_API_KEY"];
        let planted = planted.map(|name| (name.to_owned(), format!("planted-{name}"))).into();
        let worker_variables = WorkerVariables::shared(planted);
        let orchestration = Orchestration { worker_variables, ..Orchestration::default() };
        let hosts = CodeHosts::new(CODE_HOSTS.to_vec(), Environment::new(Arc::new(|| 0)));
        for has_code_host in [false, true] {
            let agent = "claude".to_owned();
            let work = Work { sandbox: &sandbox, task: &task, ticket: None, agent, has_code_host };
            let variables = of(&orchestration, &hosts, work, "swt_1".to_owned());
            let found: Vec<_> = variables.iter().filter(|(_, value)| value.starts_with("planted")).collect();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].0, "ANTHROPIC_API_KEY");
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
