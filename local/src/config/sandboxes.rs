//! Configuration of tasks and sandboxes: flags, then environment variables, then the configuration file, then defaults.
//!
//! Every value is read as text first, so that all invalid values are reported at once, whatever their source.

mod reader;

use super::file::Values;
use super::providers::{ProviderOptions, settings};
use app::orchestration::{Agents, Orchestration};
use clap::Args;
use confine::{Setting, Tier};
use providers::process;
use providers::{ProviderKind, WorkerSource};
use reader::Reader;

macro_rules! settings {
    ($($(#[$attribute:meta])* $name:ident, $variable:literal;)*) => {
        /// Options for tasks and sandboxes.
        #[derive(Debug, Clone, Default, Args)]
        pub struct Sandboxes {
            $(
                $(#[$attribute])*
                #[arg(long, env = $variable, hide_env_values = true)]
                pub $name: Option<String>,
            )*
            #[command(flatten)]
            pub providers: ProviderOptions,
        }

        impl Sandboxes {
            /// Names of all variables.
            pub fn names() -> Vec<&'static str> {
                let own = [$($variable),*];
                own.into_iter().chain(settings().map(|setting| setting.variable)).collect()
            }

            /// Values of flags and environment, by the name of the variable.
            fn values(&self, kinds: &[&'static ProviderKind]) -> Vec<(&'static str, Option<&str>)> {
                let of_provider = |variable| (variable, self.providers.get(variable));
                let own = [$(($variable, self.$name.as_deref())),*];
                let of_providers = kinds.iter().flat_map(|kind| kind.settings);
                own.into_iter().chain(of_providers.map(|setting| of_provider(setting.variable))).collect()
            }
        }
    };
}

settings! {
    /// Enabled sandbox providers, separated by commas: process (on this machine) and those below. Tasks that name none use
    /// the first one [default: process]
    #[arg(help_heading = SANDBOXES, value_name = "NAMES")]
    provider, "SUNABA_PROVIDER";
    /// Default agent: one of the list below, or acp:COMMAND or scripted:FILE [default: claude if it is installed, else
    /// scripted:hello]
    #[arg(help_heading = SANDBOXES)]
    agent, "AGENT";
    /// Agents that tickets and tasks may name, separated by commas: claude, openhands, or NAME=acp:COMMAND and
    /// NAME=scripted:FILE [default: claude, openhands and the built-in scripts scripted:hello, scripted:refactor and
    /// scripted:trouble]
    #[arg(help_heading = SANDBOXES, value_name = "LIST")]
    agents, "SUNABA_AGENTS";
    /// URL at which workers reach this plane [default: the address it listens on]
    #[arg(help_heading = SANDBOXES, value_name = "URL")]
    callback_url, "SUNABA_CALLBACK_URL";
    /// Isolation of agents in local sandboxes: auto, namespaces, landlock, sandbox-exec (macOS) or none
    /// [default: auto]
    #[arg(help_heading = SANDBOXES, value_name = "TIER")]
    isolation, "SUNABA_ISOLATION";
    /// Memory per sandbox, at most 8 [default: 4]
    #[arg(help_heading = SANDBOXES, value_name = "GB")]
    sandbox_memory_gb, "SANDBOX_MEMORY_GB";
    /// CPUs per sandbox, at most 4 [default: 2]
    #[arg(help_heading = SANDBOXES, value_name = "COUNT")]
    sandbox_cpu, "SANDBOX_CPU";
    /// Disk per sandbox, at most 10 [default: 8]
    #[arg(help_heading = SANDBOXES, value_name = "GB")]
    sandbox_disk_gb, "SANDBOX_DISK_GB";
    /// Snapshot for remote sandboxes [default: ai-agent-dev-light]
    #[arg(help_heading = SANDBOXES, value_name = "NAME")]
    sandbox_snapshot, "SANDBOX_SNAPSHOT";
    /// Container image, if the snapshot does not exist [default: debian:trixie-slim]
    #[arg(help_heading = SANDBOXES, value_name = "NAME")]
    sandbox_image, "SANDBOX_IMAGE";
    /// Maximum lifetime of a remote sandbox, enforced by its provider [default: 480]
    #[arg(help_heading = SANDBOXES, value_name = "MINUTES")]
    sandbox_lifetime_minutes, "SANDBOX_LIFETIME_MINUTES";
    /// Maximum number of concurrent tasks per organization [default: 10]
    #[arg(help_heading = LIMITS, value_name = "COUNT")]
    max_concurrent_tasks_per_org, "MAX_CONCURRENT_TASKS_PER_ORG";
    /// Maximum number of concurrent tasks per project [default: 5]
    #[arg(help_heading = LIMITS, value_name = "COUNT")]
    max_concurrent_tasks_per_project, "MAX_CONCURRENT_TASKS_PER_PROJECT";
    /// Terminate a sandbox after this time without progress while its agent is idle [default: 10]
    #[arg(help_heading = LIMITS, value_name = "MINUTES")]
    idle_threshold_minutes, "IDLE_THRESHOLD_MINUTES";
    /// Terminate a sandbox after this time without progress while its agent reports work [default: 15]
    #[arg(help_heading = LIMITS, value_name = "MINUTES")]
    stuck_running_minutes, "STUCK_RUNNING_MINUTES";
    /// Terminate a sandbox after this time without progress while its agent starts; a clone may take 30 [default: 35]
    #[arg(help_heading = LIMITS, value_name = "MINUTES")]
    stuck_starting_minutes, "STUCK_STARTING_MINUTES";
    /// Consider a sandbox dead after this time without a heartbeat [default: 120]
    #[arg(help_heading = LIMITS, value_name = "SECONDS")]
    heartbeat_timeout_seconds, "HEARTBEAT_TIMEOUT_SECONDS";
    /// Timeout for creating a sandbox [default: 300]
    #[arg(help_heading = LIMITS, value_name = "SECONDS")]
    creating_timeout_seconds, "CREATING_TIMEOUT_SECONDS";
    /// Timeout for the first heartbeat of a worker [default: 180]
    #[arg(help_heading = LIMITS, value_name = "SECONDS")]
    start_timeout_seconds, "START_TIMEOUT_SECONDS";
    /// Timeout for the exit of a worker after its agent has completed [default: 30]
    #[arg(help_heading = LIMITS, value_name = "SECONDS")]
    completing_timeout_seconds, "COMPLETING_TIMEOUT_SECONDS";
    /// Timeout for the review of a result [default: 1440]
    #[arg(help_heading = LIMITS, value_name = "MINUTES")]
    validation_timeout_minutes, "VALIDATION_TIMEOUT_MINUTES";
    /// Require approval of every ticket: true or false [default: false]
    #[arg(help_heading = LIMITS, value_name = "BOOLEAN")]
    ticket_human_review, "TICKET_HUMAN_REVIEW";
    /// Timeout for the approval of a ticket, from a minute to a day [default: 1800]
    #[arg(help_heading = LIMITS, value_name = "SECONDS")]
    approval_timeout_seconds, "APPROVAL_TIMEOUT_SECONDS";
    /// How often an agent works on feedback on its pull request before a person decides; 0 for never [default: 3]
    #[arg(help_heading = LIMITS, value_name = "COUNT")]
    max_feedback_rounds, "MAX_FEEDBACK_ROUNDS";
    /// Worker executable for remote sandboxes: a file, a URL, or image:PATH if the image contains it
    #[arg(help_heading = SANDBOXES, value_name = "SOURCE")]
    worker_source, "SUNABA_WORKER_SOURCE";
}

const SANDBOXES: &str = "Sandboxes";
const LIMITS: &str = "Limits";

/// The validated configuration.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// Enabled providers. The first one is the default.
    pub enabled: Vec<String>,
    /// Default agent, if configured.
    pub agent: Option<String>,
    /// Agents that requests may name, without the default agent.
    pub agents: Agents,
    /// URL at which workers reach the plane, if configured.
    pub callback_url: Option<String>,
    pub isolation: Setting,
    /// The settings that do not depend on the address of the plane.
    pub orchestration: Orchestration,
    /// Remote providers that are enabled, with their settings.
    pub providers: Vec<(&'static ProviderKind, providers::Values)>,
    /// Worker executable for remote sandboxes. Set if there is a remote provider.
    pub worker: Option<WorkerSource>,
}

impl SandboxConfig {
    /// Whether sandboxes are processes of this machine.
    pub fn has_local_sandboxes(&self) -> bool {
        self.enabled.iter().any(|name| name == process::NAME)
    }

    /// Whether an agent has the permissions of the plane's own user on this machine.
    pub fn has_unconfined_sandboxes(&self) -> bool {
        self.has_local_sandboxes() && self.isolation == Setting::Exactly(Tier::None)
    }
}

impl Sandboxes {
    /// Merges these options with the file, or returns all errors. `kinds` are the remote providers that can be set up.
    pub fn config(
        &self,
        kinds: &[&'static ProviderKind],
        file: &Values,
    ) -> Result<SandboxConfig, Vec<String>> {
        Reader::new(kinds, self.values(kinds), file).read()
    }
}

#[cfg(test)]
mod tests;
