//! A worker says what came of its task by another way than its log. It counts as if the log had said so, and the log says
//! so afterwards: all that came stands there, in the same transaction.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use crate::{IdSource, events, orchestration, race, reconcile, tasks};
use contract::jobs::Job;
use contract::tasks::{Complete, Completed, Report};
use domain::access::Principal;
use domain::attempt::{Attempt, Outcome as TryOutcome};
use domain::ingest::{NewEvent, last_word};
use domain::task::Status;
use domain::{EventType, Sandbox, SandboxId, Source, Task, TaskId};
use serde_json::json;
use store::commit::{Change, Commit, Committed};

/// What it touches.
pub type Deps<'a> = orchestration::Deps<'a>;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// By the worker of which sandbox.
    pub sandbox: SandboxId,
    /// What came of it.
    pub complete: Complete,
}

/// What became of the task.
pub type Outcome = Completed;

/// So many of those that waited for the task are named in the answer.
const MAX_NAMED: usize = 50;

/// A repeat does what the first may have left undone, and gets the same answer.
///
/// The task must be the one that the sandbox was made for, and this try the current one. The first last word counts:
/// whoever says something else afterwards is refused.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox, complete } = command;
    let mut race = race::Race::new(deps.clock);
    let head = loop {
        let head = visible_sandbox(deps.store, &principal, &sandbox).await?;
        let task = own_task(deps, &head, &complete.task).await?;
        if let Some(outcome) = &head.activity.outcome {
            if !says_the_same(outcome, &complete.report) {
                return Err(said(&head));
            }
            break head;
        }
        if !task.status.is_active() {
            return Err(not_its_own(&head, &task.id));
        }
        match record(deps, &head, &task, &complete).await? {
            Some(head) => break head,
            None => race.lost().await?,
        }
    };
    let task = reconcile::sandbox::settle(deps, &sandbox).await?;
    let task = task.ok_or_else(|| Error::Internal("a task that was read is gone".into()))?;
    if task.status == Status::Completed && task.dependents > 0 {
        tasks::unblock::run(deps, task.id.clone()).await?;
    }
    if head.needs_reconcile() {
        reconcile::jobs::ask(deps.work, &Job::ReconcileSandbox { sandbox_id: sandbox }).await;
    }
    Ok(Completed {
        status: "accepted".to_owned(),
        new_status: task.status.as_str().to_owned(),
        unblocked_tasks: unblocked(deps, &task, &head.activity.waiters).await?,
        task_id: task.id,
    })
}

/// The task, if it is the sandbox's own and this try is the one that counts.
async fn own_task(deps: Deps<'_>, head: &Sandbox, wanted: &TaskId) -> Result<Task, Error> {
    let assignment = head.assignment.as_ref().filter(|assignment| assignment.task == *wanted);
    let Some(assignment) = assignment else { return Err(not_its_own(head, wanted)) };
    let attempt = Attempt { number: assignment.attempt, sandbox: head.id.clone() };
    let task = deps.store.task(wanted).await?.filter(|task| task.is_current(&attempt));
    task.ok_or_else(|| not_its_own(head, wanted))
}

/// Writes it down; `None` if somebody else was faster.
async fn record(
    deps: Deps<'_>,
    head: &Sandbox,
    task: &Task,
    complete: &Complete,
) -> Result<Option<Sandbox>, Error> {
    let now = deps.clock.now();
    let word = word_of(deps.ids, complete)?;
    let Some((mut after, turns)) = last_word(head, &word, now) else {
        return Err(Error::conflict(
            "sandbox_not_running",
            format!("Sandbox {} is {}; its worker cannot have done anything.", head.id, head.status.as_str()),
            json!({"current_status": head.status.as_str()}),
        ));
    };
    if task.dependents > 0 {
        after.activity.waiters = deps.store.dependants(&task.id, MAX_NAMED).await?;
    }
    let events = std::iter::once(word).chain(events::emit::events_of(deps.ids, turns)).collect();
    let mut commit = Commit::new(now);
    commit.sandboxes.push(Change { before: Some(head), after, events });
    match deps.store.commit(commit).await? {
        Committed::Done(mut done) => Ok(done.sandboxes.pop()),
        Committed::Conflict => Ok(None),
    }
}

/// What the log says of it: what a worker that reports by its log would have said.
fn word_of(ids: &dyn IdSource, complete: &Complete) -> Result<NewEvent, Error> {
    let name = match complete.report {
        Report::Done(_) => "agent.completed",
        Report::Failed(_) => "agent.failed",
    };
    let (event_type, data) = (EventType::parse(name)?, complete.said.clone());
    Ok(NewEvent { id: ids.event(), event_type, source: Source::Agent, data, emitted_at: None })
}

fn says_the_same(outcome: &TryOutcome, report: &Report) -> bool {
    matches!(
        (outcome, report),
        (TryOutcome::Done { .. }, Report::Done(_)) | (TryOutcome::Failed { .. }, Report::Failed(_))
    )
}

/// Those of the task's dependants that wait for nothing any more.
async fn unblocked(deps: Deps<'_>, task: &Task, waiters: &[TaskId]) -> Result<Vec<TaskId>, Error> {
    if task.status != Status::Completed {
        return Ok(Vec::new());
    }
    let waiters = deps.store.tasks(waiters).await?;
    Ok(waiters.into_iter().filter(|waiter| waiter.unmet == 0).map(|waiter| waiter.id).collect())
}

fn not_its_own(head: &Sandbox, task: &TaskId) -> Error {
    let detail =
        format!("Sandbox {} does not work on task {task}, or no longer; nothing was changed.", head.id);
    Error::conflict("not_its_task", detail, json!({}))
}

fn said(head: &Sandbox) -> Error {
    let detail = format!("What came of sandbox {} is known already, and is not this.", head.id);
    Error::conflict("outcome_known", detail, json!({"current_status": head.status.as_str()}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::tasks::{MAX_DEPENDENCIES, MAX_DESCRIPTION_BYTES};
    use domain::attempt::{MAX_ERROR_CHARS, MAX_RESULT_BYTES, MAX_RESULT_CHARS, reported};
    use domain::id::MAX_ID_CHARS;
    use domain::task::Execution;
    use domain::ticket::{MAX_TITLE_CHARS, NewTask, Terms};
    use domain::{JsonObject, OrgId, TicketId, Timestamp};
    use serde_json::Value;

    /// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html>
    const MAX_ITEM_BYTES: usize = 400 * 1024;

    /// How large an item is, rather too large: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>.
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

    /// A task that cannot be written is one that nobody can end.
    #[test]
    fn a_task_can_be_written_whatever_came_of_it_and_however_long_its_texts_are() {
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
            terms: Terms::default(),
        };
        let now = Timestamp::from_secs(1);
        let mut task = new.into_task(id(0), now);
        task.depends_on = (0..MAX_DEPENDENCIES).map(id).collect();
        (task.error, task.feedback) = (Some(long(MAX_ERROR_CHARS)), Some(long(2 * MAX_RESULT_CHARS)));
        let fields =
            ["final_output", "output", "pr_url", "branch_name", "stop_reason", "session_id", "artifacts"];
        for text in ["🦀", "\u{1}", "\"", "x"] {
            let said: serde_json::Map<String, Value> = fields
                .iter()
                .map(|field| ((*field).to_owned(), text.repeat(MAX_RESULT_CHARS + 1).into()))
                .collect();
            let word = reported(&EventType::parse("agent.completed").unwrap(), &JsonObject::of(&said), now);
            let Some(TryOutcome::Done { result, .. }) = &word else { panic!("{word:?}") };
            assert!(result.text().len() <= MAX_RESULT_BYTES);
            task.result = Some(result.clone());
            let bytes = item_bytes(&serde_json::to_value(&task).unwrap());
            assert!(bytes < MAX_ITEM_BYTES * 3 / 4, "{bytes} bytes with {text:?}");
            let mut activity = domain::sandbox::Activity { outcome: word.clone(), ..Default::default() };
            activity.waiters = (0..MAX_NAMED).map(id).collect();
            for kind in 0..domain::sandbox::MAX_COUNTED_KINDS {
                activity
                    .counts
                    .add(Source::Worker, &format!("{kind:0>width$}", width = domain::event::MAX_TYPE_CHARS));
            }
            let bytes = serde_json::to_string(&activity).unwrap().len();
            assert!(bytes < MAX_ITEM_BYTES / 4, "{bytes} bytes of a head with {text:?}");
        }
    }
}
