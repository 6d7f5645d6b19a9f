//! Scenarios of the HTTP API and sockets.

use crate::load::{Connection, drive, get, post};
use crate::report::{Measured, Report};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

/// The plane under load.
pub struct Plane {
    pub address: String,
    /// The operator's token.
    pub token: String,
    /// Its process id.
    pub process: u32,
}

impl Plane {
    /// Registers a sandbox; returns its worker's token.
    pub async fn register(&self, id: &str) -> String {
        let mut connection = Connection::open(&self.address).await;
        let body = json!({"sandbox_id": id}).to_string();
        let answer = connection.request(&post("/api/v1/sandboxes", &self.token, &body)).await;
        let answer: Value = serde_json::from_slice(answer).expect("JSON");
        answer["worker_token"].as_str().expect("a token").to_owned()
    }

    async fn register_all(&self, prefix: &str, count: usize) -> Vec<(String, String)> {
        let mut sandboxes = Vec::new();
        for n in 0..count {
            let id = format!("{prefix}-{n}");
            let token = self.register(&id).await;
            sandboxes.push((format!("/api/v1/sandboxes/{id}/events"), token));
        }
        sandboxes
    }
}

/// A typical event of about 400 bytes.
fn event_data(n: usize) -> Value {
    json!({
        "turn": n, "tool": "Bash", "tool_use_id": format!("toolu_{n:020}"), "event_subtype": "tool_use",
        "input": {"command": format!("cargo test --package example-{n} -- --nocapture"), "timeout": 120_000},
        "task_id": "0b1f7a3c-5d2e-4f60-8a9b-c1d2e3f40516", "agent_id": "7e57a9e2-9b1c-4d8f-b3a4-5c6d7e8f9012",
    })
}

/// A request body with one event.
pub fn single(n: usize) -> String {
    json!({"event_type": "agent.tool_use", "event_data": event_data(n), "source": "agent"}).to_string()
}

fn batch(number: usize, size: usize) -> String {
    let events: Vec<Value> = (0..size)
        .map(|n| {
            let n = number * size + n;
            json!({"event_id": format!("evt-{n:012}"), "event_type": "agent.tool_use", "event_data": event_data(n),
                   "source": "agent", "emitted_at": "2026-11-16T00:00:00.000000Z"})
        })
        .collect();
    json!({"epoch": 1, "batch": number + 1, "events": events}).to_string()
}

/// The same server with an empty handler.
pub async fn baseline(report: &mut Report, address: &str, scale: usize) {
    let body = single(1);
    for connections in [1, 32] {
        drive(address, connections, 2_000, |_, _| post("/x", "t", &body)).await;
        let measured = drive(address, connections, 20_000 / scale, |_, _| post("/x", "t", &body)).await;
        report.baseline(connections, &measured);
    }
}

/// One event per request.
pub async fn single_posts(report: &mut Report, plane: &Plane, scale: usize) {
    let sandboxes = &plane.register_all("single", 32).await;
    let request = |index: usize, n: usize| {
        let (path, token) = &sandboxes[index];
        post(path, token, &single(n))
    };
    drive(&plane.address, 32, 1_600, request).await;
    let one = drive(&plane.address, 1, 6_000 / scale, request).await;
    report.rate("single POST, 1 connection", 1, &one, 1, "");
    let many = drive(&plane.address, 32, 16_000 / scale, request).await;
    report.rate("single POST, 32 connections, 32 sandboxes", 32, &many, 1, "≥ 1,500/s");
    let shared = drive(&plane.address, 32, 8_000 / scale, |_, n| request(0, n)).await;
    report.rate("single POST, 32 connections, 1 sandbox", 32, &shared, 1, "≥ 1,500/s");
}

/// A hundred events per request.
pub async fn batches(report: &mut Report, plane: &Plane, scale: usize) {
    let sandboxes = &plane.register_all("batched", 8).await;
    // Built in advance: building a batch takes more CPU time than storing it.
    let count = 1_600 / scale;
    let bodies: &Vec<String> = &(0..count).map(|number| batch(number, 100)).collect();
    let request = |index: usize, n: usize| {
        let (path, token) = &sandboxes[index];
        post(path, token, &bodies[n])
    };
    let measured = drive(&plane.address, 8, count, request).await;
    report.rate("batches of 100, 8 connections, 8 sandboxes", 0, &measured, 100, "≥ 30,000 events/s");
    let token = &plane.register("batched-one").await;
    let path = "/api/v1/sandboxes/batched-one/events";
    let measured = drive(&plane.address, 1, count / 4, |_, n| post(path, token, &bodies[n])).await;
    report.rate("batches of 100, 1 connection", 0, &measured, 100, "");
}

/// From before the POST until a client receives the frame.
pub async fn post_to_socket(report: &mut Report, plane: &Plane, scale: usize) {
    let one = latencies(plane, "live-1", 1, 0, 1_000 / scale, Duration::from_millis(5)).await;
    report.times("POST to socket, 1 subscriber, 200 POSTs/s at most", &one, "p50 ≤ 4 ms");
    let many = latencies(plane, "live-200", 199, 1, 300 / scale, Duration::from_millis(50)).await;
    report.times("POST to socket, 200 subscribers, one stalled, 20 POSTs/s", &many, "p99 ≤ 20 ms");
}

async fn latencies(
    plane: &Plane,
    id: &str,
    readers: usize,
    stalled: usize,
    count: usize,
    pace: Duration,
) -> Measured {
    let token = plane.register(id).await;
    let begun = Instant::now();
    let ready = Arc::new(AtomicUsize::new(0));
    let mut reading = JoinSet::new();
    for n in 0..readers + stalled {
        let (ready, url) = (ready.clone(), format!("ws://{}/api/v1/ws/events", plane.address));
        let auth = json!({"type": "auth", "token": plane.token, "entity_ids": [id]}).to_string();
        reading.spawn(async move {
            let (mut socket, _) = connect_async(url).await.expect("the socket opens");
            socket.send(Message::text(auth)).await.expect("the socket is open");
            let mut times = Vec::with_capacity(count);
            while let Some(Ok(frame)) = socket.next().await {
                let Message::Text(text) = frame else { continue };
                if text.contains("\"subscribed\"") {
                    ready.fetch_add(1, Ordering::SeqCst);
                    // A stalled subscriber stops reading and keeps its socket open.
                    if n >= readers {
                        std::future::pending::<()>().await;
                    }
                }
                let Some(sent) = sent_at(&text) else { continue };
                times.push(begun.elapsed().saturating_sub(sent));
                if times.len() == count {
                    break;
                }
            }
            times
        });
    }
    while ready.load(Ordering::SeqCst) < readers + stalled {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut connection = Connection::open(&plane.address).await;
    let path = format!("/api/v1/sandboxes/{id}/events");
    let mut ticks = tokio::time::interval(pace);
    for n in 0..count {
        ticks.tick().await;
        let mut data = event_data(n);
        data["sent_us"] = json!(u64::try_from(begun.elapsed().as_micros()).unwrap_or_default());
        let body = json!({"event_type": "agent.tool_use", "event_data": data}).to_string();
        connection.request(&post(&path, &token, &body)).await;
    }
    let mut times = Vec::new();
    for _ in 0..readers {
        if let Some(Ok(seen)) = reading.join_next().await {
            assert_eq!(seen.len(), count, "every subscriber sees every event");
            times.extend(seen);
        }
    }
    Measured::new(times, begun.elapsed())
}

fn sent_at(frame: &str) -> Option<Duration> {
    let digits = frame.split_once("\"sent_us\":")?.1;
    let end = digits.find(|c: char| !c.is_ascii_digit())?;
    digits[..end].parse().ok().map(Duration::from_micros)
}

/// Pages of a short and of a long log.
pub async fn pages(report: &mut Report, plane: &Plane, scale: usize) {
    let mut medians = Vec::new();
    for (id, events) in [("pages-short", 1_000), ("pages-long", 200_000)] {
        let token = &plane.register(id).await;
        let path = format!("/api/v1/sandboxes/{id}/events");
        let mut connection = Connection::open(&plane.address).await;
        for number in 0..events / 100 {
            connection.request(&post(&path, token, &batch(number, 100))).await;
        }
        let middle = events / 2 + 37;
        for (name, query) in
            [("newest", "limit=100".to_owned()), ("middle", format!("after_seq={middle}&limit=100"))]
        {
            let request = &get(&format!("{path}?{query}"), token);
            drive(&plane.address, 1, 200, |_, _| request.clone()).await;
            let measured = drive(&plane.address, 1, 2_000 / scale, |_, _| request.clone()).await;
            report.rate(&format!("page of 100, {name}, of {events} events"), 1, &measured, 1, "");
            medians.push((name, measured.percentile(0.5).as_secs_f64()));
        }
    }
    for name in ["newest", "middle"] {
        let of: Vec<f64> =
            medians.iter().filter(|(known, _)| *known == name).map(|(_, median)| *median).collect();
        report.value(
            &format!("page time, {name}, 200,000 against 1,000"),
            format!("{:.2}×", of[1] / of[0]),
            "≤ 1.5×",
        );
    }
}

/// Resident memory of the plane.
pub fn memory(report: &mut Report, plane: &Plane, when: &str) {
    report.value(&format!("resident memory {when}"), resident(plane.process), "");
}

/// Resident memory of a process.
pub fn resident(process: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    resident.unwrap_or("unknown").trim().to_owned()
}
