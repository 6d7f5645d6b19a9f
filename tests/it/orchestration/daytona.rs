//! The real plane with the Daytona provider, against a fake Daytona API that rejects, fails and loses responses.

use super::{POLL_INTERVAL, PlaneProcess, quick_script};
use kit::daytona::{Daytona, Fault, Faults, Operation, Options};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// Random faults open the circuit breaker for half a minute at a time, so these tests need longer.
const LONG_TIMEOUT: Duration = Duration::from_secs(150);
const LIFETIME_MINUTES: &str = "77";

/// A fake Daytona API, and a plane that creates its sandboxes there.
struct DaytonaPlane {
    // Declared first, so that the plane is dropped before the API that it calls.
    plane: PlaneProcess,
    daytona: Daytona,
    _worker: TempDir,
}

impl DaytonaPlane {
    async fn start(options: Options, extra_arguments: &[&str]) -> Self {
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
        arguments.extend(extra_arguments);
        let plane = PlaneProcess::start(&arguments).await;
        Self { plane, daytona, _worker: folder }
    }

    /// Waits until the task of the ticket is completed or failed.
    async fn wait_until_finished(&self, ticket: &str) -> Value {
        let path = format!("/api/v1/tasks?ticket_id={ticket}");
        let mut task = Value::Null;
        let finished = async {
            while task["status"] != "completed" && task["status"] != "failed" {
                sleep(POLL_INTERVAL).await;
                task = self.plane.get(&path).await["tasks"][0].clone();
            }
        };
        let finished = timeout(LONG_TIMEOUT, finished).await;
        assert!(finished.is_ok(), "{task:#}\n{}", self.plane.log_text());
        task
    }

    /// Waits until Daytona has neither sandboxes nor processes of sandboxes.
    async fn wait_until_empty(&self) {
        // A sandbox counts as deleted a moment before its last process exits.
        let running =
            || self.daytona.sandboxes().iter().any(|seen| !self.daytona.processes(&seen.name).is_empty());
        let empty = async {
            while !self.daytona.live_sandboxes().is_empty() || running() {
                sleep(POLL_INTERVAL).await;
            }
        };
        let left = timeout(LONG_TIMEOUT, empty).await;
        assert!(left.is_ok(), "{:#?}\n{}", self.daytona.live_sandboxes(), self.plane.log_text());
    }

    /// Checks the create request of every sandbox, of all attempts.
    fn check_specs(&self, tasks: &BTreeSet<String>) {
        let seen = self.daytona.sandboxes();
        let names: BTreeSet<&str> = seen.iter().map(|seen| seen.name.as_str()).collect();
        assert_eq!(names.len(), seen.len(), "two sandboxes have the same name");
        let planes: BTreeSet<&str> =
            seen.iter().filter_map(|seen| seen.request["labels"]["plane"].as_str()).collect();
        assert_eq!(planes.len(), 1, "{planes:?}");
        for seen in &seen {
            let spec = &seen.request;
            assert_eq!(spec["autoStopInterval"], 0, "{spec}");
            assert_eq!(spec["ttlMinutes"].to_string(), LIFETIME_MINUTES, "{spec}");
            assert_eq!((&spec["public"], &spec["env"]), (&json!(false), &json!({})), "{spec}");
            assert_eq!(
                (&spec["labels"]["app"], &spec["labels"]["sandbox"]),
                (&json!("sunaba"), &json!(seen.name))
            );
            assert!(tasks.contains(spec["labels"]["task"].as_str().unwrap()), "{spec}");
            assert!(!seen.commands.concat().contains("swt_"), "a token can be read in {:?}", seen.commands);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_finish_and_sandboxes_are_deleted_despite_daytona_faults() {
    let short = Duration::from_millis(250);
    let options = Options {
        start_delay: short,
        delete_delay: short,
        faults: Faults::none().at_random(7, 8).with_delay(short),
        ..Options::default()
    };
    let setup = DaytonaPlane::start(options, &[]).await;
    let agent = setup.plane.write_script(&quick_script());
    let mut tickets = Vec::new();
    for _ in 0..6 {
        tickets.push(setup.plane.create_ticket(json!({"agent": agent, "memory_gb": 3})).await);
    }
    let (mut tasks, mut completed) = (BTreeSet::new(), 0);
    for ticket in &tickets {
        let task = setup.wait_until_finished(ticket).await;
        match task["status"] == "completed" {
            true => completed += 1,
            // Provider faults are retryable, so a failed task has used all attempts.
            false => assert_eq!(task["attempt"], 4, "{task:#}"),
        }
        tasks.insert(task["id"].as_str().unwrap().to_owned());
    }
    assert!(completed > 0, "{}", setup.plane.log_text());
    setup.wait_until_empty().await;
    setup.check_specs(&tasks);
    assert_eq!(setup.plane.active_tasks().await, 0);
    let calls = setup.daytona.calls();
    for operation in [
        Operation::Create,
        Operation::Find,
        Operation::Resize,
        Operation::Delete,
        Operation::Upload,
        Operation::RunInSession,
    ] {
        assert!(calls.contains_key(&operation), "{operation:?} was never called: {calls:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_daytona_calls_are_retried_in_the_same_sandbox() {
    let rejected = |status| Fault::Rejected { status, message: "Not now".to_owned() };
    let faults = Faults::none()
        // Payment required at first, accepted on retry.
        .once(Operation::Create, rejected(402))
        .once(Operation::Find, Fault::Delayed(Duration::ZERO))
        // The sandbox is created, but the response is lost and the lookup fails too.
        .once(Operation::Create, Fault::ResponseLost)
        .once(Operation::Find, Fault::Error)
        .once(Operation::Upload, rejected(404))
        .once(Operation::OpenSession, Fault::RateLimited { header: "retry-after".to_owned(), secs: 1 })
        .once(Operation::Delete, Fault::ErrorAfterExecution);
    let setup = DaytonaPlane::start(Options { faults, ..Options::default() }, &[]).await;
    let agent = setup.plane.write_script(&quick_script());
    let ticket = setup.plane.create_ticket(json!({"agent": agent})).await;
    let task = setup.plane.wait_for_status(&ticket, "completed").await;
    assert_eq!(task["attempt"], 1, "{task:#}");
    setup.wait_until_empty().await;
    assert_eq!(setup.daytona.sandboxes().len(), 1);
    let event_types = setup.plane.event_types("sandboxes", task["sandbox_id"].as_str().unwrap()).await;
    let retries = event_types.iter().filter(|name| *name == "sandbox.retrying").count();
    assert_eq!(retries, 4, "{event_types:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requested_image_and_resources_are_sent_to_daytona() {
    let options = Options { snapshots: Vec::new(), ..Options::default() };
    let setup =
        DaytonaPlane::start(options, &["--sandbox-image", "registry.example/agents:1", "--sandbox-cpu", "3"])
            .await;
    let agent = setup.plane.write_script(&quick_script());
    let ticket = setup.plane.create_ticket(json!({"agent": agent, "memory_gb": 6})).await;
    let task = setup.plane.wait_for_status(&ticket, "completed").await;
    setup.wait_until_empty().await;
    setup.check_specs(&[task["id"].as_str().unwrap().to_owned()].into());
    let spec = &setup.daytona.sandboxes()[0].request;
    assert_eq!(spec["buildInfo"]["dockerfileContent"], "FROM registry.example/agents:1\n");
    assert_eq!([&spec["memory"], &spec["cpu"], &spec["disk"]], [6, 3, 8]);
    let events = setup.plane.events("sandboxes", task["sandbox_id"].as_str().unwrap()).await;
    let event = events.iter().find(|event| event["event_type"] == "sandbox.uploading").unwrap();
    let actual_resources = &event["event_data"]["actual_resources"];
    assert_eq!(actual_resources["image"], "registry.example/agents:1", "{event}");
    assert_eq!(
        [&actual_resources["memory_gb"], &actual_resources["cpu"], &actual_resources["disk_gb"]],
        [6, 3, 8]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_sandbox_reports_its_actual_resources() {
    let setup = DaytonaPlane::start(Options::default(), &[]).await;
    let agent = setup.plane.write_script(&quick_script());
    let ticket = setup.plane.create_ticket(json!({"agent": agent, "memory_gb": 6})).await;
    let task = setup.plane.wait_for_status(&ticket, "completed").await;
    let events = setup.plane.events("sandboxes", task["sandbox_id"].as_str().unwrap()).await;
    let event = events.iter().find(|event| event["event_type"] == "sandbox.uploading").unwrap();
    let actual_resources = json!({"snapshot": "ai-agent-dev-light", "memory_gb": 6, "cpu": 1, "disk_gb": 5});
    assert_eq!(
        event["event_data"]["actual_resources"], actual_resources,
        "requested resources are applied, the rest comes from the snapshot"
    );
    setup.wait_until_empty().await;
}

/// It would run what a member asks for on the plane's host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plane_set_to_daytona_has_no_local_provider() {
    let setup = DaytonaPlane::start(Options::default(), &[]).await;
    let task = json!({"title": "Say hello", "provider": "process"});
    let answer = setup.plane.request(Method::POST, "/api/v1/tasks", Some(task)).await;
    assert_eq!((answer.status, &answer.body["field"]), (422, &json!("provider")), "{}", answer.body);
    assert_eq!(setup.plane.get("/api/v1/tasks").await["tasks"], json!([]), "nothing is stored");
    assert!(!setup.plane.options.data.join("sandboxes").exists());
}
