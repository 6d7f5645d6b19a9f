//! Provisions a sandbox, stage by stage. Each stage is recorded before it starts, and is idempotent.

use super::{Deps, Flow, branch, breaker, release_lease, write};
use crate::clock::jitter;
use crate::error::Error;
use crate::messages::queue;
use crate::orchestration::variables;
use contract::payloads::{SandboxAttempt, SandboxEnd, SandboxFailed, SandboxRetrying, SandboxStage};
use domain::attempt::{MAX_ERROR_CHARS, Outcome, Stage};
use domain::event::LifecycleEvent;
use domain::resources::{self, ResourceRequest};
use domain::retry::{Class, backoff_secs};
use domain::sandbox::transitions::Trigger;
use domain::timeouts::{DEFAULT_RETRY_AFTER_SECS, MAX_RETRY_AFTER_SECS, poll_interval_ms};
use domain::{Sandbox, Task, Ticket, Timestamp};
use providers::{Failure, FailureClass, Found, Resources, SandboxProvider, SandboxSpec, State};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of attempts of a stage before the sandbox fails.
pub(super) const MAX_ATTEMPTS: u32 = 5;

/// Runs this stage and the following ones, as far as they fit into the time of a job that started at `started_at`.
pub(super) async fn run(
    deps: Deps<'_>,
    sandbox: Sandbox,
    task: Option<Task>,
    stage: Stage,
    started_at: Timestamp,
) -> Result<Flow, Error> {
    let (sandbox_id, mut lease) = (sandbox.id.clone(), None);
    let flow = stages(deps, sandbox, task, stage, started_at, &mut lease).await?;
    // Another writer changed the sandbox: a message arrived, or it was terminated. Reconciling must not wait for our
    // lease.
    if let (Flow::Conflict, Some(lease)) = (&flow, lease) {
        release_lease(*deps, &sandbox_id, Some(lease)).await?;
    }
    Ok(flow)
}

/// Runs the stages. `lease` is set to the lease of the last stage that was started.
async fn stages(
    deps: Deps<'_>,
    sandbox: Sandbox,
    task: Option<Task>,
    stage: Stage,
    started_at: Timestamp,
    lease: &mut Option<Timestamp>,
) -> Result<Flow, Error> {
    let (Some(assignment), Some(task)) = (sandbox.assignment.clone(), task) else {
        return Ok(Flow::Wait(None));
    };
    if let Err(invalid) = deps.orchestration.check_provider(&assignment.provider) {
        return give_up(deps, &sandbox, Class::Permanent, &invalid.to_string()).await;
    }
    let Some(provider) = deps.providers.get(&assignment.provider).cloned() else {
        let error = format!("provider {} is not configured", assignment.provider);
        return give_up(deps, &sandbox, Class::Permanent, &error).await;
    };
    if stage.needs_provider()
        && let Some(until) = breaker::open_until(deps, provider.name()).await?
    {
        return hold(deps, &sandbox, until).await;
    }
    let ticket = match &task.ticket {
        Some(id) => deps.store.ticket(id).await?,
        None => None,
    };
    let mut work = Work { task, ticket };
    // A stage that was started before may be complete or incomplete.
    let mut is_retry =
        sandbox.activity.provisioning.as_ref().is_some_and(|provisioning| provisioning.stage == stage);
    let Some(mut sandbox) = start_stage(deps, &sandbox, stage, None).await? else {
        return Ok(Flow::Conflict);
    };
    let mut stage = stage;
    loop {
        *lease = sandbox.activity.provisioning.as_ref().and_then(|provisioning| provisioning.lease_until);
        let result = with_timeout(
            stage.timeout_secs(),
            run_stage(deps, &provider, &sandbox, &mut work, stage, is_retry),
        )
        .await;
        // Earlier stages send no request to the provider, so they say nothing about its health.
        if stage.needs_provider() {
            breaker::record(deps, provider.name(), &result).await;
        }
        let found = match result {
            Ok(StageResult::Done(found)) => found,
            Ok(StageResult::InProgress) => return wait(deps, &sandbox).await,
            // Transient, because the next attempt of the task gets another sandbox.
            Ok(StageResult::Broken(reason)) => {
                return give_up(deps, &sandbox, Class::Transient, &reason).await;
            }
            Err(failure) => return failed(deps, &sandbox, stage, &failure).await,
        };
        let Some(next) = stage.next() else { return Ok(Flow::Continue) };
        let first_request = next.needs_provider() && !stage.needs_provider();
        if first_request && let Some(until) = breaker::open_until(deps, provider.name()).await? {
            return hold(deps, &sandbox, until).await;
        }
        let Some(after) = start_stage(deps, &sandbox, next, found).await? else { return Ok(Flow::Conflict) };
        if next == Stage::Started {
            return Ok(Flow::Continue);
        }
        let now = deps.clock.now();
        if !next.fits_in_job(now.as_secs() - started_at.as_secs()) {
            return retry_at(deps, &after, now).await;
        }
        (sandbox, stage, is_retry) = (after, next, false);
    }
}

/// After a timeout the request may or may not have been applied.
pub(super) async fn with_timeout<T>(
    timeout_secs: i64,
    request: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let timeout = Duration::from_secs(timeout_secs.unsigned_abs());
    let timed_out = |_| Err(Failure::unreachable(format!("timed out after {timeout_secs} seconds")));
    tokio::time::timeout(timeout, request).await.unwrap_or_else(timed_out)
}

/// What the sandbox is provisioned for.
pub(super) struct Work {
    pub(super) task: Task,
    pub(super) ticket: Option<Ticket>,
}

enum StageResult {
    Done(Option<Found>),
    InProgress,
    /// This sandbox cannot be provisioned.
    Broken(String),
}

async fn run_stage(
    deps: Deps<'_>,
    provider: &Arc<dyn SandboxProvider>,
    sandbox: &Sandbox,
    work: &mut Work,
    stage: Stage,
    is_retry: bool,
) -> Result<StageResult, Failure> {
    match stage {
        Stage::Recorded | Stage::Started => Ok(StageResult::Done(None)),
        Stage::Preparing => {
            // Before a sandbox is paid for.
            branch::prepare(deps, sandbox, work).await?;
            queue::create(deps.mailboxes, &sandbox.id).await;
            Ok(StageResult::Done(None))
        }
        Stage::Creating => {
            // Before a sandbox is paid for.
            agent(deps, &work.task)?;
            let spec = spec(deps, sandbox, &work.task)?;
            // A retry only polls while the sandbox is being created.
            let existing = if is_retry { provider.find(&sandbox.id).await? } else { None };
            let found = match existing {
                Some(found) if found.state != State::Ready => found,
                // It does not exist; or it is ready, and `create` completes its setup.
                _ => provider.create(&spec).await?,
            };
            match &found.state {
                State::Ready => Ok(StageResult::Done(Some(found))),
                State::Pending => Ok(StageResult::InProgress),
                State::Deleting => Ok(StageResult::Broken("the provider is deleting the sandbox".to_owned())),
                State::Broken(reason) => {
                    Ok(StageResult::Broken(format!("the provider could not create it: {reason}")))
                }
            }
        }
        Stage::Uploading => {
            let Some(found) = provider.find(&sandbox.id).await? else { return Ok(missing()) };
            provider.upload(&found).await?;
            Ok(StageResult::Done(None))
        }
        Stage::Starting => {
            let agent = agent(deps, &work.task)?;
            // Never fails in a function that provisions: its row in the registry has the permission.
            let token = (deps.issue_token)(&sandbox.id, sandbox.generation);
            let token = token.map_err(|error| Failure::unreachable(error.to_string()))?;
            let (task, ticket) = (&work.task, work.ticket.as_ref());
            let has_code_host = branch::repository(deps, task, ticket)?.is_some();
            let work = variables::Work { sandbox, task, ticket, agent, has_code_host };
            let variables = variables::of(deps.orchestration, deps.code_hosts, work, token);
            let Some(found) = provider.find(&sandbox.id).await? else { return Ok(missing()) };
            provider.start(&found, &variables).await?;
            Ok(StageResult::Done(None))
        }
    }
}

fn missing() -> StageResult {
    StageResult::Broken("the sandbox does not exist at the provider".to_owned())
}

/// The definition of the task's agent.
fn agent(deps: Deps<'_>, task: &Task) -> Result<String, Failure> {
    deps.orchestration.agent_of(&task.execution).map_err(|invalid| Failure::refused(invalid.to_string()))
}

fn spec(deps: Deps<'_>, sandbox: &Sandbox, task: &Task) -> Result<SandboxSpec, Failure> {
    let layers: Vec<ResourceRequest> = std::iter::once(ResourceRequest::from(&task.execution))
        .chain(deps.orchestration.resources.iter().cloned())
        .collect();
    let resolved = resources::resolve(&layers).map_err(|invalid| Failure::refused(invalid.to_string()))?;
    let labels = [("task", task.id.to_string()), ("org", sandbox.org.to_string())];
    Ok(SandboxSpec {
        name: sandbox.id.clone(),
        plane: deps.orchestration.plane.clone(),
        resources: Resources {
            memory_gb: resolved.memory_gb,
            cpu: resolved.cpu,
            disk_gb: resolved.disk_gb,
            snapshot: resolved.snapshot,
            image: resolved.image,
        },
        requested: providers::RequestedSize { memory_gb: task.execution.memory_gb, cpu: task.execution.cpu },
        labels: labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<BTreeMap<_, _>>(),
        lifetime_minutes: deps.orchestration.lifetime_minutes,
    })
}

/// Records the start of a stage with its lease, and what the previous stage returned.
async fn start_stage(
    deps: Deps<'_>,
    before: &Sandbox,
    stage: Stage,
    found: Option<Found>,
) -> Result<Option<Sandbox>, Error> {
    let Some(provisioning) = &before.activity.provisioning else { return Ok(None) };
    let now = deps.clock.now();
    let is_new = provisioning.stage != stage;
    // They may differ from the request: a snapshot has a fixed size, and an image may replace it.
    let actual_resources = found.as_ref().and_then(|found| found.actual_resources.clone());
    let event = is_new.then(|| stage.event(SandboxStage { attempt: attempt_of(before), actual_resources }));
    write(*deps, before, event, |after| {
        after.transition(Trigger::ProvisioningStarted);
        let mut provisioning = if is_new { provisioning.at(stage, now) } else { provisioning.clone() };
        provisioning.lease_until = (stage != Stage::Started).then(|| now.plus_secs(stage.lease_secs()));
        provisioning.retry_at = None;
        if let Some(found) = found {
            provisioning.provider_id = Some(found.provider_id);
        }
        after.activity.provisioning = Some(provisioning);
    })
    .await
}

fn event_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Recorded => "pending",
        Stage::Preparing => "preparing",
        Stage::Creating => "creating",
        Stage::Uploading => "uploading",
        Stage::Starting => "starting",
        Stage::Started => "spawned",
    }
}

pub(super) fn attempt_of(sandbox: &Sandbox) -> SandboxAttempt {
    let sandbox_id = sandbox.id.clone();
    match &sandbox.assignment {
        Some(assignment) => assignment.of(&sandbox_id),
        None => SandboxAttempt { sandbox_id, task_id: None, ticket_id: None, attempt: None, provider: None },
    }
}

async fn wait(deps: Deps<'_>, sandbox: &Sandbox) -> Result<Flow, Error> {
    let now = deps.clock.now();
    let since = sandbox.activity.provisioning.as_ref().map_or(now, |provisioning| provisioning.since);
    let until = Timestamp::from_micros(now.as_micros() + poll_interval_ms(since, now) * 1_000);
    retry_at(deps, sandbox, until).await
}

/// Releases the lease, and retries the stage then.
pub(super) async fn retry_at(deps: Deps<'_>, sandbox: &Sandbox, until: Timestamp) -> Result<Flow, Error> {
    let written = write(*deps, sandbox, None, |after| {
        if let Some(provisioning) = &mut after.activity.provisioning {
            (provisioning.lease_until, provisioning.retry_at) = (None, Some(until));
        }
    })
    .await?;
    Ok(written.map_or(Flow::Conflict, |_| Flow::Wait(Some(until))))
}

/// As [`retry_at`], because the breaker of the provider is open. That time does not count against the sandbox.
async fn hold(deps: Deps<'_>, sandbox: &Sandbox, until: Timestamp) -> Result<Flow, Error> {
    let written = write(*deps, sandbox, None, |after| {
        if let Some(provisioning) = &mut after.activity.provisioning {
            (provisioning.lease_until, provisioning.retry_at, provisioning.held_until) =
                (None, Some(until), Some(until));
        }
    })
    .await?;
    Ok(written.map_or(Flow::Conflict, |_| Flow::Wait(Some(until))))
}

async fn failed(deps: Deps<'_>, sandbox: &Sandbox, stage: Stage, failure: &Failure) -> Result<Flow, Error> {
    let before = sandbox.activity.provisioning.as_ref().map_or(0, |provisioning| provisioning.attempts);
    let now = deps.clock.now();
    let (attempts, secs) = match failure.class {
        FailureClass::Refused => return give_up(deps, sandbox, Class::Permanent, &failure.message).await,
        // Rate limiting does not count as an attempt.
        FailureClass::Busy { retry_after_secs } => (before, busy_secs(retry_after_secs)),
        FailureClass::Unreachable => (before + 1, backoff_secs(before, jitter(now))),
    };
    tracing::warn!(sandbox.id = %sandbox.id, "Stage {} of sandbox {} failed (attempt {attempts}): {failure}", event_name(stage), sandbox.id);
    if attempts >= MAX_ATTEMPTS {
        return give_up(deps, sandbox, Class::Transient, &failure.message).await;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a minute or so")]
    let until = Timestamp::from_micros(now.as_micros() + (secs * 1_000_000.0) as i64);
    let event = LifecycleEvent::new(&SandboxRetrying {
        attempt: attempt_of(sandbox),
        stage: event_name(stage).to_owned(),
        error: failure.message.clone(),
        stage_attempt: attempts,
        not_before: until,
    });
    let written = write(*deps, sandbox, Some(event), |after| {
        if let Some(provisioning) = &mut after.activity.provisioning {
            provisioning.attempts = attempts;
            (provisioning.lease_until, provisioning.retry_at) = (None, Some(until));
        }
    })
    .await?;
    Ok(written.map_or(Flow::Conflict, |_| Flow::Wait(Some(until))))
}

async fn give_up(deps: Deps<'_>, sandbox: &Sandbox, class: Class, error: &str) -> Result<Flow, Error> {
    let now = deps.clock.now();
    let error: String = error.chars().take(MAX_ERROR_CHARS).collect();
    let SandboxAttempt { sandbox_id, task_id, ticket_id, attempt, provider } = attempt_of(sandbox);
    let event = LifecycleEvent::new(&SandboxFailed {
        reason: "provisioning_failed".to_owned(),
        error: Some(error.clone()),
        end: SandboxEnd { task_id, ticket_id, ..SandboxEnd::default() },
        sandbox_id: Some(sandbox_id),
        attempt,
        provider,
    });
    let written = write(*deps, sandbox, Some(event), |after| {
        after.transition(Trigger::ProvisioningFailed);
        after.activity.ended.get_or_insert(domain::sandbox::Ended { at: now, reason: error.clone() });
        after.activity.outcome = Some(Outcome::Failed { error, class, at: now });
        if let Some(provisioning) = &mut after.activity.provisioning {
            (provisioning.lease_until, provisioning.retry_at, provisioning.attempts) = (None, None, 0);
        }
    })
    .await?;
    Ok(written.map_or(Flow::Conflict, |_| Flow::Continue))
}

/// How long to wait for a provider that limits our rate.
#[expect(clippy::cast_precision_loss, reason = "a few minutes")]
pub(super) fn busy_secs(retry_after_secs: Option<u64>) -> f64 {
    retry_after_secs.unwrap_or(DEFAULT_RETRY_AFTER_SECS).min(MAX_RETRY_AFTER_SECS) as f64
}
