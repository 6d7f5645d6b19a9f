//! Reads the configuration of tasks and sandboxes from options and the file.

use super::SandboxConfig;
use crate::agents::listed_by_default;
use crate::config::file::Values;
use app::orchestration::{Agents, Orchestration};
use confine::Setting;
use domain::feedback::MAX_FEEDBACK_ROUNDS;
use domain::idle::Thresholds;
use domain::resources::{self, ResourceRequest};
use domain::ticket::ApprovalSettings;
use providers::process;
use providers::{ProviderKind, WorkerSource};
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use store::commit::Limits;

/// Reads values by the names of their variables and collects errors.
pub(super) struct Reader<'a> {
    /// The remote providers that can be set up.
    kinds: &'a [&'static ProviderKind],
    values: Vec<(&'static str, Option<&'a str>)>,
    file: &'a Values,
    errors: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        kinds: &'a [&'static ProviderKind],
        values: Vec<(&'static str, Option<&'a str>)>,
        file: &'a Values,
    ) -> Self {
        let known = |name: &String| values.iter().any(|(known, _)| name_in_file(known) == *name);
        let unknown = file.keys().filter(|name| !known(name));
        let errors =
            unknown.map(|name| format!("unknown setting in the configuration file: {name}")).collect();
        Self { kinds, values, file, errors }
    }

    /// The configuration, or all errors.
    pub(super) fn read(mut self) -> Result<SandboxConfig, Vec<String>> {
        let config = self.config();
        if self.errors.is_empty() { Ok(config) } else { Err(self.errors) }
    }

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
        let rounds = "a whole number from 0 to 100";
        let max_feedback_rounds =
            self.value("MAX_FEEDBACK_ROUNDS", rounds, |rounds: &u32| *rounds <= MAX_FEEDBACK_ROUNDS);
        Orchestration {
            max_feedback_rounds: max_feedback_rounds.unwrap_or(defaults.max_feedback_rounds),
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
