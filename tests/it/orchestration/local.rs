//! One ticket, and nothing to configure.

use super::{SOON, Stage, only, quick};
use crate::support::{JWT_SECRET, OPERATOR, user};
use reqwest::Method;
use serde_json::json;
use std::collections::BTreeSet;
use std::process::Stdio;
use tokio::process::Command;
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_becomes_a_completed_task_and_every_step_is_told() {
    let stage = Stage::start(&[]).await;
    let mut socket = stage.socket().await;
    let agent = stage.script(&quick());
    let ticket = stage.ticket(json!({"agent": agent})).await;
    let spawned = timeout(SOON, async {
        loop {
            let frame = socket.next().await.unwrap();
            if frame["event_type"] == "SANDBOX_SPAWNED" {
                return frame;
            }
        }
    });
    let spawned = spawned.await.expect("SANDBOX_SPAWNED is heard");
    assert_eq!(spawned["payload"]["ticket_id"], ticket.as_str());
    let sandbox = spawned["payload"]["sandbox_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/sandboxes/{sandbox}/events?event_type=agent.started");
    stage.until(&path, "the agent", |page| page["events"].get(0).is_some()).await;

    let task = stage.until_status(&ticket, "completed").await;
    assert_eq!(task["sandbox_id"], sandbox.as_str());
    assert_eq!(task["result"]["final_output"], "Hello.");
    let shown = stage.until_released(&sandbox).await;
    assert_eq!(shown["status"], "completed");
    stage.check_gone(&sandbox);

    let names = stage.names("sandboxes", &sandbox).await;
    let turns = names.iter().filter(|name| name.starts_with("sandbox.")).cloned().collect::<Vec<_>>();
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
    assert_eq!(turns, expected.map(|turn| format!("sandbox.{turn}")));
    let agent = ["agent.started", "agent.message", "agent.completed", "agent.shutdown"];
    assert_eq!(only(&names, &agent), agent);
    let task_id = task["id"].as_str().unwrap();
    let turns = ["created", "ready", "claimed", "assigned", "started", "completed"];
    assert_eq!(stage.names("tasks", task_id).await, turns.map(|turn| format!("task.{turn}")));
    let told = stage.names("tickets", &ticket).await;
    assert_eq!(told[0], "ticket.created");
    assert!(told[1..].iter().all(|name| name == "ticket.transitioned"), "{told:?}");
    for (kind, id) in [("sandboxes", sandbox.as_str()), ("tasks", task_id), ("tickets", ticket.as_str())] {
        let seqs: Vec<u64> =
            stage.log(kind, id).await.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "the log of {id} has no gaps");
    }
    assert_eq!(stage.running().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_of_a_sandbox_dies_with_it() {
    let stage = Stage::start(&[]).await;
    let agent =
        stage.script(&[json!({"type": "text", "text": "Hello."}), json!({"play": "wait", "ms": 60_000})]);
    let ticket = stage.ticket(json!({"agent": agent})).await;
    let task = stage.until_status(&ticket, "running").await;
    let sandbox = task["sandbox_id"].as_str().unwrap().to_owned();
    let process = stage.until_processes(&sandbox, 1).await[0];
    let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let token =
        environment.split('\0').find_map(|one| one.strip_prefix("SANDBOX_TOKEN=")).unwrap().to_owned();
    let url = format!("{}/api/v1/sandboxes/{sandbox}", stage.url);
    let with_token = || reqwest::Client::new().get(&url).bearer_auth(&token).send();
    assert_eq!(with_token().await.unwrap().status(), 200);
    stage.call(Method::DELETE, &format!("/api/v1/sandboxes/{sandbox}"), None).await.ok();
    assert_eq!(stage.until_released(&sandbox).await["status"], "terminated");
    assert_eq!(with_token().await.unwrap().status(), 401);
    assert_eq!(stage.until_status(&ticket, "cancelled").await["sandbox_id"], sandbox.as_str());
    stage.check_gone(&sandbox);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_for_a_provider_that_does_not_exist_is_refused() {
    let stage = Stage::start(&[]).await;
    let task = json!({"title": "Say hello", "provider": "docker"});
    let answer = stage.call(Method::POST, "/api/v1/tasks", Some(task)).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    let said = answer.body.to_string();
    assert!(said.contains(r#""provider""#) && said.contains("must be one of: process"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_tasks_run_at_a_time_than_may_and_all_get_their_turn() {
    let stage = Stage::start(&["--max-concurrent-tasks-per-org", "3"]).await;
    let agent = stage.script(&quick());
    let mut tickets = BTreeSet::new();
    for _ in 0..10 {
        tickets.insert(stage.ticket(json!({"agent": agent})).await);
    }
    let mut most = 0;
    let done = timeout(SOON, async {
        loop {
            most = most.max(stage.running().await);
            let list = stage.get("/api/v1/tasks?status=completed&limit=100").await;
            if list["tasks"].as_array().unwrap().len() == tickets.len() {
                return;
            }
        }
    });
    assert!(done.await.is_ok(), "{}", stage.plane_log());
    assert!((1..=3).contains(&most), "{most} at a time");
    assert_eq!(stage.running().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_shows_how_a_ticket_goes_and_fails_with_it() {
    let stage = Stage::start(&[]).await;
    let good = stage.script(&quick());
    let bad = stage.script(&[json!({"play": "fail", "error": "invalid request: no such model"})]);
    let run = async |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sunaba"))
            .args(arguments)
            .args(["--url", &stage.url, "--token", OPERATOR])
            .stdin(Stdio::null())
            .output();
        let output = timeout(SOON, output).await.expect("the command ends").unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, said) = run(&["ticket", "Say hello", "--agent", &good, "--watch"]).await;
    assert_eq!(code, Some(0), "{said}");
    for part in ["ticket     ticket-", "is completed", "agent      Hello.", "sandbox    "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (code, said) = run(&["ticket", "Fail", "--agent", &bad, "--watch"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no such model"), "{said}");
    let (code, said) = run(&["tasks", "--status", "failed"]).await;
    assert!(code == Some(0) && said.contains("Fail") && !said.contains("Say hello"), "{said}");
    let task = said.split_whitespace().next().unwrap().to_owned();
    assert_eq!(run(&["retry", &task]).await.0, Some(0));
    let (code, said) = run(&["cancel", "no-such-task"]).await;
    assert!(code == Some(1) && said.starts_with("sunaba: "), "{said}");
    let (code, said) = run(&["ticket", " "]).await;
    assert!(code == Some(1) && said.contains("say what is to be done"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_shows_the_log_of_a_worker_that_runs_and_of_one_that_has_ended() {
    const BEGINS: &str = "An agent works for sandbox ";
    let stage = Stage::start(&["--jwt-secret", JWT_SECRET]).await;
    let command = |token: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sunaba"));
        command.arg("logs").args(arguments).args(["--url", &stage.url, "--token", token]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    };
    let run = async |token: &str, arguments: &[&str]| {
        let output =
            timeout(SOON, command(token, arguments).output()).await.expect("the command ends").unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let agent =
        stage.script(&[json!({"type": "text", "text": "Hello."}), json!({"play": "wait", "ms": 60_000})]);
    let ticket = stage.ticket(json!({"agent": agent})).await;
    let task = stage.until_status(&ticket, "running").await;
    let sandbox = task["sandbox_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/sandboxes/{sandbox}/logs");
    let begins = |page: &serde_json::Value| page["lines"].to_string().contains(BEGINS);
    stage.until(&path, "the worker's log", begins).await;
    let (code, running) = run(OPERATOR, &[&sandbox]).await;
    assert!(code == Some(0) && running.matches(BEGINS).count() == 1, "{code:?} {running}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let unread = command(OPERATOR, &[&sandbox]).stdout(writer).spawn().unwrap().wait_with_output().await;
    let unread = unread.unwrap();
    let expected = (Some(141), &b""[..]);
    assert_eq!((unread.status.code(), unread.stderr.as_slice()), expected, "as shells report SIGPIPE");

    let following = command(OPERATOR, &[&sandbox, "--follow", "--lines", "1000"]).spawn().unwrap();
    stage.call(Method::DELETE, &format!("/api/v1/sandboxes/{sandbox}"), None).await.ok();
    let followed =
        timeout(SOON, following.wait_with_output()).await.expect("it ends with the sandbox").unwrap();
    let shown = String::from_utf8(followed.stdout).unwrap();
    assert!(followed.status.success() && followed.stderr.is_empty(), "{:?} {shown}", followed.status);
    stage.until_released(&sandbox).await;
    let (code, ended) = run(&user("default", "viewer"), &[&sandbox, "--lines", "1000"]).await;
    assert_eq!((code, ended.as_str()), (Some(0), shown.as_str()), "what was followed is the whole log");
    assert!(ended.starts_with(&running) && ended.len() > running.len(), "{running}\nbecame\n{ended}");
    let (code, last) = run(OPERATOR, &[&sandbox, "--lines", "1"]).await;
    assert!(code == Some(0) && last.lines().count() == 1 && ended.ends_with(&last), "{last}");

    let rival = user("rival", "admin");
    let answer = stage.http.get(format!("{}{path}", stage.url)).bearer_auth(&rival).send().await.unwrap();
    assert_eq!(answer.status(), 404);
    let (code, said) = run(&rival, &[&sandbox]).await;
    assert_eq!(
        (code, said.as_str()),
        (Some(1), format!("sunaba: Sandbox {sandbox} was not found.\n").as_str())
    );
    stage.post("/api/v1/sandboxes", json!({"sandbox_id": "by-hand"})).await;
    let (code, said) = run(OPERATOR, &["by-hand", "--follow"]).await;
    assert!(code == Some(1) && said.contains("registered without a provider"), "{said}");
    let answer = stage.call(Method::GET, &format!("{path}?before=1&after=1"), None).await;
    assert_eq!((answer.status, &answer.body["field"]), (422, &json!("before")));
}
