//! What a sandbox is here: a folder, and processes that are known by it.

use super::lock;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The variable by which a process of a sandbox is known.
const MARK: &str = "DAYTONA_FOLDER";

/// One machine.
#[derive(Debug)]
pub(super) struct Machine {
    folder: PathBuf,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    /// Nothing is run in it any more.
    ended: bool,
    sessions: BTreeMap<String, Session>,
    commands: Vec<String>,
}

#[derive(Debug, Default)]
struct Session {
    /// Its shell runs one command at a time.
    shell: Arc<tokio::sync::Mutex<()>>,
    commands: Vec<Arc<Mutex<Ran>>>,
}

/// A command of a session.
#[derive(Debug, Clone)]
pub(super) struct Ran {
    pub id: String,
    pub command: String,
    pub exit_code: Option<i32>,
}

impl Machine {
    pub(super) fn new(folder: PathBuf) -> Self {
        fs::create_dir_all(folder.join("home")).expect("a temporary folder can be written to");
        Self { folder, inside: Mutex::default() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// Every command that a session was told to run.
    pub(super) fn commands(&self) -> Vec<String> {
        lock(&self.inside).commands.clone()
    }

    /// Writes a file, if it is one of this machine's.
    pub(super) fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let path = self.home().join(path);
        let outside =
            !path.starts_with(self.home()) || path.components().any(|part| part.as_os_str() == "..");
        if outside {
            return Err(io::Error::other("that is no path of this sandbox"));
        }
        fs::create_dir_all(path.parent().expect("it is inside of a folder"))?;
        fs::write(path, content)
    }

    /// Runs a command to its end.
    pub(super) async fn run(&self, command: &str, deadline: Duration) -> Option<Output> {
        let ran = self.spawn(command, Stdio::piped)?;
        timeout(deadline, ran.wait_with_output()).await.ok()?.ok()
    }

    /// Opens a session, unless it is open.
    pub(super) fn open(&self, session: &str) -> bool {
        let mut inside = lock(&self.inside);
        let new = !inside.sessions.contains_key(session);
        inside.sessions.entry(session.to_owned()).or_default();
        new
    }

    /// Forgets a session. Theirs ends what runs in it, too; the plane closes only those whose shell is gone.
    pub(super) fn close(&self, session: &str) -> bool {
        lock(&self.inside).sessions.remove(session).is_some()
    }

    /// What a session was told to run, if it is open.
    pub(super) fn session(&self, session: &str) -> Option<Vec<Ran>> {
        let inside = lock(&self.inside);
        Some(inside.sessions.get(session)?.commands.iter().map(|ran| lock(ran).clone()).collect())
    }

    /// Has a session run a command, after those that it was told before.
    pub(super) fn run_in(self: &Arc<Self>, session: &str, command: &str) -> Option<String> {
        let mut inside = lock(&self.inside);
        let number = inside.commands.len() + 1;
        let session = inside.sessions.get_mut(session)?;
        let id = format!("command-{number}");
        let ran = Ran { id: id.clone(), command: command.to_owned(), exit_code: None };
        let ran = Arc::new(Mutex::new(ran));
        session.commands.push(ran.clone());
        let shell = session.shell.clone();
        inside.commands.push(command.to_owned());
        let (machine, command) = (self.clone(), command.to_owned());
        tokio::spawn(async move {
            let _turn = shell.lock().await;
            let status = match machine.spawn(&command, Stdio::null) {
                Some(mut child) => child.wait().await.ok(),
                None => None,
            };
            lock(&ran).exit_code = Some(status.and_then(|status| status.code()).unwrap_or(-1));
        });
        Some(id)
    }

    fn spawn(&self, command: &str, output: fn() -> Stdio) -> Option<Child> {
        // Held until it runs: whoever ends the machine must find it.
        let inside = lock(&self.inside);
        if inside.ended {
            return None;
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.home()).env_clear();
        shell.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.home()).env(MARK, &self.folder);
        shell.stdin(Stdio::null()).stdout(output()).stderr(output()).process_group(0);
        shell.spawn().ok()
    }

    /// Who runs in it.
    pub(super) fn processes(&self) -> Vec<i32> {
        let mark = [MARK.as_bytes(), b"=", self.folder.as_os_str().as_encoded_bytes()].concat();
        let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        ids.filter(|id| {
            // Of one that has ended and was not waited for there is no environment.
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == mark)
        })
        .collect()
    }

    /// Ends everything in it, for good. The folder stays until the Daytona is gone.
    pub(super) fn end(&self) {
        lock(&self.inside).ended = true;
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
