//! The machine of a fake sandbox: a folder, and processes that are marked with it.

use super::lock;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The environment variable that marks the processes of a sandbox.
const MARK: &str = "DAYTONA_FOLDER";

#[derive(Debug)]
pub(super) struct Machine {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// No further command is started.
    ended: bool,
    sessions: BTreeMap<String, Session>,
    commands: Vec<String>,
    /// Process groups of all commands. The environment of a worker is not readable for other processes of its user.
    groups: Vec<Pid>,
}

#[derive(Debug, Default)]
struct Session {
    /// The shell runs one command at a time.
    shell: Arc<tokio::sync::Mutex<()>>,
    commands: Vec<Arc<Mutex<SessionCommand>>>,
}

#[derive(Debug, Clone)]
pub(super) struct SessionCommand {
    pub id: String,
    pub command: String,
    pub exit_code: Option<i32>,
}

impl Machine {
    pub(super) fn new(folder: PathBuf) -> Self {
        fs::create_dir_all(folder.join("home")).expect("a temporary folder can be written to");
        Self { folder, state: Mutex::default() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// All commands of all sessions.
    pub(super) fn commands(&self) -> Vec<String> {
        lock(&self.state).commands.clone()
    }

    /// Writes a file; paths outside of the machine's home are rejected.
    pub(super) fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let path = self.home().join(path);
        let outside =
            !path.starts_with(self.home()) || path.components().any(|part| part.as_os_str() == "..");
        if outside {
            return Err(io::Error::other("the path is outside of this sandbox"));
        }
        fs::create_dir_all(path.parent().expect("it is inside of a folder"))?;
        fs::write(path, content)
    }

    /// Runs a command and waits for it. `None` after the deadline.
    pub(super) async fn run(&self, command: &str, deadline: Duration) -> Option<Output> {
        let child = self.spawn(command, Stdio::piped)?;
        timeout(deadline, child.wait_with_output()).await.ok()?.ok()
    }

    /// Opens a session. Returns `false` if it is already open.
    pub(super) fn open(&self, session: &str) -> bool {
        let mut state = lock(&self.state);
        let new = !state.sessions.contains_key(session);
        state.sessions.entry(session.to_owned()).or_default();
        new
    }

    /// Removes a session. Daytona also kills its processes; the plane closes only sessions whose shell has exited.
    pub(super) fn close(&self, session: &str) -> bool {
        lock(&self.state).sessions.remove(session).is_some()
    }

    /// The commands of an open session.
    pub(super) fn session(&self, session: &str) -> Option<Vec<SessionCommand>> {
        let state = lock(&self.state);
        Some(state.sessions.get(session)?.commands.iter().map(|command| lock(command).clone()).collect())
    }

    /// Runs a command in a session, after its earlier commands.
    pub(super) fn run_in(self: &Arc<Self>, session: &str, command: &str) -> Option<String> {
        let mut state = lock(&self.state);
        let number = state.commands.len() + 1;
        let session = state.sessions.get_mut(session)?;
        let id = format!("command-{number}");
        let entry = SessionCommand { id: id.clone(), command: command.to_owned(), exit_code: None };
        let entry = Arc::new(Mutex::new(entry));
        session.commands.push(entry.clone());
        let shell = session.shell.clone();
        state.commands.push(command.to_owned());
        let (machine, command) = (self.clone(), command.to_owned());
        tokio::spawn(async move {
            let _guard = shell.lock().await;
            let status = match machine.spawn(&command, Stdio::null) {
                Some(mut child) => child.wait().await.ok(),
                None => None,
            };
            lock(&entry).exit_code = Some(status.and_then(|status| status.code()).unwrap_or(-1));
        });
        Some(id)
    }

    fn spawn(&self, command: &str, output: fn() -> Stdio) -> Option<Child> {
        // Held until the process exists, so that `end` finds it.
        let mut state = lock(&self.state);
        if state.ended {
            return None;
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.home()).env_clear();
        shell.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.home()).env(MARK, &self.folder);
        shell.stdin(Stdio::null()).stdout(output()).stderr(output()).process_group(0);
        let child = shell.spawn().ok()?;
        state.groups.extend(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        Some(child)
    }

    /// Ids of all processes of this machine.
    pub(super) fn processes(&self) -> Vec<i32> {
        let mark = [MARK.as_bytes(), b"=", self.folder.as_os_str().as_encoded_bytes()].concat();
        let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        ids.filter(|id| {
            // A zombie has no environment.
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == mark)
        })
        .collect()
    }

    /// Kills all processes and prevents new ones. The folder stays until the fake is dropped.
    pub(super) fn end(&self) {
        let groups = {
            let mut state = lock(&self.state);
            state.ended = true;
            std::mem::take(&mut state.groups)
        };
        for group in groups {
            // An error means that the group has no process left, which is fine.
            let _ = kill_process_group(group, Signal::KILL);
        }
        loop {
            let processes = self.processes();
            if processes.is_empty() {
                break;
            }
            for id in processes {
                let _ = Pid::from_raw(id).map(|id| kill_process(id, Signal::KILL));
            }
            std::thread::yield_now();
        }
        let _ = fs::remove_dir_all(self.home());
    }
}
