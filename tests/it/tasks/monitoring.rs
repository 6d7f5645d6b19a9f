//! The monitoring API: status and phase of sandboxes.

use super::{TaskApi, acme};
use crate::harness::invoke;
use crate::payloads::fixture;
use crate::support::{OPERATOR, user};
use serde_json::{Value, json};

fn find_sandbox<'a>(page: &'a Value, sandbox: &domain::SandboxId) -> &'a Value {
    let sandboxes = page["sandboxes"].as_array().unwrap();
    let found = sandboxes.iter().find(|entry| entry["sandbox_id"] == sandbox.as_str());
    found.unwrap_or_else(|| panic!("{sandbox} is not on the page: {page}"))
}

#[tokio::test]
async fn status_shows_activity_and_provisioning_stage_of_each_sandbox() {
    let api = TaskApi::open().await;
    let ticket = api.create_ticket("k-1").await;
    let first = ticket["task_id"].as_str().unwrap();
    let working = api.start(first).await;
    api.harness.clock.advance_secs(5);
    api.emit(&working, "agent.tool_completed", json!({"tool": "Bash"})).await;
    api.create("t-claimed", json!({})).await;
    let claimed = api.claim("t-claimed").await;
    // An externally managed sandbox, which the plane does not reconcile.
    let body = json!({"sandbox_id": "s-registered", "org": "acme"});
    assert_eq!(api.call(OPERATOR, "POST", "/sandboxes", Some(body)).await.0, 201);
    api.harness.clock.advance_secs(4);
    let page = api.get("/monitoring/status").await;
    let counts =
        ["active_count", "stuck_count", "spec_sandbox_count"].map(|field| page[field].as_u64().unwrap());
    assert_eq!((counts, page["sandboxes"].as_array().unwrap().len()), ([2, 0, 0], 2), "{page}");
    assert_eq!((&page["next_cursor"], &page["has_more"]), (&Value::Null, &json!(false)));
    assert_eq!(page["timestamp"], "2026-01-05T12:00:10.000000Z");
    assert_eq!(
        *find_sandbox(&page, &working),
        json!({
            "sandbox_id": working, "status": "running", "stuck": false,
            "activity": {
                "last_event_at": "2026-01-05T12:00:05.000000Z", "last_work_at": "2026-01-05T12:00:05.000000Z",
                "last_heartbeat_at": "2026-01-05T12:00:00.000000Z", "heartbeat_status": "working", "idle_seconds": 5.0,
            },
            "phase_status": {
                "stage": "started", "since": "2026-01-05T12:00:00.000000Z", "task_id": first, "ticket_id": "k-1",
                "attempt": 1, "provider": "instant",
            },
        })
    );
    let entry = find_sandbox(&page, &claimed);
    assert_eq!((&entry["status"], &entry["phase_status"]["stage"]), (&json!("pending"), &json!("recorded")));
    assert_eq!(
        (&entry["phase_status"]["ticket_id"], &entry["activity"]["idle_seconds"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(api.get("/sandboxes/monitoring/status").await, page, "the OmoiOS alias");
}

#[tokio::test]
async fn stuck_sandboxes_are_those_the_next_sweep_ends() {
    let mut api = TaskApi::open().await;
    let mut sandboxes = Vec::new();
    for id in ["silent", "busy", "unreported"] {
        api.create(id, json!({})).await;
        let sandbox = if id == "unreported" { api.assign(id).await } else { api.start(id).await };
        sandboxes.push(sandbox);
    }
    let stuck = |page: &Value| -> Vec<String> {
        let all = page["sandboxes"].as_array().unwrap().iter();
        let mut stuck: Vec<String> = all
            .filter(|entry| entry["stuck"] == true)
            .map(|entry| entry["sandbox_id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(page["stuck_count"], stuck.len());
        stuck.sort();
        stuck
    };
    // A worker is stuck after two minutes without heartbeats, or three minutes without a first report. The sweep runs
    // every minute, as on AWS, because time without a sweep counts as downtime of the plane.
    for (minutes, expected) in [(1, vec![]), (2, vec![0]), (3, vec![0, 2])] {
        api.harness.clock.advance_secs(60);
        api.emit(&sandboxes[1], "agent.message", json!({"text": "I am at it."})).await;
        api.harness.take_jobs().await;
        let mut expected: Vec<String> =
            expected.into_iter().map(|n: usize| sandboxes[n].to_string()).collect();
        expected.sort();
        assert_eq!(stuck(&api.get("/monitoring/status").await), expected, "after {minutes} minutes");
        invoke(&api.plane, "sandboxes-sweep", &fixture("schedule-tick")).await.unwrap();
        let mut swept: Vec<String> = api
            .take_jobs("reconcile_sandbox")
            .await
            .iter()
            .map(|job| job["sandbox_id"].as_str().unwrap().to_owned())
            .collect();
        swept.sort();
        assert_eq!(swept, expected, "the sweep reconciles the same sandboxes");
    }
    api.reconcile(&sandboxes[0]).await;
    let page = api.get("/monitoring/status").await;
    assert_eq!(stuck(&page), [sandboxes[2].to_string()], "an ended sandbox is not stuck");
}

#[tokio::test]
async fn status_pages_continue_at_the_cursor_within_the_org() {
    let api = TaskApi::open().await;
    api.create("t", json!({})).await;
    for n in 0..204 {
        api.create(&format!("t-{n}"), json!({})).await;
    }
    let theirs = json!({"task_id": "theirs", "title": "Theirs", "org": "rival"});
    assert_eq!(api.call(OPERATOR, "POST", "/tasks", Some(theirs)).await.0, 201);
    api.claim("t").await;
    let rival = domain::OrgId::parse("rival").unwrap();
    app::tasks::dispatch::run(api.plane.orchestration().unwrap(), rival).await.unwrap();
    let page = async |token: &str, query: &str| {
        let (status, page) = api.call(token, "GET", &format!("/monitoring/status?{query}"), None).await;
        assert_eq!(status, 200, "{page}");
        page
    };
    let ids = |page: &Value| -> Vec<String> {
        page["sandboxes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["sandbox_id"].as_str().unwrap().to_owned())
            .collect()
    };
    for (token, org, expected) in [
        (&*api.member, "", 205_usize),
        (OPERATOR, "&org=acme", 205),
        (OPERATOR, "", 206),
        (&user("rival", "viewer"), "", 1),
    ] {
        let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = page(token, &format!("{cursor}{org}")).await;
            assert_eq!(page["active_count"], ids(&page).len());
            seen.extend(ids(&page));
            pages += 1;
            let Some(next) = page["next_cursor"].as_str() else { break };
            assert_eq!((Some(next), &page["has_more"]), (seen.last().map(String::as_str), &json!(true)));
            cursor = format!("cursor={next}");
        }
        let mut unique = seen.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(
            (&unique, seen.len(), pages),
            (&seen, expected, expected.div_ceil(200)),
            "sorted, without duplicates"
        );
    }
    assert_eq!(api.call(&api.member, "GET", "/monitoring/status?org=rival", None).await.0, 403);
    let (status, problem) = api.call(&api.member, "GET", "/monitoring/status?cursor=a%20b", None).await;
    assert_eq!((status, &problem["field"]), (422, &json!("cursor")));
    assert_eq!(api.harness.aws.store.slots(&acme()).await.unwrap().running, 205);
}

#[tokio::test]
async fn phase_status_follows_the_sandbox_lifecycle() {
    let api = TaskApi::open().await;
    api.create("t", json!({})).await;
    let sandbox = api.claim("t").await;
    let path = format!("/sandboxes/{sandbox}/phase-status");
    let stage = async || api.get(&path).await["phase_status"]["stage"].clone();
    assert_eq!(stage().await, "recorded");
    api.reconcile(&sandbox).await;
    let phase = api.get(&format!("/sandbox/{sandbox}/phase-status")).await;
    let expected = json!({
        "stage": "started", "since": "2026-01-05T12:00:01.000000Z", "task_id": "t", "ticket_id": null, "attempt": 1,
        "provider": "instant",
    });
    assert_eq!((&phase["sandbox_id"], &phase["phase_status"]), (&json!(sandbox), &expected));
    assert_eq!(phase["activity"]["last_event_at"], Value::Null, "its worker has not reported yet");
    api.harness.clock.advance_secs(9);
    api.emit(&sandbox, "agent.heartbeat", json!({"status": "idle"})).await;
    api.harness.clock.advance_secs(2);
    let activity = api.get(&path).await["activity"].clone();
    assert_eq!(
        (&activity["heartbeat_status"], &activity["idle_seconds"]),
        (&json!("idle"), &json!(2.0)),
        "{activity}"
    );
    // An externally managed sandbox has no phase.
    let body = json!({"sandbox_id": "s-registered", "org": "acme"});
    assert_eq!(api.call(OPERATOR, "POST", "/sandboxes", Some(body)).await.0, 201);
    assert_eq!(api.get("/sandboxes/s-registered/phase-status").await["phase_status"], Value::Null);
    assert_eq!(api.call(&user("rival", "admin"), "GET", &path, None).await.0, 404);
}
