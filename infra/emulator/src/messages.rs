//! End-to-end test of messages to a running agent: from the sender to the worker, and back to viewers.

use crate::account::Account;
use crate::plane::{Plane, receive};
use crate::report::Report;
use anyhow::{Context, ensure};
use domain::mailbox::MAX_DELIVERIES;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Uses its own sandbox, which is terminated in the last step.
pub async fn run(report: &mut Report, account: &Account, plane: &Plane) -> anyhow::Result<()> {
    let token = plane.register(SANDBOX).await?;
    let mailbox = Mailbox { plane, token };
    report.step("message reaches the worker, and each state is visible", deliver(&mailbox)).await?;
    report.step("messages are on their SQS queues", read_queues(account, &mailbox)).await?;
    for pause in PAUSES {
        let name = format!("waiting worker is woken by a message after {} s", pause.as_secs());
        let latency = report.step(&name, wake(&mailbox, pause)).await?;
        report.note(&format!("answered {} ms after the message was sent", latency.as_millis()));
    }
    report.step("receipt releases the next message", release(&mailbox)).await?;
    report.step("interrupt is delivered before twelve messages", interrupt(&mailbox)).await?;
    report.step("stop message reaches the worker", stop(&mailbox)).await?;
    report.step("OmoiOS worker receives a plain list, once", plain_list(&mailbox)).await?;
    report
        .step("message that is never acknowledged ends as a dead letter", poison(account, &mailbox))
        .await?;
    report.step("undeliverable message is sent again", send_again(&mailbox)).await?;
    report.step("mailbox and messages end with the sandbox", terminate(account, &mailbox)).await?;
    report.step("leftover queues are deleted", sweep(account)).await?;
    report.step("SQS brought the messages", check_queues(account)).await
}

const SANDBOX: &str = "s-mail";
/// Prefix of the names of its queues; a fingerprint follows.
const QUEUE_PREFIX: &str = "sunaba-dev-mail-s-mail-";
/// The second is longer than a function's timeout for calls that do not wait.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// Maximum wait of a pull.
const WAIT_SECS: u64 = 20;

/// Sender and receiver of messages.
struct Mailbox<'a> {
    plane: &'a Plane,
    /// The worker's token.
    token: String,
}

impl Mailbox<'_> {
    /// Sends a message as the operator.
    async fn send(&self, body: Value) -> anyhow::Result<Value> {
        let path = format!("/api/v1/sandboxes/{SANDBOX}/messages");
        let (status, body) =
            self.plane.call(Method::POST, &path, Some(&self.plane.operator), Some(body)).await?;
        ensure!(status == 200 && body["status"] == "queued", "{status} {body}");
        Ok(body)
    }

    /// Pulls messages as the worker, with manual acknowledgement.
    async fn pull(&self, query: &str) -> anyhow::Result<Vec<Value>> {
        let path = format!("/api/v1/sandboxes/{SANDBOX}/messages?ack=manual&{query}");
        let (status, body) = self.plane.call(Method::GET, &path, Some(&self.token), None).await?;
        ensure!(status == 200, "{status} {body}");
        Ok(body["messages"].as_array().with_context(|| format!("no messages in {body}"))?.clone())
    }

    /// Sends receipts as the worker.
    async fn acknowledge(&self, ids: &[String], state: &str) -> anyhow::Result<Value> {
        let path = format!("/api/v1/sandboxes/{SANDBOX}/messages/ack");
        let receipts: Vec<Value> = ids.iter().map(|id| json!({"message_id": id, "state": state})).collect();
        let body = json!({"receipts": receipts});
        let (status, body) = self.plane.call(Method::POST, &path, Some(&self.token), Some(body)).await?;
        ensure!(status == 200 && body["receipts"][0]["changed"] == true, "{status} {body}");
        Ok(body)
    }

    /// Runs `action` while a pull waits. Returns the pulled messages, and the time from the action to the answer.
    async fn wait_for<T>(
        &self,
        pause: Duration,
        action: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<(Vec<String>, Duration)> {
        let query = format!("wait={WAIT_SECS}");
        let requested = Instant::now();
        let pulling = async { anyhow::Ok((self.pull(&query).await?, Instant::now())) };
        let acting = async {
            tokio::time::sleep(pause).await;
            let begun = Instant::now();
            action.await?;
            anyhow::Ok(begun)
        };
        let ((messages, answered), begun) = tokio::try_join!(pulling, acting)?;
        let latency = answered.checked_duration_since(begun).context("the pull did not wait")?;
        // The pull must end because of the message, not because of its timeout.
        let waited = answered - requested;
        ensure!(waited < Duration::from_secs(WAIT_SECS), "the pull was answered after {waited:?}");
        Ok((ids(&messages), latency))
    }
}

fn ids(messages: &[Value]) -> Vec<String> {
    messages.iter().filter_map(|message| message["id"].as_str().map(str::to_owned)).collect()
}

async fn deliver(mailbox: &Mailbox<'_>) -> anyhow::Result<()> {
    let mut socket = mailbox.plane.socket(&[SANDBOX]).await?;
    let message = json!({"message_id": "m-1", "content": "use sqlite \u{1F41A}"});
    let first = mailbox.send(message.clone()).await?;
    ensure!(first["message_id"] == "m-1" && first["queue_size"] == 1, "{first}");
    let frame = receive(&mut socket).await?;
    ensure!(frame["event_type"] == "SANDBOX_MESSAGE_QUEUED", "{frame}");
    ensure!(frame["payload"]["content"] == "use sqlite \u{1F41A}", "{frame}");
    ensure!(mailbox.send(message).await? == first, "a retry got another answer");
    let pulled = mailbox.pull("wait=0").await?;
    ensure!(ids(&pulled) == ["m-1"] && pulled[0]["sender"]["kind"] == "operator", "{pulled:?}");
    for state in ["delivered", "started", "completed"] {
        mailbox.acknowledge(&ids(&pulled), state).await?;
    }
    for state in ["FETCHED", "DELIVERED", "STARTED", "COMPLETED"] {
        let frame = receive(&mut socket).await?;
        ensure!(frame["event_type"] == format!("SANDBOX_MESSAGE_{state}"), "{frame}");
        ensure!(frame["payload"]["message_id"] == "m-1", "{frame}");
    }
    let log = mailbox.plane.get(&format!("/api/v1/sandboxes/{SANDBOX}/events?after_seq=0")).await?;
    let types: Vec<&str> =
        log["events"].as_array().into_iter().flatten().filter_map(|e| e["event_type"].as_str()).collect();
    let expected = ["queued", "fetched", "delivered", "started", "completed"].map(|s| format!("message.{s}"));
    ensure!(types == expected, "{types:?}");
    let history = mailbox.plane.get(&format!("/api/v1/sandboxes/{SANDBOX}/messages/history")).await?;
    ensure!(history["messages"][0]["state"] == "completed" && history["queue_size"] == 0, "{history}");
    let path = format!("/api/v1/sandboxes/{SANDBOX}/messages");
    let foreign = Some(json!({"content": "to myself"}));
    let (status, _) = mailbox.plane.call(Method::POST, &path, Some(&mailbox.token), foreign).await?;
    ensure!(status == 403, "a worker wrote to itself: {status}");
    Ok(())
}

/// Reads both queues with the account's own credentials.
async fn read_queues(account: &Account, mailbox: &Mailbox<'_>) -> anyhow::Result<()> {
    let queues = account.queues(QUEUE_PREFIX).await?;
    ensure!(queues.len() == 2, "a sandbox has two queues: {queues:?}");
    let (urgent, regular): (Vec<String>, Vec<String>) =
        queues.into_iter().partition(|url| url.ends_with("-urgent.fifo"));
    for (queue, id, kind) in [(&urgent[0], "seen-1", "interrupt"), (&regular[0], "seen-2", "user_message")] {
        let content = format!("the text of {id}");
        mailbox.send(json!({"message_id": id, "content": content, "message_type": kind})).await?;
        let body = account.peek(queue).await?.with_context(|| format!("{id} is not on its queue"))?;
        ensure!(body["id"] == id && body["content"] == content && body["version"] == 1, "{body}");
    }
    let pulled = ids(&mailbox.pull("wait=2").await?);
    ensure!(pulled == ["seen-1", "seen-2"], "{pulled:?}");
    mailbox.acknowledge(&pulled, "delivered").await?;
    for queue in [&urgent[0], &regular[0]] {
        let left = account.peek(queue).await?;
        ensure!(left.is_none(), "an acknowledged message is still on its queue: {left:?}");
    }
    Ok(())
}

/// Pulled again and again, as by a worker that crashes on it.
async fn poison(account: &Account, mailbox: &Mailbox<'_>) -> anyhow::Result<()> {
    mailbox.send(json!({"message_id": "poison", "content": "crash"})).await?;
    for delivery in 1..=MAX_DELIVERIES {
        let pulled = mailbox.pull("wait=5&visibility=1").await?;
        ensure!(ids(&pulled) == ["poison"], "delivery {delivery}: {pulled:?}");
        ensure!(pulled[0]["receipt"]["delivery"] == delivery, "{pulled:?}");
    }
    let pulled = mailbox.pull("wait=2&visibility=1").await?;
    ensure!(pulled.is_empty(), "{pulled:?}");
    let path = format!("/api/v1/sandboxes/{SANDBOX}/events?event_type=message.undeliverable");
    let events = mailbox.plane.get(&path).await?;
    ensure!(events["events"][0]["event_data"]["message_id"] == "poison", "{events}");
    let dead_letters = account.queues("sunaba-dev-dead-letters").await?;
    let dead = account.peek(&dead_letters[0]).await?.context("the dead-letter queue is empty")?;
    ensure!(dead["id"] == "poison", "{dead}");
    Ok(())
}

async fn send_again(mailbox: &Mailbox<'_>) -> anyhow::Result<()> {
    let path = format!("/api/v1/sandboxes/{SANDBOX}/messages/poison/resend");
    let (status, body) = mailbox.plane.call(Method::POST, &path, Some(&mailbox.plane.operator), None).await?;
    ensure!(status == 200 && body["state"] == "queued" && body["version"] == 2, "{status} {body}");
    let pulled = ids(&mailbox.pull("wait=5").await?);
    ensure!(pulled == ["poison"], "{pulled:?}");
    mailbox.acknowledge(&pulled, "delivered").await?;
    Ok(())
}

/// The queue of a sandbox that does not exist.
async fn sweep(account: &Account) -> anyhow::Result<()> {
    let name = "sunaba-dev-mail-leftover.fifo";
    account.create_mailbox_queue(name, "s-missing").await?;
    account.invoke("messages-sweep").await?;
    let left = account.queues(name).await?;
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

async fn wake(mailbox: &Mailbox<'_>, pause: Duration) -> anyhow::Result<Duration> {
    let id = format!("woken-{}", pause.as_secs());
    let message = json!({"message_id": id, "content": "and add tests"});
    let (found, latency) = mailbox.wait_for(pause, mailbox.send(message)).await?;
    ensure!(found == [id], "{found:?}");
    mailbox.acknowledge(&found, "delivered").await?;
    Ok(latency)
}

/// A message is held back until the previous one is acknowledged.
async fn release(mailbox: &Mailbox<'_>) -> anyhow::Result<()> {
    for id in ["held-1", "held-2"] {
        mailbox.send(json!({"message_id": id, "content": "one by one"})).await?;
    }
    let first = ids(&mailbox.pull("wait=0&max=1").await?);
    ensure!(first == ["held-1"], "{first:?}");
    let receipt = mailbox.acknowledge(&first, "delivered");
    let (second, _) = mailbox.wait_for(PAUSES[1], receipt).await?;
    ensure!(second == ["held-2"], "{second:?}");
    mailbox.acknowledge(&second, "delivered").await?;
    Ok(())
}

async fn interrupt(mailbox: &Mailbox<'_>) -> anyhow::Result<()> {
    let sent: Vec<String> = (1..=12).map(|n| format!("queued-{n}")).collect();
    for id in &sent {
        mailbox.send(json!({"message_id": id, "content": "when you have time"})).await?;
    }
    let stop = json!({"message_id": "stop", "content": "stop", "message_type": "interrupt"});
    ensure!(mailbox.send(stop).await?["queue_size"] == 13, "not all messages are queued");
    let first = ids(&mailbox.pull("wait=0").await?);
    ensure!(first[0] == "stop" && first[1..] == sent[..9], "{first:?}");
    mailbox.acknowledge(&first, "delivered").await?;
    let rest = ids(&mailbox.pull("wait=0").await?);
    ensure!(rest == sent[9..], "{rest:?}");
    mailbox.acknowledge(&rest, "delivered").await?;
    Ok(())
}

async fn stop(mailbox: &Mailbox<'_>) -> anyhow::Result<()> {
    mailbox.send(json!({"message_id": "m-stop", "message_type": "stop", "content": "Enough."})).await?;
    let messages = mailbox.pull(&format!("wait={WAIT_SECS}")).await?;
    let stop = messages.first().filter(|message| message["message_type"] == "stop");
    ensure!(stop.is_some() && messages.len() == 1, "{messages:?}");
    mailbox.acknowledge(&["m-stop".to_owned()], "delivered").await?;
    Ok(())
}

/// Uses the paths of OmoiOS, without receipts and waiting.
async fn plain_list(mailbox: &Mailbox<'_>) -> anyhow::Result<()> {
    let (path, sender) =
        (format!("/api/v1/sandbox/{SANDBOX}/message"), Some(mailbox.plane.operator.as_str()));
    let message = json!({"content": "look at the tests first", "message_type": "guardian_nudge"});
    let (status, body) = mailbox.plane.call(Method::POST, &path, sender, Some(message)).await?;
    ensure!(status == 200, "{status} {body}");
    let path = format!("/api/v1/sandbox/{SANDBOX}/messages");
    let (status, list) = mailbox.plane.call(Method::GET, &path, Some(&mailbox.token), None).await?;
    ensure!(status == 200 && list.as_array().is_some_and(|list| list.len() == 1), "{status} {list}");
    ensure!(list[0]["id"] == body["message_id"] && list[0]["message_type"] == "guardian_nudge", "{list}");
    let (status, again) = mailbox.plane.call(Method::GET, &path, Some(&mailbox.token), None).await?;
    ensure!(status == 200 && again == json!([]), "the message was returned twice: {status} {again}");
    Ok(())
}

async fn terminate(account: &Account, mailbox: &Mailbox<'_>) -> anyhow::Result<()> {
    let Mailbox { plane, token } = mailbox;
    mailbox.send(json!({"message_id": "too-late", "content": "one more thing"})).await?;
    let path = format!("/api/v1/sandboxes/{SANDBOX}");
    let delete = || plane.call(Method::DELETE, &path, Some(&plane.operator), None);
    let (status, body) = delete().await?;
    ensure!(status == 200 && body["status"] == "terminated" && body["queue_size"] == 0, "{status} {body}");
    let queues = account.queues(QUEUE_PREFIX).await?;
    ensure!(queues.is_empty(), "the mailbox was not deleted: {queues:?}");
    let history = plane.get(&format!("{path}/messages/history?limit=1")).await?;
    ensure!(history["messages"][0]["state"] == "cancelled", "{history}");
    let messages = format!("{path}/messages");
    let more = Some(json!({"content": "are you there?"}));
    let (status, body) = plane.call(Method::POST, &messages, Some(&plane.operator), more).await?;
    ensure!(status == 409 && body["code"] == "sandbox_finished", "{status} {body}");
    let (status, body) = plane.call(Method::GET, &messages, Some(token), None).await?;
    ensure!(status == 409, "the worker may still pull: {status} {body}");
    let (status, again) = delete().await?;
    ensure!(status == 200 && again["status"] == "terminated", "{status} {again}");
    Ok(())
}

/// Share of the messages that the ledger may deliver because SQS was late: the emulator shares this machine with builds.
const MAX_FROM_LEDGER: f64 = 0.25;

/// Failures of SQS are only logged as warnings, because the ledger delivers the messages.
async fn check_queues(account: &Account) -> anyhow::Result<()> {
    for (function, text) in [
        ("messages-send", "Could not put message"),
        ("messages-ack", "Could not delete a message"),
        ("messages-pull", "from the ledger"),
    ] {
        let lines = account.find_in_log(function, text).await?;
        ensure!(lines.is_empty(), "{function} logged: {lines}");
    }
    let metrics = account.find_in_log("messages-pull", "\"MessagesFromLedger\"").await?;
    let (mut pulled, mut from_ledger) = (0.0, 0.0);
    for line in metrics.lines() {
        let metric: Value = serde_json::from_str(line).with_context(|| format!("metrics: {line}"))?;
        let value = |name: &str| metric[name].as_f64().unwrap_or_default();
        pulled += value("MessagesPulled");
        from_ledger += value("MessagesFromLedger");
    }
    ensure!(
        pulled > 0.0 && from_ledger <= pulled * MAX_FROM_LEDGER,
        "of {pulled} pulled messages, SQS did not bring {from_ledger}"
    );
    Ok(())
}
