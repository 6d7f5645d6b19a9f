//! The pull request of a task: opens it, and reads its state from the code host.

mod text;

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::orchestration::{CodeHosts, Orchestration, Repository};
use crate::visibility::visible_task;
use crate::{Clock, IdSource, events};
use code_hosts::{Check, CheckState, Failure, NewPullRequest, PullRequest, PullRequestState, Reason, Status};
use contract::ProblemCode;
use contract::tasks::{CheckOut, FeedbackOut, PullRequestOut};
use domain::access::Principal;
use domain::task::transitions::Transition;
use domain::task::{PullRequestLink, TaskBranch};
use domain::ticket::RESOLVE_CONFLICTS;
use domain::{JsonObject, Task, TaskId, Ticket};
use serde_json::json;
use store::Store;
use store::commit::{Commit, Committed};

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
    pub ids: &'a dyn IdSource,
    pub orchestration: &'a Orchestration,
    pub code_hosts: &'a CodeHosts,
}

/// The name under which the plane reports on commits.
pub(crate) const CHECK: &str = "sunaba";

/// What became of the work of a task. Both hold the result of the task.
pub(crate) enum Proposed {
    /// The branch has no commit that its base does not have.
    Nothing {
        result: JsonObject,
    },
    Opened {
        link: PullRequestLink,
        result: JsonObject,
    },
}

/// Opens the pull request of the task's branch, or updates it. The facts in the result are those of the code host.
/// Idempotent.
pub(crate) async fn propose(
    orchestration: &Orchestration,
    repository: &Repository,
    task: &Task,
    result: &JsonObject,
) -> Result<Proposed, Failure> {
    let nothing = |branch: Option<&TaskBranch>| {
        let state = json!({
            "branch_name": branch.map(|branch| &branch.name), "code_pushed": false, "pr_created": false,
        });
        Proposed::Nothing { result: with(result, &state) }
    };
    let Some(branch) = &task.branch else { return Ok(nothing(None)) };
    let host = repository.host.as_ref();
    let Some(commit) = host.branch(&branch.name).await? else {
        if is_merged(repository, branch).await? {
            return Ok(nothing(Some(branch)));
        }
        let message = format!("the branch {} was deleted at the code host", branch.name);
        return Err(Failure::new(Reason::NotFound, message));
    };
    if is_merged_at(branch, &commit) {
        return Ok(nothing(Some(branch)));
    }
    let compared = host.compare(&branch.base, &commit).await?;
    if compared.ahead == 0 {
        return Ok(nothing(Some(branch)));
    }
    let request = NewPullRequest {
        branch: branch.name.clone(),
        base: branch.base.clone(),
        title: text::title(task),
        body: text::body(task, result, &compared, &orchestration.callback_url),
    };
    let known = proposal_of_another(repository, task, branch).await?;
    let opened = match known {
        Some(known) => Ok(known),
        None => host.propose(&request).await,
    };
    let opened = match opened {
        Ok(opened) => opened,
        Err(failure) if failure.reason == Reason::NothingToPropose => return Ok(nothing(Some(branch))),
        Err(failure) => return Err(failure),
    };
    report(repository, &commit, orchestration, task).await;
    let state = json!({
        "branch_name": branch.name,
        "commit": commit,
        "code_pushed": true,
        "pr_created": true,
        "pr_url": opened.url,
        "pr_number": opened.number,
        "files_changed": compared.files.len(),
        "ci_status": ci_status(&checks(repository, &commit).await),
    });
    let link = PullRequestLink { number: opened.number, url: opened.url, commit, merged_at: None };
    Ok(Proposed::Opened { link, result: with(result, &state) })
}

/// Records whose pull request it is, so that a webhook leads to the task. A task that resolves conflicts works on the pull
/// request of another.
pub(crate) async fn remember(
    store: &Store,
    repository: &Repository,
    task: &Task,
    link: &PullRequestLink,
) -> Result<(), store::Error> {
    if task.task_type == RESOLVE_CONFLICTS {
        return Ok(());
    }
    match contract::repository::key(&repository.address) {
        Some(key) => store.put_pull_request(&key, link.number, &task.id).await,
        // A directory of this machine sends no webhooks.
        None => Ok(()),
    }
}

/// The open pull request of the task whose conflicts this one resolves. Its title and description stay.
async fn proposal_of_another(
    repository: &Repository,
    task: &Task,
    branch: &TaskBranch,
) -> Result<Option<PullRequest>, Failure> {
    let Some(link) = branch.pull_request.as_ref().filter(|_| task.task_type == RESOLVE_CONFLICTS) else {
        return Ok(None);
    };
    let found = repository.host.pull_request(link.number).await?;
    Ok(found.filter(|found| found.state == PullRequestState::Open))
}

/// Whether the last pull request of the branch is merged at the code host.
async fn is_merged(repository: &Repository, branch: &TaskBranch) -> Result<bool, Failure> {
    let Some(link) = &branch.pull_request else { return Ok(false) };
    let found = repository.host.pull_request(link.number).await?;
    Ok(found.is_some_and(|found| matches!(found.state, PullRequestState::Merged { .. })))
}

/// Whether this commit of the branch was merged. A branch that was squashed or rebased still has commits of its own.
fn is_merged_at(branch: &TaskBranch, commit: &str) -> bool {
    let merged = branch.pull_request.as_ref().filter(|link| link.merged_at.is_some());
    merged.is_some_and(|link| link.commit == commit)
}

/// Marks the commit as the work of a task. Nothing depends on the mark, so a failure is only logged.
async fn report(repository: &Repository, commit: &str, orchestration: &Orchestration, task: &Task) {
    let status = Status {
        name: CHECK.to_owned(),
        state: CheckState::Success,
        summary: format!("The agent has completed the task: {}", task.title),
        url: text::link(task, &orchestration.callback_url),
    };
    if let Err(failure) = repository.host.report_status(commit, &status).await {
        tracing::warn!(task.id = %task.id, "Could not report the status of task {}: {failure}", task.id);
    }
}

/// The checks of others; none if the code host cannot be asked.
async fn checks(repository: &Repository, commit: &str) -> Vec<Check> {
    checks_of_others(repository.host.checks(commit).await.unwrap_or_default())
}

/// Without that of the plane.
pub(crate) fn checks_of_others(mut checks: Vec<Check>) -> Vec<Check> {
    checks.retain(|check| check.name != CHECK);
    checks
}

/// All checks as one word; `None` if there are none.
fn ci_status(checks: &[Check]) -> Option<&'static str> {
    let any = |state| checks.iter().any(|check| check.state == state);
    if checks.is_empty() {
        None
    } else if any(CheckState::Failure) {
        Some("failure")
    } else if any(CheckState::Pending) {
        Some("pending")
    } else {
        Some("success")
    }
}

fn with(result: &JsonObject, facts: &serde_json::Value) -> JsonObject {
    let facts = JsonObject::of(facts);
    let fields: Vec<_> = facts.fields().into_iter().map(|(name, raw)| (name, Some(raw.to_owned()))).collect();
    let fields: Vec<_> = fields.iter().map(|(name, raw)| (name.as_str(), raw.clone())).collect();
    result.with_fields(&fields)
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub task: TaskId,
    /// Whether to open it, or update it, first.
    pub open: bool,
}

pub type Outcome = PullRequestOut;

/// The state of the pull request at the code host.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, task, open } = command;
    let Found { mut task, branch, repository } = find(deps, &principal, &task).await?;
    let mut branch = branch;
    if open {
        let proposed = propose(deps.orchestration, &repository, &task, &JsonObject::empty()).await;
        if let Proposed::Opened { link, .. } = proposed.map_err(of_code_host)? {
            remember(deps.store, &repository, &task, &link).await?;
            task = record(deps, &principal, task, link).await?;
            branch = task.branch.clone().unwrap_or(branch);
        }
    }
    let mut out = PullRequestOut {
        task_id: task.id.clone(),
        repository: repository.name.clone(),
        code_host: repository.host.name().to_owned(),
        branch: branch.name.clone(),
        base: branch.base.clone(),
        number: None,
        url: None,
        state: None,
        commit: repository.host.branch(&branch.name).await.map_err(of_code_host)?,
        mergeable: None,
        ci_status: None,
        checks: Vec::new(),
        feedback: task.rounds.as_ref().map(FeedbackOut::from).unwrap_or_default(),
    };
    let Some(link) = &branch.pull_request else { return Ok(out) };
    let found = repository.host.pull_request(link.number).await.map_err(of_code_host)?;
    let found = found.ok_or_else(|| Error::NotFound(format!("Pull request {}", link.number)))?;
    let state = match &found.state {
        PullRequestState::Open => "open",
        PullRequestState::Merged { .. } => "merged",
        PullRequestState::Closed => "closed",
    };
    let checks = checks(&repository, &found.head_commit).await;
    out.ci_status = ci_status(&checks).map(str::to_owned);
    out.checks = checks.into_iter().map(check_out).collect();
    (out.number, out.url, out.state) = (Some(found.number), Some(found.url), Some(state.to_owned()));
    (out.commit, out.mergeable) = (Some(found.head_commit), found.mergeable);
    Ok(out)
}

/// Records a pull request that a caller has opened. A task that has it already stays as it is.
async fn record(
    deps: Deps<'_>,
    principal: &Principal,
    mut task: Task,
    link: PullRequestLink,
) -> Result<Task, Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let known = task.branch.as_ref().and_then(|branch| branch.pull_request.as_ref());
        if known.is_some_and(|known| (known.number, &known.commit) == (link.number, &link.commit)) {
            return Ok(task);
        }
        let transition = task.pull_request_opened(link.clone(), deps.clock.now()).by(principal);
        if let Some(task) = write(deps, &task, transition).await? {
            return Ok(task);
        }
        retry.conflict().await?;
        task = visible_task(deps.store, principal, &task.id).await?;
    }
}

/// Writes a change that does not move the task to another status. Returns `None` on a conflict.
pub(crate) async fn write(deps: Deps<'_>, before: &Task, change: Transition) -> Result<Option<Task>, Error> {
    let mut commit = Commit::new(deps.clock.now());
    commit.tasks.push(events::emit::task_change(deps.ids, before, change));
    match deps.store.commit(commit).await? {
        Committed::Done(done) => Ok(done.tasks.into_iter().next()),
        Committed::Conflict => Ok(None),
    }
}

fn check_out(check: Check) -> CheckOut {
    let state = match check.state {
        CheckState::Pending => "pending",
        CheckState::Success => "success",
        CheckState::Failure => "failure",
        CheckState::Neutral => "neutral",
    };
    CheckOut { name: check.name, state: state.to_owned(), summary: check.summary, url: check.url }
}

/// A task whose branch the plane has created.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) task: Task,
    pub(crate) branch: TaskBranch,
    pub(crate) repository: Repository,
}

pub(crate) async fn find(deps: Deps<'_>, principal: &Principal, id: &TaskId) -> Result<Found, Error> {
    of_task(deps, visible_task(deps.store, principal, id).await?).await
}

pub(crate) async fn of_task(deps: Deps<'_>, task: Task) -> Result<Found, Error> {
    let repository = repository(deps, &task).await?;
    match (task.branch.clone(), repository) {
        (Some(branch), Some(repository)) => Ok(Found { task, branch, repository }),
        _ => Err(no_branch(&task.id)),
    }
}

/// The repository of a task, if this plane has one for it.
pub(crate) async fn repository(deps: Deps<'_>, task: &Task) -> Result<Option<Repository>, Error> {
    let ticket: Option<Ticket> = match &task.ticket {
        Some(id) => deps.store.ticket(id).await?,
        None => None,
    };
    deps.code_hosts.repository(deps.orchestration, task, ticket.as_ref()).map_err(of_code_host)
}

pub(crate) fn no_branch(id: &TaskId) -> Error {
    let detail = format!(
        "Task {id} has no branch: it has no repository, this plane has no credential for it, or no sandbox was created yet."
    );
    Error::conflict(ProblemCode::NoBranch, detail, json!({}))
}

/// A failure of a code host as an error of the API, with what a person can do about it.
pub(crate) fn of_code_host(failure: Failure) -> Error {
    let detail = format!("{failure}. {}", failure.reason.remedy());
    let detail = detail[..1].to_uppercase() + &detail[1..];
    if failure.reason.is_transient() {
        return Error::CodeHostUnavailable(format!("The code host does not respond. {detail}"));
    }
    Error::conflict(ProblemCode::CodeHostRefused, detail, json!({"reason": failure.reason.code()}))
}
