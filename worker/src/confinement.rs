//! The trust domain of the agent: which directories, variables and programs of the sandbox it has.
//!
//! The worker holds secrets and a record of the agent's work, and the agent must not read the first or change the second.
//! So everything that runs what the agent wrote is started by one [`Launcher`]: the agent, its terminals, the test command,
//! and git in its workspace. `confine` enforces the boundary.

use crate::config::{HIDDEN_FROM_AGENT, SECRETS};
use anyhow::Context;
use confine::{Gap, Launcher, Policy, Setting, Tier};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// What the agent gets, as configured.
#[derive(Clone, PartialEq, Eq)]
pub struct Confinement {
    pub setting: Setting,
    /// The agent's home directory.
    pub home: PathBuf,
    /// Its `TMPDIR`, if it has one.
    pub temporary: Option<PathBuf>,
    pub policy: Policy,
    /// Whether directories or limits of the project's policy are part of it.
    pub has_policy: bool,
    /// Variables of everything that is started.
    pub environment: BTreeMap<String, String>,
    /// Further variables of the agent itself, such as the key of its model.
    pub agent_environment: BTreeMap<String, String>,
}

/// Variables that the agent's programs get from the worker's environment.
const INHERITED: [&str; 30] = [
    "PATH",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLORTERM",
    "SHELL",
    "USER",
    "LOGNAME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "IS_SANDBOX",
    "SANDBOX_ID",
    "TASK_ID",
    "TICKET_ID",
    "RUSTUP_HOME",
    "JAVA_HOME",
    // With it, the provider of local sandboxes finds their processes.
    "SANDBOX_FOLDER",
];

/// Beginnings of the names of such variables.
const INHERITED_PREFIXES: [&str; 1] = ["LC_"];

impl Confinement {
    /// Selects the variables of the agent's programs. `declared` are the names of those that the task has. `of_agents` are
    /// those of agents, and `prefixes` the beginnings of the names of further ones. `keys` stay with the worker, which gives
    /// the agent worthless ones instead.
    pub fn select_variables(
        &mut self,
        all: &BTreeMap<String, String>,
        declared: &[String],
        (of_agents, prefixes, keys): (&[&str], &[&str], &[&str]),
    ) {
        let own =
            |name: &str| HIDDEN_FROM_AGENT.contains(&name) || SECRETS.contains(&name) || keys.contains(&name);
        for (name, value) in all.iter().filter(|(name, value)| !own(name) && !value.is_empty()) {
            let name = name.as_str();
            let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
            let is_inherited = INHERITED.contains(&name) || starts_with(&INHERITED_PREFIXES);
            let environment = if of_agents.contains(&name) || starts_with(prefixes) {
                &mut self.agent_environment
            } else if is_inherited || declared.iter().any(|declared| declared == name) {
                &mut self.environment
            } else {
                continue;
            };
            environment.insert(name.to_owned(), value.clone());
        }
        self.environment.insert("HOME".to_owned(), self.home.display().to_string());
        if let Some(temporary) = &self.temporary {
            self.environment.insert("TMPDIR".to_owned(), temporary.display().to_string());
        }
    }

    /// The launcher for all programs of the agent. `program` is the command line of the worker. Creates the agent's
    /// directories. Those that exist, such as the workspace, are given to the user of the agent, if it has one of its own.
    ///
    /// # Errors
    /// If the tier cannot be enforced, or a directory cannot be created.
    pub fn launcher(&self, tier: Tier, program: Vec<String>) -> anyhow::Result<Launcher> {
        let directories = self.policy.writable.iter().chain([&self.home]).chain(&self.temporary);
        for directory in directories {
            create(directory)?;
        }
        let mut policy = self.policy.clone();
        if tier != Tier::None {
            for paths in [&mut policy.writable, &mut policy.hidden] {
                // Mounts are at the real path, which a program gets as its working directory.
                paths
                    .iter_mut()
                    .for_each(|path| *path = path.canonicalize().unwrap_or_else(|_| path.clone()));
            }
        }
        Launcher::new(tier, policy, program, self.environment.clone())
    }

    /// What a program that this launcher starts can still do, in short sentences for people.
    pub fn not_covered(&self, launcher: &Launcher) -> Vec<String> {
        let of_policy = self.has_policy && launcher.tier() == Tier::None;
        let of_policy =
            of_policy.then(|| "Directories and limits of the project's policy are not enforced.".to_owned());
        launcher.gaps().iter().map(Gap::to_string).chain(of_policy).collect()
    }

    /// For `check`.
    pub fn describe(&self) -> String {
        match self.setting {
            Setting::Exactly(Tier::None) => "none".to_owned(),
            setting => match setting.resolve("ISOLATION") {
                Ok(tier) if setting == Setting::Auto => format!("{tier} (auto)"),
                Ok(tier) => tier.to_string(),
                Err(why) => format!("not possible: {why:#}"),
            },
        }
    }
}

/// Ports of the loopback in the values of these variables: the endpoints and the proxy of the worker.
pub(crate) fn loopback_ports<'a>(variables: impl IntoIterator<Item = &'a (String, String)>) -> Vec<u16> {
    let hosts = ["127.0.0.1:", "localhost:", "[::1]:"];
    let after = variables.into_iter().flat_map(|(_, value)| hosts.map(|host| value.split(host).skip(1)));
    let numbers = after.flatten().map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    numbers.filter_map(|number| number?.parse().ok()).collect()
}

fn create(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))
}

impl fmt::Debug for Confinement {
    /// Omits the values of variables, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |variables: &BTreeMap<String, String>| variables.keys().cloned().collect::<Vec<_>>();
        f.debug_struct("Confinement")
            .field("setting", &self.setting)
            .field("policy", &self.policy)
            .field("environment", &names(&self.environment))
            .field("agent_environment", &names(&self.agent_environment))
            .finish_non_exhaustive()
    }
}

/// Starts programs with the permissions and the variables of this test.
#[cfg(test)]
pub(crate) fn unconfined() -> Launcher {
    Launcher::unconfined(crate::config::environment())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_endpoints_and_of_the_proxy_are_found() {
        let variables = [
            ("ANTHROPIC_BASE_URL", "http://127.0.0.1:4001/model"),
            ("HTTPS_PROXY", "http://agent:key@127.0.0.1:4002"),
            ("GIT_CONFIG_KEY_0", "url.http://localhost:4003/.insteadOf"),
            ("NO_PROXY", "127.0.0.1,localhost,::1"),
            ("OTHER", "http://10.0.0.1:4004 localhost:99999"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(loopback_ports(&variables), [4001, 4002, 4003]);
    }
}
