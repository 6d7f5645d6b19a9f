//! A fake plane for tests: a small HTTP server with the real ingest rules and injectable network faults.

use crate::clock;
use client::{SandboxApi, WakeUpOptions};
use contract::ingest::{Ingest, decode};
use domain::ingest::{Decision, NewEvent, Refusal, decide};
use domain::quota::Quotas;
use domain::{EventId, OrgId, Sandbox, SandboxId, SessionId, Source};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

/// State of the plane, and the faults to inject.
pub struct Inner {
    pub sandbox: Sandbox,
    /// Stored events: id, type and data.
    pub log: Vec<(String, String, Value)>,
    /// Events that were sent individually: type and data.
    pub singles: Vec<(String, Value)>,
    pub receipts: Vec<Value>,
    /// Number of receipts in each request.
    pub receipt_requests: Vec<usize>,
    pub entries: BTreeMap<String, Vec<Value>>,
    /// Sessions to refuse, with status and problem code.
    pub closed: BTreeMap<String, (u16, &'static str)>,
    pub messages: VecDeque<Value>,
    pub finished: bool,
    pub pulls: u64,
    /// All request bodies, concatenated.
    pub bodies: String,
    /// Status codes for paths that contain this text; 0 never responds.
    pub broken: Vec<(&'static str, u16)>,
    /// Number of requests that matched `broken`.
    pub refused: u64,
    /// Percentage of requests with a random fault.
    pub fault_percent: u64,
    random: u64,
}

pub struct FakePlane {
    inner: Arc<Mutex<Inner>>,
    changed: watch::Sender<()>,
    wake_up: Arc<Notify>,
    pub url: String,
    pub sockets: String,
    api: SandboxApi,
    _tasks: JoinSet<()>,
}

pub fn sandbox_id() -> SandboxId {
    SandboxId::parse("s-1").unwrap()
}

impl FakePlane {
    pub async fn start(seed: u64) -> Self {
        let sandbox = Sandbox::new(sandbox_id(), OrgId::parse("acme").unwrap(), None, clock::now());
        let inner = Inner {
            sandbox,
            log: Vec::new(),
            singles: Vec::new(),
            receipts: Vec::new(),
            receipt_requests: Vec::new(),
            entries: BTreeMap::new(),
            closed: BTreeMap::new(),
            messages: VecDeque::new(),
            finished: false,
            pulls: 0,
            bodies: String::new(),
            broken: Vec::new(),
            refused: 0,
            fault_percent: 0,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        };
        let inner = Arc::new(Mutex::new(inner));
        let (changed, wake_up) = (watch::Sender::new(()), Arc::new(Notify::new()));
        let mut tasks = JoinSet::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tasks.spawn(serve(listener, inner.clone(), changed.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sockets = format!("ws://{}/live", listener.local_addr().unwrap());
        tasks.spawn(serve_sockets(listener, wake_up.clone()));
        let api =
            SandboxApi::new(&url, &sandbox_id(), Some("planted-token".into()), Duration::from_millis(150));
        Self { inner, changed, wake_up, url, sockets, api, _tasks: tasks }
    }

    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub fn api(&self) -> SandboxApi {
        self.api.clone()
    }

    pub fn wake_up_options(&self, sockets: &str) -> WakeUpOptions {
        let sockets = Some(sockets.to_owned());
        WakeUpOptions {
            plane: self.url.clone(),
            sockets,
            sandbox: sandbox_id(),
            token: Some("planted-token".into()),
        }
    }

    /// Queues a message, and optionally wakes up the worker.
    pub fn send(&self, id: &str, delivery: u32, wake_up: bool) {
        let message = json!({"id": id, "message_type": "user_message", "sender": {"kind": "operator"},
            "content": "hello", "timestamp": clock::now(),
            "receipt": {"state": "fetched", "delivery": delivery, "returns_at": clock::now()}});
        self.inner().messages.push_back(message);
        self.changed.send_replace(());
        if wake_up {
            self.wake_up.notify_one();
        }
    }

    /// Waits until the condition holds.
    pub async fn until(&self, what: &str, mut test: impl FnMut(&Inner) -> bool) {
        let mut changed = self.changed.subscribe();
        let wait = async {
            while !test(&self.inner()) {
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait)
            .await
            .unwrap_or_else(|_| panic!("timed out waiting for {what}"));
    }
}

impl Inner {
    /// A pseudorandom number less than `limit`.
    pub fn random(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % limit
    }

    pub fn ids(&self) -> Vec<&str> {
        self.log.iter().map(|(id, _, _)| id.as_str()).collect()
    }

    pub fn of_type(&self, event_type: &str) -> Vec<&Value> {
        self.log.iter().filter(|(_, kind, _)| kind == event_type).map(|(_, _, data)| data).collect()
    }

    fn respond(&mut self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.bodies.push_str(body);
        let route = path.split('?').next().unwrap_or_default();
        let route = route.strip_prefix("/api/v1/sandboxes/s-1").unwrap_or("?");
        match (method, route) {
            ("GET", "") => (200, json!(contract::sandboxes::SandboxOut::from(&self.sandbox))),
            ("POST", "/events") => self.ingest(body),
            ("POST", "/messages/ack") => self.acknowledge(body),
            ("GET", "/messages") if self.finished => {
                let mut response = problem(409, "sandbox_finished");
                response.1["reason"] = json!("too slow");
                response
            }
            ("GET", "/messages") => {
                self.pulls += 1;
                let messages: Vec<Value> = self.messages.drain(..).collect();
                let size = messages.len();
                (200, json!({"sandbox_id": "s-1", "messages": messages, "queue_size": size}))
            }
            ("POST", _) if route.ends_with("/entries") => self.append(route, body),
            _ => problem(404, "route_not_found"),
        }
    }

    fn ingest(&mut self, body: &str) -> (u16, Value) {
        let batch = match decode(body.as_bytes(), &[Source::Agent, Source::Worker], || {
            EventId::parse("made-up").unwrap()
        }) {
            Ok(Ingest::Batch(batch)) => batch,
            Ok(Ingest::Single(event)) => {
                self.singles.push((event.event_type.to_string(), data(&event)));
                let response = json!({"status": "received", "sandbox_id": "s-1", "event_type": event.event_type,
                    "event_id": event.id, "seq": null, "timestamp": clock::now()});
                return (200, response);
            }
            Err(invalid) => return (422, problem(422, &format!("{invalid:?}")).1),
        };
        if batch.events.iter().any(|event| event.event_type.as_str() == "bad") {
            return problem(422, "invalid");
        }
        let number = batch.number.unwrap();
        let response = |receipt: &domain::sandbox::Receipt, repeated: bool| {
            json!({"status": "received", "sandbox_id": "s-1", "epoch": number.epoch, "batch": number.batch,
                "repeated": repeated, "first_seq": receipt.first_seq, "events": receipt.events,
                "heartbeats": 0, "timestamp": clock::now()})
        };
        match decide(&self.sandbox, &batch, body.len() as u64, Quotas::default().sandbox, clock::now()) {
            Ok(Decision::Store { next, receipt, .. }) => {
                self.sandbox = *next;
                for event in &batch.events {
                    let (id, kind) = (event.id.to_string(), event.event_type.to_string());
                    self.log.push((id, kind, data(event)));
                }
                (200, response(&receipt, false))
            }
            Ok(Decision::Repeat(receipt)) => (200, response(&receipt, true)),
            Err(Refusal::StaleEpoch { current }) => {
                let mut response = problem(409, "stale_epoch");
                response.1["current_epoch"] = json!(current);
                response
            }
            Err(Refusal::BatchGap { .. }) => problem(409, "batch_gap"),
            Err(Refusal::BatchChanged) => problem(409, "batch_changed"),
            Err(Refusal::BatchExpired { .. }) => problem(409, "batch_expired"),
            Err(Refusal::EpochTooHigh { .. }) => problem(409, "epoch_too_high"),
            Err(Refusal::RateLimited { .. }) => problem(429, "rate_limited"),
        }
    }

    fn acknowledge(&mut self, body: &str) -> (u16, Value) {
        let body: Value = serde_json::from_str(body).unwrap();
        let receipts = body["receipts"].as_array().unwrap().clone();
        assert!((1..=25).contains(&receipts.len()));
        if receipts.iter().any(|receipt| receipt["message_id"] == "unknown") {
            return problem(422, "invalid");
        }
        let out = |r: &Value| json!({"message_id": r["message_id"], "state": r["state"], "changed": true});
        let acknowledged: Vec<Value> = receipts.iter().map(out).collect();
        self.receipt_requests.push(receipts.len());
        self.receipts.extend(receipts);
        let size = self.messages.len();
        (
            200,
            json!({"status": "acknowledged", "sandbox_id": "s-1", "receipts": acknowledged, "queue_size": size}),
        )
    }

    fn append(&mut self, route: &str, body: &str) -> (u16, Value) {
        let body: Value = serde_json::from_str(body).unwrap();
        let session = route.split('/').nth(2).unwrap().to_owned();
        let entries = body["entries"].as_array().unwrap();
        if entries.iter().any(|entry| entry["type"] == "bad") {
            return problem(422, "invalid");
        }
        let stored = self.entries.entry(session.clone()).or_default();
        let first = usize::try_from(body["first"].as_u64().unwrap()).unwrap() - 1;
        if let Some((status, code)) = self.closed.get(&session) {
            return problem(*status, code);
        }
        if first > stored.len() {
            let mut response = problem(409, "entries_gap");
            response.1["expected_first"] = json!(stored.len() + 1);
            return response;
        }
        if stored[first..].iter().zip(entries).any(|(stored, sent)| stored != sent) {
            return problem(409, "entries_changed");
        }
        stored.extend(entries.iter().skip(stored.len() - first).cloned());
        let response = contract::sessions::EntriesStored {
            status: "stored".into(),
            session_id: SessionId::parse(session).unwrap(),
            first: first as u64 + 1,
            entries: entries.len() as u64,
            next: (first + entries.len()) as u64 + 1,
            repeated: false,
        };
        (200, json!(response))
    }
}

fn data(event: &NewEvent) -> Value {
    serde_json::from_str(event.data.text()).unwrap()
}

pub fn problem(status: u16, code: &str) -> (u16, Value) {
    let problem = json!({"type": "x", "title": "x", "status": status, "code": code, "detail": "Injected by the test.",
        "field": "events[0]", "request_id": "r"});
    (status, problem)
}

async fn serve(listener: TcpListener, inner: Arc<Mutex<Inner>>, changed: watch::Sender<()>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (inner, changed) = (inner.clone(), changed.clone());
        connections
            .spawn(async move { serve_connection(stream, &inner, &changed).await.unwrap_or_default() });
    }
}

async fn serve_connection(
    stream: TcpStream,
    inner: &Mutex<Inner>,
    changed: &watch::Sender<()>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut request = String::new();
        stream.read_line(&mut request).await.ok().filter(|length| *length > 0)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok().filter(|length| *length > 0)?;
            if line == "\r\n" {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let body = String::from_utf8(body).ok()?;
        let mut parts = request.split(' ');
        let (method, path) = (parts.next()?, parts.next()?);
        let (broken, is_faulty, fault) = {
            let mut inner = inner.lock().unwrap();
            let broken = inner.broken.iter().find(|(part, _)| path.contains(part)).map(|(_, status)| *status);
            inner.refused += u64::from(broken.is_some());
            let is_faulty = inner.random(100) < inner.fault_percent;
            (broken, is_faulty, inner.random(5))
        };
        if broken.is_some() {
            changed.send_replace(());
        }
        match broken {
            Some(0) => std::future::pending().await,
            Some(status) => {
                let (status, response) = problem(status, "broken");
                write(&mut stream, status, &response.to_string()).await?;
                continue;
            }
            None => {}
        }
        match fault {
            // The request is lost.
            0 if is_faulty => return None,
            1 if is_faulty => {
                write(&mut stream, 502, "<html>Bad Gateway</html>").await?;
                continue;
            }
            2 if is_faulty => tokio::time::sleep(Duration::from_millis(2)).await,
            _ => {}
        }
        if path.contains("/messages?") && !path.contains("wait=0") {
            wait_for_messages(inner, changed).await;
        }
        let (status, response) = inner.lock().unwrap().respond(method, path, &body);
        changed.send_replace(());
        match fault {
            // The request is processed, but the response is lost.
            3 if is_faulty => return None,
            4 if is_faulty => tokio::time::sleep(Duration::from_millis(2)).await,
            _ => {}
        }
        write(&mut stream, status, &response.to_string()).await?;
    }
}

async fn wait_for_messages(inner: &Mutex<Inner>, changed: &watch::Sender<()>) {
    let mut changed = changed.subscribe();
    let wait = async {
        let is_empty = || {
            let inner = inner.lock().unwrap();
            inner.messages.is_empty() && !inner.finished
        };
        while is_empty() {
            changed.changed().await.unwrap();
        }
    };
    // Like the real plane, respond without messages after the long-poll timeout.
    tokio::time::timeout(Duration::from_millis(500), wait).await.unwrap_or_default();
}

async fn write(stream: &mut BufReader<TcpStream>, status: u16, body: &str) -> Option<()> {
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await.ok()
}

/// Sends wake-ups to the open socket.
async fn serve_sockets(listener: TcpListener, wake_up: Arc<Notify>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { continue };
        loop {
            tokio::select! {
                frame = socket.next() => match frame {
                    Some(Ok(Message::Text(_))) => {
                        socket.send(Message::text(r#"{"type":"pong"}"#)).await.unwrap_or_default();
                    }
                    Some(Ok(_)) => {}
                    _ => break,
                },
                () = wake_up.notified() => {
                    let frame = r#"{"id":"e","seq":1,"event_type":"SANDBOX_MESSAGE_QUEUED"}"#;
                    socket.send(Message::text(frame)).await.unwrap_or_default();
                }
            }
        }
    }
}
