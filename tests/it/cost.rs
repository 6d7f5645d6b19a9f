//! Cost regression tests: AWS calls and billed units of each operation, compared with the committed counts.
//!
//! Each function runs as on Lambda: all AWS calls between a request, record or socket event and its return are counted
//! for it.

mod sample_events;

use crate::harness::keys;
use crate::support::{OPERATOR, user};
use app::Clock;
use app::clock::SystemClock;
use app::ids::RandomIds;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::query::Query;
use cost::counts::FILE;
use cost::{Count, Counts, report};
use domain::attempt::Assignment;
use domain::kept::PIECE_BYTES;
use domain::{ConnectionId, OrgId, Sandbox, SandboxId, TaskId};
use edge::auth::Authenticator;
use edge::ws::Opening;
use edge::{Plane, Settings};
use local::aws::{Aws, Call, Durability, Inbox, Records};
use sample_events::{EVENT_TYPES, event, noise, prose, work};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::commit::{Change, Commit, Committed};
use tempfile::TempDir;

const HEARTBEATS_PER_HOUR: u32 = 120;

#[tokio::test]
async fn costs_match_the_committed_counts() {
    let counted = count_all().await;
    let differences = Counts::committed().differences(&counted);
    let now = Path::new(env!("CARGO_TARGET_TMPDIR")).join("counts.json");
    fs::write(&now, counted.to_json()).unwrap();
    assert!(
        differences.is_empty(),
        "The AWS calls of the plane have changed:\n  {}\nIf this is intended: cp {} {FILE} && cargo run -p cost -- --write, \
         and justify the change in the commit message.",
        differences.join("\n  "),
        now.display(),
    );
}

/// **Invariant:** an ingest is one table call, whatever the size of the batch.
#[test]
fn ingest_is_one_table_call() {
    let counts = Counts::committed();
    for count in [
        &counts.ingest_one_event,
        &counts.ingest_batch_of_1,
        &counts.ingest_batch_of_2,
        &counts.ingest_batch_of_25,
        &counts.ingest_large_data,
        &counts.ingest_with_idempotency_key,
    ] {
        assert_eq!(count.calls, [("TransactWriteItems".to_owned(), 1)].into());
    }
    // A process that has not cached the sandbox, or knows that its copy is stale, reads it first.
    for count in [&counts.first_batch_of_a_process, &counts.batch_after_another_process] {
        let calls = [("GetItem".to_owned(), 1), ("TransactWriteItems".to_owned(), 1)];
        assert_eq!(count.calls, calls.into());
    }
}

/// **Invariant:** an empty pull without a wait is one read. With a wait it is a read before, a wait at each of the two
/// queues, and a read after, because a queue can lose a message.
#[test]
fn empty_pull_only_reads() {
    let counts = Counts::committed();
    assert_eq!(counts.empty_pull.calls, [("GetItem".to_owned(), 1)].into());
    let calls = [("GetItem".to_owned(), 2), ("ReceiveMessage".to_owned(), 2)];
    assert_eq!(counts.waiting_pull.calls, calls.into());
}

#[test]
fn cost_model_uses_the_planes_wait_times() {
    let wait = Duration::from_secs(contract::messages::DEFAULT_WAIT_SECS);
    assert_eq!(cost::model::assumed::DEFAULT_WAIT_SECS, wait.as_secs_f64());
    let interval = app::messages::pull::MAX_POLL_INTERVAL;
    assert_eq!(cost::model::assumed::RECHECK_INTERVAL_SECS, interval.as_secs_f64());
}

/// A rejected write is billed like a successful one; a read costs a twentieth of it.
#[tokio::test]
async fn alternating_processes_read_before_they_write() {
    let metered = MeteredPlane::open().await;
    let (first, second) = (metered.process(), metered.process());
    let register = json!({"sandbox_id": "s-1", "org": "acme"});
    let worker = metered.post(&first, "/api/v1/sandboxes", OPERATOR, &register).await.1;
    let worker = worker["worker_token"].as_str().unwrap().to_owned();
    let events = "/api/v1/sandboxes/s-1/events";
    for n in 0..4 {
        let process = if n % 2 == 0 { &first } else { &second };
        metered.post(process, events, &worker, &event(n)).await;
    }
    let read_and_write = [("GetItem".to_owned(), 1), ("TransactWriteItems".to_owned(), 1)];
    for n in 4..8 {
        let process = if n % 2 == 0 { &first } else { &second };
        let (count, _) = metered.post(process, events, &worker, &event(n)).await;
        assert_eq!(count.calls, read_and_write.clone().into(), "event {n}");
    }
    // A process that finds its own last write writes without a read from then on.
    let (checking, _) = metered.post(&second, events, &worker, &event(8)).await;
    assert_eq!(checking.calls, read_and_write.into());
    let (exclusive, _) = metered.post(&second, events, &worker, &event(9)).await;
    assert_eq!(exclusive.calls, [("TransactWriteItems".to_owned(), 1)].into());
}

#[test]
fn cost_documents_are_up_to_date() {
    for (file, sections) in report::documents(&Counts::committed()) {
        let path = root().join(file);
        let text = fs::read_to_string(&path).unwrap();
        let current = report::replace(&text, &sections).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text == current, "{file} is out of date: cargo run -p cost -- --write");
    }
}

/// `docs/scale.md` explains what to do about each limit.
#[test]
fn every_limit_is_documented() {
    let text = fs::read_to_string(root().join("docs/scale.md")).unwrap();
    for name in cost::scale::limits(&Counts::committed()).iter().map(|limit| limit.name) {
        assert!(text.contains(&format!("\n### {name}\n")), "docs/scale.md has no heading for {name:?}");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

async fn count_all() -> Counts {
    let mut metered = MeteredPlane::open().await;
    let mut counts = Counts::default();
    let process = metered.process();

    let register = json!({"sandbox_id": "s-1", "org": "acme"});
    let (registered, answer) = metered.post(&process, "/api/v1/sandboxes", OPERATOR, &register).await;
    counts.sandbox_registered = registered;
    let worker = answer["worker_token"].as_str().unwrap().to_owned();
    let events = "/api/v1/sandboxes/s-1/events";

    // A sandbox with a typical history: event types and the maximum number of receipts.
    for number in 1..=10 {
        metered.post(&process, events, &worker, &work(number, 25)).await;
    }
    metered.discard_records();

    counts.ingest_batch_of_1 = metered.post(&process, events, &worker, &work(11, 1)).await.0;
    counts.ingest_batch_of_2 = metered.post(&process, events, &worker, &work(12, 2)).await.0;
    counts.ingest_batch_of_25 = metered.post(&process, events, &worker, &work(13, 25)).await.0;
    counts.retried_batch = metered.post(&process, events, &worker, &work(13, 25)).await.0;
    let other = metered.process();
    counts.first_batch_of_a_process = metered.post(&other, events, &worker, &work(14, 2)).await.0;
    counts.batch_after_another_process = metered.post(&process, events, &worker, &work(15, 2)).await.0;

    metered.discard_records();
    for _ in 0..HEARTBEATS_PER_HOUR {
        let heartbeat =
            json!({"event_type": "agent.heartbeat", "source": "worker", "event_data": {"status": "idle"}});
        counts.idle_hour.add(&metered.post(&process, events, &worker, &heartbeat).await.0);
        counts.idle_hour.add(&metered.broadcast(&process).await);
    }

    // OmoiOS workers send one event per request without batch numbers, so their sandboxes have no receipts.
    let register = json!({"sandbox_id": "s-2", "org": "acme"});
    let single = metered.post(&process, "/api/v1/sandboxes", OPERATOR, &register).await.1;
    let single = single["worker_token"].as_str().unwrap().to_owned();
    let singles = "/api/v1/sandboxes/s-2/events";
    // A viewer and an operator have been connected before, so both realms have a subscription version.
    for (id, token) in [("c-1", user("acme", "viewer")), ("c-2", OPERATOR.to_owned())] {
        let (_, inbox) = metered.connect(&process, id, &token).await;
        metered.disconnect(&process, id).await;
        drop(inbox);
    }
    for n in 1..=25 {
        metered.post(&process, singles, &single, &event(n)).await;
        metered.broadcast(&process).await;
    }
    counts.ingest_one_event = metered.post(&process, singles, &single, &event(26)).await.0;
    counts.broadcast_without_subscribers = metered.broadcast(&process).await;
    // The first write conflicts; from then on the process knows that another one writes too.
    for n in [27, 33] {
        metered.post(&other, singles, &single, &event(n)).await;
        counts.one_event_after_another_process =
            metered.post(&process, singles, &single, &event(n + 1)).await.0;
    }
    // Here it learns that it is the only writer again.
    metered.post(&process, singles, &single, &event(28)).await;
    counts.ingest_with_idempotency_key = metered.post_with_key(&process, singles, &single, &event(29)).await;
    let large =
        json!({"event_id": "e-30", "event_type": "agent.diff", "event_data": {"patch": noise(300 * 1024)}});
    counts.ingest_large_data = metered.post(&process, singles, &single, &large).await.0;

    metered.discard_records();
    let (opened, _inbox) = metered.connect(&process, "c-3", &user("acme", "viewer")).await;
    counts.socket_opens = opened;
    metered.post(&process, singles, &single, &event(31)).await;
    counts.broadcast_after_subscription_change = metered.broadcast(&process).await;
    // The same event type as before, because subscribers are cached per event type.
    metered.post(&process, singles, &single, &event(31 + EVENT_TYPES.len())).await;
    counts.broadcast_to_one_socket = metered.broadcast(&process).await;
    counts.socket_ping = metered.ping(&process, "c-3").await;
    counts.socket_closes = metered.disconnect(&process, "c-3").await;
    count_messages(&mut metered, &worker, &mut counts).await;
    count_kept_work(&metered, &mut counts).await;
    counts
}

/// Messages to the sandbox `s-1`, which has a typical history.
async fn count_messages(metered: &mut MeteredPlane, worker: &str, counts: &mut Counts) {
    // On Lambda each of these is a separate function.
    let [sends, pulls, acknowledges, broadcasts] = std::array::from_fn(|_| metered.process());
    let pull = |wait: u64| format!("{MESSAGES}?ack=manual&wait={wait}");
    let receipts = |id: &str, states: &[&str]| {
        let receipt = |state: &&str| json!({"message_id": id, "state": state});
        json!({"receipts": states.iter().map(receipt).collect::<Vec<_>>()})
    };
    let ack = format!("{MESSAGES}/ack");

    // The first pull that waits creates the mailbox.
    metered.aws.mailboxes.create(&SandboxId::parse("s-1").unwrap()).await.unwrap();
    metered.aws.meter.take();

    // The first broadcast of each event type looks up the subscribers, so only the second round trip counts.
    for round_trip in ["m-1", "m-2"] {
        let mut count =
            metered.send_during_a_waiting_pull(&sends, &pulls, worker, &message(round_trip)).await;
        for _ in ["queued", "fetched"] {
            count.add(&metered.broadcast_next(&broadcasts).await);
        }
        // As our worker sends them: an idle agent starts a message as soon as it has it.
        for states in [&["delivered", "started"][..], &["completed"]] {
            count.add(&metered.post(&acknowledges, &ack, worker, &receipts(round_trip, states)).await.0);
            count.add(&metered.broadcast(&broadcasts).await);
        }
        counts.message_round_trip = count;
    }

    // No wake-up is pending, so this one waits until its timeout.
    counts.waiting_pull = metered.get(&pulls, &pull(1), worker).await.0;
    counts.empty_pull = metered.get(&pulls, &pull(0), worker).await.0;
    counts.message_sent = metered.post(&sends, MESSAGES, OPERATOR, &message("m-3")).await.0;
    counts.message_pulled = metered.get(&pulls, &pull(0), worker).await.0;
    counts.messages_acknowledged =
        metered.post(&acknowledges, &ack, worker, &receipts("m-3", &["delivered"])).await.0;
    metered.post(&sends, MESSAGES, OPERATOR, &message("m-4")).await;
    counts.message_pulled_auto_ack = metered.get(&pulls, &format!("{MESSAGES}?wait=0"), worker).await.0;
}

/// What a worker uploads of its workspace.
async fn count_kept_work(metered: &MeteredPlane, counts: &mut Counts) {
    let id = SandboxId::parse("s-kept").unwrap();
    let assignment = Assignment {
        task: TaskId::parse("t-1").unwrap(),
        ticket: None,
        attempt: 1,
        provider: "process".to_owned(),
    };
    let now = SystemClock.now();
    let org = OrgId::parse("acme").unwrap();
    let after = Sandbox::assigned(id, org, "an attempt".to_owned(), assignment, now);
    let mut commit = Commit::new(now);
    commit.sandboxes.push(Change { before: None, after, events: Vec::new() });
    assert!(matches!(metered.aws.store.commit(commit).await.unwrap(), Committed::Done(_)));
    metered.aws.meter.take();
    let process = metered.process();
    let sha256 = "0f".repeat(32);
    let data = STANDARD.encode(vec![7_u8; usize::try_from(PIECE_BYTES).unwrap()]);
    let piece = json!({"sha256": sha256, "piece": 1, "data": data});
    let path = "/api/v1/sandboxes/s-kept/workspace";
    counts.workspace_piece = metered.post(&process, &format!("{path}/pieces"), OPERATOR, &piece).await.0;
    let keep = json!({"files": [{"format": "archive", "size_bytes": PIECE_BYTES, "sha256": sha256}]});
    counts.workspace_kept = metered.post(&process, path, OPERATOR, &keep).await.0;
}

const MESSAGES: &str = "/api/v1/sandboxes/s-1/messages";

/// About three sentences long.
fn message(id: &str) -> Value {
    json!({"message_id": id, "message_type": "user_message", "content": prose(id.len(), 300)})
}

/// An in-process AWS with a meter, and functions that run on it one at a time.
struct MeteredPlane {
    aws: Aws,
    records: Records,
    _data: TempDir,
}

impl MeteredPlane {
    async fn open() -> Self {
        let data = TempDir::new().unwrap();
        let (aws, feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        aws.meter.start();
        Self { aws, records: feeds.records, _data: data }
    }

    /// A newly started process with empty caches.
    fn process(&self) -> Arc<Plane> {
        let clock = Arc::new(SystemClock);
        let authenticator = Authenticator::new(&keys(), clock.clone());
        let bindings = self.aws.bindings();
        Arc::new(Plane::new(
            self.aws.store.clone(),
            bindings,
            authenticator,
            clock,
            Arc::new(RandomIds),
            Settings::default(),
        ))
    }

    async fn post(&self, process: &Arc<Plane>, path: &str, token: &str, body: &Value) -> (Count, Value) {
        self.request(process, http::Request::post(path), token, body).await
    }

    async fn post_with_key(&self, process: &Arc<Plane>, path: &str, token: &str, body: &Value) -> Count {
        self.request(process, http::Request::post(path).header("Idempotency-Key", "k-1"), token, body).await.0
    }

    async fn get(&self, process: &Arc<Plane>, path: &str, token: &str) -> (Count, Value) {
        self.request(process, http::Request::get(path), token, &Value::Null).await
    }

    /// Starts a pull, and sends a message once the pull waits. Counts both together.
    async fn send_during_a_waiting_pull(
        &self,
        sends: &Arc<Plane>,
        pulls: &Arc<Plane>,
        worker: &str,
        message: &Value,
    ) -> Count {
        let pull = http::Request::get(format!("{MESSAGES}?ack=manual&wait=20"));
        let send = async {
            while self.aws.meter.recorded() == 0 {
                tokio::task::yield_now().await;
            }
            exchange(sends, http::Request::post(MESSAGES), OPERATOR, message).await
        };
        let ((mut count, pulled), (sent, _)) =
            tokio::join!(exchange(pulls, pull, worker, &Value::Null), send);
        assert_eq!(pulled["messages"].as_array().map(Vec::len), Some(1), "{pulled}");
        count.add(&sent);
        count.add(&sum(self.aws.meter.take()));
        count
    }

    async fn request(
        &self,
        process: &Arc<Plane>,
        request: http::request::Builder,
        token: &str,
        body: &Value,
    ) -> (Count, Value) {
        let (mut count, answer) = exchange(process, request, token, body).await;
        count.add(&sum(self.aws.meter.take()));
        (count, answer)
    }

    /// Broadcasts the only pending stream record.
    async fn broadcast(&mut self, process: &Arc<Plane>) -> Count {
        let count = self.broadcast_next(process).await;
        assert!(self.records.is_empty(), "one transaction produced more than one stream record");
        count
    }

    /// Broadcasts the next of several pending stream records.
    async fn broadcast_next(&mut self, process: &Arc<Plane>) -> Count {
        let image = self.records.recv().await.unwrap().image;
        edge::stream::broadcast(process, "1", &[image]).await.unwrap();
        sum(self.aws.meter.take())
    }

    fn discard_records(&mut self) {
        while self.records.try_recv().is_ok() {}
    }

    async fn connect(&self, process: &Arc<Plane>, id: &str, token: &str) -> (Count, Inbox) {
        let connection = ConnectionId::parse(id).unwrap();
        let inbox = self.aws.hub.register(&connection);
        let opening = Opening {
            connection,
            path: "/api/v1/sandbox/s-2/ws".into(),
            query: Query::parse(&format!("token={token}")),
            headers: http::HeaderMap::new(),
            source: None,
        };
        edge::ws::connect(process, opening).await.unwrap();
        (sum(self.aws.meter.take()), inbox)
    }

    async fn ping(&self, process: &Arc<Plane>, id: &str) -> Count {
        let connection = ConnectionId::parse(id).unwrap();
        edge::ws::frame(process, &connection, r#"{"type":"ping"}"#).await.unwrap();
        sum(self.aws.meter.take())
    }

    async fn disconnect(&self, process: &Arc<Plane>, id: &str) -> Count {
        edge::ws::disconnect(process, &ConnectionId::parse(id).unwrap()).await.unwrap();
        sum(self.aws.meter.take())
    }
}

/// Sends a request. Its AWS calls stay in the meter.
async fn exchange(
    process: &Arc<Plane>,
    request: http::request::Builder,
    token: &str,
    body: &Value,
) -> (Count, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let bytes_in = body.len() as u64;
    let request = request.header("Authorization", format!("Bearer {token}")).body(body.into()).unwrap();
    let answer = edge::http::dispatch(process, request).await;
    assert!(answer.status().is_success(), "{answer:?}");
    let count = Count { bytes_in, bytes_out: answer.body().len() as u64, ..Count::default() };
    (count, serde_json::from_slice(answer.body()).unwrap())
}

fn sum(calls: Vec<Call>) -> Count {
    let mut sum = Count::default();
    for call in calls {
        *sum.calls.entry(call.operation.clone()).or_default() += 1;
        sum.write_units += call.write_units;
        sum.read_units += call.read_units;
        if call.operation == "PostToConnection" {
            sum.bytes_out += call.request_bytes as u64;
        }
    }
    sum
}
