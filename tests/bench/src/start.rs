//! Cold start of a function: from the start of its process until it requests its first event.

use crate::report::{Measured, Report};
use axum::Router;
use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A fake Lambda runtime API that never returns an event, and reports each request.
struct RuntimeApi {
    address: String,
    requests: mpsc::UnboundedReceiver<Instant>,
}

impl RuntimeApi {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address").to_string();
        let (sender, requests) = mpsc::unbounded_channel();
        let router = Router::new().fallback(move || {
            let sender = sender.clone();
            async move {
                // Fails after the end of the benchmark.
                let _sent = sender.send(Instant::now());
                std::future::pending::<()>().await;
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, requests }
    }
}

/// `variables` is the file with the function's environment variables.
pub async fn cold(report: &mut Report, bootstrap: &Path, variables: &Path, scale: usize) {
    let text = std::fs::read_to_string(variables).expect("the plane has written lambda.env");
    let variables = text.lines().filter_map(|line| line.split_once('='));
    let variables: HashMap<&str, &str> =
        variables.map(|(name, value)| (name, value.trim_matches('"'))).collect();
    let mut api = RuntimeApi::start().await;
    let mut times = Vec::new();
    for _ in 0..(100 / scale) {
        let begun = Instant::now();
        let mut process = Command::new(bootstrap)
            .env_clear()
            .envs(&variables)
            .env("AWS_LAMBDA_RUNTIME_API", &api.address)
            .env("SUNABA_FUNCTION", "events-ingest")
            .env("AWS_LAMBDA_FUNCTION_NAME", "events-ingest")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the bootstrap can be started");
        let requested = timeout(Duration::from_secs(10), api.requests.recv()).await;
        let requested =
            requested.expect("the function requests an event within 10 s").expect("the runtime API runs");
        times.push(requested - begun);
        process.kill().await.expect("a child can be killed");
    }
    let all = times.iter().sum();
    report.times("cold start of events-ingest", &Measured::new(times, all), "p50 ≤ 20 ms");
}
