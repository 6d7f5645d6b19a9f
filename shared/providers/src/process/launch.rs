//! Starts a worker only after its limits are set and its pid is recorded.
//!
//! A shell starts first, waits for a line on stdin, and then becomes the worker. If the plane dies before it writes that
//! line, the shell reads end-of-file and exits. So no worker runs unrecorded or without limits.

mod limits;

use super::directory::{Metadata, SandboxDirectory};
use super::table::{DIRECTORY_VARIABLE, Identity};
use super::{Options, failed};
use crate::Failure;
use domain::SandboxId;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Waits for a line, then becomes the worker.
const WAIT_THEN_EXEC: &str = r#"read -r go && exec "$@" </dev/null"#;

/// Default of `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Timeout for writing the line to the shell.
const GO_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn start(
    options: &Options,
    directory: &SandboxDirectory,
    name: &SandboxId,
    metadata: &Metadata,
    variables: &BTreeMap<String, String>,
) -> Result<Child, Failure> {
    let not_started = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidInput => Failure::refused("a variable's name or value is not allowed"),
        _ => failed("starting the worker", &error),
    };
    let log = OpenOptions::new().create(true).append(true).open(directory.log()).map_err(not_started)?;
    let errors = log.try_clone().map_err(not_started)?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WAIT_THEN_EXEC, "sh"]).args(&options.worker);
    command.env_clear().envs(environment(options, directory, name, variables));
    command.current_dir(directory.inside("workspace"));
    command.stdin(Stdio::piped()).stdout(log).stderr(errors).process_group(0);
    let mut child = command.spawn().map_err(not_started)?;
    let mut go = child.stdin.take().expect("stdin is piped");
    let id = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
    let identity =
        Identity::of(id).ok_or_else(|| Failure::unreachable("the worker exited while it started"))?;
    limits::set(id, name, metadata).map_err(|error| failed("setting the limits of the worker", &error))?;
    directory.record_worker(identity).map_err(|error| failed("recording the worker", &error))?;
    let written = timeout(GO_TIMEOUT, go.write_all(b"go\n")).await;
    written.map_err(io::Error::from).flatten().map_err(|error| failed("starting the worker", &error))?;
    Ok(child)
}

/// Inherits nothing from the plane's environment but what the options list.
fn environment(
    options: &Options,
    directory: &SandboxDirectory,
    name: &SandboxId,
    variables: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let path = |inner: &str| directory.inside(inner).display().to_string();
    let mut environment = BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]);
    environment.extend(options.environment.clone());
    for (variable, folder) in
        [("HOME", "home"), ("TMPDIR", "tmp"), ("STATE_DIR", "state"), ("CWD", "workspace")]
    {
        environment.insert(variable.to_owned(), path(folder));
    }
    if variables.contains_key("WORKSPACE_PATH") {
        environment.remove("CWD");
    }
    environment.extend(variables.clone());
    // Set after the variables, so that a task cannot disable its isolation.
    environment.insert("ISOLATION".to_owned(), options.isolation.as_str().to_owned());
    // Set last: they attribute its processes to the sandbox.
    environment.insert("SANDBOX_ID".to_owned(), name.to_string());
    environment.insert(DIRECTORY_VARIABLE.to_owned(), directory.folder().display().to_string());
    environment
}
