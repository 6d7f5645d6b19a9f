//! The emulated account, seen with the tools of its owner.

use crate::Places;
use anyhow::{Context, bail};
use serde_json::Value;
use std::path::PathBuf;
use tokio::process::Command;

/// The emulator knows one pair of keys that may do everything.
const KEY: &str = "test";
/// Where everything is.
pub const REGION: &str = "us-east-1";
/// The stack's name.
pub const STACK: &str = "sunaba-emulated";

/// An account.
#[derive(Debug)]
pub struct Account {
    /// Where its AWS is.
    pub url: String,
    tools: PathBuf,
    admin: PathBuf,
}

impl Account {
    /// The account of an emulator.
    pub fn new(places: &Places, url: &str) -> Self {
        let admin = places.root.join("infra/emulator/admin.py");
        Self { url: url.to_owned(), tools: places.tools.clone(), admin }
    }

    /// What every function and every tool is told.
    pub fn environment(&self) -> [(&'static str, &str); 6] {
        [
            ("AWS_ENDPOINT_URL", &self.url),
            ("AWS_REGION", REGION),
            ("AWS_DEFAULT_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", KEY),
            ("SAM_CLI_TELEMETRY", "0"),
        ]
    }

    /// Under which address APIs are found by their ids: the emulator has no names for them.
    pub fn apis(&self) -> String {
        format!("{}/_aws/execute-api", self.url)
    }

    /// Runs SAM, as a user would.
    pub async fn sam(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.run(Command::new(self.tools.join("sam/bin/sam")), arguments).await
    }

    /// The stack's outputs.
    pub async fn outputs(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.admin(&["outputs", STACK]).await?)?)
    }

    /// The value of a secret.
    pub async fn secret(&self, id: &str) -> anyhow::Result<String> {
        self.admin(&["secret", id]).await
    }

    /// Makes a secret, as somebody does by hand before they deploy.
    pub async fn make_secret(&self, name: &str, value: &str) -> anyhow::Result<()> {
        self.admin(&["make_secret", name, value]).await.map(drop)
    }

    /// Calls a function, as its schedule does.
    pub async fn invoke(&self, function: &str) -> anyhow::Result<()> {
        self.admin(&["invoke", &format!("sunaba-dev-{function}")]).await.map(drop)
    }

    /// Every line in the functions' logs that says that somebody should look.
    pub async fn complaints(&self) -> anyhow::Result<String> {
        self.admin(&["complaints", "/aws/lambda/sunaba-dev-"]).await
    }

    /// Waits for a line with a word in a function's log.
    pub async fn log(&self, function: &str, word: &str, seconds: u32) -> anyhow::Result<String> {
        let group = format!("/aws/lambda/sunaba-dev-{function}");
        self.admin(&["log", &group, word, &seconds.to_string()]).await
    }

    /// Every line with a word in a function's log.
    pub async fn lines(&self, function: &str, word: &str) -> anyhow::Result<String> {
        self.admin(&["lines", &format!("/aws/lambda/sunaba-dev-{function}"), word]).await
    }

    /// The addresses of queues whose names start like this.
    pub async fn queues(&self, prefix: &str) -> anyhow::Result<Vec<String>> {
        Ok(serde_json::from_str(&self.admin(&["queues", prefix]).await?)?)
    }

    /// Hangs a rule on the bus; where what it hears goes.
    pub async fn listen(&self, bus: &str) -> anyhow::Result<String> {
        self.admin(&["listen", bus]).await
    }

    /// What comes into a queue within some seconds.
    pub async fn receive(&self, queue: &str, seconds: u32) -> anyhow::Result<Option<Value>> {
        let body = self.admin(&["receive", queue, &seconds.to_string()]).await?;
        if body.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_str(&body)?)) }
    }

    async fn admin(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(self.tools.join("ministack/bin/python"));
        command.arg(&self.admin);
        self.run(command, arguments).await
    }

    async fn run(&self, mut command: Command, arguments: &[&str]) -> anyhow::Result<String> {
        // Whoever is signed in to a real account must not meet it here.
        for own in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] {
            command.env_remove(own);
        }
        command.args(arguments).envs(self.environment()).kill_on_drop(true);
        let output = command.output().await.with_context(|| format!("cannot run {command:?}"))?;
        if !output.status.success() {
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            bail!("{arguments:?} failed:\n{out}\n{err}");
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}
