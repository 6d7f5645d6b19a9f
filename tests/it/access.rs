//! Access to every route and socket frame, by scope and org. The tests iterate over the registry, so a new route is
//! covered from its first commit.

use crate::support::{ApiResponse, JWT_SECRET, OPERATOR, TestPlane, now_secs, user, user_with};
use domain::access::Scope;
use domain::{Entity, TaskId, TicketId};
use edge::registry::{FUNCTIONS, Trigger};
use jsonwebtoken::{EncodingKey, Header};
use reqwest::Method;
use serde_json::{Value, json};

/// Expected status for each kind of caller. [`PASSES`] stands for any status but 401, 403 and 404.
struct Expected {
    anonymous: u16,
    other_org_user: u16,
    viewer: u16,
    member: u16,
    own_worker: u16,
    other_worker: u16,
}

const PASSES: u16 = 0;

fn expected(scope: Scope) -> Expected {
    match scope {
        Scope::Public => Expected {
            anonymous: PASSES,
            other_org_user: PASSES,
            viewer: PASSES,
            member: PASSES,
            own_worker: PASSES,
            other_worker: PASSES,
        },
        // Without the signature of the sender. A token does not replace it.
        Scope::Webhook => Expected {
            anonymous: 401,
            other_org_user: 401,
            viewer: 401,
            member: 401,
            own_worker: 401,
            other_worker: 401,
        },
        Scope::ReadSandbox => Expected {
            anonymous: 401,
            other_org_user: 404,
            viewer: PASSES,
            member: PASSES,
            own_worker: PASSES,
            other_worker: 403,
        },
        Scope::WriteEvents => Expected {
            anonymous: 401,
            other_org_user: 403,
            viewer: 403,
            member: 403,
            own_worker: PASSES,
            other_worker: 403,
        },
        Scope::SendMessages => Expected {
            anonymous: 401,
            other_org_user: 404,
            viewer: 403,
            member: PASSES,
            own_worker: 403,
            other_worker: 403,
        },
        // Users read the history instead: a pulled message would be withheld from the worker.
        Scope::PullMessages => Expected {
            anonymous: 401,
            other_org_user: 403,
            viewer: 403,
            member: 403,
            own_worker: PASSES,
            other_worker: 403,
        },
        // A person would get a credential that can write to the repository.
        Scope::GitAccess => Expected {
            anonymous: 401,
            other_org_user: 403,
            viewer: 403,
            member: 403,
            own_worker: PASSES,
            other_worker: 403,
        },
        // Callers of another org get their own lists; our tasks and tickets are not found.
        Scope::ListTasks => Expected {
            anonymous: 401,
            other_org_user: 404,
            viewer: PASSES,
            member: PASSES,
            own_worker: 403,
            other_worker: 403,
        },
        Scope::ManageTasks => Expected {
            anonymous: 401,
            other_org_user: 404,
            viewer: 403,
            member: PASSES,
            own_worker: 403,
            other_worker: 403,
        },
        // A worker must not approve its own result.
        Scope::ReviewResult => Expected {
            anonymous: 401,
            other_org_user: 404,
            viewer: 403,
            member: PASSES,
            own_worker: 403,
            other_worker: 403,
        },
        // Lists contain only the caller's org: see `lists_contain_only_the_callers_org`.
        Scope::ListSandboxes => Expected {
            anonymous: 401,
            other_org_user: PASSES,
            viewer: PASSES,
            member: PASSES,
            own_worker: 403,
            other_worker: 403,
        },
        Scope::ManageSandboxes => Expected {
            anonymous: 401,
            other_org_user: 404,
            viewer: 403,
            member: PASSES,
            own_worker: 403,
            other_worker: 403,
        },
        // See `only_admins_rotate_tokens_and_the_log_names_them` for admins.
        Scope::RotateTokens => Expected {
            anonymous: 401,
            other_org_user: 404,
            viewer: 403,
            member: 403,
            own_worker: 403,
            other_worker: 403,
        },
        Scope::OpenSocket => unreachable!("sockets have no HTTP route"),
    }
}

/// Path prefixes of the entities that `{id}` can name. The test creates each of them in the org acme.
const KINDS: [&str; 3] = ["/api/v1/sandboxes/", "/api/v1/tickets/", "/api/v1/tasks/"];

/// Routes that name a task in their body or query.
const OF_A_TASK: &str = "/api/v1/branch-workflow/";

/// A 404 with one of these in its detail comes after authorization: the caller may see the parent entity, which lacks
/// the requested part.
const VISIBLE_PARTS: [&str; 2] = [" of sandbox ", "Dependency "];

/// Creates the ticket or task that the route names. The caller has already registered a sandbox.
async fn create_entity(plane: &TestPlane, path: &str, id: &str) {
    if path.starts_with("/api/v1/tickets/") {
        let spec = json!({"ticket_id": id, "title": id, "org": "acme", "check_duplicates": false});
        assert_eq!(plane.post("/api/v1/tickets", OPERATOR, spec).await.status, 201);
    }
    if path.starts_with("/api/v1/tasks/") || path.starts_with(OF_A_TASK) {
        // It depends on a cancelled task, so it is never dispatched.
        let dependency = format!("before-{id}");
        for (task, depends_on) in [(dependency.as_str(), vec![]), (id, vec![&dependency])] {
            let spec = json!({"task_id": task, "title": task, "org": "acme", "depends_on": depends_on});
            assert_eq!(plane.post("/api/v1/tasks", OPERATOR, spec).await.status, 201);
            let cancel = format!("/api/v1/tasks/{dependency}/cancel");
            plane.post(&cancel, OPERATOR, json!({})).await;
        }
    }
}

#[tokio::test]
async fn every_route_enforces_its_scope() {
    let plane = TestPlane::start().await;
    let other_worker_token = plane.register("s-2", "acme").await;
    let expired_user = user_with(json!({"sub": "u", "org": "acme", "role": "admin", "exp": now_secs() - 1}));
    let wrong_type = user_with(json!({"sub": "u", "org": "acme", "exp": now_secs() + 60, "type": "refresh"}));
    for function in FUNCTIONS {
        let Trigger::Http(route) = &function.trigger else { continue };
        // Each route gets its own sandbox, because one of them terminates it.
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
        // A worker token signed with the key for user tokens.
        let claims = json!({"aud": "sunaba-worker", "sub": id, "generation": 2, "exp": now_secs() + 60});
        let key = EncodingKey::from_secret(JWT_SECRET.as_bytes());
        let forged = format!("swt_{}", jsonwebtoken::encode(&Header::default(), &claims, &key).unwrap());
        let path = route.path.replace("{id}", id).replace("{seq}", "1").replace("{port}", "3000");
        let path = path.replace("{message_id}", "m-1");
        let path = path.replace("{dependency_id}", &format!("before-{id}"));
        let path = path.replace("{session_id}", &format!("session-of-{id}"));
        // Keeps the pull route from long polling.
        let waits = route.endpoint.query.iter().any(|parameter| parameter.name == "wait");
        let path = if waits { format!("{path}?wait=0") } else { path };
        let of_a_task = path.starts_with(OF_A_TASK);
        let path =
            if of_a_task && route.method == Method::GET { format!("{path}?task_id={id}") } else { path };
        assert!(!path.contains('{'), "this test has no value for a parameter of {}: add it here", route.path);
        let has_id = route.path.contains("{id}") && KINDS.iter().any(|kind| path.starts_with(kind));
        let names_entity = has_id || of_a_task;
        create_entity(&plane, route.path, id).await;
        let check = async |token: Option<&str>, status: u16, caller: &str| {
            let receipts = json!([{"message_id": "m-1", "state": "delivered"}]);
            let sha256 = "0f".repeat(32);
            let body = json!({
                "sha256": sha256, "piece": 1, "data": "",
                "files": [{"format": "patch", "size_bytes": 0, "sha256": sha256}],
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
            let response = plane.call(route.method.clone(), &path, token, body).await;
            let actual = response.status;
            let is_visible = |detail: &str| VISIBLE_PARTS.iter().any(|part| detail.contains(part));
            let passes = match actual {
                404 => response.body["detail"].as_str().is_some_and(is_visible),
                _ => ![401, 403, 405].contains(&actual),
            };
            let matches =
                if status == PASSES { passes } else { actual == status && !(actual == 404 && passes) };
            assert!(matches, "{} for {caller}: {actual}, not {status}: {}", function.name, response.body);
        };
        let expect = expected(route.scope);
        check(None, expect.anonymous, "no token").await;
        for (token, caller) in [
            (expired_user.as_str(), "an expired user"),
            (wrong_type.as_str(), "a refresh token"),
            (forged.as_str(), "a forged worker token"),
            ("nonsense", "a malformed token"),
        ] {
            check(Some(token), expect.anonymous, caller).await;
        }
        // A route without an entity cannot name one of another org.
        let (other_org_user, other_worker) = match (names_entity, expect.other_org_user) {
            (false, 404) => (PASSES, expect.other_worker),
            (_, status) => (status, expect.other_worker),
        };
        check(Some(&user("rival", "admin")), other_org_user, "a user of another org").await;
        check(Some(&user("acme", "viewer")), expect.viewer, "a viewer").await;
        check(Some(&user("acme", "unknown")), expect.viewer, "a user with an unknown role").await;
        check(Some(&other_worker_token), other_worker, "another sandbox's worker").await;
        check(Some(own), expect.own_worker, "the sandbox's worker").await;
        // Routes that a worker may use reject its replaced token.
        let replaced =
            if expect.anonymous == 401 && expect.own_worker == PASSES { 401 } else { expect.own_worker };
        check(Some(&first), replaced, "a worker whose token was replaced").await;
        check(Some(&user("acme", "member")), expect.member, "a member").await;
        let operator = if route.scope == Scope::Webhook { 401 } else { PASSES };
        check(Some(OPERATOR), operator, "the operator").await;
    }
}

/// The local plane's routes for signing in are not in the registry.
#[tokio::test]
async fn only_an_operators_own_token_creates_sign_in_codes() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let create = async |token: Option<&str>| {
        plane.call(Method::POST, "/api/v1/sign-in/codes", token, Some(json!({}))).await
    };
    let created = create(Some(OPERATOR)).await;
    assert_eq!((created.status, &created.body["expires_in_secs"]), (201, &json!(600)));
    let code = json!({"code": created.body["code"]});
    let exchange = plane.raw(Method::POST, "/api/v1/sign-in").header("origin", &plane.url);
    let signed_in = ApiResponse::of(exchange.body(code.to_string()).send().await.unwrap()).await.ok();
    let browser = signed_in["token"].as_str().unwrap();
    assert_eq!(plane.get("/api/v1/sandboxes", browser).await.status, 200);
    let forged = |prefix: &str| {
        let claims = json!({"aud": "sunaba-console", "sub": "local", "exp": now_secs() + 60});
        let key = EncodingKey::from_secret(JWT_SECRET.as_bytes());
        format!("{prefix}{}", jsonwebtoken::encode(&Header::default(), &claims, &key).unwrap())
    };
    let admin = user("acme", "admin");
    for (token, expected) in [
        (None, 401),
        (Some("nonsense"), 401),
        (Some(forged("sit_").as_str()), 401),
        (Some(forged("").as_str()), 401),
        (Some(browser.trim_start_matches("sit_")), 401),
        (Some(admin.as_str()), 403),
        (Some(worker.as_str()), 403),
        // Otherwise a stolen one could be renewed without end.
        (Some(browser), 403),
    ] {
        let refused = create(token).await;
        assert_eq!(refused.status, expected, "{token:?}: {}", refused.body);
    }
}

#[tokio::test]
async fn lists_contain_only_the_callers_org() {
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
    assert_eq!(ids("/api/v1/sandboxes", &user("empty", "viewer")).await, Vec::<String>::new());
    assert_eq!(ids("/api/v1/sandboxes", OPERATOR).await, ["s-3", "s-2", "s-1"]);
    assert_eq!(ids("/api/v1/sandboxes?org=rival", OPERATOR).await, ["s-2"]);
    assert_eq!(plane.get("/api/v1/sandboxes?org=rival", &user("acme", "admin")).await.status, 403);
    let foreign = plane.post("/api/v1/sandboxes", &user("acme", "admin"), json!({"org": "rival"})).await;
    assert_eq!(foreign.status, 403);
}

#[tokio::test]
async fn sockets_receive_only_events_of_their_org() {
    let plane = TestPlane::start().await;
    let (ours, theirs) = (plane.register("s-1", "acme").await, plane.register("s-2", "rival").await);
    let mut user_socket = plane.subscribed(&user("acme", "viewer"), "").await;
    // Subscribing to a sandbox of another org has no effect.
    let mut intruder = plane.subscribed(&user("acme", "admin"), "entity_ids=s-2").await;
    let mut operator = plane.subscribed(OPERATOR, "").await;
    plane.post_events("s-2", &theirs, json!({"event_type": "agent.message"})).await.ok();
    plane.post_events("s-1", &ours, json!({"event_type": "agent.message"})).await.ok();
    let entities = |frames: Vec<Value>| -> Vec<String> {
        frames.iter().map(|frame| frame["entity_id"].as_str().unwrap().to_owned()).collect()
    };
    // The operator receives both. Events of different sandboxes have no order.
    let mut both = vec![operator.receive().await, operator.receive().await];
    both.sort_by_key(|frame| frame["entity_id"].to_string());
    assert_eq!(entities(both), ["s-1", "s-2"]);
    assert_eq!(user_socket.receive().await["entity_id"], "s-1");
    assert!(entities(user_socket.receive_until_pong().await).is_empty());
    assert!(entities(intruder.receive_until_pong().await).is_empty());
}

#[tokio::test]
async fn sockets_require_access_to_what_they_subscribe_to() {
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
async fn socket_frames_are_authorized_like_routes() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut anonymous = plane.socket("/api/v1/ws/events").await;
    anonymous.send(json!({"type": "subscribe", "entity_ids": ["s-1"]})).await;
    assert_eq!(anonymous.receive().await["code"], "unauthorized");
    plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    assert!(anonymous.receive_until_pong().await.is_empty(), "an unauthenticated socket receives no events");
    anonymous.send(json!({"type": "auth", "token": "nonsense"})).await;
    assert_eq!(anonymous.receive().await["code"], "unauthorized");
    assert_eq!(anonymous.try_receive().await, None, "an invalid token closes the socket");

    let mut own = plane.subscribed(&worker, "").await;
    own.send(json!({"type": "subscribe", "entity_ids": ["s-2"]})).await;
    assert_eq!(own.receive().await["code"], "forbidden");
    own.send(json!({"type": "subscribe", "entity_ids": []})).await;
    let filters = &own.receive().await["filters"];
    assert_eq!(filters["entity_ids"], json!(["s-1"]), "a worker is always limited to its own sandbox");
}

/// OmoiOS checked the token only when the socket opened.
#[tokio::test]
async fn socket_is_closed_when_its_token_expires() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let short = user_with(json!({"sub": "u", "org": "acme", "role": "viewer", "exp": now_secs() + 2}));
    let mut socket = plane.subscribed(&short, "").await;
    let mut received = 0;
    loop {
        plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
        match socket.try_receive().await {
            Some(frame) if frame["code"] == "token_expired" => break,
            Some(frame) => assert_eq!(frame["event_type"], "SANDBOX_AGENT_MESSAGE"),
            None => panic!("closed without an error frame"),
        }
        received += 1;
        assert!(received < 100_000, "the token never expired");
    }
    assert!(received > 0);
    while socket.try_receive().await.is_some() {}
}

#[tokio::test]
async fn worker_socket_is_closed_when_its_token_is_replaced() {
    let plane = TestPlane::start().await;
    let old = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(&old, "").await;
    plane.post_events("s-1", OPERATOR, json!({"event_type": "agent.message"})).await.ok();
    assert_eq!(socket.receive().await["seq"], 1);
    plane.post("/api/v1/sandboxes/s-1/token", OPERATOR, json!({})).await.ok();
    plane.post_events("s-1", OPERATOR, json!({"event_type": "agent.message"})).await.ok();
    assert_eq!(socket.receive().await["code"], "unauthorized");
    assert_eq!(socket.try_receive().await, None);
}

/// Callers choose ids, so a task or ticket may have the id of a sandbox.
#[tokio::test]
async fn workers_never_receive_task_or_ticket_events() {
    let plane = TestPlane::start().await;
    let worker = plane.register("x-1", "acme").await;
    let mut everything = plane.subscribed(&worker, "").await;
    let mut tasks = plane.subscribed(&worker, "entity_types=task,ticket&entity_ids=x-1").await;
    let mut named = plane.socket(&format!("/api/v1/ws/events?token={worker}&event_types=task.created")).await;
    let mut colleague = plane.subscribed(&user("acme", "viewer"), "").await;
    let mut sandbox_socket =
        plane.socket(&format!("/api/v1/sandbox/x-1/ws?token={}", user("acme", "viewer"))).await;
    let mut rival = plane.subscribed(&user("rival", "admin"), "entity_ids=x-1").await;
    for (entity, event_type, name) in [
        (Entity::Task(TaskId::parse("x-1").unwrap()), "task.created", "TASK_CREATED"),
        (Entity::Ticket(TicketId::parse("x-1").unwrap()), "ticket.created", "TICKET_CREATED"),
    ] {
        // Events of one entity are broadcast in order. Once the second one arrives, the first has been delivered to
        // all sockets.
        for seq in 1..=2 {
            plane.put_history(&entity, "acme", seq - 1, &[event_type]).await;
            let frame = colleague.receive().await;
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
    for socket in [&mut everything, &mut tasks, &mut named, &mut sandbox_socket, &mut rival] {
        assert_eq!(socket.receive_until_pong().await, Vec::<Value>::new());
    }
    // Event types of tasks are reserved for the plane, in a sandbox's own log too.
    let forged = plane.post_events("x-1", &worker, json!({"event_type": "task.created"})).await;
    assert_eq!((forged.status, &forged.body["field"]), (422, &json!("event_type")));
    plane.post_events("x-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    for socket in [&mut everything, &mut sandbox_socket] {
        let frame = socket.receive().await;
        assert_eq!((&frame["event_type"], &frame["seq"]), (&json!("SANDBOX_AGENT_MESSAGE"), &json!(1)));
    }
    assert_eq!(named.receive_until_pong().await, Vec::<Value>::new());
}
