//! What must hold for messages to a working agent: from whoever sends one to the worker, and back to whoever watches.

use crate::account::Account;
use crate::plane::{Plane, hear};
use crate::report::Report;
use anyhow::{Context, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// All of it, on a sandbox of its own that is ended in the end.
pub async fn run(report: &mut Report, account: &Account, plane: &Plane) -> anyhow::Result<()> {
    let token = plane.register(SANDBOX).await?;
    let talk = Talk { plane, token };
    report.step("a message reaches the worker, and everybody sees how far it has come", seen(&talk)).await?;
    report.step("the worker's first wait makes a mailbox", made(account, &talk)).await?;
    for pause in PAUSES {
        let name = format!("a worker that waits is woken by a message after {} s", pause.as_secs());
        let latency = report.step(&name, woken(&talk, pause)).await?;
        report.note(&format!("answered {} ms after it was sent", latency.as_millis()));
    }
    report.step("a receipt wakes it for what was held back", released(&talk)).await?;
    report.step("an interrupt overtakes twelve messages", overtaken(&talk)).await?;
    report.step("a stop reaches the worker as one", stopped(&talk)).await?;
    report.step("a worker of OmoiOS gets a plain list, once", plain(&talk)).await?;
    report.step("with the sandbox its mailbox ends, and its messages", ended(account, &talk)).await?;
    report.step("every bell was rung and heard", rung(account)).await
}

const SANDBOX: &str = "s-mail";
/// How the mailbox's queue is called, but for its fingerprint.
const MAILBOX: &str = "sunaba-dev-mail-s-mail-";
/// The second is longer than a function's patience with any call that is not meant to wait.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// For how long a worker waits here: the most that a pull may.
const WAIT_SECS: u64 = 20;

/// Both ends of a mailbox.
struct Talk<'a> {
    plane: &'a Plane,
    /// The worker's.
    token: String,
}

impl Talk<'_> {
    /// Somebody says something.
    async fn send(&self, body: Value) -> anyhow::Result<Value> {
        let path = format!("/api/v1/sandboxes/{SANDBOX}/messages");
        let (status, body) =
            self.plane.call(Method::POST, &path, Some(&self.plane.operator), Some(body)).await?;
        ensure!(status == 200 && body["status"] == "queued", "{status} {body}");
        Ok(body)
    }

    /// The worker takes what there is, and will confirm it.
    async fn pull(&self, query: &str) -> anyhow::Result<Vec<Value>> {
        let path = format!("/api/v1/sandboxes/{SANDBOX}/messages?ack=manual&{query}");
        let (status, body) = self.plane.call(Method::GET, &path, Some(&self.token), None).await?;
        ensure!(status == 200, "{status} {body}");
        Ok(body["messages"].as_array().with_context(|| format!("no messages in {body}"))?.clone())
    }

    /// The worker confirms.
    async fn acknowledge(&self, ids: &[String], state: &str) -> anyhow::Result<Value> {
        let path = format!("/api/v1/sandboxes/{SANDBOX}/messages/ack");
        let receipts: Vec<Value> = ids.iter().map(|id| json!({"message_id": id, "state": state})).collect();
        let body = json!({"receipts": receipts});
        let (status, body) = self.plane.call(Method::POST, &path, Some(&self.token), Some(body)).await?;
        ensure!(status == 200 && body["receipts"][0]["changed"] == true, "{status} {body}");
        Ok(body)
    }

    /// A pull that waits, and what somebody does meanwhile; how long after that the pull was answered.
    async fn wait_for<T>(
        &self,
        pause: Duration,
        what: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<(Vec<String>, Duration)> {
        let query = format!("wait={WAIT_SECS}");
        let asked = Instant::now();
        let pulling = async { anyhow::Ok((self.pull(&query).await?, Instant::now())) };
        let doing = async {
            tokio::time::sleep(pause).await;
            let begun = Instant::now();
            what.await?;
            anyhow::Ok(begun)
        };
        let ((messages, answered), begun) = tokio::try_join!(pulling, doing)?;
        let latency = answered.checked_duration_since(begun).context("it did not wait")?;
        // Woken, not timed out.
        let waited = answered - asked;
        ensure!(waited < Duration::from_secs(WAIT_SECS), "the pull was answered after {waited:?}");
        Ok((ids(&messages), latency))
    }
}

fn ids(messages: &[Value]) -> Vec<String> {
    messages.iter().filter_map(|message| message["id"].as_str().map(str::to_owned)).collect()
}

async fn seen(talk: &Talk<'_>) -> anyhow::Result<()> {
    let mut socket = talk.plane.socket(&format!("entity_ids={SANDBOX}")).await?;
    let message = json!({"message_id": "m-1", "content": "use sqlite \u{1F41A}"});
    let first = talk.send(message.clone()).await?;
    ensure!(first["message_id"] == "m-1" && first["queue_size"] == 1, "{first}");
    let frame = hear(&mut socket).await?;
    ensure!(frame["event_type"] == "SANDBOX_MESSAGE_QUEUED", "{frame}");
    ensure!(frame["payload"]["content"] == "use sqlite \u{1F41A}", "{frame}");
    ensure!(talk.send(message).await? == first, "a repeat got another answer");
    let pulled = talk.pull("wait=0").await?;
    ensure!(ids(&pulled) == ["m-1"] && pulled[0]["sender"]["kind"] == "operator", "{pulled:?}");
    for state in ["delivered", "started", "completed"] {
        talk.acknowledge(&ids(&pulled), state).await?;
    }
    for state in ["FETCHED", "DELIVERED", "STARTED", "COMPLETED"] {
        let frame = hear(&mut socket).await?;
        ensure!(frame["event_type"] == format!("SANDBOX_MESSAGE_{state}"), "{frame}");
        ensure!(frame["payload"]["message_id"] == "m-1", "{frame}");
    }
    let log = talk.plane.get(&format!("/api/v1/sandboxes/{SANDBOX}/events?after_seq=0")).await?;
    let types: Vec<&str> =
        log["events"].as_array().into_iter().flatten().filter_map(|e| e["event_type"].as_str()).collect();
    let expected = ["queued", "fetched", "delivered", "started", "completed"].map(|s| format!("message.{s}"));
    ensure!(types == expected, "{types:?}");
    let history = talk.plane.get(&format!("/api/v1/sandboxes/{SANDBOX}/messages/history")).await?;
    ensure!(history["messages"][0]["state"] == "completed" && history["queue_size"] == 0, "{history}");
    let path = format!("/api/v1/sandboxes/{SANDBOX}/messages");
    let foreign = Some(json!({"content": "to myself"}));
    let (status, _) = talk.plane.call(Method::POST, &path, Some(&talk.token), foreign).await?;
    ensure!(status == 403, "a worker wrote to itself: {status}");
    Ok(())
}

async fn made(account: &Account, talk: &Talk<'_>) -> anyhow::Result<()> {
    let queues = account.queues(MAILBOX).await?;
    ensure!(queues.is_empty(), "there is a mailbox before anybody waited: {queues:?}");
    let pulled = talk.pull("wait=1").await?;
    ensure!(pulled.is_empty(), "{pulled:?}");
    let queues = account.queues(MAILBOX).await?;
    ensure!(queues.len() == 1 && queues[0].ends_with(".fifo"), "{queues:?}");
    Ok(())
}

async fn woken(talk: &Talk<'_>, pause: Duration) -> anyhow::Result<Duration> {
    let id = format!("woken-{}", pause.as_secs());
    let message = json!({"message_id": id, "content": "and add tests"});
    let (found, latency) = talk.wait_for(pause, talk.send(message)).await?;
    ensure!(found == [id], "{found:?}");
    talk.acknowledge(&found, "delivered").await?;
    Ok(latency)
}

/// What follows a message that is not confirmed waits for it.
async fn released(talk: &Talk<'_>) -> anyhow::Result<()> {
    for id in ["held-1", "held-2"] {
        talk.send(json!({"message_id": id, "content": "one by one"})).await?;
    }
    let first = ids(&talk.pull("wait=0&max=1").await?);
    ensure!(first == ["held-1"], "{first:?}");
    let receipt = talk.acknowledge(&first, "delivered");
    let (second, _) = talk.wait_for(PAUSES[1], receipt).await?;
    ensure!(second == ["held-2"], "{second:?}");
    talk.acknowledge(&second, "delivered").await?;
    Ok(())
}

async fn overtaken(talk: &Talk<'_>) -> anyhow::Result<()> {
    let sent: Vec<String> = (1..=12).map(|n| format!("queued-{n}")).collect();
    for id in &sent {
        talk.send(json!({"message_id": id, "content": "when you have time"})).await?;
    }
    let stop = json!({"message_id": "stop", "content": "stop", "message_type": "interrupt"});
    ensure!(talk.send(stop).await?["queue_size"] == 13, "not all of them wait");
    let first = ids(&talk.pull("wait=0").await?);
    ensure!(first[0] == "stop" && first[1..] == sent[..9], "{first:?}");
    talk.acknowledge(&first, "delivered").await?;
    let rest = ids(&talk.pull("wait=0").await?);
    ensure!(rest == sent[9..], "{rest:?}");
    talk.acknowledge(&rest, "delivered").await?;
    Ok(())
}

/// With the seed's paths, and no word about receipts or waiting.
async fn stopped(talk: &Talk<'_>) -> anyhow::Result<()> {
    talk.send(json!({"message_id": "m-stop", "message_type": "stop", "content": "Enough."})).await?;
    let messages = talk.pull(&format!("wait={WAIT_SECS}")).await?;
    let stop = messages.first().filter(|message| message["message_type"] == "stop");
    ensure!(stop.is_some() && messages.len() == 1, "{messages:?}");
    talk.acknowledge(&["m-stop".to_owned()], "delivered").await?;
    Ok(())
}

async fn plain(talk: &Talk<'_>) -> anyhow::Result<()> {
    let (path, sender) = (format!("/api/v1/sandbox/{SANDBOX}/message"), Some(talk.plane.operator.as_str()));
    let message = json!({"content": "look at the tests first", "message_type": "guardian_nudge"});
    let (status, body) = talk.plane.call(Method::POST, &path, sender, Some(message)).await?;
    ensure!(status == 200, "{status} {body}");
    let path = format!("/api/v1/sandbox/{SANDBOX}/messages");
    let (status, list) = talk.plane.call(Method::GET, &path, Some(&talk.token), None).await?;
    ensure!(status == 200 && list.as_array().is_some_and(|list| list.len() == 1), "{status} {list}");
    ensure!(list[0]["id"] == body["message_id"] && list[0]["message_type"] == "guardian_nudge", "{list}");
    let (status, again) = talk.plane.call(Method::GET, &path, Some(&talk.token), None).await?;
    ensure!(status == 200 && again == json!([]), "it came twice: {status} {again}");
    Ok(())
}

async fn ended(account: &Account, talk: &Talk<'_>) -> anyhow::Result<()> {
    let Talk { plane, token } = talk;
    talk.send(json!({"message_id": "too-late", "content": "one more thing"})).await?;
    let path = format!("/api/v1/sandboxes/{SANDBOX}");
    let end = || plane.call(Method::DELETE, &path, Some(&plane.operator), None);
    let (status, body) = end().await?;
    ensure!(status == 200 && body["status"] == "terminated" && body["queue_size"] == 0, "{status} {body}");
    let queues = account.queues(MAILBOX).await?;
    ensure!(queues.is_empty(), "its mailbox is still there: {queues:?}");
    let history = plane.get(&format!("{path}/messages/history?limit=1")).await?;
    ensure!(history["messages"][0]["state"] == "cancelled", "{history}");
    let messages = format!("{path}/messages");
    let more = Some(json!({"content": "are you there?"}));
    let (status, body) = plane.call(Method::POST, &messages, Some(&plane.operator), more).await?;
    ensure!(status == 409 && body["code"] == "sandbox_finished", "{status} {body}");
    let (status, body) = plane.call(Method::GET, &messages, Some(token), None).await?;
    ensure!(status == 409, "its worker still waits: {status} {body}");
    let (status, again) = end().await?;
    ensure!(status == 200 && again["status"] == "terminated", "{status} {again}");
    Ok(())
}

/// A bell that cannot be rung or heard is a warning, and the message comes all the same: only a log can tell.
async fn rung(account: &Account) -> anyhow::Result<()> {
    for (function, word) in
        [("messages-send", "Could not ring"), ("messages-ack", "Could not ring"), ("messages-pull", "a bell")]
    {
        let lines = account.lines(function, word).await?;
        ensure!(lines.is_empty(), "{function} says: {lines}");
    }
    Ok(())
}
