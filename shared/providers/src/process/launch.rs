//! Starting a worker: held back until its limits are set and it is noted who it is.
//!
//! A shell is started in its place and waits for a line. If the plane dies before that line is written, the shell reads
//! the end of its input and ends; afterwards the note is there. So no worker runs that nobody knows of, and none runs a
//! moment without its limits.

mod limits;

use super::place::{Note, Place};
use super::table::{Identity, MARK};
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
const HELD_BACK: &str = r#"read -r go && exec "$@" </dev/null"#;

/// Where programs are when nobody says so.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Within this time a shell reads a line.
const SOON: Duration = Duration::from_secs(5);

/// Starts the worker of a sandbox.
pub(super) async fn start(
    options: &Options,
    place: &Place,
    name: &SandboxId,
    note: &Note,
    variables: &BTreeMap<String, String>,
) -> Result<Child, Failure> {
    let not_started = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidInput => Failure::refused("a variable's name or value is not allowed"),
        _ => failed("starting the worker", &error),
    };
    let log = OpenOptions::new().create(true).append(true).open(place.log()).map_err(not_started)?;
    let errors = log.try_clone().map_err(not_started)?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", HELD_BACK, "sh"]).args(&options.worker);
    command.env_clear().envs(environment(options, place, name, variables));
    command.current_dir(place.inside("workspace"));
    command.stdin(Stdio::piped()).stdout(log).stderr(errors).process_group(0);
    let mut child = command.spawn().map_err(not_started)?;
    let mut go = child.stdin.take().expect("its standard input is a pipe");
    let id = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
    let identity = Identity::of(id).ok_or_else(|| Failure::unreachable("the worker ended as it began"))?;
    limits::set(id, name, note).map_err(|error| failed("limiting the worker", &error))?;
    place.note_worker(identity).map_err(|error| failed("noting the worker", &error))?;
    let said = timeout(SOON, go.write_all(b"go\n")).await;
    said.map_err(io::Error::from).flatten().map_err(|error| failed("starting the worker", &error))?;
    Ok(child)
}

/// A short list: nothing of the plane's own environment but what the options say.
fn environment(
    options: &Options,
    place: &Place,
    name: &SandboxId,
    variables: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let path = |inner: &str| place.inside(inner).display().to_string();
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
    // Whoever may say what a worker does may not let it out.
    environment.insert("ISOLATION".to_owned(), options.isolation.as_str().to_owned());
    // By these it is found again, whatever else it is told.
    environment.insert("SANDBOX_ID".to_owned(), name.to_string());
    environment.insert(MARK.to_owned(), place.folder().display().to_string());
    environment
}
