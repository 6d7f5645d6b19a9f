//! Whatever breaks, each message reaches the agent and is confirmed once, and all but interrupts come in order.

use super::{kill_and_restart, read_log, register, seed, text};
use crate::command::recipe;
use crate::support::OPERATOR;
use client::{Inbox, MessageIn, Messenger, Pull, ReceiptIn};
use domain::message::{MessageType, State};
use domain::{MessageId, SandboxId};
use futures_util::future::join_all;
use kit::chaos::Chaos;
use kit::process::Process;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;

/// Side by side, or it would take minutes: the order is per sandbox.
const SANDBOXES: u64 = 20;
const EACH: u64 = 100;
/// So many messages apart: interrupts, which overtake the others.
const INTERRUPTS: u64 = 10;
const KILLS: u64 = 8;

/// What the agent of one sandbox was given, in that order. It outlives the puller, as an agent's memory does.
type Given = Arc<Mutex<Vec<String>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_arrives_in_order_and_is_confirmed_once() {
    let (seed, data) = (seed(), TempDir::new().unwrap());
    let mut recipe = recipe(&data);
    let plane = Process::start(&recipe).await;
    let address: SocketAddr = plane.url.trim_start_matches("http://").parse().unwrap();
    recipe.port = address.port();
    let (direct, network) = (plane.url.clone(), Chaos::start(address, seed.value.wrapping_add(10)).await);
    let (progress, watched) = watch::channel(0u64);
    let mut tokens = Vec::new();
    for n in 0..SANDBOXES {
        tokens.push(register(&direct, &id(n)).await);
    }
    let killer =
        tokio::spawn(kill_and_restart(plane, recipe, watched, (KILLS, SANDBOXES * EACH), seed.value));
    let runs = tokens.into_iter().zip(0..).map(|(token, n)| {
        let (given, sandbox) = (Given::default(), SandboxId::parse(id(n)).unwrap());
        let worker =
            Worker { url: network.url.clone(), token, sandbox: sandbox.clone(), given: given.clone() };
        let pulling = tokio::spawn(worker.run_until_done(direct.clone(), seed.value.wrapping_add(100 + n)));
        let sending = send(&network.url, sandbox, &progress);
        async move {
            let (sent, pulled) = tokio::join!(sending, pulling);
            pulled.expect("the worker is done");
            let given = given.lock().unwrap().clone();
            (n, sent, given)
        }
    });
    let runs = timeout(Duration::from_secs(800), join_all(runs)).await.expect("all is done in time");
    let plane = timeout(Duration::from_secs(60), killer).await.expect("the killer is done").unwrap();

    let (mut twice, http) = (0, reqwest::Client::new());
    for (n, sent, given) in runs {
        let mut first_times: Vec<String> = Vec::new();
        for id in &given {
            if !first_times.contains(id) {
                first_times.push(id.clone());
            }
        }
        assert_eq!(in_order(&first_times), in_order(&sent), "each reaches the agent, in order");
        assert_eq!(interrupts(&first_times), interrupts(&sent), "so does each interrupt");
        twice += given.len() - sent.len();
        let log = read_log(&plane.url, &id(n)).await;
        assert_eq!(told(&log, "queued"), sent, "each is queued once, in order");
        let delivered = told(&log, "delivered");
        assert_eq!(in_order(&delivered), in_order(&sent), "each is confirmed once, in order");
        assert_eq!(interrupts(&delivered), interrupts(&sent), "so is each interrupt");
        let shown = read(&http, &plane.url, &id(n)).await.unwrap();
        assert_eq!(shown["queue_size"], 0, "none waits any more");
    }
    assert!(twice > 0, "a worker that dies between taking and confirming is given a message again");
}

fn id(n: u64) -> String {
    format!("s-chaos-{n}")
}

fn is_interrupt(id: &str) -> bool {
    id.starts_with("i-")
}

/// Those that nothing but an interrupt may overtake.
fn in_order(ids: &[String]) -> Vec<&String> {
    ids.iter().filter(|id| !is_interrupt(id)).collect()
}

fn interrupts(ids: &[String]) -> Vec<&String> {
    let mut interrupts: Vec<&String> = ids.iter().filter(|id| is_interrupt(id)).collect();
    interrupts.sort();
    interrupts
}

fn told(log: &[Value], state: &str) -> Vec<String> {
    let of_state = log.iter().filter(|event| event["event_type"] == format!("message.{state}"));
    of_state.map(|event| text(&event["event_data"]["message_id"])).collect()
}

async fn send(url: &str, sandbox: SandboxId, progress: &watch::Sender<u64>) -> Vec<String> {
    let messenger = Messenger::new(url, &sandbox, Some(OPERATOR.into()), Duration::from_millis(400));
    let mut sent = Vec::new();
    for n in 0..EACH {
        let (kind, message_type) = match n {
            n if n % INTERRUPTS == INTERRUPTS - 1 => ("i", MessageType::Interrupt),
            n if n % 3 == 0 => ("m", MessageType::Guidance),
            _ => ("m", MessageType::UserMessage),
        };
        let message_id = MessageId::parse(format!("{kind}-{n}")).unwrap();
        let message = MessageIn { message_id, message_type, content: format!("step {n}") };
        let queued = messenger.send(&message).await.expect("no message is refused");
        sent.push(queued.message_id.to_string());
        progress.send_modify(|sent| *sent += 1);
    }
    sent
}

/// What takes the messages of one sandbox. It is killed again and again, and remembers nothing.
#[derive(Clone)]
struct Worker {
    url: String,
    token: String,
    sandbox: SandboxId,
    given: Given,
}

impl Worker {
    async fn run_until_done(self, direct: String, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        // One for all requests: to make one takes milliseconds.
        let http = reqwest::Client::new();
        while delivered(&http, &direct, &self.sandbox).await < EACH {
            let running = tokio::spawn(self.clone().run());
            tokio::time::sleep(Duration::from_millis(random.random_range(300..3_000))).await;
            running.abort();
        }
    }

    async fn run(self) {
        let pull = Pull { wait_secs: 1, most: 10, hidden_secs: 1 };
        let token = Some(self.token.clone());
        let inbox = Inbox::new(&self.url, &self.sandbox, token, pull, Duration::from_millis(400));
        loop {
            let pulled = inbox.next().await.expect("its own messages are not refused");
            let mut taken = Vec::new();
            for message in pulled.messages {
                self.given.lock().unwrap().push(message.id.to_string());
                taken.push(message.id);
            }
            if taken.is_empty() {
                continue;
            }
            let receipts = taken.into_iter();
            let receipts =
                receipts.map(|message_id| ReceiptIn { message_id, state: State::Delivered, detail: None });
            let receipts: Vec<ReceiptIn> = receipts.collect();
            inbox.acknowledge(&receipts).await.expect("receipts are not refused");
        }
    }
}

/// How many messages of a sandbox are confirmed; none, as long as the plane does not answer.
async fn delivered(http: &reqwest::Client, url: &str, sandbox: &SandboxId) -> u64 {
    let sandbox = read(http, url, sandbox.as_str()).await.unwrap_or_default();
    sandbox["event_counts"]["message.delivered"].as_u64().unwrap_or(0)
}

async fn read(http: &reqwest::Client, url: &str, sandbox: &str) -> Result<Value, reqwest::Error> {
    let request = http.get(format!("{url}/api/v1/sandboxes/{sandbox}"));
    request.bearer_auth(OPERATOR).send().await?.json().await
}
