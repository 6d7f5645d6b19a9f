//! What can be set about tasks and their sandboxes: flags over environment over the file of settings over defaults.
//!
//! Every value is taken as text here, so that all that are bad are named at once, whichever way they came.

use super::file::Values;
use app::orchestration::Orchestration;
use clap::Args;
use domain::idle::Thresholds;
use domain::resources::{self, Wanted};
use domain::ticket::ApprovalSettings;
use providers::daytona::WorkerSource;
use providers::process::Isolation;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use store::commit::Limits;

macro_rules! settings {
    ($($(#[$attribute:meta])* $name:ident, $variable:literal;)*) => {
        /// What somebody wants of tasks and their sandboxes.
        #[derive(Debug, Clone, Default, Args)]
        pub struct Sandboxes {
            $(
                $(#[$attribute])*
                #[arg(long, env = $variable, hide_env_values = true)]
                pub $name: Option<String>,
            )*
        }

        impl Sandboxes {
            /// The names of all variables.
            pub const NAMES: &[&str] = &[$($variable),*];

            /// What was given, by the name of the variable.
            fn given(&self) -> Vec<(&'static str, Option<&str>)> {
                vec![$(($variable, self.$name.as_deref())),*]
            }
        }
    };
}

settings! {
    /// Who makes sandboxes: process (on this machine) or daytona [default: process]
    #[arg(help_heading = SANDBOXES, value_name = "NAME")]
    provider, "SUNABA_PROVIDER";
    /// The agent of tasks that name none [default: claude if there is one, else scripted:hello]
    #[arg(help_heading = SANDBOXES)]
    agent, "AGENT";
    /// Where workers find this plane [default: where it listens]
    #[arg(help_heading = SANDBOXES, value_name = "URL")]
    callback_url, "SUNABA_CALLBACK_URL";
    /// What sandboxes on this machine are kept inside of: none, files, or files,network [default: none]
    #[arg(help_heading = SANDBOXES, value_name = "WHAT")]
    isolation, "SUNABA_ISOLATION";
    /// Memory of a sandbox, at most 8 [default: 4]
    #[arg(help_heading = SANDBOXES, value_name = "GB")]
    sandbox_memory_gb, "SANDBOX_MEMORY_GB";
    /// Processors of a sandbox, at most 4 [default: 2]
    #[arg(help_heading = SANDBOXES, value_name = "COUNT")]
    sandbox_cpu, "SANDBOX_CPU";
    /// Disk of a sandbox, at most 10 [default: 8]
    #[arg(help_heading = SANDBOXES, value_name = "GB")]
    sandbox_disk_gb, "SANDBOX_DISK_GB";
    /// What a sandbox at a provider is made of [default: ai-agent-dev-light]
    #[arg(help_heading = SANDBOXES, value_name = "NAME")]
    sandbox_snapshot, "SANDBOX_SNAPSHOT";
    /// What it is made of where there is no such snapshot [default: debian:trixie-slim]
    #[arg(help_heading = SANDBOXES, value_name = "NAME")]
    sandbox_image, "SANDBOX_IMAGE";
    /// How long a provider lets a sandbox live, whatever happens to this plane [default: 480]
    #[arg(help_heading = SANDBOXES, value_name = "MINUTES")]
    sandbox_lifetime_minutes, "SANDBOX_LIFETIME_MINUTES";
    /// How many tasks of an organisation are worked on at a time [default: 10]
    #[arg(help_heading = LIMITS, value_name = "COUNT")]
    max_concurrent_tasks_per_org, "MAX_CONCURRENT_TASKS_PER_ORG";
    /// How many tasks of a project are worked on at a time [default: 5]
    #[arg(help_heading = LIMITS, value_name = "COUNT")]
    max_concurrent_tasks_per_project, "MAX_CONCURRENT_TASKS_PER_PROJECT";
    /// After how long without work a sandbox whose agent is not busy ends [default: 10]
    #[arg(help_heading = LIMITS, value_name = "MINUTES")]
    idle_threshold_minutes, "IDLE_THRESHOLD_MINUTES";
    /// After how long without work a sandbox whose agent says that it is busy ends [default: 15]
    #[arg(help_heading = LIMITS, value_name = "MINUTES")]
    stuck_running_minutes, "STUCK_RUNNING_MINUTES";
    /// After how long without work a sandbox whose agent is said to come up ends; a clone may take 30 [default: 35]
    #[arg(help_heading = LIMITS, value_name = "MINUTES")]
    stuck_starting_minutes, "STUCK_STARTING_MINUTES";
    /// After how long without a sign of life a sandbox is dead [default: 120]
    #[arg(help_heading = LIMITS, value_name = "SECONDS")]
    heartbeat_timeout_seconds, "HEARTBEAT_TIMEOUT_SECONDS";
    /// How long it may take to make a sandbox [default: 300]
    #[arg(help_heading = LIMITS, value_name = "SECONDS")]
    creating_timeout_seconds, "CREATING_TIMEOUT_SECONDS";
    /// How long a worker may take from its start to its first sign of life [default: 180]
    #[arg(help_heading = LIMITS, value_name = "SECONDS")]
    start_timeout_seconds, "START_TIMEOUT_SECONDS";
    /// How long a worker may take to leave when its agent is done [default: 30]
    #[arg(help_heading = LIMITS, value_name = "SECONDS")]
    completing_timeout_seconds, "COMPLETING_TIMEOUT_SECONDS";
    /// How long somebody may take to judge a result that has to be judged [default: 1440]
    #[arg(help_heading = LIMITS, value_name = "MINUTES")]
    validation_timeout_minutes, "VALIDATION_TIMEOUT_MINUTES";
    /// Whether a person has to approve of each ticket: true or false [default: false]
    #[arg(help_heading = LIMITS, value_name = "BOOLEAN")]
    ticket_human_review, "TICKET_HUMAN_REVIEW";
    /// How long they may take, from a minute to a day [default: 1800]
    #[arg(help_heading = LIMITS, value_name = "SECONDS")]
    approval_timeout_seconds, "APPROVAL_TIMEOUT_SECONDS";
    /// The key of a Daytona account; with it there is a provider called daytona
    #[arg(help_heading = DAYTONA, value_name = "KEY")]
    daytona_api_key, "DAYTONA_API_KEY";
    /// Where Daytona's API is [default: Daytona's own]
    #[arg(help_heading = DAYTONA, value_name = "URL")]
    daytona_api_url, "DAYTONA_API_URL";
    /// In which of Daytona's regions [default: the account's own]
    #[arg(help_heading = DAYTONA, value_name = "REGION")]
    daytona_target, "DAYTONA_TARGET";
    /// The worker's program for other machines: a file, a URL, or image:PATH if it is in the image
    #[arg(help_heading = DAYTONA, value_name = "WHERE")]
    worker_source, "SUNABA_WORKER_SOURCE";
}

const SANDBOXES: &str = "Sandboxes";
const LIMITS: &str = "Limits";
const DAYTONA: &str = "Daytona";

/// What comes of it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which provider makes the sandboxes of tasks that name none.
    pub provider: String,
    /// The agent of tasks that name none, if somebody said so.
    pub agent: Option<String>,
    /// Where workers find the plane, if somebody said so.
    pub callback_url: Option<String>,
    /// What sandboxes on this machine are kept inside of.
    pub isolation: Isolation,
    /// Everything that does not depend on where the plane listens.
    pub orchestration: Orchestration,
    /// A Daytona account, if there is one.
    pub daytona: Option<Account>,
}

/// An account at Daytona.
#[derive(Clone)]
pub struct Account {
    /// Where the API is.
    pub api_url: String,
    /// What proves that we may.
    pub api_key: String,
    /// In which region.
    pub target: Option<String>,
    /// Where the worker's program comes from.
    pub worker: WorkerSource,
}

impl std::fmt::Debug for Account {
    /// Without the key: what is shown ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("api_url", &self.api_url).finish_non_exhaustive()
    }
}

/// Reads settings by the names of their variables, and collects what is wrong with them.
struct Reader<'a> {
    given: Vec<(&'static str, Option<&'a str>)>,
    file: &'a Values,
    wrong: Vec<String>,
}

impl Sandboxes {
    /// What comes of this and the file, or everything that is wrong with it.
    pub fn plan(&self, file: &Values) -> Result<Plan, Vec<String>> {
        let mut reader = Reader { given: self.given(), file, wrong: Vec::new() };
        let known = |name: &String| reader.given.iter().any(|(known, _)| in_file(known) == *name);
        reader.wrong = file
            .keys()
            .filter(|name| !known(name))
            .map(|name| format!("the file of settings names {name}, which nobody knows"))
            .collect();
        let plan = reader.plan();
        if reader.wrong.is_empty() { Ok(plan) } else { Err(reader.wrong) }
    }
}

impl Reader<'_> {
    fn plan(&mut self) -> Plan {
        let provider = self.text("SUNABA_PROVIDER").unwrap_or_else(|| "process".to_owned());
        let daytona = self.account();
        match provider.as_str() {
            "process" => {}
            "daytona" if daytona.is_some() => {}
            "daytona" => self.wrong.push("SUNABA_PROVIDER daytona needs DAYTONA_API_KEY".to_owned()),
            other => self.wrong.push(format!("SUNABA_PROVIDER must be process or daytona, not {other:?}")),
        }
        let callback_url = self.text("SUNABA_CALLBACK_URL");
        if callback_url
            .as_ref()
            .is_some_and(|url| !url.starts_with("http://") && !url.starts_with("https://"))
        {
            self.wrong.push("SUNABA_CALLBACK_URL must begin with http:// or https://".to_owned());
        }
        let isolation = self.isolation();
        let orchestration = self.orchestration(&provider);
        Plan { provider, agent: self.text("AGENT"), callback_url, isolation, orchestration, daytona }
    }

    fn orchestration(&mut self, provider: &str) -> Orchestration {
        let (usual, defaults) = (Thresholds::default(), Orchestration::default());
        let thresholds = Thresholds {
            idle_secs: self.minutes("IDLE_THRESHOLD_MINUTES", usual.idle_secs),
            stuck_running_secs: self.minutes("STUCK_RUNNING_MINUTES", usual.stuck_running_secs),
            stuck_starting_secs: self.minutes("STUCK_STARTING_MINUTES", usual.stuck_starting_secs),
            heartbeat_timeout_secs: self.seconds("HEARTBEAT_TIMEOUT_SECONDS", usual.heartbeat_timeout_secs),
            creating_secs: self.seconds("CREATING_TIMEOUT_SECONDS", usual.creating_secs),
            start_secs: self.seconds("START_TIMEOUT_SECONDS", usual.start_secs),
            completing_secs: self.seconds("COMPLETING_TIMEOUT_SECONDS", usual.completing_secs),
        };
        let count = "a whole number from 1 to 100000";
        let mut most =
            |name, usual| self.value(name, count, |most: &u32| (1..=100_000).contains(most)).unwrap_or(usual);
        let limits = Limits {
            org: most("MAX_CONCURRENT_TASKS_PER_ORG", defaults.limits.org),
            project: most("MAX_CONCURRENT_TASKS_PER_PROJECT", defaults.limits.project),
        };
        let lifetime_minutes = most("SANDBOX_LIFETIME_MINUTES", defaults.lifetime_minutes);
        Orchestration {
            default_provider: provider.to_owned(),
            resources: vec![self.resources()],
            lifetime_minutes,
            limits,
            thresholds,
            validation_secs: self.minutes("VALIDATION_TIMEOUT_MINUTES", defaults.validation_secs),
            approval: self.approval(),
            ..defaults
        }
    }

    fn resources(&mut self) -> Wanted {
        let whole = "a whole number";
        let wanted = Wanted {
            memory_gb: self.value("SANDBOX_MEMORY_GB", whole, |_| true),
            cpu: self.value("SANDBOX_CPU", whole, |_| true),
            disk_gb: self.value("SANDBOX_DISK_GB", whole, |_| true),
            snapshot: self.text("SANDBOX_SNAPSHOT"),
            image: self.text("SANDBOX_IMAGE"),
        };
        // One at a time: the rule names the first that is too much, and all are to be named.
        let alone = [
            Wanted { memory_gb: wanted.memory_gb, ..Wanted::default() },
            Wanted { cpu: wanted.cpu, ..Wanted::default() },
            Wanted { disk_gb: wanted.disk_gb, ..Wanted::default() },
            Wanted { snapshot: wanted.snapshot.clone(), ..Wanted::default() },
            Wanted { image: wanted.image.clone(), ..Wanted::default() },
        ];
        for one in alone {
            if let Err(invalid) = resources::resolve(&[one]) {
                self.wrong.push(format!("SANDBOX_{} {}", invalid.field.to_uppercase(), invalid.reason));
            }
        }
        wanted
    }

    fn approval(&mut self) -> ApprovalSettings {
        let required = self.value("TICKET_HUMAN_REVIEW", "true or false", |_| true).unwrap_or(false);
        let usual = ApprovalSettings::default().timeout_secs();
        let timeout = self.value("APPROVAL_TIMEOUT_SECONDS", "a whole number", |_| true).unwrap_or(usual);
        ApprovalSettings::new(required, timeout).unwrap_or_else(|invalid| {
            self.wrong.push(format!("APPROVAL_TIMEOUT_SECONDS {}", invalid.reason));
            ApprovalSettings::default()
        })
    }

    fn isolation(&mut self) -> Isolation {
        let Some(text) = self.text("SUNABA_ISOLATION") else { return Isolation::None };
        let all = [Isolation::None, Isolation::Files, Isolation::FilesAndNetwork];
        let found = all.into_iter().find(|isolation| isolation.as_str() == text.replace(' ', ""));
        found.unwrap_or_else(|| {
            self.wrong.push(format!("SUNABA_ISOLATION must be none, files or files,network, not {text:?}"));
            Isolation::None
        })
    }

    fn account(&mut self) -> Option<Account> {
        let api_key = self.text("DAYTONA_API_KEY")?;
        let api_url = self.text("DAYTONA_API_URL").unwrap_or_else(|| "https://app.daytona.io/api".to_owned());
        let Some(source) = self.text("SUNABA_WORKER_SOURCE") else {
            let how = "a file (`cargo xtask worker` makes one), a URL or image:<path>";
            self.wrong.push(format!("DAYTONA_API_KEY needs SUNABA_WORKER_SOURCE: {how}"));
            return None;
        };
        let worker = match source.strip_prefix("image:") {
            Some(path) => WorkerSource::InImage(path.to_owned()),
            None if source.contains("://") => WorkerSource::Url(source),
            None => WorkerSource::File(PathBuf::from(source)),
        };
        if let WorkerSource::File(path) = &worker
            && !path.is_file()
        {
            self.wrong.push(format!("SUNABA_WORKER_SOURCE: there is no file {}", path.display()));
        }
        Some(Account { api_url, api_key, target: self.text("DAYTONA_TARGET"), worker })
    }

    fn minutes(&mut self, name: &'static str, usual_secs: i64) -> i64 {
        self.time(name, 60.0, usual_secs)
    }

    fn seconds(&mut self, name: &'static str, usual_secs: i64) -> i64 {
        self.time(name, 1.0, usual_secs)
    }

    /// In whole seconds; at least one.
    fn time(&mut self, name: &'static str, unit_secs: f64, usual_secs: i64) -> i64 {
        let fits = |value: &f64| (1.0..=1e8).contains(&(value * unit_secs));
        #[expect(clippy::cast_possible_truncation, reason = "at most 1e8")]
        let secs = |value: f64| (value * unit_secs).ceil() as i64;
        self.value(name, "a number, and at least a second", fits).map_or(usual_secs, secs)
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
            self.wrong.push(format!("{name} must be {rule}, not {text:?}"));
        }
        value
    }

    /// An empty one counts as not set.
    fn text(&self, name: &'static str) -> Option<String> {
        let given = self.given.iter().find(|(known, _)| *known == name).and_then(|(_, value)| *value);
        let given = given.map(str::trim).filter(|value| !value.is_empty());
        given
            .map(str::to_owned)
            .or_else(|| self.file.get(&in_file(name)).cloned().filter(|value| !value.is_empty()))
    }
}

/// A variable's name in the file of settings.
fn in_file(variable: &str) -> String {
    variable.strip_prefix("SUNABA_").unwrap_or(variable).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(values: &[(&str, &str)]) -> Values {
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_given_goes_before_the_file_and_the_file_before_the_defaults() {
        let cases = [
            (None, &[][..], 4),
            (None, &[("sandbox_memory_gb", "6")][..], 6),
            (Some("2"), &[("sandbox_memory_gb", "6")][..], 2),
            (Some(""), &[("sandbox_memory_gb", "6")][..], 6),
        ];
        for (given, in_file, expected) in cases {
            let sandboxes = Sandboxes { sandbox_memory_gb: given.map(str::to_owned), ..Sandboxes::default() };
            let plan = sandboxes.plan(&file(in_file)).unwrap();
            let resolved = resources::resolve(&plan.orchestration.resources).unwrap();
            assert_eq!(resolved.memory_gb, expected, "{given:?} over {in_file:?}");
        }
        let task = Wanted { memory_gb: Some(1), ..Wanted::default() };
        let plan = Sandboxes::default().plan(&file(&[("sandbox_memory_gb", "6")])).unwrap();
        let layers = [vec![task], plan.orchestration.resources].concat();
        assert_eq!(resources::resolve(&layers).unwrap().memory_gb, 1, "what a task says goes before all");
    }

    #[test]
    fn nothing_given_is_as_usual() {
        let (plan, usual) = (Sandboxes::default().plan(&Values::new()).unwrap(), Orchestration::default());
        assert_eq!(plan.provider, "process");
        assert_eq!(plan.orchestration.thresholds, usual.thresholds);
        assert_eq!(plan.orchestration.limits, usual.limits);
        assert_eq!(plan.orchestration.validation_secs, usual.validation_secs);
        assert!(plan.daytona.is_none() && plan.agent.is_none());
    }

    #[test]
    fn everything_that_is_wrong_is_named_at_once() {
        let sandboxes = Sandboxes {
            provider: Some("cloud".into()),
            sandbox_memory_gb: Some("99".into()),
            sandbox_cpu: Some("many".into()),
            idle_threshold_minutes: Some("-1".into()),
            max_concurrent_tasks_per_org: Some("0".into()),
            ticket_human_review: Some("perhaps".into()),
            approval_timeout_seconds: Some("5".into()),
            callback_url: Some("plane.example".into()),
            isolation: Some("walls".into()),
            daytona_api_key: Some("a-planted-key".into()),
            ..Sandboxes::default()
        };
        let wrong = sandboxes.plan(&file(&[("sandbox_disk_gb", "11"), ("colour", "red")])).unwrap_err();
        for name in [
            "SUNABA_PROVIDER",
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
            assert!(wrong.iter().any(|sentence| sentence.contains(name)), "{name}: {wrong:#?}");
        }
        assert!(!wrong.concat().contains("a-planted-key"));
    }

    #[test]
    fn times_may_be_fractions_and_are_whole_seconds() {
        let plan = |minutes: &str| {
            let sandboxes =
                Sandboxes { idle_threshold_minutes: Some(minutes.into()), ..Sandboxes::default() };
            sandboxes.plan(&Values::new()).map(|plan| plan.orchestration.thresholds.idle_secs)
        };
        assert_eq!(plan("0.05").unwrap(), 3);
        assert_eq!(plan("10").unwrap(), 600);
        assert!(plan("0").is_err() && plan("NaN").is_err() && plan("inf").is_err());
    }
}
