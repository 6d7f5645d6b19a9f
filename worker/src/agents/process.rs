//! An agent's process: started in a group of its own, so that it goes with everything it has started, and told apart
//! when it is gone: left, killed, or killed for want of memory.

use crate::agents::End;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::{fs, io};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// How much of what an agent wrote to its standard error is kept: enough for the last few lines of a stack trace.
pub const STDERR_TAIL_BYTES: usize = 4 * 1024;

const SIGKILL: i32 = 9;

/// What a shell says of a child that was killed with signal 9.
const SHELL_SAYS_KILLED: i32 = 128 + SIGKILL;

/// What to start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// The program, found by `PATH` if it is a bare name.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Added to the worker's own environment.
    pub env: Vec<(String, String)>,
    /// Taken out of the worker's own environment. What is added wins.
    pub env_removed: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
}

/// A process that runs, with all that it has started. Dropping it kills them.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Option<Pid>,
    memory: MemoryEvents,
}

/// The ends of a process's pipes.
#[derive(Debug)]
pub struct Pipes {
    /// What it reads.
    pub stdin: ChildStdin,
    /// What it writes.
    pub stdout: ChildStdout,
    /// What it complains about.
    pub stderr: ChildStderr,
}

impl Process {
    /// Starts a process in a group of its own, with pipes for everything that it reads and writes.
    ///
    /// # Errors
    /// When the program or the folder is not there, or may not be used.
    pub fn start(start: &Start) -> io::Result<(Self, Pipes)> {
        let memory = MemoryEvents::of_this_group();
        let mut command = Command::new(&start.program);
        command.args(&start.arguments).current_dir(&start.cwd);
        for name in &start.env_removed {
            command.env_remove(name);
        }
        command.envs(start.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
        let pipes = Pipes {
            stdin: child.stdin.take().expect("standard input is a pipe"),
            stdout: child.stdout.take().expect("standard output is a pipe"),
            stderr: child.stderr.take().expect("standard error is a pipe"),
        };
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok((Self { child, group, memory }, pipes))
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Asks the process and all that it has started to end.
    pub fn terminate_group(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills the process and all that it has started.
    pub fn kill_group(&self) {
        self.signal(Signal::KILL);
    }

    /// Waits until the process is gone, kills whatever it has left behind, and says how it ended. Can be dropped and
    /// called again: nothing is lost.
    pub async fn wait(&mut self) -> End {
        let ended = self.child.wait().await;
        self.kill_group();
        // From now on the number may be somebody else's.
        self.group = None;
        self.end(ended)
    }

    /// Waits until the process itself is gone, leaves alone what it has started until this is dropped, and says how it
    /// ended. Can be dropped and called again.
    pub async fn wait_for_leader(&mut self) -> End {
        let ended = self.child.wait().await;
        // Without members the number may become somebody else's.
        self.group = self.group.filter(|&group| test_kill_process_group(group).is_ok());
        self.end(ended)
    }

    fn end(&self, ended: io::Result<ExitStatus>) -> End {
        let memory_ran_out = self.memory.killed_since();
        match ended {
            Ok(status) => end(status, memory_ran_out),
            Err(_) => End::Killed { signal: SIGKILL, out_of_memory: memory_ran_out },
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // Nobody left to hear it is what was wanted.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// How a process ended, given whether the system has killed for want of memory since it was started.
pub fn end(status: ExitStatus, memory_ran_out: bool) -> End {
    match (status.signal(), status.code()) {
        (Some(signal), _) => End::Killed { signal, out_of_memory: signal == SIGKILL && memory_ran_out },
        (None, Some(SHELL_SAYS_KILLED)) => End::Killed { signal: SIGKILL, out_of_memory: memory_ran_out },
        (None, code) => End::Left { code: code.unwrap_or_default() },
    }
}

/// How often the system has killed a process of this control group for want of memory.
///
/// The count is of the whole group, so it says "as far as can be told": in a sandbox there is little else to kill.
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

    fn killed_since(&self) -> bool {
        oom_kills(&self.file) > self.before
    }
}

/// `memory.events` of the worker's own control group. Inside a container that group is the root that it sees.
fn memory_events_file() -> PathBuf {
    let root = Path::new("/sys/fs/cgroup");
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).map(|own| root.join(own));
    let own = own.map(|own| own.join("memory.events")).filter(|file| file.exists());
    own.unwrap_or_else(|| root.join("memory.events"))
}

/// Nobody, where the file is missing (control groups v1, or none).
fn oom_kills(file: &Path) -> u64 {
    let events = fs::read_to_string(file).unwrap_or_default();
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

/// The last that an agent wrote to its standard error, for whoever has to find out what went wrong.
#[derive(Debug, Clone, Default)]
pub struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    /// Reads to the end, and keeps the last [`STDERR_TAIL_BYTES`]. A pipe that nobody reads would stop the agent.
    pub async fn follow(&self, mut stderr: impl AsyncRead + Unpin) {
        let mut buffer = [0; STDERR_TAIL_BYTES];
        while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
            let mut kept = self.0.lock().expect("nobody panics with it");
            kept.extend_from_slice(&buffer[..read]);
            let extra = kept.len().saturating_sub(STDERR_TAIL_BYTES);
            kept.drain(..extra);
        }
    }

    /// As far as has been read.
    pub fn text(&self) -> String {
        let kept = self.0.lock().expect("nobody panics with it");
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::AsyncBufReadExt;
    use tokio::time::timeout;

    fn shell(script: &str) -> Start {
        let arguments = vec!["-c".into(), script.into()];
        Start { program: "sh".into(), arguments, cwd: "/".into(), ..Start::default() }
    }

    async fn run(script: &str) -> End {
        let (mut process, _pipes) = Process::start(&shell(script)).unwrap();
        timeout(Duration::from_secs(60), process.wait()).await.expect("it ends")
    }

    #[tokio::test]
    async fn leaving_and_being_killed_are_told_apart() {
        assert_eq!(run("exit 0").await, End::Left { code: 0 });
        assert_eq!(run("exit 1").await, End::Left { code: 1 });
        assert_eq!(run("kill -9 $$").await, End::Killed { signal: 9, out_of_memory: false });
        assert_eq!(run("kill -15 $$").await, End::Killed { signal: 15, out_of_memory: false });
        assert_eq!(run("sh -c 'kill -9 $$'; exit $?").await, End::Killed { signal: 9, out_of_memory: false });
    }

    #[test]
    fn want_of_memory_is_noticed_by_the_count_of_the_group() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.events");
        assert!(!MemoryEvents::of(file.clone()).killed_since(), "a missing file says nothing");
        fs::write(&file, "low 0\nhigh 0\nmax 9\noom 3\noom_kill 3\n").unwrap();
        let events = MemoryEvents::of(file.clone());
        assert!(!events.killed_since());
        fs::write(&file, "low 0\nhigh 0\nmax 9\noom 4\noom_kill 4\n").unwrap();
        assert!(events.killed_since());
        let killed = ExitStatus::from_raw(9);
        assert_eq!(end(killed, true), End::Killed { signal: 9, out_of_memory: true });
        assert_eq!(end(ExitStatus::from_raw(0), true), End::Left { code: 0 });
    }

    /// Its standard output closes only when everybody who holds it is gone.
    #[tokio::test]
    async fn a_process_goes_with_all_that_it_has_started() {
        for leave in ["wait", "exit 3"] {
            let script = format!("sleep 1000 & echo up; {leave}");
            let (mut process, mut pipes) = Process::start(&shell(&script)).unwrap();
            let mut output = tokio::io::BufReader::new(&mut pipes.stdout);
            let mut line = String::new();
            output.read_line(&mut line).await.unwrap();
            if leave == "wait" {
                process.kill_group();
            }
            process.wait().await;
            let closed = timeout(Duration::from_secs(60), output.read_line(&mut line)).await;
            assert_eq!(closed.expect("the sleeper is gone").unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn the_environment_is_added_to_and_taken_from() {
        let mut start = shell("echo \"$ADDED-${HOME:-none}\"; pwd");
        start.env = vec![("ADDED".to_owned(), "yes".to_owned())];
        start.env_removed = vec!["HOME".to_owned()];
        let (mut process, mut pipes) = Process::start(&start).unwrap();
        let mut output = String::new();
        pipes.stdout.read_to_string(&mut output).await.unwrap();
        assert_eq!(process.wait().await, End::Left { code: 0 });
        assert_eq!(output, "yes-none\n/\n");
    }

    #[test]
    fn what_is_not_there_is_not_started() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _context = runtime.enter();
        let start = Start { program: "/nowhere/agent".into(), cwd: "/".into(), ..Start::default() };
        assert_eq!(Process::start(&start).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn only_the_end_of_the_complaints_is_kept() {
        let tail = Tail::default();
        let text = format!("{}the end\n", "x".repeat(3 * STDERR_TAIL_BYTES));
        tail.follow(text.as_bytes()).await;
        assert_eq!(tail.text().len(), STDERR_TAIL_BYTES - 1);
        assert!(tail.text().ends_with("xxthe end"));
    }
}
