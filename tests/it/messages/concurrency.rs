//! On Lambda each request may run in another process, which shares no memory with the others.

use super::{MESSAGES, ids};
use crate::harness::keys;
use crate::support::{OPERATOR, TestPlane};
use app::clock::SystemClock;
use app::ids::RandomIds;
use edge::auth::{Authenticator, Keys};
use edge::{Plane, Settings};
use http::{Method, Request, StatusCode};
use local::aws::Aws;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;

/// Number of messages that only this sender sends, and of messages that both send.
const MESSAGES_PER_SENDER: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_processes_deliver_each_message_once() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    let (responses, all_sent) = (Arc::new(watch::Sender::new(0)), watch::Sender::new(false));
    let process = || Process::start(&plane.running.aws);
    let client = || Client { process: process(), responses: responses.clone() };
    let senders = ["left", "right"].map(|name| tokio::spawn(client().send_all(name)));
    let posters = [(); 2].map(|()| tokio::spawn(process().post_after_every_response(responses.subscribe())));
    let acknowledging = tokio::spawn(client().pull_and_acknowledge(all_sent.subscribe()));
    let auto = tokio::spawn(client().pull_auto(all_sent.subscribe()));
    drop(responses);

    let [left, right] = senders;
    assert_eq!(left.await.unwrap(), right.await.unwrap(), "a retry gets the original response");
    all_sent.send_replace(true);
    let mut pulled = auto.await.unwrap();
    pulled.extend(acknowledging.await.unwrap());
    let mut posted = 0;
    for poster in posters {
        posted += poster.await.unwrap();
    }

    let log = plane.log("s-1").await;
    let seqs: Vec<_> = log.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=log.len() as u64).collect::<Vec<_>>());
    let queued = logged_ids(&log, "queued");
    assert_eq!(queued.len(), 3 * MESSAGES_PER_SENDER, "each message is queued once");
    // No message overtakes an unacknowledged one, so both are in the order of sending.
    assert_eq!(logged_ids(&log, "fetched"), queued, "each message is fetched once, in order");
    assert_eq!(logged_ids(&log, "delivered"), queued, "each message is acknowledged once, in order");
    let mut expected = queued.clone();
    expected.sort();
    pulled.sort();
    assert_eq!(pulled, expected, "the log matches what the workers pulled");
    assert_eq!(log.len(), 3 * queued.len() + posted, "every event is logged once");
    let sandbox = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok();
    assert_eq!(sandbox["queue_size"], 0);
}

fn logged_ids(log: &[Value], state: &str) -> Vec<String> {
    let of_state = log.iter().filter(|event| event["event_type"] == format!("message.{state}"));
    of_state.map(|event| event["event_data"]["message_id"].as_str().unwrap().to_owned()).collect()
}

/// A newly started process without authentication.
struct Process(Arc<Plane>);

impl Process {
    fn start(aws: &Aws) -> Self {
        let clock = Arc::new(SystemClock);
        let authenticator = Authenticator::new(&Keys { open: true, ..keys() }, clock.clone());
        let (store, bindings) = (aws.store.clone(), aws.bindings());
        Self(Arc::new(Plane::new(
            store,
            bindings,
            authenticator,
            clock,
            Arc::new(RandomIds),
            Settings::default(),
        )))
    }

    /// Retries on 503, which a request gets after too many conflicts and which stores nothing.
    async fn request(&self, method: Method, path: &str, body: Value) -> Value {
        loop {
            let request = Request::builder().method(&method).uri(path).body(body.to_string().into());
            let response = edge::http::dispatch(&self.0, request.unwrap()).await;
            if response.status() != StatusCode::SERVICE_UNAVAILABLE {
                assert_eq!(response.status(), StatusCode::OK, "{path}: {response:?}");
                return serde_json::from_slice(response.body()).unwrap();
            }
        }
    }

    /// Posts one event per response that a client receives, and returns how many it has posted when all clients are
    /// done. Without this limit it would win every race against clients that must read before they write.
    async fn post_after_every_response(self, mut responses: watch::Receiver<usize>) -> usize {
        let mut posted = 0;
        while responses.wait_for(|count| *count > posted).await.is_ok() {
            let event = json!({"event_type": "agent.message", "event_data": {"n": posted}});
            self.request(Method::POST, "/api/v1/sandboxes/s-1/events", event).await;
            posted += 1;
        }
        posted
    }
}

/// Sends or pulls messages through its own process.
struct Client {
    process: Process,
    /// Number of responses that all clients have received.
    responses: Arc<watch::Sender<usize>>,
}

impl Client {
    async fn request(&self, method: Method, path: &str, body: Value) -> Value {
        let response = self.process.request(method, path, body).await;
        self.responses.send_modify(|count| *count += 1);
        response
    }

    /// Alternates between its own messages and those that both senders send. Returns the responses to the latter.
    async fn send_all(self, name: &str) -> Vec<Value> {
        let mut responses = Vec::new();
        for n in 0..MESSAGES_PER_SENDER {
            let message = |id: String| json!({"content": "go on", "message_id": id});
            self.request(Method::POST, MESSAGES, message(format!("{name}-{n}"))).await;
            responses.push(self.request(Method::POST, MESSAGES, message(format!("both-{n}"))).await);
        }
        responses
    }

    /// Pulls with automatic acknowledgement: at most a third of all messages, to leave some for the other client.
    async fn pull_auto(self, all_sent: watch::Receiver<bool>) -> Vec<String> {
        let mut pulled = Vec::new();
        while pulled.len() < MESSAGES_PER_SENDER {
            let all_are_sent = *all_sent.borrow();
            let list = self.pull("ack=auto", all_are_sent).await;
            if list.is_empty() && all_are_sent {
                break;
            }
            pulled.extend(list);
        }
        pulled
    }

    /// Pulls and acknowledges until the queue is empty. It acknowledges before it pulls again, so its own messages hold
    /// none back.
    async fn pull_and_acknowledge(self, all_sent: watch::Receiver<bool>) -> Vec<String> {
        let mut pulled = Vec::new();
        loop {
            let all_are_sent = *all_sent.borrow();
            let list = self.pull("ack=manual&visibility=600", all_are_sent).await;
            if list.is_empty() && all_are_sent {
                return pulled;
            }
            self.acknowledge(&list).await;
            pulled.extend(list);
        }
    }

    /// One message per pull, to provoke many races.
    async fn pull(&self, ack: &str, all_are_sent: bool) -> Vec<String> {
        let path = format!("{MESSAGES}?{ack}&max=1&wait={}", u8::from(!all_are_sent));
        let page = self.request(Method::GET, &path, Value::Null).await;
        let messages = page.as_array().or(page["messages"].as_array()).unwrap();
        ids(messages).into_iter().map(str::to_owned).collect()
    }

    async fn acknowledge(&self, list: &[String]) {
        if list.is_empty() {
            return;
        }
        let receipts: Vec<Value> =
            list.iter().map(|id| json!({"message_id": id, "state": "delivered"})).collect();
        let body = json!({"receipts": receipts});
        let response = self.request(Method::POST, &format!("{MESSAGES}/ack"), body).await;
        let receipts = response["receipts"].as_array().unwrap();
        assert!(
            receipts.iter().all(|receipt| receipt["changed"] == true),
            "no other client has them: {response}"
        );
    }
}
