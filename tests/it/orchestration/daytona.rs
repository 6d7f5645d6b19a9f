//! The real plane and the provider that it has on AWS, at a Daytona of ours that refuses, breaks and loses answers.

use super::{LOOK, Stage, quick};
use kit::daytona::{Daytona, Mishap, Operation, Options, Trouble};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// A storm with a provider that is left alone for half a minute takes its time.
const LONG: Duration = Duration::from_secs(150);
/// How long Daytona is to let a sandbox live.
const LIFETIME_MINUTES: &str = "77";

/// A Daytona, and a plane that has its sandboxes there.
struct Away {
    // First, so that nobody asks a Daytona that is gone.
    stage: Stage,
    daytona: Daytona,
    _worker: TempDir,
}

impl Away {
    async fn start(options: Options, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let worker = folder.path().join("worker");
        let script = format!("#!/bin/sh\nexec '{}' worker\n", env!("CARGO_BIN_EXE_sunaba"));
        fs::write(&worker, script).unwrap();
        fs::set_permissions(&worker, fs::Permissions::from_mode(0o755)).unwrap();
        let daytona = Daytona::start(options).await;
        let mut arguments = vec![
            "--provider",
            "daytona",
            "--daytona-api-url",
            daytona.url(),
            "--daytona-api-key",
            daytona.key(),
            "--worker-source",
            worker.to_str().unwrap(),
            "--sandbox-lifetime-minutes",
            LIFETIME_MINUTES,
        ];
        arguments.extend(more);
        let stage = Stage::start(&arguments).await;
        Self { stage, daytona, _worker: folder }
    }

    /// The ticket's task when it is over.
    async fn ended(&self, ticket: &str) -> Value {
        let path = format!("/api/v1/tasks?ticket_id={ticket}");
        let mut task = Value::Null;
        let over = async {
            while task["status"] != "completed" && task["status"] != "failed" {
                sleep(LOOK).await;
                task = self.stage.get(&path).await["tasks"][0].clone();
            }
        };
        let over = timeout(LONG, over).await;
        assert!(over.is_ok(), "{task:#}\n{}", self.stage.plane_log());
        task
    }

    /// Waits until nothing is left at Daytona, in none of its sandboxes.
    async fn until_empty(&self) {
        // One counts as gone a moment before its last process is.
        let running =
            || self.daytona.sandboxes().iter().any(|seen| !self.daytona.processes(&seen.name).is_empty());
        let empty = async {
            while !self.daytona.living().is_empty() || running() {
                sleep(LOOK).await;
            }
        };
        let left = timeout(LONG, empty).await;
        assert!(left.is_ok(), "{:#?}\n{}", self.daytona.living(), self.stage.plane_log());
    }

    /// What every sandbox was made with, whichever try asked for it.
    fn check_wishes(&self, tasks: &BTreeSet<String>) {
        let seen = self.daytona.sandboxes();
        let names: BTreeSet<&str> = seen.iter().map(|seen| seen.name.as_str()).collect();
        assert_eq!(names.len(), seen.len(), "two were made under one name");
        let planes: BTreeSet<&str> =
            seen.iter().filter_map(|seen| seen.wish["labels"]["plane"].as_str()).collect();
        assert_eq!(planes.len(), 1, "{planes:?}");
        for seen in &seen {
            let wish = &seen.wish;
            assert_eq!(wish["autoStopInterval"], 0, "{wish}");
            assert_eq!(wish["ttlMinutes"].to_string(), LIFETIME_MINUTES, "{wish}");
            assert_eq!((&wish["public"], &wish["env"]), (&json!(false), &json!({})), "{wish}");
            assert_eq!(
                (&wish["labels"]["app"], &wish["labels"]["sandbox"]),
                (&json!("sunaba"), &json!(seen.name))
            );
            assert!(tasks.contains(wish["labels"]["task"].as_str().unwrap()), "{wish}");
            assert!(!seen.commands.concat().contains("swt_"), "a token can be read in {:?}", seen.commands);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_ticket_ends_and_nothing_is_left_at_daytona_whatever_it_does() {
    let short = Duration::from_millis(250);
    let options = Options {
        starts_after: short,
        ends_after: short,
        trouble: Trouble::none().by_dice(7, 8).with_delay(short),
        ..Options::default()
    };
    let away = Away::start(options, &[]).await;
    let agent = away.stage.script(&quick());
    let mut tickets = Vec::new();
    for _ in 0..6 {
        tickets.push(away.stage.ticket(json!({"agent": agent, "memory_gb": 3})).await);
    }
    let (mut tasks, mut completed) = (BTreeSet::new(), 0);
    for ticket in &tickets {
        let task = away.ended(ticket).await;
        match task["status"] == "completed" {
            true => completed += 1,
            // It is Daytona's fault and not the task's, so every try was used.
            false => assert_eq!(task["attempt"], 4, "{task:#}"),
        }
        tasks.insert(task["id"].as_str().unwrap().to_owned());
    }
    assert!(completed > 0, "{}", away.stage.plane_log());
    away.until_empty().await;
    away.check_wishes(&tasks);
    assert_eq!(away.stage.running().await, 0);
    let calls = away.daytona.calls();
    for operation in [
        Operation::Create,
        Operation::Find,
        Operation::Resize,
        Operation::Delete,
        Operation::Upload,
        Operation::RunInSession,
    ] {
        assert!(calls.contains_key(&operation), "{operation:?} was never asked for: {calls:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_step_that_goes_wrong_at_daytona_is_done_again_in_the_same_sandbox() {
    let refused = |status| Mishap::Refused { status, message: "Not now".to_owned() };
    let trouble = Trouble::none()
        // An account that is not paid for, and is a moment later.
        .once(Operation::Create, refused(402))
        .once(Operation::Find, Mishap::Slow(Duration::ZERO))
        // It is made, nobody says so, and looking for it does not help.
        .once(Operation::Create, Mishap::Lost)
        .once(Operation::Find, Mishap::Broken)
        .once(Operation::Upload, refused(404))
        .once(Operation::OpenSession, Mishap::Busy { header: "retry-after".to_owned(), secs: 1 })
        .once(Operation::Delete, Mishap::BrokenAfterwards);
    let away = Away::start(Options { trouble, ..Options::default() }, &[]).await;
    let agent = away.stage.script(&quick());
    let ticket = away.stage.ticket(json!({"agent": agent})).await;
    let task = away.stage.until_status(&ticket, "completed").await;
    assert_eq!(task["attempt"], 1, "{task:#}");
    away.until_empty().await;
    assert_eq!(away.daytona.sandboxes().len(), 1);
    let log = away.stage.names("sandboxes", task["sandbox_id"].as_str().unwrap()).await;
    let retried = log.iter().filter(|name| *name == "sandbox.retrying").count();
    assert_eq!(retried, 4, "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_ticket_wants_of_its_sandbox_arrives_at_daytona() {
    let options = Options { snapshots: Vec::new(), ..Options::default() };
    let away =
        Away::start(options, &["--sandbox-image", "registry.example/agents:1", "--sandbox-cpu", "3"]).await;
    let agent = away.stage.script(&quick());
    let ticket = away.stage.ticket(json!({"agent": agent, "memory_gb": 6})).await;
    let task = away.stage.until_status(&ticket, "completed").await;
    away.until_empty().await;
    away.check_wishes(&[task["id"].as_str().unwrap().to_owned()].into());
    let wish = &away.daytona.sandboxes()[0].wish;
    assert_eq!(wish["buildInfo"]["dockerfileContent"], "FROM registry.example/agents:1\n");
    assert_eq!([&wish["memory"], &wish["cpu"], &wish["disk"]], [6, 3, 8]);
    let log = away.stage.log("sandboxes", task["sandbox_id"].as_str().unwrap()).await;
    let told = log.iter().find(|event| event["event_type"] == "sandbox.uploading").unwrap();
    let made_of = &told["event_data"]["made_of"];
    assert_eq!(made_of["image"], "registry.example/agents:1", "{told}");
    assert_eq!([&made_of["memory_gb"], &made_of["cpu"], &made_of["disk_gb"]], [6, 3, 8]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_from_a_snapshot_says_what_it_really_has() {
    let away = Away::start(Options::default(), &[]).await;
    let agent = away.stage.script(&quick());
    let ticket = away.stage.ticket(json!({"agent": agent, "memory_gb": 6})).await;
    let task = away.stage.until_status(&ticket, "completed").await;
    let log = away.stage.log("sandboxes", task["sandbox_id"].as_str().unwrap()).await;
    let told = log.iter().find(|event| event["event_type"] == "sandbox.uploading").unwrap();
    let made_of = json!({"snapshot": "ai-agent-dev-light", "memory_gb": 6, "cpu": 1, "disk_gb": 5});
    assert_eq!(
        told["event_data"]["made_of"], made_of,
        "what was asked for is given, the rest is the snapshot's"
    );
    away.until_empty().await;
}
