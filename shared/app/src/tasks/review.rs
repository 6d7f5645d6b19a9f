//! Somebody looked at the result of a task: it counts, or goes back to be revised.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use crate::{orchestration, race, reconcile, tasks};
use contract::tasks::{Review, Reviewed};
use domain::access::Principal;
use domain::attempt::Attempt;
use domain::task::Status;
use domain::{Sandbox, SandboxId, Task};
use serde_json::json;

/// What it touches.
pub type Deps<'a> = orchestration::Deps<'a>;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// In which sandbox the result was made.
    pub sandbox: SandboxId,
    /// What is said of it.
    pub judge: Review,
}

/// What became of the task.
pub type Outcome = Reviewed;

/// A repeat of the same judgement gets the same answer until the next try begins.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox, judge } = command;
    let mut race = race::Race::new(deps.clock);
    loop {
        let head = visible_sandbox(deps.store, &principal, &sandbox).await?;
        let (task, attempt) = judged_task(deps, &head, &judge).await?;
        if was_said(&task, &judge) {
            break;
        }
        let moved = task.validated(&attempt, judge.passed, &judge.feedback, deps.clock.now());
        let mut moved = moved.ok_or_else(|| not_judged(&head, &judge))?;
        if let (Some(evidence), Some(told)) = (&judge.evidence, moved.events.first_mut()) {
            let evidence = serde_json::value::to_raw_value(evidence).ok();
            told.data = told.data.overlaid(&[("evidence", evidence)]);
        }
        if tasks::commit::write(deps, &task, moved).await?.is_some() {
            break;
        }
        race.lost().await?;
    }
    // What goes back to be revised stands in the queue when this is answered; those that waited are told.
    reconcile::task::within_a_request(deps, judge.task.clone()).await?;
    let new = if judge.passed { Status::Completed } else { Status::NeedsRevision };
    Ok(Reviewed {
        status: "accepted".to_owned(),
        task_id: judge.task,
        validation_passed: judge.passed,
        new_task_status: new.as_str().to_owned(),
    })
}

/// The task, and the try that its current result is of, if that was this sandbox's.
async fn judged_task(deps: Deps<'_>, head: &Sandbox, judge: &Review) -> Result<(Task, Attempt), Error> {
    let assignment = head.assignment.as_ref().filter(|assignment| assignment.task == judge.task);
    let assignment = assignment.ok_or_else(|| not_judged(head, judge))?;
    let attempt = Attempt { number: assignment.attempt, sandbox: head.id.clone() };
    let task = deps.store.task(&judge.task).await?.filter(|task| task.is_current(&attempt));
    task.map(|task| (task, attempt)).ok_or_else(|| not_judged(head, judge))
}

/// Whether this judgement was heard before.
fn was_said(task: &Task, judge: &Review) -> bool {
    let feedback = Some(judge.feedback.as_str()).filter(|feedback| !feedback.is_empty());
    let led_to = match (judge.passed, task.status) {
        (true, status) => status == Status::Completed && task.validation,
        (false, Status::NeedsRevision) => true,
        (false, Status::Pending | Status::Failed) => task.revisions > 0,
        (false, _) => false,
    };
    led_to && task.feedback.as_deref() == feedback
}

fn not_judged(head: &Sandbox, judge: &Review) -> Error {
    let detail = format!(
        "No result of task {} from sandbox {} waits to be judged; nothing was changed.",
        judge.task, head.id
    );
    Error::conflict("not_validating", detail, json!({}))
}
