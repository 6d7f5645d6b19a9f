//! An in-process AWS, and functions that a test invokes on it one at a time, as Lambda does.

use crate::payloads;
use crate::support::{JWT_SECRET, OPERATOR, user_with};
use app::clock::ManualClock;
use app::ids::SeededIds;
use app::orchestration::Agents;
use domain::{ConnectionId, Timestamp};
use edge::auth::{Authenticator, Keys, Operators, SigningKey};
use edge::guard::Guard;
use edge::registry::{self, Function, Trigger};
use edge::{Plane, Settings};
use futures_util::FutureExt;
use lambda_host::{Error, http, jobs, records, tick, ws};
use lambda_runtime::{Context, LambdaEvent};
use local::aws::{Aws, Durability, Feeds, Inbox};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::unconstrained;

/// A table, its stream, sockets, a queue and an event bus. The clock stands at noon on January 5, 2026, as in the
/// fixtures, and ids come from a seed, so that responses are deterministic.
pub struct Harness {
    pub aws: Aws,
    pub feeds: Feeds,
    pub clock: Arc<ManualClock>,
    /// Shared by all processes, because ids must be unique among them.
    pub ids: Arc<SeededIds>,
    _data: TempDir,
}

impl Harness {
    pub async fn open() -> Self {
        let data = TempDir::new().unwrap();
        let (aws, feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_767_614_400)));
        Self { aws, feeds, clock, ids: Arc::new(SeededIds::new(0)), _data: data }
    }

    /// Reads and discards the stream from now on. Without a reader, bulk writes would block.
    pub fn discard_records(&mut self) {
        let (_, closed) = tokio::sync::mpsc::unbounded_channel();
        let mut records = std::mem::replace(&mut self.feeds.records, closed);
        tokio::spawn(async move { while records.recv().await.is_some() {} });
    }

    /// A newly started process with empty caches.
    pub fn process(&self) -> Arc<Plane> {
        self.process_with(|_| {})
    }

    /// A newly started process with changed settings.
    pub fn process_with(&self, change: impl FnOnce(&mut Settings)) -> Arc<Plane> {
        let authenticator = Authenticator::new(&keys(), self.clock.clone());
        let mut settings = Settings {
            guard: Guard { hosts: None, origins: vec!["https://console.example".into()] },
            // Expiry jobs are due at once, so tests do not wait for them.
            auth_timeout: Duration::ZERO,
            ..Settings::default()
        };
        // Most tests write their own scripts.
        settings.orchestration.agents = Agents::default().accepting_commands();
        change(&mut settings);
        let (store, bindings) = (self.aws.store.clone(), self.aws.bindings());
        let (clock, ids) = (self.clock.clone(), self.ids.clone());
        Arc::new(Plane::new(store, bindings, authenticator, clock, ids, settings))
    }

    /// Registers a sandbox of the org acme and returns its worker token.
    pub async fn register(&self, id: &str) -> String {
        let body = json!({"sandbox_id": id, "org": "acme"});
        let request = payloads::request("POST", "/api/v1/sandboxes", OPERATOR, Some(&body));
        let answer = invoke(&self.process(), "sandboxes-register", &request).await.unwrap();
        assert_eq!(answer["statusCode"], 201, "{answer}");
        body_of(&answer)["worker_token"].as_str().unwrap().to_owned()
    }

    /// API Gateway's end of a socket: the inbox receives what the plane sends to it.
    pub fn socket(&self, id: &str) -> Inbox {
        self.aws.hub.register(&ConnectionId::parse(id).unwrap())
    }

    /// The jobs sent since the last call, without delayed ones.
    pub async fn take_jobs(&mut self) -> Vec<Value> {
        let mut jobs = Vec::new();
        // The queue does not keep the order of messages with the same timestamp. Whatever was sent before the first
        // marker arrives before the second one.
        for marker in ["1", "2"] {
            self.aws.orchestration_jobs.send(marker, Duration::ZERO).await.unwrap();
            loop {
                match self.feeds.jobs.recv().await.unwrap().body {
                    job if job == marker => break,
                    job => jobs.push(serde_json::from_str(&job).unwrap()),
                }
            }
        }
        jobs
    }

    /// All pending stream records, as one payload.
    pub fn stream_payload(&mut self) -> String {
        let mut images = Vec::new();
        while let Ok(record) = self.feeds.records.try_recv() {
            images.push(record.image);
        }
        payloads::stream(&images)
    }
}

/// The keys that sign the tests' tokens.
pub fn keys() -> Keys {
    let worker_key = SigningKey::of_secret("a secret of the tests, long enough to be one");
    Keys {
        worker_signing_key: Some(worker_key.clone()),
        worker_public_key: Some(worker_key.public()),
        operators: Operators::one("local", OPERATOR),
        sign_in_key: Some("the key of browsers in the tests".into()),
        user_secret: Some(JWT_SECRET.into()),
        jwks_url: None,
        issuer: None,
        audience: None,
        open: false,
    }
}

/// Token of a viewer of the org acme, valid until the year 2100.
pub fn viewer() -> String {
    user_with(json!({"sub": "u-1", "org": "acme", "role": "viewer", "exp": 4_102_444_800_u64}))
}

/// Invokes a function through the entry point that its `main` calls. Returns the response as Lambda passes it on.
pub async fn invoke(process: &Arc<Plane>, name: &str, payload: &str) -> Result<Value, Error> {
    let function = function(name);
    match function.trigger {
        Trigger::Http(_) => Ok(to_json(http::invoke(process, Some(function), event(payload)).await?)),
        Trigger::SocketConnect | Trigger::SocketFrame | Trigger::SocketDisconnect => {
            Ok(to_json(ws::invoke(process, function, event(payload)).await?))
        }
        Trigger::TableStream(_) => Ok(to_json(records::invoke(process, function, event(payload)).await?)),
        Trigger::Jobs(_) => Ok(to_json(jobs::invoke(process, function, event(payload)).await?)),
        Trigger::Schedule(_) => Ok(to_json(tick::invoke(process, function, event(payload)).await?)),
    }
}

pub fn function(name: &str) -> &'static Function {
    registry::find(name).unwrap_or_else(|| panic!("no function {name} in the registry"))
}

/// Parses a payload as the Lambda runtime does.
pub fn event<T: DeserializeOwned>(payload: &str) -> LambdaEvent<T> {
    let parsed = serde_json::from_str(payload);
    LambdaEvent::new(parsed.unwrap_or_else(|error| panic!("{error}: {payload}")), Context::default())
}

fn to_json(response: impl Serialize) -> Value {
    serde_json::to_value(response).unwrap()
}

/// The JSON body of a response.
pub fn body_of(response: &Value) -> Value {
    serde_json::from_str(response["body"].as_str().unwrap_or_else(|| panic!("no body: {response}"))).unwrap()
}

/// The frames in an inbox, without waiting for more; `None` if the socket was closed.
pub fn received_frames(inbox: &mut Inbox) -> Option<Vec<Value>> {
    // Unconstrained, because Tokio's cooperative budget could make a ready inbox look empty.
    let Some(frames) = unconstrained(inbox.take(1000)).now_or_never() else { return Some(Vec::new()) };
    let frames = frames.iter().map(|frame| serde_json::from_slice(frame).unwrap());
    Some(frames.collect()).filter(|frames: &Vec<Value>| !frames.is_empty())
}
