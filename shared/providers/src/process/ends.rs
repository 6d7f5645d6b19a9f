//! How those workers ended that this process started.

use domain::SandboxId;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is known of the end of a worker that nobody waited for.
pub(super) const UNSEEN: &str = "The worker ended, and nobody saw how.";

/// Each worker that was started, and in words how it ended, once it has.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends(Arc<Mutex<BTreeMap<SandboxId, Option<String>>>>);

impl Ends {
    /// A worker begins.
    pub(super) fn begin(&self, name: &SandboxId) {
        self.all().insert(name.clone(), None);
    }

    /// It has ended. One whose sandbox was removed meanwhile is not remembered.
    pub(super) fn note(&self, name: &SandboxId, end: String) {
        if let Some(known) = self.all().get_mut(name) {
            *known = Some(end);
        }
    }

    /// What is known of one, if this process started it.
    pub(super) fn of(&self, name: &SandboxId) -> Option<Option<String>> {
        self.all().get(name).cloned()
    }

    /// Its sandbox is gone.
    pub(super) fn forget(&self, name: &SandboxId) {
        self.all().remove(name);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<SandboxId, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's end, for people.
pub(super) fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("The worker ended with code {code}."),
        (None, Some(signal)) => format!("The worker was ended by signal {signal}."),
        (None, None) => UNSEEN.to_owned(),
    }
}
