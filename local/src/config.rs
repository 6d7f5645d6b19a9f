//! Configuration: flags, then environment variables, then the configuration file, then defaults. The only file of this crate
//! that reads the environment.

pub mod commands;
mod file;
mod providers;
pub mod sandboxes;

use crate::agents::agents;
use crate::aws::{DEAD_LETTERS_ARN, MAILBOXES_URL, TABLE};
use crate::hosts::ws::SocketTimeouts;
use ::providers::{PROVIDERS, ProviderKind};
use anyhow::{Context, bail};
use app::orchestration::{Orchestration, WorkerVariables};
use clap::Args;
pub use commands::Send;
use contract::policy::{PolicyError, PolicyFile};
use domain::quota::{Amount, Quotas};
use edge::auth::{Keys, LOCAL_OPERATOR, MIN_SECRET_CHARS, MIN_TOKEN_CHARS, Operators, SigningKey};
use edge::guard::Guard;
use edge::plane::Settings;
use sandboxes::{SandboxConfig, Sandboxes};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// port. Writes the variables for functions to lambda.env in the data directory
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
}

/// The keys of a local plane. What it verifies with is in `keys`; the other two are for links, for commands on this
/// machine, and for functions that use its AWS.
pub struct LocalKeys {
    pub keys: Keys,
    pub operator_token: String,
    pub worker_secret: String,
}

/// What local sandboxes inherit from this process.
#[derive(Clone)]
pub struct HostEnvironment {
    /// Command line of the worker: this executable.
    pub worker: Vec<OsString>,
    /// Basic variables: `PATH` and the like.
    pub environment: BTreeMap<String, String>,
    /// API keys of model providers and code hosts.
    pub keys: BTreeMap<String, String>,
    /// Whether `claude` is installed.
    pub has_claude: bool,
}

impl std::fmt::Debug for HostEnvironment {
    /// Omits the values of the keys: debug output ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<_> = self.keys.keys().collect();
        f.debug_struct("HostEnvironment")
            .field("worker", &self.worker)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

/// Variables that local sandboxes inherit.
pub const INHERITED: [&str; 14] = [
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];
/// Variables that workers of all providers receive, besides those of agents.
const WORKER_KEYS: [&str; 5] =
    ["GITHUB_TOKEN", "GH_TOKEN", "GITHUB_HOST", "GITHUB_REPOSITORIES", "CLAUDE_PATH"];
const WORKER_KEY_PREFIX: &str = "ANTHROPIC_";

/// Variables that workers of all providers receive: keys of code hosts, and keys and URLs of agents.
pub fn worker_keys() -> Vec<&'static str> {
    let of_agents = agents().into_iter().flat_map(|agent| agent.secrets.iter().chain(agent.urls));
    let names = WORKER_KEYS.iter().chain(of_agents).copied();
    names.filter(|name| !name.starts_with(WORKER_KEY_PREFIX)).collect()
}

/// Whether workers receive a variable.
fn is_worker_key(name: &str) -> bool {
    name.starts_with(WORKER_KEY_PREFIX) || worker_keys().contains(&name)
}

impl Dev {
    pub fn host_environment(&self) -> anyhow::Result<HostEnvironment> {
        let mut worker = match &self.worker {
            Some(program) => vec![program.clone().into_os_string()],
            None => vec![this_executable()?.into_os_string()],
        };
        worker.push("worker".into());
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            (!value.is_empty()).then_some((name, value))
        });
        let (mut environment, mut keys) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in variables {
            if INHERITED.contains(&name.as_str()) {
                environment.insert(name, value);
            } else if is_worker_key(&name) {
                keys.insert(name, value);
            }
        }
        let directories = environment.get("PATH").map(|path| std::env::split_paths(path).collect::<Vec<_>>());
        let on_path =
            directories.unwrap_or_default().iter().any(|directory| directory.join("claude").is_file());
        let has_claude = on_path || keys.contains_key("CLAUDE_PATH");
        Ok(HostEnvironment { worker, environment, keys, has_claude })
    }

    /// Variables of workers: those of the file, and for every org the keys of this process. If users have tokens, the
    /// orgs are those of other people, and the keys of this process are not for them.
    pub fn worker_variables(&self, host: &HostEnvironment) -> anyhow::Result<WorkerVariables> {
        let from_file = match &self.worker_variables {
            Some(path) => read_worker_variables(path)?,
            None => WorkerVariables::default(),
        };
        let mut inherited = host.keys.clone();
        if self.has_users() {
            inherited.retain(|name, _| !is_secret(name));
        }
        let variables = from_file.with_defaults(inherited);
        match &self.policy {
            Some(_) if variables.has_policies() => {
                bail!(
                    "--policy is set, but the file of worker variables has a policy too; remove one of them"
                )
            }
            Some(path) => Ok(variables.with_policies(read_policy(path)?)),
            None => Ok(variables),
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

/// Whether the value of a worker's variable is a secret.
fn is_secret(name: &str) -> bool {
    let of_agents = agents().into_iter().flat_map(|agent| agent.secrets);
    worker::config::SECRETS.iter().chain(of_agents).any(|secret| *secret == name)
}

fn read_worker_variables(path: &Path) -> anyhow::Result<WorkerVariables> {
    let cannot_read = || format!("cannot read {}", path.display());
    let mut file = fs::File::open(path).with_context(cannot_read)?;
    if file.metadata().with_context(cannot_read)?.permissions().mode() & 0o077 != 0 {
        bail!("{0} contains secrets and can be read by others; run `chmod 600 {0}`", path.display());
    }
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(cannot_read)?;
    WorkerVariables::parse(&text).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
}

fn read_policy(path: &Path) -> anyhow::Result<PolicyFile> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let describe =
        |errors: Vec<PolicyError>| anyhow::anyhow!("{}: {}", path.display(), PolicyError::join(&errors));
    PolicyFile::parse(&text).map_err(describe)
}

pub fn this_executable() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot determine the path of this executable")
}

/// Writes the variables with which functions use the in-process AWS, as a file for `cargo lambda watch --env-file`. It
/// contains the access key, so only its owner can read it.
pub fn write_lambda_env(
    data: &Path,
    aws: SocketAddr,
    access_key: &str,
    keys: &Keys,
    orchestration: &Orchestration,
) -> anyhow::Result<PathBuf> {
    let mut variables = vec![
        ("AWS_ENDPOINT_URL", format!("http://{aws}")),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", access_key.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", access_key.to_owned()),
        ("SUNABA_FUNCTION", "every-route".to_owned()),
        ("SUNABA_STAGE", "local".to_owned()),
        // Routes that use providers need these too, although none creates a sandbox.
        ("SUNABA_PLANE", "local".to_owned()),
        ("SUNABA_CALLBACK_URL", orchestration.callback_url.clone()),
        ("SUNABA_TABLE", TABLE.to_owned()),
        ("SUNABA_SOCKETS_URL", format!("http://{aws}")),
        ("SUNABA_MAILBOXES_URL", MAILBOXES_URL.to_owned()),
        ("SUNABA_DEAD_LETTERS_ARN", DEAD_LETTERS_ARN.to_owned()),
        ("SUNABA_SOCKET_JOBS_URL", format!("http://{aws}/socket-jobs")),
        ("SUNABA_ORCHESTRATION_JOBS_URL", format!("http://{aws}/orchestration-jobs")),
        ("SUNABA_BUS", "local".to_owned()),
        ("SUNABA_AGENTS", orchestration.agents.to_string()),
        ("AGENT", orchestration.default_agent.clone()),
        ("SUNABA_WORKER_KEY_ID", WORKER_SECRET.to_owned()),
        ("SUNABA_OPERATORS_ID", OPERATORS.to_owned()),
    ];
    let optional = [
        ("SUNABA_WORKER_PUBLIC_KEY", keys.worker_public_key.map(|key| key.to_string())),
        ("SUNABA_JWT_SECRET_ID", keys.user_secret.as_ref().map(|_| JWT_SECRET.to_owned())),
        ("SUNABA_JWKS_URL", keys.jwks_url.clone()),
        ("SUNABA_JWT_ISSUER", keys.issuer.clone()),
        ("SUNABA_JWT_AUDIENCE", keys.audience.clone()),
    ];
    variables.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let path = plane_directory(data).join(LAMBDA_ENV);
    let mut file = private_file(&path)?;
    file.set_len(0)?;
    for (name, value) in variables {
        // Quoted, because cargo-lambda does not read a bare value with every character.
        writeln!(file, "{name}=\"{value}\"")?;
    }
    Ok(path)
}

/// The plane's own files: its keys and its table. Local sandboxes are in a directory beside it, so that none of their
/// parent directories contains a secret.
pub fn plane_directory(data: &Path) -> PathBuf {
    data.join("plane")
}

/// Names of the plane's secrets: of their files, and in the in-process Secrets Manager.
pub const WORKER_SECRET: &str = "worker-secret";
pub const OPERATOR_TOKEN: &str = "operator-token";
/// In the in-process Secrets Manager only: the hash of the operator's token.
pub const OPERATORS: &str = "operators";
pub const JWT_SECRET: &str = "jwt-secret";
/// Part of the key of the tokens of operators' browsers.
const SIGN_IN_SECRET: &str = "sign-in-secret";
const PLANE_NAME: &str = "plane-name";
const LAMBDA_ENV: &str = "lambda.env";
/// Files of the plane that only its owner may read. `sunaba.yaml` may contain the API key of a provider.
pub const SECRET_FILES: [&str; 6] =
    [OPERATOR_TOKEN, WORKER_SECRET, SIGN_IN_SECRET, PLANE_NAME, LAMBDA_ENV, file::NAME];

/// Opens a file that only its owner can read.
pub fn private_file(path: &Path) -> anyhow::Result<fs::File> {
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
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

/// Reads a secret from a private file, and generates it at the first start.
fn load_or_create_secret(path: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(path) {
        Ok(secret) if secret.trim().len() >= 16 => Ok(secret.trim().to_owned()),
        Ok(_) => bail!("{} is damaged; delete it to generate a new one", path.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let secret = app::ids::secret();
            // Atomic, because a truncated secret would fail the next start.
            let unfinished = path.with_extension("new");
            let mut file = private_file(&unfinished)?;
            file.write_all(secret.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, path).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(secret)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_receive_every_key_that_they_redact() {
        // The plane issues the first, and only OmoiOS uses the second.
        let own = ["SANDBOX_TOKEN", "OMOIOS_API_KEY"];
        let of_agents = agents().into_iter().flat_map(|agent| agent.secrets).copied();
        for name in worker::config::SECRETS.into_iter().chain(of_agents) {
            assert_eq!(is_worker_key(name), !own.contains(&name), "{name}: compare SECRETS with WORKER_KEYS");
        }
    }

    fn dev(arguments: &[&str]) -> Dev {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            dev: Dev,
        }
        let arguments = ["sunaba"].into_iter().chain(arguments.iter().copied());
        <Cli as clap::Parser>::parse_from(arguments).dev
    }

    fn host() -> HostEnvironment {
        let keys =
            [("ANTHROPIC_API_KEY", "of-the-operator"), ("ANTHROPIC_BASE_URL", "https://model.example")];
        HostEnvironment {
            worker: Vec::new(),
            environment: BTreeMap::new(),
            keys: keys.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            has_claude: false,
        }
    }

    #[test]
    fn keys_of_the_operator_are_not_for_orgs_of_users() {
        let alone = dev(&[]).worker_variables(&host()).unwrap();
        assert_eq!(alone.of_every_org()["ANTHROPIC_API_KEY"], "of-the-operator");
        for users in [["--jwt-secret", "a-secret"], ["--jwks-url", "https://users.example"]] {
            let variables = dev(&users).worker_variables(&host()).unwrap();
            let names: Vec<&String> = variables.of_every_org().keys().collect();
            assert_eq!(names, ["ANTHROPIC_BASE_URL"], "{users:?}");
        }
    }

    #[test]
    fn file_of_worker_variables_must_be_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("variables.json");
        fs::write(&path, r#"{"ANTHROPIC_API_KEY": "of-the-file"}"#).unwrap();
        let read = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            dev(&["--worker-variables", path.to_str().unwrap()]).worker_variables(&host())
        };
        let error = read(0o640).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        assert_eq!(read(0o600).unwrap().of_every_org()["ANTHROPIC_API_KEY"], "of-the-file");
    }

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
