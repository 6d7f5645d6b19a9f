//! How tasks become sandboxes: limits, thresholds, and who makes sandboxes of what.

use super::{Reader, Serves};
use app::orchestration::{Orchestration, settings};
use domain::idle::Thresholds;
use domain::resources::{self, Wanted};
use domain::ticket::ApprovalSettings;
use edge::registry::Permission;
use providers::daytona::WorkerSource;
use std::ops::RangeInclusive;
use std::str::FromStr;
use store::commit::Limits;

/// With [`Permission::Work`]: where to ask for it, and [`settings::LIMITS`].
pub(super) const OF_WORK: [&str; 1 + settings::LIMITS.len()] = of_both(["SUNABA_WORK_URL"], settings::LIMITS);

/// With [`Permission::Thresholds`].
pub(super) const OF_THRESHOLDS: &[&str] = &settings::THRESHOLDS;

/// With [`Permission::Providers`]: [`settings::SANDBOXES`], and what only AWS has: names of secrets, an address of sockets beside
/// the plane's own, and a name that tells this plane from those of other accounts and regions.
pub(super) const OF_PROVIDERS: [&str; 4 + settings::SANDBOXES.len()] = of_both(
    ["SUNABA_PLANE", "SUNABA_WORKERS_SOCKET_URL", "SUNABA_DAYTONA_KEY_ID", "SUNABA_WORKER_VARIABLES_ID"],
    settings::SANDBOXES,
);

/// One list after the other; `ALL` is how long they are together.
const fn of_both<const OWN: usize, const SHARED: usize, const ALL: usize>(
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

/// How Daytona is reached, and what is put into its sandboxes.
#[derive(Debug, Clone)]
pub struct DaytonaPlaces {
    /// Where its API is.
    pub url: String,
    /// Of the secret that is its key. Without one there is no provider, and tasks fail with that reason.
    pub key: Option<String>,
    /// The region in which sandboxes run, if not the organisation's own.
    pub target: Option<String>,
    /// Where the worker's program comes from.
    pub worker: WorkerSource,
    /// Of the secret that holds what every worker is given: a JSON object of texts.
    pub worker_variables: Option<String>,
}

const DAYTONA: &str = "https://app.daytona.io/api";
const WORKER: &str = "image:/usr/local/bin/sunaba-worker";

/// More at a time than this is a slip of the finger.
const MOST: u32 = 10_000;
/// A week.
const MOST_MINUTES: i64 = 7 * 24 * 60;

impl<V: Fn(&str) -> Option<String>> Reader<V> {
    /// What can be set, as far as this function asks for it.
    pub(super) fn orchestration(&mut self, serves: Serves, stage: &str) -> Orchestration {
        let mut set = Orchestration {
            plane: stage.to_owned(),
            default_provider: "daytona".to_owned(),
            known_providers: Some(["daytona".to_owned()].into()),
            ..Orchestration::default()
        };
        if serves.may(Permission::Work) {
            let Limits { org, project } = set.limits;
            set.limits = Limits {
                org: self.number("MAX_CONCURRENT_TASKS_PER_ORG", org, 1..=MOST),
                project: self.number("MAX_CONCURRENT_TASKS_PER_PROJECT", project, 1..=MOST),
            };
            set.approval = self.approval(set.approval);
        }
        if serves.may(Permission::Thresholds) {
            set.thresholds = self.thresholds(set.thresholds);
            let minutes =
                self.number("VALIDATION_TIMEOUT_MINUTES", set.validation_secs / 60, 1..=MOST_MINUTES);
            set.validation_secs = minutes * 60;
        }
        if serves.may(Permission::Providers) {
            set.plane = self.required("SUNABA_PLANE");
            set.callback_url = self.address("SUNABA_CALLBACK_URL", &["http://", "https://"]);
            set.socket_url = self.optional("SUNABA_WORKERS_SOCKET_URL");
            set.default_agent = self.optional("AGENT").unwrap_or(set.default_agent);
            set.resources = vec![self.resources()];
            let lifetime = self.number("SANDBOX_LIFETIME_MINUTES", set.lifetime_minutes, 1..=60 * 24 * 7);
            set.lifetime_minutes = lifetime;
        }
        set
    }

    fn approval(&mut self, default: ApprovalSettings) -> ApprovalSettings {
        let required = match self.optional("TICKET_HUMAN_REVIEW").as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                self.wrong.push(format!("TICKET_HUMAN_REVIEW: {other:?} must be true or false"));
                false
            }
        };
        let name = "APPROVAL_TIMEOUT_SECONDS";
        let timeout_secs = self.number(name, default.timeout_secs(), i64::MIN..=i64::MAX);
        ApprovalSettings::new(required, timeout_secs).unwrap_or_else(|invalid| {
            self.wrong.push(format!("{name} {}", invalid.reason));
            default
        })
    }

    fn thresholds(&mut self, default: Thresholds) -> Thresholds {
        let mut secs = |name, default| self.number(name, default, 1..=MOST_MINUTES * 60);
        let heartbeat_timeout_secs = secs("HEARTBEAT_TIMEOUT_SECONDS", default.heartbeat_timeout_secs);
        let creating_secs = secs("CREATING_TIMEOUT_SECONDS", default.creating_secs);
        let start_secs = secs("START_TIMEOUT_SECONDS", default.start_secs);
        let completing_secs = secs("COMPLETING_TIMEOUT_SECONDS", default.completing_secs);
        let mut minutes = |name, default| self.number(name, default / 60, 1..=MOST_MINUTES) * 60;
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

    /// The environment's say in what sandboxes are made of. What is too much is found out now and not with the first task.
    fn resources(&mut self) -> Wanted {
        let mut amount = |name: &str| {
            let text = self.optional(name)?;
            let amount = text.parse().map_err(|_| self.wrong.push(format!("{name}: {text:?} is no number")));
            amount.ok()
        };
        let wanted = Wanted {
            memory_gb: amount("SANDBOX_MEMORY_GB"),
            cpu: amount("SANDBOX_CPU"),
            disk_gb: amount("SANDBOX_DISK_GB"),
            snapshot: self.optional("SANDBOX_SNAPSHOT"),
            image: self.optional("SANDBOX_IMAGE"),
        };
        if let Err(invalid) = resources::resolve(std::slice::from_ref(&wanted)) {
            self.wrong.push(format!("SANDBOX_{} {}", invalid.field.to_uppercase(), invalid.reason));
        }
        wanted
    }

    pub(super) fn daytona(&mut self) -> DaytonaPlaces {
        let worker = self.optional("SUNABA_WORKER_SOURCE").unwrap_or_else(|| WORKER.to_owned());
        DaytonaPlaces {
            url: self.optional("DAYTONA_API_URL").unwrap_or_else(|| DAYTONA.to_owned()),
            key: self.optional("SUNABA_DAYTONA_KEY_ID"),
            target: self.optional("DAYTONA_TARGET"),
            worker: self.worker_source(&worker),
            worker_variables: self.optional("SUNABA_WORKER_VARIABLES_ID"),
        }
    }

    fn worker_source(&mut self, text: &str) -> WorkerSource {
        match text.strip_prefix("image:") {
            Some(path) if path.starts_with('/') => return WorkerSource::InImage(path.to_owned()),
            None if text.starts_with("https://") => {}
            _ => self.wrong.push(format!(
                "SUNABA_WORKER_SOURCE: {text:?} must look like image:/usr/local/bin/sunaba-worker or https://…"
            )),
        }
        WorkerSource::Url(text.to_owned())
    }

    fn address(&mut self, name: &str, schemes: &[&str]) -> String {
        let address = self.required(name);
        if !address.is_empty() && !schemes.iter().any(|scheme| address.starts_with(scheme)) {
            self.wrong.push(format!("{name}: {address:?} must start with {}", schemes.join(" or ")));
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
                let (least, most) = allowed.into_inner();
                self.wrong.push(format!("{name}: {text:?} must be a number from {least} to {most}"));
                default
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{AWS, read};
    use super::*;

    const DISPATCH: [(&str, &str); 5] = [
        ("SUNABA_PLANE", "123456789012-eu-central-1-dev"),
        ("SUNABA_WORKER_SECRET_ID", "w"),
        ("SUNABA_MAILBOXES_URL", "https://sqs.example/mail-"),
        ("SUNABA_WORK_URL", "https://sqs.example/work"),
        ("SUNABA_CALLBACK_URL", "https://plane.example/"),
    ];

    fn with(more: &[(&'static str, &'static str)]) -> Result<super::super::Config, String> {
        let set: Vec<_> = AWS.iter().chain(&DISPATCH).chain(more).copied().collect();
        read("sandboxes-dispatch", &set)
    }

    #[test]
    fn what_nobody_sets_is_as_in_the_local_plane() {
        let config = with(&[("SANDBOX_CPU", ""), ("SUNABA_DAYTONA_KEY_ID", "")]).unwrap();
        let (set, usual) = (&config.settings.orchestration, Orchestration::default());
        assert_eq!(set.limits, usual.limits);
        assert_eq!(set.thresholds, usual.thresholds);
        assert_eq!(set.approval, usual.approval);
        assert_eq!(set.resources, [Wanted::default()]);
        assert_eq!(set.validation_secs, usual.validation_secs);
        assert_eq!(set.plane, "123456789012-eu-central-1-dev");
        assert_eq!(set.default_provider, "daytona");
        assert_eq!(set.callback_url, "https://plane.example");
        let daytona = config.daytona.unwrap();
        assert_eq!((daytona.url.as_str(), daytona.key), (DAYTONA, None));
        assert_eq!(daytona.worker, WorkerSource::InImage("/usr/local/bin/sunaba-worker".into()));
    }

    #[test]
    fn what_is_set_is_used() {
        let config = with(&[
            ("MAX_CONCURRENT_TASKS_PER_ORG", "3"),
            ("TICKET_HUMAN_REVIEW", "true"),
            ("APPROVAL_TIMEOUT_SECONDS", "60"),
            ("COMPLETING_TIMEOUT_SECONDS", "45"),
            ("VALIDATION_TIMEOUT_MINUTES", "7"),
            ("SANDBOX_IMAGE", "registry.example/agents:1"),
            ("IDLE_THRESHOLD_MINUTES", "20"),
            ("HEARTBEAT_TIMEOUT_SECONDS", "90"),
            ("SANDBOX_MEMORY_GB", "8"),
            ("SUNABA_WORKER_SOURCE", "https://files.example/sunaba-worker"),
            ("AGENT", "scripted"),
        ]);
        let config = config.unwrap();
        let set = &config.settings.orchestration;
        assert_eq!((set.limits.org, set.approval.required, set.approval.timeout_secs()), (3, true, 60));
        assert_eq!((set.thresholds.idle_secs, set.thresholds.heartbeat_timeout_secs), (1200, 90));
        assert_eq!((set.thresholds.completing_secs, set.validation_secs), (45, 420));
        assert_eq!(set.resources[0].image.as_deref(), Some("registry.example/agents:1"));
        assert_eq!((set.resources[0].memory_gb, set.default_agent.as_str()), (Some(8), "scripted"));
        let source = WorkerSource::Url("https://files.example/sunaba-worker".into());
        assert_eq!(config.daytona.unwrap().worker, source);
    }

    #[test]
    fn what_makes_no_sense_is_said_by_name() {
        let odd = [
            ("MAX_CONCURRENT_TASKS_PER_ORG", "0"),
            ("MAX_CONCURRENT_TASKS_PER_PROJECT", "many"),
            ("TICKET_HUMAN_REVIEW", "perhaps"),
            ("APPROVAL_TIMEOUT_SECONDS", "5"),
            ("IDLE_THRESHOLD_MINUTES", "-1"),
            ("SANDBOX_MEMORY_GB", "64"),
            ("SANDBOX_CPU", "two"),
            ("SUNABA_WORKER_SOURCE", "image:sunaba-worker"),
            ("SUNABA_CALLBACK_URL", "plane.example"),
            ("SUNABA_PLANE", ""),
        ];
        let wrong = with(&odd).unwrap_err();
        for (name, _) in odd {
            assert!(wrong.contains(name), "{name} is missing in: {wrong}");
        }
    }
}
