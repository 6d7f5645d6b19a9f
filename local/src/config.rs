//! What `sunaba` is told: flags over environment over defaults. The only file here that reads the environment.

use crate::aws::{MAILBOXES_URL, TABLE};
use crate::hosts::ws::Patience;
use anyhow::{Context, bail};
use clap::Args;
use edge::auth::{Keys, MIN_SECRET_CHARS, MIN_TOKEN_CHARS};
use edge::guard::Guard;
use edge::plane::Settings;
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
}

impl Dev {
    /// Complains about everything that does not go together, at once.
    pub fn check(&self) -> anyhow::Result<()> {
        let mut wrong = Vec::new();
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
        if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("; ")) }
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

/// Says something to a working agent.
#[derive(Debug, Clone, Args)]
pub struct Send {
    /// The sandbox
    pub sandbox: String,
    /// What to say; when absent it is read from standard input, and --interrupt and --stop say "Stop."
    pub text: Option<String>,
    /// Stop what the agent does, and have it read this; overtakes other messages
    #[arg(long, short, conflicts_with = "stop")]
    pub interrupt: bool,
    /// Stop everything, also what the agent was told and has not begun; overtakes other messages
    #[arg(long)]
    pub stop: bool,
    /// What it is meant to do: user_message, interrupt, stop, guidance or system
    #[arg(
        long = "type",
        value_name = "TYPE",
        default_value = "user_message",
        conflicts_with_all = ["interrupt", "stop"]
    )]
    pub message_type: String,
    /// A name for the message: sent again under the same name, it is the same message
    #[arg(long)]
    pub id: Option<String>,
    /// Stay until the agent is done with it, and show each step; fails if it is cancelled
    #[arg(long, short)]
    pub watch: bool,
    /// Where the plane is
    #[arg(long, env = "SUNABA_URL", default_value = "http://127.0.0.1:18000")]
    pub url: String,
    /// Where its sockets are, if they are elsewhere: `wss://…`; for --watch
    #[arg(long, env = "SUNABA_SOCKETS")]
    pub sockets: Option<String>,
    /// A token that may send; when absent and the plane is on this machine, that of its data folder
    #[arg(long, env = "SUNABA_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Folder of the local plane, which keeps its token
    #[arg(long, default_value = ".sunaba")]
    pub data: PathBuf,
}

impl Send {
    /// The token to send with; `None` where none is known: a plane may ask nobody.
    pub fn token(&self) -> anyhow::Result<Option<String>> {
        // The local plane's token is nobody else's business.
        if self.token.is_some() || !is_local(&self.url) {
            return Ok(self.token.clone());
        }
        let path = self.data.join(OPERATOR_TOKEN);
        match fs::read_to_string(&path) {
            Ok(token) => Ok(Some(token.trim().to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
}

/// The variables with which a function finds the AWS of this process, as a file for `cargo lambda watch --env-file`. It
/// holds the key to everything, so only its owner can read it.
pub fn write_lambda_env(
    data: &Path,
    aws: SocketAddr,
    access_key: &str,
    keys: &Keys,
) -> anyhow::Result<PathBuf> {
    let mut variables = vec![
        ("AWS_ENDPOINT_URL", format!("http://{aws}")),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", access_key.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", access_key.to_owned()),
        ("SUNABA_STAGE", "local".to_owned()),
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
    let path = data.join("lambda.env");
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
            let secret = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
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
