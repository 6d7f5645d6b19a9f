//! End-to-end test of tickets: each is worked on by an agent in a Daytona sandbox, which is deleted afterwards.
//!
//! Daytona is the fake of `kit::daytona` in this process. It has the HTTP API of the real one and really runs the worker.

use crate::Paths;
use crate::account::{Account, REGION};
use crate::plane::{Plane, TIMEOUT, receive};
use crate::report::Report;
use anyhow::{Context, ensure};
use kit::daytona::{Daytona, Fault, Faults, Operation, Options, SandboxView};
use reqwest::Method;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

pub async fn run(
    report: &mut Report,
    account: &Account,
    plane: &Plane,
    daytona: &Daytona,
) -> anyhow::Result<()> {
    let agent = Agent::Hello;
    report.step("ticket is completed, with all events", complete(plane, daytona, agent)).await?;
    let completed = complete_despite_faults(plane, daytona, agent);
    report.step("ticket is completed despite Daytona faults", completed).await?;
    let removed = remove_orphans(account, plane, daytona);
    report.step("orphaned sandbox is removed, another plane's sandbox is kept", removed).await
}

/// Sandboxes of other orgs exist at the same time.
const ORG: &str = "acme";

/// Name of the secret with Daytona's API key.
const KEY_NAME: &str = "daytona-key";
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of a sandbox's whole lifecycle. The emulator starts a process for the first call of each function.
pub const LIFECYCLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Each poll invokes a function, so a longer wait polls less often.
const POLLS: u32 = 240;

/// A fake Daytona with realistic delays.
pub async fn daytona() -> Daytona {
    let delay = Duration::from_millis(300);
    Daytona::start(Options { start_delay: delay, delete_delay: delay, ..Options::default() }).await
}

/// Stores Daytona's API key as a secret. Returns the stack parameters for Daytona.
pub async fn configure(account: &Account, paths: &Paths, daytona: &Daytona) -> anyhow::Result<Vec<String>> {
    account.create_secret(KEY_NAME, daytona.key()).await?;
    let worker = worker(paths).context("cannot write the program of the worker")?;
    Ok(vec![
        format!("DaytonaApiUrl={}", daytona.url()),
        format!("DaytonaKeyName={KEY_NAME}"),
        format!("WorkerSource=image:{}", worker.display()),
        format!("Agents={}", agents(&paths.work)?),
        format!("Agent={}", Agent::Hello.name()),
    ])
}

/// The worker in `sunaba`, which contains the scripted agent.
fn worker(paths: &Paths) -> io::Result<PathBuf> {
    let program = paths.work.join("worker.sh");
    let sunaba = paths.binaries.join("sunaba");
    fs::write(&program, format!("#!/bin/sh\nexec '{}' worker \"$@\"\n", sunaba.display()))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(program)
}

async fn complete(plane: &Plane, daytona: &Daytona, agent: Agent) -> anyhow::Result<()> {
    let mut socket = plane.socket(&[]).await?;
    let ticket = post(plane, ORG, "Say hello", agent).await?;
    let spawned = async {
        loop {
            let frame = receive(&mut socket).await?;
            let is_of_ticket = frame["payload"]["ticket_id"] == ticket.as_str();
            if frame["event_type"] == "SANDBOX_SPAWNED" && is_of_ticket {
                return anyhow::Ok(frame);
            }
        }
    };
    let spawned = timeout(LIFECYCLE_TIMEOUT, spawned).await.context("SANDBOX_SPAWNED did not arrive")??;
    let (task, sandbox) = wait_for_end(plane, &ticket, LIFECYCLE_TIMEOUT).await?;
    ensure!(spawned["payload"]["sandbox_id"] == sandbox.as_str(), "{spawned}");
    ensure!(task["attempt"] == 1, "{task}");
    let stages = ["created", "ready", "claimed", "assigned", "started", "completed"];
    check_lifecycle(plane, "tasks", &task["id"], &stages.map(|stage| format!("task.{stage}"))).await?;
    let begin = ["pending", "preparing", "creating", "uploading", "starting", "spawned"];
    let end = ["running", "completing", "completed", "released"];
    let stages: Vec<String> = begin.iter().chain(&end).map(|stage| format!("sandbox.{stage}")).collect();
    check_lifecycle(plane, "sandboxes", &json!(sandbox), &stages).await?;
    let created = created(daytona);
    ensure!(created.len() == 1 && created[0].name == sandbox, "{created:?}");
    let request = &created[0].request;
    ensure!(request["autoStopInterval"] == 0 && request["ttlMinutes"] == 480, "{request}");
    let name = plane_name(request)?;
    // Planes of the same stage in other accounts may use the same Daytona organization.
    let account = name.strip_suffix(&format!("-{REGION}-dev")).unwrap_or_default();
    ensure!(account.len() == 12 && account.chars().all(|c| c.is_ascii_digit()), "its plane is {name}");
    Ok(())
}

/// The task is completed in one sandbox: each failed step is retried and takes effect once.
async fn complete_despite_faults(plane: &Plane, daytona: &Daytona, agent: Agent) -> anyhow::Result<()> {
    let rate_limited = Fault::RateLimited { header: "retry-after".to_owned(), secs: 1 };
    let faults = Faults::none()
        // The sandbox is created, but both the response and the first lookup fail. The retry finds it by name.
        .once(Operation::Create, Fault::ResponseLost)
        .once(Operation::Find, Fault::Error)
        .once(Operation::Execute, Fault::Error)
        .once(Operation::RunInSession, rate_limited)
        .once(Operation::Delete, Fault::ErrorAfterExecution);
    daytona.set_faults(faults);
    let ticket = post(plane, ORG, "Say hello despite faults", agent).await?;
    let (task, sandbox) = wait_for_end(plane, &ticket, LIFECYCLE_TIMEOUT).await?;
    ensure!(task["attempt"] == 1, "{task}");
    let created: Vec<String> = created(daytona).into_iter().map(|sandbox| sandbox.name).collect();
    ensure!(created.len() == 2 && created[1] == sandbox, "{created:?}");
    let retried = names(plane, "sandboxes", &json!(sandbox)).await?;
    let retried = retried.iter().filter(|name| *name == "sandbox.retrying").count();
    ensure!(retried == 3, "it was retried {retried} times");
    Ok(())
}

/// Invokes the function directly, because its schedule runs only every five minutes.
async fn remove_orphans(account: &Account, plane: &Plane, daytona: &Daytona) -> anyhow::Result<()> {
    let last = created(daytona).pop().context("there was a sandbox")?;
    let ours = plane_name(&last.request)?;
    for (name, owner) in [("orphan", ours), ("foreign", "999999999999-us-east-1-dev")] {
        let body = json!({"name": name, "labels": {"app": "sunaba", "plane": owner, "sandbox": name}});
        let request = reqwest::Client::new().post(format!("{}/sandbox", daytona.url()));
        let answer = request.bearer_auth(daytona.key()).body(body.to_string()).send().await?;
        ensure!(answer.status() == 200, "{}", answer.status());
    }
    account.invoke("sandboxes-sweep-providers").await?;
    let removed = async {
        while daytona.live_sandboxes().iter().any(|sandbox| sandbox.name == "orphan") {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    timeout(TIMEOUT, removed).await.context("the orphan was not removed")?;
    ensure!(
        daytona.live_sandboxes().iter().any(|sandbox| sandbox.name == "foreign"),
        "it removed another plane's sandbox"
    );
    let status = plane.get(&format!("/api/v1/monitoring/status?org={ORG}")).await?;
    ensure!(status["active_count"] == 0, "{status}");
    Ok(())
}

/// The sandboxes that these steps created at Daytona.
fn created(daytona: &Daytona) -> Vec<SandboxView> {
    let mut sandboxes = daytona.sandboxes();
    sandboxes.retain(|sandbox| sandbox.request["labels"]["org"] == ORG);
    sandboxes
}

fn plane_name(request: &Value) -> anyhow::Result<&str> {
    request["labels"]["plane"].as_str().with_context(|| format!("no plane in {request}"))
}

/// A scripted agent in the operator's list. The worker's built-in scripts are demonstrations and take longer.
#[derive(Debug, Clone, Copy)]
pub enum Agent {
    /// Completes at once.
    Hello,
    /// Works for ten minutes.
    Working,
}

impl Agent {
    /// As tickets name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Working => "working",
        }
    }

    fn steps(self) -> Vec<Value> {
        match self {
            Self::Hello => vec![json!({"type": "text", "text": "Hello."})],
            Self::Working => vec![
                json!({"type": "text", "text": "I begin."}),
                json!({"type": "tool_use", "name": "Bash", "input": {"command": "sleep 600", "timeout": 700_000}}),
            ],
        }
    }
}

/// Writes the scripts. Returns the operator's list of agents.
pub fn agents(folder: &Path) -> io::Result<String> {
    let entries = [Agent::Hello, Agent::Working].map(|agent| {
        let script = folder.join(format!("{}.jsonl", agent.name()));
        fs::write(&script, agent.steps().iter().map(|step| format!("{step}\n")).collect::<String>())?;
        Ok(format!("{}=scripted:{}", agent.name(), script.display()))
    });
    Ok(entries.into_iter().collect::<io::Result<Vec<String>>>()?.join(","))
}

/// Creates a ticket. Returns its id.
pub async fn post(plane: &Plane, org: &str, title: &str, agent: Agent) -> anyhow::Result<String> {
    let body = json!({"title": title, "org": org, "agent": agent.name(), "check_duplicates": false});
    let (status, body) =
        plane.call(Method::POST, "/api/v1/tickets", Some(&plane.operator), Some(body)).await?;
    ensure!((200..300).contains(&status), "{status} {body}");
    Ok(body["id"].as_str().with_context(|| format!("no id in {body}"))?.to_owned())
}

/// Waits until the ticket's task is completed and its sandbox is deleted at Daytona. Returns both.
pub async fn wait_for_end(plane: &Plane, ticket: &str, within: Duration) -> anyhow::Result<(Value, String)> {
    let task = wait_for_status(plane, ticket, "completed", within).await?;
    let sandbox = task["sandbox_id"].as_str().context("the task has no sandbox")?.to_owned();
    wait_for_event(plane, &sandbox, "sandbox.released", LIFECYCLE_TIMEOUT).await?;
    Ok((task, sandbox))
}

/// Waits until the ticket's task has a status. Returns the task.
pub async fn wait_for_status(
    plane: &Plane,
    ticket: &str,
    status: &str,
    within: Duration,
) -> anyhow::Result<Value> {
    let path = format!("/api/v1/tasks?ticket_id={ticket}");
    let list = until(plane, &path, within, |list| list["tasks"][0]["status"] == status).await?;
    Ok(list["tasks"][0].clone())
}

/// Waits for an event in the log of a sandbox.
pub async fn wait_for_event(
    plane: &Plane,
    sandbox: &str,
    event_type: &str,
    within: Duration,
) -> anyhow::Result<Value> {
    let path = format!("/api/v1/sandboxes/{sandbox}/events?event_type={event_type}");
    let page = until(plane, &path, within, |page| page["events"].get(0).is_some()).await?;
    Ok(page["events"][0].clone())
}

async fn until(
    plane: &Plane,
    path: &str,
    within: Duration,
    matches: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let mut last = Value::Null;
    let found = async {
        loop {
            last = plane.get(path).await?;
            if matches(&last) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(within / POLLS).await;
        }
    };
    let found = timeout(within, found).await;
    found.with_context(|| format!("{path} did not reach the expected state: {last}"))??;
    Ok(last)
}

/// Compares the lifecycle events in a log, without the worker's events in between.
async fn check_lifecycle(plane: &Plane, kind: &str, id: &Value, expected: &[String]) -> anyhow::Result<()> {
    let mut names = names(plane, kind, id).await?;
    names.retain(|name| name.starts_with("sandbox.") || name.starts_with("task."));
    ensure!(names == expected, "{names:?}");
    Ok(())
}

async fn names(plane: &Plane, kind: &str, id: &Value) -> anyhow::Result<Vec<String>> {
    let id = id.as_str().context("no id")?;
    let page = plane.get(&format!("/api/v1/{kind}/{id}/events?after_seq=0&limit=200")).await?;
    let events = page["events"].as_array().with_context(|| format!("{page}"))?;
    Ok(events.iter().filter_map(|event| event["event_type"].as_str().map(str::to_owned)).collect())
}
