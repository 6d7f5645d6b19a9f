//! Creating tasks.

use super::{TaskApi, acme, ids, task_id};
use crate::support::{OPERATOR, user};
use app::Clock;
use app::orchestration::Agents;
use domain::task::Status;
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test]
async fn created_task_stores_every_field_and_is_queued() {
    let mut api = TaskApi::open().await;
    let ticket = api.create_ticket("k-1").await;
    api.harness.take_jobs().await;
    let spec = json!({
        "ticket_id": "k-1", "project_id": "p-1", "task_type": "write_tests", "title": " Test it ",
        "description": "All of it.\n", "priority": "high", "phase_id": "PHASE_TESTING",
        "deadline_at": "2026-01-06T12:00:00Z", "timeout_seconds": 600, "max_retries": 1, "validation": true,
        "agent": "scripted:hello.jsonl", "model": "m-1", "repository": "acme/shop", "branch": "b", "provider": "instant",
        "memory_gb": 8, "cpu": 4, "disk_gb": 10, "snapshot": "s", "continuous": true,
    });
    let shown = api.create("t-1", spec).await;
    for (field, expected) in [
        ("id", json!("t-1")),
        ("ticket_id", json!("k-1")),
        ("project_id", json!("p-1")),
        ("task_type", json!("write_tests")),
        ("title", json!("Test it")),
        ("description", json!("All of it.\n")),
        ("priority", json!("HIGH")),
        ("phase_id", json!("PHASE_TESTING")),
        ("status", json!("pending")),
        ("deadline_at", json!("2026-01-06T12:00:00.000000Z")),
        ("timeout_seconds", json!(600)),
        ("max_retries", json!(1)),
        ("validation", json!(true)),
        ("sandbox_id", Value::Null),
        ("blocked", json!(false)),
        ("dependencies", json!({"depends_on": []})),
    ] {
        assert_eq!(shown[field], expected, "{field}");
    }
    assert_eq!(api.get("/tasks/t-1").await, shown);
    let execution = serde_json::to_value(api.stored("t-1").await.execution).unwrap();
    assert_eq!(
        execution,
        json!({
            "agent": "scripted:hello.jsonl", "model": "m-1", "repository": "acme/shop", "branch": "b",
            "provider": "instant", "memory_gb": 8, "cpu": 4, "disk_gb": 10, "snapshot": "s", "continuous": true,
        })
    );
    assert_eq!(api.harness.take_jobs().await, [json!({"job": "dispatch", "org": "acme"})]);
    assert_eq!(api.event_types("t-1").await, ["task.created", "task.ready"]);
    let first = ticket["task_id"].as_str().unwrap();
    assert_eq!(api.queue().await, [first, "t-1"], "tasks with and without a project are both queued");
    let due = api
        .harness
        .aws
        .store
        .due_candidates(&acme(), None, api.harness.clock.now().plus_secs(90_000), 9)
        .await
        .unwrap();
    assert_eq!(due.items[0].id, task_id("t-1"));
}

/// `contract::tasks` tests the rules of each field.
#[tokio::test]
async fn invalid_request_names_the_field_and_stores_nothing() {
    let mut api = TaskApi::open().await;
    let foreign = json!({"task_id": "theirs", "title": "Theirs", "org": "rival"});
    assert_eq!(api.call(OPERATOR, "POST", "/tasks", Some(foreign)).await.0, 201);
    let foreign = json!({"ticket_id": "k-theirs", "title": "Theirs", "org": "rival"});
    assert_eq!(api.call(OPERATOR, "POST", "/tickets", Some(foreign)).await.0, 201);
    api.harness.take_jobs().await;
    for (body, status, field) in [
        (json!([]), 422, "body"),
        (json!({}), 422, "title"),
        (json!({"title": "t", "task_id": "a b"}), 422, "task_id"),
        (json!({"title": "t", "priority": "URGENT"}), 422, "priority"),
        (json!({"title": "t", "task_type": "sandbox"}), 422, "task_type"),
        (json!({"title": "t", "description": "x".repeat(100_001)}), 413, "description"),
        (json!({"title": "t", "timeout_seconds": 0}), 422, "timeout_seconds"),
        (json!({"title": "t", "timeout_seconds": 604_801}), 422, "timeout_seconds"),
        (json!({"title": "t", "max_retries": 11}), 422, "max_retries"),
        (json!({"title": "t", "memory_gb": 9}), 422, "memory_gb"),
        (json!({"title": "t", "deadline_at": "soon"}), 422, "deadline_at"),
        (json!({"title": "t", "task_id": "t-1", "depends_on": ["t-1"]}), 422, "depends_on"),
        (json!({"title": "t", "depends_on": ["missing"]}), 422, "depends_on[0]"),
        (json!({"title": "t", "depends_on": ["theirs"]}), 422, "depends_on[0]"),
        (json!({"title": "t", "ticket_id": "missing"}), 422, "ticket_id"),
        (json!({"title": "t", "ticket_id": "k-theirs"}), 422, "ticket_id"),
    ] {
        let (seen, problem) = api.post("/tasks", body.clone()).await;
        assert_eq!((seen, &problem["field"]), (status, &json!(field)), "{body}: {problem}");
    }
    assert!(ids(&api.get("/tasks").await).is_empty());
    assert!(api.queue().await.is_empty());
    assert!(api.harness.take_jobs().await.is_empty());
}

#[tokio::test]
async fn task_creation_is_idempotent_and_id_conflicts_are_rejected() {
    let api = TaskApi::open().await;
    api.create("t-0", json!({})).await;
    let spec = json!({"task_id": "t-1", "title": "Fix it", "depends_on": ["t-0"]});
    let (status, first) = api.post("/tasks", spec.clone()).await;
    assert_eq!(status, 201, "{first}");
    assert_eq!(api.post("/tasks", spec.clone()).await, (200, first));
    // An equivalent request is a retry too, even after the task has changed.
    api.complete("t-0").await;
    let same = json!({"title": " Fix it ", "dependencies": {"depends_on": ["t-0"]}, "task_id": "t-1"});
    let (status, again) = api.post("/tasks", same).await;
    assert_eq!((status, &again["blocked"]), (200, &json!(false)));
    assert_eq!(api.event_types("t-1").await, ["task.created", "task.ready"]);
    assert_eq!(api.stored("t-0").await.dependents, 0);
    let before = api.stored("t-1").await;
    for (field, value) in [("title", json!("Break it")), ("depends_on", json!([])), ("cpu", json!(1))] {
        let mut other = spec.clone();
        other[field] = value;
        let (status, problem) = api.post("/tasks", other).await;
        assert_eq!((status, &problem["code"]), (409, &json!("task_exists")), "{field}: {problem}");
    }
    // Another org learns only that the id is taken.
    let (status, problem) = api.call(&user("rival", "admin"), "POST", "/tasks", Some(spec)).await;
    assert_eq!((status, &problem["code"]), (409, &json!("task_exists")));
    assert!(!problem.to_string().contains("acme"), "{problem}");
    assert_eq!(api.stored("t-1").await, before);
}

#[tokio::test]
async fn concurrent_creations_with_one_id_create_one_task() {
    let api = TaskApi::open().await;
    api.create("t-0", json!({})).await;
    let create = || api.post("/tasks", json!({"task_id": "t-1", "title": "Fix it", "depends_on": ["t-0"]}));
    let (first, second, third) = tokio::join!(create(), create(), create());
    let mut statuses = [first.0, second.0, third.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 201]);
    assert_eq!((&first.1, &second.1), (&second.1, &third.1));
    assert_eq!(api.event_types("t-1").await, ["task.created"]);
    assert_eq!(api.stored("t-0").await.dependents, 1);
    super::consistency::check_counters(&api).await;
}

#[tokio::test]
async fn unapproved_ticket_accepts_no_tasks() {
    let api = TaskApi::with_approval().await;
    let create = async |id: &str, ticket: &str| {
        api.post("/tasks", json!({"task_id": id, "title": "Start anyway", "ticket_id": ticket})).await
    };
    for ticket in ["k-waits", "k-rejected", "k-late", "k-approved"] {
        api.create_ticket(ticket).await;
    }
    let no = json!({"rejection_reason": "No."});
    assert_eq!(api.post("/tickets/k-rejected/reject", no).await.0, 200);
    assert_eq!(api.call(OPERATOR, "POST", "/tickets/k-approved/approve", Some(json!({}))).await.0, 200);
    for (ticket, approval) in
        [("k-waits", "pending_review"), ("k-rejected", "rejected"), ("k-late", "timed_out")]
    {
        if ticket == "k-late" {
            api.harness.clock.advance_secs(61);
            api.run_job(&contract::jobs::Job::ReconcileTicket {
                ticket_id: domain::TicketId::parse(ticket).unwrap(),
            })
            .await;
        }
        let (status, problem) = create("t-1", ticket).await;
        assert_eq!((status, &problem["code"]), (409, &json!("ticket_not_approved")), "{problem}");
        assert_eq!((&problem["ticket_id"], &problem["approval_status"]), (&json!(ticket), &json!(approval)));
        assert!(problem["detail"].as_str().unwrap().contains("is not approved"), "{problem}");
        assert!(ids(&api.get(&format!("/tasks?ticket_id={ticket}")).await).is_empty());
    }
    assert_eq!(create("t-1", "k-approved").await.0, 201);
    assert_eq!(ids(&api.get("/tasks?ticket_id=k-approved").await).len(), 2);
}

#[tokio::test]
async fn only_operators_may_create_for_another_org() {
    let api = TaskApi::open().await;
    let spec = |id: &str, org: Option<&str>| Some(json!({"task_id": id, "title": "Fix it", "org": org}));
    assert_eq!(api.call(OPERATOR, "POST", "/tasks", spec("t-1", Some("acme"))).await.0, 201);
    assert_eq!(api.call(OPERATOR, "POST", "/tasks", spec("t-2", None)).await.0, 201);
    assert_eq!(api.stored("t-2").await.org.as_str(), "default");
    assert_eq!(api.call(&api.member, "POST", "/tasks", spec("t-3", Some("rival"))).await.0, 403);
    assert_eq!(api.call(&api.member, "POST", "/tasks", spec("t-3", None)).await.0, 201);
    assert_eq!(api.call(&user("acme", "viewer"), "POST", "/tasks", spec("t-4", None)).await.0, 403);
    let mut seen = ids(&api.get("/tasks").await).into_iter().map(str::to_owned).collect::<Vec<_>>();
    seen.sort();
    assert_eq!(seen, ["t-1", "t-3"]);
}

#[tokio::test]
async fn agents_of_the_operators_list_are_accepted() {
    let api = with_listed_agents().await;
    for path in ["/tasks", "/tickets"] {
        for agent in ["claude", "gemini"] {
            let (status, response) = api.post(path, request_with(agent)).await;
            assert_eq!(status, 201, "{path} {agent}: {response}");
        }
    }
}

/// An agent may be a command, which would run on the machine of the plane.
#[tokio::test]
async fn request_cannot_contain_a_command() {
    let api = with_listed_agents().await;
    let commands = ["acp:sh -c 'cat ../../plane/operator-token'", "acp:gemini --acp", "scripted:/etc/passwd"];
    for path in ["/tasks", "/tickets"] {
        for agent in commands.into_iter().chain(["openhands", "robot"]) {
            for token in [&api.member, OPERATOR] {
                let (status, response) = api.call(token, "POST", path, Some(request_with(agent))).await;
                assert_eq!((status, &response["field"]), (422, &json!("agent")), "{path}: {response}");
                let detail = response["detail"].as_str().unwrap();
                assert!(detail.contains(": claude, gemini.") && detail.contains("SUNABA_AGENTS"), "{detail}");
            }
        }
        assert_eq!(api.get(path).await[&path[1..]], json!([]), "nothing is stored");
    }
}

/// Approval would mean nothing if a member could start the same work without a ticket.
#[tokio::test]
async fn with_human_review_no_route_releases_work_without_an_approved_ticket() {
    let mut api = TaskApi::open().await;
    api.create("t-before", json!({})).await;
    assert_eq!(api.post("/tasks/t-before/cancel", json!({})).await.0, 200);
    api.require_approval();
    api.create_ticket("k-1").await;
    api.harness.take_jobs().await;
    let task = json!({"task_id": "t-1", "title": "Start anyway"});
    for token in [&api.member, &user("acme", "admin"), OPERATOR] {
        for (path, body) in [("/tasks", task.clone()), ("/tasks/t-before/retry", json!({}))] {
            let (status, problem) = api.call(token, "POST", path, Some(body)).await;
            assert_eq!((status, &problem["code"]), (409, &json!("ticket_required")), "{path}: {problem}");
        }
    }
    // Nor does any other change of a ticket that waits.
    let of_ticket = json!({"task_id": "t-1", "title": "Start anyway", "ticket_id": "k-1"});
    assert_eq!(api.post("/tasks", of_ticket.clone()).await.0, 409);
    let forced = json!({"to_status": "building", "force": true});
    assert_eq!(api.post("/tickets/k-1/transition", forced).await.0, 200);
    assert_eq!(api.post("/tickets/k-1/approve", json!({})).await.0, 403);
    let same = json!({"ticket_id": "k-1", "title": "k-1", "check_duplicates": false});
    assert_eq!(api.post("/tickets", same).await.0, 200);
    assert_eq!(api.post("/tasks", of_ticket.clone()).await.0, 409);
    assert_eq!(api.queue().await, Vec::<String>::new());
    assert_eq!(api.harness.take_jobs().await, Vec::<Value>::new());
    let (status, _) = api.call(OPERATOR, "POST", "/tickets/k-1/approve", Some(json!({}))).await;
    assert_eq!((status, api.post("/tasks", of_ticket).await.0), (200, 201));
    assert_eq!(api.queue().await.len(), 2);
}

/// On a plane that is set to a remote provider, a local one would run on the plane's host.
#[tokio::test]
async fn task_cannot_name_a_provider_that_is_not_enabled() {
    let enabled = Some(["instant".to_owned()].into());
    let api = TaskApi::open_with(|settings| settings.orchestration.enabled_providers = enabled).await;
    let task = |provider: &str| json!({"task_id": provider, "title": "Fix it", "provider": provider});
    for provider in ["process", "docker"] {
        for token in [&api.member, OPERATOR] {
            let (status, response) = api.call(token, "POST", "/tasks", Some(task(provider))).await;
            assert_eq!((status, &response["field"]), (422, &json!("provider")), "{response}");
            let detail = response["detail"].as_str().unwrap();
            assert!(
                detail.contains("enabled provider: instant.") && detail.contains("SUNABA_PROVIDER"),
                "{detail}"
            );
        }
    }
    assert_eq!(api.get("/tasks").await["tasks"], json!([]), "nothing is stored");
    assert_eq!(api.post("/tasks", task("instant")).await.0, 201);
}

/// The directory may be the workspace of another org, or belong to the user that runs the plane.
#[tokio::test]
async fn only_an_operator_can_name_a_directory_of_the_machine() {
    let api = TaskApi::open().await;
    for directory in ["/srv/shop", "file:///srv/shop", "file://localhost/srv/shop"] {
        for (path, id) in [("/tasks", "task_id"), ("/tickets", "ticket_id")] {
            let body = json!({id: "from-a-directory", "title": "Fix it", "repository": directory});
            for token in [&api.member, &user("acme", "admin")] {
                let (status, problem) = api.call(token, "POST", path, Some(body.clone())).await;
                assert_eq!((status, &problem["field"]), (422, &json!("repository")), "{path} {problem}");
            }
        }
    }
    assert_eq!(api.get("/tasks").await["tasks"], json!([]), "nothing is stored");
    let body = json!({"task_id": "t-1", "title": "Fix it", "repository": "/srv/shop", "org_id": "acme"});
    assert_eq!(api.call(OPERATOR, "POST", "/tasks", Some(body)).await.0, 201);
}

/// The project selects the policy and the variables of the sandbox.
#[tokio::test]
async fn task_cannot_replace_the_project_of_its_ticket() {
    let api = TaskApi::open().await;
    let ticket = |id: &str, project: Option<&str>| json!({"ticket_id": id, "title": id, "project_id": project, "check_duplicates": false});
    assert_eq!(api.post("/tickets", ticket("k-1", Some("secret"))).await.0, 201);
    let task = |id: &str, project: Option<&str>| json!({"task_id": id, "title": "Fix it", "ticket_id": "k-1", "project_id": project});
    let (status, problem) = api.post("/tasks", task("t-1", Some("open"))).await;
    assert_eq!((status, &problem["field"]), (422, &json!("project_id")), "{problem}");
    for (id, project) in [("t-2", None), ("t-3", Some("secret"))] {
        let (status, created) = api.post("/tasks", task(id, project)).await;
        assert_eq!((status, &created["project_id"]), (201, &json!("secret")), "{created}");
    }
}

#[tokio::test]
async fn task_whose_provider_was_disabled_fails() {
    let mut api = TaskApi::open().await;
    api.create("t-1", json!({"provider": "instant", "max_retries": 0})).await;
    let plane = Arc::get_mut(&mut api.plane).expect("no request is running");
    plane.settings.orchestration.enabled_providers = Some(["other".to_owned()].into());
    let sandbox = api.claim("t-1").await;
    api.reconcile(&sandbox).await;
    let task = api.stored("t-1").await;
    assert_eq!(task.status, Status::Failed);
    let error = task.error.unwrap_or_default();
    assert!(error.contains("provider: must be an enabled provider: other"), "{error}");
}

/// A list that changes must not start what it no longer contains.
#[tokio::test]
async fn task_whose_agent_was_removed_from_the_list_fails() {
    let mut api = with_listed_agents().await;
    api.create("t-1", json!({"agent": "gemini", "max_retries": 0})).await;
    api.set_agents(Agents::default());
    let sandbox = api.claim("t-1").await;
    api.reconcile(&sandbox).await;
    let task = api.stored("t-1").await;
    assert_eq!(task.status, Status::Failed);
    let error = task.error.unwrap_or_default();
    assert!(error.contains("agent: must be an agent of this plane: claude, openhands"), "{error}");
}

async fn with_listed_agents() -> TaskApi {
    let agents = Agents::parse("claude, gemini=acp:gemini --acp").unwrap();
    TaskApi::open_with(|settings| settings.orchestration.agents = agents).await
}

fn request_with(agent: &str) -> Value {
    json!({"title": format!("Use {agent}"), "agent": agent, "check_duplicates": false})
}

#[tokio::test]
async fn repeated_request_succeeds_after_its_agent_was_removed() {
    let mut api = TaskApi::open().await;
    let requests = [
        ("/tasks", json!({"task_id": "t-1", "title": "Fix it", "agent": "scripted:hello"})),
        ("/tickets", json!({"ticket_id": "k-1", "title": "Fix it", "agent": "scripted:hello"})),
    ];
    for (path, request) in &requests {
        assert_eq!(api.post(path, request.clone()).await.0, 201, "{path}");
    }
    api.set_agents(Agents::default());
    for (path, request) in requests {
        let (status, response) = api.post(path, request).await;
        assert_eq!(status, 200, "{path}: {response}");
    }
}
