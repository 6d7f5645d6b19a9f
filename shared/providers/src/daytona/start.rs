//! What is done inside a sandbox, through its toolbox: the worker's program is put into it, and is run in a session.
//!
//! Everything of ours is in one folder of the user's home. Commands are kept to what every version of the toolbox
//! understands: it may take them apart itself, so no quote is inside of quotes of its kind; and a session runs them in its
//! own shell, so none of them may replace or leave that shell.

use super::Daytona;
use super::http::{Http, Whom, Wrong, with_query};
use super::wire::{self, Executed, Sandbox, Session};
use crate::{Failure, Tail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use domain::SandboxId;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Where toolboxes are, if the sandbox does not say so.
const TOOLBOX: &str = "https://proxy.app.daytona.io/toolbox";

/// Most of a worker's last words that go into a sentence of ours.
const MOST_SAID: usize = 300;

/// The session that the worker runs in: always this one, so that there are never two.
const SESSION: &str = "worker";

/// Makes our folder, which only its owner can enter, and says where it is.
const PREPARE: &str = r#"umask 077; mkdir -p "$HOME/.sunaba" && cd "$HOME/.sunaba" && chmod 700 . && pwd"#;

/// Starts the worker. The variables are removed before it runs; without them there is nothing to start.
const SCRIPT: &str = r#"cd "$(dirname "$0")" || exit 1
umask 022
. ./variables || exit 1
rm -f variables
mkdir -p "$CWD" && cd "$CWD" || exit 1
exec "$SUNABA_WORKER" </dev/null >>"$SUNABA_LOG" 2>&1
"#;

/// A sandbox's toolbox.
#[derive(Debug)]
pub(super) struct Toolbox<'a> {
    http: &'a Http,
    url: String,
}

impl Daytona {
    /// The toolbox of the sandbox that Daytona calls this.
    pub(super) async fn toolbox(&self, id: &str) -> Result<Toolbox<'_>, Failure> {
        match self.look(id).await? {
            Some(sandbox) => Ok(self.toolbox_of(&sandbox)),
            // The next try has another.
            None => Err(Failure::unreachable(format!("Daytona has no sandbox {id} any more"))),
        }
    }

    pub(super) fn toolbox_of(&self, sandbox: &Sandbox) -> Toolbox<'_> {
        let url = sandbox.toolbox_proxy_url.as_deref().unwrap_or(TOOLBOX).trim_end_matches('/');
        Toolbox { http: &self.http, url: format!("{url}/{}", sandbox.id) }
    }
}

impl Toolbox<'_> {
    /// Puts the worker's program into our folder, whole or not at all.
    pub(super) async fn put_worker(&self, program: Bytes) -> Result<(), Failure> {
        let folder = self.prepare().await?;
        self.put(&format!("{folder}/worker.part"), program, "sending the worker").await?;
        let settle = format!(r#"cd "{folder}" && chmod 700 worker.part && mv -f worker.part worker"#);
        self.run(&settle, "settling the worker").await.map(drop)
    }

    /// Has the worker run, unless it does.
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
        let text = variables_file(&folder, name, in_image, variables)?;
        self.put(&format!("{folder}/start"), SCRIPT.into(), "sending the start script").await?;
        self.put(&format!("{folder}/variables"), text.into(), "sending the variables").await?;
        let body = json!({"sessionId": SESSION});
        match self.json(Method::POST, "process/session", Some(&body), "opening a session").await {
            Ok(_) => {}
            // It is there.
            Err(wrong) if wrong.status == Some(409) => {}
            Err(wrong) => return Err(wrong.failure),
        }
        let body = json!({"command": format!(r#"sh "{folder}/start""#), "runAsync": true});
        let path = format!("process/session/{SESSION}/exec");
        match self.json(Method::POST, &path, Some(&body), "starting the worker").await {
            Ok(_) => self.check_worker().await,
            Err(wrong) if matches!(wrong.status, Some(400 | 404 | 409 | 410)) => {
                // Its shell is gone, and it will not come back: the next call begins with a new one.
                let path = format!("process/session/{SESSION}");
                let _ = self.json(Method::DELETE, &path, None, "closing a session").await;
                Err(wrong.failure)
            }
            Err(wrong) => Err(wrong.failure),
        }
    }

    /// Whether there is something to start. The shell would say so too, but only in a log that nobody reads: the sandbox
    /// would be given up minutes later, for a worker that was never heard.
    async fn check_program(&self, program: &str) -> Result<(), Failure> {
        if !is_plain(program) {
            return Err(Failure::refused(format!("{program:?} cannot be the path of a worker")));
        }
        let look = format!(r#"command -v "{program}" >/dev/null"#);
        match self.execute(&look, "looking for the worker").await?.exit_code {
            0 => Ok(()),
            _ => Err(Failure::unreachable(format!(
                "there is no worker to start at {program} in the sandbox (code 127): look at what its snapshot or image holds, \
                 and at where the worker is said to be"
            ))),
        }
    }

    /// Looks once at the worker that was just started: one that cannot run has ended by now, most often. What cannot be
    /// seen is not held against it.
    async fn check_worker(&self) -> Result<(), Failure> {
        let ended = self.session().await.ok().flatten().and_then(|session| session.last_code());
        match ended {
            None | Some(0) => Ok(()),
            Some(code) => {
                let said = self.worker_log(MOST_SAID).await.unwrap_or_default();
                let said = said.text.trim();
                Err(Failure::unreachable(format!("the worker ended at once, with code {code}: {said}")))
            }
        }
    }

    /// The end of what the worker has printed.
    pub(super) async fn worker_log(&self, most: usize) -> Result<Tail, Failure> {
        let printed = self.run(&tail_command(most), "reading the worker's log").await?;
        let unreadable = || Failure::unreachable("the end of the worker's log could not be read");
        read_tail(&printed).ok_or_else(unreadable)
    }

    async fn session(&self) -> Result<Option<Session>, Failure> {
        let path = format!("process/session/{SESSION}");
        match self.json(Method::GET, &path, None, "looking at the session").await {
            Ok(body) => wire::read(body, "a session").map(Some),
            Err(wrong) if wrong.status == Some(404) => Ok(None),
            Err(wrong) => Err(wrong.failure),
        }
    }

    async fn prepare(&self) -> Result<String, Failure> {
        let folder = self.run(PREPARE, "making our folder").await?.trim().to_owned();
        match folder.starts_with('/') && is_plain(&folder) {
            true => Ok(folder),
            false => {
                Err(Failure::refused("the home of the sandbox's user has a name that no command can hold"))
            }
        }
    }

    async fn put(&self, path: &str, content: Bytes, doing: &str) -> Result<(), Failure> {
        let url = with_query(&self.at("files/upload-v2"), &[("path", path.to_owned())])?;
        Ok(self.http.upload(&url, content, doing).await?)
    }

    /// Runs a short command to its end, and returns what it printed. There must be no single quote in it.
    async fn run(&self, command: &str, doing: &str) -> Result<String, Failure> {
        let Executed { exit_code, result } = self.execute(command, doing).await?;
        match exit_code {
            0 => Ok(result),
            code => Err(Failure::unreachable(format!("in the sandbox, {doing} failed with code {code}"))),
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
    ) -> Result<Value, Wrong> {
        self.http.json(Whom::Toolbox, method, &self.at(path), body, doing).await
    }

    fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }
}

/// Whether it can stand in a command between double quotes.
fn is_plain(path: &str) -> bool {
    !path.is_empty() && path.chars().all(|c| c.is_alphanumeric() || "/._- ".contains(c))
}

/// Prints where the end of the log starts, and then that end. What the worker prints meanwhile is left out: it would push
/// the start out of place. Base64, because answers are JSON, and the toolbox replaces what cannot stand in it.
fn tail_command(most: usize) -> String {
    format!(
        r#"log="$HOME/.sunaba/worker.log"; if [ -r "$log" ]; then size=$(wc -c <"$log"); start=$((size-{most})); [ $start -gt 0 ] || start=0; echo $start; tail -c +$((start+1)) "$log" | head -c $((size-start)) | base64; fi"#
    )
}

/// Reads what [`tail_command`] has printed: nothing, if there is no log.
fn read_tail(printed: &str) -> Option<Tail> {
    let mut parts = printed.split_ascii_whitespace();
    let Some(start) = parts.next() else { return Some(Tail::default()) };
    let bytes = STANDARD.decode(parts.collect::<String>()).ok()?;
    Some(Tail::new(start.parse().ok()?, &bytes))
}

/// The variables as a shell reads them.
fn variables_file(
    folder: &str,
    name: &SandboxId,
    in_image: Option<&str>,
    variables: &BTreeMap<String, String>,
) -> Result<String, Failure> {
    let worker = in_image.map_or_else(|| format!("{folder}/worker"), str::to_owned);
    let mut all = variables.clone();
    all.insert("SANDBOX_ID".to_owned(), name.to_string());
    let mut text = format!(
        "SUNABA_WORKER={}\nSUNABA_LOG={}\n",
        quoted(&worker),
        quoted(&format!("{folder}/worker.log"))
    );
    for (variable, value) in &all {
        let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let first = variable.chars().next().is_some_and(|c| !c.is_ascii_digit());
        if !first || !variable.chars().all(rest) || value.contains('\0') {
            return Err(Failure::refused(format!("{variable:?} cannot be a variable")));
        }
        text.push_str(&format!("export {variable}={}\n", quoted(value)));
    }
    // Where the worker works, as it would find out itself, but for a folder that is not there yet.
    text.push_str("CWD=\"${CWD:-${WORKSPACE_PATH:-$HOME/workspace}}\"\nexport CWD\n");
    Ok(text)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn whatever_a_variable_holds_the_worker_reads_it_as_it_is() {
        let hard = "it's \"quoted\" $HOME `id` \\ \n second line";
        let variables = BTreeMap::from([("HARD".to_owned(), hard.to_owned())]);
        let name = SandboxId::parse("box").unwrap();
        let text = variables_file("/f", &name, None, &variables).unwrap();
        let script = format!("{text}\nprintf %s \"$HARD|$SANDBOX_ID|$SUNABA_WORKER|$CWD\"");
        let ran =
            Command::new("sh").args(["-c", &script]).env("HOME", "/h").env_remove("CWD").output().unwrap();
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("{hard}|box|/f/worker|/h/workspace"));
        for bad in ["", "1A", "A-B", "A B", "A=B"] {
            let variables = BTreeMap::from([(bad.to_owned(), String::new())]);
            assert!(variables_file("/f", &name, None, &variables).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tail_of_a_log_has_its_offset_and_its_bytes() {
        let home = tempfile::tempdir().unwrap();
        let read = |most: usize| {
            let command = tail_command(most);
            assert!(!command.contains('\''), "it stands between single quotes: {command}");
            let ran = Command::new("sh").args(["-c", &command]).env("HOME", home.path()).output().unwrap();
            assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
            read_tail(&String::from_utf8(ran.stdout).unwrap()).unwrap()
        };
        assert_eq!(read(10), Tail::default(), "there is no log");
        std::fs::create_dir(home.path().join(".sunaba")).unwrap();
        let log = home.path().join(".sunaba/worker.log");
        std::fs::write(&log, "").unwrap();
        assert_eq!(read(10), Tail::default(), "nothing was printed");
        std::fs::write(&log, b"one\ntwo \xff\n\n").unwrap();
        assert_eq!(read(100), Tail { start: 0, text: "one\ntwo ?\n\n".to_owned() });
        assert_eq!(read(7), Tail { start: 4, text: "two ?\n\n".to_owned() });
        assert_eq!(read_tail("nonsense"), None);
        assert_eq!(read_tail("7\n%%%"), None);
    }
}
