//! What the use cases around tasks and sandboxes share: who makes sandboxes, how many there may be, and what their
//! workers are told.

pub mod settings;
pub mod variables;

use crate::{Clock, IdSource};
use domain::idle::Thresholds;
use domain::resources::Wanted;
use domain::score::Weights;
use domain::ticket::ApprovalSettings;
use domain::{Invalid, OrgId};
use providers::SandboxProvider;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::commit::Limits;
use store::{Jobs, Mailboxes, Store};

/// What can be set. Built once at start by the host's `config.rs`.
#[derive(Debug, Clone)]
pub struct Orchestration {
    /// Which plane this is: its sandboxes carry the name at their provider, so that it removes none of another's.
    pub plane: String,
    /// The provider of tasks that do not name one.
    pub default_provider: String,
    /// The names of all providers that there may be, where that is known: then a task that names another is refused.
    /// Elsewhere it fails when its sandbox is to be made.
    pub known_providers: Option<BTreeSet<String>>,
    /// The agent of tasks that do not name one.
    pub default_agent: String,
    /// Where workers find the plane.
    pub callback_url: String,
    /// Where workers find its sockets, if elsewhere.
    pub socket_url: Option<String>,
    /// What every worker is given beside that: keys of models, tokens of code hosts.
    pub worker_variables: BTreeMap<String, String>,
    /// What sandboxes are made of, unless a task says otherwise: from the environment, then from a file.
    pub resources: Vec<Wanted>,
    /// How long a sandbox may live at its provider, whatever happens to the plane.
    pub lifetime_minutes: u32,
    /// How many tasks may be worked on at a time.
    pub limits: Limits,
    /// After how long what is too long.
    pub thresholds: Thresholds,
    /// How long somebody may take to judge a result.
    pub validation_secs: i64,
    /// What makes a task urgent.
    pub weights: Weights,
    /// Whether somebody has to approve of tickets.
    pub approval: ApprovalSettings,
}

impl Default for Orchestration {
    fn default() -> Self {
        Self {
            plane: "default".to_owned(),
            default_provider: "process".to_owned(),
            known_providers: None,
            default_agent: "claude".to_owned(),
            callback_url: "http://127.0.0.1:18000".to_owned(),
            socket_url: None,
            worker_variables: BTreeMap::new(),
            resources: Vec::new(),
            lifetime_minutes: 480,
            limits: Limits { org: 10, project: 5 },
            thresholds: Thresholds::default(),
            validation_secs: 24 * 3600,
            weights: Weights::default(),
            approval: ApprovalSettings::default(),
        }
    }
}

impl Orchestration {
    /// Whether somebody of this name may make a sandbox, as far as that is known.
    pub fn check_provider(&self, name: &str) -> Result<(), Invalid> {
        match &self.known_providers {
            Some(known) if !known.contains(name) => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                Err(Invalid::new("provider", format!("must be one of: {}", known.join(", "))))
            }
            _ => Ok(()),
        }
    }
}

/// Those who make sandboxes, by name.
#[derive(Debug, Clone, Default)]
pub struct Providers(BTreeMap<&'static str, Arc<dyn SandboxProvider>>);

impl Providers {
    /// These.
    pub fn new(providers: impl IntoIterator<Item = Arc<dyn SandboxProvider>>) -> Self {
        Self(providers.into_iter().map(|provider| (provider.name(), provider)).collect())
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn SandboxProvider>> {
        self.0.get(name)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn SandboxProvider>> {
        self.0.values()
    }
}

/// Makes the token of a sandbox's worker: sandbox, generation.
pub type MakeToken<'a> = &'a (dyn Fn(&domain::SandboxId, u32) -> String + Send + Sync);

/// What a use case that changes tasks touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads and writes tasks, tickets, sandboxes and the queue.
    pub store: &'a Store,
    /// Asks for work.
    pub work: &'a Jobs,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Source of new ids.
    pub ids: &'a dyn IdSource,
    /// What can be set.
    pub orchestration: &'a Orchestration,
}

/// What a use case touches that makes and removes sandboxes.
#[derive(Clone, Copy)]
pub struct ReconcileDeps<'a> {
    /// As above.
    pub deps: Deps<'a>,
    /// Those who make sandboxes.
    pub providers: &'a Providers,
    /// Gives up what waits in a sandbox's mailbox, and removes that.
    pub mailboxes: &'a Mailboxes,
    /// The process's lanes.
    pub lanes: &'a crate::KeyedLocks,
    /// Makes the token of a worker.
    pub make_token: MakeToken<'a>,
}

impl std::fmt::Debug for ReconcileDeps<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReconcileDeps").field("deps", &self.deps).finish_non_exhaustive()
    }
}

/// The org whose slots and queue a job is about.
pub(crate) fn dispatch_job(org: &OrgId) -> contract::jobs::Job {
    contract::jobs::Job::Dispatch { org: org.clone() }
}
