//! Scenarios for the functions of the ticket API.

use super::{CallRecorder, get};
use crate::harness::body_of;
use crate::payloads::request;
use crate::support::OPERATOR;
use domain::ticket::ApprovalSettings;
use serde_json::{Value, json};

pub async fn tickets(recorder: &mut CallRecorder) {
    let process = recorder.harness.process();
    let with_approval = recorder.harness.process_with(|settings| {
        settings.orchestration.approval = ApprovalSettings::new(true, 60).unwrap();
    });
    let post =
        |path: &str, body: Value| request("POST", &format!("/api/v1/tickets{path}"), OPERATOR, Some(&body));
    let spec = |id: &str, title: &str| post("", json!({"org": "acme", "ticket_id": id, "title": title}));
    // A new ticket, a retry, an id conflict, and a duplicate.
    for (id, title, status) in [
        ("k-1", "Fix the login bug", 201),
        ("k-1", "Fix the login bug", 200),
        ("k-1", "Add a dark mode", 409),
        ("k-2", "Fix login bugs", 200),
    ] {
        recorder.request(&process, "tickets-create", &spec(id, title), status).await;
    }
    for (id, title) in [("k-3", "Write a manual"), ("k-4", "Translate everything")] {
        recorder.request(&with_approval, "tickets-create", &spec(id, title), 201).await;
    }
    let page = recorder.request(&process, "tickets-list", &get("/api/v1/tickets?limit=1"), 200).await;
    let cursor = body_of(&page)["next_cursor"].as_str().unwrap().replace('#', "%23");
    for query in [format!("cursor={cursor}"), "search=manual".to_owned()] {
        recorder.request(&process, "tickets-list", &get(&format!("/api/v1/tickets?{query}")), 200).await;
    }
    for (path, status) in [("k-1", 200), ("missing", 404)] {
        let path = format!("/api/v1/tickets/{path}");
        recorder.request(&process, "tickets-get", &get(&path), status).await;
        recorder.request(&process, "tickets-events", &get(&format!("{path}/events")), status).await;
    }
    for (to, status) in [("analyzing", 200), ("done", 409)] {
        let transition = post("/k-1/transition", json!({"to_status": to}));
        recorder.request(&process, "tickets-transition", &transition, status).await;
    }
    for status in [200, 409] {
        let no = json!({"rejection_reason": "Not now."});
        recorder.request(&with_approval, "tickets-approve", &post("/k-3/approve", json!({})), status).await;
        recorder.request(&with_approval, "tickets-reject", &post("/k-4/reject", no), status).await;
    }
}
