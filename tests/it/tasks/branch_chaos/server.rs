//! Serves the plane to workers. It crashes at random while it executes a request, or after that.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use edge::Plane;
use kit::chaos::broken;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// One of so many requests ends in a crash.
const REQUESTS_PER_CRASH: u32 = 40;

/// Stops when it is dropped.
pub struct Server {
    pub url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    /// The process that serves requests; `None` while the plane is down.
    plane: watch::Sender<Option<Arc<Plane>>>,
    /// `None` if it does not crash any more.
    random: Mutex<Option<StdRng>>,
}

impl Server {
    /// Starts without a plane.
    pub async fn start(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let random = Mutex::new(Some(StdRng::seed_from_u64(seed)));
        let shared = Arc::new(Shared { plane: watch::Sender::new(None), random });
        let router = Router::new().fallback(respond).with_state(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, shared, task }
    }

    pub fn serve(&self, plane: Arc<Plane>) {
        self.shared.plane.send_replace(Some(plane));
    }

    /// All requests in progress are lost.
    pub fn crash(&self) {
        self.shared.plane.send_replace(None);
    }

    pub fn is_down(&self) -> bool {
        self.shared.plane.borrow().is_none()
    }

    pub fn stop_crashing(&self) {
        *self.shared.random.lock().unwrap() = None;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    /// After which time the plane crashes, if it does so because of a request.
    fn crash_after(&self) -> Option<Duration> {
        let mut random = self.random.lock().unwrap();
        let random = random.as_mut()?;
        (random.random_range(0..REQUESTS_PER_CRASH) == 0)
            .then(|| Duration::from_millis(random.random_range(0..20)))
    }
}

async fn respond(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else { return broken() };
    let mut replaced = shared.plane.subscribe();
    let Some(plane) = replaced.borrow_and_update().clone() else { return broken() };
    let crash_after = shared.crash_after();
    // On the heap: in a debug build this future is too large for the stack of a test thread.
    let response = Box::pin(edge::http::dispatch(&plane, http::Request::from_parts(parts, body)));
    tokio::select! {
        response = response => {
            if crash_after.is_none() {
                return response.map(Body::from);
            }
        }
        () = sleep(crash_after.unwrap_or_default()), if crash_after.is_some() => {}
        _ = replaced.changed() => return broken(),
    }
    shared.plane.send_replace(None);
    broken()
}
