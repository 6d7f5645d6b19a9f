//! Opens the pull request of a task whose agent has finished, and completes the task.

use super::branch::of_code_host;
use super::provision::{MAX_ATTEMPTS, attempt_of, busy_secs};
use super::{Deps, Flow, write};
use crate::clock::jitter;
use crate::error::{Error, chain};
use crate::orchestration::Repository;
use crate::tasks::pull_request::{Proposed, propose};
use crate::{feedback, reconcile, tasks};
use contract::jobs::Job;
use contract::payloads::{AgentCompleted, SandboxRetrying};
use domain::attempt::{Attempt, MAX_ERROR_CHARS, Outcome, Stage};
use domain::event::{LifecycleEvent, catalogue};
use domain::kept::Format;
use domain::retry::{Class, backoff_secs};
use domain::{JsonObject, Sandbox, Task, Timestamp};
use providers::{Failure, FailureClass};

/// How long a task waits for a code host that limits our rate.
const MAX_WAIT_SECS: i64 = 3600;

/// Idempotent: a pull request is found again by its branch. A lease keeps a second process from doing the same meanwhile.
pub(super) async fn run(deps: Deps<'_>, sandbox: &Sandbox, task: &Task) -> Result<Flow, Error> {
    let (Some(assignment), Some(Outcome::Completed { result, .. })) =
        (&sandbox.assignment, &sandbox.activity.outcome)
    else {
        return Ok(Flow::Wait(None));
    };
    let attempt = Attempt { number: assignment.attempt, sandbox: sandbox.id.clone() };
    let lease = deps.clock.now().plus_secs(Stage::Preparing.lease_secs());
    let Some(sandbox) = set_lease(deps, sandbox, Some(lease)).await? else { return Ok(Flow::Conflict) };
    let ticket = match &task.ticket {
        Some(id) => deps.store.ticket(id).await?,
        None => None,
    };
    let repository = deps.code_hosts.repository(deps.orchestration, task, ticket.as_ref());
    let proposed = match repository {
        Ok(Some(repository)) => open(deps, &repository, task, result).await,
        // The operator has removed the credential since.
        Ok(None) => Ok(Proposed::Nothing { result: result.clone() }),
        Err(failure) => Err(of_code_host(failure)),
    };
    let failure = match proposed {
        Ok(proposed) => return complete(deps, &sandbox, task, &attempt, proposed).await,
        Err(failure) => failure,
    };
    let attempts = sandbox.activity.provisioning.as_ref().map_or(0, |provisioning| provisioning.attempts) + 1;
    // Rate limiting does not count as an attempt, but the task must not wait indefinitely.
    let is_late = deps.clock.now() > task.since.plus_secs(MAX_WAIT_SECS);
    if failure.class == FailureClass::Refused || attempts >= MAX_ATTEMPTS || is_late {
        return give_up(deps, &sandbox, task, &attempt, &failure).await;
    }
    retry(deps, &sandbox, attempts, &failure).await
}

async fn open(
    deps: Deps<'_>,
    repository: &Repository,
    task: &Task,
    result: &JsonObject,
) -> Result<Proposed, Failure> {
    let reported: AgentCompleted = catalogue::read(result).unwrap_or_default();
    if reported.report.state.code_pushed == Some(false) {
        return Err(Failure::refused(
            "The worker could not push all commits of the agent. Its last workspace.push_failed event says why.",
        ));
    }
    let request = propose(deps.orchestration, repository, task, result);
    let proposed = super::provision::with_timeout(Stage::Preparing.timeout_secs(), async {
        request.await.map_err(of_code_host)
    })
    .await?;
    if let Proposed::Opened { link, .. } = &proposed {
        let stored = tasks::pull_request::remember(deps.store, repository, task, link).await;
        stored.map_err(|error| Failure::unreachable(chain(&error)))?;
    }
    Ok(proposed)
}

async fn complete(
    deps: Deps<'_>,
    sandbox: &Sandbox,
    task: &Task,
    attempt: &Attempt,
    proposed: Proposed,
) -> Result<Flow, Error> {
    let now = deps.clock.now();
    let transition = match proposed {
        Proposed::Nothing { result } => task.complete(attempt, &result, now),
        Proposed::Opened { link, result } => {
            let completed = task.complete(attempt, &result, now);
            completed.map(|completed| completed.with_pull_request(link))
        }
    };
    let Some(transition) = transition else { return Ok(Flow::Conflict) };
    let Some(after) = tasks::commit::write(*deps, task, transition).await? else {
        return Ok(Flow::Conflict);
    };
    if feedback::read::is_due(&after, now) {
        // Of a round whose answers can be posted now.
        let job = Job::ReadFeedback { task_id: after.id };
        reconcile::jobs::enqueue(deps.orchestration_jobs, &job).await;
    }
    // The release of the sandbox does not wait for the lease.
    set_lease(deps, sandbox, None).await?;
    Ok(Flow::Continue)
}

/// What was pushed stays on the branch. Another attempt of the agent would not help.
async fn give_up(
    deps: Deps<'_>,
    sandbox: &Sandbox,
    task: &Task,
    attempt: &Attempt,
    failure: &Failure,
) -> Result<Flow, Error> {
    let branch = task.branch.as_ref().map_or("", |branch| &branch.name);
    // The worker has uploaded it before its outcome.
    let kept = deps.store.kept_work(&task.id, Some(attempt.number)).await?;
    let kept = kept.filter(|kept| kept.file(Some(Format::Bundle)).is_some()).map(|kept| {
        let (id, until) = (&task.id, kept.expires_at);
        format!(" What was not pushed is kept until {until}: get it with `sunaba download {id}`.")
    });
    let error = format!(
        "The pull request could not be opened: {failure} What was pushed is on the branch {branch}.{}",
        kept.unwrap_or_default()
    );
    let error: String = error.chars().take(MAX_ERROR_CHARS).collect();
    let now = deps.clock.now();
    let failed = task.fail(attempt, &error, Class::Permanent, jitter(now), now);
    let Some(transition) = failed else { return Ok(Flow::Conflict) };
    if tasks::commit::write(*deps, task, transition).await?.is_none() {
        return Ok(Flow::Conflict);
    }
    // The release of the sandbox does not wait for the lease.
    set_lease(deps, sandbox, None).await?;
    Ok(Flow::Continue)
}

async fn retry(deps: Deps<'_>, sandbox: &Sandbox, attempts: u32, failure: &Failure) -> Result<Flow, Error> {
    let now = deps.clock.now();
    let (counted, secs) = match failure.class {
        FailureClass::Busy { retry_after_secs } => (attempts - 1, busy_secs(retry_after_secs)),
        _ => (attempts, backoff_secs(attempts - 1, jitter(now))),
    };
    tracing::warn!(sandbox.id = %sandbox.id, "Could not open the pull request of sandbox {} (attempt {attempts}): {failure}", sandbox.id);
    #[expect(clippy::cast_possible_truncation, reason = "a minute or so")]
    let until = Timestamp::from_micros(now.as_micros() + (secs * 1_000_000.0) as i64);
    let event = LifecycleEvent::new(&SandboxRetrying {
        attempt: attempt_of(sandbox),
        stage: "pull_request".to_owned(),
        error: failure.message.clone(),
        stage_attempt: attempts,
        not_before: until,
    });
    let written = write(*deps, sandbox, Some(event), |after| {
        if let Some(provisioning) = &mut after.activity.provisioning {
            provisioning.attempts = counted;
            (provisioning.lease_until, provisioning.retry_at) = (None, Some(until));
        }
    })
    .await?;
    Ok(written.map_or(Flow::Conflict, |_| Flow::Wait(Some(until))))
}

/// Returns `None` on a conflict.
async fn set_lease(
    deps: Deps<'_>,
    sandbox: &Sandbox,
    lease: Option<Timestamp>,
) -> Result<Option<Sandbox>, Error> {
    write(*deps, sandbox, None, |after| {
        if let Some(provisioning) = &mut after.activity.provisioning {
            (provisioning.lease_until, provisioning.retry_at) = (lease, None);
            if lease.is_none() {
                provisioning.attempts = 0;
            }
        }
    })
    .await
}
