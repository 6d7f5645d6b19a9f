//! All that functions around tickets ever do.

use super::{Watch, get};
use crate::payloads::request;
use crate::stage::body_of;
use crate::support::OPERATOR;
use domain::ticket::ApprovalSettings;
use serde_json::{Value, json};

pub async fn tickets(watch: &mut Watch) {
    let process = watch.stage.process();
    let careful = watch.stage.process_with(|settings| {
        settings.orchestration.approval = ApprovalSettings::new(true, 60).unwrap();
    });
    let post =
        |path: &str, body: Value| request("POST", &format!("/api/v1/tickets{path}"), OPERATOR, Some(&body));
    let wish = |id: &str, title: &str| post("", json!({"org": "acme", "ticket_id": id, "title": title}));
    // A new one, a repeat, another under the same id, and a duplicate.
    for (id, title, status) in [
        ("k-1", "Fix the login bug", 201),
        ("k-1", "Fix the login bug", 200),
        ("k-1", "Add a dark mode", 409),
        ("k-2", "Fix login bugs", 200),
    ] {
        watch.request(&process, "tickets-create", &wish(id, title), status).await;
    }
    for (id, title) in [("k-3", "Write a manual"), ("k-4", "Translate everything")] {
        watch.request(&careful, "tickets-create", &wish(id, title), 201).await;
    }
    let page = watch.request(&process, "tickets-list", &get("/api/v1/tickets?limit=1"), 200).await;
    let cursor = body_of(&page)["next_cursor"].as_str().unwrap().replace('#', "%23");
    for query in [format!("cursor={cursor}"), "search=manual".to_owned()] {
        watch.request(&process, "tickets-list", &get(&format!("/api/v1/tickets?{query}")), 200).await;
    }
    for (path, status) in [("k-1", 200), ("nobody", 404)] {
        let path = format!("/api/v1/tickets/{path}");
        watch.request(&process, "tickets-get", &get(&path), status).await;
        watch.request(&process, "tickets-events", &get(&format!("{path}/events")), status).await;
    }
    for (to, status) in [("analyzing", 200), ("done", 409)] {
        let transition = post("/k-1/transition", json!({"to_status": to}));
        watch.request(&process, "tickets-transition", &transition, status).await;
    }
    for status in [200, 409] {
        let no = json!({"rejection_reason": "Not now."});
        watch.request(&careful, "tickets-approve", &post("/k-3/approve", json!({})), status).await;
        watch.request(&careful, "tickets-reject", &post("/k-4/reject", no), status).await;
    }
}
