//! What a function is told by its environment. The only file here that reads it.

mod orchestration;

pub use orchestration::DaytonaPlaces;

use edge::Settings;
use edge::guard::Guard;
use edge::logging::{self, Format};
use edge::metrics;
use edge::registry::{self, FUNCTIONS, Function, Permission, Trigger};
use lambda_runtime::Error;

/// What a function is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// What this process serves.
    pub serves: Serves,
    /// Which of the account's planes this is.
    pub stage: String,
    /// The table's name.
    pub table: String,
    /// Where the management API of the sockets is, for those that tell them something.
    pub sockets_url: Option<String>,
    /// How the addresses of mailboxes start, for those that reach any.
    pub mailboxes_url: Option<String>,
    /// Where the queue of jobs is, for those that send any.
    pub jobs_url: Option<String>,
    /// Where the queue of work is, for those that ask for any.
    pub work_url: Option<String>,
    /// The event bus, for those that publish to it.
    pub bus: Option<String>,
    /// Where the keys of tokens are, for those that ask who is asking.
    pub keys: Option<KeyPlaces>,
    /// How Daytona is reached, for those that have sandboxes made.
    pub daytona: Option<DaytonaPlaces>,
    /// What can be set.
    pub settings: Settings,
    /// How AWS is reached.
    pub aws: AwsConfig,
}

/// What a process serves. All functions are the same program; the environment says which one this is.
#[derive(Debug, Clone, Copy)]
pub enum Serves {
    /// One function, as on Lambda.
    Function(&'static Function),
    /// Every HTTP route, as under `cargo lambda watch`, which starts one process for a program.
    EveryRoute,
}

/// In place of a function's name in `SUNABA_FUNCTION`.
const EVERY_ROUTE: &str = "every-route";

impl Serves {
    fn parse(text: &str) -> Result<Self, String> {
        match registry::find(text) {
            Some(function) => Ok(Self::Function(function)),
            None if text == EVERY_ROUTE => Ok(Self::EveryRoute),
            None => Err(format!("SUNABA_FUNCTION: there is no function {text:?} in the registry")),
        }
    }

    /// Whether what is served has this permission.
    pub fn may(self, permission: Permission) -> bool {
        match self {
            Self::Function(function) => function.may(permission),
            Self::EveryRoute => {
                let mut routes =
                    FUNCTIONS.iter().filter(|function| matches!(function.trigger, Trigger::Http(_)));
                routes.any(|function| function.may(permission))
            }
        }
    }
}

/// Where the keys of tokens are: names in Secrets Manager, never values.
#[derive(Debug, Clone)]
pub struct KeyPlaces {
    /// Of the secret that signs worker tokens.
    pub worker_secret: String,
    /// Of the operator's token, where there is one.
    pub operator_token: Option<String>,
    /// Of the secret of users' HS256 tokens, where there is one.
    pub jwt_secret: Option<String>,
    /// The public keys of users' RS256 and ES256 tokens.
    pub jwks_url: Option<String>,
    /// The issuer that users' tokens must name.
    pub issuer: Option<String>,
    /// The audience that users' tokens must name.
    pub audience: Option<String>,
}

/// What Lambda tells every function. Its credentials live longer than the process, so nothing has to renew them.
#[derive(Clone)]
pub struct AwsConfig {
    /// Where.
    pub region: String,
    /// Who.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
    /// Its session.
    pub session_token: Option<String>,
    /// Another AWS than the real one: an emulator.
    pub endpoint_url: Option<String>,
}

/// Credentials are not for logs.
impl std::fmt::Debug for AwsConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwsConfig").field("region", &self.region).finish_non_exhaustive()
    }
}

/// Variables that every function has.
pub const EVERYWHERE: [&str; 5] =
    ["SUNABA_FUNCTION", "SUNABA_STAGE", "SUNABA_TABLE", "SUNABA_LOG", "SUNABA_ORIGINS"];

/// The variables that come with a permission. `cargo xtask gen` writes them into `template.yaml`.
pub fn variables(permission: Permission) -> &'static [&'static str] {
    match permission {
        Permission::Keys => &[
            "SUNABA_WORKER_SECRET_ID",
            "SUNABA_OPERATOR_TOKEN_ID",
            "SUNABA_JWT_SECRET_ID",
            "SUNABA_JWKS_URL",
            "SUNABA_JWT_ISSUER",
            "SUNABA_JWT_AUDIENCE",
        ],
        Permission::Sockets => &["SUNABA_SOCKETS_URL"],
        Permission::NotifyMailboxes
        | Permission::WaitAtMailboxes
        | Permission::MakeMailboxes
        | Permission::RemoveMailboxes => &["SUNABA_MAILBOXES_URL"],
        Permission::Jobs => &["SUNABA_JOBS_URL"],
        Permission::Bus => &["SUNABA_BUS"],
        Permission::Work => &orchestration::OF_WORK,
        Permission::Providers => &orchestration::OF_PROVIDERS,
        Permission::Thresholds => orchestration::OF_THRESHOLDS,
        Permission::GetItem
        | Permission::BatchGetItem
        | Permission::Query
        | Permission::QueryIndexes
        | Permission::PutItem
        | Permission::UpdateItem
        | Permission::DeleteItem => &[],
    }
}

/// Reads the environment and starts the log. Says everything that is wrong at once.
#[expect(clippy::disallowed_methods, reason = "this is config.rs")]
pub fn configure() -> Result<Config, Error> {
    let variable = |name: &str| std::env::var(name).ok();
    logging::init(Format::Json, variable("SUNABA_LOG").as_deref().unwrap_or("info"));
    let config = Config::read(variable)?;
    metrics::enable(&config.stage);
    Ok(config)
}

impl Config {
    /// From any environment.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut read = Reader { variable, wrong: Vec::new() };
        let serves = Serves::parse(&read.optional("SUNABA_FUNCTION").ok_or("SUNABA_FUNCTION is not set")?)?;
        let at_mailboxes = [
            Permission::NotifyMailboxes,
            Permission::WaitAtMailboxes,
            Permission::MakeMailboxes,
            Permission::RemoveMailboxes,
        ]
        .into_iter()
        .any(|permission| serves.may(permission));
        let stage = read.required("SUNABA_STAGE");
        let config = Self {
            serves,
            table: read.required("SUNABA_TABLE"),
            sockets_url: serves.may(Permission::Sockets).then(|| read.required("SUNABA_SOCKETS_URL")),
            mailboxes_url: at_mailboxes.then(|| read.required("SUNABA_MAILBOXES_URL")),
            jobs_url: serves.may(Permission::Jobs).then(|| read.required("SUNABA_JOBS_URL")),
            work_url: serves.may(Permission::Work).then(|| read.required("SUNABA_WORK_URL")),
            bus: serves.may(Permission::Bus).then(|| read.required("SUNABA_BUS")),
            keys: serves.may(Permission::Keys).then(|| KeyPlaces {
                worker_secret: read.required("SUNABA_WORKER_SECRET_ID"),
                operator_token: read.optional("SUNABA_OPERATOR_TOKEN_ID"),
                jwt_secret: read.optional("SUNABA_JWT_SECRET_ID"),
                jwks_url: read.optional("SUNABA_JWKS_URL"),
                issuer: read.optional("SUNABA_JWT_ISSUER"),
                audience: read.optional("SUNABA_JWT_AUDIENCE"),
            }),
            daytona: serves.may(Permission::Providers).then(|| read.daytona()),
            settings: Settings {
                // API Gateway knows its own names; nobody else's get here.
                guard: Guard { hosts: None, origins: read.origins() },
                orchestration: read.orchestration(serves, &stage),
                ..Settings::default()
            },
            aws: AwsConfig {
                region: read.required("AWS_REGION"),
                access_key: read.required("AWS_ACCESS_KEY_ID"),
                secret_key: read.required("AWS_SECRET_ACCESS_KEY"),
                session_token: read.optional("AWS_SESSION_TOKEN"),
                endpoint_url: read.optional("AWS_ENDPOINT_URL"),
            },
            stage,
        };
        if read.wrong.is_empty() { Ok(config) } else { Err(read.wrong.join("; ")) }
    }
}

struct Reader<V> {
    variable: V,
    wrong: Vec<String>,
}

impl<V: Fn(&str) -> Option<String>> Reader<V> {
    /// A template's parameter that nobody has set is an empty text.
    fn optional(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    fn required(&mut self, name: &str) -> String {
        self.optional(name).unwrap_or_else(|| {
            self.wrong.push(format!("{name} is not set"));
            String::new()
        })
    }

    fn origins(&mut self) -> Vec<String> {
        let text = self.optional("SUNABA_ORIGINS").unwrap_or_default();
        let origins: Vec<String> =
            text.split(',').map(str::trim).filter(|o| !o.is_empty()).map(Into::into).collect();
        for odd in origins.iter().filter(|origin| !origin.contains("://") || origin.ends_with('/')) {
            self.wrong.push(format!("SUNABA_ORIGINS: {odd:?} must look like https://console.example"));
        }
        origins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    pub(super) fn read(function: &str, set: &[(&str, &str)]) -> Result<Config, String> {
        let mut set: HashMap<&str, &str> = set.iter().copied().collect();
        set.insert("SUNABA_FUNCTION", function);
        Config::read(|name| set.get(name).map(|value| (*value).to_owned()))
    }

    pub(super) const AWS: [(&str, &str); 5] = [
        ("SUNABA_STAGE", "dev"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "b"),
        ("SUNABA_TABLE", "sunaba"),
    ];

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let odd = [("SUNABA_ORIGINS", "console.example")];
        let wrong = read("realtime-frame", &odd).unwrap_err();
        for name in [
            "SUNABA_TABLE",
            "SUNABA_SOCKETS_URL",
            "SUNABA_WORKER_SECRET_ID",
            "SUNABA_ORIGINS",
            "AWS_REGION",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
        ] {
            assert!(wrong.contains(name), "{name} is missing in: {wrong}");
        }
    }

    #[test]
    fn a_function_is_asked_for_what_it_needs_and_nothing_else() {
        let health = read("sandboxes-health", &AWS).unwrap();
        assert!(health.keys.is_none() && health.sockets_url.is_none() && health.bus.is_none());
        assert!(read("events-publish", &AWS).unwrap_err().contains("SUNABA_BUS"));
        assert!(read("nothing-at-all", &AWS).unwrap_err().contains("nothing-at-all"));
        assert!(Config::read(|_| None).unwrap_err().contains("SUNABA_FUNCTION"));
    }

    #[test]
    fn every_route_has_the_permissions_of_all_http_functions_and_of_no_other() {
        let every = Serves::EveryRoute;
        assert!(every.may(Permission::Keys) && every.may(Permission::Work) && every.may(Permission::PutItem));
        assert!(!every.may(Permission::Bus), "only the stream's consumer publishes");
    }

    #[test]
    fn what_is_empty_is_not_set() {
        let mut set = AWS.to_vec();
        set.extend([("SUNABA_WORKER_SECRET_ID", "w"), ("SUNABA_JWKS_URL", ""), ("SUNABA_ORIGINS", "")]);
        let config = read("sandboxes-list", &set).unwrap();
        assert!(config.keys.is_some_and(|keys| keys.jwks_url.is_none()));
        assert!(config.settings.guard.origins.is_empty());
    }
}
