//! Background tasks, with an owner that notices if one panics.

use std::fmt;
use std::panic::resume_unwind;
use tokio::task::{AbortHandle, JoinError, JoinHandle, JoinSet};

/// Tasks that run until they end or this is dropped.
#[derive(Debug, Default)]
pub struct Tasks {
    watched: JoinSet<(&'static str, Result<(), JoinError>)>,
    running: Vec<AbortHandle>,
}

/// A task that has panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFailure {
    /// What the task does.
    pub name: &'static str,
    pub reason: String,
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.name, self.reason)
    }
}

impl TaskFailure {
    /// `None` if the task was cancelled.
    pub fn of(name: &'static str, error: &JoinError) -> Option<Self> {
        error.is_panic().then(|| Self { name, reason: error.to_string() })
    }
}

impl Tasks {
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.watch(name, tokio::spawn(task));
    }

    /// Watches a task that is already running.
    pub fn watch(&mut self, name: &'static str, task: JoinHandle<()>) {
        self.running.retain(|running| !running.is_finished());
        self.running.push(task.abort_handle());
        self.watched.spawn(async move { (name, task.await) });
    }

    /// The next task that panics. Never resolves if none does.
    pub async fn failed(&mut self) -> TaskFailure {
        while let Some(joined) = self.watched.join_next().await {
            let failure = match joined {
                Ok((name, Err(why))) => TaskFailure::of(name, &why),
                _ => None,
            };
            if let Some(failure) = failure {
                return failure;
            }
        }
        std::future::pending().await
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.running {
            task.abort();
        }
    }
}

/// The result of a task that the caller waits for. A panic of the task becomes a panic of the caller, so that the
/// caller's owner notices it. `None` if the task was cancelled.
pub fn joined<T>(result: Result<T, JoinError>) -> Option<T> {
    result.map_err(|why| why.try_into_panic().map(|panic| resume_unwind(panic))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn panic_of_a_task_is_reported_by_name() {
        let mut tasks = Tasks::default();
        tasks.spawn("receiving messages", pending());
        tasks.spawn("sending heartbeats", async {
            joined(tokio::task::spawn_blocking(|| panic!("a bug")).await);
        });
        let failure = timeout(Duration::from_secs(10), tasks.failed()).await.unwrap();
        assert_eq!(failure.name, "sending heartbeats");
        assert!(failure.to_string().contains("a bug"), "{failure}");
    }

    /// The clock is paused: it advances when no task has anything left to do.
    #[tokio::test(start_paused = true)]
    async fn end_of_a_task_is_no_failure() {
        let mut tasks = Tasks::default();
        tasks.spawn("receiving messages", pending());
        tasks.spawn("sending heartbeats", async {});
        assert!(timeout(Duration::from_secs(10), tasks.failed()).await.is_err());
    }

    #[tokio::test]
    async fn tasks_end_with_their_owner() {
        let mut tasks = Tasks::default();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn("holds the sender", async move {
            let _sender = sender;
            pending::<()>().await;
        });
        drop(tasks);
        assert!(timeout(Duration::from_secs(10), receiver).await.unwrap().is_err());
    }
}
