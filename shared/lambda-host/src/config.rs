//! Configuration from environment variables. The only file of this crate that reads them.

mod orchestration;

pub use orchestration::ProvidersConfig;
pub(crate) use orchestration::variable;

use domain::Invalid;
use domain::kept::{DEFAULT_DAYS, MAX_DAYS};
use domain::quota::{Amount, Quotas};
use edge::Settings;
use edge::auth::PublicKey;
use edge::guard::Guard;
use edge::logging::{self, Format};
use edge::metrics;
use edge::registry::{self, FUNCTIONS, Function, Permission, Trigger};
use lambda_runtime::Error;

#[derive(Debug, Clone)]
pub struct Config {
    pub serves: Serves,
    /// Name of this deployment; an account may have several.
    pub stage: String,
    pub table: String,
    /// URL of the management API, for functions that push to sockets.
    pub sockets_url: Option<String>,
    /// URL prefix of mailboxes, for functions that use them.
    pub mailboxes_url: Option<String>,
    /// ARN of the dead-letter queue of mailboxes, for functions that create them.
    pub dead_letters_arn: Option<String>,
    /// For functions that enqueue socket jobs.
    pub socket_jobs_url: Option<String>,
    /// For functions that enqueue orchestration jobs.
    pub orchestration_jobs_url: Option<String>,
    /// Name of the event bus, for functions that publish.
    pub bus: Option<String>,
    /// For functions that authenticate callers.
    pub keys: Option<KeyConfig>,
    /// Name of the secret with the private key of worker tokens, for functions that issue tokens.
    pub worker_key: Option<String>,
    /// For functions that create sandboxes.
    pub providers: Option<ProvidersConfig>,
    pub settings: Settings,
    pub aws: AwsConfig,
}

/// What a process serves. All functions are the same executable; the environment selects one.
#[derive(Debug, Clone, Copy)]
pub enum Serves {
    /// On Lambda.
    Function(&'static Function),
    /// Under `cargo lambda watch`, which starts one process per executable.
    EveryRoute,
}

/// Value of `SUNABA_FUNCTION` for [`Serves::EveryRoute`].
const EVERY_ROUTE: &str = "every-route";

impl Serves {
    fn parse(text: &str) -> Result<Self, String> {
        match registry::find(text) {
            Some(function) => Ok(Self::Function(function)),
            None if text == EVERY_ROUTE => Ok(Self::EveryRoute),
            None => Err(format!("SUNABA_FUNCTION: unknown function {text:?}")),
        }
    }

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

/// What verifies tokens. Of secrets the names in Secrets Manager, never the values.
#[derive(Debug, Clone)]
pub struct KeyConfig {
    pub worker_public_key: PublicKey,
    /// Name of the secret with the operators and the hashes of their tokens.
    pub operators: Option<String>,
    /// Secret of users' HS256 tokens.
    pub jwt_secret: Option<String>,
    /// Public keys of users' RS256 and ES256 tokens.
    pub jwks_url: Option<String>,
    /// Required issuer of users' tokens.
    pub issuer: Option<String>,
    /// Required audience of users' tokens.
    pub audience: Option<String>,
}

/// Set by Lambda for every function. The credentials outlive the process, so they are never renewed.
#[derive(Clone)]
pub struct AwsConfig {
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
    pub session_token: Option<String>,
    /// URL of an AWS emulator.
    pub endpoint_url: Option<String>,
}

/// Omits the credentials: debug output ends up in logs.
impl std::fmt::Debug for AwsConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwsConfig").field("region", &self.region).finish_non_exhaustive()
    }
}

/// Variables of every function.
pub const COMMON: [&str; 10] = [
    "SUNABA_FUNCTION",
    "SUNABA_STAGE",
    "SUNABA_TABLE",
    "SUNABA_LOG",
    "SUNABA_ORIGINS",
    "SUNABA_SANDBOX_QUOTA",
    "SUNABA_ORG_QUOTA",
    "SUNABA_USER_QUOTA",
    "SUNABA_OPERATOR_QUOTA",
    "SUNABA_WORKSPACE_DAYS",
];

/// The variables of a permission. `cargo xtask gen` writes them into `template.yaml`.
pub fn variables(permission: Permission) -> &'static [&'static str] {
    match permission {
        Permission::Keys => &[
            "SUNABA_WORKER_PUBLIC_KEY",
            "SUNABA_OPERATORS_ID",
            "SUNABA_JWT_SECRET_ID",
            "SUNABA_JWKS_URL",
            "SUNABA_JWT_ISSUER",
            "SUNABA_JWT_AUDIENCE",
        ],
        Permission::IssueTokens => &["SUNABA_WORKER_KEY_ID"],
        Permission::Sockets => &["SUNABA_SOCKETS_URL"],
        Permission::SendToMailboxes
        | Permission::ReceiveFromMailboxes
        | Permission::DeleteFromMailboxes
        | Permission::DeleteMailboxes
        | Permission::ListMailboxes => &["SUNABA_MAILBOXES_URL"],
        Permission::CreateMailboxes => &["SUNABA_MAILBOXES_URL", "SUNABA_DEAD_LETTERS_ARN"],
        Permission::SocketJobs => &["SUNABA_SOCKET_JOBS_URL"],
        Permission::Bus => &["SUNABA_BUS"],
        Permission::OrchestrationJobs => &orchestration::ORCHESTRATION_VARIABLES,
        Permission::Providers => &orchestration::PROVIDER_VARIABLES,
        Permission::Thresholds => orchestration::THRESHOLD_VARIABLES,
        Permission::GetItem
        | Permission::BatchGetItem
        | Permission::Query
        | Permission::QueryIndexes
        | Permission::PutItem
        | Permission::UpdateItem
        | Permission::DeleteItem => &[],
    }
}

/// Reads the environment and starts the log. Reports all errors at once.
#[expect(clippy::disallowed_methods, reason = "this is config.rs")]
pub fn configure() -> Result<Config, Error> {
    let variable = |name: &str| std::env::var(name).ok();
    logging::init(Format::Json, variable("SUNABA_LOG").as_deref().unwrap_or("info"));
    let config = Config::read(variable)?;
    metrics::enable(&config.stage);
    Ok(config)
}

impl Config {
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut read = Reader { variable, errors: Vec::new() };
        let serves = Serves::parse(&read.optional("SUNABA_FUNCTION").ok_or("SUNABA_FUNCTION is not set")?)?;
        let uses_mailboxes = [
            Permission::SendToMailboxes,
            Permission::ReceiveFromMailboxes,
            Permission::DeleteFromMailboxes,
            Permission::CreateMailboxes,
            Permission::DeleteMailboxes,
            Permission::ListMailboxes,
        ]
        .into_iter()
        .any(|permission| serves.may(permission));
        let stage = read.required("SUNABA_STAGE");
        let config = Self {
            serves,
            table: read.required("SUNABA_TABLE"),
            sockets_url: serves.may(Permission::Sockets).then(|| read.required("SUNABA_SOCKETS_URL")),
            mailboxes_url: uses_mailboxes.then(|| read.required("SUNABA_MAILBOXES_URL")),
            dead_letters_arn: serves
                .may(Permission::CreateMailboxes)
                .then(|| read.required("SUNABA_DEAD_LETTERS_ARN")),
            socket_jobs_url: serves
                .may(Permission::SocketJobs)
                .then(|| read.required("SUNABA_SOCKET_JOBS_URL")),
            orchestration_jobs_url: serves
                .may(Permission::OrchestrationJobs)
                .then(|| read.required("SUNABA_ORCHESTRATION_JOBS_URL")),
            bus: serves.may(Permission::Bus).then(|| read.required("SUNABA_BUS")),
            keys: serves.may(Permission::Keys).then(|| KeyConfig {
                worker_public_key: read.public_key(),
                operators: read.optional("SUNABA_OPERATORS_ID"),
                jwt_secret: read.optional("SUNABA_JWT_SECRET_ID"),
                jwks_url: read.optional("SUNABA_JWKS_URL"),
                issuer: read.optional("SUNABA_JWT_ISSUER"),
                audience: read.optional("SUNABA_JWT_AUDIENCE"),
            }),
            worker_key: serves.may(Permission::IssueTokens).then(|| read.required("SUNABA_WORKER_KEY_ID")),
            providers: serves.may(Permission::Providers).then(|| read.providers()),
            settings: Settings {
                // API Gateway accepts only its own host names.
                guard: Guard { hosts: None, origins: read.origins() },
                quotas: read.quotas(),
                workspace_days: read.workspace_days(),
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
        if let Some(keys) = &config.keys
            && keys.jwks_url.is_some()
            && (keys.issuer.is_none() || keys.audience.is_none())
        {
            read.errors.push(edge::auth::JWKS_RULE.to_owned());
        }
        if read.errors.is_empty() { Ok(config) } else { Err(read.errors.join("; ")) }
    }
}

struct Reader<V> {
    variable: V,
    errors: Vec<String>,
}

impl<V: Fn(&str) -> Option<String>> Reader<V> {
    /// An unset template parameter arrives as an empty string.
    fn optional(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    fn required(&mut self, name: &str) -> String {
        self.optional(name).unwrap_or_else(|| {
            self.errors.push(format!("{name} is not set"));
            String::new()
        })
    }

    fn public_key(&mut self) -> PublicKey {
        let text = self.required("SUNABA_WORKER_PUBLIC_KEY");
        PublicKey::parse(&text).unwrap_or_else(|| {
            if !text.is_empty() {
                self.errors.push(
                    "SUNABA_WORKER_PUBLIC_KEY must be the 64 hex digits that `sunaba keys` prints".into(),
                );
            }
            PublicKey::NONE
        })
    }

    fn quotas(&mut self) -> Quotas {
        let default = Quotas::default();
        Quotas {
            sandbox: self.quota("SUNABA_SANDBOX_QUOTA", default.sandbox),
            org: self.quota("SUNABA_ORG_QUOTA", default.org),
            user: self.quota("SUNABA_USER_QUOTA", default.user),
            operator: self.quota("SUNABA_OPERATOR_QUOTA", default.operator),
            shared: true,
        }
    }

    fn workspace_days(&mut self) -> u32 {
        let name = "SUNABA_WORKSPACE_DAYS";
        let Some(text) = self.optional(name) else { return DEFAULT_DAYS };
        text.parse().ok().filter(|days| (1..=MAX_DAYS).contains(days)).unwrap_or_else(|| {
            self.errors.push(format!("{name}: {text:?} must be a number from 1 to {MAX_DAYS}"));
            DEFAULT_DAYS
        })
    }

    fn quota(&mut self, name: &str, default: Amount) -> Amount {
        let Some(text) = self.optional(name) else { return default };
        text.parse().unwrap_or_else(|invalid: Invalid| {
            self.errors.push(format!("{name}: {text:?} {}", invalid.reason));
            default
        })
    }

    fn origins(&mut self) -> Vec<String> {
        let text = self.optional("SUNABA_ORIGINS").unwrap_or_default();
        let origins: Vec<String> =
            text.split(',').map(str::trim).filter(|o| !o.is_empty()).map(Into::into).collect();
        for invalid in origins.iter().filter(|origin| !origin.contains("://") || origin.ends_with('/')) {
            self.errors.push(format!("SUNABA_ORIGINS: {invalid:?} must look like https://console.example"));
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

    const PUBLIC_KEY: (&str, &str) =
        ("SUNABA_WORKER_PUBLIC_KEY", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");

    #[test]
    fn only_functions_that_issue_tokens_know_the_private_key() {
        let mut set = AWS.to_vec();
        set.extend([PUBLIC_KEY, ("SUNABA_WORKER_KEY_ID", "the-private-key")]);
        assert_eq!(
            read("sandboxes-rotate-token", &set).unwrap().worker_key.as_deref(),
            Some("the-private-key")
        );
        assert_eq!(read("sandboxes-list", &set).unwrap().worker_key, None);
        set.retain(|(name, _)| *name != "SUNABA_WORKER_KEY_ID");
        assert!(read("sandboxes-list", &set).is_ok());
        assert!(read("sandboxes-rotate-token", &set).unwrap_err().contains("SUNABA_WORKER_KEY_ID"));
        let invalid = [("SUNABA_WORKER_PUBLIC_KEY", "the-private-key")];
        let set: Vec<_> = AWS.iter().chain(&invalid).copied().collect();
        assert!(read("sandboxes-list", &set).unwrap_err().contains("sunaba keys"));
    }

    #[test]
    fn jwks_url_needs_issuer_and_audience() {
        let rule = |set: &[(&'static str, &'static str)]| {
            let all: Vec<_> = AWS.iter().chain(&[PUBLIC_KEY]).chain(set).copied().collect();
            read("sandboxes-list", &all).map(drop)
        };
        let url = ("SUNABA_JWKS_URL", "https://users.example/jwks");
        let issuer = ("SUNABA_JWT_ISSUER", "https://users.example");
        let audience = ("SUNABA_JWT_AUDIENCE", "sunaba");
        let refused = Err(edge::auth::JWKS_RULE.to_owned());
        for set in [vec![url], vec![url, issuer], vec![url, audience]] {
            assert_eq!(rule(&set), refused, "{set:?}");
        }
        // As an unset parameter of the template arrives.
        assert_eq!(rule(&[url, issuer, ("SUNABA_JWT_AUDIENCE", "")]), refused);
        assert_eq!(rule(&[url, issuer, audience]), Ok(()));
        assert_eq!(rule(&[issuer]), Ok(()), "HS256 tokens may lack them");
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let invalid = [("SUNABA_ORIGINS", "console.example"), ("SUNABA_ORG_QUOTA", "600000")];
        let error = read("sockets-frame", &invalid).unwrap_err();
        for name in [
            "SUNABA_TABLE",
            "SUNABA_SOCKETS_URL",
            "SUNABA_WORKER_PUBLIC_KEY",
            "SUNABA_ORIGINS",
            "SUNABA_ORG_QUOTA",
            "AWS_REGION",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
        ] {
            assert!(error.contains(name), "{name} is missing in: {error}");
        }
    }

    #[test]
    fn function_requires_only_the_variables_of_its_permissions() {
        let health = read("sandboxes-health", &AWS).unwrap();
        assert!(health.keys.is_none() && health.sockets_url.is_none() && health.bus.is_none());
        assert!(read("events-publish", &AWS).unwrap_err().contains("SUNABA_BUS"));
        assert!(read("nothing-at-all", &AWS).unwrap_err().contains("nothing-at-all"));
        assert!(Config::read(|_| None).unwrap_err().contains("SUNABA_FUNCTION"));
    }

    #[test]
    fn every_route_has_the_permissions_of_all_http_functions_only() {
        let every = Serves::EveryRoute;
        assert!(
            every.may(Permission::Keys)
                && every.may(Permission::OrchestrationJobs)
                && every.may(Permission::PutItem)
        );
        assert!(!every.may(Permission::Bus), "only the stream's consumer publishes");
    }

    #[test]
    fn empty_variable_counts_as_unset() {
        let mut set = AWS.to_vec();
        set.extend([PUBLIC_KEY, ("SUNABA_JWKS_URL", ""), ("SUNABA_ORIGINS", "")]);
        let config = read("sandboxes-list", &set).unwrap();
        assert!(config.keys.is_some_and(|keys| keys.jwks_url.is_none()));
        assert!(config.settings.guard.origins.is_empty());
    }
}
