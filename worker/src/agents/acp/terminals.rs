//! The terminals that an agent opens through the worker: commands in its workspace, whose output is kept in bounds.

use super::files::Workspace;
use super::output::Output;
use crate::agents::End;
use crate::agents::process::{Process, Start};
use agent_client_protocol_schema::v1::{CreateTerminalRequest, Error, ErrorCode};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Most output that is kept of one terminal, whatever the agent asks for.
pub const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// How many terminals may be open at once.
const MAX_TERMINALS: usize = 64;

/// Of how many released terminals the output is remembered: agents release them before they say that the tool is done.
const REMEMBERED: usize = 16;

/// How long the output of a command that has ended may take to arrive. What it has started may hold the pipe for ever.
const OUTPUT_GRACE: Duration = Duration::from_millis(200);

/// How long the end of all terminals may take.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// All terminals of one agent. Cloning gives the same ones.
#[derive(Debug, Clone)]
pub struct Terminals {
    workspace: Workspace,
    env: Vec<(String, String)>,
    env_removed: Vec<String>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    opened: u64,
    open: HashMap<String, Arc<Terminal>>,
    released: VecDeque<(String, String)>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Terminal {
    output: Mutex<Output>,
    /// How many of its pipes are open.
    readers: watch::Sender<u8>,
    exit: watch::Sender<Option<Value>>,
    wish: watch::Sender<Wish>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    Run,
    Kill,
    Release,
}

impl Terminals {
    /// None yet. Commands get the agent's environment.
    pub fn new(workspace: Workspace, env: Vec<(String, String)>, env_removed: Vec<String>) -> Self {
        Self { workspace, env, env_removed, shared: Arc::default() }
    }

    /// Runs a command. One without arguments is read by a shell, as agents expect.
    ///
    /// # Errors
    /// When the folder is outside of the workspace, or the command cannot be started.
    pub fn create(&self, request: &CreateTerminalRequest) -> Result<String, Error> {
        let cwd = self.workspace.folder(request.cwd.as_deref())?;
        let mut env = self.env.clone();
        env.extend(request.env.iter().map(|variable| (variable.name.clone(), variable.value.clone())));
        let (program, arguments) = if request.args.is_empty() {
            ("sh".into(), vec!["-c".into(), request.command.clone().into()])
        } else {
            (request.command.clone().into(), request.args.iter().map(Into::into).collect())
        };
        let start = Start { program, arguments, env, env_removed: self.env_removed.clone(), cwd };
        let mut shared = self.shared();
        if shared.open.len() >= MAX_TERMINALS {
            return Err(invalid(format!("{MAX_TERMINALS} terminals are open: release one first.")));
        }
        let (process, pipes) = Process::start(&start)
            .map_err(|error| invalid(format!("{} could not be started: {error}.", request.command)))?;
        let asked = request.output_byte_limit.and_then(|limit| usize::try_from(limit).ok());
        let limit = asked.unwrap_or(MAX_OUTPUT_BYTES).min(MAX_OUTPUT_BYTES);
        let terminal = Arc::new(Terminal {
            output: Mutex::new(Output::new(limit)),
            readers: watch::Sender::new(0),
            exit: watch::Sender::new(None),
            wish: watch::Sender::new(Wish::Run),
        });
        shared.opened += 1;
        let id = format!("terminal-{}", shared.opened);
        shared.open.insert(id.clone(), Arc::clone(&terminal));
        shared.tasks.spawn(async move {
            let read = async {
                tokio::join!(terminal.follow(pipes.stdout), terminal.follow(pipes.stderr));
            };
            tokio::join!(read, terminal.run(process));
        });
        while shared.tasks.try_join_next().is_some() {}
        Ok(id)
    }

    /// What it has written so far, and how it ended if it has.
    ///
    /// # Errors
    /// When there is no such terminal.
    pub fn output(&self, id: &str) -> Result<Value, Error> {
        let terminal = self.open(id)?;
        let (output, truncated) = terminal.text();
        let mut answer = json!({ "output": output, "truncated": truncated });
        if let Some(exit) = &*terminal.exit.borrow() {
            answer["exitStatus"] = exit.clone();
        }
        Ok(answer)
    }

    /// Waits until its command has ended.
    ///
    /// # Errors
    /// When there is no such terminal.
    pub async fn wait_for_exit(&self, id: &str) -> Result<Value, Error> {
        let mut exit = self.open(id)?.exit.subscribe();
        let ended = exit.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|exit| exit.clone());
        ended.ok_or_else(|| Error::new(ErrorCode::InternalError.into(), "The terminal is gone."))
    }

    /// Kills its command with all that it has started. Its output can still be read.
    ///
    /// # Errors
    /// When there is no such terminal.
    pub fn kill(&self, id: &str) -> Result<(), Error> {
        self.open(id)?.wants(Wish::Kill);
        Ok(())
    }

    /// Closes it.
    ///
    /// # Errors
    /// When there is no such terminal.
    pub fn release(&self, id: &str) -> Result<(), Error> {
        let terminal = self.open(id)?;
        terminal.wants(Wish::Release);
        let mut shared = self.shared();
        shared.open.remove(id);
        shared.released.push_back((id.to_owned(), terminal.text().0));
        let extra = shared.released.len().saturating_sub(REMEMBERED);
        shared.released.drain(..extra);
        Ok(())
    }

    /// What a terminal has written, also if it was released lately.
    pub fn text(&self, id: &str) -> Option<String> {
        let shared = self.shared();
        let released =
            || shared.released.iter().find(|(released, _)| released == id).map(|(_, text)| text.clone());
        shared.open.get(id).map(|terminal| terminal.text().0).or_else(released)
    }

    /// Kills all of them, and waits until they are gone. Somebody who has left the group may hold a pipe: not for long.
    pub async fn close(&self) {
        let mut tasks = {
            let mut shared = self.shared();
            for terminal in std::mem::take(&mut shared.open).into_values() {
                terminal.wants(Wish::Release);
            }
            std::mem::take(&mut shared.tasks)
        };
        let _ = timeout(CLOSE_GRACE, async { while tasks.join_next().await.is_some() {} }).await;
    }

    fn open(&self, id: &str) -> Result<Arc<Terminal>, Error> {
        let terminal = self.shared().open.get(id).cloned();
        terminal.ok_or_else(|| {
            Error::new(ErrorCode::ResourceNotFound.into(), format!("There is no terminal {id}."))
        })
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Terminal {
    async fn run(&self, mut process: Process) {
        let end = tokio::select! {
            end = process.wait_for_leader() => {
                // What it wrote last may still be in the pipe; what it has started may write for ever.
                let _ = timeout(OUTPUT_GRACE, self.readers.subscribe().wait_for(|readers| *readers == 0)).await;
                end
            }
            () = self.is_unwanted() => {
                process.kill_group();
                process.wait().await
            }
        };
        self.exit.send_replace(Some(exit_status(&end)));
        // Whatever was left in the background runs until somebody asks for its end.
        self.is_unwanted().await;
        drop(process);
    }

    async fn is_unwanted(&self) {
        let _ = self.wish.subscribe().wait_for(|wish| *wish > Wish::Run).await;
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

    /// A later wish is never weaker than an earlier one.
    fn wants(&self, wish: Wish) {
        self.wish.send_if_modified(|wished| {
            let stronger = wish > *wished;
            *wished = wish.max(*wished);
            stronger
        });
    }
}

fn exit_status(end: &End) -> Value {
    match end {
        End::Left { code } => json!({ "exitCode": code, "signal": null }),
        End::Killed { signal, .. } => json!({ "exitCode": null, "signal": signal_name(*signal) }),
        End::NotStarted { .. } => json!({ "exitCode": null, "signal": null }),
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

fn invalid(why: String) -> Error {
    Error::new(ErrorCode::InvalidParams.into(), why)
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
        (folder, Terminals::new(workspace, env, vec!["HOME".to_owned()]))
    }

    fn command(command: &str) -> CreateTerminalRequest {
        CreateTerminalRequest::new("s", command)
    }

    async fn ended(terminals: &Terminals, id: &str) -> Value {
        let wait = terminals.wait_for_exit(id);
        timeout(Duration::from_secs(60), wait).await.expect("it ends").unwrap()
    }

    #[tokio::test]
    async fn a_command_runs_in_the_workspace_and_its_output_and_end_can_be_read() {
        let (folder, terminals) = terminals();
        let id = terminals.create(&command("pwd; echo $AGENT_KNOWS ${HOME:-nothing} >&2; exit 3")).unwrap();
        assert_eq!(ended(&terminals, &id).await["exitCode"], 3);
        let output = terminals.output(&id).unwrap();
        let text = output["output"].as_str().unwrap();
        assert!(text.contains(folder.path().canonicalize().unwrap().to_str().unwrap()), "{text}");
        assert!(text.contains("this nothing\n"), "{text}");
        assert_eq!(output["truncated"], false);
        assert_eq!(output["exitStatus"]["exitCode"], 3);
        let id = terminals.create(&command("echo").args(vec!["a  b;".to_owned()])).unwrap();
        ended(&terminals, &id).await;
        assert_eq!(terminals.output(&id).unwrap()["output"], "a  b;\n");
        terminals.release(&id).unwrap();
        assert!(terminals.output(&id).is_err());
        assert_eq!(terminals.text(&id).as_deref(), Some("a  b;\n"));
    }

    #[tokio::test]
    async fn the_end_of_a_long_output_is_kept_and_cut_between_characters() {
        let (_folder, terminals) = terminals();
        let script = "i=0; while [ $i -lt 500 ]; do printf 'ééééé'; i=$((i+1)); done; printf end";
        let id = terminals.create(&command(script).output_byte_limit(100)).unwrap();
        ended(&terminals, &id).await;
        let output = terminals.output(&id).unwrap();
        let text = output["output"].as_str().unwrap();
        assert!(text.len() <= 100 && text.ends_with("ééend") && text.starts_with('é'), "{text}");
        assert_eq!(output["truncated"], true);
    }

    #[tokio::test]
    async fn a_killed_command_goes_with_all_that_it_has_started() {
        let (_folder, terminals) = terminals();
        let id = terminals.create(&command("sleep 1000 & sleep 1000")).unwrap();
        terminals.kill(&id).unwrap();
        assert_eq!(ended(&terminals, &id).await["signal"], "SIGKILL");
        // It returns only when nobody holds the pipes.
        terminals.create(&command("sleep 1000 & sleep 1000")).unwrap();
        timeout(Duration::from_secs(60), terminals.close()).await.expect("all are gone");
        assert!(terminals.shared().tasks.is_empty());
    }

    #[tokio::test]
    async fn what_a_command_leaves_in_the_background_lives_until_the_terminal_is_released() {
        let (folder, terminals) = terminals();
        let id = terminals.create(&command("(sleep 0.3; touch alive; sleep 1000) & echo up")).unwrap();
        assert_eq!(ended(&terminals, &id).await["exitCode"], 0);
        assert_eq!(terminals.output(&id).unwrap()["output"], "up\n");
        let lives = async {
            while !folder.path().join("alive").exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(60), lives).await.expect("it goes on");
        terminals.release(&id).unwrap();
        timeout(Duration::from_secs(60), terminals.close()).await.expect("it is gone");
    }

    #[tokio::test]
    async fn nothing_runs_outside_of_the_workspace() {
        let (_folder, terminals) = terminals();
        for cwd in ["/", "..", "/tmp"] {
            assert!(terminals.create(&command("true").cwd(Path::new(cwd).to_owned())).is_err(), "{cwd}");
        }
        assert!(terminals.create(&command("/nowhere").args(vec!["x".to_owned()])).is_err());
        assert!(terminals.output("terminal-9").is_err());
    }
}
