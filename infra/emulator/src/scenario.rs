//! What must hold on the deployed plane: the event path, end to end, with real clients.

use crate::account::{Account, REGION};
use crate::plane::{PATIENCE, Plane, hear};
use crate::report::Report;
use crate::stack::Stack;
use crate::{messages, sessions, tickets};
use anyhow::{Context, ensure};
use client::{EventIn, Follow, Follower, Sender};
use domain::access::{EVERY_ORG, Principal};
use domain::filter::Filters;
use domain::{ConnectionId, SandboxId, Timestamp};
use kit::cutter::Cutter;
use kit::daytona::Daytona;
use kit::socket::Socket;
use reqwest::Method;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use store::connections::Connection;
use tokio::time::timeout;

/// Everything, in an order in which nothing waits long.
pub async fn run(
    report: &mut Report,
    account: &Account,
    plane: &Plane,
    daytona: &Daytona,
    stack: Stack,
) -> anyhow::Result<()> {
    report.step("the plane answers whoever asks for its health", healthy(plane)).await?;
    let heard = account.listen(&plane.bus).await?;
    // Its ten seconds run while the rest goes on.
    let silent = Socket::open(&plane.sockets).await;
    let mut silent =
        silent.map_err(|status| anyhow::anyhow!("a socket without a token was refused: {status}"))?;
    let worker = report.step("a sandbox is registered, listed and shown", registered(plane)).await?;
    report.step("wrong tokens are refused, on requests and sockets", refused(plane, &worker)).await?;
    report.step("events come to the socket, in order, once", told(plane, &worker)).await?;
    report.step("a repeated batch gets its first answer", repeated(plane, &worker)).await?;
    report.step("what is large comes as a reference, and whole from there", large(plane, &worker)).await?;
    report
        .step("a socket with its token in the address is subscribed", in_the_address(plane, &worker))
        .await?;
    report.step("pages and the trajectory show the log", read(plane)).await?;
    report.step("a follower whose wire is cut sees every event once", resumed(account, plane)).await?;
    report.step("a socket that is gone is forgotten", pruned(account, plane, &worker)).await?;
    report
        .step("turns of life come to the account's event bus", published(account, plane, &worker, &heard))
        .await?;
    report.step("a replaced token is refused", replaced(plane, &worker)).await?;
    messages::run(report, account, plane).await?;
    sessions::run(report, plane).await?;
    tickets::run(report, account, plane, daytona).await?;
    let silence = async {
        let told = hear(&mut silent).await?;
        ensure!(told["code"] == "unauthorized", "{told}");
        ensure!(matches!(timeout(PATIENCE, silent.next()).await, Ok(None)), "it was left open");
        Ok(())
    };
    report.step("whoever does not say who they are is closed by a job", silence).await?;
    denied(report, account, plane, stack).await?;
    let checked = account.log("platform-check", "Checks", 90);
    report.step("the schedule has checked the plane, and its numbers are in the log", checked).await?;
    Ok(())
}

async fn healthy(plane: &Plane) -> anyhow::Result<()> {
    let (status, body) = plane.call(Method::GET, "/api/v1/sandboxes/health", None, None).await?;
    ensure!(status == 200 && body["status"] == "ok", "{status} {body}");
    Ok(())
}

async fn registered(plane: &Plane) -> anyhow::Result<String> {
    let worker = plane.register("s-1").await?;
    let list = plane.get("/api/v1/sandboxes?org=acme").await?;
    ensure!(list["sandboxes"][0]["sandbox_id"] == "s-1", "{list}");
    ensure!(plane.last_seq("s-1").await? == 0, "it has a log before anything happened");
    let again = json!({"sandbox_id": "s-1", "org": "acme"});
    let (status, _) =
        plane.call(Method::POST, "/api/v1/sandboxes", Some(&plane.operator), Some(again)).await?;
    ensure!(status == 409, "registered twice: {status}");
    Ok(worker)
}

async fn refused(plane: &Plane, worker: &str) -> anyhow::Result<()> {
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
    ensure!(plane.last_seq("s-2").await? == 0, "something was stored");
    let (status, body) = plane.post_events("s-1", worker, json!({"event_type": "a b"})).await?;
    ensure!(status == 422 && body["field"] == "event_type", "{status} {body}");
    let opened = Socket::open(&format!("{}?token=nonsense", plane.sockets)).await;
    ensure!(matches!(opened, Err(401 | 403)), "a wrong token opened a socket: {opened:?}");
    Ok(())
}

async fn told(plane: &Plane, worker: &str) -> anyhow::Result<()> {
    let mut socket = plane.socket("entity_ids=s-1").await?;
    let mut other = plane.socket("entity_ids=s-2").await?;
    let single = json!({"event_type": "agent.message", "event_data": {"text": "grüß dich \u{1F41A}"}});
    let (status, body) = plane.post_events("s-1", worker, single).await?;
    ensure!(status == 200, "{status} {body}");
    let first = hear(&mut socket).await?;
    ensure!(first["seq"] == 1 && first["payload"]["text"] == "grüß dich \u{1F41A}", "{first}");
    let (status, body) = plane.post_events("s-1", worker, batch(1, 2..=26)).await?;
    ensure!(status == 200 && body["first_seq"] == 2 && body["events"] == 25, "{status} {body}");
    for n in 2..=26_u64 {
        let frame = hear(&mut socket).await?;
        ensure!(frame["seq"] == n && frame["payload"]["n"] == n, "not {n}: {frame}");
    }
    let beat = json!({"event_type": "agent.heartbeat", "event_data": {"status": "working"}});
    plane.post_events("s-1", worker, beat).await?;
    let frame = hear(&mut socket).await?;
    ensure!(frame["seq"].is_null() && frame["event_type"] == "SANDBOX_AGENT_HEARTBEAT", "{frame}");
    ensure!(other.hear_until_pong().await.is_empty(), "told of another sandbox");
    Ok(())
}

fn batch(number: u64, numbers: std::ops::RangeInclusive<u64>) -> Value {
    let events: Vec<Value> = numbers
        .map(|n| json!({"event_id": format!("e-{n}"), "event_type": "agent.message", "event_data": {"n": n}}))
        .collect();
    json!({"epoch": 1, "batch": number, "events": events})
}

async fn repeated(plane: &Plane, worker: &str) -> anyhow::Result<()> {
    let (status, body) = plane.post_events("s-1", worker, batch(1, 2..=26)).await?;
    ensure!(status == 200 && body["first_seq"] == 2 && body["repeated"] == true, "{status} {body}");
    ensure!(plane.last_seq("s-1").await? == 26, "it was stored twice");
    Ok(())
}

async fn large(plane: &Plane, worker: &str) -> anyhow::Result<()> {
    let mut socket = plane.socket("entity_ids=s-1").await?;
    let text = "0123456789abcdef\n".repeat(20_000);
    let event = json!({"event_type": "agent.tool_completed", "event_data": {"output": text, "exit": 0}});
    let (status, body) = plane.post_events("s-1", worker, event).await?;
    ensure!(status == 200, "{status} {body}");
    let frame = hear(&mut socket).await?;
    let reference = frame["payload"]["body_ref"]["href"].as_str().with_context(|| format!("{frame}"))?;
    let whole = plane.get(reference).await?;
    ensure!(whole["output"] == text && whole["exit"] == 0, "the body is not what was sent");
    Ok(())
}

async fn in_the_address(plane: &Plane, worker: &str) -> anyhow::Result<()> {
    // As the console's address of one sandbox is rewritten on its way.
    let url = format!("{}?token={worker}&sandbox_id=s-1", plane.sockets);
    let opened = Socket::open(&url).await.map_err(|status| anyhow::anyhow!("refused: {status}"));
    let mut socket = opened?;
    let (_, body) = plane.post_events("s-1", worker, json!({"event_type": "agent.message"})).await?;
    let frame = hear(&mut socket).await?;
    ensure!(frame["id"] == body["event_id"], "{frame} is not {body}");
    let foreign = Socket::open(&format!("{}?token={worker}&sandbox_id=s-2", plane.sockets)).await;
    ensure!(matches!(foreign, Err(403 | 404)), "a worker opened another's socket: {foreign:?}");
    Ok(())
}

async fn read(plane: &Plane) -> anyhow::Result<()> {
    let page = plane.get("/api/v1/sandboxes/s-1/events?after_seq=20&limit=3").await?;
    let numbers: Vec<u64> =
        page["events"].as_array().into_iter().flatten().filter_map(|e| e["seq"].as_u64()).collect();
    ensure!(numbers == [21, 22, 23] && page["has_more"] == true, "{page}");
    // The seeds' spelling.
    let alias = plane.get("/api/v1/sandbox/s-1/events?after_seq=20&limit=3").await?;
    ensure!(alias["events"] == page["events"], "the alias shows something else");
    let trajectory = plane.get("/api/v1/sandboxes/s-1/trajectory").await?;
    ensure!(trajectory["heartbeat_summary"]["count"] == 1, "{trajectory}");
    Ok(())
}

async fn resumed(account: &Account, plane: &Plane) -> anyhow::Result<()> {
    let (sandbox, worker) = (SandboxId::parse("s-3")?, plane.register("s-3").await?);
    let upstream: SocketAddr = account.url.trim_start_matches("http://").parse()?;
    let wire = Cutter::start(upstream, 300..1500, 7).await;
    let cut = plane.sockets.replace(&upstream.to_string(), &wire.address.to_string());
    let mut follower = Follower::new(Follow {
        plane: plane.url.clone(),
        sockets: Some(cut),
        sandbox: sandbox.clone(),
        token: Some(plane.operator.clone()),
        after_seq: 0,
        silence: client::SILENCE,
    });
    let mut sender = Sender::new(&plane.url, &sandbox, Some(worker), 1, PATIENCE);
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
            let seen = timeout(PATIENCE * 2, follower.next()).await.context("the follower hangs")?;
            ensure!(seen.seq == expected && seen.data["n"] == expected, "not {expected}: {seen:?}");
        }
        Ok(())
    };
    tokio::try_join!(sending, following)?;
    ensure!(wire.connections() > 1, "the wire was never cut");
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

/// A socket that API Gateway does not know, as one is of which `$disconnect` never told.
async fn pruned(account: &Account, plane: &Plane, worker: &str) -> anyhow::Result<()> {
    let store = owners_view(account, plane).await?;
    let opened = Connection {
        id: ConnectionId::parse("gone-for-long")?,
        principal: None,
        realm: None,
        filters: Filters::default(),
        batch: false,
        version: 0,
        connected_at: Timestamp::from_secs(1_790_000_000),
        until: None,
    };
    let mut subscribed = opened.clone();
    subscribed.principal = Some(Principal::Operator);
    subscribed.realm = Some(EVERY_ORG.to_owned());
    store.resubscribe(&opened, &mut subscribed).await?;
    ensure!(store.connection(&opened.id).await?.is_some(), "it was not stored");
    plane.post_events("s-1", worker, json!({"event_type": "agent.message"})).await?;
    let forgotten = async {
        while store.connection(&opened.id).await?.is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, forgotten).await.context("it is still there")?
}

/// The table, with the owner's keys.
async fn owners_view(account: &Account, plane: &Plane) -> anyhow::Result<store::Store> {
    let told = account.environment();
    let config = lambda_host::Config::read(|name| match name {
        "SUNABA_FUNCTION" => Some("sandboxes-health".to_owned()),
        "SUNABA_TABLE" => Some(plane.table.clone()),
        "SUNABA_STAGE" => Some("dev".to_owned()),
        "AWS_REGION" => Some(REGION.to_owned()),
        _ => told.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
    });
    let config = config.map_err(anyhow::Error::msg)?;
    let wired = lambda_host::wire(&config).await.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(wired.store.clone())
}

async fn published(account: &Account, plane: &Plane, worker: &str, heard: &str) -> anyhow::Result<()> {
    for name in ["agent.message", "agent.completed"] {
        plane.post_events("s-1", worker, json!({"event_type": name, "event_data": {"ok": true}})).await?;
    }
    let notice = account.receive(heard, 20).await?.context("nothing came to the bus")?;
    ensure!(notice["detail-type"] == "SANDBOX_AGENT_COMPLETED", "{notice}");
    ensure!(notice["detail"]["org"] == "acme" && notice["detail"]["entity_id"] == "s-1", "{notice}");
    Ok(())
}

async fn replaced(plane: &Plane, worker: &str) -> anyhow::Result<()> {
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

/// Shows that the rest proves something: without a permission that it needs, a function fails here.
async fn denied(report: &mut Report, account: &Account, plane: &Plane, stack: Stack) -> anyhow::Result<()> {
    let worker = plane.register("s-4").await?;
    let event = json!({"event_type": "agent.message"});
    let (status, body) = plane.post_events("s-4", &worker, event.clone()).await?;
    ensure!(status == 200, "{status} {body}");
    let stack = stack.without("EventsIngestFunction", "dynamodb:UpdateItem")?;
    report.step("sam updates the stack to one with a permission less", stack.deploy(account)).await?;
    let refused = async {
        let (status, body) = plane.post_events("s-4", &worker, event).await?;
        ensure!(status == 500 && body["code"] == "internal", "{status} {body}");
        let line = account.log("events-ingest", "AccessDenied", 20).await?;
        ensure!(line.contains("dynamodb:UpdateItem"), "{line}");
        ensure!(plane.last_seq("s-4").await? == 1, "it was stored all the same");
        Ok(())
    };
    report.step("without it the function is refused, and says so in its log", refused).await
}
