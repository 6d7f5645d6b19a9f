//! An agent's process. It runs in its own process group, so all descendants are killed with it. Its exit is classified
//! as exited, killed, or killed by the OOM killer.

use crate::agents::ExitReason;
use crate::proc::own_cgroup;
use confine::{Launcher, Tier, exit_signal};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::{fs, io};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// How much of standard error is retained: enough for the last lines of a stack trace.
pub const STDERR_TAIL_BYTES: usize = 4 * 1024;

const SIGKILL: i32 = 9;

/// The exit code with which a shell reports a child that was killed by SIGKILL.
const SHELL_EXIT_SIGKILL: i32 = 128 + SIGKILL;

#[derive(Debug, Clone)]
pub struct ProcessSpec {
    pub launcher: Launcher,
    /// Looked up in `PATH` if it is a bare name.
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Added to the launcher's environment.
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
}

/// A running process. Dropping it kills its process group.
#[derive(Debug)]
pub struct Process {
    child: Child,
    tier: Tier,
    group: Option<Pid>,
    memory: MemoryEvents,
}

#[derive(Debug)]
pub struct Pipes {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

impl Process {
    /// Starts a process in its own process group, with piped standard streams.
    ///
    /// # Errors
    /// When the program or the working directory is missing or not accessible.
    pub fn spawn(spec: &ProcessSpec) -> io::Result<(Self, Pipes)> {
        let memory = MemoryEvents::of_this_group();
        let launcher = spec.launcher.with_variables(spec.env.iter().cloned());
        let command = launcher.command(&spec.program, spec.arguments.iter().cloned(), &spec.cwd)?;
        let mut command = Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
        let pipes = Pipes {
            stdin: child.stdin.take().expect("standard input is a pipe"),
            stdout: child.stdout.take().expect("standard output is a pipe"),
            stderr: child.stderr.take().expect("standard error is a pipe"),
        };
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok((Self { child, tier: spec.launcher.tier(), group, memory }, pipes))
    }

    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends SIGTERM to the process group.
    pub fn terminate_group(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL to the process group.
    pub fn kill_group(&self) {
        self.signal(Signal::KILL);
    }

    /// Waits for the process to exit and kills the rest of its group. Cancel-safe.
    pub async fn wait(&mut self) -> ExitReason {
        let ended = self.child.wait().await;
        self.kill_group();
        // The group id may be reused from now on.
        self.group = None;
        self.exit_reason(ended)
    }

    /// Waits for the process itself to exit. Its descendants keep running until this is dropped. Cancel-safe.
    pub async fn wait_for_leader(&mut self) -> ExitReason {
        let ended = self.child.wait().await;
        // The id of an empty group may be reused.
        self.group = self.group.filter(|&group| test_kill_process_group(group).is_ok());
        self.exit_reason(ended)
    }

    fn exit_reason(&self, ended: io::Result<ExitStatus>) -> ExitReason {
        let oom_killed = self.memory.has_increased();
        match ended {
            Ok(status) => exit_reason(self.tier, status, oom_killed),
            Err(_) => ExitReason::Killed { signal: SIGKILL, out_of_memory: oom_killed },
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // An error means that the group is already gone.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// Classifies an exit. `oom_killed` says whether the OOM killer was active since the process started.
pub fn exit_reason(tier: Tier, status: ExitStatus, oom_killed: bool) -> ExitReason {
    match (exit_signal(tier, status), status.code()) {
        (Some(signal), _) => ExitReason::Killed { signal, out_of_memory: signal == SIGKILL && oom_killed },
        (None, Some(SHELL_EXIT_SIGKILL)) => ExitReason::Killed { signal: SIGKILL, out_of_memory: oom_killed },
        (None, code) => ExitReason::Exited { code: code.unwrap_or_default() },
    }
}

/// The OOM-kill counter of this control group.
///
/// It covers the whole group, so attributing a kill to the agent is a guess; in a sandbox little else can be killed.
#[derive(Debug)]
struct MemoryEvents {
    file: PathBuf,
    before: u64,
}

impl MemoryEvents {
    fn of_this_group() -> Self {
        Self::of(memory_events_file())
    }

    fn of(file: PathBuf) -> Self {
        let before = oom_kills(&file);
        Self { file, before }
    }

    fn has_increased(&self) -> bool {
        oom_kills(&self.file) > self.before
    }
}

/// `memory.events` of the worker's control group. Inside a container that group is mounted as the root.
fn memory_events_file() -> PathBuf {
    let root = Path::new("/sys/fs/cgroup");
    let own = own_cgroup().map(|own| root.join(own).join("memory.events")).filter(|file| file.exists());
    own.unwrap_or_else(|| root.join("memory.events"))
}

/// Zero if the file is missing (cgroups v1, or no cgroups).
fn oom_kills(file: &Path) -> u64 {
    let events = fs::read_to_string(file).unwrap_or_default();
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

/// The end of an agent's standard error, for diagnostics.
#[derive(Debug, Clone, Default)]
pub struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl StderrTail {
    /// Reads to the end and keeps the last [`STDERR_TAIL_BYTES`]. The pipe must be drained, or the agent blocks.
    pub async fn follow(&self, mut stderr: impl AsyncRead + Unpin) {
        let mut buffer = [0; STDERR_TAIL_BYTES];
        while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
            let mut kept = self.0.lock().expect("no holder panics");
            kept.extend_from_slice(&buffer[..read]);
            let extra = kept.len().saturating_sub(STDERR_TAIL_BYTES);
            kept.drain(..extra);
        }
    }

    pub fn text(&self) -> String {
        let kept = self.0.lock().expect("no holder panics");
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confinement::unconfined;
    use std::collections::BTreeMap;
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;
    use tokio::io::AsyncBufReadExt;
    use tokio::time::timeout;

    fn shell(script: &str) -> ProcessSpec {
        let arguments = vec!["-c".into(), script.into()];
        ProcessSpec {
            launcher: unconfined(),
            program: "sh".into(),
            arguments,
            env: Vec::new(),
            cwd: "/".into(),
        }
    }

    async fn run(script: &str) -> ExitReason {
        let (mut process, _pipes) = Process::spawn(&shell(script)).unwrap();
        timeout(Duration::from_secs(60), process.wait()).await.expect("it ends")
    }

    #[tokio::test]
    async fn exit_and_kill_are_distinguished() {
        assert_eq!(run("exit 0").await, ExitReason::Exited { code: 0 });
        assert_eq!(run("exit 1").await, ExitReason::Exited { code: 1 });
        assert_eq!(run("kill -9 $$").await, ExitReason::Killed { signal: 9, out_of_memory: false });
        assert_eq!(run("kill -15 $$").await, ExitReason::Killed { signal: 15, out_of_memory: false });
        assert_eq!(
            run("sh -c 'kill -9 $$'; exit $?").await,
            ExitReason::Killed { signal: 9, out_of_memory: false }
        );
    }

    #[test]
    fn oom_kill_is_detected_by_the_cgroup_counter() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.events");
        assert!(!MemoryEvents::of(file.clone()).has_increased(), "a missing file counts as zero");
        fs::write(&file, "low 0\nhigh 0\nmax 9\noom 3\noom_kill 3\n").unwrap();
        let events = MemoryEvents::of(file.clone());
        assert!(!events.has_increased());
        fs::write(&file, "low 0\nhigh 0\nmax 9\noom 4\noom_kill 4\n").unwrap();
        assert!(events.has_increased());
        let killed = ExitStatus::from_raw(9);
        assert_eq!(
            exit_reason(Tier::None, killed, true),
            ExitReason::Killed { signal: 9, out_of_memory: true }
        );
        assert_eq!(exit_reason(Tier::None, ExitStatus::from_raw(0), true), ExitReason::Exited { code: 0 });
    }

    /// Standard output closes only when every process that holds it is gone.
    #[tokio::test]
    async fn descendants_are_killed_with_the_process() {
        for last_command in ["wait", "exit 3"] {
            let script = format!("sleep 1000 & echo up; {last_command}");
            let (mut process, mut pipes) = Process::spawn(&shell(&script)).unwrap();
            let mut output = tokio::io::BufReader::new(&mut pipes.stdout);
            let mut line = String::new();
            output.read_line(&mut line).await.unwrap();
            if last_command == "wait" {
                process.kill_group();
            }
            process.wait().await;
            let closed = timeout(Duration::from_secs(60), output.read_line(&mut line)).await;
            assert_eq!(closed.expect("the descendant is gone").unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn process_gets_the_variables_of_its_launcher_and_its_own_and_no_others() {
        let mut spec = shell("echo \"$ADDED-${HOME:-none}\"; pwd");
        spec.launcher = Launcher::unconfined(BTreeMap::new());
        spec.env = vec![("ADDED".to_owned(), "yes".to_owned())];
        spec.program = "/bin/sh".into();
        let (mut process, mut pipes) = Process::spawn(&spec).unwrap();
        let mut output = String::new();
        pipes.stdout.read_to_string(&mut output).await.unwrap();
        assert_eq!(process.wait().await, ExitReason::Exited { code: 0 });
        assert_eq!(output, "yes-none\n/\n");
    }

    #[test]
    fn missing_program_is_not_found() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _context = runtime.enter();
        let spec = ProcessSpec { program: "/nowhere/agent".into(), ..shell("") };
        assert_eq!(Process::spawn(&spec).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn only_the_tail_of_stderr_is_kept() {
        let tail = StderrTail::default();
        let text = format!("{}the end\n", "x".repeat(3 * STDERR_TAIL_BYTES));
        tail.follow(text.as_bytes()).await;
        assert_eq!(tail.text().len(), STDERR_TAIL_BYTES - 1);
        assert!(tail.text().ends_with("xxthe end"));
    }
}
