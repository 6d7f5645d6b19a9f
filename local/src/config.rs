//! Configuration: flags, then environment variables, then the configuration file, then defaults. The only file of this crate
//! that reads the environment.

pub mod commands;
mod file;
mod lambda_env;
mod providers;
pub mod sandboxes;
mod secret_files;
mod worker_variables;

use crate::hosts::ws::SocketTimeouts;
use ::providers::{PROVIDERS, ProviderKind};
use anyhow::{Context, bail};
use clap::{Args, value_parser};
pub use commands::Send;
use domain::kept::{DEFAULT_DAYS, MAX_DAYS};
use domain::quota::{Amount, Quotas};
use edge::auth::{Keys, LOCAL_OPERATOR, MIN_SECRET_CHARS, MIN_TOKEN_CHARS, Operators, SigningKey};
use edge::guard::Guard;
use edge::plane::Settings;
pub use lambda_env::write_lambda_env;
use sandboxes::{SandboxConfig, Sandboxes};
pub use secret_files::{
    JWT_SECRET, OPERATOR_TOKEN, OPERATORS, SECRET_FILES, WORKER_SECRET, plane_directory, private_file,
};
use secret_files::{PLANE_NAME, SIGN_IN_SECRET, load_or_create_secret};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
pub use worker_variables::{HostEnvironment, INHERITED, worker_keys};

/// Start the control plane in this process.
#[derive(Debug, Clone, Args)]
pub struct Dev {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// Port to listen on; 0 for any free port
    #[arg(long, default_value_t = 18000)]
    pub port: u16,
    /// Data directory
    #[arg(long, default_value = ".sunaba")]
    pub data: PathBuf,
    /// Disable authentication and accept events of unregistered sandboxes; only on a loopback address
    #[arg(long)]
    pub no_auth: bool,
    /// Flush every write to disk: survives a power failure, but limits throughput to about 400 writes per second
    #[arg(long)]
    pub fsync: bool,
    /// Quota of each sandbox per minute: events and bytes of what its worker sends
    #[arg(long, env = "SUNABA_SANDBOX_QUOTA", value_name = "EVENTS/BYTES", default_value_t = Quotas::default().sandbox)]
    pub sandbox_quota: Amount,
    /// Quota of each org per minute: what its sandboxes and its users send
    #[arg(long, env = "SUNABA_ORG_QUOTA", value_name = "EVENTS/BYTES", default_value_t = Quotas::default().org)]
    pub org_quota: Amount,
    /// Quota of each user per minute; a change by a user counts as one event
    #[arg(long, env = "SUNABA_USER_QUOTA", value_name = "EVENTS/BYTES", default_value_t = Quotas::default().user)]
    pub user_quota: Amount,
    /// Quota of each operator per minute
    #[arg(long, env = "SUNABA_OPERATOR_QUOTA", value_name = "EVENTS/BYTES", default_value_t = Quotas::default().operator)]
    pub operator_quota: Amount,
    /// Number of days for which the work of tasks is kept that is not in a repository
    #[arg(long, env = "SUNABA_WORKSPACE_DAYS", value_name = "DAYS", default_value_t = DEFAULT_DAYS, value_parser = value_parser!(u32).range(1..=i64::from(MAX_DAYS)))]
    pub workspace_days: u32,
    /// Operator token [default: generated at the first start and stored in the data directory]
    #[arg(long, env = "SUNABA_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Secret of users' HS256 tokens
    #[arg(long, env = "SUNABA_JWT_SECRET", hide_env_values = true)]
    pub jwt_secret: Option<String>,
    /// JWKS URL with the public keys of users' RS256 and ES256 tokens
    #[arg(long, env = "SUNABA_JWKS_URL")]
    pub jwks_url: Option<String>,
    /// Required issuer of users' tokens
    #[arg(long, env = "SUNABA_JWT_ISSUER")]
    pub jwt_issuer: Option<String>,
    /// Required audience of users' tokens
    #[arg(long, env = "SUNABA_JWT_AUDIENCE")]
    pub jwt_audience: Option<String>,
    /// Additional host names of this server, separated by commas
    #[arg(long, env = "SUNABA_HOSTS", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Origins of other sites that may call this server, separated by commas: `https://console.example`
    #[arg(long, env = "SUNABA_ORIGINS", value_delimiter = ',')]
    pub origins: Vec<String>,
    /// Serve the console from this directory instead of the embedded one: `web/dist`
    #[arg(long, env = "SUNABA_WEB", value_name = "DIRECTORY")]
    pub web: Option<PathBuf>,
    /// Serve the in-process AWS on a port of 127.0.0.1, for `cargo lambda watch`: 18001 if none is given, 0 for any free
    /// port. Writes the variables for functions to plane/lambda.env in the data directory
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "18001")]
    pub serve_aws: Option<u16>,
    /// Authentication timeout of sockets; only tests change it
    #[arg(skip = Settings::default().auth_timeout.as_secs())]
    pub auth_timeout_secs: u64,
    /// Only tests change these
    #[arg(skip)]
    pub socket_timeouts: SocketTimeouts,
    /// Log filter: info, debug, edge=debug,info
    #[arg(long, env = "SUNABA_LOG", default_value = "info")]
    pub log: String,
    /// Configuration file in YAML: `agent: claude`. Names are those of the variables below in lower case, without SUNABA_
    /// [default: plane/sunaba.yaml in the data directory, if it exists]
    #[arg(long, env = "SUNABA_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// JSON file with environment variables of workers, such as keys of models and code hosts, by org and project. Only its
    /// owner may be able to read it
    #[arg(long, env = "SUNABA_WORKER_VARIABLES", value_name = "FILE")]
    pub worker_variables: Option<PathBuf>,
    /// JSON file with the policies of sandboxes: what agents may reach, by project, with an upper bound (docs/policy.md).
    /// `sunaba policy check` verifies it
    #[arg(long, env = "SUNABA_POLICY", value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Directories below which the command page offers repositories to operators, separated by commas [default: the home
    /// directory]
    #[arg(long, env = "SUNABA_FOLDERS", value_name = "DIRECTORIES", value_delimiter = ',')]
    pub folders: Vec<PathBuf>,
    /// Accept commands (acp:COMMAND, scripted:FILE) as agents in tickets and tasks: every caller can run any command on this
    /// machine. Not together with users' tokens
    #[arg(long)]
    pub allow_agent_commands: bool,
    #[command(flatten)]
    pub sandboxes: Sandboxes,
    /// Worker executable; only tests set it
    #[arg(skip)]
    pub worker: Option<PathBuf>,
    /// Remote providers that can be set up; only tests change it
    #[arg(skip = PROVIDERS)]
    pub provider_kinds: &'static [&'static ProviderKind],
}

impl Dev {
    /// Validates all options and returns the configuration of sandboxes. Reports all errors at once.
    pub fn check(&self) -> anyhow::Result<SandboxConfig> {
        let values = file::read(self.config.as_deref(), &self.data)?;
        let (config, mut errors) = match self.sandboxes.config(self.provider_kinds, &values) {
            Ok(config) => (Some(config), Vec::new()),
            Err(errors) => (None, errors),
        };
        if self.no_auth && !self.host.is_loopback() {
            errors.push(format!("--no-auth needs a loopback address, but --host is {}", self.host));
        }
        if self.allow_agent_commands && self.has_users() {
            let advice = "list the agents with SUNABA_AGENTS instead";
            errors.push(format!("--allow-agent-commands cannot be used with tokens of users; {advice}"));
        }
        if self.token.as_deref().is_some_and(|token| !is_valid_token(token)) {
            let rule = "at least 16 letters, digits, '.', '_' or '-', and must not start with swt_ or sit_";
            errors.push(format!("SUNABA_TOKEN must have {rule}"));
        }
        if self.jwt_secret.as_ref().is_some_and(|secret| secret.len() < MIN_SECRET_CHARS) {
            errors.push(format!("SUNABA_JWT_SECRET must have at least {MIN_SECRET_CHARS} characters"));
        }
        if self.jwks_url.is_some() && (self.jwt_issuer.is_none() || self.jwt_audience.is_none()) {
            errors.push(edge::auth::JWKS_RULE.to_owned());
        }
        for origin in self.origins.iter().filter(|origin| !origin.contains("://") || origin.ends_with('/')) {
            errors.push(format!("SUNABA_ORIGINS: {origin:?} must look like https://console.example"));
        }
        if let Some(directory) = self.web.as_ref().filter(|directory| !directory.is_dir()) {
            errors.push(format!("--web: {} is not a directory", directory.display()));
        }
        if self.has_users() && config.as_ref().is_some_and(SandboxConfig::has_unconfined_sandboxes) {
            errors.push(
                "tokens of users need isolated sandboxes, because a sandbox without isolation can read the plane's keys; do not \
                 set SUNABA_ISOLATION to none"
                    .to_owned(),
            );
        }
        match config {
            Some(config) if errors.is_empty() => Ok(config),
            _ => bail!("{}", errors.join("; ")),
        }
    }

    pub fn settings(&self) -> Settings {
        Settings {
            quotas: Quotas {
                sandbox: self.sandbox_quota,
                org: self.org_quota,
                user: self.user_quota,
                operator: self.operator_quota,
                // This process serves every request.
                shared: false,
            },
            adopt_unknown_sandboxes: self.no_auth,
            workspace_days: self.workspace_days,
            auth_timeout: Duration::from_secs(self.auth_timeout_secs),
            guard: Guard { hosts: Some(self.hosts.clone()), origins: self.origins.clone() },
            ..Settings::default()
        }
    }

    /// Generates missing keys and stores them in the data directory.
    pub fn keys(&self) -> anyhow::Result<LocalKeys> {
        let operator_token = match &self.token {
            Some(token) => token.clone(),
            None => load_or_create_secret(&plane_directory(&self.data).join(OPERATOR_TOKEN))?,
        };
        let worker_secret = load_or_create_secret(&plane_directory(&self.data).join(WORKER_SECRET))?;
        let sign_in_secret = load_or_create_secret(&plane_directory(&self.data).join(SIGN_IN_SECRET))?;
        let worker_key = SigningKey::of_secret(&worker_secret);
        let keys = Keys {
            worker_public_key: Some(worker_key.public()),
            worker_signing_key: Some(worker_key),
            operators: Operators::one(LOCAL_OPERATOR, &operator_token),
            // With the token in the key, a new operator token ends every sign-in.
            sign_in_key: Some(format!("{sign_in_secret}{operator_token}")),
            user_secret: self.jwt_secret.clone(),
            jwks_url: self.jwks_url.clone(),
            issuer: self.jwt_issuer.clone(),
            audience: self.jwt_audience.clone(),
            open: self.no_auth,
        };
        Ok(LocalKeys { keys, operator_token, worker_secret })
    }

    /// Where the command page looks for repositories.
    pub fn offered_folders(&self) -> Vec<PathBuf> {
        match self.folders.as_slice() {
            [] => std::env::home_dir().into_iter().collect(),
            folders => folders.to_vec(),
        }
    }

    /// Whether people other than the operator can use this plane.
    pub fn has_users(&self) -> bool {
        self.jwt_secret.is_some() || self.jwks_url.is_some()
    }

    /// A persistent random name of this plane.
    pub fn plane_name(&self) -> anyhow::Result<String> {
        load_or_create_secret(&plane_directory(&self.data).join(PLANE_NAME))
    }
}

/// The keys of a local plane. What it verifies with is in `keys`; the other two are for links, for commands on this
/// machine, and for functions that use its AWS.
pub struct LocalKeys {
    pub keys: Keys,
    pub operator_token: String,
    pub worker_secret: String,
}

/// The variables of this process that are valid UTF-8 and not empty.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        (!value.is_empty()).then_some((name, value))
    })
}

pub fn this_executable() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot determine the path of this executable")
}

/// Whether a URL is on this machine.
fn is_local(url: &str) -> bool {
    let host = url.parse::<http::Uri>().ok().and_then(|url| url.host().map(str::to_owned));
    host.is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

/// It is sent in headers, and by tools in URLs of sockets. It must not look like a token of a worker or a browser.
fn is_valid_token(token: &str) -> bool {
    let plain = token.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
    plain && token.len() >= MIN_TOKEN_CHARS && !token.starts_with("swt_") && !token.starts_with("sit_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_urls_are_local() {
        for url in ["http://127.0.0.1:18000", "http://localhost", "https://[::1]:1/x"] {
            assert!(is_local(url), "{url}");
        }
        for url in
            ["https://plane.example", "http://127.0.0.1.example:18000", "http://10.0.0.1", "nonsense", ""]
        {
            assert!(!is_local(url), "{url}");
        }
    }
}
