//! Applies a review of a task's result: the task is completed, or goes back for revision.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::visibility::visible_sandbox;
use crate::{orchestration, reconcile, tasks};
use contract::ProblemCode;
use contract::tasks::{Review, Reviewed};
use domain::access::Principal;
use domain::attempt::Attempt;
use domain::task::{Status, transitions};
use domain::{Sandbox, SandboxId, Task};
use serde_json::json;

pub type Deps<'a> = orchestration::Deps<'a>;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    /// The sandbox that produced the result.
    pub sandbox: SandboxId,
    pub review: Review,
}

pub type Outcome = Reviewed;

/// Idempotent until the next attempt starts: a retry gets the same response.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: sandbox_id, review } = command;
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let sandbox = visible_sandbox(deps.store, &principal, &sandbox_id).await?;
        let (task, attempt) = reviewed_task(deps, &sandbox, &review).await?;
        if was_applied(&task, &review) {
            break;
        }
        let transition = task.reviewed(
            &attempt,
            transitions::Review {
                passed: review.passed,
                feedback: &review.feedback,
                evidence: review.evidence.as_ref(),
            },
            deps.clock.now(),
        );
        let transition = transition.ok_or_else(|| not_validating(&sandbox, &review))?;
        if tasks::commit::write(deps, &task, transition.by(&principal)).await?.is_some() {
            break;
        }
        retry.conflict().await?;
    }
    // A task that needs revision is in the queue when the response is sent, and dependents of a completed one are
    // unblocked.
    reconcile::task::run_in_request(deps, review.task.clone()).await?;
    let new = if review.passed { Status::Completed } else { Status::NeedsRevision };
    Ok(Reviewed {
        status: "accepted".to_owned(),
        task_id: review.task,
        validation_passed: review.passed,
        new_task_status: new.as_str().to_owned(),
    })
}

/// The task and its attempt, if its current result is from this sandbox.
async fn reviewed_task(deps: Deps<'_>, sandbox: &Sandbox, review: &Review) -> Result<(Task, Attempt), Error> {
    let assignment = sandbox.assignment.as_ref().filter(|assignment| assignment.task == review.task);
    let assignment = assignment.ok_or_else(|| not_validating(sandbox, review))?;
    let attempt = Attempt { number: assignment.attempt, sandbox: sandbox.id.clone() };
    let task = deps.store.task(&review.task).await?.filter(|task| task.is_current(&attempt));
    task.map(|task| (task, attempt)).ok_or_else(|| not_validating(sandbox, review))
}

/// Whether the same review was applied before.
fn was_applied(task: &Task, review: &Review) -> bool {
    let feedback = Some(review.feedback.as_str()).filter(|feedback| !feedback.is_empty());
    let same_result = match (review.passed, task.status) {
        (true, status) => status == Status::Completed && task.validation,
        (false, Status::NeedsRevision) => true,
        (false, Status::Pending | Status::Failed) => task.revisions > 0,
        (false, _) => false,
    };
    same_result && task.feedback.as_deref() == feedback
}

fn not_validating(sandbox: &Sandbox, review: &Review) -> Error {
    let detail = format!(
        "No result of task {} from sandbox {} is waiting for review; nothing was changed.",
        review.task, sandbox.id
    );
    Error::conflict(ProblemCode::TaskNotValidating, detail, json!({}))
}
