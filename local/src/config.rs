//! What `sunaba` is told: flags over environment over a file of settings over defaults. The only file here that reads the
//! environment.

pub mod commands;
mod file;
pub mod sandboxes;

use crate::aws::{MAILBOXES_URL, TABLE};
use crate::hosts::ws::Patience;
use anyhow::{Context, bail};
use clap::Args;
pub use commands::Send;
use edge::auth::{Keys, MIN_SECRET_CHARS, MIN_TOKEN_CHARS};
use edge::guard::Guard;
use edge::plane::Settings;
use sandboxes::{Plan, Sandboxes};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Starts the whole plane in this process.
#[derive(Debug, Clone, Args)]
pub struct Dev {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// Port to listen on; 0 takes any free one
    #[arg(long, default_value_t = 18000)]
    pub port: u16,
    /// Folder for everything that must survive
    #[arg(long, default_value = ".sunaba")]
    pub data: PathBuf,
    /// Ask nobody who they are, and take in sandboxes that nobody registered; on a loopback address only
    #[arg(long)]
    pub no_auth: bool,
    /// Have every write reach the disk before it is answered: survives a power cut, at some 400 writes a second
    #[arg(long)]
    pub fsync: bool,
    /// How many events a sandbox may send in a minute
    #[arg(long, env = "SUNABA_EVENTS_PER_MINUTE", default_value_t = Settings::default().events_per_minute)]
    pub events_per_minute: u64,
    /// The operator's token; made up at the first start and kept in the data folder when absent
    #[arg(long, env = "SUNABA_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Secret of users' HS256 tokens
    #[arg(long, env = "SUNABA_JWT_SECRET", hide_env_values = true)]
    pub jwt_secret: Option<String>,
    /// Where the keys of users' RS256 and ES256 tokens are (a JWKS URL)
    #[arg(long, env = "SUNABA_JWKS_URL")]
    pub jwks_url: Option<String>,
    /// The issuer that users' tokens must name
    #[arg(long, env = "SUNABA_JWT_ISSUER")]
    pub jwt_issuer: Option<String>,
    /// The audience that users' tokens must name
    #[arg(long, env = "SUNABA_JWT_AUDIENCE")]
    pub jwt_audience: Option<String>,
    /// Further names under which this server is reached, with commas
    #[arg(long, env = "SUNABA_HOSTS", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Pages elsewhere that may call this server, with commas: `https://console.example`
    #[arg(long, env = "SUNABA_ORIGINS", value_delimiter = ',')]
    pub origins: Vec<String>,
    /// Show the console from this folder instead of the one inside this program: `web/dist`
    #[arg(long, env = "SUNABA_WEB", value_name = "FOLDER")]
    pub web: Option<PathBuf>,
    /// Also serve the AWS of this process on a port of 127.0.0.1, for `cargo lambda watch`; 0 takes any free one. The
    /// variables that functions need are written to lambda.env in the data folder
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "18001")]
    pub serve_aws: Option<u16>,
    /// How long the owner of a socket has to say who they are; the tests are less patient
    #[arg(skip = Settings::default().known_within.as_secs())]
    pub known_within_secs: u64,
    /// How long sockets may stay; the tests are less patient
    #[arg(skip)]
    pub patience: Patience,
    /// What to log: info, debug, edge=debug,info
    #[arg(long, env = "SUNABA_LOG", default_value = "info")]
    pub log: String,
    /// A file of settings: `agent: claude`, one to a line, named as the variables below in small letters and without
    /// SUNABA_ [default: sunaba.yaml in the data folder, if there is one]
    #[arg(long, env = "SUNABA_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Tasks and their sandboxes.
    #[command(flatten)]
    pub sandboxes: Sandboxes,
    /// The program that is a worker, for a plane that is not in a `sunaba`: in the tests
    #[arg(skip)]
    pub worker: Option<PathBuf>,
}

impl Dev {
    /// Complains about everything that does not go together, at once. What is planned for sandboxes, if nothing does.
    pub fn check(&self) -> anyhow::Result<Plan> {
        let values = file::read(self.config.as_deref(), &self.data)?;
        let (plan, mut wrong) = match self.sandboxes.plan(&values) {
            Ok(plan) => (Some(plan), Vec::new()),
            Err(wrong) => (None, wrong),
        };
        if self.no_auth && !self.host.is_loopback() {
            wrong.push(format!("--no-auth needs a loopback address, and --host is {}", self.host));
        }
        if self.token.as_deref().is_some_and(|token| !is_good_token(token)) {
            let rule = "at least 16 letters, digits, '.', '_' or '-', and must not start with swt_";
            wrong.push(format!("SUNABA_TOKEN must have {rule}"));
        }
        if self.jwt_secret.as_ref().is_some_and(|secret| secret.len() < MIN_SECRET_CHARS) {
            wrong.push(format!("SUNABA_JWT_SECRET must have at least {MIN_SECRET_CHARS} characters"));
        }
        for origin in self.origins.iter().filter(|origin| !origin.contains("://") || origin.ends_with('/')) {
            wrong.push(format!("SUNABA_ORIGINS: {origin:?} must look like https://console.example"));
        }
        if let Some(folder) = self.web.as_ref().filter(|folder| !folder.is_dir()) {
            wrong.push(format!("--web: {} is not a folder", folder.display()));
        }
        match plan {
            Some(plan) if wrong.is_empty() => Ok(plan),
            _ => bail!("{}", wrong.join("; ")),
        }
    }

    /// What can be set in the plane.
    pub fn settings(&self) -> Settings {
        Settings {
            events_per_minute: self.events_per_minute,
            adopt_unknown_sandboxes: self.no_auth,
            known_within: Duration::from_secs(self.known_within_secs),
            guard: Guard { hosts: Some(self.hosts.clone()), origins: self.origins.clone() },
            ..Settings::default()
        }
    }

    /// The keys, some of which live in the data folder.
    pub fn keys(&self) -> anyhow::Result<Keys> {
        let operator_token = match &self.token {
            Some(token) => token.clone(),
            None => kept_secret(&self.data.join(OPERATOR_TOKEN))?,
        };
        Ok(Keys {
            worker_secret: kept_secret(&self.data.join(WORKER_SECRET))?,
            operator_token: Some(operator_token),
            user_secret: self.jwt_secret.clone(),
            jwks_url: self.jwks_url.clone(),
            issuer: self.jwt_issuer.clone(),
            audience: self.jwt_audience.clone(),
            open: self.no_auth,
        })
    }
}

/// What is around this process, as far as sandboxes on this machine are concerned.
#[derive(Clone)]
pub struct Surroundings {
    /// The program that is a worker, and its arguments: this one.
    pub worker: Vec<OsString>,
    /// What programs need to work at all: `PATH` and the like.
    pub environment: BTreeMap<String, String>,
    /// Keys of models and of code hosts, for workers.
    pub keys: BTreeMap<String, String>,
    /// Whether there is a `claude`.
    pub has_claude: bool,
}

impl std::fmt::Debug for Surroundings {
    /// Without what the keys are: what is shown ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<_> = self.keys.keys().collect();
        f.debug_struct("Surroundings")
            .field("worker", &self.worker)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

/// What a program of a sandbox has in its environment because this one has it.
const PASSED_ON: [&str; 14] = [
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
/// What a worker is told because this program was told.
const KEYS: [&str; 4] = ["CLAUDE_CODE_OAUTH_TOKEN", "GITHUB_TOKEN", "CLAUDE_PATH", "GH_TOKEN"];

impl Dev {
    /// What is around this process.
    pub fn surroundings(&self) -> anyhow::Result<Surroundings> {
        let mut worker = match &self.worker {
            Some(program) => vec![program.clone().into_os_string()],
            None => vec![this_program()?.into_os_string()],
        };
        worker.push("worker".into());
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            (!value.is_empty()).then_some((name, value))
        });
        let (mut environment, mut keys) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in variables {
            if PASSED_ON.contains(&name.as_str()) {
                environment.insert(name, value);
            } else if KEYS.contains(&name.as_str()) || name.starts_with("ANTHROPIC_") {
                keys.insert(name, value);
            }
        }
        let folders = environment.get("PATH").map(|path| std::env::split_paths(path).collect::<Vec<_>>());
        let on_path = folders.unwrap_or_default().iter().any(|folder| folder.join("claude").is_file());
        let has_claude = on_path || keys.contains_key("CLAUDE_PATH");
        Ok(Surroundings { worker, environment, keys, has_claude })
    }

    /// A name for this plane that it keeps.
    pub fn plane_name(&self) -> anyhow::Result<String> {
        kept_secret(&self.data.join(PLANE_NAME))
    }
}

/// The program that runs.
pub fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find out where this program is")
}

/// The variables with which a function finds the AWS of this process, as a file for `cargo lambda watch --env-file`. It
/// holds the key to everything, so only its owner can read it.
pub fn write_lambda_env(
    data: &Path,
    aws: SocketAddr,
    access_key: &str,
    keys: &Keys,
    callback_url: &str,
) -> anyhow::Result<PathBuf> {
    let mut variables = vec![
        ("AWS_ENDPOINT_URL", format!("http://{aws}")),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", access_key.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", access_key.to_owned()),
        ("SUNABA_FUNCTION", "every-route".to_owned()),
        ("SUNABA_STAGE", "local".to_owned()),
        // A route that asks providers for something needs these too, though no sandbox is created by one.
        ("SUNABA_PLANE", "local".to_owned()),
        ("SUNABA_CALLBACK_URL", callback_url.to_owned()),
        ("SUNABA_TABLE", TABLE.to_owned()),
        ("SUNABA_SOCKETS_URL", format!("http://{aws}")),
        ("SUNABA_MAILBOXES_URL", MAILBOXES_URL.to_owned()),
        ("SUNABA_JOBS_URL", format!("http://{aws}/jobs")),
        ("SUNABA_WORK_URL", format!("http://{aws}/work")),
        ("SUNABA_BUS", "local".to_owned()),
        ("SUNABA_WORKER_SECRET_ID", WORKER_SECRET.to_owned()),
    ];
    let optional = [
        ("SUNABA_OPERATOR_TOKEN_ID", keys.operator_token.as_ref().map(|_| OPERATOR_TOKEN.to_owned())),
        ("SUNABA_JWT_SECRET_ID", keys.user_secret.as_ref().map(|_| JWT_SECRET.to_owned())),
        ("SUNABA_JWKS_URL", keys.jwks_url.clone()),
        ("SUNABA_JWT_ISSUER", keys.issuer.clone()),
        ("SUNABA_JWT_AUDIENCE", keys.audience.clone()),
    ];
    variables.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let path = data.join(LAMBDA_ENV);
    let mut file = owned_file(&path)?;
    file.set_len(0)?;
    for (name, value) in variables {
        writeln!(file, "{name}={value}")?;
    }
    Ok(path)
}

/// Names of the plane's secrets: of their files here, and in the Secrets Manager of this process.
pub const WORKER_SECRET: &str = "worker-secret";
/// As above.
pub const OPERATOR_TOKEN: &str = "operator-token";
/// As above.
pub const JWT_SECRET: &str = "jwt-secret";
/// The file with the plane's own name.
const PLANE_NAME: &str = "plane-name";
/// The file with the variables of functions.
const LAMBDA_ENV: &str = "lambda.env";
/// Files of the data folder that only its owner may read. `sunaba.yaml` may hold the key of a provider.
pub const SECRET_FILES: [&str; 5] = [OPERATOR_TOKEN, WORKER_SECRET, PLANE_NAME, LAMBDA_ENV, file::NAME];

/// A file that only its owner can read.
pub fn owned_file(path: &Path) -> anyhow::Result<fs::File> {
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

/// Whether an address is on this machine.
fn is_local(url: &str) -> bool {
    let host = url.parse::<http::Uri>().ok().and_then(|url| url.host().map(str::to_owned));
    host.is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

/// It stands in a link, and must not look like a worker's.
fn is_good_token(token: &str) -> bool {
    let plain = token.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
    plain && token.len() >= MIN_TOKEN_CHARS && !token.starts_with("swt_")
}

/// A secret in a file that only its owner can read; made at the first start.
fn kept_secret(path: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(path) {
        Ok(secret) if secret.trim().len() >= 16 => Ok(secret.trim().to_owned()),
        Ok(_) => bail!("{} is damaged; remove it to have a new one made", path.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let secret = app::ids::secret();
            // Whole or not at all: half a secret would stop the next start.
            let unfinished = path.with_extension("new");
            let mut file = owned_file(&unfinished)?;
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
    fn only_this_machine_is_local() {
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
