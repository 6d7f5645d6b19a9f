//! A plane for tests: a small HTTP server with the real rules for batches, and a network that misbehaves on demand.

use crate::clock;
use client::{Hang, Once};
use contract::ingest::{Ingest, decode};
use domain::ingest::{Decision, NewEvent, Refusal, decide};
use domain::{EventId, Head, OrgId, SandboxId, SessionId};
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

/// What the plane knows, and how it behaves.
pub struct Inner {
    pub head: Head,
    /// The log: id, type and data.
    pub log: Vec<(String, String, Value)>,
    /// What came in the single form.
    pub singles: Vec<(String, Value)>,
    pub receipts: Vec<Value>,
    pub entries: BTreeMap<String, Vec<Value>>,
    /// Sessions that are refused, and why.
    pub closed: BTreeMap<String, (u16, &'static str)>,
    /// Messages to hand out.
    pub messages: VecDeque<Value>,
    pub finished: bool,
    pub pulls: u64,
    /// Everything that came, as text.
    pub bodies: String,
    /// Answers for paths that hold this text, instead of the right one; 0 for none at all.
    pub broken: Vec<(&'static str, u16)>,
    /// How many requests met a path that is broken.
    pub refused: u64,
    /// How many of a hundred requests go wrong.
    pub chaos: u64,
    random: u64,
}

pub struct FakePlane {
    inner: Arc<Mutex<Inner>>,
    changed: watch::Sender<()>,
    ring: Arc<Notify>,
    pub url: String,
    pub sockets: String,
    once: Once,
    _tasks: JoinSet<()>,
}

pub fn sandbox() -> SandboxId {
    SandboxId::parse("s-1").unwrap()
}

impl FakePlane {
    pub async fn start(seed: u64) -> Self {
        let head = Head::new(sandbox(), OrgId::parse("acme").unwrap(), None, clock::now());
        let inner = Inner {
            head,
            log: Vec::new(),
            singles: Vec::new(),
            receipts: Vec::new(),
            entries: BTreeMap::new(),
            closed: BTreeMap::new(),
            messages: VecDeque::new(),
            finished: false,
            pulls: 0,
            bodies: String::new(),
            broken: Vec::new(),
            refused: 0,
            chaos: 0,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        };
        let inner = Arc::new(Mutex::new(inner));
        let (changed, ring) = (watch::Sender::new(()), Arc::new(Notify::new()));
        let mut tasks = JoinSet::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tasks.spawn(serve(listener, inner.clone(), changed.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sockets = format!("ws://{}/live", listener.local_addr().unwrap());
        tasks.spawn(serve_sockets(listener, ring.clone()));
        let once = Once::new(&url, &sandbox(), Some("planted-token".into()), Duration::from_millis(150));
        Self { inner, changed, ring, url, sockets, once, _tasks: tasks }
    }

    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub fn once(&self) -> Once {
        self.once.clone()
    }

    pub fn hang(&self, sockets: &str) -> Hang {
        let sockets = Some(sockets.to_owned());
        Hang { plane: self.url.clone(), sockets, sandbox: sandbox(), token: Some("planted-token".into()) }
    }

    /// Puts a message into the mailbox, and rings if somebody is to hear it.
    pub fn send(&self, id: &str, delivery: u32, ring: bool) {
        let message = json!({"id": id, "message_type": "user_message", "sender": {"kind": "operator"},
            "content": "hello", "timestamp": clock::now(),
            "receipt": {"state": "fetched", "delivery": delivery, "returns_at": clock::now()}});
        self.inner().messages.push_back(message);
        self.changed.send_replace(());
        if ring {
            self.ring.notify_one();
        }
    }

    /// Waits until the plane knows something.
    pub async fn until(&self, what: &str, mut test: impl FnMut(&Inner) -> bool) {
        let mut changed = self.changed.subscribe();
        let wait = async {
            while !test(&self.inner()) {
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
    }
}

impl Inner {
    /// Some number below `below`.
    pub fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    pub fn ids(&self) -> Vec<&str> {
        self.log.iter().map(|(id, _, _)| id.as_str()).collect()
    }

    pub fn of_type(&self, event_type: &str) -> Vec<&Value> {
        self.log.iter().filter(|(_, kind, _)| kind == event_type).map(|(_, _, data)| data).collect()
    }

    fn answer(&mut self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.bodies.push_str(body);
        let route = path.split('?').next().unwrap_or_default();
        let route = route.strip_prefix("/api/v1/sandboxes/s-1").unwrap_or("?");
        match (method, route) {
            ("GET", "") => (200, json!(contract::sandboxes::SandboxOut::from(&self.head))),
            ("POST", "/events") => self.ingest(body),
            ("POST", "/messages/ack") => self.acknowledge(body),
            ("GET", "/messages") if self.finished => {
                let mut answer = problem(409, "sandbox_finished");
                answer.1["reason"] = json!("too slow");
                answer
            }
            ("GET", "/messages") => {
                self.pulls += 1;
                let messages: Vec<Value> = self.messages.drain(..).collect();
                let size = messages.len();
                (200, json!({"sandbox_id": "s-1", "messages": messages, "queue_size": size}))
            }
            ("POST", _) if route.ends_with("/entries") => self.append(route, body),
            _ => problem(404, "no_route"),
        }
    }

    fn ingest(&mut self, body: &str) -> (u16, Value) {
        let batch = match decode(body.as_bytes(), || EventId::parse("made-up").unwrap()) {
            Ok(Ingest::Batch(batch)) => batch,
            Ok(Ingest::Single(event)) => {
                self.singles.push((event.event_type.to_string(), data(&event)));
                let answer = json!({"status": "received", "sandbox_id": "s-1", "event_type": event.event_type,
                    "event_id": event.id, "seq": null, "timestamp": clock::now()});
                return (200, answer);
            }
            Err(wrong) => return (422, problem(422, &format!("{wrong:?}")).1),
        };
        if batch.events.iter().any(|event| event.event_type.as_str() == "bad") {
            return problem(422, "invalid");
        }
        let number = batch.number.unwrap();
        let answer = |receipt: &domain::head::Receipt, repeated: bool| {
            json!({"status": "received", "sandbox_id": "s-1", "epoch": number.epoch, "batch": number.batch,
                "repeated": repeated, "first_seq": receipt.first_seq, "events": receipt.events,
                "heartbeats": 0, "timestamp": clock::now()})
        };
        match decide(&self.head, &batch, u64::MAX, clock::now()) {
            Ok(Decision::Store { next, receipt, .. }) => {
                self.head = *next;
                for event in &batch.events {
                    let (id, kind) = (event.id.to_string(), event.event_type.to_string());
                    self.log.push((id, kind, data(event)));
                }
                (200, answer(&receipt, false))
            }
            Ok(Decision::Repeat(receipt)) => (200, answer(&receipt, true)),
            Err(Refusal::StaleEpoch { current }) => {
                let mut answer = problem(409, "stale_epoch");
                answer.1["current_epoch"] = json!(current);
                answer
            }
            Err(Refusal::BatchGap { .. }) => problem(409, "batch_gap"),
            Err(Refusal::BatchChanged) => problem(409, "batch_changed"),
            Err(Refusal::BatchForgotten { .. }) => problem(409, "batch_forgotten"),
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
        let answer: Vec<Value> = receipts.iter().map(out).collect();
        self.receipts.extend(receipts);
        let size = self.messages.len();
        (200, json!({"status": "acknowledged", "sandbox_id": "s-1", "receipts": answer, "queue_size": size}))
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
            let mut answer = problem(409, "entries_gap");
            answer.1["expected_first"] = json!(stored.len() + 1);
            return answer;
        }
        if stored[first..].iter().zip(entries).any(|(stored, sent)| stored != sent) {
            return problem(409, "entries_changed");
        }
        stored.extend(entries.iter().skip(stored.len() - first).cloned());
        let answer = contract::sessions::EntriesStored {
            status: "stored".into(),
            session_id: SessionId::parse(session).unwrap(),
            first: first as u64 + 1,
            entries: entries.len() as u64,
            next: (first + entries.len()) as u64 + 1,
            repeated: false,
        };
        (200, json!(answer))
    }
}

fn data(event: &NewEvent) -> Value {
    serde_json::from_str(event.data.text()).unwrap()
}

pub fn problem(status: u16, code: &str) -> (u16, Value) {
    let problem = json!({"type": "x", "title": "x", "status": status, "code": code, "detail": "It is so.",
        "field": "events[0]", "request_id": "r"});
    (status, problem)
}

async fn serve(listener: TcpListener, inner: Arc<Mutex<Inner>>, changed: watch::Sender<()>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (inner, changed) = (inner.clone(), changed.clone());
        connections.spawn(async move { converse(stream, &inner, &changed).await.unwrap_or_default() });
    }
}

async fn converse(stream: TcpStream, inner: &Mutex<Inner>, changed: &watch::Sender<()>) -> Option<()> {
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
        let mut words = request.split(' ');
        let (method, path) = (words.next()?, words.next()?);
        let (broken, dice, kind) = {
            let mut inner = inner.lock().unwrap();
            let broken = inner.broken.iter().find(|(part, _)| path.contains(part)).map(|(_, status)| *status);
            inner.refused += u64::from(broken.is_some());
            let dice = inner.random(100) < inner.chaos;
            (broken, dice, inner.random(5))
        };
        if broken.is_some() {
            changed.send_replace(());
        }
        match broken {
            Some(0) => std::future::pending().await,
            Some(status) => {
                let (status, answer) = problem(status, "broken");
                write(&mut stream, status, &answer.to_string()).await?;
                continue;
            }
            None => {}
        }
        match kind {
            // Nothing arrives.
            0 if dice => return None,
            1 if dice => {
                write(&mut stream, 502, "<html>Bad Gateway</html>").await?;
                continue;
            }
            2 if dice => tokio::time::sleep(Duration::from_millis(2)).await,
            _ => {}
        }
        if path.contains("/messages?") && !path.contains("wait=0") {
            wait_for_messages(inner, changed).await;
        }
        let (status, answer) = inner.lock().unwrap().answer(method, path, &body);
        changed.send_replace(());
        match kind {
            // It arrives, and nobody learns of it.
            3 if dice => return None,
            4 if dice => tokio::time::sleep(Duration::from_millis(2)).await,
            _ => {}
        }
        write(&mut stream, status, &answer.to_string()).await?;
    }
}

async fn wait_for_messages(inner: &Mutex<Inner>, changed: &watch::Sender<()>) {
    let mut changed = changed.subscribe();
    let wait = async {
        let nothing = || {
            let inner = inner.lock().unwrap();
            inner.messages.is_empty() && !inner.finished
        };
        while nothing() {
            changed.changed().await.unwrap();
        }
    };
    // Empty-handed after a while, as a plane is.
    tokio::time::timeout(Duration::from_millis(500), wait).await.unwrap_or_default();
}

async fn write(stream: &mut BufReader<TcpStream>, status: u16, body: &str) -> Option<()> {
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await.ok()
}

/// Rings at the one socket that is open. A socket that is told `bye` closes.
async fn serve_sockets(listener: TcpListener, ring: Arc<Notify>) {
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
                () = ring.notified() => {
                    let frame = r#"{"id":"e","seq":1,"event_type":"SANDBOX_MESSAGE_QUEUED"}"#;
                    socket.send(Message::text(frame)).await.unwrap_or_default();
                }
            }
        }
    }
}
