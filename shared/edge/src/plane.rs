//! Everything an entry point may reach, wired once by a host.

use crate::auth::Authenticator;
use crate::guard::Guard;
use app::{Clock, Lanes, Subscriptions};
use domain::OrgId;
use std::sync::Arc;
use store::{Push, Store};

/// The plane.
#[derive(Debug)]
pub struct Plane {
    /// The table.
    pub store: Store,
    /// The way to sockets.
    pub push: Push,
    /// Who is asking.
    pub authenticator: Authenticator,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What can be set.
    pub settings: Settings,
    /// What this process remembers of heads.
    pub lanes: Lanes,
    /// What this process remembers of subscriptions.
    pub subscriptions: Subscriptions,
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
    /// Which pages may talk to us.
    pub guard: Guard,
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
            guard: Guard::default(),
        }
    }
}

impl Plane {
    /// A plane on this table and these sockets.
    pub fn new(
        store: Store,
        push: Push,
        authenticator: Authenticator,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let (lanes, subscriptions) = (Lanes::default(), Subscriptions::default());
        Self { store, push, authenticator, clock, settings, lanes, subscriptions }
    }
}
