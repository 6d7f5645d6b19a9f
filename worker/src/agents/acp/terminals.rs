//! Terminals that an agent opens through the worker: commands in its workspace with bounded output.

use super::files::Workspace;
use super::output::Output;
use crate::agents::ExitReason;
use crate::agents::process::{Process, ProcessSpec};
use agent_client_protocol_schema::v1::{CreateTerminalRequest, Error, ErrorCode};
use confine::Launcher;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Maximum output kept per terminal, regardless of the limit that the agent requests.
pub const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// Maximum number of open terminals.
const MAX_TERMINALS: usize = 64;

/// Number of released terminals whose output is kept, because agents release a terminal before they complete its tool
/// call.
const MAX_RELEASED: usize = 16;

/// How long to wait for remaining output after a command exited. A descendant may hold the pipe open indefinitely.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// How long closing all terminals may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The terminals of one agent. Clones share their state.
#[derive(Debug, Clone)]
pub struct Terminals {
    workspace: Workspace,
    launcher: Launcher,
    env: Vec<(String, String)>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    count: u64,
    open: HashMap<String, Arc<Terminal>>,
    released: VecDeque<(String, String)>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Terminal {
    output: Mutex<Output>,
    /// Number of open pipes.
    readers: watch::Sender<u8>,
    exit: watch::Sender<Option<Value>>,
    desired: watch::Sender<DesiredState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DesiredState {
    Running,
    Killed,
    Released,
}

impl Terminals {
    /// Commands get the agent's environment.
    pub fn new(workspace: Workspace, launcher: Launcher, env: Vec<(String, String)>) -> Self {
        Self { workspace, launcher, env, shared: Arc::default() }
    }

    /// Runs a command. A command without arguments is run by a shell, as agents expect.
    ///
    /// # Errors
    /// When the working directory is outside of the workspace or the command cannot be started.
    pub fn create(&self, request: &CreateTerminalRequest) -> Result<String, Error> {
        let cwd = self.workspace.directory(request.cwd.as_deref())?;
        let mut env = self.env.clone();
        env.extend(request.env.iter().map(|variable| (variable.name.clone(), variable.value.clone())));
        let (program, arguments) = if request.args.is_empty() {
            ("sh".into(), vec!["-c".into(), request.command.clone().into()])
        } else {
            (request.command.clone().into(), request.args.iter().map(Into::into).collect())
        };
        let spec = ProcessSpec { launcher: self.launcher.clone(), program, arguments, env, cwd };
        let mut shared = self.shared();
        if shared.open.len() >= MAX_TERMINALS {
            return Err(invalid(format!("{MAX_TERMINALS} terminals are open. Release one first.")));
        }
        let (process, pipes) = Process::spawn(&spec)
            .map_err(|error| invalid(format!("Cannot start {}: {error}.", request.command)))?;
        let requested = request.output_byte_limit.and_then(|limit| usize::try_from(limit).ok());
        let limit = requested.unwrap_or(MAX_OUTPUT_BYTES).min(MAX_OUTPUT_BYTES);
        let terminal = Arc::new(Terminal {
            output: Mutex::new(Output::new(limit)),
            readers: watch::Sender::new(0),
            exit: watch::Sender::new(None),
            desired: watch::Sender::new(DesiredState::Running),
        });
        shared.count += 1;
        let id = format!("terminal-{}", shared.count);
        shared.open.insert(id.clone(), Arc::clone(&terminal));
        shared.tasks.spawn(async move {
            let read = async {
                tokio::join!(terminal.follow(pipes.stdout), terminal.follow(pipes.stderr));
            };
            tokio::join!(read, terminal.run(process));
        });
        while let Some(ended) = shared.tasks.try_join_next() {
            if let Err(why) = ended {
                tracing::error!("A terminal of the agent failed: {why}");
            }
        }
        Ok(id)
    }

    /// The output so far, and the exit status if the command has exited.
    ///
    /// # Errors
    /// When there is no such terminal.
    pub fn output(&self, id: &str) -> Result<Value, Error> {
        let terminal = self.open(id)?;
        let (output, truncated) = terminal.text();
        let mut response = json!({ "output": output, "truncated": truncated });
        if let Some(exit) = &*terminal.exit.borrow() {
            response["exitStatus"] = exit.clone();
        }
        Ok(response)
    }

    /// Waits until the command has exited.
    ///
    /// # Errors
    /// When there is no such terminal.
    pub async fn wait_for_exit(&self, id: &str) -> Result<Value, Error> {
        let mut exit = self.open(id)?.exit.subscribe();
        let ended = exit.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|exit| exit.clone());
        ended.ok_or_else(|| Error::new(ErrorCode::InternalError.into(), "The terminal was closed."))
    }

    /// Kills the process group of the command. The output can still be read.
    ///
    /// # Errors
    /// When there is no such terminal.
    pub fn kill(&self, id: &str) -> Result<(), Error> {
        self.open(id)?.request(DesiredState::Killed);
        Ok(())
    }

    /// Kills the command and closes the terminal.
    ///
    /// # Errors
    /// When there is no such terminal.
    pub fn release(&self, id: &str) -> Result<(), Error> {
        let terminal = self.open(id)?;
        terminal.request(DesiredState::Released);
        let mut shared = self.shared();
        shared.open.remove(id);
        shared.released.push_back((id.to_owned(), terminal.text().0));
        let extra = shared.released.len().saturating_sub(MAX_RELEASED);
        shared.released.drain(..extra);
        Ok(())
    }

    /// The output of a terminal that is open or was released recently.
    pub fn text(&self, id: &str) -> Option<String> {
        let shared = self.shared();
        let released =
            || shared.released.iter().find(|(released, _)| released == id).map(|(_, text)| text.clone());
        shared.open.get(id).map(|terminal| terminal.text().0).or_else(released)
    }

    /// Kills all commands and waits for them. The wait is bounded, because a process outside of the group may hold a
    /// pipe.
    pub async fn close(&self) {
        let mut tasks = {
            let mut shared = self.shared();
            for terminal in std::mem::take(&mut shared.open).into_values() {
                terminal.request(DesiredState::Released);
            }
            std::mem::take(&mut shared.tasks)
        };
        let _ = timeout(CLOSE_TIMEOUT, async { while tasks.join_next().await.is_some() {} }).await;
    }

    fn open(&self, id: &str) -> Result<Arc<Terminal>, Error> {
        let terminal = self.shared().open.get(id).cloned();
        terminal.ok_or_else(|| {
            Error::new(ErrorCode::ResourceNotFound.into(), format!("Terminal {id} does not exist."))
        })
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Terminal {
    async fn run(&self, mut process: Process) {
        let exit = tokio::select! {
            exit = process.wait_for_leader() => {
                // Read what is still in the pipe, but do not wait for descendants that keep writing.
                let _ = timeout(DRAIN_TIMEOUT, self.readers.subscribe().wait_for(|readers| *readers == 0)).await;
                exit
            }
            () = self.stop_requested() => {
                process.kill_group();
                process.wait().await
            }
        };
        self.exit.send_replace(Some(exit_status(&exit)));
        // Background processes keep running until the terminal is killed or released.
        self.stop_requested().await;
        drop(process);
    }

    async fn stop_requested(&self) {
        let _ = self.desired.subscribe().wait_for(|state| *state > DesiredState::Running).await;
    }

    async fn follow(&self, mut pipe: impl AsyncRead + Unpin) {
        self.readers.send_modify(|readers| *readers += 1);
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
            self.output.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..read]);
        }
        self.readers.send_modify(|readers| *readers -= 1);
    }

    fn text(&self) -> (String, bool) {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).text()
    }

    /// The desired state only moves forward.
    fn request(&self, state: DesiredState) {
        self.desired.send_if_modified(|current| {
            let is_new = state > *current;
            *current = state.max(*current);
            is_new
        });
    }
}

fn exit_status(exit: &ExitReason) -> Value {
    match exit {
        ExitReason::Exited { code } => json!({ "exitCode": code, "signal": null }),
        ExitReason::Killed { signal, .. } => json!({ "exitCode": null, "signal": signal_name(*signal) }),
        ExitReason::NotStarted { .. } => json!({ "exitCode": null, "signal": null }),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        6 => "SIGABRT",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        other => return format!("SIG{other}"),
    };
    name.to_owned()
}

fn invalid(reason: String) -> Error {
    Error::new(ErrorCode::InvalidParams.into(), reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use tempfile::TempDir;

    fn terminals() -> (TempDir, Terminals) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let env = vec![("AGENT_KNOWS".to_owned(), "this".to_owned())];
        let path = crate::config::environment().remove("PATH").unwrap();
        let launcher = Launcher::unconfined([("PATH".to_owned(), path)].into());
        (folder, Terminals::new(workspace, launcher, env))
    }

    fn command(command: &str) -> CreateTerminalRequest {
        CreateTerminalRequest::new("s", command)
    }

    async fn wait_for_exit(terminals: &Terminals, id: &str) -> Value {
        let wait = terminals.wait_for_exit(id);
        timeout(Duration::from_secs(60), wait).await.expect("it ends").unwrap()
    }

    #[tokio::test]
    async fn command_runs_in_the_workspace_with_readable_output() {
        let (folder, terminals) = terminals();
        let id = terminals.create(&command("pwd; echo $AGENT_KNOWS ${HOME:-nothing} >&2; exit 3")).unwrap();
        assert_eq!(wait_for_exit(&terminals, &id).await["exitCode"], 3);
        let output = terminals.output(&id).unwrap();
        let text = output["output"].as_str().unwrap();
        assert!(text.contains(folder.path().canonicalize().unwrap().to_str().unwrap()), "{text}");
        assert!(text.contains("this nothing\n"), "{text}");
        assert_eq!(output["truncated"], false);
        assert_eq!(output["exitStatus"]["exitCode"], 3);
        let id = terminals.create(&command("echo").args(vec!["a  b;".to_owned()])).unwrap();
        wait_for_exit(&terminals, &id).await;
        assert_eq!(terminals.output(&id).unwrap()["output"], "a  b;\n");
        terminals.release(&id).unwrap();
        assert!(terminals.output(&id).is_err());
        assert_eq!(terminals.text(&id).as_deref(), Some("a  b;\n"));
    }

    #[tokio::test]
    async fn long_output_is_truncated_at_a_character_boundary() {
        let (_folder, terminals) = terminals();
        let script = "i=0; while [ $i -lt 500 ]; do printf 'ééééé'; i=$((i+1)); done; printf end";
        let id = terminals.create(&command(script).output_byte_limit(100)).unwrap();
        wait_for_exit(&terminals, &id).await;
        let output = terminals.output(&id).unwrap();
        let text = output["output"].as_str().unwrap();
        assert!(text.len() <= 100 && text.ends_with("ééend") && text.starts_with('é'), "{text}");
        assert_eq!(output["truncated"], true);
    }

    #[tokio::test]
    async fn descendants_are_killed_with_the_command() {
        let (_folder, terminals) = terminals();
        let id = terminals.create(&command("sleep 1000 & sleep 1000")).unwrap();
        terminals.kill(&id).unwrap();
        assert_eq!(wait_for_exit(&terminals, &id).await["signal"], "SIGKILL");
        // Returns only when no process holds the pipes.
        terminals.create(&command("sleep 1000 & sleep 1000")).unwrap();
        timeout(Duration::from_secs(60), terminals.close()).await.expect("all are gone");
        assert!(terminals.shared().tasks.is_empty());
    }

    #[tokio::test]
    async fn background_process_lives_until_release() {
        let (folder, terminals) = terminals();
        let id = terminals.create(&command("(sleep 0.3; touch alive; sleep 1000) & echo up")).unwrap();
        assert_eq!(wait_for_exit(&terminals, &id).await["exitCode"], 0);
        assert_eq!(terminals.output(&id).unwrap()["output"], "up\n");
        let alive = async {
            while !folder.path().join("alive").exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(60), alive).await.expect("the background process runs");
        terminals.release(&id).unwrap();
        timeout(Duration::from_secs(60), terminals.close()).await.expect("it is gone");
    }

    #[tokio::test]
    async fn working_directory_outside_of_the_workspace_is_rejected() {
        let (_folder, terminals) = terminals();
        for cwd in ["/", "..", "/tmp"] {
            assert!(terminals.create(&command("true").cwd(Path::new(cwd).to_owned())).is_err(), "{cwd}");
        }
        assert!(terminals.create(&command("/nowhere").args(vec!["x".to_owned()])).is_err());
        assert!(terminals.output("terminal-9").is_err());
    }
}
