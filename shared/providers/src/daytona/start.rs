//! Uploads and starts the worker inside a sandbox, through Daytona's toolbox API.
//!
//! All files are in one directory of the user's home. Commands are limited to what every version of the toolbox supports:
//! it may parse them itself, so quotes are never nested in quotes of their kind; and a session runs them in its own shell,
//! so no command may replace or exit that shell.

use super::Daytona;
use super::http::{Http, RequestError, Target, with_query};
use super::wire::{self, Executed, Sandbox, Session};
use crate::{Failure, Tail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use domain::SandboxId;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Toolbox URL, if the sandbox does not report one.
const TOOLBOX_URL: &str = "https://proxy.app.daytona.io/toolbox";

/// Maximum number of bytes of worker output in an error message.
const MAX_OUTPUT_BYTES: usize = 300;

/// The Daytona session that the worker runs in. A fixed name prevents a second worker.
const SESSION: &str = "worker";

/// The file with the variables of the worker, in our directory.
const SECRETS: &str = "secrets";

/// Creates our directory, which only its owner can enter, and prints its path.
const PREPARE: &str = r#"umask 077; mkdir -p "$HOME/.sunaba" && cd "$HOME/.sunaba" && chmod 700 . && pwd"#;

/// The end of the script that starts the worker. The worker deletes the file with its variables when it reads them; the
/// script deletes it if the worker cannot be executed.
const RUN: &str = r#"trap 'rm -f "$SECRETS_FILE"' EXIT
chmod 600 "$SECRETS_FILE" || exit 1
umask 022
mkdir -p "$CWD" && cd "$CWD" || exit 1
exec "$SUNABA_WORKER" </dev/null >>"$SUNABA_LOG" 2>&1
"#;

/// Variables of the script, and those that libraries of the worker read from the environment of its process. All others
/// are in a file: an environment can be read for as long as the worker runs.
const ENVIRONMENT: [&str; 13] = [
    "AGENT_VARIABLES",
    "CWD",
    "WORKSPACE_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

#[derive(Debug)]
pub(super) struct Toolbox<'a> {
    http: &'a Http,
    url: String,
}

impl Daytona {
    /// The toolbox of the sandbox with this Daytona id.
    pub(super) async fn toolbox(&self, id: &str) -> Result<Toolbox<'_>, Failure> {
        match self.lookup(id).await? {
            Some(sandbox) => Ok(self.toolbox_of(&sandbox)),
            // Transient for the caller: its next attempt uses a new sandbox.
            None => Err(Failure::unreachable(format!("Daytona no longer has the sandbox {id}"))),
        }
    }

    pub(super) fn toolbox_of(&self, sandbox: &Sandbox) -> Toolbox<'_> {
        let url = sandbox.toolbox_proxy_url.as_deref().unwrap_or(TOOLBOX_URL).trim_end_matches('/');
        Toolbox { http: &self.http, url: format!("{url}/{}", sandbox.id) }
    }
}

impl Toolbox<'_> {
    /// Uploads the worker executable atomically.
    pub(super) async fn put_worker(&self, program: Bytes) -> Result<(), Failure> {
        let folder = self.prepare().await?;
        self.put(&format!("{folder}/worker.part"), program, "uploading the worker").await?;
        let install = format!(r#"cd "{folder}" && chmod 700 worker.part && mv -f worker.part worker"#);
        self.run(&install, "installing the worker").await.map(drop)
    }

    /// Starts the worker unless it runs already.
    pub(super) async fn start_worker(
        &self,
        name: &SandboxId,
        in_image: Option<&str>,
        variables: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        if self.session().await?.is_some_and(|session| session.is_busy()) {
            return Ok(());
        }
        let folder = self.prepare().await?;
        self.check_program(in_image.unwrap_or(&format!("{folder}/worker"))).await?;
        let Files { start, secrets } = files(&folder, name, in_image, variables)?;
        self.put(&format!("{folder}/start"), start.into(), "uploading the start script").await?;
        self.put(&format!("{folder}/{SECRETS}"), secrets.into(), "uploading the variables").await?;
        let body = json!({"sessionId": SESSION});
        match self.json(Method::POST, "process/session", Some(&body), "opening a session").await {
            Ok(_) => {}
            // It exists already.
            Err(error) if error.status == Some(409) => {}
            Err(error) => return Err(error.failure),
        }
        let body = json!({"command": format!(r#"sh "{folder}/start""#), "runAsync": true});
        let path = format!("process/session/{SESSION}/exec");
        match self.json(Method::POST, &path, Some(&body), "starting the worker").await {
            Ok(_) => self.check_worker().await,
            Err(error) if matches!(error.status, Some(400 | 404 | 409 | 410)) => {
                // The shell of the session has exited. Delete the session, so that the next call opens a new one.
                let path = format!("process/session/{SESSION}");
                let _ = self.json(Method::DELETE, &path, None, "closing a session").await;
                Err(error.failure)
            }
            Err(error) => Err(error.failure),
        }
    }

    /// Checks that the executable exists. Otherwise the shell would report it only in its log, and the sandbox would time out
    /// minutes later without a reason.
    async fn check_program(&self, program: &str) -> Result<(), Failure> {
        if !is_plain(program) {
            return Err(Failure::refused(format!("{program:?} is not a valid path of a worker executable")));
        }
        let command = format!(r#"command -v "{program}" >/dev/null"#);
        match self.execute(&command, "looking for the worker").await?.exit_code {
            0 => Ok(()),
            _ => Err(Failure::unreachable(format!(
                "the sandbox has no worker executable at {program} (code 127): check the snapshot or image, and the configured \
                 worker source"
            ))),
        }
    }

    /// Checks once whether the new worker has already exited, as one that cannot run usually has. A failed check does not
    /// count against it.
    async fn check_worker(&self) -> Result<(), Failure> {
        let exit_code = self.session().await.ok().flatten().and_then(|session| session.last_code());
        match exit_code {
            None | Some(0) => Ok(()),
            Some(code) => {
                let output = self.worker_log(MAX_OUTPUT_BYTES).await.unwrap_or_default();
                let output = output.text.trim();
                Err(Failure::unreachable(format!("the worker exited immediately with code {code}: {output}")))
            }
        }
    }

    /// The tail of the worker's log.
    pub(super) async fn worker_log(&self, max_bytes: usize) -> Result<Tail, Failure> {
        let printed = self.run(&tail_command(max_bytes), "reading the worker's log").await?;
        let unreadable = || Failure::unreachable("the tail of the worker's log is not readable");
        parse_tail(&printed).ok_or_else(unreadable)
    }

    async fn session(&self) -> Result<Option<Session>, Failure> {
        let path = format!("process/session/{SESSION}");
        match self.json(Method::GET, &path, None, "reading the session").await {
            Ok(body) => wire::read(body, "a session").map(Some),
            Err(error) if error.status == Some(404) => Ok(None),
            Err(error) => Err(error.failure),
        }
    }

    async fn prepare(&self) -> Result<String, Failure> {
        let folder = self.run(PREPARE, "creating the worker directory").await?.trim().to_owned();
        match folder.starts_with('/') && is_plain(&folder) {
            true => Ok(folder),
            false => Err(Failure::refused(
                "the home directory of the sandbox's user has unsupported characters in its path",
            )),
        }
    }

    async fn put(&self, path: &str, content: Bytes, doing: &str) -> Result<(), Failure> {
        let url = with_query(&self.at("files/upload-v2"), &[("path", path.to_owned())])?;
        Ok(self.http.upload(&url, content, doing).await?)
    }

    /// Runs a short command and returns its output. The command must not contain single quotes.
    async fn run(&self, command: &str, doing: &str) -> Result<String, Failure> {
        let Executed { exit_code, result } = self.execute(command, doing).await?;
        match exit_code {
            0 => Ok(result),
            code => Err(Failure::unreachable(format!("{doing} failed in the sandbox with code {code}"))),
        }
    }

    async fn execute(&self, command: &str, doing: &str) -> Result<Executed, Failure> {
        let body = json!({"command": format!("sh -c '{command}'"), "timeout": 10});
        let ran = self.json(Method::POST, "process/execute", Some(&body), doing).await?;
        wire::read(ran, "the result of a command")
    }

    async fn json(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        doing: &str,
    ) -> Result<Value, RequestError> {
        self.http.json(Target::Toolbox, method, &self.at(path), body, doing).await
    }

    fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }
}

/// Whether the path is safe between double quotes in a shell command.
fn is_plain(path: &str) -> bool {
    !path.is_empty() && path.chars().all(|c| c.is_alphanumeric() || "/._- ".contains(c))
}

/// Prints the offset of the tail and then the tail. Output that the worker adds meanwhile is excluded, so that the offset
/// is exact. Base64, because responses are JSON and the toolbox replaces bytes that are not UTF-8.
fn tail_command(max_bytes: usize) -> String {
    format!(
        r#"log="$HOME/.sunaba/worker.log"; if [ -r "$log" ]; then size=$(wc -c <"$log"); start=$((size-{max_bytes})); [ $start -gt 0 ] || start=0; echo $start; tail -c +$((start+1)) "$log" | head -c $((size-start)) | base64; fi"#
    )
}

/// Parses the output of [`tail_command`], which is empty if there is no log.
fn parse_tail(printed: &str) -> Option<Tail> {
    let mut parts = printed.split_ascii_whitespace();
    let Some(start) = parts.next() else { return Some(Tail::default()) };
    let bytes = STANDARD.decode(parts.collect::<String>()).ok()?;
    Some(Tail::new(start.parse().ok()?, &bytes))
}

/// What is uploaded to start a worker.
struct Files {
    /// A shell script, without secrets.
    start: String,
    /// The variables for `SECRETS_FILE`, as JSON.
    secrets: Vec<u8>,
}

fn files(
    folder: &str,
    name: &SandboxId,
    in_image: Option<&str>,
    variables: &BTreeMap<String, String>,
) -> Result<Files, Failure> {
    if let Some((variable, _)) = variables.iter().find(|(variable, value)| !is_variable(variable, value)) {
        return Err(Failure::refused(format!("{variable:?} is not a valid environment variable")));
    }
    let (mut environment, mut secrets): (BTreeMap<_, _>, BTreeMap<_, _>) =
        variables.clone().into_iter().partition(|(variable, _)| ENVIRONMENT.contains(&variable.as_str()));
    let worker = in_image.map_or_else(|| format!("{folder}/worker"), str::to_owned);
    // The image has variables of its own; only those of the sandbox are for its agent.
    environment.entry("AGENT_VARIABLES".to_owned()).or_default();
    let own = [
        ("SUNABA_WORKER", worker),
        ("SUNABA_LOG", format!("{folder}/worker.log")),
        ("SECRETS_FILE", format!("{folder}/{SECRETS}")),
        ("SANDBOX_ID", name.to_string()),
    ];
    for (variable, value) in own {
        secrets.remove(variable);
        environment.insert(variable.to_owned(), value);
    }
    let mut start = String::new();
    for (variable, value) in &environment {
        start.push_str(&format!("export {variable}={}\n", quoted(value)));
    }
    // The same working directory as the worker would choose, except that it need not exist yet.
    start.push_str("export CWD=\"${CWD:-${WORKSPACE_PATH:-$HOME/workspace}}\"\n");
    start.push_str(RUN);
    let secrets = serde_json::to_vec(&secrets).expect("a map of text can be written as JSON");
    Ok(Files { start, secrets })
}

fn is_variable(name: &str, value: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    first && name.chars().all(rest) && !value.contains('\0')
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn variables_survive_quoting_and_invalid_names_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let hard = "it's \"quoted\" $HOME `id` \\ \n second line";
        let variables = [("HARD", hard), ("HTTPS_PROXY", hard), ("SANDBOX_ID", "other")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let name = SandboxId::parse("box").unwrap();
        let Files { start, secrets } = files(path, &name, Some("/bin/sh"), &variables).unwrap();
        let expected = BTreeMap::from([("HARD".to_owned(), hard.to_owned())]);
        assert_eq!(serde_json::from_slice::<BTreeMap<String, String>>(&secrets).unwrap(), expected);
        assert!(!start.contains("HARD"), "{start}");
        let exports = start.strip_suffix(RUN).unwrap();
        let script = format!("{exports}\nprintf %s \"$HTTPS_PROXY|$SANDBOX_ID|$SUNABA_WORKER|$CWD\"");
        let ran =
            Command::new("sh").args(["-c", &script]).env("HOME", "/h").env_remove("CWD").output().unwrap();
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("{hard}|box|/bin/sh|/h/workspace"));
        for bad in ["", "1A", "A-B", "A B", "A=B"] {
            let variables = BTreeMap::from([(bad.to_owned(), String::new())]);
            assert!(files(path, &name, None, &variables).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn secrets_are_deleted_if_the_worker_cannot_be_executed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let name = SandboxId::parse("box").unwrap();
        let variables = BTreeMap::from([("CWD".to_owned(), path.to_owned())]);
        let Files { start, secrets } = files(path, &name, Some("/no/worker"), &variables).unwrap();
        let file = folder.path().join(SECRETS);
        std::fs::write(&file, secrets).unwrap();
        let ran = Command::new("sh").args(["-c", &start]).output().unwrap();
        assert_eq!(ran.status.code(), Some(127), "{ran:?}");
        assert!(!file.exists());
    }

    #[test]
    fn tail_has_offset_and_bytes_of_the_log() {
        let home = tempfile::tempdir().unwrap();
        let read = |max_bytes: usize| {
            let command = tail_command(max_bytes);
            assert!(!command.contains('\''), "it is wrapped in single quotes: {command}");
            let ran = Command::new("sh").args(["-c", &command]).env("HOME", home.path()).output().unwrap();
            assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
            parse_tail(&String::from_utf8(ran.stdout).unwrap()).unwrap()
        };
        assert_eq!(read(10), Tail::default(), "no log exists");
        std::fs::create_dir(home.path().join(".sunaba")).unwrap();
        let log = home.path().join(".sunaba/worker.log");
        std::fs::write(&log, "").unwrap();
        assert_eq!(read(10), Tail::default(), "the log is empty");
        std::fs::write(&log, b"one\ntwo \xff\n\n").unwrap();
        assert_eq!(read(100), Tail { start: 0, text: "one\ntwo ?\n\n".to_owned() });
        assert_eq!(read(7), Tail { start: 4, text: "two ?\n\n".to_owned() });
        assert_eq!(parse_tail("nonsense"), None);
        assert_eq!(parse_tail("7\n%%%"), None);
    }
}
