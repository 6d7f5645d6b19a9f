//! A worker token dies with its sandbox: at once for everything that it reads, and for final reports after a while.

use crate::harness::{Harness, invoke};
use crate::payloads::connect;
use crate::support::{OPERATOR, batch};
use crate::tasks::call;
use domain::access::{REPORT_GRACE_SECS, Scope};
use edge::Plane;
use edge::registry::{FUNCTIONS, Route, Trigger};
use serde_json::{Value, json};
use std::sync::Arc;

/// The record of a sandbox has the last epoch, which a worker needs for its final events.
const READABLE: [&str; 2] = ["/api/v1/sandboxes/{id}", "/api/v1/sandboxes/{id}/phase-status"];

/// The routes of one sandbox that a worker may call.
fn routes_of_workers() -> Vec<&'static Route> {
    let scopes = [Scope::ReadSandbox, Scope::WriteEvents, Scope::PullMessages];
    let routes = FUNCTIONS.iter().filter_map(|function| match &function.trigger {
        Trigger::Http(route) => Some(route),
        _ => None,
    });
    let routes: Vec<_> =
        routes.filter(|route| scopes.contains(&route.scope) && route.path.contains("{id}")).collect();
    // Some need a provider, which these processes do not have.
    let needs_provider = |path: &str| path.ends_with("/logs") || path.contains("/previews/");
    let routes: Vec<_> = routes.into_iter().filter(|route| !needs_provider(route.path)).collect();
    assert!(routes.len() > 10, "workers call more routes than {}", routes.len());
    routes
}

async fn status(plane: &Arc<Plane>, token: &str, route: &Route) -> (u64, Value) {
    let path = route.path.trim_start_matches("/api/v1").replace("{id}", "s-1");
    let path = path.replace("{session_id}", "x-1").replace("{seq}", "1");
    let path =
        if route.scope == Scope::PullMessages && route.method == "GET" { path + "?wait=0" } else { path };
    call(plane, token, route.method.as_str(), &path, (route.method != "GET").then(|| json!({}))).await
}

#[tokio::test]
async fn worker_token_is_revoked_when_its_sandbox_ends() {
    let harness = Harness::open().await;
    let plane = harness.process();
    let worker = harness.register("s-1").await;
    let post = async |first: u64| {
        call(&plane, &worker, "POST", "/sandboxes/s-1/events", Some(batch(1, first, first, 1))).await.0
    };
    assert_eq!(post(1).await, 200);
    for route in routes_of_workers() {
        let (status, problem) = status(&plane, &worker, route).await;
        assert_ne!(status, 401, "{} {} while it runs: {problem}", route.method, route.path);
    }
    assert_eq!(call(&plane, OPERATOR, "DELETE", "/sandboxes/s-1", None).await.0, 200);

    for route in routes_of_workers() {
        let (status, problem) = status(&plane, &worker, route).await;
        let is_report = route.scope != Scope::ReadSandbox || READABLE.contains(&route.path);
        assert_eq!(status == 401, !is_report, "{} {}: {problem}", route.method, route.path);
    }
    assert_eq!(post(2).await, 200, "final events are stored");
    let pull = call(&plane, &worker, "GET", "/sandboxes/s-1/messages?wait=0", None).await;
    assert_eq!((pull.0, &pull.1["code"]), (409, &json!("sandbox_finished")), "the worker learns why");
    let socket = invoke(&plane, "sockets-connect", &connect("c-1", &[("token", &worker)])).await.unwrap();
    assert_eq!(socket["statusCode"], 401, "{socket}");

    harness.clock.advance_secs(REPORT_GRACE_SECS + 1);
    for route in routes_of_workers() {
        let (status, problem) = status(&plane, &worker, route).await;
        // Bodies are decoded first, and these are empty. Valid ones follow.
        let is_undecoded = route.method == "POST" && status == 422;
        assert!(status == 401 || is_undecoded, "{} {}: {status} {problem}", route.method, route.path);
    }
    assert_eq!(post(3).await, 401);
    let entries = json!({"first": 1, "entries": [{"type": "user"}]});
    assert_eq!(
        call(&plane, &worker, "POST", "/sandboxes/s-1/sessions/x-1/entries", Some(entries)).await.0,
        401
    );
    let receipts = json!({"receipts": [{"message_id": "m-1", "state": "delivered"}]});
    assert_eq!(call(&plane, &worker, "POST", "/sandboxes/s-1/messages/ack", Some(receipts)).await.0, 401);
    let shown = call(&plane, OPERATOR, "GET", "/sandboxes/s-1/events", None).await;
    assert_eq!(shown.0, 200, "its log stays");
    let message = "The sandbox of this worker token has ended.";
    assert_eq!(status(&plane, &worker, routes_of_workers()[0]).await.1["detail"], message);
}
