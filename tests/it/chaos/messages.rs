//! Despite faults, each message reaches the agent and is acknowledged once, and all but interrupts arrive in order.
//!
//! About a third of all pulls take messages that no worker gets: their response is lost, or the network repeats the
//! request. So a few of two thousand messages are pulled ten times without an acknowledgement. The plane then reports
//! them as undeliverable, the operator sends them again, and they are delivered behind the others.

use super::queues::{Damage, INTERVAL, Saboteur};
use super::{kill_and_restart, read_log, register, seed, text};
use crate::command::process_options;
use crate::support::OPERATOR;
use client::{Inbox, MessageIn, Messenger, Pull, ReceiptIn};
use domain::message::{MessageType, State};
use domain::{MessageId, SandboxId};
use futures_util::future::join_all;
use kit::chaos::ChaosProxy;
use kit::process::Process;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;

/// Sandboxes run in parallel to keep the test short; order is per sandbox.
const SANDBOXES: u64 = 20;
const MESSAGES_PER_SANDBOX: usize = 100;
/// Every nth message is an interrupt, which overtakes the others.
const INTERRUPT_EVERY: usize = 10;
const KILLS: u64 = 8;
/// How long a worker lives. Longer than the visibility timeout, so that few messages are undeliverable.
const LIFETIME_MILLIS: Range<u64> = 1_000..6_000;
/// Sandboxes that get messages until all kinds of damage were done. Their workers start then, so that messages stay on
/// the queues.
const LATE: u64 = 5;

/// Ids of the messages that the agent of one sandbox received, in order. Like an agent's transcript, it outlives the
/// worker that pulls.
type Received = Arc<Mutex<Vec<String>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_delivered_in_order_and_acknowledged_once() {
    let (seed, data) = (seed(), TempDir::new().unwrap());
    let mut options = process_options(&data);
    options.arguments = vec!["--serve-aws".into(), "0".into()];
    let plane = Process::start(&options).await;
    let address: SocketAddr = plane.url.trim_start_matches("http://").parse().unwrap();
    options.port = address.port();
    let (direct, network) =
        (plane.url.clone(), ChaosProxy::start(address, seed.value.wrapping_add(10)).await);
    let (progress, watched) = watch::channel(0u64);
    let mut tokens = Vec::new();
    for n in 0..SANDBOXES {
        tokens.push(register(&direct, &id(n)).await);
    }
    let options_data = options.data.clone();
    let killer = tokio::spawn(kill_and_restart(
        plane,
        options,
        watched,
        (KILLS, SANDBOXES * MESSAGES_PER_SANDBOX as u64),
        seed.value,
    ));
    let saboteur = Saboteur::new(options_data, seed.value.wrapping_add(20));
    let damage = saboteur.damage.subscribe();
    let sabotage = tokio::spawn(saboteur.run());
    let runs = tokens.into_iter().zip(0..).map(|(token, n)| {
        let (received, sandbox) = (Received::default(), SandboxId::parse(id(n)).unwrap());
        let worker =
            Worker { url: network.url.clone(), token, sandbox: sandbox.clone(), received: received.clone() };
        let (direct, seed) = (direct.clone(), seed.value.wrapping_add(100 + n));
        let damage = (n < LATE).then(|| damage.clone());
        let sending = send(network.url.clone(), sandbox, &progress, damage.clone());
        async move {
            let sent = match damage {
                Some(_) => {
                    let sent = sending.await;
                    worker.run_until_done(direct, seed, sent.len()).await;
                    sent
                }
                None => {
                    let pulling = worker.run_until_done(direct, seed, MESSAGES_PER_SANDBOX);
                    tokio::join!(sending, pulling).0
                }
            };
            let received = received.lock().unwrap().clone();
            (n, sent, received)
        }
    });
    let runs =
        timeout(Duration::from_secs(800), join_all(runs)).await.expect("all messages are delivered in time");
    sabotage.abort();
    let plane = timeout(Duration::from_secs(60), killer).await.expect("the killer finishes").unwrap();

    let (mut redeliveries, http) = (0, reqwest::Client::new());
    for (n, sent, received) in runs {
        redeliveries += received.len() - sent.len();
        let (first_deliveries, _) = without_repetitions(received);
        let log = read_log(&plane.url, &id(n)).await;
        let undeliverable = logged_ids(&log, "undeliverable");
        assert_eq!(sorted(&first_deliveries), sorted(&sent), "each message reaches the agent");
        assert_eq!(
            ordered(&first_deliveries, &undeliverable),
            ordered(&sent, &undeliverable),
            "messages reach the agent in order"
        );
        let (queued, sent_again) = without_repetitions(logged_ids(&log, "queued"));
        assert_eq!(queued, sent, "each message is queued, in order");
        assert!(
            is_part_of(&sent_again, &undeliverable),
            "only undeliverable messages are queued again, once each time"
        );
        let delivered = logged_ids(&log, "delivered");
        assert_eq!(sorted(&delivered), sorted(&sent), "each message is acknowledged once");
        assert_eq!(
            ordered(&delivered, &undeliverable),
            ordered(&sent, &undeliverable),
            "messages are acknowledged in order"
        );
        let sandbox = read(&http, &plane.url, &id(n)).await.unwrap();
        assert_eq!(sandbox["queue_size"], 0, "the queue is empty");
    }
    assert!(redeliveries > 0, "a worker killed before it acknowledges gets the message again");
}

fn id(n: u64) -> String {
    format!("s-chaos-{n}")
}

fn is_interrupt(id: &str) -> bool {
    id.starts_with("i-")
}

/// Messages that only an interrupt may overtake: those that were never undeliverable.
fn ordered<'a>(ids: &'a [String], undeliverable: &[String]) -> Vec<&'a String> {
    ids.iter().filter(|id| !is_interrupt(id) && !undeliverable.contains(id)).collect()
}

fn sorted(ids: &[String]) -> Vec<&String> {
    let mut sorted: Vec<&String> = ids.iter().collect();
    sorted.sort();
    sorted
}

/// The first occurrence of each id, and all others.
fn without_repetitions(ids: Vec<String>) -> (Vec<String>, Vec<String>) {
    let mut seen = HashSet::new();
    ids.into_iter().partition(|id| seen.insert(id.clone()))
}

/// Whether each id occurs in `all` at least as often as in `part`.
fn is_part_of(part: &[String], all: &[String]) -> bool {
    let count = |ids: &[String], id: &String| ids.iter().filter(|other| *other == id).count();
    part.iter().all(|id| count(part, id) <= count(all, id))
}

fn logged_ids(log: &[Value], state: &str) -> Vec<String> {
    let of_state = log.iter().filter(|event| event["event_type"] == format!("message.{state}"));
    of_state.map(|event| text(&event["event_data"]["message_id"])).collect()
}

/// Sends messages, with `damage` until all of it is done.
async fn send(
    url: String,
    sandbox: SandboxId,
    progress: &watch::Sender<u64>,
    damage: Option<watch::Receiver<Damage>>,
) -> Vec<String> {
    let messenger = Messenger::new(&url, &sandbox, Some(OPERATOR.into()), Duration::from_millis(400));
    let mut sent = Vec::new();
    for n in 0.. {
        if n >= MESSAGES_PER_SANDBOX {
            match &damage {
                Some(damage) if !damage.borrow().is_complete() => tokio::time::sleep(INTERVAL).await,
                _ => break,
            }
        }
        let (kind, message_type) = match n {
            n if n % INTERRUPT_EVERY == INTERRUPT_EVERY - 1 => ("i", MessageType::Interrupt),
            n if n % 3 == 0 => ("m", MessageType::Guidance),
            _ => ("m", MessageType::UserMessage),
        };
        let message_id = MessageId::parse(format!("{kind}-{n}")).unwrap();
        let message = MessageIn { message_id, message_type, content: format!("step {n}") };
        let queued = messenger.send(&message).await.expect("no message is rejected");
        sent.push(queued.message_id.to_string());
        progress.send_modify(|sent| *sent += 1);
    }
    sent
}

/// Pulls the messages of one sandbox. It is killed repeatedly and keeps no state.
#[derive(Clone)]
struct Worker {
    url: String,
    token: String,
    sandbox: SandboxId,
    received: Received,
}

impl Worker {
    async fn run_until_done(self, direct: String, seed: u64, messages: usize) {
        let mut random = StdRng::seed_from_u64(seed);
        // Shared by all requests, because creating a client takes milliseconds.
        let http = reqwest::Client::new();
        while delivered(&http, &direct, &self.sandbox).await < messages {
            send_again(&http, &direct, &self.sandbox).await;
            let running = tokio::spawn(self.clone().run());
            tokio::time::sleep(Duration::from_millis(random.random_range(LIFETIME_MILLIS))).await;
            running.abort();
        }
    }

    async fn run(self) {
        let pull = Pull { wait_secs: 1, max_messages: 10, visibility_secs: 1, holding: Vec::new() };
        let token = Some(self.token.clone());
        let inbox = Inbox::new(&self.url, &self.sandbox, token, pull, Duration::from_millis(400));
        loop {
            let pulled = inbox.next().await.expect("a worker may pull its own messages");
            let mut pulled_ids = Vec::new();
            for message in pulled.messages {
                self.received.lock().unwrap().push(message.id.to_string());
                pulled_ids.push(message.id);
            }
            if pulled_ids.is_empty() {
                continue;
            }
            let receipts = pulled_ids.into_iter();
            let receipts =
                receipts.map(|message_id| ReceiptIn { message_id, state: State::Delivered, detail: None });
            let receipts: Vec<ReceiptIn> = receipts.collect();
            inbox.acknowledge(&receipts).await.expect("receipts are accepted");
        }
    }
}

/// Number of acknowledged messages of a sandbox; 0 while the plane is down.
async fn delivered(http: &reqwest::Client, url: &str, sandbox: &SandboxId) -> usize {
    let counts = read(http, url, sandbox.as_str()).await.unwrap_or_default()["event_counts"].take();
    usize::try_from(counts["message.delivered"].as_u64().unwrap_or(0)).unwrap()
}

/// As the operator does, with every message that was undeliverable. Nothing happens while the plane is down.
async fn send_again(http: &reqwest::Client, url: &str, sandbox: &SandboxId) {
    let of_sandbox = format!("{url}/api/v1/sandboxes/{sandbox}");
    let events = format!("{of_sandbox}/events?event_type=message.undeliverable&limit=500");
    let page = get(http, &events).await.unwrap_or_default();
    for event in page["events"].as_array().into_iter().flatten() {
        let message = text(&event["event_data"]["message_id"]);
        // Refused if the message was acknowledged since.
        let _ =
            http.post(format!("{of_sandbox}/messages/{message}/resend")).bearer_auth(OPERATOR).send().await;
    }
}

async fn read(http: &reqwest::Client, url: &str, sandbox: &str) -> Result<Value, reqwest::Error> {
    get(http, &format!("{url}/api/v1/sandboxes/{sandbox}")).await
}

async fn get(http: &reqwest::Client, url: &str) -> Result<Value, reqwest::Error> {
    http.get(url).bearer_auth(OPERATOR).send().await?.json().await
}
