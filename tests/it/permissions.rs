//! Each function has exactly the AWS permissions that it uses.
//!
//! The scenarios here exercise every function completely, on an AWS that records calls. The recorded actions are compared
//! with the registry, from which `template.yaml` is generated: no policy lacks a permission or grants an unused one.

mod branches;
pub mod provisioning;
mod tasks;
mod tickets;

use crate::harness::{Harness, body_of, function, invoke, viewer};
use crate::large_events::noise;
use crate::payloads::{combined, connect, disconnect, fixture, frame, job, request, request_with};
use crate::support::{OPERATOR, batch};
use app::events::broadcast::HANDSHAKE_GRACE_SECS;
use domain::SandboxId;
use domain::mailbox::MAX_DELIVERIES;
use domain::quota::Amount;
use edge::Plane;
use edge::registry::{FUNCTIONS, Permission, Trigger};
use local::aws::Call;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const EVENTS: &str = "/api/v1/sandboxes/s-1/events";

#[tokio::test]
async fn each_function_has_exactly_the_permissions_it_uses() {
    let mut recorder = CallRecorder { harness: Harness::open().await, actions: BTreeMap::new() };
    // On the heap: in a debug build these futures are too large for the stack of a test thread.
    let worker = Box::pin(sandboxes(&mut recorder)).await;
    Box::pin(ingest(&mut recorder, &worker)).await;
    Box::pin(reads(&mut recorder, &worker)).await;
    Box::pin(sockets(&mut recorder, &worker)).await;
    Box::pin(broadcast(&mut recorder, &worker)).await;
    Box::pin(messages(&mut recorder)).await;
    Box::pin(sessions(&mut recorder, &worker)).await;
    Box::pin(socket_expiry(&mut recorder)).await;
    Box::pin(tickets::tickets(&mut recorder)).await;
    Box::pin(provisioning::provisioning(&mut recorder)).await;
    Box::pin(tasks::tasks(&mut recorder)).await;
    Box::pin(branches::branches(&mut recorder)).await;
    Box::pin(quotas(&mut recorder)).await;
    recorder.run(&recorder.harness.process(), "platform-check", &fixture("schedule-tick")).await;
    let differences = recorder.differences();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Token keys are read once at process start, so no recorded call shows which function needs them.
#[test]
fn only_functions_that_authenticate_can_read_the_token_keys() {
    for function in FUNCTIONS {
        let authenticates = match &function.trigger {
            Trigger::Http(route) => route.scope.needs_token(),
            Trigger::SocketConnect | Trigger::SocketFrame => true,
            Trigger::SocketDisconnect | Trigger::TableStream(_) | Trigger::Jobs(_) | Trigger::Schedule(_) => {
                false
            }
        };
        let name = function.name;
        assert_eq!(
            function.may(Permission::Keys),
            authenticates,
            "{name}: fix Permission::Keys in its registry row"
        );
    }
}

/// All others verify worker tokens with the public key, which is not a secret.
#[test]
fn only_functions_that_issue_tokens_can_read_the_private_key() {
    let issuing = FUNCTIONS.iter().filter(|function| function.may(Permission::IssueTokens));
    let issuing: Vec<&str> = issuing.map(|function| function.name).collect();
    assert_eq!(issuing, ["sandboxes-register", "sandboxes-rotate-token", "sandboxes-dispatch"]);
    let template = include_str!("../../template.yaml");
    let policies = template.matches("secret:${WorkerKeyName}-??????").count();
    assert_eq!((policies, template.matches("!Ref WorkerKeyName").count()), (issuing.len(), issuing.len()));
}

/// Provider secrets are read at process start too.
#[test]
fn only_functions_that_call_a_provider_have_its_secrets() {
    let with_secrets: Vec<&str> = FUNCTIONS
        .iter()
        .filter(|function| function.may(Permission::Providers))
        .map(|function| function.name)
        .collect();
    let expected = [
        "sandboxes-logs",
        "sandboxes-preview",
        "sandboxes-git-access",
        "sandboxes-dispatch",
        "sandboxes-sweep-providers",
        "tasks-diff",
        "tasks-pull-request",
        "tasks-open-pull-request",
        "tasks-merge",
        "webhooks-github",
        "branch-workflow-start",
        "branch-workflow-finish",
        "branch-workflow-merge",
        "branch-workflow-status",
        "repositories-list",
        "repositories-branches",
    ];
    assert_eq!(with_secrets, expected);
}

/// The actions that a policy allows for a permission.
fn allowed_actions(permission: Permission) -> &'static [&'static str] {
    match permission {
        // Secrets, read at process start.
        Permission::Keys | Permission::IssueTokens => &[],
        Permission::GetItem => &["dynamodb:GetItem"],
        Permission::BatchGetItem => &["dynamodb:BatchGetItem"],
        Permission::Query => &["dynamodb:Query"],
        Permission::QueryIndexes => &["dynamodb:Query on an index"],
        Permission::PutItem => &["dynamodb:PutItem"],
        Permission::UpdateItem => &["dynamodb:UpdateItem"],
        Permission::DeleteItem => &["dynamodb:DeleteItem"],
        Permission::Sockets => &["execute-api:ManageConnections"],
        Permission::SendToMailboxes => &["sqs:SendMessage on a mailbox"],
        Permission::ReceiveFromMailboxes => {
            &["sqs:ReceiveMessage on a mailbox", "sqs:ChangeMessageVisibility on a mailbox"]
        }
        Permission::DeleteFromMailboxes => &["sqs:DeleteMessage on a mailbox"],
        Permission::CreateMailboxes => &["sqs:CreateQueue on a mailbox", "sqs:TagQueue on a mailbox"],
        Permission::DeleteMailboxes => &["sqs:DeleteQueue on a mailbox"],
        Permission::ListMailboxes => &["sqs:ListQueues", "sqs:ListQueueTags on a mailbox"],
        Permission::SocketJobs => &["sqs:SendMessage on socket jobs"],
        Permission::Bus => &["events:PutEvents"],
        Permission::OrchestrationJobs => &["sqs:SendMessage on orchestration jobs"],
        // Secrets, read at process start.
        Permission::Providers => &[],
        Permission::Thresholds => &[],
    }
}

fn actions(call: Call) -> impl Iterator<Item = String> {
    let on = match call.resource.as_str() {
        index if index.contains("/index/") => " on an index",
        mailbox if mailbox.contains("-mail-") => " on a mailbox",
        queue if queue.ends_with("socket-jobs") => " on socket jobs",
        queue if queue.ends_with("orchestration-jobs") => " on orchestration jobs",
        _ => "",
    };
    call.actions.into_iter().map(move |action| format!("{action}{on}"))
}

/// Records the AWS actions of each function.
struct CallRecorder {
    harness: Harness,
    actions: BTreeMap<&'static str, BTreeSet<String>>,
}

impl CallRecorder {
    async fn run(&mut self, process: &Arc<Plane>, name: &str, payload: &str) -> Value {
        self.harness.aws.meter.start();
        let answer = invoke(process, name, payload).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        self.harness.aws.meter.stop();
        let calls = self.harness.aws.meter.take();
        self.actions.entry(function(name).name).or_default().extend(calls.into_iter().flat_map(actions));
        answer
    }

    /// Sends a request and asserts the status of the response.
    async fn request(&mut self, process: &Arc<Plane>, name: &str, payload: &str, status: u16) -> Value {
        let answer = self.run(process, name, payload).await;
        assert_eq!(answer["statusCode"], status, "{name}: {answer}");
        answer
    }

    fn differences(&self) -> Vec<String> {
        let mut differences = Vec::new();
        for function in FUNCTIONS {
            let name = function.name;
            let Some(used) = self.actions.get(name) else {
                differences.push(format!("{name} is not invoked in this test: add a scenario"));
                continue;
            };
            let granted: BTreeSet<String> = function
                .permissions
                .iter()
                .flat_map(|permission| allowed_actions(*permission))
                .map(|action| (*action).to_owned())
                .collect();
            for action in used.difference(&granted) {
                differences.push(format!("{name} uses {action}, which its registry row does not grant"));
            }
            for action in granted.difference(used) {
                differences.push(format!(
                    "{name} never uses {action} here: remove it from its registry row, or add a scenario that \
                     uses it"
                ));
            }
        }
        differences
    }
}

/// Returns the worker token of s-1.
async fn sandboxes(recorder: &mut CallRecorder) -> String {
    let process = recorder.harness.process();
    let register = |id: &str| {
        let body = json!({"sandbox_id": id, "org": "acme"});
        request("POST", "/api/v1/sandboxes", OPERATOR, Some(&body))
    };
    recorder.request(&process, "sandboxes-health", &get("/api/v1/sandboxes/health"), 200).await;
    recorder.request(&process, "api-openapi", &get("/api/v1/openapi.json"), 200).await;
    recorder.request(&process, "api-reference", &get("/api/v1/reference"), 200).await;
    for id in ["s-1", "s-2"] {
        recorder.request(&process, "sandboxes-register", &register(id), 201).await;
    }
    recorder.request(&process, "sandboxes-register", &register("s-1"), 409).await;
    recorder.request(&process, "sandboxes-get", &get("/api/v1/sandboxes/s-1"), 200).await;
    recorder.request(&process, "sandboxes-get", &get("/api/v1/sandboxes/missing"), 404).await;
    recorder.request(&process, "sandboxes-list", &get("/api/v1/sandboxes?limit=1"), 200).await;
    let page = request("GET", "/api/v1/sandboxes?limit=1", OPERATOR, None);
    let page = body_of(&recorder.request(&process, "sandboxes-list", &page, 200).await);
    let cursor = page["next_cursor"].as_str().unwrap().replace('#', "%23");
    let next = request("GET", &format!("/api/v1/sandboxes?cursor={cursor}"), OPERATOR, None);
    recorder.request(&process, "sandboxes-list", &next, 200).await;
    let rotate = |id: &str| request("POST", &format!("/api/v1/sandboxes/{id}/token"), OPERATOR, None);
    recorder.request(&process, "sandboxes-rotate-token", &rotate("missing"), 404).await;
    let rotated = recorder.request(&process, "sandboxes-rotate-token", &rotate("s-1"), 200).await;
    body_of(&rotated)["worker_token"].as_str().unwrap().to_owned()
}

fn get(path: &str) -> String {
    request("GET", path, &viewer(), None)
}

async fn ingest(recorder: &mut CallRecorder, worker: &str) {
    let (process, other) = (recorder.harness.process(), recorder.harness.process());
    let post = |body: &Value| request("POST", EVENTS, worker, Some(body));
    // The first batch of a process, the next one, one after another process, and retries.
    recorder.request(&process, "events-ingest", &post(&batch(1, 1, 0, 3)), 200).await;
    recorder.request(&process, "events-ingest", &post(&batch(1, 2, 3, 3)), 200).await;
    recorder.request(&other, "events-ingest", &post(&batch(1, 3, 6, 3)), 200).await;
    recorder.request(&process, "events-ingest", &post(&batch(1, 4, 9, 3)), 200).await;
    recorder.request(&process, "events-ingest", &post(&batch(1, 4, 9, 3)), 200).await;
    recorder.request(&process, "events-ingest", &post(&batch(1, 9, 9, 3)), 409).await;
    let message = |text: &str| json!({"event_type": "agent.message", "event_data": {"text": text}});
    for (text, status) in [("once", 200), ("once", 200), ("twice", 422)] {
        let key = [("idempotency-key", "k-1")];
        let post = request_with("POST", EVENTS, worker, Some(&message(text)), &key);
        recorder.request(&process, "events-ingest", &post, status).await;
    }
    let heartbeat = json!({"event_type": "agent.heartbeat", "event_data": {"status": "idle"}});
    recorder.request(&process, "events-ingest", &post(&heartbeat), 200).await;
    // Too large for a segment: event 14 gets its own item.
    recorder.request(&process, "events-ingest", &post(&message(&"x".repeat(300 * 1024))), 200).await;
    // Too large for a transaction: event 15 has its pieces written before it.
    recorder.request(&process, "events-ingest", &post(&message(&noise(1, 5_000_000))), 200).await;
    let unknown = request("POST", "/api/v1/sandboxes/missing/events", OPERATOR, Some(&message("hello")));
    recorder.request(&process, "events-ingest", &unknown, 404).await;
}

async fn reads(recorder: &mut CallRecorder, worker: &str) {
    let process = recorder.harness.process();
    for query in ["", "?after_seq=1&limit=2", "?before_seq=5", "?event_type=agent.error"] {
        recorder.request(&process, "events-list", &get(&format!("{EVENTS}{query}")), 200).await;
    }
    recorder.request(&process, "events-list", &request("GET", EVENTS, worker, None), 200).await;
    for (seq, status) in [(1, 200), (14, 200), (15, 200), (99, 404)] {
        recorder.request(&process, "events-body", &get(&format!("{EVENTS}/{seq}/body")), status).await;
    }
    for (query, status) in [("", 200), ("?to_seq=9", 200), ("?after_seq=999", 422)] {
        let path = format!("/api/v1/sandboxes/s-1/verification{query}");
        recorder.request(&process, "sandboxes-verify", &get(&path), status).await;
    }
    for query in ["", "?cursor=3&direction=newer", "?cursor=3&direction=older"] {
        let path = format!("/api/v1/sandboxes/s-1/trajectory{query}");
        recorder.request(&process, "events-trajectory", &get(&path), 200).await;
    }
}

async fn sockets(recorder: &mut CallRecorder, worker: &str) {
    let process = recorder.harness.process();
    let user = viewer();
    for (id, query, status) in [
        ("unauthenticated", vec![], 200),
        ("worker-later", vec![], 200),
        ("user", vec![("token", user.as_str()), ("event_types", "agent.message,agent.error")], 200),
        ("worker", vec![("token", worker)], 200),
        ("operator", vec![("token", OPERATOR)], 200),
        ("one-sandbox", vec![("token", user.as_str()), ("sandbox_id", "s-1")], 200),
        ("unknown-sandbox", vec![("token", user.as_str()), ("sandbox_id", "missing")], 404),
        ("wrong", vec![("token", "not-a-token")], 401),
        // The connection id is taken.
        ("user", vec![("token", user.as_str())], 503),
    ] {
        recorder.request(&process, "sockets-connect", &connect(id, &query), status).await;
    }
    for (id, message) in [
        ("unauthenticated", json!({"type": "subscribe"})),
        ("unauthenticated", json!({"type": "auth", "token": user})),
        ("worker-later", json!({"type": "auth", "token": worker})),
        // Leaves topics and joins others.
        ("user", json!({"type": "subscribe", "event_types": ["agent.diff"]})),
        ("user", json!({"type": "ping"})),
        ("user", json!({"type": "unknown"})),
        ("closed", json!({"type": "subscribe"})),
        ("operator", json!({"type": "auth", "token": "not-a-token"})),
    ] {
        recorder.request(&process, "sockets-frame", &frame(id, &message), 200).await;
    }
    for id in ["unauthenticated", "worker-later", "user", "worker", "operator", "one-sandbox", "closed"] {
        recorder.request(&process, "sockets-disconnect", &disconnect(id), 200).await;
    }
}

async fn broadcast(recorder: &mut CallRecorder, worker: &str) {
    let process = recorder.harness.process();
    let _inbox = recorder.harness.socket("there");
    let user = viewer();
    for (id, token) in [("there", user.as_str()), ("not-there", user.as_str()), ("worker", worker)] {
        recorder.request(&process, "sockets-connect", &connect(id, &[("token", token)]), 200).await;
    }
    let _worker = recorder.harness.socket("worker");
    let nothing_failed = json!({"batchItemFailures": []});
    // A missing connection may still be in its handshake; after the grace period it is deleted.
    for _ in 0..2 {
        let answer = recorder.run(&process, "events-broadcast", &fixture("stream-segment")).await;
        assert_eq!(answer, nothing_failed);
        recorder.harness.clock.advance_secs(HANDSHAKE_GRACE_SECS);
    }
    // After a token rotation, the next broadcast closes the worker's socket.
    let rotate = request("POST", "/api/v1/sandboxes/s-1/token", OPERATOR, None);
    recorder.request(&process, "sandboxes-rotate-token", &rotate, 200).await;
    let event = json!({"event_type": "agent.message", "event_data": {"text": "x".repeat(2000)}});
    recorder.request(&process, "events-ingest", &request("POST", EVENTS, OPERATOR, Some(&event)), 200).await;
    let records = recorder.harness.stream_payload();
    assert_eq!(recorder.run(&process, "events-broadcast", &records).await, nothing_failed);
    assert_eq!(recorder.harness.aws.hub.len(), 1, "the worker's socket is closed");
    let records = combined(&["stream-segment", "stream-lifecycle"]);
    assert_eq!(recorder.run(&process, "events-publish", &records).await, nothing_failed);
}

async fn messages(recorder: &mut CallRecorder) {
    let (process, messages) = (recorder.harness.process(), "/api/v1/sandboxes/s-3/messages");
    let register = json!({"sandbox_id": "s-3", "org": "acme"});
    let register = request("POST", "/api/v1/sandboxes", OPERATOR, Some(&register));
    let registered = body_of(&recorder.request(&process, "sandboxes-register", &register, 201).await);
    let worker = registered["worker_token"].as_str().unwrap();
    let send = |id: &str| {
        let body = json!({"content": "go on", "message_id": id});
        request("POST", messages, OPERATOR, Some(&body))
    };
    let pull = |query: &str| request("GET", &format!("{messages}?{query}"), worker, None);
    let ack = |id: &str| {
        let body = json!({"receipts": [{"message_id": id, "state": "delivered"}]});
        request("POST", &format!("{messages}/ack"), worker, Some(&body))
    };
    // Its queues are deleted, so a waiting pull and then a message try to create them.
    let (id, mailboxes) = (SandboxId::parse("s-3").unwrap(), recorder.harness.aws.mailboxes.clone());
    mailboxes.remove(&id).await.unwrap();
    recorder.request(&process, "messages-pull", &pull("wait=1"), 200).await;
    recorder.request(&process, "messages-send", &send("m-0"), 200).await;
    // SQS blocks the names for a minute.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    mailboxes.create(&id).await.unwrap();
    let enqueue = json!({"job": "enqueue_message", "sandbox_id": "s-3", "message_id": "m-0"});
    recorder.run(&process, "sandboxes-dispatch", &job(&enqueue.to_string())).await;
    recorder.request(&process, "messages-pull", &pull("wait=0"), 200).await;
    for id in ["m-1", "m-2", "m-1"] {
        recorder.request(&process, "messages-send", &send(id), 200).await;
    }
    recorder.request(&process, "messages-pull", &pull("wait=0&ack=manual&max=1&visibility=10"), 200).await;
    // The worker holds it: its visibility timeout is extended.
    recorder.harness.clock.advance_secs(6);
    recorder
        .request(&process, "messages-pull", &pull("wait=0&ack=manual&visibility=10&holding=m-1"), 200)
        .await;
    recorder.request(&process, "messages-ack", &ack("m-1"), 200).await;
    recorder.request(&process, "messages-ack", &ack("m-1"), 200).await;
    recorder.request(&process, "messages-pull", &pull("wait=0"), 200).await;
    for id in ["m-3", "m-5"] {
        recorder.request(&process, "messages-send", &send(id), 200).await;
    }
    // Fetched, so that its copy can be deleted.
    recorder.request(&process, "messages-pull", &pull("wait=0&ack=manual&visibility=1"), 200).await;
    for (id, status) in [("m-5", 200), ("m-5", 200), ("m-2", 409), ("m-9", 404)] {
        let cancel = request("POST", &format!("{messages}/{id}/cancel"), OPERATOR, None);
        recorder.request(&process, "messages-cancel", &cancel, status).await;
    }
    recorder.harness.clock.advance_secs(2);
    Box::pin(undeliverable(recorder, &process, worker)).await;
    recorder.request(&process, "messages-send", &send("m-7"), 200).await;
    let history = format!("{messages}/history?limit=2");
    recorder.request(&process, "messages-history", &request("GET", &history, &viewer(), None), 200).await;
    for _ in 0..2 {
        let end = request("DELETE", "/api/v1/sandboxes/s-3", OPERATOR, None);
        recorder.request(&process, "sandboxes-terminate", &end, 200).await;
    }
    recorder.request(&process, "messages-send", &send("m-4"), 409).await;
    recorder.request(&process, "messages-send", &send("m-3"), 200).await;
}

/// A message is fetched too often and sent again; leftover queues are deleted.
async fn undeliverable(recorder: &mut CallRecorder, process: &Arc<Plane>, worker: &str) {
    let messages = "/api/v1/sandboxes/s-3/messages";
    let pull = request("GET", &format!("{messages}?wait=0&ack=manual&visibility=1"), worker, None);
    for _ in 0..=MAX_DELIVERIES {
        recorder.request(process, "messages-pull", &pull, 200).await;
        recorder.harness.clock.advance_secs(2);
    }
    let (sandbox, mailboxes) = (SandboxId::parse("s-3").unwrap(), recorder.harness.aws.mailboxes.clone());
    // Without its queue, so that it tries to create one and enqueues a job.
    mailboxes.remove(&sandbox).await.unwrap();
    for (id, status) in [("m-3", 200), ("m-3", 200), ("m-2", 409), ("m-9", 404)] {
        let resend = request("POST", &format!("{messages}/{id}/resend"), OPERATOR, None);
        recorder.request(process, "messages-resend", &resend, status).await;
    }
    mailboxes.create(&SandboxId::parse("s-missing").unwrap()).await.unwrap();
    recorder.run(process, "messages-sweep", &fixture("schedule-tick")).await;
}

async fn sessions(recorder: &mut CallRecorder, replaced: &str) {
    let (process, path) = (recorder.harness.process(), "/api/v1/sandboxes/s-1/sessions/c0ffee/entries");
    let rotate = request("POST", "/api/v1/sandboxes/s-1/token", OPERATOR, None);
    let rotated = recorder.request(&process, "sandboxes-rotate-token", &rotate, 200).await;
    let worker = body_of(&rotated)["worker_token"].as_str().unwrap().to_owned();
    let add = |token: &str, first: u64, texts: &[&str]| {
        let entries: Vec<Value> = texts.iter().map(|text| json!({"text": text})).collect();
        request("POST", path, token, Some(&json!({"first": first, "entries": entries})))
    };
    // The first entries, more entries, an overlapping retry, a conflict, a gap.
    for (first, texts, status) in [
        (1, vec!["a", "b"], 200),
        (3, vec!["c"], 200),
        (2, vec!["b", "c", "d"], 200),
        (2, vec!["x"], 409),
        (9, vec!["x"], 409),
    ] {
        recorder.request(&process, "sessions-append", &add(&worker, first, &texts), status).await;
    }
    recorder.request(&process, "sessions-append", &add(replaced, 5, &["e"]), 401).await;
    for (query, status) in [("", 200), ("?after=1&limit=1", 200), ("?limit=0", 422)] {
        recorder.request(&process, "sessions-read", &get(&format!("{path}{query}")), status).await;
    }
    let unknown = get("/api/v1/sandboxes/s-1/sessions/missing/entries");
    recorder.request(&process, "sessions-read", &unknown, 404).await;
    for (session, status) in [("c0ffee", 201), ("missing", 422)] {
        let body = json!({"org": "acme", "resumes": session});
        let register = request("POST", "/api/v1/sandboxes", OPERATOR, Some(&body));
        recorder.request(&process, "sandboxes-register", &register, status).await;
    }
}

/// Every change that a person may make is counted in the table, once the first share of the quota is used up.
async fn quotas(recorder: &mut CallRecorder) {
    for function in FUNCTIONS {
        let Trigger::Http(route) = &function.trigger else { continue };
        if !route.is_change() || route.endpoint.counts_its_writes {
            continue;
        }
        // A quota this small has no first share.
        let process =
            recorder.harness.process_with(|settings| settings.quotas.operator = Amount::new(900, 1 << 20));
        recorder.harness.clock.advance_secs(60);
        let path = route.path.replace(['{', '}'], "");
        let payload = request(route.method.as_str(), &path, OPERATOR, Some(&json!({})));
        recorder.run(&process, function.name, &payload).await;
    }
}

async fn socket_expiry(recorder: &mut CallRecorder) {
    let process = recorder.harness.process();
    recorder.request(&process, "sockets-connect", &connect("silent", &[]), 200).await;
    recorder.request(&process, "sockets-connect", &connect("known", &[("token", &viewer())]), 200).await;
    for id in ["silent", "known", "closed"] {
        let expire = json!({"job": "expire_socket", "connection_id": id}).to_string();
        let answer = recorder.run(&process, "sockets-expire", &job(&expire)).await;
        assert_eq!(answer, json!({"batchItemFailures": []}), "{id}");
    }
}
