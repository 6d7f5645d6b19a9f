//! Sends the branch of the task on to the host.
//!
//! A push is repeated until the host has the commit: after a failure of the network with growing delays, otherwise when
//! the branch has moved again, and in any case by the next run of the worker. The response to a push may be lost, so the
//! state of the host decides whether it succeeded.

use super::git::LOCAL_TIMEOUT;
use super::host::{self, NETWORK_TIMEOUT};
use super::{Error, Relay};
use crate::event::{Event, first_bytes};
use crate::workspace::GitError;
use client::{Backoff, Wait};
use contract::payloads::{WorkspacePushFailed, WorkspacePushed};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// Longest delay between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// How often a push is repeated at once because the host had moved.
const MAX_CONFLICTS: u32 = 3;
/// Maximum size of a reported error.
const MAX_ERROR_BYTES: usize = 4 * 1024;

/// How far the branch of the task has come. References say which commit that is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Number of commits that have reached the host in this run.
    pushed: u64,
    /// The last failure, until a push succeeds.
    failure: Option<Failure>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The commit that was pushed.
    pub commit: String,
    pub error: String,
    pub will_retry: bool,
}

impl Delivery {
    /// Whether nothing is to be expected for this commit.
    fn is_settled(&self, commit: &str) -> bool {
        let failed = self.failure.as_ref().filter(|failure| failure.commit == commit);
        failed.is_some_and(|failure| !failure.will_retry)
    }
}

impl Relay {
    /// Pushes each commit of the task's branch. Never returns.
    pub async fn run(self) {
        let mut moved = self.0.moved.subscribe();
        let delays = Backoff::new(self.0.settings.retry_delay, MAX_DELAY);
        loop {
            moved.mark_unchanged();
            let mut attempt = 0;
            while let Err(error) = self.deliver().await {
                if error.is_permanent() {
                    break;
                }
                // A further commit is tried at once.
                if timeout(delays.wait(attempt), moved.changed()).await.is_ok() {
                    attempt = 0;
                } else {
                    attempt += 1;
                }
            }
            if moved.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until the branch of the task has reached the host, no further attempt is made, or the time is over.
    pub async fn delivered(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut delivery = self.0.delivery.subscribe();
        loop {
            // First, so that a push that succeeds during the following checks is noticed.
            let last = delivery.borrow_and_update().clone();
            let Some(head) = self.head().await else { return };
            // Also without a push, if the branch follows the host.
            let is_at_host = self.at_host().await.as_ref() == Some(&head);
            if is_at_host
                || last.is_settled(&head)
                || !matches!(timeout_at(deadline, delivery.changed()).await, Ok(Ok(())))
            {
                return;
            }
        }
    }

    /// The last failure, if the branch has not reached the host since.
    pub fn failure(&self) -> Option<Failure> {
        self.0.delivery.borrow().failure.clone()
    }

    /// The agent may have moved the branch.
    pub(super) fn branch_moved(&self) {
        self.0.moved.send_modify(|generation| *generation += 1);
    }

    async fn deliver(&self) -> Result<(), Error> {
        let _contact = self.0.contact.lock().await;
        let Some(head) = self.head().await else { return Ok(()) };
        let known = self.at_host().await;
        if known.as_ref() == Some(&head) {
            self.0.delivery.send_modify(|delivery| delivery.failure = None);
            return Ok(());
        }
        let result = self.push(&head, known.as_deref()).await;
        match &result {
            Ok(previous) => self.pushed(&head, previous.as_deref()).await?,
            Err(error) => self.push_failed(&head, error),
        }
        result.map(drop)
    }

    /// Pushes a commit, and returns the one that was at the host before.
    async fn push(&self, head: &str, known: Option<&str>) -> Result<Option<String>, Error> {
        let mut known = known.map(str::to_owned);
        for _ in 0..MAX_CONFLICTS {
            let error = match self.push_once(head, known.as_deref()).await {
                Ok(()) => return Ok(known),
                Err(error) => error,
            };
            // Whatever has failed, the push may have succeeded: ask the host.
            let is_stale = is_stale(&error);
            if !is_stale && error.is_permanent() || self.fetch().await.is_err() {
                return Err(error);
            }
            let host = self.0.git.commit(&self.host_ref()).await;
            match host {
                Some(host) if host == head => return Ok(known),
                _ if !is_stale => return Err(error),
                None => known = None,
                Some(host) if self.0.git.contains(head, &host).await => known = Some(host),
                Some(_) => return Err(Error::Diverged(self.branch().to_owned())),
            }
        }
        Err(Error::Diverged(self.branch().to_owned()))
    }

    /// Pushes the branch of the task and nothing else, if it is at the host where it is expected.
    async fn push_once(&self, head: &str, known: Option<&str>) -> Result<(), Error> {
        let lease = format!("--force-with-lease={}:{}", self.head_ref(), known.unwrap_or_default());
        let refspec = format!("{head}:{}", self.head_ref());
        let pushed = self.at_host_with(|git, url| {
            let options =
                ["push", "--quiet", "--no-verify", "--no-signed", "--no-recurse-submodules", &lease];
            let arguments = options.into_iter().chain(host::receiver(url)).chain(["--", url, &refspec]);
            let arguments: Vec<String> = arguments.map(str::to_owned).collect();
            async move {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                git.text(&arguments, NETWORK_TIMEOUT).await
            }
        });
        pushed.await.map(drop)
    }

    async fn pushed(&self, head: &str, previous: Option<&str>) -> Result<(), Error> {
        let git = &self.0.git;
        let (commits, forced) = match previous {
            Some(previous) => {
                (self.count(&[head, "--not", previous]).await, !git.contains(head, previous).await)
            }
            None => (self.count(&[head, "--not", &format!("--glob={}*", host::MIRROR)]).await, false),
        };
        let pushed = Event::worker(WorkspacePushed {
            branch: self.branch().to_owned(),
            commit: head.to_owned(),
            previous_commit: previous.map(str::to_owned),
            commits,
            forced,
        });
        // First: a worker that is killed in between emits it again, with the same id.
        (self.0.emit)(pushed.with_id(format!("pushed-{head}-{}", previous.unwrap_or("none"))));
        git.text(&["update-ref", &self.host_ref(), head], LOCAL_TIMEOUT).await?;
        self.set_known(head).await?;
        self.0
            .delivery
            .send_modify(|delivery| *delivery = Delivery { pushed: delivery.pushed + 1, failure: None });
        Ok(())
    }

    async fn count(&self, range: &[&str]) -> u64 {
        let arguments = [&["rev-list", "--count"], range].concat();
        let counted = self.0.git.text(&arguments, LOCAL_TIMEOUT).await;
        counted.ok().and_then(|count| count.parse().ok()).unwrap_or_default()
    }

    fn push_failed(&self, head: &str, error: &Error) {
        let will_retry = !error.is_permanent();
        let error = first_bytes(&error.to_string(), MAX_ERROR_BYTES).to_owned();
        tracing::warn!(will_retry, "The branch of the task cannot be pushed: {error}");
        let failure = Failure { commit: head.to_owned(), error: error.clone(), will_retry };
        let is_new = self.0.delivery.borrow().failure.as_ref() != Some(&failure);
        if is_new {
            let (branch, commit) = (self.branch().to_owned(), head.to_owned());
            (self.0.emit)(Event::worker(WorkspacePushFailed { branch, commit, error, will_retry }));
        }
        self.0.delivery.send_modify(|delivery| delivery.failure = Some(failure));
    }
}

/// Whether the branch was not at the host where it was expected.
fn is_stale(error: &Error) -> bool {
    let reasons = ["stale info", "already exists", "fetch first", "cannot lock ref", "failed to update ref"];
    matches!(error, Error::Git(GitError::Failed { stderr, .. }) if reasons.iter().any(|reason| stderr.contains(reason)))
}
