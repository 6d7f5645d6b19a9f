//! A worker as the plane sees it: what it sends, well or badly.

use super::world::{Entrance, pause};
use bytes::Bytes;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What a worker will send, batch by batch.
#[derive(Debug)]
pub struct Script {
    batches: Vec<Value>,
    /// Sends everything twice.
    stutters: bool,
    /// Most moments between two batches.
    slowness: u32,
}

impl Script {
    pub fn random(random: &mut StdRng) -> Self {
        let event = |name: &str, data: Value| json!({"event_type": name, "event_data": data});
        let beat = |status: &str| event("agent.heartbeat", json!({"status": status}));
        let done = || event("agent.completed", json!({"success": true, "turns": 3}));
        let failed = |error: &str| event("agent.failed", json!({"error": error}));
        let mut batches =
            vec![vec![beat("starting")], vec![event("agent.started", json!({})), beat("working")]];
        for _ in 0..random.random_range(0..3) {
            batches.push(vec![event("agent.tool_use", json!({"tool": "Bash"})), beat("working")]);
        }
        let goodbye = event("agent.shutdown", json!({}));
        match random.random_range(0..20) {
            0..9 => batches.extend([vec![done()], vec![goodbye]]),
            9..11 => batches.push(vec![failed("connection reset by peer")]),
            11..12 => batches.extend([vec![failed("permission denied")], vec![goodbye]]),
            // Both, in one breath and in two.
            12..13 => batches.push(vec![done(), failed("connection reset by peer")]),
            13..14 => batches.extend([vec![failed("rate limit exceeded")], vec![done()], vec![done()]]),
            // Has nothing to do, or says that it works.
            14..15 => batches.extend((0..12).map(|_| vec![beat("waiting")])),
            15..16 => batches.extend((0..12).map(|_| vec![beat("working")])),
            // Dies somewhere.
            _ => {
                let kept = random.random_range(0..=batches.len());
                batches.truncate(kept);
            }
        }
        let numbered =
            (1..).zip(batches).map(|(batch, events)| json!({"epoch": 1, "batch": batch, "events": events}));
        let (stutters, slowness) = (random.random_range(0..5) == 0, random.random_range(1..12));
        Self { batches: numbered.collect(), stutters, slowness }
    }
}

/// Sends it all, and each batch again until it is answered.
pub async fn run(entrance: Entrance, variables: BTreeMap<String, String>, script: Script) {
    let path = format!("/api/v1/sandboxes/{}/events", variables["SANDBOX_ID"]);
    for batch in &script.batches {
        for _ in 0..=u32::from(script.stutters) {
            for _ in 0..20 {
                let request = http::Request::post(&path)
                    .header("authorization", format!("Bearer {}", variables["SANDBOX_TOKEN"]))
                    .body(Bytes::from(batch.to_string()))
                    .unwrap();
                let answer = edge::http::dispatch(&entrance.plane(), request).await;
                if answer.status().is_server_error() {
                    pause(3).await;
                    continue;
                }
                break;
            }
        }
        pause(script.slowness).await;
    }
}
