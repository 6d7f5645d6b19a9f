//! The log equals the events that were sent, and a follower that reconnects has received exactly those.

use super::{kill_and_restart, read_log, register, seed, text};
use crate::command::process_options;
use client::{EventIn, EventSender, Follow, Followed, Follower};
use domain::SandboxId;
use kit::chaos::{ChaosProxy, Fault};
use kit::flaky_proxy::FlakyProxy;
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
async fn events_are_stored_exactly_once_despite_faults_and_restarts() {
    let (seed, data) = (seed(), TempDir::new().unwrap());
    let mut options = process_options(&data);
    let plane = Process::start(&options).await;
    let address: SocketAddr = plane.url.trim_start_matches("http://").parse().unwrap();
    // Restarts keep the address.
    options.port = address.port();
    let token = register(&plane.url, "s-chaos").await;
    let sandbox = SandboxId::parse("s-chaos").unwrap();

    let network = ChaosProxy::start(address, seed.value).await;
    let socket_proxy = FlakyProxy::start(address, 50..2_000, seed.value.wrapping_add(1)).await;
    let (progress, watched) = watch::channel(0u64);
    let killer = tokio::spawn(kill_and_restart(plane, options.clone(), watched, (KILLS, EVENTS), seed.value));
    let follower = tokio::spawn(follow(Follow {
        plane: format!("http://{address}"),
        sockets: Some(format!("ws://{}/api/v1/ws/events", socket_proxy.address)),
        sandbox: sandbox.clone(),
        token: Some(token.clone()),
        after_seq: 0,
        idle_timeout: client::IDLE_TIMEOUT,
    }));

    let sent = send(&network.url, &sandbox, &token, &progress, seed.value).await;
    let plane = timeout(Duration::from_secs(60), killer).await.expect("the killer finishes").unwrap();
    let received =
        timeout(Duration::from_secs(120), follower).await.expect("the follower receives all events").unwrap();

    let log = read_log(&plane.url, "s-chaos").await;
    assert_eq!(log.len() as u64, EVENTS, "no event is lost or duplicated");
    let logged: Vec<_> =
        log.iter().map(|event| (event["seq"].as_u64().unwrap(), text(&event["id"]))).collect();
    let expected: Vec<_> = (1..=EVENTS).zip(sent).collect();
    assert_eq!(logged, expected, "events are in order");
    let followed: Vec<_> = received.into_iter().map(|event| (event.seq, event.id.to_string())).collect();
    assert_eq!(followed, expected, "the follower received exactly the same events");
    let counts = network.fault_counts();
    for fault in [
        Fault::DropRequest,
        Fault::DropResponse,
        Fault::DelayRequest,
        Fault::DelayResponse,
        Fault::Duplicate,
        Fault::ReplayLater,
    ] {
        assert!(counts.get(&fault).copied().unwrap_or(0) > 5, "{fault:?} was too rare: {counts:?}");
    }
}

async fn send(
    url: &str,
    sandbox: &SandboxId,
    token: &str,
    progress: &watch::Sender<u64>,
    seed: u64,
) -> Vec<String> {
    let mut sender = EventSender::new(url, sandbox, Some(token.to_owned()), 1, Duration::from_millis(400));
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(2));
    let mut sent = Vec::new();
    while (sent.len() as u64) < EVENTS {
        let remaining = usize::try_from(EVENTS).unwrap() - sent.len();
        let count = random.random_range(1..=100).min(remaining);
        let events: Vec<EventIn> = (0..count)
            .map(|n| EventIn {
                event_id: format!("e-{}", sent.len() + n),
                event_type: "agent.message".into(),
                event_data: json!({"n": sent.len() + n}),
                source: "agent".into(),
                emitted_at: None,
            })
            .collect();
        sender.send(&events).await.expect("no batch is rejected");
        sent.extend(events.into_iter().map(|event| event.event_id));
        progress.send_replace(sent.len() as u64);
    }
    sent
}

async fn follow(follow: Follow) -> Vec<Followed> {
    let mut follower = Follower::new(follow);
    let mut received = Vec::new();
    while (received.len() as u64) < EVENTS {
        received.push(follower.next().await);
    }
    received
}
