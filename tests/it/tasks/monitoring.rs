//! How the sandboxes of tasks are doing, as people are told.

use super::{Desk, acme};
use crate::payloads::fixture;
use crate::stage::invoke;
use crate::support::{OPERATOR, user};
use serde_json::{Value, json};

/// One sandbox on a page.
fn shown<'a>(page: &'a Value, sandbox: &domain::SandboxId) -> &'a Value {
    let sandboxes = page["sandboxes"].as_array().unwrap();
    let found = sandboxes.iter().find(|one| one["sandbox_id"] == sandbox.as_str());
    found.unwrap_or_else(|| panic!("{sandbox} is not on the page: {page}"))
}

#[tokio::test]
async fn each_sandbox_is_shown_with_what_was_heard_of_it_and_how_far_it_has_come() {
    let desk = Desk::open().await;
    let ticket = desk.ticket("k-1").await;
    let first = ticket["task_id"].as_str().unwrap();
    let working = desk.start(first).await;
    desk.stage.clock.advance_secs(5);
    desk.tell(&working, "agent.tool_completed", json!({"tool": "Bash"})).await;
    desk.create("t-paper", json!({})).await;
    let on_paper = desk.claim("t-paper").await;
    // Somebody else runs this one: the plane does not look after it.
    let body = json!({"sandbox_id": "s-registered", "org": "acme"});
    assert_eq!(desk.ask(OPERATOR, "POST", "/sandboxes", Some(body)).await.0, 201);
    desk.stage.clock.advance_secs(4);
    let page = desk.get("/monitoring/status").await;
    let counts =
        ["active_count", "stuck_count", "spec_sandbox_count"].map(|field| page[field].as_u64().unwrap());
    assert_eq!((counts, page["sandboxes"].as_array().unwrap().len()), ([2, 0, 0], 2), "{page}");
    assert_eq!((&page["next_cursor"], &page["has_more"]), (&Value::Null, &json!(false)));
    assert_eq!(page["timestamp"], "2026-01-05T12:00:10.000000Z");
    assert_eq!(
        *shown(&page, &working),
        json!({
            "sandbox_id": working, "status": "running", "stuck": false,
            "activity": {
                "last_event_at": "2026-01-05T12:00:05.000000Z", "last_work_at": "2026-01-05T12:00:05.000000Z",
                "last_heartbeat_at": "2026-01-05T12:00:00.000000Z", "heartbeat_status": "working", "idle_seconds": 5.0,
            },
            "phase_status": {
                "stage": "started", "since": "2026-01-05T12:00:00.000000Z", "task_id": first, "ticket_id": "k-1",
                "attempt": 1, "provider": "shelf",
            },
        })
    );
    let paper = shown(&page, &on_paper);
    assert_eq!((&paper["status"], &paper["phase_status"]["stage"]), (&json!("pending"), &json!("recorded")));
    assert_eq!(
        (&paper["phase_status"]["ticket_id"], &paper["activity"]["idle_seconds"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(desk.get("/sandboxes/monitoring/status").await, page, "as OmoiOS spells it");
}

#[tokio::test]
async fn what_is_called_stuck_is_what_the_next_sweep_ends() {
    let mut desk = Desk::open().await;
    let mut sandboxes = Vec::new();
    for id in ["silent", "busy", "unheard"] {
        desk.create(id, json!({})).await;
        let sandbox = if id == "unheard" { desk.assign(id).await } else { desk.start(id).await };
        sandboxes.push(sandbox);
    }
    let stuck = |page: &Value| -> Vec<String> {
        let all = page["sandboxes"].as_array().unwrap().iter();
        let mut stuck: Vec<String> = all
            .filter(|one| one["stuck"] == true)
            .map(|one| one["sandbox_id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(page["stuck_count"], stuck.len());
        stuck.sort();
        stuck
    };
    // (after so many minutes, who has gone too far): a worker is silent for two minutes, or never heard in three. The
    // plane looks every minute, as it does on AWS: what it does not listen to is no silence.
    for (minutes, expected) in [(1, vec![]), (2, vec![0]), (3, vec![0, 2])] {
        desk.stage.clock.advance_secs(60);
        desk.tell(&sandboxes[1], "agent.message", json!({"text": "I am at it."})).await;
        desk.stage.jobs().await;
        let mut expected: Vec<String> =
            expected.into_iter().map(|n: usize| sandboxes[n].to_string()).collect();
        expected.sort();
        assert_eq!(stuck(&desk.get("/monitoring/status").await), expected, "after {minutes} minutes");
        invoke(&desk.plane, "sandboxes-sweep", &fixture("schedule-tick")).await.unwrap();
        let mut swept: Vec<String> = desk
            .jobs("tend_sandbox")
            .await
            .iter()
            .map(|job| job["sandbox_id"].as_str().unwrap().to_owned())
            .collect();
        swept.sort();
        assert_eq!(swept, expected, "the sweep agrees");
    }
    desk.tend(&sandboxes[0]).await;
    let page = desk.get("/monitoring/status").await;
    assert_eq!(stuck(&page), [sandboxes[2].to_string()], "who was ended is not stuck any more");
}

#[tokio::test]
async fn a_page_goes_on_behind_its_last_and_tells_nothing_of_others() {
    let desk = Desk::open().await;
    desk.create("t", json!({})).await;
    for n in 0..204 {
        desk.create(&format!("t-{n}"), json!({})).await;
    }
    let theirs = json!({"task_id": "theirs", "title": "Theirs", "org": "rival"});
    assert_eq!(desk.ask(OPERATOR, "POST", "/tasks", Some(theirs)).await.0, 201);
    desk.claim("t").await;
    let rival = domain::OrgId::parse("rival").unwrap();
    app::tasks::dispatch::run(desk.plane.orchestration().unwrap(), rival).await.unwrap();
    let page = async |token: &str, query: &str| {
        let (status, page) = desk.ask(token, "GET", &format!("/monitoring/status?{query}"), None).await;
        assert_eq!(status, 200, "{page}");
        page
    };
    let ids = |page: &Value| -> Vec<String> {
        page["sandboxes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["sandbox_id"].as_str().unwrap().to_owned())
            .collect()
    };
    for (token, org, expected) in [
        (&*desk.member, "", 205_usize),
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
        let mut once = seen.clone();
        once.sort();
        once.dedup();
        assert_eq!(
            (&once, seen.len(), pages),
            (&seen, expected, expected.div_ceil(200)),
            "sorted, and none twice"
        );
    }
    assert_eq!(desk.ask(&desk.member, "GET", "/monitoring/status?org=rival", None).await.0, 403);
    let (status, problem) = desk.ask(&desk.member, "GET", "/monitoring/status?cursor=a%20b", None).await;
    assert_eq!((status, &problem["field"]), (422, &json!("cursor")));
    assert_eq!(desk.stage.aws.store.slots(&acme()).await.unwrap().running, 205);
}

#[tokio::test]
async fn a_sandbox_tells_its_phase_from_the_record_to_the_end() {
    let desk = Desk::open().await;
    desk.create("t", json!({})).await;
    let sandbox = desk.claim("t").await;
    let path = format!("/sandboxes/{sandbox}/phase-status");
    let stage = async || desk.get(&path).await["phase_status"]["stage"].clone();
    assert_eq!(stage().await, "recorded");
    desk.tend(&sandbox).await;
    let phase = desk.get(&format!("/sandbox/{sandbox}/phase-status")).await;
    let expected = json!({
        "stage": "started", "since": "2026-01-05T12:00:01.000000Z", "task_id": "t", "ticket_id": null, "attempt": 1,
        "provider": "shelf",
    });
    assert_eq!((&phase["sandbox_id"], &phase["phase_status"]), (&json!(sandbox), &expected));
    assert_eq!(phase["activity"]["last_event_at"], Value::Null, "its worker was not heard yet");
    desk.stage.clock.advance_secs(9);
    desk.tell(&sandbox, "agent.heartbeat", json!({"status": "idle"})).await;
    desk.stage.clock.advance_secs(2);
    let activity = desk.get(&path).await["activity"].clone();
    assert_eq!(
        (&activity["heartbeat_status"], &activity["idle_seconds"]),
        (&json!("idle"), &json!(2.0)),
        "{activity}"
    );
    // Somebody else runs this one, and the plane knows of no phase.
    let body = json!({"sandbox_id": "s-registered", "org": "acme"});
    assert_eq!(desk.ask(OPERATOR, "POST", "/sandboxes", Some(body)).await.0, 201);
    assert_eq!(desk.get("/sandboxes/s-registered/phase-status").await["phase_status"], Value::Null);
    assert_eq!(desk.ask(&user("rival", "admin"), "GET", &path, None).await.0, 404);
}
