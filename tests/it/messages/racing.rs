//! On Lambda every request may be in a process of its own, which remembers nothing of the others.

use super::{MESSAGES, ids};
use crate::stage::keys;
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

/// So many messages of each sender's own, and as many that both send.
const EACH: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_race_for_messages_lose_and_double_nothing() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    let (steps, all_sent) = (Arc::new(watch::Sender::new(0)), watch::Sender::new(false));
    let process = || Process::start(&plane.running.aws);
    let racer = || Racer { process: process(), steps: steps.clone() };
    let senders = ["one", "other"].map(|name| tokio::spawn(racer().send_all(name)));
    let posters = [(); 2].map(|()| tokio::spawn(process().post_at_every_step(steps.subscribe())));
    let confirming = tokio::spawn(racer().take_and_confirm(all_sent.subscribe()));
    let plain = tokio::spawn(racer().take(all_sent.subscribe()));
    drop(steps);

    let [one, other] = senders;
    assert_eq!(one.await.unwrap(), other.await.unwrap(), "a repeat gets the first answer");
    all_sent.send_replace(true);
    let mut handed = plain.await.unwrap();
    handed.extend(confirming.await.unwrap());
    let mut posted = 0;
    for poster in posters {
        posted += poster.await.unwrap();
    }

    let log = plane.log("s-1").await;
    let seqs: Vec<_> = log.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=log.len() as u64).collect::<Vec<_>>());
    let queued = told(&log, "queued");
    assert_eq!(queued.len(), 3 * EACH, "each is sent once");
    // Nothing overtakes what is in somebody's hands, whoever asks. So both are in the order of sending.
    assert_eq!(told(&log, "fetched"), queued, "each is handed out once, in order");
    assert_eq!(told(&log, "delivered"), queued, "each is confirmed once, in order");
    let mut expected = queued.clone();
    expected.sort();
    handed.sort();
    assert_eq!(handed, expected, "what the log says is what the workers were handed");
    assert_eq!(log.len(), 3 * queued.len() + posted, "every event once");
    let sandbox = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok();
    assert_eq!(sandbox["queue_size"], 0);
}

fn told(log: &[Value], state: &str) -> Vec<String> {
    let of_state = log.iter().filter(|event| event["event_type"] == format!("message.{state}"));
    of_state.map(|event| event["event_data"]["message_id"].as_str().unwrap().to_owned()).collect()
}

/// A process that has just started. Anybody may ask it for anything.
struct Process(Arc<Plane>);

impl Process {
    fn start(aws: &Aws) -> Self {
        let clock = Arc::new(SystemClock);
        let authenticator = Authenticator::new(&Keys { open: true, ..keys() }, clock.clone());
        let (store, reach) = (aws.store.clone(), aws.bindings());
        Self(Arc::new(Plane::new(
            store,
            reach,
            authenticator,
            clock,
            Arc::new(RandomIds),
            Settings::default(),
        )))
    }

    /// Who lost too often in a row has stored nothing, and asks again.
    async fn ask(&self, method: Method, path: &str, body: Value) -> Value {
        loop {
            let request = Request::builder().method(&method).uri(path).body(body.to_string().into());
            let answer = edge::http::dispatch(&self.0, request.unwrap()).await;
            if answer.status() != StatusCode::SERVICE_UNAVAILABLE {
                assert_eq!(answer.status(), StatusCode::OK, "{path}: {answer:?}");
                return serde_json::from_slice(answer.body()).unwrap();
            }
        }
    }

    /// An event whenever somebody else has got a step further: without end, it would win every race against those
    /// who have to read before they write. How many it has stored when nobody takes steps any more.
    async fn post_at_every_step(self, mut steps: watch::Receiver<usize>) -> usize {
        let mut posted = 0;
        while steps.wait_for(|steps| *steps > posted).await.is_ok() {
            let event = json!({"event_type": "agent.message", "event_data": {"n": posted}});
            self.ask(Method::POST, "/api/v1/sandboxes/s-1/events", event).await;
            posted += 1;
        }
        posted
    }
}

/// Somebody in a process, who sends messages or takes them.
struct Racer {
    process: Process,
    /// How often anybody was answered.
    steps: Arc<watch::Sender<usize>>,
}

impl Racer {
    async fn ask(&self, method: Method, path: &str, body: Value) -> Value {
        let answer = self.process.ask(method, path, body).await;
        self.steps.send_modify(|steps| *steps += 1);
        answer
    }

    /// Messages of its own, and in between those that the other sends as well; what it was told of these.
    async fn send_all(self, name: &str) -> Vec<Value> {
        let mut answers = Vec::new();
        for n in 0..EACH {
            let message = |id: String| json!({"content": "go on", "message_id": id});
            self.ask(Method::POST, MESSAGES, message(format!("{name}-{n}"))).await;
            answers.push(self.ask(Method::POST, MESSAGES, message(format!("both-{n}"))).await);
        }
        answers
    }

    /// What it was handed: a third of all at most, so that the other has enough to confirm.
    async fn take(self, all_sent: watch::Receiver<bool>) -> Vec<String> {
        let mut handed = Vec::new();
        while handed.len() < EACH {
            let no_more_come = *all_sent.borrow();
            let list = self.pull("ack=auto", no_more_come).await;
            if list.is_empty() && no_more_come {
                break;
            }
            handed.extend(list);
        }
        handed
    }

    /// What it was handed until there was nothing more. It has nothing in its hands when it asks, so nothing is held
    /// back then.
    async fn take_and_confirm(self, all_sent: watch::Receiver<bool>) -> Vec<String> {
        let mut handed = Vec::new();
        loop {
            let no_more_come = *all_sent.borrow();
            let list = self.pull("ack=manual&visibility=600", no_more_come).await;
            if list.is_empty() && no_more_come {
                return handed;
            }
            self.confirm(&list).await;
            handed.extend(list);
        }
    }

    /// One at a time, so that there are many races.
    async fn pull(&self, how: &str, no_more_come: bool) -> Vec<String> {
        let path = format!("{MESSAGES}?{how}&max=1&wait={}", u8::from(!no_more_come));
        let page = self.ask(Method::GET, &path, Value::Null).await;
        let messages = page.as_array().or(page["messages"].as_array()).unwrap();
        ids(messages).into_iter().map(str::to_owned).collect()
    }

    async fn confirm(&self, list: &[String]) {
        if list.is_empty() {
            return;
        }
        let receipts: Vec<Value> =
            list.iter().map(|id| json!({"message_id": id, "state": "delivered"})).collect();
        let body = json!({"receipts": receipts});
        let answer = self.ask(Method::POST, &format!("{MESSAGES}/ack"), body).await;
        let receipts = answer["receipts"].as_array().unwrap();
        assert!(receipts.iter().all(|receipt| receipt["changed"] == true), "nobody else has them: {answer}");
    }
}
