//! The emulator: ministack, with IAM in force.

use crate::Places;
use anyhow::{Context, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// An emulator that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Emulator {
    /// Where it is.
    pub url: String,
    log: PathBuf,
    _process: Child,
}

impl Emulator {
    /// Starts one on a free port and waits until it listens.
    pub async fn start(places: &Places) -> anyhow::Result<Self> {
        fs::create_dir_all(&places.work)?;
        let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        let (url, log) = (format!("http://127.0.0.1:{port}"), places.work.join("emulator.log"));
        let output = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut process = Command::new(places.tools.join("ministack/bin/ministack"))
            .current_dir(&places.work)
            .env("GATEWAY_PORT", port.to_string())
            .env("BIND_HOST", "127.0.0.1")
            // Functions are told where AWS is only if the emulator itself was.
            .env("AWS_ENDPOINT_URL", &url)
            // Policies count: whoever may not do something cannot.
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
                bail!("the emulator ended with {status}; its last words are in {}", log.display());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("the emulator does not listen after a minute; see {}", log.display())
    }

    /// Says where to look when something failed in it.
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let complaints: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
        let last = complaints.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join("\n");
        anyhow::anyhow!("{error:#}\nThe emulator's log is {}\n{last}", self.log.display())
    }
}
