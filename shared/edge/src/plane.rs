//! Everything an entry point may bindings, wired once by a host.

use crate::auth::Authenticator;
use crate::guard::Guard;
use app::orchestration::{self, MakeToken, Orchestration, Providers, ReconcileDeps};
use app::{Clock, Error, IdSource, KeyedLocks, Subscriptions, messages};
use domain::{OrgId, SandboxId};
use std::sync::Arc;
use std::time::Duration;
use store::{Bus, Jobs, Mailboxes, Push, Store};

/// The plane.
#[derive(Debug)]
pub struct Plane {
    /// The table.
    pub store: Store,
    /// Who is asking.
    pub authenticator: Authenticator,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub ids: Arc<dyn IdSource>,
    /// What can be set.
    pub settings: Settings,
    /// What else this process is wired to.
    pub bindings: Bindings,
    /// What this process remembers of heads.
    pub lanes: KeyedLocks,
    /// What this process remembers of subscriptions.
    pub subscriptions: Subscriptions,
}

/// What not every function is wired to. Which needs which is in the registry.
#[derive(Debug, Clone, Default)]
pub struct Bindings {
    /// The way to sockets.
    pub push: Option<Push>,
    /// The queue of jobs.
    pub jobs: Option<Jobs>,
    /// The sandboxes' mailboxes.
    pub mailboxes: Option<Mailboxes>,
    /// The account's event bus.
    pub bus: Option<Bus>,
    /// The queue of work around tasks and sandboxes.
    pub work: Option<Jobs>,
    /// Those who make sandboxes.
    pub providers: Option<Providers>,
}

/// What can be set. Built once at start by the host's `config.rs`.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many events a sandbox may send in a minute.
    pub events_per_minute: u64,
    /// The org of sandboxes that an operator registers without naming one.
    pub default_org: OrgId,
    /// Whether sandboxes that nobody registered are taken in. Only without authentication.
    pub adopt_unknown_sandboxes: bool,
    /// How long a worker token lives.
    pub worker_token_secs: i64,
    /// How long the owner of a socket has to say who they are.
    pub known_within: Duration,
    /// Which pages may talk to us.
    pub guard: Guard,
    /// How tasks become sandboxes.
    pub orchestration: Orchestration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // A busy agent tells about two events a second; this is for one that has gone mad.
            events_per_minute: 60_000,
            default_org: OrgId::parse("default").expect("a valid id"),
            adopt_unknown_sandboxes: false,
            // Longer than any run: OmoiOS let a token of an hour die under a run of an hour.
            worker_token_secs: 7 * 24 * 3600,
            known_within: Duration::from_secs(10),
            guard: Guard::default(),
            orchestration: Orchestration::default(),
        }
    }
}

impl Plane {
    /// A plane on this table and these sockets.
    pub fn new(
        store: Store,
        bindings: Bindings,
        authenticator: Authenticator,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
        settings: Settings,
    ) -> Self {
        let (lanes, subscriptions) = (KeyedLocks::default(), Subscriptions::default());
        Self { store, bindings, authenticator, clock, ids, settings, lanes, subscriptions }
    }

    /// The way to sockets.
    pub fn push(&self) -> Result<&Push, Error> {
        self.bindings.push.as_ref().ok_or_else(|| not_wired("sockets"))
    }

    /// The queue of jobs.
    pub fn jobs(&self) -> Result<&Jobs, Error> {
        self.bindings.jobs.as_ref().ok_or_else(|| not_wired("the queue of jobs"))
    }

    /// What the use cases around messages touch.
    pub fn steering(&self) -> Result<messages::Deps<'_>, Error> {
        let mailboxes = self.bindings.mailboxes.as_ref().ok_or_else(|| not_wired("the mailboxes"))?;
        let (store, lanes, clock) = (&self.store, &self.lanes, self.clock.as_ref());
        Ok(messages::Deps { store, mailboxes, lanes, clock, ids: self.ids.as_ref() })
    }

    /// The queue of work.
    pub fn work(&self) -> Result<&Jobs, Error> {
        self.bindings.work.as_ref().ok_or_else(|| not_wired("the queue of work"))
    }

    /// What the use cases around tasks touch.
    pub fn orchestration(&self) -> Result<orchestration::Deps<'_>, Error> {
        let (store, work, clock, ids) = (&self.store, self.work()?, self.clock.as_ref(), self.ids.as_ref());
        Ok(orchestration::Deps { store, work, clock, ids, orchestration: &self.settings.orchestration })
    }

    /// What the use cases touch that make and remove sandboxes.
    pub fn hands<'a>(&'a self, make_token: MakeToken<'a>) -> Result<ReconcileDeps<'a>, Error> {
        let providers = self.providers()?;
        let messages::Deps { mailboxes, lanes, .. } = self.steering()?;
        Ok(ReconcileDeps { deps: self.orchestration()?, providers, mailboxes, lanes, make_token })
    }

    /// Those who make sandboxes.
    pub fn providers(&self) -> Result<&Providers, Error> {
        self.bindings.providers.as_ref().ok_or_else(|| not_wired("providers of sandboxes"))
    }

    /// The token of a sandbox's worker, good for longer than any run.
    pub fn worker_token(&self, sandbox: &SandboxId, generation: u32) -> String {
        let until = self.clock.now().plus_secs(self.settings.worker_token_secs);
        self.authenticator.worker_token(sandbox, generation, until)
    }

    /// The account's event bus.
    pub fn bus(&self) -> Result<&Bus, Error> {
        self.bindings.bus.as_ref().ok_or_else(|| not_wired("the event bus"))
    }
}

/// A mistake in the registry: this function reaches for what its row does not name.
fn not_wired(what: &str) -> Error {
    Error::Internal(format!("this function is not wired to {what}").into())
}
