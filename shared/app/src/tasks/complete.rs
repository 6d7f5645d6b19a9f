//! Records the outcome that a worker reports through an endpoint instead of its log. It has the same effect as a
//! report in the log, and is appended to the log in the same transaction.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::quotas;
use crate::visibility::check_report;
use crate::{IdSource, events, orchestration, reconcile, tasks};
use contract::ProblemCode;
use contract::jobs::Job;
use contract::payloads::{AgentCompleted, AgentFailed};
use contract::tasks::{Complete, Completed, Report};
use domain::access::Principal;
use domain::attempt::{Attempt, Outcome as AttemptOutcome};
use domain::ingest::{NewEvent, final_report};
use domain::quota::{Amount, QuotaOwner};
use domain::task::Status;
use domain::{EventType, Sandbox, SandboxId, Source, Task, TaskId};
use serde_json::json;
use store::commit::{Change, Commit, Committed};

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub base: orchestration::Deps<'a>,
    pub quotas: quotas::Deps<'a>,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub complete: Complete,
    /// Size of the request.
    pub body_bytes: u64,
}

pub type Outcome = Completed;

/// Maximum number of unblocked tasks in the response.
const MAX_UNBLOCKED: usize = 50;

/// Idempotent: a retry completes what the first call may have left over, and gets the same response.
///
/// The task must be the one that is assigned to the sandbox, and the attempt the current one. The first final report
/// counts; a different one is rejected.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Deps { base: deps, quotas } = deps;
    let Command { principal, sandbox: sandbox_id, complete, body_bytes } = command;
    let mut is_charged = false;
    let mut retry = ConflictRetry::new(deps.clock);
    let sandbox = loop {
        let sandbox = deps.store.sandbox(&sandbox_id).await?.ok_or_else(|| Error::no_sandbox(&sandbox_id))?;
        check_report(&principal, &sandbox, deps.clock.now())?;
        let task = own_task(deps, &sandbox, &complete.task).await?;
        if let Some(outcome) = &sandbox.activity.outcome {
            if !is_same(outcome, &complete.report) {
                return Err(already_recorded(&sandbox));
            }
            break sandbox;
        }
        if !task.status.is_active() {
            return Err(task_mismatch(&sandbox, &task.id));
        }
        if let Some(org) = QuotaOwner::org_of_worker(&principal, &sandbox).filter(|_| !is_charged) {
            quotas::charge(quotas, &[org], Amount::new(1, body_bytes)).await?;
            is_charged = true;
        }
        match record(deps, &sandbox, &task, &complete).await? {
            Some(sandbox) => break sandbox,
            None => retry.conflict().await?,
        }
    };
    let task = reconcile::sandbox::update_task(deps, &sandbox_id).await?;
    let task = task.ok_or_else(|| Error::Internal("a task that was read does not exist".into()))?;
    if task.status == Status::Completed && task.dependents > 0 {
        tasks::unblock::run(deps, task.id.clone()).await?;
    }
    if sandbox.needs_reconcile() {
        reconcile::jobs::enqueue(deps.orchestration_jobs, &Job::ReconcileSandbox { sandbox_id }).await;
    }
    Ok(Completed {
        status: "accepted".to_owned(),
        new_status: task.status.as_str().to_owned(),
        unblocked_tasks: unblocked(deps, &task, &sandbox.activity.dependents).await?,
        task_id: task.id,
    })
}

/// The task, if it is assigned to the sandbox and this is its current attempt.
async fn own_task(deps: orchestration::Deps<'_>, sandbox: &Sandbox, wanted: &TaskId) -> Result<Task, Error> {
    let assignment = sandbox.assignment.as_ref().filter(|assignment| assignment.task == *wanted);
    let Some(assignment) = assignment else { return Err(task_mismatch(sandbox, wanted)) };
    let attempt = Attempt { number: assignment.attempt, sandbox: sandbox.id.clone() };
    let task = deps.store.task(wanted).await?.filter(|task| task.is_current(&attempt));
    task.ok_or_else(|| task_mismatch(sandbox, wanted))
}

/// Returns `None` on a conflict.
async fn record(
    deps: orchestration::Deps<'_>,
    sandbox: &Sandbox,
    task: &Task,
    complete: &Complete,
) -> Result<Option<Sandbox>, Error> {
    let now = deps.clock.now();
    let report = report_event(deps.ids, complete);
    let Some((mut after, lifecycle_events)) = final_report(sandbox, &report, now) else {
        return Err(Error::conflict(
            ProblemCode::SandboxNotRunning,
            format!(
                "Sandbox {} is {}; only a running sandbox can complete its task.",
                sandbox.id,
                sandbox.status().as_str()
            ),
            json!({"current_status": sandbox.status().as_str()}),
        ));
    };
    if task.dependents > 0 {
        after.activity.dependents = deps.store.dependents(&task.id, MAX_UNBLOCKED).await?;
    }
    let events = std::iter::once(report).chain(events::emit::events_of(deps.ids, lifecycle_events)).collect();
    let mut commit = Commit::new(now);
    commit.sandboxes.push(Change { before: Some(sandbox), after, events });
    match deps.store.commit(commit).await? {
        Committed::Done(mut done) => Ok(done.sandboxes.pop()),
        Committed::Conflict => Ok(None),
    }
}

/// The event that a worker would have sent through its log.
fn report_event(ids: &dyn IdSource, complete: &Complete) -> NewEvent {
    let event_type = match complete.report {
        Report::Completed(_) => EventType::of::<AgentCompleted>(),
        Report::Failed(_) => EventType::of::<AgentFailed>(),
    };
    let data = complete.event_data.clone();
    NewEvent { id: ids.event(), event_type, source: Source::Agent, data, emitted_at: None }
}

fn is_same(outcome: &AttemptOutcome, report: &Report) -> bool {
    matches!(
        (outcome, report),
        (AttemptOutcome::Completed { .. }, Report::Completed(_))
            | (AttemptOutcome::Failed { .. }, Report::Failed(_))
    )
}

/// The dependents of the task that have no unmet dependencies left.
async fn unblocked(
    deps: orchestration::Deps<'_>,
    task: &Task,
    waiters: &[TaskId],
) -> Result<Vec<TaskId>, Error> {
    if task.status != Status::Completed {
        return Ok(Vec::new());
    }
    let waiters = deps.store.tasks(waiters).await?;
    Ok(waiters.into_iter().filter(|waiter| waiter.unmet == 0).map(|waiter| waiter.id).collect())
}

fn task_mismatch(sandbox: &Sandbox, task: &TaskId) -> Error {
    let detail =
        format!("Task {task} is not assigned to sandbox {}, or no longer; nothing was changed.", sandbox.id);
    Error::conflict(ProblemCode::TaskMismatch, detail, json!({}))
}

fn already_recorded(sandbox: &Sandbox) -> Error {
    let detail = format!("A different outcome of sandbox {} is already recorded.", sandbox.id);
    Error::conflict(
        ProblemCode::OutcomeAlreadyRecorded,
        detail,
        json!({"current_status": sandbox.status().as_str()}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::tasks::{MAX_DEPENDENCIES, MAX_DESCRIPTION_BYTES};
    use domain::attempt::{MAX_ERROR_CHARS, MAX_RESULT_BYTES, MAX_RESULT_CHARS, reported_outcome};
    use domain::id::MAX_ID_CHARS;
    use domain::task::Execution;
    use domain::ticket::{MAX_TITLE_CHARS, NewTask, TaskOptions};
    use domain::{JsonObject, OrgId, TicketId, Timestamp};
    use serde_json::Value;

    /// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html>
    const MAX_ITEM_BYTES: usize = 400 * 1024;

    /// The size of an item, rounded up:
    /// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>.
    fn item_bytes(value: &Value) -> usize {
        match value {
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| name.len() + item_bytes(value) + 1).sum::<usize>() + 3
            }
            Value::Array(values) => values.iter().map(|value| item_bytes(value) + 1).sum::<usize>() + 3,
            Value::String(text) => text.len(),
            Value::Number(_) => 21,
            Value::Bool(_) | Value::Null => 1,
        }
    }

    /// A task that exceeds the item size could never be completed.
    #[test]
    fn task_with_maximum_texts_fits_into_an_item() {
        let long = |chars: usize| "🦀".repeat(chars);
        let id = |n: usize| TaskId::parse(format!("{n:0>MAX_ID_CHARS$}")).unwrap();
        let new = NewTask {
            ticket: TicketId::parse("k".repeat(MAX_ID_CHARS)).unwrap(),
            org: OrgId::parse("o".repeat(MAX_ID_CHARS)).unwrap(),
            project: None,
            task_type: long(MAX_ID_CHARS),
            title: long(MAX_TITLE_CHARS),
            description: "x".repeat(MAX_DESCRIPTION_BYTES),
            phase: long(MAX_ID_CHARS),
            priority: domain::task::Priority::Critical,
            execution: Execution {
                agent: Some(long(2_000)),
                repository: Some(long(2_000)),
                ..Execution::default()
            },
            task_options: TaskOptions::default(),
        };
        let now = Timestamp::from_secs(1);
        let mut task = new.into_task(id(0), now);
        task.depends_on = (0..MAX_DEPENDENCIES).map(id).collect();
        (task.error, task.feedback) = (Some(long(MAX_ERROR_CHARS)), Some(long(2 * MAX_RESULT_CHARS)));
        let fields =
            ["final_output", "output", "pr_url", "branch_name", "stop_reason", "session_id", "artifacts"];
        for text in ["🦀", "\u{1}", "\"", "x"] {
            let data: serde_json::Map<String, Value> = fields
                .iter()
                .map(|field| ((*field).to_owned(), text.repeat(MAX_RESULT_CHARS + 1).into()))
                .collect();
            let outcome =
                reported_outcome(&EventType::parse("agent.completed").unwrap(), &JsonObject::of(&data), now);
            let Some(AttemptOutcome::Completed { result, .. }) = &outcome else { panic!("{outcome:?}") };
            assert!(result.text().len() <= MAX_RESULT_BYTES);
            task.result = Some(result.clone());
            let bytes = item_bytes(&serde_json::to_value(&task).unwrap());
            assert!(bytes < MAX_ITEM_BYTES * 3 / 4, "{bytes} bytes with {text:?}");
            let mut activity = domain::sandbox::Activity { outcome: outcome.clone(), ..Default::default() };
            activity.dependents = (0..MAX_UNBLOCKED).map(id).collect();
            for kind in 0..domain::sandbox::MAX_COUNTED_KINDS {
                activity
                    .counts
                    .add(Source::Worker, &format!("{kind:0>width$}", width = domain::event::MAX_TYPE_CHARS));
            }
            let bytes = serde_json::to_string(&activity).unwrap().len();
            assert!(bytes < MAX_ITEM_BYTES / 4, "{bytes} bytes of a sandbox with {text:?}");
        }
    }
}
