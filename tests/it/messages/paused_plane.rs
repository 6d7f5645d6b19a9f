//! A plane without a host, on Tokio's clock. In a test with `start_paused` the clock advances only when all tasks are
//! idle, so a test can assert exact durations.

use super::Api;
use crate::harness::keys;
use crate::support::ApiResponse;
use app::Clock;
use app::ids::SeededIds;
use domain::Timestamp;
use edge::auth::{Authenticator, Keys};
use edge::{Plane, Settings};
use local::aws::{Aws, Durability, Feeds};
use reqwest::Method;
use serde_json::Value;
use std::sync::Arc;
use store::Mailboxes;
use tempfile::TempDir;
use tokio::time::Instant;

pub struct PausedPlane {
    pub aws: Aws,
    plane: Arc<Plane>,
    feeds: Feeds,
    _data: TempDir,
}

impl PausedPlane {
    pub async fn open() -> Self {
        Self::open_with(keys(), Settings::default(), |mailboxes| mailboxes).await
    }

    /// Messages that the queues do not bring are not delivered.
    pub async fn open_without_ledger_fallback() -> Self {
        Self::open_with(keys(), Settings::default(), Mailboxes::without_ledger_fallback).await
    }

    /// Without authentication.
    pub async fn open_without_auth() -> Self {
        let settings = Settings { adopt_unknown_sandboxes: true, ..Settings::default() };
        Self::open_with(Keys { open: true, ..keys() }, settings, |mailboxes| mailboxes).await
    }

    async fn open_with(keys: Keys, settings: Settings, mailboxes: fn(Mailboxes) -> Mailboxes) -> Self {
        let data = TempDir::new().unwrap();
        let (aws, feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        let clock = Arc::new(TokioClock(Instant::now()));
        let authenticator = Authenticator::new(&keys, clock.clone());
        let ids = Arc::new(SeededIds::new(0));
        let mut bindings = aws.bindings();
        bindings.mailboxes = bindings.mailboxes.map(mailboxes);
        let plane = Plane::new(aws.store.clone(), bindings, authenticator, clock, ids, settings);
        let plane = Arc::new(plane);
        Self { aws, plane, feeds, _data: data }
    }

    /// Runs the jobs that are due. Returns how many.
    pub async fn run_jobs(&mut self) -> usize {
        let mut count = 0;
        while let Ok(job) = self.feeds.jobs.try_recv() {
            edge::jobs::run(&self.plane, &job.id, &job.body).await.unwrap();
            count += 1;
        }
        count
    }

    /// Runs one tick of a schedule.
    pub async fn tick(&self, tick: edge::schedule::Tick) {
        tick(self.plane.clone()).await.unwrap();
    }
}

impl Api for PausedPlane {
    async fn call(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<Value>,
    ) -> ApiResponse {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let response = edge::http::dispatch(&self.plane, request.body(body.into()).unwrap()).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        ApiResponse { status, headers, body: serde_json::from_slice(response.body()).unwrap() }
    }
}

/// Tokio's clock, starting at noon on January 5, 2026.
#[derive(Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.0.elapsed().as_micros()).unwrap();
        Timestamp::from_micros(1_767_614_400_000_000 + elapsed)
    }
}
