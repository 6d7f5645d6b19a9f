//! What workers get from this process and from files: their command line, variables and policies.

use super::{Dev, this_executable, variables};
use crate::agents::agents;
use anyhow::{Context, bail};
use app::orchestration::WorkerVariables;
use code_hosts::CODE_HOSTS;
use contract::policy::{PolicyError, PolicyFile};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
/// Such variables, besides those of agents and code hosts.
const WORKER_KEYS: [&str; 3] = ["GH_TOKEN", "GITHUB_REPOSITORIES", "CLAUDE_PATH"];
const WORKER_KEY_PREFIX: &str = "ANTHROPIC_";

/// Variables of tasks that the plane takes from its own environment: those of code hosts, and keys and URLs of agents.
pub fn worker_keys() -> Vec<&'static str> {
    let of_agents = agents().into_iter().flat_map(|agent| agent.secrets.iter().chain(agent.urls));
    let of_code_hosts = CODE_HOSTS.iter().flat_map(|kind| kind.variables).map(|variable| variable.name);
    let names = WORKER_KEYS.iter().chain(of_agents).copied();
    let names: BTreeSet<&str> = names.chain(of_code_hosts).collect();
    names.into_iter().filter(|name| !name.starts_with(WORKER_KEY_PREFIX)).collect()
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
        let (mut environment, mut keys) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in variables() {
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
}

/// Whether the value of a worker's variable is a secret.
fn is_secret(name: &str) -> bool {
    let of_agents = agents().into_iter().flat_map(|agent| agent.secrets);
    let of_code_hosts = CODE_HOSTS.iter().flat_map(|kind| kind.variables).filter(|variable| variable.secret);
    worker::config::SECRETS.iter().chain(of_agents).any(|secret| *secret == name)
        || of_code_hosts.into_iter().any(|variable| variable.name == name)
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
}
