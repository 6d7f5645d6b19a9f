//! Listing tasks.

use super::{TaskApi, ids};
use crate::support::{OPERATOR, user};
use app::tasks;
use app::tasks::list::Filter;
use contract::tasks::TaskOut;
use domain::access::Principal;
use serde_json::{Value, json};

/// Reads all pages; returns the task ids and the number of pages.
async fn read_all(api: &TaskApi, query: &str) -> (Vec<String>, usize) {
    let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = api.get(&format!("/tasks?{query}{cursor}")).await;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        pages += 1;
        assert_eq!(page["has_more"], page["next_cursor"].is_string(), "{query}");
        let Some(next) = page["next_cursor"].as_str() else { return (seen, pages) };
        cursor = format!("&cursor={}", next.replace('#', "%23"));
    }
}

#[tokio::test]
async fn pages_are_newest_first_without_gaps_or_duplicates() {
    let api = TaskApi::open().await;
    api.create_ticket("k-1").await;
    for n in 1..=7 {
        let ticket = if n % 2 == 0 { json!("k-1") } else { Value::Null };
        api.create(&format!("t-{n}"), json!({"ticket_id": ticket, "task_type": "step"})).await;
    }
    for (query, expected, max_pages) in [
        ("limit=2&task_type=step", "t-7 t-6 t-5 t-4 t-3 t-2 t-1", 4),
        ("limit=7&task_type=step", "t-7 t-6 t-5 t-4 t-3 t-2 t-1", 2),
        ("limit=1&ticket_id=k-1&task_type=step", "t-6 t-4 t-2", 4),
        ("limit=3&status=pending&task_type=step", "t-7 t-6 t-5 t-4 t-3 t-2 t-1", 4),
    ] {
        let (seen, pages) = read_all(&api, query).await;
        assert_eq!(seen.join(" "), expected, "{query}");
        assert!(pages <= max_pages, "{query}: {pages} pages");
    }
    let (seen, _) = read_all(&api, "limit=3").await;
    assert_eq!(seen.len(), 8, "the ticket's first task too: {seen:?}");
    assert_eq!(seen[..7].join(" "), "t-7 t-6 t-5 t-4 t-3 t-2 t-1");
}

#[tokio::test]
async fn each_filter_returns_exactly_the_matching_tasks() {
    let api = TaskApi::open().await;
    let first = api.create_ticket("k-1").await["task_id"].as_str().unwrap().to_owned();
    api.create(
        "t-tests",
        json!({"task_type": "write_tests", "ticket_id": "k-1", "phase_id": "PHASE_TESTING"}),
    )
    .await;
    api.create("t-project", json!({"project_id": "p-1", "depends_on": ["t-tests"]})).await;
    let (status, _) = api.post("/tasks/t-tests/cancel", json!({})).await;
    assert_eq!(status, 200);
    // A failed first attempt and a running second one.
    let older = api.start(&first).await;
    api.emit(&older, "agent.failed", json!({"error": "the model is away (503)"})).await;
    api.reconcile(&older).await;
    api.harness.clock.advance_secs(120);
    api.run_job(&contract::jobs::Job::ReconcileTask { task_id: super::task_id(&first) }).await;
    let newer = api.start(&first).await;
    assert_ne!(older, newer);
    let first = first.as_str();
    for (query, expected) in [
        ("status=pending", vec!["t-project"]),
        ("status=cancelled", vec!["t-tests"]),
        ("status=cancelled,running", vec!["t-tests", first]),
        ("status=completed", vec![]),
        ("task_type=write_tests", vec!["t-tests"]),
        ("task_type=sandbox", vec![first]),
        ("task_type=sandbox&status=pending", vec![]),
        ("has_sandbox=true", vec![first]),
        ("has_sandbox=false", vec!["t-project", "t-tests"]),
        ("phase_id=PHASE_TESTING", vec!["t-tests"]),
        ("project_id=p-1", vec!["t-project"]),
        ("ticket_id=k-1", vec!["t-tests", first]),
        ("ticket_id=k-1&has_sandbox=true", vec![first]),
        ("ticket_id=missing", vec![]),
        (&format!("sandbox_id={newer}"), vec![first]),
        (&format!("sandbox_id={older}"), vec![first]),
        (&format!("sandbox_id={older}&status=pending"), vec![]),
        ("sandbox_id=missing", vec![]),
    ] {
        let page = api.get(&format!("/tasks?{query}")).await;
        assert_eq!(ids(&page), expected, "{query}");
        assert_eq!((&page["next_cursor"], &page["has_more"]), (&Value::Null, &json!(false)), "{query}");
    }
}

#[tokio::test]
async fn sparse_matches_are_found_across_empty_pages() {
    let api = TaskApi::open().await;
    api.create_ticket("k-1").await;
    api.create("t-old", json!({"task_type": "needle", "ticket_id": "k-1"})).await;
    api.create("t", json!({"ticket_id": "k-1"})).await;
    api.add_copies("t", 1_000).await;
    for query in ["task_type=needle", "task_type=needle&ticket_id=k-1"] {
        let page = api.get(&format!("/tasks?{query}")).await;
        assert_eq!(
            (ids(&page), &page["has_more"]),
            (vec![], &json!(true)),
            "{query}: the scan limit of one request is reached"
        );
        assert_eq!(read_all(&api, query).await, (vec!["t-old".to_owned()], 2), "{query}");
    }
}

#[tokio::test]
async fn filter_by_a_foreign_ticket_returns_nothing() {
    let api = TaskApi::open().await;
    api.create_ticket("k-1").await;
    api.create("t", json!({"ticket_id": "k-1"})).await;
    for (token, query) in
        [(user("rival", "admin"), "ticket_id=k-1"), (OPERATOR.into(), "ticket_id=k-1&org=rival")]
    {
        let (status, page) = api.call(&token, "GET", &format!("/tasks?{query}"), None).await;
        assert_eq!(
            (status, page),
            (200, json!({"tasks": [], "next_cursor": null, "has_more": false})),
            "{query}"
        );
    }
}

#[tokio::test]
async fn page_size_in_bytes_is_bounded() {
    let api = TaskApi::open().await;
    // Six megabytes in total.
    api.create("t", json!({"description": "x".repeat(100_000)})).await;
    api.add_copies("t", 59).await;
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let command = tasks::list::Command {
            principal: Principal::operator("local"),
            org: None,
            filter: Filter::default(),
            cursor,
            limit: 100,
        };
        let page =
            tasks::list::run(tasks::list::Deps { store: &api.harness.aws.store }, command).await.unwrap();
        let now = app::Clock::now(api.harness.clock.as_ref());
        let shown: Vec<TaskOut> =
            page.tasks.iter().map(|task| TaskOut::new(task, &Default::default(), now)).collect();
        assert!(json!(shown).to_string().len() < 4 * 1024 * 1024);
        seen.extend(page.tasks.into_iter().map(|task| task.id.to_string()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let mut expected: Vec<String> = (0..59).rev().map(|n| format!("t-{n:05}")).collect();
    expected.push("t".to_owned());
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn list_is_limited_to_the_callers_org() {
    let api = TaskApi::open().await;
    api.create("t-1", json!({})).await;
    api.harness.clock.advance_secs(1);
    let theirs = json!({"task_id": "t-2", "title": "Theirs", "org": "rival"});
    assert_eq!(api.call(OPERATOR, "POST", "/tasks", Some(theirs)).await.0, 201);
    let sandbox = api.start("t-1").await;
    let rival = user("rival", "admin");
    for (token, query, expected) in [
        (&*api.member, String::new(), vec!["t-1"]),
        (&api.member, "org=acme".into(), vec!["t-1"]),
        (&rival, String::new(), vec!["t-2"]),
        (&rival, "has_sandbox=true".into(), vec![]),
        (&rival, format!("sandbox_id={sandbox}"), vec![]),
        (OPERATOR, String::new(), vec!["t-2", "t-1"]),
        (OPERATOR, "org=rival".into(), vec!["t-2"]),
        (OPERATOR, format!("sandbox_id={sandbox}"), vec!["t-1"]),
        (OPERATOR, format!("sandbox_id={sandbox}&org=rival"), vec![]),
    ] {
        let (status, page) = api.call(token, "GET", &format!("/tasks?{query}"), None).await;
        assert_eq!((status, ids(&page)), (200, expected), "{query}");
    }
    assert_eq!(api.call(&api.member, "GET", "/tasks?org=rival", None).await.0, 403);
    assert_eq!(api.call(&api.worker_token(&sandbox).await, "GET", "/tasks", None).await.0, 403);
}

#[tokio::test]
async fn invalid_query_parameter_is_named() {
    let api = TaskApi::open().await;
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("cursor=nonsense", "cursor"),
        ("cursor=yesterday%23t-1", "cursor"),
        ("status=open", "status"),
        ("status=pending,open", "status"),
        ("has_sandbox=yes", "has_sandbox"),
        ("sandbox_id=a%20b", "sandbox_id"),
        ("ticket_id=a%20b", "ticket_id"),
        ("project_id=a%20b", "project_id"),
        ("org=a%20b", "org"),
    ] {
        let (status, problem) = api.call(&api.member, "GET", &format!("/tasks?{query}"), None).await;
        assert_eq!((status, &problem["field"]), (422, &json!(field)), "{query}: {problem}");
    }
}
