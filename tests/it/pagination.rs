//! Pages of events, the trajectory, histories and lists.

use crate::support::{OPERATOR, TestPlane, batch};
use app::events;
use app::events::history::Order;
use domain::access::{Principal, Role};
use domain::{Entity, OrgId, SandboxId, TaskId, TicketId};
use serde_json::{Value, json};

/// A plane with a log of 250 events, in segments of every size from 1 to 21.
async fn plane_with_events() -> TestPlane {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut next = 1;
    for number in 1.. {
        let count = (number % 22).max(1).min(251 - next);
        plane.post_events("s-1", &worker, batch(1, number, next, count)).await.ok();
        next += count;
        if next > 250 {
            return plane;
        }
    }
    unreachable!()
}

fn seqs(page: &Value) -> Vec<u64> {
    page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn event_pages_of_any_size_and_start_are_exact() {
    let plane = plane_with_events().await;
    for limit in [1, 7, 100, 500] {
        for start in [0, 1, 17, 99, 249, 250, 1_000] {
            let path = format!("/api/v1/sandboxes/s-1/events?after_seq={start}&limit={limit}");
            let page = plane.get(&path, OPERATOR).await.ok();
            let expected: Vec<u64> = (start + 1..=250).take(limit).collect();
            assert_eq!(seqs(&page), expected, "{path}");
            assert_eq!(page["has_more"], start + (limit as u64) < 250, "{path}");
            let path = format!("/api/v1/sandboxes/s-1/events?before_seq={}&limit={limit}", start.max(1));
            let page = plane.get(&path, OPERATOR).await.ok();
            let expected: Vec<u64> = (1..start.clamp(1, 251)).rev().take(limit).collect();
            assert_eq!(seqs(&page), expected, "{path}");
        }
    }
    let newest = plane.get("/api/v1/sandboxes/s-1/events", OPERATOR).await.ok();
    assert_eq!(seqs(&newest), (151..=250).rev().collect::<Vec<_>>());
    assert_eq!((&newest["total_count"], &newest["last_seq"]), (&json!(250), &json!(250)));
    let between = plane.get("/api/v1/sandboxes/s-1/events?after_seq=10&before_seq=15", OPERATOR).await.ok();
    assert_eq!(seqs(&between), [14, 13, 12, 11]);
}

#[tokio::test]
async fn filtered_pages_have_exact_counts_and_a_next_cursor() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for n in 0..30 {
        let rare = n % 10 == 0;
        let (name, source) = if rare { ("agent.error", "worker") } else { ("agent.message", "agent") };
        plane.post_events("s-1", &worker, json!({"event_type": name, "source": source})).await.ok();
    }
    let page =
        async |query: &str| plane.get(&format!("/api/v1/sandboxes/s-1/events?{query}"), OPERATOR).await.ok();
    let errors = page("event_type=agent.error&order=oldest").await;
    assert_eq!((seqs(&errors), &errors["total_count"]), (vec![1, 11, 21], &json!(3)));
    let both = page("event_type=agent.error&event_type=agent.message&limit=500").await;
    assert_eq!((seqs(&both).len(), &both["total_count"]), (30, &json!(30)));
    assert_eq!(seqs(&page("source=worker").await), [21, 11, 1]);
    assert_eq!(page("source=agent&event_type=agent.error").await["total_count"], 0);
    // Page through a filter with few matches, one event at a time.
    let (mut found, mut before) = (Vec::new(), 31);
    loop {
        let page = page(&format!("event_type=agent.error&limit=1&before_seq={before}")).await;
        found.extend(seqs(&page));
        if page["has_more"] == false {
            break;
        }
        before = page["next_before_seq"].as_u64().expect("a page with more has a cursor");
    }
    assert_eq!(found, [21, 11, 1]);
}

#[tokio::test]
async fn invalid_query_parameter_is_named() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    for (path, field) in [
        ("events?limit=0", "limit"),
        ("events?limit=501", "limit"),
        ("events?limit=ten", "limit"),
        ("events?after_seq=-1", "after_seq"),
        ("events?before_seq=0", "before_seq"),
        ("events?order=sideways", "order"),
        ("events?source=robot", "source"),
        ("events?offset=100", "offset"),
        ("trajectory?cursor=abc", "cursor"),
        ("trajectory?direction=sideways", "direction"),
        ("trajectory?limit=1001", "limit"),
        ("events/x/body", "seq"),
    ] {
        let response = plane.get(&format!("/api/v1/sandboxes/s-1/{path}"), OPERATOR).await;
        assert_eq!((response.status, response.body["field"].as_str()), (422, Some(field)), "{path}");
    }
    assert_eq!(plane.get("/api/v1/sandboxes?cursor=nonsense", OPERATOR).await.body["field"], "cursor");
    assert_eq!(plane.get("/api/v1/sandboxes/s-1/events/1/body", OPERATOR).await.status, 404);
    assert_eq!(plane.get("/api/v1/sandboxes/s-9/events", OPERATOR).await.status, 404);
}

#[tokio::test]
async fn trajectory_is_paged_completely_in_both_directions() {
    let plane = plane_with_events().await;
    let heartbeat = json!({"event_type": "agent.heartbeat"});
    plane.post_events("s-1", OPERATOR, heartbeat.clone()).await.ok();
    plane.post_events("s-1", OPERATOR, heartbeat).await.ok();
    let page = async |query: String| {
        plane.get(&format!("/api/v1/sandboxes/s-1/trajectory?limit=60{query}"), OPERATOR).await.ok()
    };
    let first = page(String::new()).await;
    assert_eq!((&first["total_events"], &first["trajectory_events"]), (&json!(252), &json!(250)));
    assert_eq!(first["heartbeat_summary"]["count"], 2);
    assert!(first["heartbeat_summary"]["last_heartbeat"].is_string());
    let (mut older, mut current) = (seqs(&first), first);
    while current["has_more"] == true {
        current = page(format!("&cursor={}", current["next_cursor"].as_str().unwrap())).await;
        older.extend(seqs(&current));
    }
    assert_eq!(older, (1..=250).rev().collect::<Vec<_>>());
    assert_eq!(current["next_cursor"], Value::Null, "the log has no older events");
    let mut newer = vec![1];
    let mut cursor = "1".to_owned();
    loop {
        let current = page(format!("&direction=newer&cursor={cursor}")).await;
        newer.extend(seqs(&current).into_iter().rev());
        cursor = current["prev_cursor"].as_str().unwrap().to_owned();
        if current["has_more"] == false {
            break;
        }
    }
    assert_eq!(newer, (1..=250).collect::<Vec<_>>());
    // The cursor at the end stays valid, so that a client can poll for new events.
    let end = page(format!("&direction=newer&cursor={cursor}")).await;
    assert_eq!((seqs(&end), end["prev_cursor"].as_str()), (vec![], Some("250")));
}

#[tokio::test]
async fn page_of_large_events_is_cut_and_has_a_next_cursor() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let text = "y".repeat(200_000);
    for _ in 0..40 {
        let event = json!({"event_type": "agent.message", "event_data": {"text": text}});
        plane.post_events("s-1", &worker, event).await.ok();
    }
    let page = plane.get("/api/v1/sandboxes/s-1/events?limit=500&order=oldest", OPERATOR).await.ok();
    assert!(page.to_string().len() < 6_000_000 && page["has_more"] == true);
    assert_eq!(plane.log("s-1").await.len(), 40);
}

#[tokio::test]
async fn sandbox_list_is_paged_newest_first() {
    let plane = TestPlane::start().await;
    for n in 0..7 {
        plane.register(&format!("s-{n}"), "acme").await;
    }
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = plane.get(&format!("/api/v1/sandboxes?limit=3{cursor}"), OPERATOR).await.ok();
        let list = page["sandboxes"].as_array().unwrap();
        ids.extend(list.iter().map(|sandbox| sandbox["sandbox_id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={}", next.replace('#', "%23")),
            None => break,
        }
    }
    assert_eq!(ids, ["s-6", "s-5", "s-4", "s-3", "s-2", "s-1", "s-0"]);
}

fn viewer(org: &str) -> Principal {
    Principal::User { id: "u".into(), org: OrgId::parse(org).unwrap(), role: Role::Viewer }
}

/// A page of a history, or the entity that was not found.
async fn history(plane: &TestPlane, command: events::history::Command) -> Result<Value, String> {
    let page = events::history::run(events::history::Deps { store: &plane.running.aws.store }, command).await;
    match page {
        Ok(page) => Ok(serde_json::to_value(&page).unwrap()),
        Err(app::Error::NotFound(entity)) => Err(entity),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn task_history_is_paged_like_a_sandbox_log() {
    let plane = TestPlane::start().await;
    let entity = Entity::Task(TaskId::parse("t-1").unwrap());
    let mut stored = 0;
    for count in [1, 5, 2, 12] {
        plane.put_history(&entity, "acme", stored, &vec!["task.updated"; count]).await;
        stored += count as u64;
    }
    let command = |after_seq, before_seq, order, limit| events::history::Command {
        principal: viewer("acme"),
        entity: entity.clone(),
        after_seq,
        before_seq,
        order,
        limit,
    };
    for limit in [1, 7, 500] {
        for start in [0, 1, 4, 19, 20, 1_000] {
            let page = history(&plane, command(start, None, Order::Oldest, limit)).await.unwrap();
            assert_eq!(seqs(&page), (start + 1..=20).take(limit).collect::<Vec<_>>(), "after {start}");
            assert_eq!(page["has_more"], start + (limit as u64) < 20);
            assert_eq!(page["next_after_seq"].as_u64(), Some(seqs(&page).last().copied().unwrap_or(start)));
            let page = history(&plane, command(0, Some(start.max(1)), Order::Newest, limit)).await.unwrap();
            let expected: Vec<u64> = (1..start.clamp(1, 21)).rev().take(limit).collect();
            assert_eq!(seqs(&page), expected, "before {start}");
        }
    }
    let page = history(&plane, command(0, None, Order::Oldest, 1)).await.unwrap();
    assert_eq!(
        page,
        json!({
            "task_id": "t-1", "total_count": 20, "last_seq": 20, "has_more": true, "next_after_seq": 1,
            "next_before_seq": null,
            "events": [{
                "id": "e-1", "seq": 1, "task_id": "t-1", "event_type": "task.updated", "event_data": {"n": 1},
                "source": "system", "created_at": "2026-01-05T12:00:00.000000Z", "emitted_at": null,
            }],
        })
    );
}

#[tokio::test]
async fn history_of_another_org_is_not_found() {
    let plane = TestPlane::start().await;
    plane.register("x-1", "acme").await;
    let task = Entity::Task(TaskId::parse("x-1").unwrap());
    let ticket = Entity::Ticket(TicketId::parse("x-1").unwrap());
    plane.put_history(&task, "acme", 0, &["task.created"]).await;
    plane.put_history(&ticket, "acme", 0, &["ticket.created", "ticket.approved"]).await;
    let read = async |principal: &Principal, entity: &Entity| {
        let (principal, entity) = (principal.clone(), entity.clone());
        let command = events::history::Command {
            principal,
            entity,
            after_seq: 0,
            before_seq: None,
            order: Order::Newest,
            limit: 10,
        };
        history(&plane, command).await
    };
    for principal in [viewer("acme"), Principal::operator("local")] {
        let page = read(&principal, &task).await.unwrap();
        assert_eq!((&page["task_id"], seqs(&page)), (&json!("x-1"), vec![1]));
        let page = read(&principal, &ticket).await.unwrap();
        assert_eq!((&page["ticket_id"], seqs(&page)), (&json!("x-1"), vec![2, 1]));
        let missing = Entity::Task(TaskId::parse("x-2").unwrap());
        assert_eq!(read(&principal, &missing).await, Err("Task x-2".to_owned()));
    }
    let worker = Principal::Worker { sandbox: SandboxId::parse("x-1").unwrap(), generation: 1 };
    for principal in [viewer("rival"), worker, Principal::Anonymous] {
        assert_eq!(read(&principal, &task).await, Err("Task x-1".to_owned()), "{principal:?}");
        assert_eq!(read(&principal, &ticket).await, Err("Ticket x-1".to_owned()), "{principal:?}");
    }
}
