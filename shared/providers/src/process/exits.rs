//! Exit statuses of the workers that this process started.

use domain::SandboxId;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// For a worker that another process started.
pub(super) const UNKNOWN_EXIT: &str = "The worker exited; its exit status is unknown.";

/// Workers started by this process, and the description of their exit once they have exited.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkerExits(Arc<Mutex<BTreeMap<SandboxId, Option<String>>>>);

impl WorkerExits {
    pub(super) fn started(&self, name: &SandboxId) {
        self.all().insert(name.clone(), None);
    }

    /// Records an exit, unless the sandbox was deleted in the meantime.
    pub(super) fn exited(&self, name: &SandboxId, description: String) {
        if let Some(exit) = self.all().get_mut(name) {
            *exit = Some(description);
        }
    }

    /// `None` if another process started the worker; `Some(None)` while it runs.
    pub(super) fn get(&self, name: &SandboxId) -> Option<Option<String>> {
        self.all().get(name).cloned()
    }

    pub(super) fn forget(&self, name: &SandboxId) {
        self.all().remove(name);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<SandboxId, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("The worker exited with code {code}."),
        (None, Some(signal)) => format!("The worker was killed by signal {signal}."),
        (None, None) => UNKNOWN_EXIT.to_owned(),
    }
}
