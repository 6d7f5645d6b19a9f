//! The log is what was sent, and a client that resumes has seen exactly that.

use super::{kill_and_restart, read_log, register, seed, text};
use crate::command::recipe;
use client::{EventIn, Follow, Followed, Follower, Sender};
use domain::SandboxId;
use kit::chaos::{Chaos, Mishap};
use kit::cutter::Cutter;
use kit::process::Process;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;

const EVENTS: u64 = 20_000;
const KILLS: u64 = 22;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_whatever_breaks() {
    let (seed, data) = (seed(), TempDir::new().unwrap());
    let mut recipe = recipe(&data);
    let plane = Process::start(&recipe).await;
    let address: SocketAddr = plane.url.trim_start_matches("http://").parse().unwrap();
    // It comes back at the same place each time.
    recipe.port = address.port();
    let token = register(&plane.url, "s-chaos").await;
    let sandbox = SandboxId::parse("s-chaos").unwrap();

    let network = Chaos::start(address, seed.value).await;
    let wire = Cutter::start(address, 50..2_000, seed.value.wrapping_add(1)).await;
    let (progress, watched) = watch::channel(0u64);
    let killer = tokio::spawn(kill_and_restart(plane, recipe.clone(), watched, (KILLS, EVENTS), seed.value));
    let follower = tokio::spawn(follow(Follow {
        plane: format!("http://{address}"),
        sockets: Some(format!("ws://{}/api/v1/ws/events", wire.address)),
        sandbox: sandbox.clone(),
        token: Some(token.clone()),
        after_seq: 0,
        silence: client::SILENCE,
    }));

    let sent = send(&network.url, &sandbox, &token, &progress, seed.value).await;
    let plane = timeout(Duration::from_secs(60), killer).await.expect("the killer is done").unwrap();
    let seen = timeout(Duration::from_secs(120), follower).await.expect("the follower has seen all").unwrap();

    let log = read_log(&plane.url, "s-chaos").await;
    assert_eq!(log.len() as u64, EVENTS, "zero lost, zero doubled");
    let logged: Vec<_> =
        log.iter().map(|event| (event["seq"].as_u64().unwrap(), text(&event["id"]))).collect();
    let expected: Vec<_> = (1..=EVENTS).zip(sent).collect();
    assert_eq!(logged, expected, "order kept");
    let followed: Vec<_> = seen.into_iter().map(|event| (event.seq, event.id.to_string())).collect();
    assert_eq!(followed, expected, "the socket client has seen exactly the same list");
    let happened = network.happened();
    for mishap in [
        Mishap::DropRequest,
        Mishap::DropResponse,
        Mishap::DelayRequest,
        Mishap::DelayResponse,
        Mishap::Double,
        Mishap::ReplayLater,
    ] {
        assert!(happened.get(&mishap).copied().unwrap_or(0) > 5, "{mishap:?} hardly happened: {happened:?}");
    }
}

async fn send(
    url: &str,
    sandbox: &SandboxId,
    token: &str,
    progress: &watch::Sender<u64>,
    seed: u64,
) -> Vec<String> {
    let mut sender = Sender::new(url, sandbox, Some(token.to_owned()), 1, Duration::from_millis(400));
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(2));
    let mut sent = Vec::new();
    while (sent.len() as u64) < EVENTS {
        let left = usize::try_from(EVENTS).unwrap() - sent.len();
        let count = random.random_range(1..=100).min(left);
        let events: Vec<EventIn> = (0..count)
            .map(|n| EventIn {
                event_id: format!("e-{}", sent.len() + n),
                event_type: "agent.message".into(),
                event_data: json!({"n": sent.len() + n}),
                source: "agent".into(),
                emitted_at: None,
            })
            .collect();
        sender.send(&events).await.expect("no batch is refused");
        sent.extend(events.into_iter().map(|event| event.event_id));
        progress.send_replace(sent.len() as u64);
    }
    sent
}

async fn follow(follow: Follow) -> Vec<Followed> {
    let mut follower = Follower::new(follow);
    let mut seen = Vec::new();
    while (seen.len() as u64) < EVENTS {
        seen.push(follower.next().await);
    }
    seen
}
