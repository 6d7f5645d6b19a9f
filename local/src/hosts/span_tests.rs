//! Log lines below the edge carry the id of the request, frame, job, records or tick that caused them.

use crate::aws::{Aws, Durability, Fault, Feeds};
use app::clock::SystemClock;
use app::ids::RandomIds;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use contract::jobs::Job;
use contract::query::Query;
use domain::{ConnectionId, Entity, OrgId, SandboxId};
use edge::auth::{Authenticator, Keys, Operators};
use edge::http::SourceIp;
use edge::logging::{self, Format};
use edge::registry::{self, Trigger};
use edge::stream::Image;
use edge::ws::Opening;
use edge::{Plane, Settings};
use http::{HeaderMap, Method, Request, StatusCode};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex};
use store::keys;
use tempfile::TempDir;
use tracing::subscriber::DefaultGuard;

/// The JSON log of a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Captures the lines of this thread until the guard is dropped. Only warnings, to show that the level of the filter
    /// does not remove the spans.
    fn capture() -> (Self, DefaultGuard) {
        Self::capture_from("warn")
    }

    fn capture_from(filter: &str) -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = logging::subscriber(Format::Json, filter, move || writer.clone());
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The span of the only line whose message starts with `prefix`.
    fn span(&self, prefix: &str) -> Value {
        self.line(prefix)["span"].clone()
    }

    fn line(&self, prefix: &str) -> Value {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut found =
            lines.iter().filter(|line| line["message"].as_str().is_some_and(|it| it.starts_with(prefix)));
        let line = found.next().unwrap_or_else(|| panic!("no line starts with {prefix:?}: {text}"));
        assert!(found.next().is_none(), "several lines start with {prefix:?}: {text}");
        line.clone()
    }
}

/// An operator's change, and a request that is refused.
#[tokio::test]
async fn request_log_names_the_caller_and_its_address_and_no_token() {
    const TOKEN: &str = "the token of the night shift";
    let keys = Keys { operators: Operators::one("night-shift", TOKEN), ..Keys::none() };
    let harness = Harness::open_with(keys).await;
    let (log, _guard) = Log::capture_from("info");
    for (token, path) in [(TOKEN, "/api/v1/sandboxes"), ("wrong token", "/api/v1/tasks")] {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{path}?token=in-the-query"))
            .header("authorization", format!("Bearer {token}"))
            .extension(SourceIp("192.0.2.7".parse().unwrap()))
            .body(Bytes::new());
        edge::http::dispatch(&harness.plane, request.unwrap()).await;
    }
    let refused = log.line("POST /api/v1/tasks was refused: 401");
    assert_eq!((&refused["source.ip"], &refused["principal.kind"]), (&json!("192.0.2.7"), &Value::Null));
    let changed = log.line("POST /api/v1/sandboxes");
    let caller = (&changed["principal.kind"], &changed["principal.id"]);
    assert_eq!(caller, (&json!("operator"), &json!("night-shift")), "{changed}");
    assert_eq!(changed["source.ip"], "192.0.2.7");
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(!text.contains("token"), "{text}");
}

#[tokio::test]
async fn socket_log_names_the_caller_and_its_address_and_no_token() {
    const TOKEN: &str = "the token of the night shift";
    let keys = Keys { operators: Operators::one("night-shift", TOKEN), ..Keys::none() };
    let harness = Harness::open_with(keys).await;
    let (log, _guard) = Log::capture_from("info");
    let opening = |id: &str, query: &str| Opening {
        connection: ConnectionId::parse(id).unwrap(),
        path: "/api/v1/ws/events".to_owned(),
        query: Query::parse(query),
        headers: HeaderMap::new(),
        source: Some(SourceIp("192.0.2.7".parse().unwrap())),
    };
    let query = format!("token={}", TOKEN.replace(' ', "%20"));
    edge::ws::connect(&harness.plane, opening("c-1", &query)).await.unwrap();
    edge::ws::connect(&harness.plane, opening("c-2", "")).await.unwrap();
    edge::ws::connect(&harness.plane, opening("c-3", "token=wrong")).await.unwrap_err();
    let second = ConnectionId::parse("c-2").unwrap();
    let frame = json!({"type": "auth", "token": TOKEN}).to_string();
    edge::ws::frame(&harness.plane, &second, &frame).await.unwrap();
    for line in
        ["Socket c-1 was opened", "Socket c-2 was opened", "Socket /api/v1/ws/events was refused: 401"]
    {
        assert_eq!(log.line(line)["source.ip"], "192.0.2.7", "{line}");
    }
    for id in ["c-1", "c-2"] {
        let line = log.line(&format!("Socket {id} was authenticated"));
        let caller = (&line["principal.kind"], &line["principal.id"]);
        assert_eq!(caller, (&json!("operator"), &json!("night-shift")), "{line}");
        assert_eq!(line["span"]["connection.id"], id);
    }
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(!text.contains("token") && !text.contains("wrong"), "{text}");
}

struct Harness {
    aws: Aws,
    plane: Arc<Plane>,
    _feeds: Feeds,
    _data: TempDir,
}

impl Harness {
    async fn open() -> Self {
        Self::open_with(Keys { open: true, ..Keys::none() }).await
    }

    async fn open_with(keys: Keys) -> Self {
        let data = TempDir::new().unwrap();
        let (aws, feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        let clock = Arc::new(SystemClock);
        let authenticator = Authenticator::new(&keys, clock.clone());
        let (store, bindings) = (aws.store.clone(), aws.bindings());
        let plane =
            Plane::new(store, bindings, authenticator, clock, Arc::new(RandomIds), Settings::default());
        Self { aws, plane: Arc::new(plane), _feeds: feeds, _data: data }
    }

    async fn create_task(&self, request_id: &str) {
        let body = json!({"title": "Fix the login", "org": "acme"});
        let request = Request::builder()
            .method(Method::POST)
            .uri("/api/v1/tasks")
            .header("x-request-id", request_id)
            .body(Bytes::from(body.to_string()))
            .unwrap();
        let response = edge::http::dispatch(&self.plane, request).await;
        assert_eq!(response.status(), StatusCode::CREATED);
    }
}

#[tokio::test]
async fn warning_of_a_use_case_carries_the_request_id() {
    let harness = Harness::open().await;
    let (log, _guard) = Log::capture();
    harness.aws.faults.inject("SendMessage", Fault::Unreachable);
    harness.create_task("request-7").await;
    assert_eq!(log.span("Could not enqueue"), json!({"name": "request", "request.id": "request-7"}));
}

#[tokio::test]
async fn warning_of_a_job_carries_the_message_id() {
    let harness = Harness::open().await;
    harness.create_task("request-7").await;
    let (log, _guard) = Log::capture();
    harness.aws.faults.inject("SendMessage", Fault::Unreachable);
    let job = Job::Dispatch { org: OrgId::parse("acme").unwrap() };
    edge::jobs::run(&harness.plane, "message-7", &job.encode()).await.unwrap();
    assert_eq!(log.span("Could not enqueue"), json!({"name": "job", "job.id": "message-7"}));
}

#[tokio::test]
async fn warning_of_a_tick_carries_the_event_id() {
    let harness = Harness::open().await;
    harness.create_task("request-7").await;
    let (log, _guard) = Log::capture();
    harness.aws.faults.inject("SendMessage", Fault::Unreachable);
    let function = registry::find("sandboxes-sweep").unwrap();
    let Trigger::Schedule(schedule) = function.trigger else { panic!("{function:?}") };
    edge::schedule::run(harness.plane.clone(), function.name, schedule, "event-7").await.unwrap();
    let expected = json!({"name": "tick", "function": "sandboxes-sweep", "tick.id": "event-7"});
    assert_eq!(log.span("Could not enqueue"), expected);
}

#[tokio::test]
async fn error_of_a_record_carries_the_sequence_number() {
    let harness = Harness::open().await;
    let (log, _guard) = Log::capture();
    let key = keys::segment(&Entity::Sandbox(SandboxId::parse("s-1").unwrap()), 1);
    let undecodable = Image::from([
        (keys::PK.to_owned(), AttributeValue::S(key.pk)),
        (keys::SK.to_owned(), AttributeValue::S(key.sk)),
    ]);
    edge::stream::broadcast(&harness.plane, "4207", &[undecodable]).await.unwrap();
    let expected = json!({"name": "records", "function": "events-broadcast", "record.sequence": "4207"});
    assert_eq!(log.span("Skipped an undecodable stream record"), expected);
}

#[tokio::test]
async fn warning_of_a_frame_carries_connection_and_request_id() {
    let harness = Harness::open().await;
    let (log, _guard) = Log::capture();
    harness.aws.faults.inject("PostToConnection", Fault::Unreachable);
    let connection = ConnectionId::parse("c-7").unwrap();
    edge::ws::frame(&harness.plane, &connection, r#"{"type":"ping"}"#).await.unwrap();
    let span = log.span("Cannot respond to socket c-7");
    assert_eq!((&span["name"], &span["connection.id"]), (&json!("socket"), &json!("c-7")));
    assert!(span["request.id"].as_str().is_some_and(|id| !id.is_empty()), "{span}");
}
