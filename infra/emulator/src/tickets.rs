//! What must hold for tickets: each becomes a sandbox at Daytona with an agent at work in it, and nothing of it is left.
//!
//! Daytona is `kit::daytona`, in this process: it speaks HTTP as the real one does, and really runs the worker that it is
//! told to start.

use crate::Places;
use crate::account::{Account, REGION};
use crate::plane::{PATIENCE, Plane, hear};
use crate::report::Report;
use anyhow::{Context, ensure};
use kit::daytona::{Daytona, Mishap, Operation, Options, Trouble};
use reqwest::Method;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;

/// All of it.
pub async fn run(
    report: &mut Report,
    account: &Account,
    plane: &Plane,
    daytona: &Daytona,
) -> anyhow::Result<()> {
    let agent = Agent::new()?;
    let went = completed(plane, daytona, &agent);
    report.step("a ticket becomes a completed task, and every step is told", went).await?;
    let went = completed_in_trouble(plane, daytona, &agent);
    report.step("and so does one while Daytona fails and its answers are lost", went).await?;
    let compared = compared(account, plane, daytona);
    report
        .step("what nobody needs at Daytona is removed, and what is another plane's is not", compared)
        .await?;
    report.step("no function has complained", unworried(account)).await
}

/// The secret that somebody with an account at Daytona makes.
const KEY_NAME: &str = "daytona-key";
/// How often the plane is asked: each time is a function's.
const LOOK: Duration = Duration::from_millis(250);
/// A whole life, with a process to start for each function that it meets first.
const LIFE: Duration = Duration::from_secs(60);

/// A Daytona that takes its time, as the real one does.
pub async fn daytona() -> Daytona {
    let moment = Duration::from_millis(300);
    Daytona::start(Options { starts_after: moment, ends_after: moment, ..Options::default() }).await
}

/// Makes its key known to the account, and says what the stack must be told of it.
pub async fn introduce(account: &Account, places: &Places, daytona: &Daytona) -> anyhow::Result<Vec<String>> {
    account.make_secret(KEY_NAME, daytona.key()).await?;
    let worker = places.binaries.join("sunaba-worker");
    Ok(vec![
        format!("DaytonaApiUrl={}", daytona.url()),
        format!("DaytonaKeyName={KEY_NAME}"),
        format!("WorkerSource=image:{}", worker.display()),
    ])
}

async fn completed(plane: &Plane, daytona: &Daytona, agent: &Agent) -> anyhow::Result<()> {
    let mut socket = plane.socket("").await?;
    let ticket = post(plane, "Say hello", agent).await?;
    let spawned = async {
        loop {
            let frame = hear(&mut socket).await?;
            if frame["event_type"] == "SANDBOX_SPAWNED" {
                return anyhow::Ok(frame);
            }
        }
    };
    let spawned = timeout(LIFE, spawned).await.context("SANDBOX_SPAWNED was not heard")??;
    ensure!(spawned["payload"]["ticket_id"] == ticket.as_str(), "{spawned}");
    let (task, sandbox) = ended(plane, &ticket).await?;
    ensure!(spawned["payload"]["sandbox_id"] == sandbox.as_str(), "{spawned}");
    ensure!(task["attempt"] == 1, "{task}");
    let turns = ["created", "ready", "claimed", "assigned", "started", "completed"];
    check_turns(plane, "tasks", &task["id"], &turns.map(|turn| format!("task.{turn}"))).await?;
    let turns = ["pending", "preparing", "creating", "uploading", "starting", "spawned"];
    let ends = ["running", "completing", "completed", "released"];
    let turns: Vec<String> = turns.iter().chain(&ends).map(|turn| format!("sandbox.{turn}")).collect();
    check_turns(plane, "sandboxes", &json!(sandbox), &turns).await?;
    let made = daytona.sandboxes();
    ensure!(made.len() == 1 && made[0].name == sandbox, "{made:?}");
    let wish = &made[0].wish;
    ensure!(wish["autoStopInterval"] == 0 && wish["ttlMinutes"] == 480, "{wish}");
    let name = plane_name(wish)?;
    // Another account's plane of the same stage may have its sandboxes at the same Daytona.
    let account = name.strip_suffix(&format!("-{REGION}-dev")).unwrap_or_default();
    ensure!(account.len() == 12 && account.chars().all(|c| c.is_ascii_digit()), "its plane is {name}");
    Ok(())
}

/// Everything of it is at the same sandbox: each thing that went wrong was tried again, and none twice.
async fn completed_in_trouble(plane: &Plane, daytona: &Daytona, agent: &Agent) -> anyhow::Result<()> {
    let busy = Mishap::Busy { header: "retry-after".to_owned(), secs: 1 };
    let trouble = Trouble::none()
        // It is made, nobody says so, and looking for it does not help: whoever comes back finds it by its name.
        .once(Operation::Create, Mishap::Lost)
        .once(Operation::Find, Mishap::Broken)
        .once(Operation::Execute, Mishap::Broken)
        .once(Operation::RunInSession, busy)
        .once(Operation::Delete, Mishap::BrokenAfterwards);
    daytona.set_trouble(trouble);
    let ticket = post(plane, "Say hello in trouble", agent).await?;
    let (task, sandbox) = ended(plane, &ticket).await?;
    ensure!(task["attempt"] == 1, "{task}");
    let made: Vec<String> = daytona.sandboxes().into_iter().map(|seen| seen.name).collect();
    ensure!(made.len() == 2 && made[1] == sandbox, "{made:?}");
    let retried = names(plane, "sandboxes", &json!(sandbox)).await?;
    let retried = retried.iter().filter(|name| *name == "sandbox.retrying").count();
    ensure!(retried == 3, "it was tried again {retried} times");
    Ok(())
}

/// The schedule calls this function every five minutes; nobody waits for that here.
async fn compared(account: &Account, plane: &Plane, daytona: &Daytona) -> anyhow::Result<()> {
    let last = daytona.sandboxes().pop().context("there was a sandbox")?;
    let ours = plane_name(&last.wish)?;
    for (name, owner) in [("nobodys", ours), ("anothers", "999999999999-us-east-1-dev")] {
        let body = json!({"name": name, "labels": {"app": "sunaba", "plane": owner, "sandbox": name}});
        let request = reqwest::Client::new().post(format!("{}/sandbox", daytona.url()));
        let answer = request.bearer_auth(daytona.key()).body(body.to_string()).send().await?;
        ensure!(answer.status() == 200, "{}", answer.status());
    }
    account.invoke("sandboxes-compare").await?;
    let left = async {
        while daytona.living().iter().any(|seen| seen.name == "nobodys") {
            tokio::time::sleep(LOOK).await;
        }
    };
    timeout(PATIENCE, left).await.context("it is still there")?;
    ensure!(daytona.living().iter().any(|seen| seen.name == "anothers"), "it has removed another plane's");
    let status = plane.get("/api/v1/monitoring/status").await?;
    ensure!(status["active_count"] == 0, "{status}");
    Ok(())
}

async fn unworried(account: &Account) -> anyhow::Result<()> {
    let complaints = account.complaints().await?;
    ensure!(complaints.is_empty(), "{complaints}");
    Ok(())
}

fn plane_name(wish: &Value) -> anyhow::Result<&str> {
    wish["labels"]["plane"].as_str().with_context(|| format!("no plane in {wish}"))
}

/// An agent that needs no model and is done at once. The worker has scripts of its own, made for people to watch.
struct Agent {
    folder: TempDir,
}

impl Agent {
    fn new() -> anyhow::Result<Self> {
        let agent = Self { folder: TempDir::new()? };
        fs::write(agent.script(), format!("{}\n", json!({"type": "text", "text": "Hello."})))?;
        Ok(agent)
    }

    fn script(&self) -> PathBuf {
        self.folder.path().join("hello.jsonl")
    }
}

async fn post(plane: &Plane, title: &str, agent: &Agent) -> anyhow::Result<String> {
    let agent = format!("scripted:{}", agent.script().display());
    let body = json!({"title": title, "agent": agent, "check_duplicates": false});
    let (status, body) =
        plane.call(Method::POST, "/api/v1/tickets", Some(&plane.operator), Some(body)).await?;
    ensure!((200..300).contains(&status), "{status} {body}");
    Ok(body["id"].as_str().with_context(|| format!("no id in {body}"))?.to_owned())
}

/// The ticket's task when it is completed, and its sandbox when that is gone, at Daytona too.
async fn ended(plane: &Plane, ticket: &str) -> anyhow::Result<(Value, String)> {
    let tasks = format!("/api/v1/tasks?ticket_id={ticket}");
    let task = |list: &Value| list["tasks"][0].clone();
    let list = until(plane, &tasks, |list| task(list)["status"] == "completed").await?;
    let sandbox = task(&list)["sandbox_id"].as_str().context("it had no sandbox")?.to_owned();
    let log = format!("/api/v1/sandboxes/{sandbox}/events?event_type=sandbox.released");
    until(plane, &log, |page| page["events"].get(0).is_some()).await?;
    Ok((task(&list), sandbox))
}

async fn until(plane: &Plane, path: &str, fits: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
    let mut last = Value::Null;
    let found = async {
        loop {
            last = plane.get(path).await?;
            if fits(&last) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let found = timeout(LIFE, found).await;
    found.with_context(|| format!("{path} is not as expected: {last}"))??;
    Ok(last)
}

/// The plane's own turns in a log, in order; what the worker tells is among them.
async fn check_turns(plane: &Plane, kind: &str, id: &Value, expected: &[String]) -> anyhow::Result<()> {
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
