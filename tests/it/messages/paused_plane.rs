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
use tempfile::TempDir;
use tokio::time::Instant;

pub struct PausedPlane {
    pub aws: Aws,
    plane: Arc<Plane>,
    _feeds: Feeds,
    _data: TempDir,
}

impl PausedPlane {
    pub async fn open() -> Self {
        Self::open_with(keys(), Settings::default()).await
    }

    /// Without authentication.
    pub async fn open_without_auth() -> Self {
        let settings = Settings { adopt_unknown_sandboxes: true, ..Settings::default() };
        Self::open_with(Keys { open: true, ..keys() }, settings).await
    }

    async fn open_with(keys: Keys, settings: Settings) -> Self {
        let data = TempDir::new().unwrap();
        let (aws, feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        let clock = Arc::new(TokioClock(Instant::now()));
        let authenticator = Authenticator::new(&keys, clock.clone());
        let ids = Arc::new(SeededIds::new(0));
        let plane = Plane::new(aws.store.clone(), aws.bindings(), authenticator, clock, ids, settings);
        let plane = Arc::new(plane);
        Self { aws, plane, _feeds: feeds, _data: data }
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
