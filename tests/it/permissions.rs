//! What each function may do on AWS is what it really does, no more and no less.
//!
//! Every function does here all that it ever does, on an AWS that counts calls. What comes out is compared with the
//! registry, from which `template.yaml` is generated: so nothing is missing in a policy, and nothing is too much.

mod tasks;
mod tickets;
pub mod work;

use crate::payloads::{connect, disconnect, fixture, frame, job, request, request_with, together};
use crate::stage::{Stage, body_of, function, invoke, viewer};
use crate::support::{OPERATOR, batch};
use app::broadcast::OPENING_SECS;
use domain::access::Scope;
use edge::Plane;
use edge::registry::{FUNCTIONS, Permission, Queue, Trigger};
use local::aws::Call;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const EVENTS: &str = "/api/v1/sandboxes/s-1/events";

#[tokio::test]
async fn a_function_may_do_what_it_does_and_nothing_else() {
    let mut watch = Watch { stage: Stage::open().await, done: BTreeMap::new() };
    let worker = sandboxes(&mut watch).await;
    writing(&mut watch, &worker).await;
    reading(&mut watch, &worker).await;
    sockets(&mut watch, &worker).await;
    telling(&mut watch, &worker).await;
    steering(&mut watch).await;
    remembering(&mut watch, &worker).await;
    expiring(&mut watch).await;
    tickets::tickets(&mut watch).await;
    work::work(&mut watch).await;
    tasks::tasks(&mut watch).await;
    watch.run(&watch.stage.process(), "platform-check", &fixture("schedule-tick")).await;
    let wrong = watch.differences();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The keys of tokens are read once, when a process starts, and so no call shows who needs them.
#[test]
fn whoever_asks_who_is_asking_has_the_keys_and_nobody_else() {
    for function in FUNCTIONS {
        let asks = match &function.trigger {
            Trigger::Http(route) => route.scope != Scope::Public,
            Trigger::SocketConnect | Trigger::SocketFrame => true,
            // It gives the workers of new sandboxes their tokens.
            Trigger::Jobs(Queue::Work) => true,
            Trigger::SocketDisconnect
            | Trigger::TableStream(_)
            | Trigger::Jobs(Queue::Sockets)
            | Trigger::Schedule(_) => false,
        };
        let name = function.name;
        assert_eq!(function.may(Permission::Keys), asks, "{name}: the keys of tokens in its row are wrong");
    }
}

/// The secrets of providers are read when a process starts, too.
#[test]
fn only_functions_that_call_a_provider_have_its_secrets() {
    let with_secrets: Vec<&str> = FUNCTIONS
        .iter()
        .filter(|function| function.may(Permission::Providers))
        .map(|function| function.name)
        .collect();
    assert_eq!(with_secrets, ["sandboxes-logs", "sandboxes-dispatch", "sandboxes-compare"]);
}

/// What a policy must allow for a permission.
fn action(permission: Permission) -> Option<&'static str> {
    match permission {
        Permission::Keys => None,
        Permission::GetItem => Some("dynamodb:GetItem"),
        Permission::BatchGetItem => Some("dynamodb:BatchGetItem"),
        Permission::Query => Some("dynamodb:Query"),
        Permission::QueryIndexes => Some("dynamodb:Query on an index"),
        Permission::PutItem => Some("dynamodb:PutItem"),
        Permission::UpdateItem => Some("dynamodb:UpdateItem"),
        Permission::DeleteItem => Some("dynamodb:DeleteItem"),
        Permission::Sockets => Some("execute-api:ManageConnections"),
        Permission::RingMailboxes => Some("sqs:SendMessage on a mailbox"),
        Permission::WaitAtMailboxes => Some("sqs:ReceiveMessage on a mailbox"),
        Permission::MakeMailboxes => Some("sqs:CreateQueue on a mailbox"),
        Permission::RemoveMailboxes => Some("sqs:DeleteQueue on a mailbox"),
        Permission::Jobs => Some("sqs:SendMessage"),
        Permission::Bus => Some("events:PutEvents"),
        Permission::Work => Some("sqs:SendMessage on the queue of work"),
        // Secrets, read when a process starts.
        Permission::Providers => None,
        Permission::Thresholds => None,
    }
}

fn actions(call: Call) -> impl Iterator<Item = String> {
    let on = match call.resource.as_str() {
        index if index.contains("/index/") => " on an index",
        mailbox if mailbox.contains("-mail-") => " on a mailbox",
        work if work.ends_with("work") => " on the queue of work",
        _ => "",
    };
    call.actions.into_iter().map(move |action| format!("{action}{on}"))
}

/// Sees what functions do on AWS.
struct Watch {
    stage: Stage,
    done: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Watch {
    async fn run(&mut self, process: &Arc<Plane>, name: &str, payload: &str) -> Value {
        self.stage.aws.meter.start();
        let answer = invoke(process, name, payload).await.unwrap_or_else(|why| panic!("{name}: {why}"));
        self.stage.aws.meter.stop();
        let calls = self.stage.aws.meter.take();
        self.done.entry(function(name).name).or_default().extend(calls.into_iter().flat_map(actions));
        answer
    }

    /// A request that must be answered like this.
    async fn request(&mut self, process: &Arc<Plane>, name: &str, payload: &str, status: u16) -> Value {
        let answer = self.run(process, name, payload).await;
        assert_eq!(answer["statusCode"], status, "{name}: {answer}");
        answer
    }

    fn differences(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for function in FUNCTIONS {
            let name = function.name;
            let Some(done) = self.done.get(name) else {
                wrong.push(format!("{name} does nothing in this test: add what it does"));
                continue;
            };
            let named: BTreeSet<String> = function
                .permissions
                .iter()
                .filter_map(|permission| action(*permission))
                .map(String::from)
                .collect();
            for action in done.difference(&named) {
                wrong.push(format!("{name} needs {action}, which its row in the registry does not name"));
            }
            for action in named.difference(done) {
                wrong.push(format!(
                    "{name} does nothing here that needs {action}: take it out of its row in the registry, or add \
                     here what needs it"
                ));
            }
        }
        wrong
    }
}

/// The token of the worker of s-1.
async fn sandboxes(watch: &mut Watch) -> String {
    let process = watch.stage.process();
    let register = |id: &str| {
        let body = json!({"sandbox_id": id, "org": "acme"});
        request("POST", "/api/v1/sandboxes", OPERATOR, Some(&body))
    };
    watch.request(&process, "sandboxes-health", &get("/api/v1/sandboxes/health"), 200).await;
    for id in ["s-1", "s-2"] {
        watch.request(&process, "sandboxes-register", &register(id), 201).await;
    }
    watch.request(&process, "sandboxes-register", &register("s-1"), 409).await;
    watch.request(&process, "sandboxes-get", &get("/api/v1/sandboxes/s-1"), 200).await;
    watch.request(&process, "sandboxes-get", &get("/api/v1/sandboxes/nobody"), 404).await;
    watch.request(&process, "sandboxes-list", &get("/api/v1/sandboxes?limit=1"), 200).await;
    let page = request("GET", "/api/v1/sandboxes?limit=1", OPERATOR, None);
    let page = body_of(&watch.request(&process, "sandboxes-list", &page, 200).await);
    let cursor = page["next_cursor"].as_str().unwrap().replace('#', "%23");
    let next = request("GET", &format!("/api/v1/sandboxes?cursor={cursor}"), OPERATOR, None);
    watch.request(&process, "sandboxes-list", &next, 200).await;
    let rotate = |id: &str| request("POST", &format!("/api/v1/sandboxes/{id}/token"), OPERATOR, None);
    watch.request(&process, "sandboxes-rotate-token", &rotate("nobody"), 404).await;
    let rotated = watch.request(&process, "sandboxes-rotate-token", &rotate("s-1"), 200).await;
    body_of(&rotated)["worker_token"].as_str().unwrap().to_owned()
}

fn get(path: &str) -> String {
    request("GET", path, &viewer(), None)
}

async fn writing(watch: &mut Watch, worker: &str) {
    let (process, other) = (watch.stage.process(), watch.stage.process());
    let post = |body: &Value| request("POST", EVENTS, worker, Some(body));
    // The first of a process, another one of it, one after another process, and repeats.
    watch.request(&process, "events-ingest", &post(&batch(1, 1, 0, 3)), 200).await;
    watch.request(&process, "events-ingest", &post(&batch(1, 2, 3, 3)), 200).await;
    watch.request(&other, "events-ingest", &post(&batch(1, 3, 6, 3)), 200).await;
    watch.request(&process, "events-ingest", &post(&batch(1, 4, 9, 3)), 200).await;
    watch.request(&process, "events-ingest", &post(&batch(1, 4, 9, 3)), 200).await;
    watch.request(&process, "events-ingest", &post(&batch(1, 9, 9, 3)), 409).await;
    let said = |text: &str| json!({"event_type": "agent.message", "event_data": {"text": text}});
    for (text, status) in [("once", 200), ("once", 200), ("twice", 422)] {
        let key = [("idempotency-key", "k-1")];
        let post = request_with("POST", EVENTS, worker, Some(&said(text)), &key);
        watch.request(&process, "events-ingest", &post, status).await;
    }
    let beat = json!({"event_type": "agent.heartbeat", "event_data": {"status": "idle"}});
    watch.request(&process, "events-ingest", &post(&beat), 200).await;
    // Too large for a segment: it stands apart, as event 14.
    watch.request(&process, "events-ingest", &post(&said(&"x".repeat(300 * 1024))), 200).await;
    let unknown = request("POST", "/api/v1/sandboxes/nobody/events", OPERATOR, Some(&said("hello")));
    watch.request(&process, "events-ingest", &unknown, 404).await;
}

async fn reading(watch: &mut Watch, worker: &str) {
    let process = watch.stage.process();
    for query in ["", "?after_seq=1&limit=2", "?before_seq=5", "?event_type=agent.error"] {
        watch.request(&process, "events-list", &get(&format!("{EVENTS}{query}")), 200).await;
    }
    watch.request(&process, "events-list", &request("GET", EVENTS, worker, None), 200).await;
    for (seq, status) in [(1, 200), (14, 200), (99, 404)] {
        watch.request(&process, "events-body", &get(&format!("{EVENTS}/{seq}/body")), status).await;
    }
    for query in ["", "?cursor=3&direction=newer", "?cursor=3&direction=older"] {
        let path = format!("/api/v1/sandboxes/s-1/trajectory{query}");
        watch.request(&process, "events-trajectory", &get(&path), 200).await;
    }
}

async fn sockets(watch: &mut Watch, worker: &str) {
    let process = watch.stage.process();
    let user = viewer();
    for (id, query, status) in [
        ("nobody-yet", vec![], 200),
        ("worker-later", vec![], 200),
        ("user", vec![("token", user.as_str()), ("event_types", "agent.message,agent.error")], 200),
        ("worker", vec![("token", worker)], 200),
        ("operator", vec![("token", OPERATOR)], 200),
        ("one-sandbox", vec![("token", user.as_str()), ("sandbox_id", "s-1")], 200),
        ("unknown-sandbox", vec![("token", user.as_str()), ("sandbox_id", "nobody")], 404),
        ("wrong", vec![("token", "not-a-token")], 401),
        // The name is taken.
        ("user", vec![("token", user.as_str())], 503),
    ] {
        watch.request(&process, "realtime-connect", &connect(id, &query), status).await;
    }
    for (id, said) in [
        ("nobody-yet", json!({"type": "subscribe"})),
        ("nobody-yet", json!({"type": "auth", "token": user})),
        ("worker-later", json!({"type": "auth", "token": worker})),
        // It leaves topics, and comes to others.
        ("user", json!({"type": "subscribe", "event_types": ["agent.diff"]})),
        ("user", json!({"type": "ping"})),
        ("user", json!({"type": "shout"})),
        ("gone", json!({"type": "subscribe"})),
        ("operator", json!({"type": "auth", "token": "not-a-token"})),
    ] {
        watch.request(&process, "realtime-frame", &frame(id, &said), 200).await;
    }
    for id in ["nobody-yet", "worker-later", "user", "worker", "operator", "one-sandbox", "gone"] {
        watch.request(&process, "realtime-disconnect", &disconnect(id), 200).await;
    }
}

async fn telling(watch: &mut Watch, worker: &str) {
    let process = watch.stage.process();
    let _inbox = watch.stage.socket("there");
    let user = viewer();
    for (id, token) in [("there", user.as_str()), ("not-there", user.as_str()), ("worker", worker)] {
        watch.request(&process, "realtime-connect", &connect(id, &[("token", token)]), 200).await;
    }
    let _worker = watch.stage.socket("worker");
    let nothing_failed = json!({"batchItemFailures": []});
    // One may be opening; then it is gone, and forgotten.
    for _ in 0..2 {
        let told = watch.run(&process, "events-broadcast", &fixture("stream-segment")).await;
        assert_eq!(told, nothing_failed);
        watch.stage.clock.advance_secs(OPENING_SECS);
    }
    // A worker's token is replaced, and the next event is told by the new one.
    let rotate = request("POST", "/api/v1/sandboxes/s-1/token", OPERATOR, None);
    watch.request(&process, "sandboxes-rotate-token", &rotate, 200).await;
    let said = json!({"event_type": "agent.message", "event_data": {"text": "x".repeat(2000)}});
    watch.request(&process, "events-ingest", &request("POST", EVENTS, OPERATOR, Some(&said)), 200).await;
    let news = watch.stage.news();
    assert_eq!(watch.run(&process, "events-broadcast", &news).await, nothing_failed);
    assert_eq!(watch.stage.aws.hub.len(), 1, "the worker's socket is closed");
    let records = together(&["stream-segment", "stream-lifecycle"]);
    assert_eq!(watch.run(&process, "events-publish", &records).await, nothing_failed);
}

async fn steering(watch: &mut Watch) {
    let (process, messages) = (watch.stage.process(), "/api/v1/sandboxes/s-3/messages");
    let register = json!({"sandbox_id": "s-3", "org": "acme"});
    let register = request("POST", "/api/v1/sandboxes", OPERATOR, Some(&register));
    let registered = body_of(&watch.request(&process, "sandboxes-register", &register, 201).await);
    let worker = registered["worker_token"].as_str().unwrap();
    let send = |id: &str| {
        let body = json!({"content": "go on", "message_id": id});
        request("POST", messages, OPERATOR, Some(&body))
    };
    let take = |query: &str| request("GET", &format!("{messages}?{query}"), worker, None);
    let ack = |id: &str| {
        let body = json!({"receipts": [{"message_id": id, "state": "delivered"}]});
        request("POST", &format!("{messages}/ack"), worker, Some(&body))
    };
    // Nothing there, nobody rings: this makes the mailbox.
    watch.request(&process, "messages-pull", &take("wait=1"), 200).await;
    for id in ["m-1", "m-2", "m-1"] {
        watch.request(&process, "messages-send", &send(id), 200).await;
    }
    watch.request(&process, "messages-pull", &take("wait=0&ack=manual&max=1"), 200).await;
    watch.request(&process, "messages-ack", &ack("m-1"), 200).await;
    watch.request(&process, "messages-ack", &ack("m-1"), 200).await;
    watch.request(&process, "messages-pull", &take("wait=0"), 200).await;
    for id in ["m-3", "m-5"] {
        watch.request(&process, "messages-send", &send(id), 200).await;
    }
    for (id, status) in [("m-5", 200), ("m-5", 200), ("m-2", 409), ("m-9", 404)] {
        let cancel = request("POST", &format!("{messages}/{id}/cancel"), OPERATOR, None);
        watch.request(&process, "messages-cancel", &cancel, status).await;
    }
    let history = format!("{messages}/history?limit=2");
    watch.request(&process, "messages-history", &request("GET", &history, &viewer(), None), 200).await;
    for _ in 0..2 {
        let end = request("DELETE", "/api/v1/sandboxes/s-3", OPERATOR, None);
        watch.request(&process, "sandboxes-terminate", &end, 200).await;
    }
    watch.request(&process, "messages-send", &send("m-4"), 409).await;
    watch.request(&process, "messages-send", &send("m-3"), 200).await;
}

async fn remembering(watch: &mut Watch, replaced: &str) {
    let (process, path) = (watch.stage.process(), "/api/v1/sandboxes/s-1/sessions/c0ffee/entries");
    let rotate = request("POST", "/api/v1/sandboxes/s-1/token", OPERATOR, None);
    let rotated = watch.request(&process, "sandboxes-rotate-token", &rotate, 200).await;
    let worker = body_of(&rotated)["worker_token"].as_str().unwrap().to_owned();
    let add = |token: &str, first: u64, texts: &[&str]| {
        let entries: Vec<Value> = texts.iter().map(|text| json!({"text": text})).collect();
        request("POST", path, token, Some(&json!({"first": first, "entries": entries})))
    };
    // The first of a session, more of it, a repeat in another cut, another text, a gap.
    for (first, texts, status) in [
        (1, vec!["a", "b"], 200),
        (3, vec!["c"], 200),
        (2, vec!["b", "c", "d"], 200),
        (2, vec!["x"], 409),
        (9, vec!["x"], 409),
    ] {
        watch.request(&process, "sessions-append", &add(&worker, first, &texts), status).await;
    }
    watch.request(&process, "sessions-append", &add(replaced, 5, &["e"]), 401).await;
    for (query, status) in [("", 200), ("?after=1&limit=1", 200), ("?limit=0", 422)] {
        watch.request(&process, "sessions-read", &get(&format!("{path}{query}")), status).await;
    }
    let unknown = get("/api/v1/sandboxes/s-1/sessions/nobody/entries");
    watch.request(&process, "sessions-read", &unknown, 404).await;
    for (session, status) in [("c0ffee", 201), ("nobody", 422)] {
        let body = json!({"org": "acme", "resumes": session});
        let register = request("POST", "/api/v1/sandboxes", OPERATOR, Some(&body));
        watch.request(&process, "sandboxes-register", &register, status).await;
    }
}

async fn expiring(watch: &mut Watch) {
    let process = watch.stage.process();
    watch.request(&process, "realtime-connect", &connect("silent", &[]), 200).await;
    watch.request(&process, "realtime-connect", &connect("known", &[("token", &viewer())]), 200).await;
    for id in ["silent", "known", "gone"] {
        let expire = json!({"job": "expire_socket", "connection_id": id}).to_string();
        let answer = watch.run(&process, "realtime-expire", &job(&expire)).await;
        assert_eq!(answer, json!({"batchItemFailures": []}), "{id}");
    }
}
