//! The network namespace of the agent's programs, and the bridge that connects it with the worker.
//!
//! The namespace has a loopback interface and nothing else. The bridge is this program, executed again inside: it forwards
//! ports to the [servers](crate::network) of the worker, and connections of the worker to ports of the agent.

use anyhow::{Context, bail};
use confine::NetworkNamespace;
use egress::bridge::Bridge;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use uuid::Uuid;

/// The hidden subcommand that runs the bridge.
pub const BRIDGE_COMMAND: &str = "bridge";

/// How long the bridge may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest path of a directory of sockets. The kernel limits the path of a socket to 107 bytes.
const MAX_DIRECTORY_BYTES: usize = 90;

/// The directory of the sockets between worker and bridge. Only the worker's user can enter it. Removed on drop.
#[derive(Debug)]
pub struct SocketDirectory(PathBuf);

impl SocketDirectory {
    /// Replaces what an earlier worker left. In a temporary directory if the path in the state directory is too long.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn create(state_dir: &Path) -> anyhow::Result<Self> {
        let mut directory = state_dir.join("network");
        if directory.as_os_str().len() > MAX_DIRECTORY_BYTES {
            directory = std::env::temp_dir().join(format!("sunaba-{}", Uuid::new_v4().simple()));
        }
        let create = || {
            if directory.exists() {
                fs::remove_dir_all(&directory)?;
            }
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)
        };
        create().with_context(|| format!("cannot create {}", directory.display()))?;
        Ok(Self(directory))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The bridge's process, which keeps the namespace open. Killed on drop.
#[derive(Debug)]
pub struct Namespace {
    process: Child,
    network: NetworkNamespace,
    _directory: SocketDirectory,
}

impl Namespace {
    /// Starts the bridge. `launcher` must be of the tier `namespaces`.
    ///
    /// # Errors
    /// If the bridge does not start. Nothing of the agent may be started then.
    pub async fn start(
        launcher: &confine::Launcher,
        bridge: &Bridge,
        directory: SocketDirectory,
    ) -> anyhow::Result<Self> {
        let arguments = [BRIDGE_COMMAND.to_owned()].into_iter().chain(bridge.arguments());
        let command = launcher.namespace_command(arguments, directory.path());
        let mut command = Command::from(command.context("the tier has no network namespace")?);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // A signal to the worker's process group must not end it: the worker saves the agent's work after it.
        command.process_group(0);
        let mut process = command.spawn().context("bubblewrap cannot be started")?;
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().context("standard output is a pipe")?);
        let read = timeout(START_TIMEOUT, output.read_line(&mut line)).await;
        let _ = read.context("the bridge did not start in time")?;
        let Some(pid) = line.strip_prefix("ready ").and_then(|pid| pid.trim().parse().ok()) else {
            let _ = process.start_kill();
            let errors = process.wait_with_output().await.map(|output| output.stderr).unwrap_or_default();
            bail!("the bridge did not start: {}", String::from_utf8_lossy(&errors).trim());
        };
        let network = NetworkNamespace::of(pid).context("the bridge has no network namespace")?;
        Ok(Self { process, network, _directory: directory })
    }

    pub fn network(&self) -> &NetworkNamespace {
        &self.network
    }

    /// Waits until the bridge exits, which it does not by itself.
    ///
    /// # Panics
    /// When it has exited. The agent has no network then, and the worker cannot go on.
    pub async fn watch(mut self) {
        let exited = self.process.wait().await;
        panic!("the bridge has exited: {exited:?}");
    }
}
