//! What things cost, in calls to AWS and billed units: counted, and compared with what was counted before.
//!
//! Each function runs as on Lambda: a request, a record or a socket comes in, and everything that it asks of AWS until
//! it returns is its own.

mod made_up;

use crate::stage::keys;
use crate::support::{OPERATOR, user};
use app::clock::SystemClock;
use app::ids::RandomIds;
use contract::query::Query;
use cost::counts::FILE;
use cost::{Count, Counts, report};
use domain::{ConnectionId, SandboxId};
use edge::auth::Authenticator;
use edge::ws::Opening;
use edge::{Plane, Settings};
use local::aws::{Aws, Call, Durability, Inbox, Records};
use made_up::{KINDS, event, noise, prose, work};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const HEARTBEATS_AN_HOUR: u32 = 120;

#[tokio::test]
async fn nothing_costs_more_than_it_did() {
    let counted = count_everything().await;
    let differences = Counts::committed().differences(&counted);
    let now = Path::new(env!("CARGO_TARGET_TMPDIR")).join("counts.json");
    fs::write(&now, counted.to_json()).unwrap();
    assert!(
        differences.is_empty(),
        "What the plane does on AWS has changed:\n  {}\nIf that is meant: cp {} {FILE} && cargo run -p cost -- --write, \
         and say in the commit what it buys.",
        differences.join("\n  "),
        now.display(),
    );
}

/// **Invariant:** an ingest is one call to the table, whatever the size of the batch.
#[test]
fn an_ingest_is_one_call_to_the_table() {
    let counts = Counts::committed();
    for count in [
        &counts.ingest_one_event,
        &counts.ingest_batch_of_1,
        &counts.ingest_batch_of_2,
        &counts.ingest_batch_of_25,
        &counts.ingest_large_data,
        &counts.ingest_with_a_key,
    ] {
        assert_eq!(count.calls, [("TransactWriteItems".to_owned(), 1)].into());
    }
    // A process that does not know the head, or knows that it is behind, reads it first.
    for count in [&counts.batch_first_of_a_process, &counts.batch_after_another_process] {
        let calls = [("GetItem".to_owned(), 1), ("TransactWriteItems".to_owned(), 1)];
        assert_eq!(count.calls, calls.into());
    }
}

/// **Invariant:** a pull that finds nothing and does not wait is one read; one that waits, a look before, the wait, and a
/// look after it, since a bell may be lost.
#[test]
fn a_pull_that_finds_nothing_is_a_look_and_nothing_more() {
    let counts = Counts::committed();
    assert_eq!(counts.empty_pull.calls, [("GetItem".to_owned(), 1)].into());
    let calls = [("GetItem".to_owned(), 2), ("ReceiveMessage".to_owned(), 1)];
    assert_eq!(counts.waiting_pull.calls, calls.into());
}

#[test]
fn the_model_waits_as_long_as_the_plane_does() {
    let wait = Duration::from_secs(contract::messages::DEFAULT_WAIT_SECS);
    assert_eq!(cost::model::assumed::DEFAULT_WAIT_SECS, wait.as_secs_f64());
    let silence = app::messages::pull::LONGEST_SILENCE;
    assert_eq!(cost::model::assumed::LONGEST_SILENCE_SECS, silence.as_secs_f64());
}

/// A write that is refused is billed like one that is not; a read costs a twentieth.
#[tokio::test]
async fn processes_that_take_turns_read_before_they_write() {
    let stage = Stage::open().await;
    let (one, other) = (stage.process(), stage.process());
    let register = json!({"sandbox_id": "s-1", "org": "acme"});
    let worker = stage.post(&one, "/api/v1/sandboxes", OPERATOR, &register).await.1;
    let worker = worker["worker_token"].as_str().unwrap().to_owned();
    let events = "/api/v1/sandboxes/s-1/events";
    for n in 0..4 {
        let process = if n % 2 == 0 { &one } else { &other };
        stage.post(process, events, &worker, &event(n)).await;
    }
    let read_and_write = [("GetItem".to_owned(), 1), ("TransactWriteItems".to_owned(), 1)];
    for n in 4..8 {
        let process = if n % 2 == 0 { &one } else { &other };
        let (count, _) = stage.post(process, events, &worker, &event(n)).await;
        assert_eq!(count.calls, read_and_write.clone().into(), "event {n}");
    }
    // Whoever finds the sandbox as they left it has it to themselves again.
    let (looking, _) = stage.post(&other, events, &worker, &event(8)).await;
    assert_eq!(looking.calls, read_and_write.into());
    let (alone, _) = stage.post(&other, events, &worker, &event(9)).await;
    assert_eq!(alone.calls, [("TransactWriteItems".to_owned(), 1)].into());
}

#[test]
fn the_documents_say_what_was_counted() {
    for (file, sections) in report::documents(&Counts::committed()) {
        let path = root().join(file);
        let text = fs::read_to_string(&path).unwrap();
        let current = report::replace(&text, &sections).unwrap_or_else(|why| panic!("{file}: {why}"));
        assert!(text == current, "{file} is out of date: cargo run -p cost -- --write");
    }
}

/// Whoever reads of a limit also reads what is done about it.
#[test]
fn every_limit_has_a_paragraph() {
    let text = fs::read_to_string(root().join("docs/scale.md")).unwrap();
    for name in cost::scale::limits(&Counts::committed()).iter().map(|limit| limit.name) {
        assert!(text.contains(&format!("\n### {name}\n")), "docs/scale.md has no heading for {name:?}");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

async fn count_everything() -> Counts {
    let mut stage = Stage::open().await;
    let mut counts = Counts::default();
    let process = stage.process();

    let register = json!({"sandbox_id": "s-1", "org": "acme"});
    let (registered, answer) = stage.post(&process, "/api/v1/sandboxes", OPERATOR, &register).await;
    counts.sandbox_registered = registered;
    let worker = answer["worker_token"].as_str().unwrap().to_owned();
    let events = "/api/v1/sandboxes/s-1/events";

    // A head that has seen some life: kinds of events, and all the receipts that it remembers.
    for number in 1..=10 {
        stage.post(&process, events, &worker, &work(number, 25)).await;
    }
    stage.forget_records();

    counts.ingest_batch_of_1 = stage.post(&process, events, &worker, &work(11, 1)).await.0;
    counts.ingest_batch_of_2 = stage.post(&process, events, &worker, &work(12, 2)).await.0;
    counts.ingest_batch_of_25 = stage.post(&process, events, &worker, &work(13, 25)).await.0;
    counts.repeat_of_a_batch = stage.post(&process, events, &worker, &work(13, 25)).await.0;
    let other = stage.process();
    counts.batch_first_of_a_process = stage.post(&other, events, &worker, &work(14, 2)).await.0;
    counts.batch_after_another_process = stage.post(&process, events, &worker, &work(15, 2)).await.0;

    stage.forget_records();
    for _ in 0..HEARTBEATS_AN_HOUR {
        let beat =
            json!({"event_type": "agent.heartbeat", "source": "worker", "event_data": {"status": "idle"}});
        counts.idle_hour.add(&stage.post(&process, events, &worker, &beat).await.0);
        counts.idle_hour.add(&stage.broadcast(&process).await);
    }

    // Workers of OmoiOS send one event a request and no numbers, so their heads have no receipts.
    let register = json!({"sandbox_id": "s-2", "org": "acme"});
    let single = stage.post(&process, "/api/v1/sandboxes", OPERATOR, &register).await.1;
    let single = single["worker_token"].as_str().unwrap().to_owned();
    let singles = "/api/v1/sandboxes/s-2/events";
    // Somebody of the org and an operator were here once, as in every plane that is used: both realms have stamps.
    for (id, token) in [("c-1", user("acme", "viewer")), ("c-2", OPERATOR.to_owned())] {
        let (_, inbox) = stage.connect(&process, id, &token).await;
        stage.disconnect(&process, id).await;
        drop(inbox);
    }
    for n in 1..=25 {
        stage.post(&process, singles, &single, &event(n)).await;
        stage.broadcast(&process).await;
    }
    counts.ingest_one_event = stage.post(&process, singles, &single, &event(26)).await.0;
    counts.broadcast_to_nobody = stage.broadcast(&process).await;
    // The first time it is refused; from then on it knows that it is not alone.
    for n in [27, 33] {
        stage.post(&other, singles, &single, &event(n)).await;
        counts.one_event_after_another_process =
            stage.post(&process, singles, &single, &event(n + 1)).await.0;
    }
    // And here it sees that it is again.
    stage.post(&process, singles, &single, &event(28)).await;
    counts.ingest_with_a_key = stage.post_with_key(&process, singles, &single, &event(29)).await;
    let large =
        json!({"event_id": "e-30", "event_type": "agent.diff", "event_data": {"patch": noise(300 * 1024)}});
    counts.ingest_large_data = stage.post(&process, singles, &single, &large).await.0;

    stage.forget_records();
    let (opened, _inbox) = stage.connect(&process, "c-3", &user("acme", "viewer")).await;
    counts.socket_opens = opened;
    stage.post(&process, singles, &single, &event(31)).await;
    counts.push_after_a_stamp_moved = stage.broadcast(&process).await;
    // Of the same kind as the one before: what is known of one kind's listeners says nothing of another's.
    stage.post(&process, singles, &single, &event(31 + KINDS.len())).await;
    counts.push_to_one = stage.broadcast(&process).await;
    counts.socket_ping = stage.ping(&process, "c-3").await;
    counts.socket_closes = stage.disconnect(&process, "c-3").await;
    count_messages(&mut stage, &worker, &mut counts).await;
    counts
}

/// Messages to the sandbox `s-1`, whose head has seen some life.
async fn count_messages(stage: &mut Stage, worker: &str, counts: &mut Counts) {
    // On Lambda each of these is a function of its own.
    let [sends, pulls, acknowledges, broadcasts] = std::array::from_fn(|_| stage.process());
    let pull = |wait: u64| format!("{MESSAGES}?ack=manual&wait={wait}");
    let receipt = |id: &str, state: &str| json!({"receipts": [{"message_id": id, "state": state}]});
    let ack = format!("{MESSAGES}/ack");

    // The first pull that waits makes the mailbox.
    stage.aws.mailboxes.make(&SandboxId::parse("s-1").unwrap()).await.unwrap();
    stage.aws.meter.take();

    // And the first broadcast of each kind asks who listens, so that only the second trip counts.
    for round_trip in ["m-1", "m-2"] {
        let mut count = stage.sent_while_a_pull_waits(&sends, &pulls, worker, &message(round_trip)).await;
        for _ in ["queued", "fetched"] {
            count.add(&stage.broadcast_next(&broadcasts).await);
        }
        for state in ["delivered", "started", "completed"] {
            count.add(&stage.post(&acknowledges, &ack, worker, &receipt(round_trip, state)).await.0);
            count.add(&stage.broadcast(&broadcasts).await);
        }
        counts.message_round_trip = count;
    }

    // Nobody has rung since that was not heard, so this one waits in silence.
    counts.waiting_pull = stage.get(&pulls, &pull(1), worker).await.0;
    counts.empty_pull = stage.get(&pulls, &pull(0), worker).await.0;
    counts.message_sent = stage.post(&sends, MESSAGES, OPERATOR, &message("m-3")).await.0;
    counts.message_pulled = stage.get(&pulls, &pull(0), worker).await.0;
    counts.messages_acknowledged =
        stage.post(&acknowledges, &ack, worker, &receipt("m-3", "delivered")).await.0;
    stage.post(&sends, MESSAGES, OPERATOR, &message("m-4")).await;
    counts.message_handed_over = stage.get(&pulls, &format!("{MESSAGES}?wait=0"), worker).await.0;
}

const MESSAGES: &str = "/api/v1/sandboxes/s-1/messages";

/// Of some three sentences.
fn message(id: &str) -> Value {
    json!({"message_id": id, "message_type": "user_message", "content": prose(id.len(), 300)})
}

/// A table, a stream and sockets, and functions that run on them one at a time.
struct Stage {
    aws: Aws,
    records: Records,
    _data: TempDir,
}

impl Stage {
    async fn open() -> Self {
        let data = TempDir::new().unwrap();
        let (aws, feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        aws.meter.start();
        Self { aws, records: feeds.records, _data: data }
    }

    /// A process that has just started and remembers nothing.
    fn process(&self) -> Arc<Plane> {
        let clock = Arc::new(SystemClock);
        let authenticator = Authenticator::new(&keys(), clock.clone());
        let reach = self.aws.bindings();
        Arc::new(Plane::new(
            self.aws.store.clone(),
            reach,
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

    /// A pull, and a message as soon as it has seen that there is none. The two are one count.
    async fn sent_while_a_pull_waits(
        &self,
        sends: &Arc<Plane>,
        pulls: &Arc<Plane>,
        worker: &str,
        message: &Value,
    ) -> Count {
        let pull = http::Request::get(format!("{MESSAGES}?ack=manual&wait=20"));
        let send = async {
            while self.aws.meter.waiting() == 0 {
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

    /// Tells of the one transaction that waits in the stream.
    async fn broadcast(&mut self, process: &Arc<Plane>) -> Count {
        let count = self.broadcast_next(process).await;
        assert!(self.records.is_empty(), "one transaction put more than one piece of news");
        count
    }

    /// Tells of the next transaction, of several.
    async fn broadcast_next(&mut self, process: &Arc<Plane>) -> Count {
        let image = self.records.recv().await.unwrap().image;
        edge::stream::broadcast(process, &[image]).await.unwrap();
        sum(self.aws.meter.take())
    }

    fn forget_records(&mut self) {
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

/// A request and its answer. What was asked of AWS meanwhile is still in the meter.
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
