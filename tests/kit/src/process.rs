//! A plane in its own process, which a test can kill.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The `sunaba` binary.
    pub binary: PathBuf,
    pub data: PathBuf,
    /// 0 for any free port.
    pub port: u16,
    /// The operator's token.
    pub token: String,
    /// Where its log is written; discarded if `None`.
    pub log: Option<PathBuf>,
    /// Additional arguments of `sunaba dev`.
    pub arguments: Vec<String>,
}

/// A running plane. It is killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Kept open: writing to a closed standard output could end the process.
    _output: Lines<BufReader<ChildStdout>>,
    /// `http://127.0.0.1:18000`.
    pub url: String,
    /// The link to the console that it printed.
    pub link: String,
}

impl Process {
    /// Starts a plane and waits until it accepts requests.
    pub async fn start(options: &ProcessOptions) -> Self {
        let log = options.log.as_ref().map_or_else(Stdio::null, |path| {
            Stdio::from(std::fs::File::create(path).expect("the log can be written"))
        });
        let mut child = Command::new(&options.binary)
            .args(["dev", "--port", &options.port.to_string(), "--data"])
            .arg(&options.data)
            .args(&options.arguments)
            .env("SUNABA_TOKEN", &options.token)
            .env_remove("SUNABA_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("the sunaba binary can be started");
        let output = child.stdout.take().expect("its standard output is a pipe");
        let mut lines = BufReader::new(output).lines();
        let line = timeout(Duration::from_secs(30), lines.next_line()).await;
        let line = line.expect("the plane is ready within 30 s").expect("its output can be read");
        let line = line.expect("the plane prints its link before it exits");
        let link = line.split_whitespace().last().expect("the line ends in the link").to_owned();
        let url = link.split("/#").next().unwrap_or_default().to_owned();
        Self { child, _output: lines, url, link }
    }

    pub fn id(&self) -> u32 {
        self.child.id().expect("it has not been waited for")
    }

    /// Sends SIGKILL.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("a child can be killed");
    }

    /// Sends SIGTERM and returns the exit code.
    pub async fn terminate(mut self) -> Option<i32> {
        let id = self.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().await.expect("kill can be run");
        assert!(sent.success(), "the plane exited before SIGTERM was sent");
        let ended = timeout(Duration::from_secs(20), self.child.wait()).await;
        ended.expect("the plane ends within 20 s").expect("a child can be waited for").code()
    }
}
