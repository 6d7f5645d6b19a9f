//! A plane in a process of its own, to be killed.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// How to start a plane.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The `sunaba` binary.
    pub binary: PathBuf,
    /// Where its data is.
    pub data: PathBuf,
    /// Where it listens; 0 for anywhere.
    pub port: u16,
    /// The operator's token.
    pub token: String,
    /// Where its log goes, if anybody wants to read it.
    pub log: Option<PathBuf>,
    /// Further arguments of `sunaba dev`.
    pub arguments: Vec<String>,
}

/// A plane that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Kept open: a process that cannot write to its standard output may die of it.
    _output: Lines<BufReader<ChildStdout>>,
    /// `http://127.0.0.1:18000`.
    pub url: String,
}

impl Process {
    /// Starts a plane and waits for the line that says that it accepts requests.
    pub async fn start(recipe: &Recipe) -> Self {
        let log = recipe.log.as_ref().map_or_else(Stdio::null, |path| {
            Stdio::from(std::fs::File::create(path).expect("the log can be written"))
        });
        let mut child = Command::new(&recipe.binary)
            .args(["dev", "--port", &recipe.port.to_string(), "--data"])
            .arg(&recipe.data)
            .args(&recipe.arguments)
            .env("SUNABA_TOKEN", &recipe.token)
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
        let line = line.expect("the plane says that it is ready before it ends");
        let url = line.split_whitespace().last().and_then(|link| link.split("/?").next());
        Self { child, _output: lines, url: url.expect("the line ends in the link").to_owned() }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id().expect("it has not been waited for")
    }

    /// `kill -9`.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("a child can be killed");
    }

    /// `kill -TERM`, and its exit code.
    pub async fn terminate(mut self) -> Option<i32> {
        let id = self.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().await.expect("kill can be run");
        assert!(sent.success(), "the plane was gone before it was told to stop");
        let ended = timeout(Duration::from_secs(20), self.child.wait()).await;
        ended.expect("the plane ends within 20 s").expect("a child can be waited for").code()
    }
}
