//! AWS in this process, and functions that run on it one at a time, each invoked as Lambda would.

use crate::payloads;
use crate::support::{JWT_SECRET, OPERATOR, user_with};
use app::clock::ManualClock;
use app::ids::SeededIds;
use domain::{ConnectionId, Timestamp};
use edge::auth::{Authenticator, Keys};
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

/// A table, a stream, sockets, a queue and a bus. The clock stands at noon on the fifth of January 2026, as in the
/// payloads, and ids come from a seed, so that answers are the same every time.
pub struct Stage {
    pub aws: Aws,
    pub feeds: Feeds,
    pub clock: Arc<ManualClock>,
    /// One source for all processes, because ids must be unique among them.
    pub ids: Arc<SeededIds>,
    _data: TempDir,
}

impl Stage {
    pub async fn open() -> Self {
        let data = TempDir::new().unwrap();
        let (aws, feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_767_614_400)));
        Self { aws, feeds, clock, ids: Arc::new(SeededIds::new(0)), _data: data }
    }

    /// Somebody reads the stream from now on, for whom it does not matter what it says. Without a reader whoever writes
    /// much waits for one.
    pub fn pass_over_news(&mut self) {
        let (_, nothing) = tokio::sync::mpsc::unbounded_channel();
        let mut records = std::mem::replace(&mut self.feeds.records, nothing);
        tokio::spawn(async move { while records.recv().await.is_some() {} });
    }

    /// A process that has just started and remembers nothing.
    pub fn process(&self) -> Arc<Plane> {
        self.process_with(|_| {})
    }

    /// One that is set up in another way.
    pub fn process_with(&self, change: impl FnOnce(&mut Settings)) -> Arc<Plane> {
        let authenticator = Authenticator::new(&keys(), self.clock.clone());
        let mut settings = Settings {
            guard: Guard { hosts: None, origins: vec!["https://console.example".into()] },
            // Jobs come at once, and tests need not wait for them.
            known_within: Duration::ZERO,
            ..Settings::default()
        };
        change(&mut settings);
        let (store, reach) = (self.aws.store.clone(), self.aws.bindings());
        let (clock, ids) = (self.clock.clone(), self.ids.clone());
        Arc::new(Plane::new(store, reach, authenticator, clock, ids, settings))
    }

    /// Registers a sandbox of the org acme and returns its worker's token.
    pub async fn register(&self, id: &str) -> String {
        let body = json!({"sandbox_id": id, "org": "acme"});
        let request = payloads::request("POST", "/api/v1/sandboxes", OPERATOR, Some(&body));
        let answer = invoke(&self.process(), "sandboxes-register", &request).await.unwrap();
        assert_eq!(answer["statusCode"], 201, "{answer}");
        body_of(&answer)["worker_token"].as_str().unwrap().to_owned()
    }

    /// API Gateway's end of a socket: what it is told comes out of the inbox.
    pub fn socket(&self, id: &str) -> Inbox {
        self.aws.hub.register(&ConnectionId::parse(id).unwrap())
    }

    /// What was asked of other functions since the last look, without what is due later.
    pub async fn jobs(&mut self) -> Vec<Value> {
        let mut jobs = Vec::new();
        // The queue keeps no order among those of one moment: what was sent before the first of these is there before
        // the second.
        for last in ["1", "2"] {
            self.aws.work.send(last, Duration::ZERO).await.unwrap();
            loop {
                match self.feeds.jobs.recv().await.unwrap() {
                    job if job == last => break,
                    job => jobs.push(serde_json::from_str(&job).unwrap()),
                }
            }
        }
        jobs
    }

    /// Everything that waits in the stream, as one payload.
    pub fn news(&mut self) -> String {
        let mut images = Vec::new();
        while let Ok(record) = self.feeds.records.try_recv() {
            images.push(record.image);
        }
        payloads::stream(&images)
    }
}

/// What the tests' tokens are made with.
pub fn keys() -> Keys {
    Keys {
        worker_secret: "a secret of the tests, long enough to be one".into(),
        operator_token: Some(OPERATOR.into()),
        user_secret: Some(JWT_SECRET.into()),
        jwks_url: None,
        issuer: None,
        audience: None,
        open: false,
    }
}

/// The token of somebody who may see the org acme, until the year 2100.
pub fn viewer() -> String {
    user_with(json!({"sub": "u-1", "org": "acme", "role": "viewer", "exp": 4_102_444_800_u64}))
}

/// What a function answers, as Lambda passes it on. The entry is the one that its `main` calls.
pub async fn invoke(process: &Arc<Plane>, name: &str, payload: &str) -> Result<Value, Error> {
    let function = function(name);
    match function.trigger {
        Trigger::Http(_) => Ok(answer(http::invoke(process, Some(function), event(payload)).await?)),
        Trigger::SocketConnect | Trigger::SocketFrame | Trigger::SocketDisconnect => {
            Ok(answer(ws::invoke(process, function, event(payload)).await?))
        }
        Trigger::TableStream(_) => Ok(answer(records::invoke(process, function, event(payload)).await?)),
        Trigger::Jobs(_) => Ok(answer(jobs::invoke(process, function, event(payload)).await?)),
        Trigger::Schedule(_) => Ok(answer(tick::invoke(process, function, event(payload)).await?)),
    }
}

pub fn function(name: &str) -> &'static Function {
    registry::find(name).unwrap_or_else(|| panic!("no function {name} in the registry"))
}

/// As Lambda's runtime reads a payload.
pub fn event<T: DeserializeOwned>(payload: &str) -> LambdaEvent<T> {
    let read = serde_json::from_str(payload);
    LambdaEvent::new(read.unwrap_or_else(|why| panic!("{why}: {payload}")), Context::default())
}

fn answer(answer: impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap()
}

/// The JSON in an answer's body.
pub fn body_of(answer: &Value) -> Value {
    serde_json::from_str(answer["body"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))).unwrap()
}

/// What waits in an inbox, without waiting for more; `None` when the socket was closed.
pub fn heard(inbox: &mut Inbox) -> Option<Vec<Value>> {
    // Without limits, because a test that has done much already would be asked to come back later.
    let Some(frames) = unconstrained(inbox.take(1000)).now_or_never() else { return Some(Vec::new()) };
    let frames = frames.iter().map(|frame| serde_json::from_slice(frame).unwrap());
    Some(frames.collect()).filter(|frames: &Vec<Value>| !frames.is_empty())
}
