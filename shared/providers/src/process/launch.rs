//! Starts a worker only after its limits are set and its pid is recorded.
//!
//! A shell starts first, waits for a line on stdin, and then becomes the worker. If the plane dies before it writes that
//! line, the shell reads end-of-file and exits. So no worker runs unrecorded or without limits.
//!
//! The variables of the sandbox, which include secrets, follow on the same pipe as JSON. The environment of the worker would
//! show them to every process of this user for as long as the worker runs.

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
const WAIT_THEN_EXEC: &str = r#"read -r go && exec "$@""#;

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
    let (environment, variables) = variables_of(options, directory, name, variables);
    let mut input = b"go\n".to_vec();
    serde_json::to_writer(&mut input, &variables).map_err(|error| not_started(error.into()))?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WAIT_THEN_EXEC, "sh"]).args(&options.worker);
    command.env_clear().envs(environment);
    command.current_dir(directory.inside("workspace"));
    command.stdin(Stdio::piped()).stdout(log).stderr(errors).process_group(0);
    let mut child = command.spawn().map_err(not_started)?;
    let mut go = child.stdin.take().expect("stdin is piped");
    let id = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
    let identity =
        Identity::of(id).ok_or_else(|| Failure::unreachable("the worker exited while it started"))?;
    limits::set(id, name, metadata).map_err(|error| failed("setting the limits of the worker", &error))?;
    directory.record_worker(identity).map_err(|error| failed("recording the worker", &error))?;
    // The worker reads the pipe when it starts. If this fails, it gets incomplete JSON and exits.
    let written = timeout(GO_TIMEOUT, go.write_all(&input)).await;
    written.map_err(io::Error::from).flatten().map_err(|error| failed("starting the worker", &error))?;
    Ok(child)
}

/// The environment of the worker, and the variables that it gets through the pipe. Inherits nothing from the plane's
/// environment but what the options list.
fn variables_of(
    options: &Options,
    directory: &SandboxDirectory,
    name: &SandboxId,
    variables: &BTreeMap<String, String>,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let path = |inner: &str| directory.inside(inner).display().to_string();
    let mut environment = BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]);
    environment.extend(options.environment.clone());
    let home = ["HOME", "AGENT_HOME"].map(|variable| (variable, "home"));
    for (variable, folder) in
        home.into_iter().chain([("TMPDIR", "tmp"), ("STATE_DIR", "state"), ("CWD", "workspace")])
    {
        environment.insert(variable.to_owned(), path(folder));
    }
    if variables.contains_key("WORKSPACE_PATH") {
        environment.remove("CWD");
    }
    let hidden = options.hidden.iter().chain([&options.folder]).map(|path| path.display().to_string());
    let own = [
        ("SECRETS_FILE", "/dev/stdin".to_owned()),
        ("ISOLATION_HIDDEN", hidden.collect::<Vec<_>>().join(":")),
        ("ISOLATION", options.isolation.as_str().to_owned()),
        // These attribute its processes to the sandbox.
        ("SANDBOX_ID", name.to_string()),
        (DIRECTORY_VARIABLE, directory.folder().display().to_string()),
    ];
    environment.extend(own.map(|(variable, value)| (variable.to_owned(), value)));
    // A task cannot change them, and so not disable its isolation.
    let fixed = [
        "SECRETS_FILE",
        "ISOLATION_HIDDEN",
        "ISOLATION",
        "SANDBOX_ID",
        DIRECTORY_VARIABLE,
        "HOME",
        "AGENT_HOME",
        "STATE_DIR",
    ];
    let mut variables = variables.clone();
    variables.retain(|variable, _| !fixed.contains(&variable.as_str()));
    (environment, variables)
}
