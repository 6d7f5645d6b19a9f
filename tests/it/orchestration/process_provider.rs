//! The default setup: a local plane that runs sandboxes as processes.

use super::{PlaneProcess, TIMEOUT, filter_types, quick_script};
use crate::support::{OPERATOR, user};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Stdio;
use tokio::process::Command;
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticket_completes_and_every_lifecycle_event_is_emitted() {
    let plane = PlaneProcess::start(&[]).await;
    let mut socket = plane.subscribe().await;
    let agent = plane.write_script(&quick_script());
    let ticket = plane.create_ticket(json!({"agent": agent})).await;
    let spawned = timeout(TIMEOUT, async {
        loop {
            let frame = socket.next().await.unwrap();
            if frame["event_type"] == "SANDBOX_SPAWNED" {
                return frame;
            }
        }
    });
    let spawned = spawned.await.expect("SANDBOX_SPAWNED is received");
    assert_eq!(spawned["payload"]["ticket_id"], ticket.as_str());
    let sandbox = spawned["payload"]["sandbox_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/sandboxes/{sandbox}/events?event_type=agent.started");
    plane.wait_until(&path, "the agent", |page| page["events"].get(0).is_some()).await;

    let task = plane.wait_for_status(&ticket, "completed").await;
    assert_eq!(task["sandbox_id"], sandbox.as_str());
    assert_eq!(task["result"]["final_output"], "Hello.");
    let shown = plane.wait_until_released(&sandbox).await;
    assert_eq!(shown["status"], "completed");
    plane.check_removed(&sandbox);

    let event_types = plane.event_types("sandboxes", &sandbox).await;
    let lifecycle =
        event_types.iter().filter(|name| name.starts_with("sandbox.")).cloned().collect::<Vec<_>>();
    let expected = [
        "pending",
        "preparing",
        "creating",
        "uploading",
        "starting",
        "spawned",
        "running",
        "completing",
        "completed",
        "released",
    ];
    assert_eq!(lifecycle, expected.map(|name| format!("sandbox.{name}")));
    let agent = ["agent.started", "agent.message", "agent.completed", "agent.shutdown"];
    assert_eq!(filter_types(&event_types, &agent), agent);
    let task_id = task["id"].as_str().unwrap();
    let expected = ["created", "ready", "claimed", "assigned", "started", "completed"];
    assert_eq!(plane.event_types("tasks", task_id).await, expected.map(|name| format!("task.{name}")));
    let ticket_events = plane.event_types("tickets", &ticket).await;
    assert_eq!(ticket_events[0], "ticket.created");
    assert!(ticket_events[1..].iter().all(|name| name == "ticket.transitioned"), "{ticket_events:?}");
    for (kind, id) in [("sandboxes", sandbox.as_str()), ("tasks", task_id), ("tickets", ticket.as_str())] {
        let seqs: Vec<u64> =
            plane.events(kind, id).await.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "the log of {id} has no gaps");
    }
    assert_eq!(plane.active_tasks().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_token_is_revoked_when_its_sandbox_ends() {
    let plane = PlaneProcess::start(&[]).await;
    let agent = plane
        .write_script(&[json!({"type": "text", "text": "Hello."}), json!({"play": "wait", "ms": 60_000})]);
    let ticket = plane.create_ticket(json!({"agent": agent})).await;
    let task = plane.wait_for_status(&ticket, "running").await;
    let sandbox = task["sandbox_id"].as_str().unwrap().to_owned();
    // Worker tokens begin with `swt_`.
    for process in plane.wait_for_processes(&sandbox, 1).await {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&environment).contains("swt_"),
            "the environment of {process} has a token"
        );
    }
    let rotated = plane.request(Method::POST, &format!("/api/v1/sandboxes/{sandbox}/token"), None).await.ok();
    let token = rotated["worker_token"].as_str().unwrap().to_owned();
    let url = format!("{}/api/v1/sandboxes/{sandbox}", plane.url);
    let with_token = || reqwest::Client::new().get(&url).bearer_auth(&token).send();
    assert_eq!(with_token().await.unwrap().status(), 200);
    plane.request(Method::DELETE, &format!("/api/v1/sandboxes/{sandbox}"), None).await.ok();
    assert_eq!(plane.wait_until_released(&sandbox).await["status"], "terminated");
    assert_eq!(with_token().await.unwrap().status(), 401);
    assert_eq!(plane.wait_for_status(&ticket, "cancelled").await["sandbox_id"], sandbox.as_str());
    plane.check_removed(&sandbox);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_with_unknown_provider_is_rejected() {
    let plane = PlaneProcess::start(&[]).await;
    let task = json!({"title": "Say hello", "provider": "docker"});
    let answer = plane.request(Method::POST, "/api/v1/tasks", Some(task)).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    let output = answer.body.to_string();
    assert!(
        output.contains(r#""provider""#) && output.contains("must be an enabled provider: process."),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency_limit_holds_and_all_tasks_complete() {
    let plane = PlaneProcess::start(&["--max-concurrent-tasks-per-org", "3"]).await;
    let agent = plane.write_script(&quick_script());
    let mut tickets = BTreeSet::new();
    for _ in 0..10 {
        tickets.insert(plane.create_ticket(json!({"agent": agent})).await);
    }
    let mut max = 0;
    let done = timeout(TIMEOUT, async {
        loop {
            max = max.max(plane.active_tasks().await);
            let list = plane.get("/api/v1/tasks?status=completed&limit=100").await;
            if list["tasks"].as_array().unwrap().len() == tickets.len() {
                return;
            }
        }
    });
    assert!(done.await.is_ok(), "{}", plane.log_text());
    assert!((1..=3).contains(&max), "{max} tasks ran at the same time");
    assert_eq!(plane.active_tasks().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticket_command_shows_progress_and_exits_with_the_outcome() {
    let plane = PlaneProcess::start(&[]).await;
    let good = plane.write_script(&quick_script());
    let bad = plane.write_script(&[json!({"play": "fail", "error": "invalid request: no such model"})]);
    let run = async |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sunaba"))
            .args(arguments)
            .args(["--url", &plane.url, "--token", OPERATOR])
            .stdin(Stdio::null())
            .output();
        let output = timeout(TIMEOUT, output).await.expect("the command exits").unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, output) = run(&["ticket", "Say hello", "--agent", &good, "--watch"]).await;
    assert_eq!(code, Some(0), "{output}");
    for part in ["ticket     ticket-", "is completed", "agent      Hello.", "sandbox    "] {
        assert!(output.contains(part), "{part}: {output}");
    }
    let (code, output) = run(&["ticket", "Fail", "--agent", &bad, "--watch"]).await;
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("no such model"), "{output}");
    let (code, output) = run(&["tasks", "--status", "failed"]).await;
    assert!(code == Some(0) && output.contains("Fail") && !output.contains("Say hello"), "{output}");
    let task = output.split_whitespace().next().unwrap().to_owned();
    assert_eq!(run(&["retry", &task]).await.0, Some(0));
    let (code, output) = run(&["cancel", "no-such-task"]).await;
    assert!(code == Some(1) && output.starts_with("sunaba: "), "{output}");
    let (code, output) = run(&["ticket", " "]).await;
    assert!(code == Some(1) && output.contains("the ticket is empty"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_command_shows_running_and_finished_workers() {
    const FIRST_LINE: &str = "Agent started for sandbox ";
    let plane = PlaneProcess::start_with_users().await;
    let command = |token: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sunaba"));
        command.arg("logs").args(arguments).args(["--url", &plane.url, "--token", token]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    };
    let run = async |token: &str, arguments: &[&str]| {
        let output =
            timeout(TIMEOUT, command(token, arguments).output()).await.expect("the command exits").unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    // It works for half a minute, and then waits for a response.
    let ticket = plane.create_ticket(json!({"agent": "scripted:refactor"})).await;
    let task = plane.wait_for_status(&ticket, "running").await;
    let sandbox = task["sandbox_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/sandboxes/{sandbox}/logs");
    let has_first_line = |page: &Value| page["lines"].to_string().contains(FIRST_LINE);
    plane.wait_until(&path, "the worker log", has_first_line).await;
    let (code, running) = run(OPERATOR, &[&sandbox]).await;
    assert!(code == Some(0) && running.matches(FIRST_LINE).count() == 1, "{code:?} {running}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let unread = command(OPERATOR, &[&sandbox]).stdout(writer).spawn().unwrap().wait_with_output().await;
    let unread = unread.unwrap();
    let expected = (Some(141), &b""[..]);
    assert_eq!((unread.status.code(), unread.stderr.as_slice()), expected, "as shells report SIGPIPE");

    let following = command(OPERATOR, &[&sandbox, "--follow", "--lines", "1000"]).spawn().unwrap();
    plane.request(Method::DELETE, &format!("/api/v1/sandboxes/{sandbox}"), None).await.ok();
    let followed = timeout(TIMEOUT, following.wait_with_output())
        .await
        .expect("following ends with the sandbox")
        .unwrap();
    let shown = String::from_utf8(followed.stdout).unwrap();
    assert!(followed.status.success() && followed.stderr.is_empty(), "{:?} {shown}", followed.status);
    plane.wait_until_released(&sandbox).await;
    let (code, ended) = run(&user("default", "viewer"), &[&sandbox, "--lines", "1000"]).await;
    assert_eq!((code, ended.as_str()), (Some(0), shown.as_str()), "following prints the whole log");
    assert!(ended.starts_with(&running) && ended.len() > running.len(), "{running}\nbecame\n{ended}");
    let (code, last) = run(OPERATOR, &[&sandbox, "--lines", "1"]).await;
    assert!(code == Some(0) && last.lines().count() == 1 && ended.ends_with(&last), "{last}");

    let rival = user("rival", "admin");
    let answer = plane.http.get(format!("{}{path}", plane.url)).bearer_auth(&rival).send().await.unwrap();
    assert_eq!(answer.status(), 404);
    let (code, output) = run(&rival, &[&sandbox]).await;
    assert_eq!(
        (code, output.as_str()),
        (Some(1), format!("sunaba: Sandbox {sandbox} was not found.\n").as_str())
    );
    plane.post("/api/v1/sandboxes", json!({"sandbox_id": "by-hand"})).await;
    let (code, output) = run(OPERATOR, &["by-hand", "--follow"]).await;
    assert!(code == Some(1) && output.contains("registered without a provider"), "{output}");
    let answer = plane.request(Method::GET, &format!("{path}?before=1&after=1"), None).await;
    assert_eq!((answer.status, &answer.body["field"]), (422, &json!("before")));
}

/// The console frames this link only: what a worker reports could be any page of the web.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_of_a_preview_is_made_by_the_provider() {
    let plane = PlaneProcess::start_with_users().await;
    let ticket = plane.create_ticket(json!({"agent": "scripted:refactor"})).await;
    let task = plane.wait_for_status(&ticket, "running").await;
    let sandbox = task["sandbox_id"].as_str().unwrap().to_owned();
    let reported =
        json!({"event_type": "preview.ready", "event_data": {"port": 5173, "url": "https://evil.example/"}});
    plane.post(&format!("/api/v1/sandboxes/{sandbox}/events"), reported).await;
    let path = |port: &str| format!("/api/v1/sandboxes/{sandbox}/previews/{port}");
    let link = plane.get(&path("5173")).await;
    let expected = json!({"sandbox_id": sandbox, "port": 5173, "url": "http://127.0.0.1:5173"});
    assert_eq!(link, expected);
    for port in ["0", "70000", "evil.example"] {
        let refused = plane.request(Method::GET, &path(port), None).await;
        assert_eq!((refused.status, &refused.body["field"]), (422, &json!("port")), "{port}");
    }
    let rival = user("rival", "admin");
    let hidden = plane.http.get(format!("{}{}", plane.url, path("5173"))).bearer_auth(&rival).send().await;
    assert_eq!(hidden.unwrap().status(), 404);
    // A sandbox without a provider has no link.
    plane.post("/api/v1/sandboxes", json!({"sandbox_id": "by-hand"})).await;
    let missing = plane.request(Method::GET, "/api/v1/sandboxes/by-hand/previews/5173", None).await;
    assert_eq!(missing.status, 404);
}
