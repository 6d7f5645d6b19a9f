//! What the use cases of tasks and sandboxes share: their settings, the sandbox providers, and the environment
//! variables of workers.

mod agents;
mod code_hosts;
pub mod settings;
pub mod variables;
mod worker_variables;

use crate::{Clock, IdSource};
pub use agents::Agents;
pub use code_hosts::{CodeHosts, Reachable, Repository, repository_of};
use contract::repository;
use domain::access::Principal;
use domain::feedback::MAX_ROUNDS;
use domain::idle::Thresholds;
use domain::resources::ResourceRequest;
use domain::score::Weights;
use domain::task::Execution;
use domain::ticket::ApprovalSettings;
use domain::{Invalid, OrgId};
use providers::SandboxProvider;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use store::commit::Limits;
use store::{JobQueue, Mailboxes, Store};
pub use worker_variables::WorkerVariables;

/// Settings. The host's `config.rs` builds them once at startup.
#[derive(Debug, Clone)]
pub struct Orchestration {
    /// The name of this plane. Its sandboxes carry it at their provider, so that it never deletes those of another
    /// plane.
    pub plane: String,
    /// The provider of tasks that do not name one.
    pub default_provider: String,
    /// The names of the providers that the operator has enabled. A task that names another one is rejected, and fails if
    /// the operator has disabled it since. `None` if all that are set up are enabled.
    pub enabled_providers: Option<BTreeSet<String>>,
    /// The agents that tickets and tasks may name.
    pub agents: Agents,
    /// The agent of tasks that do not name one. It is one of `agents`.
    pub default_agent: String,
    /// The base URL of the plane, for workers.
    pub callback_url: String,
    /// The URL of its sockets, if it differs.
    pub socket_url: Option<String>,
    pub worker_variables: WorkerVariables,
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
    /// How often an agent works on feedback on a pull request. Then a person decides.
    pub max_feedback_rounds: u32,
}

impl Default for Orchestration {
    fn default() -> Self {
        Self {
            plane: "default".to_owned(),
            default_provider: "process".to_owned(),
            enabled_providers: None,
            agents: Agents::default(),
            default_agent: "claude".to_owned(),
            callback_url: "http://127.0.0.1:18000".to_owned(),
            socket_url: None,
            worker_variables: WorkerVariables::default(),
            resources: Vec::new(),
            lifetime_minutes: 480,
            limits: Limits { org: 10, project: 5 },
            thresholds: Thresholds::default(),
            validation_secs: 24 * 3600,
            weights: Weights::default(),
            approval: ApprovalSettings::default(),
            max_feedback_rounds: MAX_ROUNDS,
        }
    }
}

impl Orchestration {
    /// Rejects a provider that the operator has not enabled.
    pub fn check_provider(&self, name: &str) -> Result<(), Invalid> {
        match &self.enabled_providers {
            Some(enabled) if !enabled.contains(name) => {
                let enabled: Vec<&str> = enabled.iter().map(String::as_str).collect();
                let rule = format!(
                    "must be an enabled provider: {}. The operator enables providers with SUNABA_PROVIDER",
                    enabled.join(", ")
                );
                Err(Invalid::new("provider", rule))
            }
            _ => Ok(()),
        }
    }

    /// Rejects an agent that is not in the operator's list.
    pub fn check_agent(&self, agent: &str) -> Result<(), Invalid> {
        self.agents.definition(agent).map(drop)
    }

    /// What `AGENT` is set to for the worker of a task. The list may have changed since the task was created.
    pub fn agent_of(&self, execution: &Execution) -> Result<String, Invalid> {
        let name = execution.agent.as_ref().unwrap_or(&self.default_agent);
        self.agents.definition(name).map(str::to_owned)
    }
}

/// Rejects a directory of the machine, unless an operator names it. Its content may belong to other orgs, or to the user
/// that runs the plane.
pub fn check_repository(principal: &Principal, repository: Option<&str>) -> Result<(), Invalid> {
    let is_directory = repository.is_some_and(|address| repository::directory(address).is_some());
    if is_directory && !matches!(principal, Principal::Operator { .. }) {
        let rule = "must be owner/name or the URL of a repository; only operators can name a directory of the machine";
        return Err(Invalid::new("repository", rule));
    }
    Ok(())
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
pub type IssueToken<'a> = &'a (dyn Fn(&domain::SandboxId, u32) -> Result<String, crate::Error> + Send + Sync);

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
    pub code_hosts: &'a CodeHosts,
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
