//! Latency of tickets: from the POST to a running agent, and to the result.

use crate::load::{Connection, post};
use crate::report::{Measured, Report};
use crate::scenarios::Plane;
use crate::watcher::Watcher;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

/// Creates tickets one after the other, each with a scripted agent of one step.
pub async fn post_to_agent(report: &mut Report, plane: &Plane, folder: &Path, scale: usize) {
    let script = folder.join("hello.jsonl");
    let step = json!({"type": "text", "text": "Hello."});
    std::fs::write(&script, format!("{step}\n")).expect("a temporary folder can be written to");
    let mut watcher = Watcher::open(plane, "/api/v1/ws/events").await;
    let (mut started, mut completed) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    for _ in 0..25 / scale {
        let body = json!({
            "title": "Say hello", "check_duplicates": false, "agent": format!("scripted:{}", script.display()),
        });
        let mut connection = Connection::open(&plane.address).await;
        let request = post("/api/v1/tickets", &plane.token, &body.to_string());
        let posted = Instant::now();
        let ticket: Value = serde_json::from_slice(connection.request(&request).await).expect("JSON");
        let task = ticket["task_id"].as_str().expect("a ticket has a task").to_owned();
        let types = ["SANDBOX_AGENT_STARTED", "TASK_COMPLETED"];
        let [agent, result] = watcher.arrivals(types, |payload| payload["task_id"] == task.as_str()).await;
        started.push(agent - posted);
        completed.push(result - posted);
    }
    let all = begun.elapsed();
    report.times("ticket POST to agent.started, process provider", &Measured::new(started, all), "≤ 1 s");
    report.times("ticket POST to task.completed, one-step script", &Measured::new(completed, all), "");
}
