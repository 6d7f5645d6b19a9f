//! What the use cases of tasks and sandboxes share: their settings, the sandbox providers, and the environment
//! variables of workers.

pub mod settings;
pub mod variables;

use crate::{Clock, IdSource};
use contract::AgentName;
use domain::idle::Thresholds;
use domain::resources::ResourceRequest;
use domain::score::Weights;
use domain::ticket::ApprovalSettings;
use domain::{Invalid, OrgId};
use providers::SandboxProvider;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use store::commit::Limits;
use store::{JobQueue, Mailboxes, Store};

/// Settings. The host's `config.rs` builds them once at startup.
#[derive(Debug, Clone)]
pub struct Orchestration {
    /// The name of this plane. Its sandboxes carry it at their provider, so that it never deletes those of another
    /// plane.
    pub plane: String,
    /// The provider of tasks that do not name one.
    pub default_provider: String,
    /// The names of all providers, if the host knows them. Then a task that names another one is rejected; otherwise
    /// it fails when its sandbox is provisioned.
    pub known_providers: Option<BTreeSet<String>>,
    /// The kinds of agents that workers have ([`AgentName`]), if the host knows them. Then a ticket or task that names
    /// another one is rejected; otherwise it fails when its worker starts.
    pub known_agents: Option<BTreeSet<String>>,
    /// The agent of tasks that do not name one.
    pub default_agent: String,
    /// The base URL of the plane, for workers.
    pub callback_url: String,
    /// The URL of its sockets, if it differs.
    pub socket_url: Option<String>,
    /// Additional environment variables of all workers, such as API keys of models and tokens of code hosts.
    pub worker_variables: BTreeMap<String, String>,
    /// Default resources of sandboxes, in order of precedence: from the environment, then from a file.
    pub resources: Vec<ResourceRequest>,
    /// Maximum lifetime of a sandbox at its provider, in case the plane fails to delete it.
    pub lifetime_minutes: u32,
    pub limits: Limits,
    /// Timeouts for sandbox lifecycle stages.
    pub thresholds: Thresholds,
    /// Timeout for the review of a result.
    pub validation_secs: i64,
    /// Weights of the priority score.
    pub weights: Weights,
    pub approval: ApprovalSettings,
}

impl Default for Orchestration {
    fn default() -> Self {
        Self {
            plane: "default".to_owned(),
            default_provider: "process".to_owned(),
            known_providers: None,
            known_agents: None,
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
    /// Rejects the name of a provider that does not exist, if the host knows all of them.
    pub fn check_provider(&self, name: &str) -> Result<(), Invalid> {
        match &self.known_providers {
            Some(known) if !known.contains(name) => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                Err(Invalid::new("provider", format!("must be one of: {}", known.join(", "))))
            }
            _ => Ok(()),
        }
    }

    /// Rejects an invalid name, and an agent that workers do not have, if the host knows all that they have.
    pub fn check_agent(&self, agent: &str) -> Result<(), Invalid> {
        let Some(name) = AgentName::parse(agent) else {
            return Err(Invalid::new("agent", format!("must be {}", AgentName::all())));
        };
        match &self.known_agents {
            Some(known) if !known.contains(name.kind) => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let rule =
                    format!("must be an agent that the workers of this plane have: {}", known.join(", "));
                Err(Invalid::new("agent", rule))
            }
            _ => Ok(()),
        }
    }
}

/// The sandbox providers, by name.
#[derive(Debug, Clone, Default)]
pub struct Providers(BTreeMap<&'static str, Arc<dyn SandboxProvider>>);

impl Providers {
    pub fn new(providers: impl IntoIterator<Item = Arc<dyn SandboxProvider>>) -> Self {
        Self(providers.into_iter().map(|provider| (provider.name(), provider)).collect())
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn SandboxProvider>> {
        self.0.get(name)
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn SandboxProvider>> {
        self.0.values()
    }
}

/// Issues the token of a sandbox's worker for a token generation.
pub type IssueToken<'a> = &'a (dyn Fn(&domain::SandboxId, u32) -> String + Send + Sync);

/// Dependencies of the use cases that change tasks.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub orchestration_jobs: &'a JobQueue,
    pub clock: &'a dyn Clock,
    pub ids: &'a dyn IdSource,
    pub orchestration: &'a Orchestration,
}

/// Dependencies of the use case that provisions and releases sandboxes.
#[derive(Clone, Copy)]
pub struct ReconcileDeps<'a> {
    pub base: Deps<'a>,
    pub providers: &'a Providers,
    pub mailboxes: &'a Mailboxes,
    pub locks: &'a crate::KeyedLocks,
    pub issue_token: IssueToken<'a>,
}

impl<'a> Deref for ReconcileDeps<'a> {
    type Target = Deps<'a>;

    fn deref(&self) -> &Deps<'a> {
        &self.base
    }
}

impl std::fmt::Debug for ReconcileDeps<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReconcileDeps").field("base", &self.base).finish_non_exhaustive()
    }
}

pub(crate) fn dispatch_job(org: &OrgId) -> contract::jobs::Job {
    contract::jobs::Job::Dispatch { org: org.clone() }
}
