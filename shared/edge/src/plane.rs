//! The dependencies of all entry points, wired once by a host.

use crate::auth::Authenticator;
use crate::guard::Guard;
use app::orchestration::{self, CodeHosts, IssueToken, Orchestration, Providers, ReconcileDeps};
use app::{
    Clock, Error, IdSource, KeyedLocks, QuotaCounters, Subscriptions, feedback, messages, quotas, tasks,
};
use domain::quota::Quotas;
use domain::{OrgId, SandboxId};
use std::sync::Arc;
use std::time::Duration;
use store::{Bus, JobQueue, Mailboxes, Push, Store};

/// The control plane.
#[derive(Debug)]
pub struct Plane {
    pub store: Store,
    pub authenticator: Authenticator,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdSource>,
    pub settings: Settings,
    pub bindings: Bindings,
    pub locks: KeyedLocks,
    /// Cache of this process.
    pub subscriptions: Subscriptions,
    /// What this process has admitted.
    pub quota_counters: QuotaCounters,
}

/// Clients that not every function has. The permissions in the registry decide which function has which.
#[derive(Debug, Clone, Default)]
pub struct Bindings {
    pub push: Option<Push>,
    pub socket_jobs: Option<JobQueue>,
    pub mailboxes: Option<Mailboxes>,
    pub bus: Option<Bus>,
    pub orchestration_jobs: Option<JobQueue>,
    pub providers: Option<Providers>,
    /// With the permission for providers, which includes the variables with the credentials.
    pub code_hosts: Option<CodeHosts>,
}

/// Built once at start by the host's `config.rs`.
#[derive(Debug, Clone)]
pub struct Settings {
    pub quotas: Quotas,
    /// The org of sandboxes that an operator registers without naming one.
    pub default_org: OrgId,
    /// Whether events of an unregistered sandbox register it. Only without authentication.
    pub adopt_unknown_sandboxes: bool,
    /// Lifetime of a worker token.
    pub worker_token_secs: i64,
    /// For how many days the work of tasks is kept that is not in a repository.
    pub workspace_days: u32,
    /// A socket that has not authenticated after this time is closed.
    pub auth_timeout: Duration,
    pub guard: Guard,
    pub orchestration: Orchestration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            quotas: Quotas::default(),
            default_org: OrgId::parse("default").expect("a valid id"),
            adopt_unknown_sandboxes: false,
            // Longer than any task: in OmoiOS one-hour tokens expired during one-hour tasks.
            worker_token_secs: 7 * 24 * 3600,
            workspace_days: domain::kept::DEFAULT_DAYS,
            auth_timeout: Duration::from_secs(10),
            guard: Guard::default(),
            orchestration: Orchestration::default(),
        }
    }
}

impl Plane {
    pub fn new(
        store: Store,
        bindings: Bindings,
        authenticator: Authenticator,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
        settings: Settings,
    ) -> Self {
        let (locks, subscriptions) = (KeyedLocks::default(), Subscriptions::default());
        let quota_counters = QuotaCounters::default();
        Self { store, bindings, authenticator, clock, ids, settings, locks, subscriptions, quota_counters }
    }

    pub fn quota_deps(&self) -> quotas::Deps<'_> {
        let (counters, quotas) = (&self.quota_counters, &self.settings.quotas);
        quotas::Deps { store: &self.store, counters, quotas, clock: self.clock.as_ref() }
    }

    pub fn push(&self) -> Result<&Push, Error> {
        self.bindings.push.as_ref().ok_or_else(|| not_wired("the management API"))
    }

    pub fn socket_jobs(&self) -> Result<&JobQueue, Error> {
        self.bindings.socket_jobs.as_ref().ok_or_else(|| not_wired("the queue of socket jobs"))
    }

    pub fn message_deps(&self) -> Result<messages::Deps<'_>, Error> {
        let mailboxes = self.bindings.mailboxes.as_ref().ok_or_else(|| not_wired("the mailboxes"))?;
        let (store, locks, clock) = (&self.store, &self.locks, self.clock.as_ref());
        Ok(messages::Deps { store, mailboxes, locks, clock, ids: self.ids.as_ref() })
    }

    pub fn orchestration_jobs(&self) -> Result<&JobQueue, Error> {
        self.bindings.orchestration_jobs.as_ref().ok_or_else(|| not_wired("the queue of orchestration jobs"))
    }

    pub fn orchestration(&self) -> Result<orchestration::Deps<'_>, Error> {
        let (store, orchestration_jobs, clock, ids) =
            (&self.store, self.orchestration_jobs()?, self.clock.as_ref(), self.ids.as_ref());
        Ok(orchestration::Deps {
            store,
            orchestration_jobs,
            clock,
            ids,
            orchestration: &self.settings.orchestration,
        })
    }

    pub fn reconcile_deps<'a>(&'a self, issue_token: IssueToken<'a>) -> Result<ReconcileDeps<'a>, Error> {
        let providers = self.providers()?;
        let messages::Deps { mailboxes, locks, .. } = self.message_deps()?;
        let code_hosts = self.code_hosts()?;
        Ok(ReconcileDeps {
            base: self.orchestration()?,
            providers,
            code_hosts,
            mailboxes,
            locks,
            issue_token,
        })
    }

    pub fn feedback_deps(&self) -> Result<feedback::Deps<'_>, Error> {
        let (base, code_hosts) = (self.orchestration()?, self.code_hosts()?);
        Ok(feedback::Deps { base, code_hosts, messages: self.message_deps()? })
    }

    pub fn code_hosts(&self) -> Result<&CodeHosts, Error> {
        self.bindings.code_hosts.as_ref().ok_or_else(|| not_wired("code hosts"))
    }

    pub fn pull_request_deps(&self) -> Result<tasks::pull_request::Deps<'_>, Error> {
        let (store, orchestration) = (&self.store, &self.settings.orchestration);
        let (clock, ids) = (self.clock.as_ref(), self.ids.as_ref());
        Ok(tasks::pull_request::Deps { store, clock, ids, orchestration, code_hosts: self.code_hosts()? })
    }

    pub fn providers(&self) -> Result<&Providers, Error> {
        self.bindings.providers.as_ref().ok_or_else(|| not_wired("sandbox providers"))
    }

    pub fn worker_token(&self, sandbox: &SandboxId, generation: u32) -> Result<String, Error> {
        let expires_at = self.clock.now().plus_secs(self.settings.worker_token_secs);
        self.authenticator.worker_token(sandbox, generation, expires_at)
    }

    pub fn bus(&self) -> Result<&Bus, Error> {
        self.bindings.bus.as_ref().ok_or_else(|| not_wired("the event bus"))
    }
}

/// A bug in the registry: the function's row lacks a permission that its use case needs.
fn not_wired(what: &str) -> Error {
    Error::Internal(
        format!("this function has no client for {what}; see its permissions in the registry").into(),
    )
}
