//! The emulator process: ministack with IAM enforcement.

use crate::Paths;
use anyhow::{Context, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// A running emulator. It is killed when dropped.
#[derive(Debug)]
pub struct Emulator {
    pub url: String,
    log: PathBuf,
    _process: Child,
}

impl Emulator {
    /// Starts the emulator on a free port and waits until it accepts connections.
    pub async fn start(paths: &Paths) -> anyhow::Result<Self> {
        fs::create_dir_all(&paths.work)?;
        let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        let (url, log) = (format!("http://127.0.0.1:{port}"), paths.work.join("emulator.log"));
        let output = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut process = Command::new(paths.tools.join("ministack/bin/ministack"))
            .current_dir(&paths.work)
            .env("GATEWAY_PORT", port.to_string())
            .env("BIND_HOST", "127.0.0.1")
            // The emulator passes this on to functions.
            .env("AWS_ENDPOINT_URL", &url)
            // Enforces IAM policies.
            .env("AUTH", "true")
            .env("IOT_MTLS_ENABLED", "0")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the emulator")?;
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return Ok(Self { url, log, _process: process });
            }
            if let Some(status) = process.try_wait()? {
                bail!("the emulator exited with {status}; its log is {}", log.display());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("the emulator does not accept connections after a minute; see {}", log.display())
    }

    /// Adds the last errors of the emulator's log to an error.
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let errors: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
        let last = errors.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join("\n");
        anyhow::anyhow!("{error:#}\nThe emulator's log is {}\n{last}", self.log.display())
    }
}
