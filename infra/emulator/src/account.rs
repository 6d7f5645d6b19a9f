//! The emulated AWS account, administered with SAM and boto3.

use crate::Paths;
use anyhow::{Context, bail};
use serde_json::Value;
use std::path::PathBuf;
use tokio::process::Command;

/// Access key id and secret of the emulator's administrator.
const KEY: &str = "test";
pub const REGION: &str = "us-east-1";
pub const STACK: &str = "sunaba-emulated";

#[derive(Debug)]
pub struct Account {
    /// Endpoint of all AWS services.
    pub url: String,
    tools: PathBuf,
    admin: PathBuf,
}

impl Account {
    pub fn new(paths: &Paths, url: &str) -> Self {
        let admin = paths.root.join("infra/emulator/admin.py");
        Self { url: url.to_owned(), tools: paths.tools.clone(), admin }
    }

    /// Environment variables for AWS tools.
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

    /// Base URL of deployed APIs. The emulator addresses them by id in the path, not by host name.
    pub fn apis(&self) -> String {
        format!("{}/_aws/execute-api", self.url)
    }

    /// Runs the SAM CLI.
    pub async fn sam(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.run(Command::new(self.tools.join("sam/bin/sam")), arguments).await
    }

    pub async fn outputs(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.admin(&["outputs", STACK]).await?)?)
    }

    /// Creates a secret, as an operator does before a deployment.
    pub async fn create_secret(&self, name: &str, value: &str) -> anyhow::Result<()> {
        self.admin(&["create_secret", name, value]).await.map(drop)
    }

    /// Invokes a function and waits for it.
    pub async fn invoke(&self, function: &str) -> anyhow::Result<()> {
        self.admin(&["invoke", &format!("sunaba-dev-{function}")]).await.map(drop)
    }

    /// Invokes a function without waiting for it, as EventBridge Scheduler does.
    pub async fn invoke_async(&self, function: &str) -> anyhow::Result<()> {
        self.admin(&["invoke_async", &format!("sunaba-dev-{function}")]).await.map(drop)
    }

    /// Denies an action to a function, until [`Self::allow`].
    pub async fn deny(&self, function: &str, action: &str) -> anyhow::Result<()> {
        self.admin(&["deny", &format!("sunaba-dev-{function}"), action]).await.map(drop)
    }

    /// Ends the denial of an action.
    pub async fn allow(&self, function: &str) -> anyhow::Result<()> {
        self.admin(&["allow", &format!("sunaba-dev-{function}")]).await.map(drop)
    }

    /// All log lines with level ERROR, except those of some functions.
    pub async fn errors(&self, except: &[&str]) -> anyhow::Result<String> {
        let mut arguments = vec!["errors", "/aws/lambda/sunaba-dev-"];
        arguments.extend(except);
        self.admin(&arguments).await
    }

    /// Waits for a line that contains a text in a function's log.
    pub async fn wait_for_log(&self, function: &str, text: &str, seconds: u32) -> anyhow::Result<String> {
        let group = format!("/aws/lambda/sunaba-dev-{function}");
        self.admin(&["wait_for_log", &group, text, &seconds.to_string()]).await
    }

    /// All lines that contain a text in a function's log.
    pub async fn find_in_log(&self, function: &str, text: &str) -> anyhow::Result<String> {
        self.admin(&["find_in_log", &format!("/aws/lambda/sunaba-dev-{function}"), text]).await
    }

    /// URLs of queues with a prefix.
    pub async fn queues(&self, prefix: &str) -> anyhow::Result<Vec<String>> {
        Ok(serde_json::from_str(&self.admin(&["queues", prefix]).await?)?)
    }

    /// The first message on a queue, which stays there.
    pub async fn peek(&self, queue: &str) -> anyhow::Result<Option<Value>> {
        let body = self.admin(&["peek", queue]).await?;
        if body.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_str(&body)?)) }
    }

    /// Creates a queue like those of mailboxes.
    pub async fn create_mailbox_queue(&self, name: &str, sandbox: &str) -> anyhow::Result<()> {
        self.admin(&["create_mailbox_queue", name, sandbox]).await.map(drop)
    }

    /// Adds a rule to the bus that sends all events of an org to a queue. Returns the URL of the queue.
    pub async fn subscribe(&self, bus: &str, org: &str) -> anyhow::Result<String> {
        self.admin(&["subscribe", bus, org]).await
    }

    /// Waits for a message in a queue.
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
        // Credentials of a real account must not be used here.
        for variable in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] {
            command.env_remove(variable);
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
