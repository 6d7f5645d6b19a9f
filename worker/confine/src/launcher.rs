//! Wraps commands for the tier in force.

use crate::gap::{self, Conditions, Gap};
use crate::helper::{HELPER_COMMAND, Restrictions, wrapped_name};
use crate::namespace::{ENTER_COMMAND, NetworkNamespace};
use crate::policy::Policy;
use crate::tier::{Tier, available};
use crate::user::{self, User};
use crate::{bubblewrap, programs, seatbelt};
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;

/// Starts programs with a policy, a tier and an environment. Cheap to clone.
#[derive(Clone)]
pub struct Launcher {
    tier: Tier,
    policy: Arc<Policy>,
    /// Command line of this program. [`HELPER_COMMAND`] follows it.
    program: Arc<Vec<String>>,
    environment: Arc<BTreeMap<String, String>>,
    bubblewrap: PathBuf,
    private: Arc<Vec<PathBuf>>,
    /// What the operator made readable, at real paths.
    chosen: Arc<Vec<PathBuf>>,
    network: Option<NetworkNamespace>,
    /// The user that programs run as, if not that of the worker.
    user: Option<User>,
    /// Why a worker that runs as root shares its user with its programs, if so.
    shared_user: Option<Arc<str>>,
    /// Ports of the loopback that programs may connect to, where connections can be restricted without a namespace.
    ports: Arc<Vec<u16>>,
}

/// Variables by which processes of a sandbox are found. The programs around a confined one have them, too.
const MARKERS: [&str; 2] = ["SANDBOX_FOLDER", "SUNABA_AGENT_MARKER"];

impl Launcher {
    /// `program` is the command line of this program. Programs that are started get `environment` and nothing else. If they
    /// run as another user than this process, the writable directories, which exist, are given to it.
    ///
    /// # Errors
    /// If the tier does not work on this machine, the policy contradicts itself, or a writable directory is not one to give
    /// away, such as a home directory.
    pub fn new(
        tier: Tier,
        mut policy: Policy,
        program: Vec<String>,
        mut environment: BTreeMap<String, String>,
    ) -> anyhow::Result<Self> {
        let mut bubblewrap = PathBuf::new();
        let (mut user, mut shared_user) = (None, None);
        if tier != Tier::None {
            policy.check()?;
            let available = available();
            match tier {
                Tier::Namespaces => bubblewrap = available.bubblewrap.clone().map_err(|why| anyhow!(why))?,
                Tier::SandboxExec => available.sandbox_exec.clone().map_err(|why| anyhow!(why))?,
                Tier::Landlock | Tier::None => {
                    available.landlock.clone().map_err(|why| anyhow!(why))?;
                }
            }
            let path = environment.get("PATH").map(OsString::from).unwrap_or_default();
            let needed = programs::needed_by_path(&path);
            policy.readable.extend(needed.readable);
            for (name, value) in needed.variables {
                environment.entry(name).or_insert(value);
            }
            // The helper.
            policy.readable.extend(program.first().map(PathBuf::from));
            if tier == Tier::SandboxExec {
                // Its rules apply to real paths.
                let real = policy.readable.iter().filter_map(|path| path.canonicalize().ok());
                policy.readable = real.collect();
            }
            policy.remove_nested();
            if tier == Tier::Landlock {
                match user::assign(Path::new(environment.get("HOME").map_or("/", String::as_str))) {
                    Ok(found) => user = found,
                    Err(why) => shared_user = Some(why.into()),
                }
            }
        }
        if let Some(user) = user {
            assign_directories(user, &policy)?;
            for name in ["USER", "LOGNAME"] {
                environment.insert(name.to_owned(), NAME_OF_USER.to_owned());
            }
        }
        let chosen = policy.readable.iter().filter_map(|path| path.canonicalize().ok()).collect();
        Ok(Self {
            tier,
            chosen: Arc::new(chosen),
            policy: Arc::new(policy),
            program: Arc::new(program),
            environment: Arc::new(environment),
            bubblewrap,
            private: Arc::new(private_files(tier)),
            network: None,
            user,
            shared_user,
            ports: Arc::default(),
        })
    }

    /// Starts programs without restrictions, with this environment.
    pub fn unconfined(environment: BTreeMap<String, String>) -> Self {
        Self {
            tier: Tier::None,
            policy: Arc::default(),
            program: Arc::default(),
            environment: Arc::new(environment),
            bubblewrap: PathBuf::new(),
            private: Arc::default(),
            chosen: Arc::default(),
            network: None,
            user: None,
            shared_user: None,
            ports: Arc::default(),
        }
    }

    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// What a program can still do.
    pub fn gaps(&self) -> Vec<Gap> {
        let conditions = Conditions {
            landlock: &available().landlock,
            worker_is_root: is_root(),
            has_own_user: self.has_own_user(),
            shared_user: self.shared_user.as_deref(),
        };
        gap::gaps(self.tier, conditions)
    }

    /// Whether programs run as another user than this process.
    pub fn has_own_user(&self) -> bool {
        self.user.is_some()
    }

    /// Gives an existing directory to the user of the programs, if they have one of their own. Links are not followed, and
    /// files of other users than root and agents stay as they are.
    ///
    /// # Errors
    /// If the owner cannot be changed, or others need the directory.
    pub fn change_owner_of_tree(&self, directory: &Path) -> io::Result<()> {
        self.user.map_or(Ok(()), |user| user.change_owner_of_tree(directory))
    }

    /// Whether the permissions of a file let the user of the programs read it, if they have one of their own.
    pub fn may_read(&self, file: &Metadata) -> bool {
        self.user.is_none_or(|user| user.may_read(file))
    }

    /// With ports of the loopback that programs may connect to. Only `sandbox-exec` restricts the others.
    #[must_use]
    pub fn with_ports(&self, ports: impl IntoIterator<Item = u16>) -> Self {
        let mut launcher = self.clone();
        Arc::make_mut(&mut launcher.ports).extend(ports);
        launcher
    }

    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// With further variables. Those that exist are replaced.
    #[must_use]
    pub fn with_variables(&self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut launcher = self.clone();
        Arc::make_mut(&mut launcher.environment).extend(variables);
        launcher
    }

    /// With further directories that the program may change.
    #[must_use]
    pub fn with_writable(&self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut launcher = self.clone();
        let policy = Arc::make_mut(&mut launcher.policy);
        policy.writable.extend(directories);
        policy.remove_nested();
        launcher
    }

    /// With further files or directories that the program may read, as far as their permissions allow it. A user of its own
    /// may pass through closed directories above them only if [`Launcher::new`] was given a directory that contains them: the
    /// author of a task may have chosen the path.
    #[must_use]
    pub fn with_readable(&self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut launcher = self.clone();
        let policy = Arc::make_mut(&mut launcher.policy);
        let paths: Vec<PathBuf> = paths.into_iter().collect();
        let real = paths.iter().filter_map(|path| path.canonicalize().ok());
        real.filter(|real| self.chosen.iter().any(|chosen| real.starts_with(chosen)))
            .for_each(|real| self.grant_search(&real));
        policy.readable.extend(paths);
        policy.remove_nested();
        launcher
    }

    /// Whether the policy hides a path, or what it leads to.
    pub fn hides(&self, path: &Path) -> bool {
        let real = path.canonicalize();
        let paths = [Some(path), real.as_deref().ok()].into_iter().flatten();
        paths.into_iter().any(|path| self.policy.hidden.iter().any(|hidden| path.starts_with(hidden)))
    }

    fn grant_search(&self, path: &Path) {
        if let Some(user) = self.user {
            // A path that stays closed is reported by the program that needs it.
            drop(user.grant_search_on_ancestors(path));
        }
    }

    /// With these as the only directories that the program may change.
    #[must_use]
    pub fn with_only_writable(&self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut launcher = self.clone();
        Arc::make_mut(&mut launcher.policy).writable = directories.into_iter().collect();
        launcher
    }

    /// With the network of this namespace instead of the machine's.
    #[must_use]
    pub fn with_network(&self, namespace: NetworkNamespace) -> Self {
        Self { network: Some(namespace), ..self.clone() }
    }

    /// A command that runs this program in a new network namespace, which has a loopback interface and nothing else. The
    /// program may change only `directory`, which is also its working directory. `None` if the tier shares the network.
    pub fn namespace_command(
        &self,
        arguments: impl IntoIterator<Item = String>,
        directory: &Path,
    ) -> Option<Command> {
        if self.tier != Tier::Namespaces {
            return None;
        }
        let mut command = plain(&self.bubblewrap);
        command.args(bubblewrap::namespace_arguments(directory));
        command.args(&*self.program).args(arguments);
        Some(command)
    }

    /// With what a program needs that the operator has chosen, wherever it is. Not for programs that an agent asks for: it
    /// could make files visible in this way.
    #[must_use]
    pub fn with_program(&self, program: &OsStr, cwd: &Path) -> Self {
        let found = programs::find(program, self.path(), cwd).and_then(|found| found.canonicalize());
        match found {
            Ok(found) if self.tier != Tier::None && !self.policy.shows(&found) => {
                let needed = programs::needed_by_program(&found);
                self.grant_search(&needed);
                self.with_readable([needed])
            }
            // A missing program is reported when it is started.
            _ => self.clone(),
        }
    }

    fn path(&self) -> &OsStr {
        self.environment.get("PATH").map(OsStr::new).unwrap_or_default()
    }

    /// The command that runs a program in `cwd`. A bare name is looked up in `PATH`. The caller sets the standard streams.
    /// Variables are those of [`Launcher::with_variables`]: what the caller adds to the command is outside of the program's
    /// trust domain, and does not reach it.
    ///
    /// # Errors
    /// If the program does not exist or is not executable.
    pub fn command(
        &self,
        program: &OsStr,
        arguments: impl IntoIterator<Item = OsString>,
        cwd: &Path,
    ) -> io::Result<Command> {
        let file = programs::find(program, self.path(), cwd)?;
        if self.tier == Tier::None {
            let mut command = plain(&file);
            // Programs that are one file with several names choose by it.
            command.arg0(program).args(arguments).current_dir(cwd).envs(self.environment.iter());
            return Ok(command);
        }
        let file = if self.policy.shows(&file) { file } else { file.canonicalize()? };
        if !self.policy.shows(&file) {
            // As if it did not exist: it does not, for the program that asks for it.
            return Err(io::Error::new(io::ErrorKind::NotFound, "No such program"));
        }
        if self.tier == Tier::SandboxExec {
            let mut command = plain(Path::new(seatbelt::PROGRAM));
            command.arg("-p").arg(seatbelt::profile(&self.policy, &self.ports)).arg(&file);
            command.args(arguments).current_dir(cwd).envs(self.environment.iter());
            return Ok(command);
        }
        let helper = self.helper(program, &file)?;
        let mut words = Vec::new();
        if self.tier == Tier::Namespaces {
            if let Some(namespace) = &self.network {
                words.extend(self.program()?);
                words.push(ENTER_COMMAND.into());
                words.extend(namespace.arguments());
            }
            words.push(self.bubblewrap.clone().into());
            words.extend(bubblewrap::arguments(&self.policy, &self.private, cwd));
        }
        words.extend(helper);
        let mut command = plain(Path::new(&words[0]));
        command.args(&words[1..]).args(arguments).current_dir(cwd);
        // The agent chooses variables of its terminals. The dynamic linker of the programs around them, which run outside,
        // must not find them: `LD_PRELOAD` would run code of the agent there.
        command.envs(self.environment.iter().map(|(name, value)| (wrapped_name(name), value)));
        command.envs(MARKERS.into_iter().filter_map(|name| Some((name, self.environment.get(name)?))));
        Ok(command)
    }

    /// Command line of this program.
    fn program(&self) -> io::Result<impl Iterator<Item = OsString>> {
        if self.program.is_empty() {
            return Err(io::Error::other("the path of this program is unknown"));
        }
        Ok(self.program.iter().map(OsString::from))
    }

    /// Command line of the helper, up to the arguments of the program.
    fn helper(&self, name: &OsStr, file: &Path) -> io::Result<Vec<OsString>> {
        let restrictions = Restrictions {
            policy: (*self.policy).clone(),
            private: self.private.to_vec(),
            own_mounts: self.tier == Tier::Namespaces,
            landlock: available().landlock.is_ok(),
            user: self.user,
        };
        let restrictions = serde_json::to_string(&restrictions)?;
        let mut words: Vec<OsString> = self.program()?.collect();
        words.extend([HELPER_COMMAND.into(), restrictions.into(), name.to_owned(), file.into()]);
        Ok(words)
    }
}

impl fmt::Debug for Launcher {
    /// Omits the values of the variables, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launcher")
            .field("tier", &self.tier)
            .field("policy", &self.policy)
            .field("variables", &self.environment.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// `USER` of programs that have a user of their own, which has no account.
const NAME_OF_USER: &str = "agent";

/// Gives the user everything that it may change, and the way to what it may read.
fn assign_directories(user: User, policy: &Policy) -> anyhow::Result<()> {
    let failed = |directory: &PathBuf| format!("cannot give {} to the agent's user", directory.display());
    // Before the first is given away.
    for directory in &policy.writable {
        user.check_tree(directory).with_context(|| failed(directory))?;
    }
    for directory in &policy.writable {
        user.change_owner_of_tree(directory).with_context(|| failed(directory))?;
    }
    // A path that stays closed is reported by the program that needs it.
    policy.readable.iter().for_each(|path| drop(user.grant_search_on_ancestors(path)));
    Ok(())
}

/// A command without inherited environment.
pub(crate) fn plain(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    command
}

/// The signal that killed the program. Bubblewrap, like a shell, exits with 128 and the number of the signal.
pub fn exit_signal(tier: Tier, status: ExitStatus) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    let wrapped = || status.code().map(|code| code - 128).filter(|signal| (1..=64).contains(signal));
    status.signal().or_else(|| wrapped().filter(|_| tier == Tier::Namespaces))
}

#[cfg(target_os = "linux")]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(target_os = "linux"))]
fn is_root() -> bool {
    false
}

#[cfg(target_os = "linux")]
fn private_files(tier: Tier) -> Vec<PathBuf> {
    // Other users cannot read them anyway.
    if is_root() && tier != Tier::None { crate::policy::private_files_of_the_system() } else { Vec::new() }
}

#[cfg(not(target_os = "linux"))]
fn private_files(_tier: Tier) -> Vec<PathBuf> {
    Vec::new()
}
