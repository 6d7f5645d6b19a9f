//! End-to-end test of events: from a worker to sockets, pages and the event bus.

use crate::account::{Account, REGION};
use crate::plane::{Plane, TIMEOUT, receive};
use crate::report::Report;
use anyhow::{Context, ensure};
use client::{EventIn, EventSender, Follow, Follower};
use domain::access::{EVERY_ORG, Principal};
use domain::{ConnectionId, SandboxId, Timestamp};
use kit::flaky_proxy::FlakyProxy;
use kit::socket::Socket;
use reqwest::Method;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use store::connections::Connection;
use tokio::time::timeout;

pub async fn run(report: &mut Report, account: &Account, plane: &Plane) -> anyhow::Result<()> {
    let subscriber = account.subscribe(&plane.bus, "acme").await?;
    let worker = report.step("sandbox is registered, listed and returned", register(plane)).await?;
    report
        .step("invalid tokens are rejected, on requests and sockets", reject_tokens(plane, &worker))
        .await?;
    report.step("socket receives events once and in order", receive_events(plane, &worker)).await?;
    report.step("retried batch gets the first response", retry_batch(plane, &worker)).await?;
    report.step("large event data is sent as a reference", large_event(plane, &worker)).await?;
    report.step("socket with its token in the URL is subscribed", token_in_url(plane, &worker)).await?;
    report.step("event pages and trajectory return the log", read_log(plane)).await?;
    report.step("follower with a flaky connection receives every event once", follow(account, plane)).await?;
    report.step("stale subscription is removed", prune(account, plane, &worker)).await?;
    report
        .step("lifecycle events arrive on the event bus", publish(account, plane, &worker, &subscriber))
        .await?;
    report.step("replaced token is rejected", replace_token(plane, &worker)).await
}

async fn register(plane: &Plane) -> anyhow::Result<String> {
    let worker = plane.register("s-1").await?;
    let list = plane.get("/api/v1/sandboxes?org=acme").await?;
    ensure!(list["sandboxes"][0]["sandbox_id"] == "s-1", "{list}");
    ensure!(plane.last_seq("s-1").await? == 0, "a new sandbox has events");
    let again = json!({"sandbox_id": "s-1", "org": "acme"});
    let (status, _) =
        plane.call(Method::POST, "/api/v1/sandboxes", Some(&plane.operator), Some(again)).await?;
    ensure!(status == 409, "registered twice: {status}");
    Ok(worker)
}

async fn reject_tokens(plane: &Plane, worker: &str) -> anyhow::Result<()> {
    plane.register("s-2").await?;
    let event = json!({"event_type": "agent.message"});
    let path = "/api/v1/sandboxes/s-2/events";
    for (token, expected) in
        [(None, 401), (Some("nonsense"), 401), (Some("swt_a.b.c"), 401), (Some(worker), 403)]
    {
        let (status, body) = plane.call(Method::POST, path, token, Some(event.clone())).await?;
        ensure!(status == expected, "{token:?} posts: {status} {body}");
        let (status, body) = plane.call(Method::GET, path, token, None).await?;
        ensure!(status == expected, "{token:?} reads: {status} {body}");
    }
    ensure!(plane.last_seq("s-2").await? == 0, "a rejected event was stored");
    let (status, body) = plane.post_events("s-1", worker, json!({"event_type": "a b"})).await?;
    ensure!(status == 422 && body["field"] == "event_type", "{status} {body}");
    let opened = Socket::open(&format!("{}?token=nonsense", plane.sockets)).await;
    ensure!(matches!(opened, Err(401 | 403)), "a wrong token opened a socket: {opened:?}");
    Ok(())
}

async fn receive_events(plane: &Plane, worker: &str) -> anyhow::Result<()> {
    let mut socket = plane.socket(&["s-1"]).await?;
    let mut other = plane.socket(&["s-2"]).await?;
    let single = json!({"event_type": "agent.message", "event_data": {"text": "grüß dich \u{1F41A}"}});
    let (status, body) = plane.post_events("s-1", worker, single).await?;
    ensure!(status == 200, "{status} {body}");
    let first = receive(&mut socket).await?;
    ensure!(first["seq"] == 1 && first["payload"]["text"] == "grüß dich \u{1F41A}", "{first}");
    let (status, body) = plane.post_events("s-1", worker, batch(1, 2..=26)).await?;
    ensure!(status == 200 && body["first_seq"] == 2 && body["events"] == 25, "{status} {body}");
    for n in 2..=26_u64 {
        let frame = receive(&mut socket).await?;
        ensure!(frame["seq"] == n && frame["payload"]["n"] == n, "not {n}: {frame}");
    }
    let beat = json!({"event_type": "agent.heartbeat", "event_data": {"status": "working"}});
    plane.post_events("s-1", worker, beat).await?;
    let frame = receive(&mut socket).await?;
    ensure!(frame["seq"].is_null() && frame["event_type"] == "SANDBOX_AGENT_HEARTBEAT", "{frame}");
    ensure!(other.receive_until_pong().await.is_empty(), "received an event of another sandbox");
    Ok(())
}

fn batch(number: u64, numbers: std::ops::RangeInclusive<u64>) -> Value {
    let events: Vec<Value> = numbers
        .map(|n| json!({"event_id": format!("e-{n}"), "event_type": "agent.message", "event_data": {"n": n}}))
        .collect();
    json!({"epoch": 1, "batch": number, "events": events})
}

async fn retry_batch(plane: &Plane, worker: &str) -> anyhow::Result<()> {
    let (status, body) = plane.post_events("s-1", worker, batch(1, 2..=26)).await?;
    ensure!(status == 200 && body["first_seq"] == 2 && body["repeated"] == true, "{status} {body}");
    ensure!(plane.last_seq("s-1").await? == 26, "the batch was stored twice");
    Ok(())
}

async fn large_event(plane: &Plane, worker: &str) -> anyhow::Result<()> {
    let mut socket = plane.socket(&["s-1"]).await?;
    let text = "0123456789abcdef\n".repeat(20_000);
    let event = json!({"event_type": "agent.tool_completed", "event_data": {"output": text, "exit": 0}});
    let (status, body) = plane.post_events("s-1", worker, event).await?;
    ensure!(status == 200, "{status} {body}");
    let frame = receive(&mut socket).await?;
    let reference = frame["payload"]["body_ref"]["href"].as_str().with_context(|| format!("{frame}"))?;
    let data = plane.get(reference).await?;
    ensure!(data["output"] == text && data["exit"] == 0, "the stored data differs");
    Ok(())
}

async fn token_in_url(plane: &Plane, worker: &str) -> anyhow::Result<()> {
    // CloudFront rewrites the console's socket URL of a sandbox to this form.
    let url = format!("{}?token={worker}&sandbox_id=s-1", plane.sockets);
    let opened = Socket::open(&url).await.map_err(|status| anyhow::anyhow!("refused: {status}"));
    let mut socket = opened?;
    let (_, body) = plane.post_events("s-1", worker, json!({"event_type": "agent.message"})).await?;
    let frame = receive(&mut socket).await?;
    ensure!(frame["id"] == body["event_id"], "{frame} is not {body}");
    let foreign = Socket::open(&format!("{}?token={worker}&sandbox_id=s-2", plane.sockets)).await;
    ensure!(matches!(foreign, Err(403 | 404)), "a worker opened another's socket: {foreign:?}");
    Ok(())
}

async fn read_log(plane: &Plane) -> anyhow::Result<()> {
    let page = plane.get("/api/v1/sandboxes/s-1/events?after_seq=20&limit=3").await?;
    let numbers: Vec<u64> =
        page["events"].as_array().into_iter().flatten().filter_map(|e| e["seq"].as_u64()).collect();
    ensure!(numbers == [21, 22, 23] && page["has_more"] == true, "{page}");
    // The path that OmoiOS uses.
    let alias = plane.get("/api/v1/sandbox/s-1/events?after_seq=20&limit=3").await?;
    ensure!(alias["events"] == page["events"], "the alias returns other events");
    let trajectory = plane.get("/api/v1/sandboxes/s-1/trajectory").await?;
    ensure!(trajectory["heartbeat_summary"]["count"] == 1, "{trajectory}");
    Ok(())
}

async fn follow(account: &Account, plane: &Plane) -> anyhow::Result<()> {
    let (sandbox, worker) = (SandboxId::parse("s-3")?, plane.register("s-3").await?);
    let upstream: SocketAddr = account.url.trim_start_matches("http://").parse()?;
    let proxy = FlakyProxy::start(upstream, 300..1500, 7).await;
    let sockets = plane.sockets.replace(&upstream.to_string(), &proxy.address.to_string());
    let mut follower = Follower::new(Follow {
        plane: plane.url.clone(),
        sockets: Some(sockets),
        sandbox: sandbox.clone(),
        token: Some(plane.operator.clone()),
        after_seq: 0,
        idle_timeout: client::IDLE_TIMEOUT,
    });
    let mut sender = EventSender::new(&plane.url, &sandbox, Some(worker), 1, TIMEOUT);
    const BATCHES: u64 = 40;
    const EACH: u64 = 10;
    let sending = async {
        for number in 0..BATCHES {
            let events: Vec<EventIn> = (1..=EACH).map(|n| event(number * EACH + n)).collect();
            sender.send(&events).await?;
        }
        anyhow::Ok(())
    };
    let following = async {
        for expected in 1..=BATCHES * EACH {
            let seen = timeout(TIMEOUT * 2, follower.next()).await.context("the follower timed out")?;
            ensure!(seen.seq == expected && seen.data["n"] == expected, "not {expected}: {seen:?}");
        }
        Ok(())
    };
    tokio::try_join!(sending, following)?;
    ensure!(proxy.connections() > 1, "the connection was never closed");
    Ok(())
}

fn event(n: u64) -> EventIn {
    EventIn {
        event_id: format!("e-{n}"),
        event_type: "agent.message".into(),
        event_data: json!({"n": n}),
        source: "agent".into(),
        emitted_at: None,
    }
}

/// Stores a connection that API Gateway does not know, as if `$disconnect` had been lost.
async fn prune(account: &Account, plane: &Plane, worker: &str) -> anyhow::Result<()> {
    let store = admin_store(account, plane).await?;
    let id = ConnectionId::parse("stale-connection")?;
    let opened = Connection::new(id, Timestamp::from_secs(1_790_000_000));
    let mut subscribed = opened.clone();
    subscribed.principal = Some(Principal::operator("local"));
    subscribed.realm = Some(EVERY_ORG.to_owned());
    store.resubscribe(&opened, &mut subscribed).await?;
    ensure!(store.connection(&opened.id).await?.is_some(), "it was not stored");
    plane.post_events("s-1", worker, json!({"event_type": "agent.message"})).await?;
    let removed = async {
        while store.connection(&opened.id).await?.is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    timeout(TIMEOUT, removed).await.context("the stale connection was not removed")?
}

/// The table, with administrator credentials.
async fn admin_store(account: &Account, plane: &Plane) -> anyhow::Result<store::Store> {
    let environment = account.environment();
    let config = lambda_host::Config::read(|name| match name {
        "SUNABA_FUNCTION" => Some("sandboxes-health".to_owned()),
        "SUNABA_TABLE" => Some(plane.table.clone()),
        "SUNABA_STAGE" => Some("dev".to_owned()),
        "AWS_REGION" => Some(REGION.to_owned()),
        _ => environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
    });
    let config = config.map_err(anyhow::Error::msg)?;
    let wired = lambda_host::wire(&config).await.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(wired.store.clone())
}

async fn publish(account: &Account, plane: &Plane, worker: &str, subscriber: &str) -> anyhow::Result<()> {
    for name in ["agent.message", "agent.completed"] {
        plane.post_events("s-1", worker, json!({"event_type": name, "event_data": {"ok": true}})).await?;
    }
    let notice = account.receive(subscriber, 20).await?.context("no event arrived on the bus")?;
    ensure!(notice["detail-type"] == "SANDBOX_AGENT_COMPLETED", "{notice}");
    ensure!(notice["detail"]["org"] == "acme" && notice["detail"]["entity_id"] == "s-1", "{notice}");
    Ok(())
}

async fn replace_token(plane: &Plane, worker: &str) -> anyhow::Result<()> {
    let path = "/api/v1/sandboxes/s-1/token";
    let (status, body) = plane.call(Method::POST, path, Some(&plane.operator), Some(json!({}))).await?;
    ensure!(status == 200, "{status} {body}");
    let event = json!({"event_type": "agent.message"});
    let (status, _) = plane.post_events("s-1", worker, event.clone()).await?;
    ensure!(status == 401, "the old token still works: {status}");
    let new = body["worker_token"].as_str().context("no worker token")?;
    let (status, body) = plane.post_events("s-1", new, event).await?;
    ensure!(status == 200, "{status} {body}");
    Ok(())
}
