//! Latency of messages: from the POST to the worker's pull.

use crate::load::{Connection, get, post};
use crate::report::{Measured, Report};
use crate::scenarios::{Plane, single};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TARGET: &str = "p50 ≤ 10 ms, p99 ≤ 30 ms";

/// One idle worker, and workers whose agents are busy.
pub async fn post_to_pull(report: &mut Report, plane: &Plane, scale: usize) {
    let begun = Instant::now();
    let idle = Recipient::new(plane, "messages".into(), 500 / scale).await;
    let times = idle.run(plane, begun, Duration::from_millis(20)).await;
    report.times("message POST to pull, 1 sandbox", &Measured::new(times, begun.elapsed()), TARGET);
    let mut busy = Vec::new();
    for n in 0..32 {
        busy.push(Recipient::new(plane, format!("messages-{n}"), 40 / scale.min(4)).await);
    }
    let begun = Instant::now();
    let runs = busy.iter().zip(0..).map(|(sandbox, n)| async move {
        // 32 sandboxes, each with two messages and four events per second, with staggered starts.
        tokio::time::sleep(Duration::from_millis(n * 500 / 32)).await;
        let working = sandbox.work(plane, Duration::from_millis(250));
        tokio::select! {
            times = sandbox.run(plane, begun, Duration::from_millis(500)) => times,
            () = working => unreachable!("an agent sends events forever"),
        }
    });
    let times = join_all(runs).await.into_iter().flatten().collect();
    let measured = Measured::new(times, begun.elapsed());
    report.times("message POST to pull, 32 busy sandboxes", &measured, TARGET);
}

/// A sandbox that receives messages.
struct Recipient {
    path: String,
    token: String,
    count: usize,
}

impl Recipient {
    async fn new(plane: &Plane, id: String, count: usize) -> Self {
        let token = plane.register(&id).await;
        Self { path: format!("/api/v1/sandboxes/{id}"), token, count }
    }

    /// Returns the latency of each message.
    async fn run(&self, plane: &Plane, begun: Instant, pace: Duration) -> Vec<Duration> {
        let (times, ()) = tokio::join!(self.pull(plane, begun), self.send(plane, begun, pace));
        times
    }

    async fn send(&self, plane: &Plane, begun: Instant, pace: Duration) {
        let mut connection = Connection::open(&plane.address).await;
        let mut ticks = tokio::time::interval(pace);
        for _ in 0..self.count {
            ticks.tick().await;
            let body = json!({"content": begun.elapsed().as_micros().to_string()}).to_string();
            connection.request(&post(&format!("{}/messages", self.path), &plane.token, &body)).await;
        }
    }

    async fn pull(&self, plane: &Plane, begun: Instant) -> Vec<Duration> {
        let mut connection = Connection::open(&plane.address).await;
        let pull = get(&format!("{}/messages?ack=manual&wait=20", self.path), &self.token);
        let mut times = Vec::with_capacity(self.count);
        while times.len() < self.count {
            let answer = connection.request(&pull).await;
            let now = begun.elapsed();
            let answer: Value = serde_json::from_slice(answer).expect("JSON");
            let mut receipts = Vec::new();
            for message in answer["messages"].as_array().expect("a list") {
                let sent = message["content"].as_str().and_then(|text| text.parse().ok());
                times.push(now.saturating_sub(Duration::from_micros(sent.expect("the time of sending"))));
                receipts.push(json!({"message_id": message["id"], "state": "delivered"}));
            }
            if !receipts.is_empty() {
                let body = json!({"receipts": receipts}).to_string();
                connection.request(&post(&format!("{}/messages/ack", self.path), &self.token, &body)).await;
            }
        }
        times
    }

    async fn work(&self, plane: &Plane, pace: Duration) {
        let mut connection = Connection::open(&plane.address).await;
        let mut ticks = tokio::time::interval(pace);
        for n in 0.. {
            ticks.tick().await;
            connection.request(&post(&format!("{}/events", self.path), &self.token, &single(n))).await;
        }
    }
}
