//! Configuration of tasks and sandboxes: flags, then environment variables, then the configuration file, then defaults.
//!
//! Every value is read as text first, so that all invalid values are reported at once, whatever their source.

use super::file::Values;
use super::providers::{ProviderOptions, settings};
use crate::agents::listed_by_default;
use app::orchestration::{Agents, Orchestration};
use clap::Args;
use confine::{Setting, Tier};
use domain::idle::Thresholds;
use domain::resources::{self, ResourceRequest};
use domain::ticket::ApprovalSettings;
use providers::process;
use providers::{ProviderKind, WorkerSource};
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use store::commit::Limits;

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

/// Reads values by the names of their variables and collects errors.
struct Reader<'a> {
    /// The remote providers that can be set up.
    kinds: &'a [&'static ProviderKind],
    values: Vec<(&'static str, Option<&'a str>)>,
    file: &'a Values,
    errors: Vec<String>,
}

impl Sandboxes {
    /// Merges these options with the file, or returns all errors. `kinds` are the remote providers that can be set up.
    pub fn config(
        &self,
        kinds: &[&'static ProviderKind],
        file: &Values,
    ) -> Result<SandboxConfig, Vec<String>> {
        let mut reader = Reader { kinds, values: self.values(kinds), file, errors: Vec::new() };
        let known = |name: &String| reader.values.iter().any(|(known, _)| name_in_file(known) == *name);
        reader.errors = file
            .keys()
            .filter(|name| !known(name))
            .map(|name| format!("unknown setting in the configuration file: {name}"))
            .collect();
        let config = reader.config();
        if reader.errors.is_empty() { Ok(config) } else { Err(reader.errors) }
    }
}

impl Reader<'_> {
    fn config(&mut self) -> SandboxConfig {
        let enabled = self.enabled_providers();
        let (providers, worker) = self.remote_providers(&enabled);
        let callback_url = self.text("SUNABA_CALLBACK_URL");
        if callback_url
            .as_ref()
            .is_some_and(|url| !url.starts_with("http://") && !url.starts_with("https://"))
        {
            self.errors.push("SUNABA_CALLBACK_URL must start with http:// or https://".to_owned());
        }
        let isolation = self.isolation();
        let (agent, agents) = (self.text("AGENT"), self.agents());
        if let Some(agent) = &agent
            && let Err(invalid) = agents.clone().with_default(agent)
        {
            self.errors.push(format!("AGENT: {agent:?} {}", invalid.reason));
        }
        let orchestration = self.orchestration(&enabled);
        SandboxConfig { enabled, agent, agents, callback_url, isolation, orchestration, providers, worker }
    }

    fn orchestration(&mut self, enabled: &[String]) -> Orchestration {
        let (default, defaults) = (Thresholds::default(), Orchestration::default());
        let thresholds = Thresholds {
            idle_secs: self.minutes("IDLE_THRESHOLD_MINUTES", default.idle_secs),
            stuck_running_secs: self.minutes("STUCK_RUNNING_MINUTES", default.stuck_running_secs),
            stuck_starting_secs: self.minutes("STUCK_STARTING_MINUTES", default.stuck_starting_secs),
            heartbeat_timeout_secs: self.seconds("HEARTBEAT_TIMEOUT_SECONDS", default.heartbeat_timeout_secs),
            creating_secs: self.seconds("CREATING_TIMEOUT_SECONDS", default.creating_secs),
            start_secs: self.seconds("START_TIMEOUT_SECONDS", default.start_secs),
            completing_secs: self.seconds("COMPLETING_TIMEOUT_SECONDS", default.completing_secs),
        };
        let count = "a whole number from 1 to 100000";
        let mut number = |name, default| {
            self.value(name, count, |number: &u32| (1..=100_000).contains(number)).unwrap_or(default)
        };
        let limits = Limits {
            org: number("MAX_CONCURRENT_TASKS_PER_ORG", defaults.limits.org),
            project: number("MAX_CONCURRENT_TASKS_PER_PROJECT", defaults.limits.project),
        };
        let lifetime_minutes = number("SANDBOX_LIFETIME_MINUTES", defaults.lifetime_minutes);
        Orchestration {
            default_provider: enabled.first().cloned().unwrap_or_default(),
            enabled_providers: Some(enabled.iter().cloned().collect()),
            resources: vec![self.resources()],
            lifetime_minutes,
            limits,
            thresholds,
            validation_secs: self.minutes("VALIDATION_TIMEOUT_MINUTES", defaults.validation_secs),
            approval: self.approval(),
            ..defaults
        }
    }

    fn resources(&mut self) -> ResourceRequest {
        let whole = "a whole number";
        let request = ResourceRequest {
            memory_gb: self.value("SANDBOX_MEMORY_GB", whole, |_| true),
            cpu: self.value("SANDBOX_CPU", whole, |_| true),
            disk_gb: self.value("SANDBOX_DISK_GB", whole, |_| true),
            snapshot: self.text("SANDBOX_SNAPSHOT"),
            image: self.text("SANDBOX_IMAGE"),
        };
        // One at a time, because `resolve` reports only the first error.
        let single = [
            ResourceRequest { memory_gb: request.memory_gb, ..ResourceRequest::default() },
            ResourceRequest { cpu: request.cpu, ..ResourceRequest::default() },
            ResourceRequest { disk_gb: request.disk_gb, ..ResourceRequest::default() },
            ResourceRequest { snapshot: request.snapshot.clone(), ..ResourceRequest::default() },
            ResourceRequest { image: request.image.clone(), ..ResourceRequest::default() },
        ];
        for request in single {
            if let Err(invalid) = resources::resolve(&[request]) {
                self.errors.push(format!("SANDBOX_{} {}", invalid.field.to_uppercase(), invalid.reason));
            }
        }
        request
    }

    fn approval(&mut self) -> ApprovalSettings {
        let required = self.value("TICKET_HUMAN_REVIEW", "true or false", |_| true).unwrap_or(false);
        let default = ApprovalSettings::default().timeout_secs();
        let timeout = self.value("APPROVAL_TIMEOUT_SECONDS", "a whole number", |_| true).unwrap_or(default);
        ApprovalSettings::new(required, timeout).unwrap_or_else(|invalid| {
            self.errors.push(format!("APPROVAL_TIMEOUT_SECONDS {}", invalid.reason));
            ApprovalSettings::default()
        })
    }

    fn agents(&mut self) -> Agents {
        let Some(text) = self.text("SUNABA_AGENTS") else { return listed_by_default() };
        Agents::parse(&text).unwrap_or_else(|why| {
            self.errors.push(format!("SUNABA_AGENTS: {why}"));
            listed_by_default()
        })
    }

    fn isolation(&mut self) -> Setting {
        let Some(text) = self.text("SUNABA_ISOLATION") else { return Setting::Auto };
        Setting::parse(&text).unwrap_or_else(|why| {
            self.errors.push(format!("SUNABA_ISOLATION {why}"));
            Setting::Auto
        })
    }

    /// The names of the enabled providers.
    fn enabled_providers(&mut self) -> Vec<String> {
        let text = self.text("SUNABA_PROVIDER").unwrap_or_else(|| process::NAME.to_owned());
        let enabled: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        let known: Vec<&str> =
            std::iter::once(process::NAME).chain(self.kinds.iter().map(|kind| kind.name)).collect();
        for name in enabled.iter().filter(|name| !known.contains(&name.as_str())) {
            self.errors.push(format!("SUNABA_PROVIDER must be {}, not {name:?}", known.join(" or ")));
        }
        enabled
    }

    /// The remote providers that are enabled, and the worker executable for them.
    fn remote_providers(
        &mut self,
        enabled: &[String],
    ) -> (Vec<(&'static ProviderKind, providers::Values)>, Option<WorkerSource>) {
        let mut providers = Vec::new();
        let worker = self.worker_source();
        for kind in self.kinds.iter().filter(|kind| enabled.iter().any(|name| name == kind.name)) {
            let values = kind.read(|setting| self.text(setting.variable));
            if let Some(setting) = kind.missing(&values) {
                self.errors.push(format!("SUNABA_PROVIDER {} needs {}", kind.name, setting.variable));
            } else if worker.is_none() {
                let rule = "a file (`cargo xtask worker` builds one), a URL or image:<path>";
                self.errors.push(format!("The provider {} needs SUNABA_WORKER_SOURCE: {rule}", kind.name));
            } else {
                providers.push((*kind, values));
            }
        }
        if let Some(WorkerSource::File(path)) = &worker
            && !providers.is_empty()
            && !path.is_file()
        {
            self.errors.push(format!("SUNABA_WORKER_SOURCE: file not found: {}", path.display()));
        }
        (providers, worker)
    }

    fn worker_source(&self) -> Option<WorkerSource> {
        let source = self.text("SUNABA_WORKER_SOURCE")?;
        Some(match source.strip_prefix("image:") {
            Some(path) => WorkerSource::InImage(path.to_owned()),
            None if source.contains("://") => WorkerSource::Url(source),
            None => WorkerSource::File(PathBuf::from(source)),
        })
    }

    fn minutes(&mut self, name: &'static str, default_secs: i64) -> i64 {
        self.time(name, 60.0, default_secs)
    }

    fn seconds(&mut self, name: &'static str, default_secs: i64) -> i64 {
        self.time(name, 1.0, default_secs)
    }

    /// Rounded up to whole seconds.
    fn time(&mut self, name: &'static str, unit_secs: f64, default_secs: i64) -> i64 {
        let fits = |value: &f64| (1.0..=1e8).contains(&(value * unit_secs));
        #[expect(clippy::cast_possible_truncation, reason = "at most 1e8")]
        let secs = |value: f64| (value * unit_secs).ceil() as i64;
        self.value(name, "a number of at least one second", fits).map_or(default_secs, secs)
    }

    fn value<T: FromStr + Display>(
        &mut self,
        name: &'static str,
        rule: &str,
        fits: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let text = self.text(name)?;
        let value = text.parse().ok().filter(fits);
        if value.is_none() {
            self.errors.push(format!("{name} must be {rule}, not {text:?}"));
        }
        value
    }

    /// An empty value counts as unset.
    fn text(&self, name: &'static str) -> Option<String> {
        let value = self.values.iter().find(|(known, _)| *known == name).and_then(|(_, value)| *value);
        let value = value.map(str::trim).filter(|value| !value.is_empty());
        value
            .map(str::to_owned)
            .or_else(|| self.file.get(&name_in_file(name)).cloned().filter(|value| !value.is_empty()))
    }
}

/// Name of a variable in the configuration file.
fn name_in_file(variable: &str) -> String {
    variable.strip_prefix("SUNABA_").unwrap_or(variable).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use providers::PROVIDERS;

    fn file(values: &[(&str, &str)]) -> Values {
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn options_override_the_file_which_overrides_the_defaults() {
        let cases = [
            (None, &[][..], 4),
            (None, &[("sandbox_memory_gb", "6")][..], 6),
            (Some("2"), &[("sandbox_memory_gb", "6")][..], 2),
            (Some(""), &[("sandbox_memory_gb", "6")][..], 6),
        ];
        for (option, in_file, expected) in cases {
            let sandboxes =
                Sandboxes { sandbox_memory_gb: option.map(str::to_owned), ..Sandboxes::default() };
            let config = sandboxes.config(PROVIDERS, &file(in_file)).unwrap();
            let resolved = resources::resolve(&config.orchestration.resources).unwrap();
            assert_eq!(resolved.memory_gb, expected, "{option:?} over {in_file:?}");
        }
        let task = ResourceRequest { memory_gb: Some(1), ..ResourceRequest::default() };
        let config = Sandboxes::default().config(PROVIDERS, &file(&[("sandbox_memory_gb", "6")])).unwrap();
        let layers = [vec![task], config.orchestration.resources].concat();
        assert_eq!(resources::resolve(&layers).unwrap().memory_gb, 1, "a task overrides everything");
    }

    #[test]
    fn defaults_apply_without_options() {
        let (config, defaults) =
            (Sandboxes::default().config(PROVIDERS, &Values::new()).unwrap(), Orchestration::default());
        assert_eq!(config.enabled, ["process"]);
        assert_eq!(config.orchestration.thresholds, defaults.thresholds);
        assert_eq!(config.orchestration.limits, defaults.limits);
        assert_eq!(config.orchestration.validation_secs, defaults.validation_secs);
        assert!(config.providers.is_empty() && config.agent.is_none());
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let key = settings().find(|setting| setting.required).unwrap();
        let sandboxes = Sandboxes {
            provider: Some(format!("{}, cloud", PROVIDERS[0].name)),
            agent: Some("robot".into()),
            agents: Some("acp".into()),
            sandbox_memory_gb: Some("99".into()),
            sandbox_cpu: Some("many".into()),
            idle_threshold_minutes: Some("-1".into()),
            max_concurrent_tasks_per_org: Some("0".into()),
            ticket_human_review: Some("perhaps".into()),
            approval_timeout_seconds: Some("5".into()),
            callback_url: Some("plane.example".into()),
            isolation: Some("strict".into()),
            providers: ProviderOptions::of(key.variable, "a-planted-key"),
            ..Sandboxes::default()
        };
        let file = file(&[("sandbox_disk_gb", "11"), ("colour", "red")]);
        let errors = sandboxes.config(PROVIDERS, &file).unwrap_err();
        for name in [
            "SUNABA_PROVIDER",
            "AGENT: ",
            "SUNABA_AGENTS: ",
            "SANDBOX_MEMORY_GB",
            "SANDBOX_CPU",
            "SANDBOX_DISK_GB",
            "IDLE_THRESHOLD_MINUTES",
            "MAX_CONCURRENT_TASKS_PER_ORG",
            "TICKET_HUMAN_REVIEW",
            "APPROVAL_TIMEOUT_SECONDS",
            "SUNABA_CALLBACK_URL",
            "SUNABA_ISOLATION",
            "SUNABA_WORKER_SOURCE",
            "colour",
        ] {
            assert!(errors.iter().any(|error| error.contains(name)), "{name}: {errors:#?}");
        }
        assert!(!errors.concat().contains("a-planted-key"));
    }

    #[test]
    fn worker_file_is_needed_only_with_a_remote_provider() {
        let key = settings().find(|setting| setting.required).unwrap();
        let missing = Sandboxes { worker_source: Some("/no/such/worker".into()), ..Sandboxes::default() };
        assert!(missing.config(PROVIDERS, &Values::new()).is_ok());
        let remote = Sandboxes {
            provider: Some(format!("process, {}", PROVIDERS[0].name)),
            providers: ProviderOptions::of(key.variable, "a-key"),
            ..missing
        };
        let errors = remote.config(PROVIDERS, &Values::new()).unwrap_err();
        assert_eq!(errors, ["SUNABA_WORKER_SOURCE: file not found: /no/such/worker"]);
    }

    /// A key in the environment does not enable its provider, and a remote default does not leave a local one enabled.
    #[test]
    fn only_named_providers_are_enabled() {
        let key = settings().find(|setting| setting.required).unwrap();
        let enabled = |provider: Option<&str>| {
            let sandboxes = Sandboxes {
                provider: provider.map(str::to_owned),
                worker_source: Some("image:/worker".into()),
                providers: ProviderOptions::of(key.variable, "a-key"),
                ..Sandboxes::default()
            };
            let config = sandboxes.config(PROVIDERS, &Values::new()).unwrap();
            let remote: Vec<&str> = config.providers.iter().map(|(kind, _)| kind.name).collect();
            (config.has_local_sandboxes(), remote, config.orchestration.default_provider)
        };
        let remote = PROVIDERS[0].name;
        assert_eq!(enabled(None), (true, vec![], "process".to_owned()));
        assert_eq!(enabled(Some(remote)), (false, vec![remote], remote.to_owned()));
        assert_eq!(enabled(Some(&format!("{remote}, process"))), (true, vec![remote], remote.to_owned()));
    }

    #[test]
    fn fractional_times_are_rounded_up_to_seconds() {
        let idle_secs = |minutes: &str| {
            let sandboxes =
                Sandboxes { idle_threshold_minutes: Some(minutes.into()), ..Sandboxes::default() };
            sandboxes
                .config(PROVIDERS, &Values::new())
                .map(|config| config.orchestration.thresholds.idle_secs)
        };
        assert_eq!(idle_secs("0.05").unwrap(), 3);
        assert_eq!(idle_secs("10").unwrap(), 600);
        assert!(idle_secs("0").is_err() && idle_secs("NaN").is_err() && idle_secs("inf").is_err());
    }
}
