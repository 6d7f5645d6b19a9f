//! The interface between the plane and code hosts. A code host is a folder that implements [`CodeHost`], and a
//! line in [`CODE_HOSTS`](crate::CODE_HOSTS).

use crate::github::{ResponseCache, TokenCache, client};
use crate::{Catalogue, CodeHost, Failure};
use reqwest::Client;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A code host that a plane can use.
pub struct CodeHostKind {
    /// Name in settings, records and logs: [`CodeHost::name`].
    pub name: &'static str,
    /// Name in texts for people.
    pub title: &'static str,
    /// Variables of the task's org and project that it reads.
    pub variables: &'static [Variable],
    /// Sends no request yet. The arguments are the address of a repository, as `contract::repository::parse`
    /// returns it, and the values of the variables. Empty values count as not set.
    ///
    /// **Invariant:** a credential is sent to its own host only. That a token covers this repository of the host
    /// (`GITHUB_REPOSITORIES`) is checked by the caller, which passes no other token.
    pub open: for<'a> fn(&str, &'a Values<'a>, &Environment) -> Opened,
    /// What the values of the variables reach. Sends no request yet.
    pub catalogue: for<'a> fn(&'a Values<'a>, &Environment) -> Catalogued,
    /// Whether its repositories are directories of the machine of the plane, which only operators may name.
    pub is_of_this_machine: bool,
}

/// The value of a variable, by its name.
pub type Values<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The repository; `None` if the host does not serve the address, or if it has no credential for it. A variable
/// that cannot be used is a failure that names it.
pub type Opened = Result<Option<Arc<dyn CodeHost>>, Failure>;

/// The repositories that there are to choose from; `None` without a credential. A variable that cannot be used is a
/// failure that names it.
pub type Catalogued = Result<Option<Arc<dyn Catalogue>>, Failure>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    pub description: &'static str,
    pub secret: bool,
}

/// What every code host is given. Clones share the HTTP connections and the caches of tokens and responses.
#[derive(Clone)]
pub struct Environment {
    /// Unix time.
    pub now_secs: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Timeout of a request, or of one run of git.
    pub timeout: Duration,
    /// Delay before a value is read again that the host still computes. Each further delay is twice as long.
    pub poll_delay: Duration,
    /// Directories of this machine below which repositories are offered to operators.
    pub folders: Vec<PathBuf>,
    client: Arc<OnceLock<Client>>,
    pub(crate) tokens: TokenCache,
    pub(crate) responses: ResponseCache,
}

impl Environment {
    pub fn new(now_secs: Arc<dyn Fn() -> i64 + Send + Sync>) -> Self {
        let (timeout, poll_delay) = (Duration::from_secs(30), Duration::from_secs(1));
        let (tokens, responses) = (TokenCache::default(), ResponseCache::default());
        let (folders, client) = (Vec::new(), Arc::default());
        Self { now_secs, timeout, poll_delay, folders, client, tokens, responses }
    }

    /// Made when it is first needed: it reads the certificates of the machine.
    pub(crate) fn client(&self) -> Client {
        self.client.get_or_init(client).clone()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timeout, poll_delay, .. } = self;
        f.debug_struct("Environment")
            .field("timeout", timeout)
            .field("poll_delay", poll_delay)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CodeHostKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeHostKind").field("name", &self.name).finish_non_exhaustive()
    }
}
