//! Every route and every socket frame, with its scope and org. Walks through the registry, so a new route is in
//! this test from its first commit.

use crate::support::{JWT_SECRET, OPERATOR, TestPlane, now_secs, user, user_with};
use domain::access::Scope;
use domain::{Entity, TaskId, TicketId};
use edge::registry::{FUNCTIONS, Trigger};
use jsonwebtoken::{EncodingKey, Header};
use reqwest::Method;
use serde_json::{Value, json};

/// What each kind of caller gets, by what a route does. 0 stands for anything but 401, 403 and 404.
struct Expected {
    nobody: u16,
    foreign_user: u16,
    viewer: u16,
    member: u16,
    own_worker: u16,
    foreign_worker: u16,
}

const PASSES: u16 = 0;

fn expected(scope: Scope) -> Expected {
    match scope {
        Scope::Public => Expected {
            nobody: PASSES,
            foreign_user: PASSES,
            viewer: PASSES,
            member: PASSES,
            own_worker: PASSES,
            foreign_worker: PASSES,
        },
        Scope::ReadSandbox => Expected {
            nobody: 401,
            foreign_user: 404,
            viewer: PASSES,
            member: PASSES,
            own_worker: PASSES,
            foreign_worker: 403,
        },
        Scope::WriteEvents => Expected {
            nobody: 401,
            foreign_user: 403,
            viewer: 403,
            member: 403,
            own_worker: PASSES,
            foreign_worker: 403,
        },
        Scope::SendMessages => Expected {
            nobody: 401,
            foreign_user: 404,
            viewer: 403,
            member: PASSES,
            own_worker: 403,
            foreign_worker: 403,
        },
        // People look at the history; who takes a message takes it from the worker.
        Scope::TakeMessages => Expected {
            nobody: 401,
            foreign_user: 403,
            viewer: 403,
            member: 403,
            own_worker: PASSES,
            foreign_worker: 403,
        },
        // Tasks and tickets of their own org: lists hold nothing of ours, and one of ours looks as if it were not there.
        Scope::ListTasks => Expected {
            nobody: 401,
            foreign_user: 404,
            viewer: PASSES,
            member: PASSES,
            own_worker: 403,
            foreign_worker: 403,
        },
        Scope::ManageTasks => Expected {
            nobody: 401,
            foreign_user: 404,
            viewer: 403,
            member: PASSES,
            own_worker: 403,
            foreign_worker: 403,
        },
        // Nobody approves of their own work.
        Scope::ReviewResult => Expected {
            nobody: 401,
            foreign_user: 404,
            viewer: 403,
            member: PASSES,
            own_worker: 403,
            foreign_worker: 403,
        },
        // Their own org's: the answer holds nothing of ours, which is checked below.
        Scope::ListSandboxes => Expected {
            nobody: 401,
            foreign_user: PASSES,
            viewer: PASSES,
            member: PASSES,
            own_worker: 403,
            foreign_worker: 403,
        },
        Scope::ManageSandboxes => Expected {
            nobody: 401,
            foreign_user: 404,
            viewer: 403,
            member: PASSES,
            own_worker: 403,
            foreign_worker: 403,
        },
        Scope::OpenSocket => unreachable!("sockets have no HTTP route"),
    }
}

/// What a route with an `{id}` is about, by how its path begins. Each is there, and acme's.
const KINDS: [&str; 3] = ["/api/v1/sandboxes/", "/api/v1/tickets/", "/api/v1/tasks/"];

/// What is said not to be there only to those who may see what it would belong to: `A task of sandbox s-1`.
const PARTS: [&str; 2] = [" of sandbox ", "Dependency "];

/// Makes what the route is about, if it is no sandbox: those are there for all of them.
async fn make_one(plane: &TestPlane, path: &str, id: &str) {
    if path.starts_with("/api/v1/tickets/") {
        let wish = json!({"ticket_id": id, "title": id, "org": "acme", "check_duplicates": false});
        assert_eq!(plane.post("/api/v1/tickets", OPERATOR, wish).await.status, 201);
    }
    if path.starts_with("/api/v1/tasks/") {
        // It waits for one that was called off, and so nobody begins to work on it.
        let ahead = format!("before-{id}");
        for (task, depends_on) in [(ahead.as_str(), vec![]), (id, vec![&ahead])] {
            let wish = json!({"task_id": task, "title": task, "org": "acme", "depends_on": depends_on});
            assert_eq!(plane.post("/api/v1/tasks", OPERATOR, wish).await.status, 201);
            let off = format!("/api/v1/tasks/{ahead}/cancel");
            plane.post(&off, OPERATOR, json!({})).await;
        }
    }
}

#[tokio::test]
async fn every_route_lets_in_exactly_whom_its_scope_says() {
    let plane = TestPlane::start().await;
    let foreign = plane.register("s-2", "acme").await;
    let expired_user = user_with(json!({"sub": "u", "org": "acme", "role": "admin", "exp": now_secs() - 1}));
    let wrong_type = user_with(json!({"sub": "u", "org": "acme", "exp": now_secs() + 60, "type": "refresh"}));
    for function in FUNCTIONS {
        let Trigger::Http(route) = &function.trigger else { continue };
        // A sandbox for each: one of the routes ends it.
        let id = function.name;
        let first = plane.register(id, "acme").await;
        plane.post_events(id, &first, json!({"event_type": "agent.message"})).await.ok();
        let message = json!({"content": "hello", "message_id": "m-1"});
        plane.post(&format!("/api/v1/sandboxes/{id}/messages"), OPERATOR, message).await.ok();
        let entries = json!({"first": 1, "entries": [{"type": "user"}]});
        let session = format!("/api/v1/sandboxes/{id}/sessions/session-of-{id}/entries");
        plane.post(&session, &first, entries).await.ok();
        let own = plane.post(&format!("/api/v1/sandboxes/{id}/token"), OPERATOR, json!({})).await.ok();
        let own = own["worker_token"].as_str().unwrap();
        // Signed with the users' secret, dressed as a worker's.
        let claims = json!({"aud": "sunaba-worker", "sub": id, "generation": 2, "exp": now_secs() + 60});
        let key = EncodingKey::from_secret(JWT_SECRET.as_bytes());
        let forged = format!("swt_{}", jsonwebtoken::encode(&Header::default(), &claims, &key).unwrap());
        // Who takes messages would wait for them.
        let path = route.path.replace("{id}", id).replace("{seq}", "1").replace("{message_id}", "m-1");
        let path = path.replace("{dependency_id}", &format!("before-{id}"));
        let path = format!("{}?wait=0", path.replace("{session_id}", &format!("session-of-{id}")));
        let names_one = route.path.contains("{id}") && KINDS.iter().any(|kind| path.starts_with(kind));
        make_one(&plane, route.path, id).await;
        let check = async |token: Option<&str>, status: u16, who: &str| {
            let receipts = json!([{"message_id": "m-1", "state": "delivered"}]);
            let body = json!({
                "event_type": "agent.message", "content": "hello", "receipts": receipts,
                "first": 1, "entries": [{"type": "user"}],
                "title": "A ticket", "to_status": "analyzing", "rejection_reason": "No.",
                "task_id": id, "passed": true, "feedback": "", "depends_on": [], "timeout_seconds": 60,
            });
            let body = match route.method {
                Method::POST => Some(body),
                Method::PUT => Some(json!({"depends_on": []})),
                Method::PATCH => Some(json!({"title": "Another title"})),
                _ => None,
            };
            let answer = plane.call(route.method.clone(), &path, token, body).await;
            let seen = answer.status;
            let is_seen = |detail: &str| PARTS.iter().any(|part| detail.contains(part));
            let passes = match seen {
                404 => answer.body["detail"].as_str().is_some_and(is_seen),
                _ => ![401, 403, 405].contains(&seen),
            };
            let fits = if status == PASSES { passes } else { seen == status && !(seen == 404 && passes) };
            assert!(fits, "{} for {who}: {seen}, not {status}: {}", function.name, answer.body);
        };
        let expect = expected(route.scope);
        check(None, expect.nobody, "nobody").await;
        for (token, who) in [
            (expired_user.as_str(), "an expired user"),
            (wrong_type.as_str(), "a refresh token"),
            (forged.as_str(), "a forged worker"),
            ("nonsense", "nonsense"),
        ] {
            check(Some(token), expect.nobody, who).await;
        }
        // A route that names nothing in its path has nothing that could be foreign.
        let (foreign_user, foreign_worker) = match (names_one, expect.foreign_user) {
            (false, 404) => (PASSES, expect.foreign_worker),
            (_, status) => (status, expect.foreign_worker),
        };
        check(Some(&user("rival", "admin")), foreign_user, "a user of another org").await;
        check(Some(&user("acme", "viewer")), expect.viewer, "a viewer").await;
        check(Some(&user("acme", "sorcerer")), expect.viewer, "a user with an unknown role").await;
        check(Some(&foreign), foreign_worker, "another sandbox's worker").await;
        check(Some(own), expect.own_worker, "its worker").await;
        // Where a worker may go at all, a replaced token may not.
        let replaced =
            if expect.nobody == 401 && expect.own_worker == PASSES { 401 } else { expect.own_worker };
        check(Some(&first), replaced, "a worker whose token was replaced").await;
        check(Some(&user("acme", "member")), expect.member, "a member").await;
        check(Some(OPERATOR), PASSES, "the operator").await;
    }
}

#[tokio::test]
async fn a_list_holds_the_callers_org_and_nothing_else() {
    let plane = TestPlane::start().await;
    for (id, org) in [("s-1", "acme"), ("s-2", "rival"), ("s-3", "acme")] {
        plane.register(id, org).await;
    }
    let ids = async |path: &str, token: &str| -> Vec<String> {
        let body = plane.get(path, token).await.ok();
        let list = body["sandboxes"].as_array().unwrap();
        list.iter().map(|sandbox| sandbox["sandbox_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("/api/v1/sandboxes", &user("acme", "viewer")).await, ["s-3", "s-1"]);
    assert_eq!(ids("/api/v1/sandboxes", &user("rival", "viewer")).await, ["s-2"]);
    assert_eq!(ids("/api/v1/sandboxes", &user("nobody", "viewer")).await, Vec::<String>::new());
    assert_eq!(ids("/api/v1/sandboxes", OPERATOR).await, ["s-3", "s-2", "s-1"]);
    assert_eq!(ids("/api/v1/sandboxes?org=rival", OPERATOR).await, ["s-2"]);
    assert_eq!(plane.get("/api/v1/sandboxes?org=rival", &user("acme", "admin")).await.status, 403);
    let foreign = plane.post("/api/v1/sandboxes", &user("acme", "admin"), json!({"org": "rival"})).await;
    assert_eq!(foreign.status, 403);
}

#[tokio::test]
async fn a_socket_hears_of_its_own_org_only() {
    let plane = TestPlane::start().await;
    let (ours, theirs) = (plane.register("s-1", "acme").await, plane.register("s-2", "rival").await);
    let mut user_socket = plane.subscribed(&user("acme", "viewer"), "").await;
    // Naming a foreign sandbox does not help.
    let mut nosy = plane.subscribed(&user("acme", "admin"), "entity_ids=s-2").await;
    let mut operator = plane.subscribed(OPERATOR, "").await;
    plane.post_events("s-2", &theirs, json!({"event_type": "agent.message"})).await.ok();
    plane.post_events("s-1", &ours, json!({"event_type": "agent.message"})).await.ok();
    let entities = |frames: Vec<Value>| -> Vec<String> {
        frames.iter().map(|frame| frame["entity_id"].as_str().unwrap().to_owned()).collect()
    };
    // The operator hears both, in some order: two sandboxes have no order between them.
    let mut both = vec![operator.hear().await, operator.hear().await];
    both.sort_by_key(|frame| frame["entity_id"].to_string());
    assert_eq!(entities(both), ["s-1", "s-2"]);
    assert_eq!(user_socket.hear().await["entity_id"], "s-1");
    assert!(entities(user_socket.hear_until_pong().await).is_empty());
    assert!(entities(nosy.hear_until_pong().await).is_empty());
}

#[tokio::test]
async fn sockets_open_for_those_who_may_and_for_nobody_else() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    plane.register("s-2", "acme").await;
    let expired = user_with(json!({"sub": "u", "org": "acme", "exp": now_secs() - 1}));
    let (acme, rival) = (user("acme", "viewer"), user("rival", "admin"));
    for (path, token, refused) in [
        ("/api/v1/ws/events", acme.as_str(), None),
        ("/api/v1/ws/events", worker.as_str(), None),
        ("/api/v1/ws/events", "nonsense", Some(401)),
        ("/api/v1/ws/events", expired.as_str(), Some(401)),
        ("/api/v1/sandbox/s-1/ws", acme.as_str(), None),
        ("/api/v1/sandboxes/s-1/ws", acme.as_str(), None),
        ("/api/v1/sandbox/s-1/ws", worker.as_str(), None),
        ("/api/v1/sandbox/s-1/ws", rival.as_str(), Some(404)),
        ("/api/v1/sandbox/s-2/ws", worker.as_str(), Some(404)),
        ("/api/v1/sandbox/s-9/ws", acme.as_str(), Some(404)),
        ("/api/v1/sandbox/a%20b/ws", acme.as_str(), Some(422)),
    ] {
        let outcome = plane.try_socket(&format!("{path}?token={token}")).await.err();
        assert_eq!(outcome, refused, "{path}");
    }
    let filtered = plane.try_socket(&format!("/api/v1/ws/events?token={worker}&entity_ids=s-2")).await;
    assert_eq!(filtered.err(), Some(403), "a worker cannot subscribe to another sandbox");
}

#[tokio::test]
async fn frames_are_checked_like_routes() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut nobody = plane.socket("/api/v1/ws/events").await;
    nobody.say(json!({"type": "subscribe", "entity_ids": ["s-1"]})).await;
    assert_eq!(nobody.hear().await["code"], "unauthorized");
    plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    assert!(nobody.hear_until_pong().await.is_empty(), "whoever has not said who they are hears nothing");
    nobody.say(json!({"type": "auth", "token": "nonsense"})).await;
    assert_eq!(nobody.hear().await["code"], "unauthorized");
    assert_eq!(nobody.try_hear().await, None, "a wrong token closes");

    let mut own = plane.subscribed(&worker, "").await;
    own.say(json!({"type": "subscribe", "entity_ids": ["s-2"]})).await;
    assert_eq!(own.hear().await["code"], "forbidden");
    own.say(json!({"type": "subscribe", "entity_ids": []})).await;
    let filters = &own.hear().await["filters"];
    assert_eq!(filters["entity_ids"], json!(["s-1"]), "a worker hears of its own sandbox whatever it asks");
}

/// OmoiOS looked at a token once, when the socket opened.
#[tokio::test]
async fn a_socket_ends_with_its_token() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let short = user_with(json!({"sub": "u", "org": "acme", "role": "viewer", "exp": now_secs() + 2}));
    let mut socket = plane.subscribed(&short, "").await;
    let mut heard = 0;
    loop {
        plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
        match socket.try_hear().await {
            Some(frame) if frame["code"] == "token_expired" => break,
            Some(frame) => assert_eq!(frame["event_type"], "SANDBOX_AGENT_MESSAGE"),
            None => panic!("closed without a word"),
        }
        heard += 1;
        assert!(heard < 100_000, "the token never ended");
    }
    assert!(heard > 0);
    while socket.try_hear().await.is_some() {}
}

#[tokio::test]
async fn a_workers_socket_ends_when_its_token_is_replaced() {
    let plane = TestPlane::start().await;
    let old = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(&old, "").await;
    plane.post_events("s-1", OPERATOR, json!({"event_type": "agent.message"})).await.ok();
    assert_eq!(socket.hear().await["seq"], 1);
    plane.post("/api/v1/sandboxes/s-1/token", OPERATOR, json!({})).await.ok();
    plane.post_events("s-1", OPERATOR, json!({"event_type": "agent.message"})).await.ok();
    assert_eq!(socket.hear().await["code"], "unauthorized");
    assert_eq!(socket.try_hear().await, None);
}

/// Ids are their owners' to choose: a task or ticket may be called like a sandbox.
#[tokio::test]
async fn a_worker_hears_nothing_of_tasks_and_tickets_whatever_they_are_called() {
    let plane = TestPlane::start().await;
    let worker = plane.register("x-1", "acme").await;
    let mut everything = plane.subscribed(&worker, "").await;
    let mut tasks = plane.subscribed(&worker, "entity_types=task,ticket&entity_ids=x-1").await;
    let mut named = plane.socket(&format!("/api/v1/ws/events?token={worker}&event_types=task.created")).await;
    let mut colleague = plane.subscribed(&user("acme", "viewer"), "").await;
    let mut of_the_box =
        plane.socket(&format!("/api/v1/sandbox/x-1/ws?token={}", user("acme", "viewer"))).await;
    let mut rival = plane.subscribed(&user("rival", "admin"), "entity_ids=x-1").await;
    for (entity, event_type, name) in [
        (Entity::Task(TaskId::parse("x-1").unwrap()), "task.created", "TASK_CREATED"),
        (Entity::Ticket(TicketId::parse("x-1").unwrap()), "ticket.created", "TICKET_CREATED"),
    ] {
        // ChangeRecord of one entity are told one after the other: who hears the second was told the first, and so were all
        // the others.
        for seq in 1..=2 {
            plane.put_history(&entity, "acme", seq - 1, &[event_type]).await;
            let frame = colleague.hear().await;
            assert_eq!(
                frame,
                json!({
                    "id": format!("e-{seq}"), "seq": seq, "event_type": name, "entity_type": entity.kind(),
                    "entity_id": "x-1", "timestamp": "2026-01-05T12:00:00.000000Z",
                    "payload": {"n": seq, "source": "system", "original_event_type": event_type},
                })
            );
        }
    }
    for socket in [&mut everything, &mut tasks, &mut named, &mut of_the_box, &mut rival] {
        assert_eq!(socket.hear_until_pong().await, Vec::<Value>::new());
    }
    // What the plane tells of a task is not for a worker to tell, in its own sandbox's log either.
    let forged = plane.post_events("x-1", &worker, json!({"event_type": "task.created"})).await;
    assert_eq!((forged.status, &forged.body["field"]), (422, &json!("event_type")));
    plane.post_events("x-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    for socket in [&mut everything, &mut of_the_box] {
        let frame = socket.hear().await;
        assert_eq!((&frame["event_type"], &frame["seq"]), (&json!("SANDBOX_AGENT_MESSAGE"), &json!(1)));
    }
    assert_eq!(named.hear_until_pong().await, Vec::<Value>::new());
}
