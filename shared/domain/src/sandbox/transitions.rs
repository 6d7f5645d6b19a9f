//! The lifecycle of a sandbox: which status follows on which trigger.
//!
//! **Invariant:** [`Sandbox::transition`] is the only code that changes a sandbox's status. The field is private to
//! `domain::sandbox`, and nothing else in there assigns it.

use super::reconcile::Cause;
use super::{Sandbox, Status};

/// What can move a sandbox from one status to another. What is logged about a transition is a
/// [`LifecycleEvent`](crate::event::LifecycleEvent), which the caller emits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A stage of provisioning begins.
    ProvisioningStarted,
    /// The provider cannot create the sandbox, or not within the allowed number of attempts.
    ProvisioningFailed,
    /// A batch or a report arrived from the worker.
    WorkerReported,
    /// The worker reported that its agent completed the task.
    WorkCompleted,
    /// The worker reported that its agent failed.
    WorkFailed,
    /// Reconciliation ends the sandbox, without a report from its worker.
    Ended(Cause),
    /// A caller terminates the sandbox.
    Terminated,
    /// The provider has deleted the sandbox.
    Released,
}

/// The status after `trigger`; `None` if the status stays as it is.
fn next_status(status: Status, trigger: Trigger) -> Option<Status> {
    use Cause::{
        Dead, IdleTimeout, Lost, NeverStarted, NotNeeded, StuckCreating, StuckRunning, StuckStarting,
        TimedOut,
    };
    use Status::{Completed, Completing, Creating, Failed, Pending, Registered, Running, Unknown};
    use Trigger::{
        Ended, ProvisioningFailed, ProvisioningStarted, Released, WorkCompleted, WorkFailed, WorkerReported,
    };
    match (status, trigger) {
        (Completed | Failed | Status::Terminated, _) => None,

        (Pending, ProvisioningStarted) => Some(Creating),
        (Pending | Creating, ProvisioningFailed) => Some(Failed),
        (Registered | Creating, WorkerReported) => Some(Running),
        (Running, WorkCompleted) => Some(Completing),
        (Running, WorkFailed) => Some(Failed),
        // A status that a newer version wrote: the sandbox is deleted, so it cannot stay open.
        (Completing | Unknown, Released) => Some(Completed),

        (_, Ended(Dead | StuckCreating | NeverStarted | TimedOut | Lost)) => Some(Failed),
        (_, Ended(IdleTimeout | StuckRunning | StuckStarting | NotNeeded)) => Some(Status::Terminated),
        (_, Trigger::Terminated) => Some(Status::Terminated),

        (
            _,
            ProvisioningStarted | ProvisioningFailed | WorkerReported | WorkCompleted | WorkFailed | Released,
        ) => None,
    }
}

impl Sandbox {
    pub fn status(&self) -> Status {
        self.status
    }

    /// Changes the status as the table above says. Returns whether it changed, so applying a trigger twice has no
    /// effect the second time.
    pub fn transition(&mut self, trigger: Trigger) -> bool {
        let Some(next) = next_status(self.status, trigger) else { return false };
        self.status = next;
        true
    }

    #[cfg(test)]
    pub(crate) fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }
}

#[cfg(test)]
mod tests;
