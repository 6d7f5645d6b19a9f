//! Orchestration settings: limits, thresholds, providers and resources.

use super::{Reader, Serves};
use app::orchestration::{Agents, Orchestration, settings};
use domain::feedback::MAX_FEEDBACK_ROUNDS;
use domain::idle::Thresholds;
use domain::resources::{self, ResourceRequest};
use domain::ticket::ApprovalSettings;
use edge::registry::Permission;
use providers::{PROVIDERS, Setting, WorkerSource};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::LazyLock;
use store::commit::Limits;

/// Variables of [`Permission::OrchestrationJobs`].
pub(super) const ORCHESTRATION_VARIABLES: [&str; 1 + settings::LIMITS.len()] =
    concat(["SUNABA_ORCHESTRATION_JOBS_URL"], settings::LIMITS);

/// Variables of [`Permission::Thresholds`].
pub(super) const THRESHOLD_VARIABLES: &[&str] = &settings::THRESHOLDS;

/// Variables of [`Permission::Providers`]: [`settings::SANDBOXES`], those of providers, and those that only AWS has: names of
/// secrets, a separate socket URL, and a plane name that is unique across accounts and regions.
pub(super) static PROVIDER_VARIABLES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let of_aws = ["SUNABA_PLANE", "SUNABA_WORKERS_SOCKET_URL", "SUNABA_WORKER_VARIABLES_ID"];
    of_aws.into_iter().chain(settings::SANDBOXES).chain(provider_settings().map(variable)).collect()
});

fn provider_settings() -> impl Iterator<Item = &'static Setting> {
    PROVIDERS.iter().flat_map(|kind| kind.settings)
}

/// The variable of a provider's setting. That of a secret has the secret's name.
pub(crate) fn variable(setting: &Setting) -> &'static str {
    setting.secret.map_or(setting.variable, |names| names.variable)
}

/// Concatenates two arrays; `ALL` is the sum of their lengths.
const fn concat<const OWN: usize, const SHARED: usize, const ALL: usize>(
    own: [&'static str; OWN],
    shared: [&'static str; SHARED],
) -> [&'static str; ALL] {
    assert!(OWN + SHARED == ALL);
    let mut all = [""; ALL];
    let mut index = 0;
    while index < ALL {
        all[index] = if index < OWN { own[index] } else { shared[index - OWN] };
        index += 1;
    }
    all
}

#[derive(Debug, Clone)]
pub struct ProvidersConfig {
    /// Settings of providers by variable: values, and names of secrets.
    pub settings: BTreeMap<&'static str, String>,
    pub worker: WorkerSource,
    /// Name of the secret with the environment variables of every worker: a JSON object of strings.
    pub worker_variables: Option<String>,
}

const DEFAULT_WORKER_SOURCE: &str = "image:/usr/local/bin/sunaba-worker";

/// A higher limit is probably a typo.
const MAX_CONCURRENT_TASKS: u32 = 10_000;
/// A week.
const MAX_MINUTES: i64 = 7 * 24 * 60;

impl<V: Fn(&str) -> Option<String>> Reader<V> {
    /// Reads the settings that the permissions of the function include.
    pub(super) fn orchestration(&mut self, serves: Serves, stage: &str) -> Orchestration {
        let mut settings = Orchestration { plane: stage.to_owned(), ..Orchestration::default() };
        if serves.may(Permission::OrchestrationJobs) {
            let Limits { org, project } = settings.limits;
            settings.limits = Limits {
                org: self.number("MAX_CONCURRENT_TASKS_PER_ORG", org, 1..=MAX_CONCURRENT_TASKS),
                project: self.number("MAX_CONCURRENT_TASKS_PER_PROJECT", project, 1..=MAX_CONCURRENT_TASKS),
            };
            settings.approval = self.approval(settings.approval);
            let rounds = settings.max_feedback_rounds;
            settings.max_feedback_rounds =
                self.number("MAX_FEEDBACK_ROUNDS", rounds, 0..=MAX_FEEDBACK_ROUNDS);
            settings.agents = self.agents();
            let providers = self.enabled_providers();
            settings.default_provider = providers.first().cloned().unwrap_or_default();
            settings.enabled_providers = Some(providers.into_iter().collect());
        }
        if serves.may(Permission::Thresholds) {
            settings.thresholds = self.thresholds(settings.thresholds);
            let minutes =
                self.number("VALIDATION_TIMEOUT_MINUTES", settings.validation_secs / 60, 1..=MAX_MINUTES);
            settings.validation_secs = minutes * 60;
        }
        if serves.may(Permission::Providers) {
            settings.plane = self.required("SUNABA_PLANE");
            settings.callback_url = self.address("SUNABA_CALLBACK_URL", &["http://", "https://"]);
            settings.socket_url = self.optional("SUNABA_WORKERS_SOCKET_URL");
            settings.default_agent = self.optional("AGENT").unwrap_or(settings.default_agent);
            let is_checked = serves.may(Permission::OrchestrationJobs);
            if is_checked && let Err(invalid) = settings.check_agent(&settings.default_agent) {
                self.errors.push(format!("AGENT: {:?} {}", settings.default_agent, invalid.reason));
            }
            settings.resources = vec![self.resources()];
            let lifetime =
                self.number("SANDBOX_LIFETIME_MINUTES", settings.lifetime_minutes, 1..=60 * 24 * 7);
            settings.lifetime_minutes = lifetime;
        }
        settings
    }

    /// The operator's list of agents.
    fn agents(&mut self) -> Agents {
        let Some(text) = self.optional("SUNABA_AGENTS") else { return Agents::default() };
        Agents::parse(&text).unwrap_or_else(|why| {
            self.errors.push(format!("SUNABA_AGENTS: {why}"));
            Agents::default()
        })
    }

    fn approval(&mut self, default: ApprovalSettings) -> ApprovalSettings {
        let required = match self.optional("TICKET_HUMAN_REVIEW").as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                self.errors.push(format!("TICKET_HUMAN_REVIEW: {other:?} must be true or false"));
                false
            }
        };
        let name = "APPROVAL_TIMEOUT_SECONDS";
        let timeout_secs = self.number(name, default.timeout_secs(), i64::MIN..=i64::MAX);
        ApprovalSettings::new(required, timeout_secs).unwrap_or_else(|invalid| {
            self.errors.push(format!("{name} {}", invalid.reason));
            default
        })
    }

    fn thresholds(&mut self, default: Thresholds) -> Thresholds {
        let mut secs = |name, default| self.number(name, default, 1..=MAX_MINUTES * 60);
        let heartbeat_timeout_secs = secs("HEARTBEAT_TIMEOUT_SECONDS", default.heartbeat_timeout_secs);
        let creating_secs = secs("CREATING_TIMEOUT_SECONDS", default.creating_secs);
        let start_secs = secs("START_TIMEOUT_SECONDS", default.start_secs);
        let completing_secs = secs("COMPLETING_TIMEOUT_SECONDS", default.completing_secs);
        let mut minutes = |name, default| self.number(name, default / 60, 1..=MAX_MINUTES) * 60;
        Thresholds {
            heartbeat_timeout_secs,
            creating_secs,
            start_secs,
            idle_secs: minutes("IDLE_THRESHOLD_MINUTES", default.idle_secs),
            stuck_running_secs: minutes("STUCK_RUNNING_MINUTES", default.stuck_running_secs),
            stuck_starting_secs: minutes("STUCK_STARTING_MINUTES", default.stuck_starting_secs),
            completing_secs,
        }
    }

    /// Default resources of sandboxes. Invalid values fail at start, not with the first task.
    fn resources(&mut self) -> ResourceRequest {
        let mut amount = |name: &str| {
            let text = self.optional(name)?;
            let amount =
                text.parse().map_err(|_| self.errors.push(format!("{name}: {text:?} is not a number")));
            amount.ok()
        };
        let request = ResourceRequest {
            memory_gb: amount("SANDBOX_MEMORY_GB"),
            cpu: amount("SANDBOX_CPU"),
            disk_gb: amount("SANDBOX_DISK_GB"),
            snapshot: self.optional("SANDBOX_SNAPSHOT"),
            image: self.optional("SANDBOX_IMAGE"),
        };
        if let Err(invalid) = resources::resolve(std::slice::from_ref(&request)) {
            self.errors.push(format!("SANDBOX_{} {}", invalid.field.to_uppercase(), invalid.reason));
        }
        request
    }

    /// The first one is the default.
    fn enabled_providers(&mut self) -> Vec<String> {
        let Some(text) = self.optional("SUNABA_PROVIDER") else {
            return PROVIDERS.iter().take(1).map(|kind| kind.name.to_owned()).collect();
        };
        let enabled: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        if let Some(unknown) = enabled.iter().find(|name| !PROVIDERS.iter().any(|kind| kind.name == **name)) {
            let names: Vec<&str> = PROVIDERS.iter().map(|kind| kind.name).collect();
            self.errors.push(format!("SUNABA_PROVIDER: {unknown:?} must be {}", names.join(" or ")));
        }
        enabled
    }

    pub(super) fn providers(&mut self) -> ProvidersConfig {
        let worker =
            self.optional("SUNABA_WORKER_SOURCE").unwrap_or_else(|| DEFAULT_WORKER_SOURCE.to_owned());
        let value = |setting| Some((variable(setting), self.optional(variable(setting))?));
        ProvidersConfig {
            settings: provider_settings().filter_map(value).collect(),
            worker: self.worker_source(&worker),
            worker_variables: self.optional("SUNABA_WORKER_VARIABLES_ID"),
        }
    }

    fn worker_source(&mut self, text: &str) -> WorkerSource {
        match text.strip_prefix("image:") {
            Some(path) if path.starts_with('/') => return WorkerSource::InImage(path.to_owned()),
            None if text.starts_with("https://") => {}
            _ => self.errors.push(format!(
                "SUNABA_WORKER_SOURCE: {text:?} must look like image:/usr/local/bin/sunaba-worker or https://…"
            )),
        }
        WorkerSource::Url(text.to_owned())
    }

    fn address(&mut self, name: &str, schemes: &[&str]) -> String {
        let address = self.required(name);
        if !address.is_empty() && !schemes.iter().any(|scheme| address.starts_with(scheme)) {
            self.errors.push(format!("{name}: {address:?} must start with {}", schemes.join(" or ")));
        }
        address.trim_end_matches('/').to_owned()
    }

    fn number<N: FromStr + PartialOrd + std::fmt::Display>(
        &mut self,
        name: &str,
        default: N,
        allowed: RangeInclusive<N>,
    ) -> N {
        let Some(text) = self.optional(name) else { return default };
        match text.parse() {
            Ok(number) if allowed.contains(&number) => number,
            _ => {
                let (min, max) = allowed.into_inner();
                self.errors.push(format!("{name}: {text:?} must be a number from {min} to {max}"));
                default
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{AWS, read};
    use super::*;

    const DISPATCH: [(&str, &str); 6] = [
        ("SUNABA_PLANE", "123456789012-eu-central-1-dev"),
        ("SUNABA_WORKER_KEY_ID", "w"),
        ("SUNABA_MAILBOXES_URL", "https://sqs.example/mail-"),
        ("SUNABA_DEAD_LETTERS_ARN", "arn:aws:sqs:example:1:dead-letters.fifo"),
        ("SUNABA_ORCHESTRATION_JOBS_URL", "https://sqs.example/orchestration-jobs"),
        ("SUNABA_CALLBACK_URL", "https://plane.example/"),
    ];

    fn with(more: &[(&'static str, &'static str)]) -> Result<super::super::Config, String> {
        let set: Vec<_> = AWS.iter().chain(&DISPATCH).chain(more).copied().collect();
        read("sandboxes-dispatch", &set)
    }

    /// A secret of a provider.
    fn key() -> &'static Setting {
        provider_settings().find(|setting| setting.secret.is_some()).unwrap()
    }

    #[test]
    fn defaults_equal_those_of_the_local_plane() {
        let config = with(&[("SANDBOX_CPU", ""), ("SUNABA_WORKER_VARIABLES_ID", "")]).unwrap();
        let (settings, defaults) = (&config.settings.orchestration, Orchestration::default());
        assert_eq!(settings.limits, defaults.limits);
        assert_eq!(settings.thresholds, defaults.thresholds);
        assert_eq!(settings.approval, defaults.approval);
        assert_eq!(settings.resources, [ResourceRequest::default()]);
        assert_eq!(settings.agents, defaults.agents);
        assert_eq!(settings.check_agent("acp:gemini --acp").unwrap_err().field, "agent");
        assert_eq!(settings.validation_secs, defaults.validation_secs);
        assert_eq!(settings.max_feedback_rounds, defaults.max_feedback_rounds);
        assert_eq!(settings.plane, "123456789012-eu-central-1-dev");
        assert_eq!(settings.default_provider, PROVIDERS[0].name);
        assert_eq!(settings.enabled_providers, Some([PROVIDERS[0].name.to_owned()].into()));
        assert_eq!(settings.callback_url, "https://plane.example");
        let providers = config.providers.unwrap();
        assert!(providers.settings.is_empty() && providers.worker_variables.is_none());
        assert_eq!(providers.worker, WorkerSource::InImage("/usr/local/bin/sunaba-worker".into()));
    }

    #[test]
    fn configured_values_are_used() {
        let config = with(&[
            ("MAX_CONCURRENT_TASKS_PER_ORG", "3"),
            ("TICKET_HUMAN_REVIEW", "true"),
            ("MAX_FEEDBACK_ROUNDS", "0"),
            ("APPROVAL_TIMEOUT_SECONDS", "60"),
            ("COMPLETING_TIMEOUT_SECONDS", "45"),
            ("VALIDATION_TIMEOUT_MINUTES", "7"),
            ("SANDBOX_IMAGE", "registry.example/agents:1"),
            ("IDLE_THRESHOLD_MINUTES", "20"),
            ("HEARTBEAT_TIMEOUT_SECONDS", "90"),
            ("SANDBOX_MEMORY_GB", "8"),
            ("SUNABA_WORKER_SOURCE", "https://files.example/sunaba-worker"),
            ("AGENT", "hello"),
            ("SUNABA_AGENTS", "claude, hello=scripted:hello"),
            (variable(key()), "name-of-the-secret"),
        ]);
        let config = config.unwrap();
        let settings = &config.settings.orchestration;
        assert_eq!(
            (settings.limits.org, settings.approval.required, settings.approval.timeout_secs()),
            (3, true, 60)
        );
        assert_eq!((settings.thresholds.idle_secs, settings.thresholds.heartbeat_timeout_secs), (1200, 90));
        assert_eq!((settings.thresholds.completing_secs, settings.validation_secs), (45, 420));
        assert_eq!(settings.max_feedback_rounds, 0);
        assert_eq!(settings.resources[0].image.as_deref(), Some("registry.example/agents:1"));
        assert_eq!((settings.resources[0].memory_gb, settings.default_agent.as_str()), (Some(8), "hello"));
        assert_eq!(settings.agents.definition("hello").unwrap(), "scripted:hello");
        assert!(
            settings.check_agent("scripted:hello").is_err() && settings.check_agent("openhands").is_err()
        );
        let source = WorkerSource::Url("https://files.example/sunaba-worker".into());
        let providers = config.providers.unwrap();
        assert_eq!(providers.worker, source);
        assert_eq!(providers.settings, [(variable(key()), "name-of-the-secret".to_owned())].into());
    }

    #[test]
    fn invalid_values_are_reported_by_name() {
        let invalid = [
            ("MAX_CONCURRENT_TASKS_PER_ORG", "0"),
            ("MAX_CONCURRENT_TASKS_PER_PROJECT", "many"),
            ("TICKET_HUMAN_REVIEW", "perhaps"),
            ("APPROVAL_TIMEOUT_SECONDS", "5"),
            ("IDLE_THRESHOLD_MINUTES", "-1"),
            ("SANDBOX_MEMORY_GB", "64"),
            ("SANDBOX_CPU", "two"),
            ("SUNABA_WORKER_SOURCE", "image:sunaba-worker"),
            ("SUNABA_PROVIDER", "process"),
            ("SUNABA_AGENTS", "claude,gpt"),
            ("SUNABA_CALLBACK_URL", "plane.example"),
            ("SUNABA_PLANE", ""),
        ];
        let error = with(&invalid).unwrap_err();
        for (name, _) in invalid {
            assert!(error.contains(name), "{name} is missing in: {error}");
        }
    }

    #[test]
    fn default_agent_must_be_listed() {
        for (agents, agent) in [
            ("", "gpt"),
            ("", "acp"),
            ("", "scripted:hello"),
            ("claude", "openhands"),
            // Without `AGENT`, it is `claude`.
            ("openhands", ""),
        ] {
            let error = with(&[("SUNABA_AGENTS", agents), ("AGENT", agent)]).unwrap_err();
            assert!(error.starts_with("AGENT: "), "{agents:?} {agent:?}: {error}");
        }
        assert!(with(&[("SUNABA_AGENTS", "openhands"), ("AGENT", "openhands")]).is_ok());
    }
}
