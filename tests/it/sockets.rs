//! Events that sockets receive.

use crate::support::{OPERATOR, Socket, TestPlane, batch, user};
use client::{Follow, Follower};
use domain::{Entity, SandboxId, TaskId};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn event_frame_has_id_sequence_number_and_timestamp() {
    let plane = TestPlane::start().await;
    let worker = plane.register("S", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "entity_ids=S").await;
    let data = json!({"turn": 3, "tool": "Bash", "input": {"command": "ls"}});
    let sent = json!({"event_type": "agent.tool_use", "event_data": data, "source": "agent"});
    let response = plane.post_events("S", &worker, sent).await.ok();
    let frame = socket.receive().await;
    assert_eq!(
        frame,
        json!({
            "id": response["event_id"], "seq": 1, "event_type": "SANDBOX_AGENT_TOOL_USE", "entity_type": "sandbox",
            "entity_id": "S", "timestamp": response["timestamp"],
            "payload": {"turn": 3, "tool": "Bash", "input": {"command": "ls"}, "source": "agent",
                        "original_event_type": "agent.tool_use"},
        })
    );
}

#[tokio::test]
async fn heartbeat_frames_have_no_sequence_number() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    let heartbeat = json!({"event_type": "agent.heartbeat", "event_data": {"status": "working"}});
    plane.post_events("s-1", &worker, heartbeat).await.ok();
    let frame = socket.receive().await;
    assert_eq!((&frame["event_type"], &frame["seq"]), (&json!("SANDBOX_AGENT_HEARTBEAT"), &Value::Null));
    assert_eq!(frame["payload"]["status"], "working");
}

#[tokio::test]
async fn partial_text_is_broadcast_but_not_stored() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    let heartbeat = json!({"event_type": "agent.heartbeat", "event_data": {"status": "idle"}});
    plane.post_events("s-1", &worker, heartbeat).await.ok();
    let before = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok();
    let mut socket = plane.subscribed(&user("acme", "viewer"), "").await;
    let partial = |n: u64| {
        let data = json!({"message_id": "msg-1", "block": 0, "kind": "text", "offset": n, "text": "hel", "status": "busy"});
        json!({"event_id": format!("p-{n}"), "event_type": "agent.partial", "event_data": data})
    };
    let single = plane.post_events("s-1", &worker, partial(0)).await.ok();
    assert_eq!((&single["seq"], &single["status"]), (&Value::Null, &json!("received")));
    let frame = socket.receive().await;
    assert_eq!((&frame["event_type"], &frame["seq"]), (&json!("SANDBOX_AGENT_PARTIAL"), &Value::Null));
    assert_eq!((&frame["id"], &frame["payload"]["text"]), (&json!("p-0"), &json!("hel")));
    let several = json!({"epoch": 1, "batch": 1, "events": [partial(1), partial(2), partial(3)]});
    let response = plane.post_events("s-1", &worker, several.clone()).await.ok();
    let counts = (&response["first_seq"], &response["events"], &response["heartbeats"]);
    assert_eq!(counts, (&Value::Null, &json!(0), &json!(0)));
    for offset in 1..=3 {
        assert_eq!(socket.receive().await["payload"]["offset"], offset);
    }
    assert_eq!(plane.post_events("s-1", &worker, several).await.ok()["repeated"], true);
    assert!(socket.receive_until_pong().await.is_empty(), "a retry is not broadcast again");
    let after = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok();
    for unchanged in ["last_seq", "heartbeats", "heartbeat_status", "event_counts"] {
        assert_eq!(after[unchanged], before[unchanged], "{unchanged}");
    }
    for advanced in ["last_event_at", "last_work_at"] {
        assert!(
            after[advanced].as_str() > before[advanced].as_str(),
            "{advanced}: partial text counts as work"
        );
    }
    let page = plane.get("/api/v1/sandboxes/s-1/events", OPERATOR).await.ok();
    assert_eq!((&page["total_count"], &page["last_seq"]), (&json!(1), &json!(1)));
    let trajectory = plane.get("/api/v1/sandboxes/s-1/trajectory", OPERATOR).await.ok();
    assert_eq!((&trajectory["total_events"], &trajectory["trajectory_events"]), (&json!(2), &json!(1)));
    assert_eq!(plane.log("s-1").await.len(), 1);
}

/// A batch may contain more partial text than fits into one item of the table.
#[tokio::test]
async fn large_partial_text_is_split_into_frames_that_fit() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "batch=true").await;
    let mut noise = 7u64;
    let mut text = || -> String {
        let letters = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'!' + u8::try_from((noise >> 40) % 90).unwrap())
        });
        letters.filter(|c| !matches!(c, '"' | '\\')).take(16 * 1024 - 64).collect()
    };
    let events: Vec<Value> = (0..60)
        .map(|n| json!({"event_id": format!("p-{n}"), "event_type": "agent.partial", "event_data": {"offset": n, "text": text()}}))
        .collect();
    plane.post_events("s-1", &worker, json!({"epoch": 1, "batch": 1, "events": events})).await.ok();
    let mut offsets = Vec::new();
    while offsets.len() < 60 {
        let frame = socket.receive().await;
        assert!(frame.to_string().len() <= 32 * 1024);
        let bundled = frame["events"].as_array().cloned().unwrap_or_else(|| vec![frame]);
        for event in bundled {
            assert!(event["payload"]["text"].as_str().unwrap().len() > 16_000, "no text is omitted");
            offsets.push(event["payload"]["offset"].as_u64().unwrap());
        }
    }
    assert_eq!(offsets, (0..60).collect::<Vec<_>>());
}

async fn received_types(socket: &mut Socket) -> Vec<String> {
    let frames = socket.receive_until_pong().await;
    frames.iter().map(|frame| frame["payload"]["original_event_type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn filters_are_and_across_fields_and_or_within() {
    let plane = TestPlane::start().await;
    let (first, second) = (plane.register("s-1", "acme").await, plane.register("s-2", "acme").await);
    let mut all = plane.subscribed(OPERATOR, "").await;
    let mut sockets = Vec::new();
    for (query, expected) in [
        ("event_types=agent.tool_use", vec!["agent.tool_use", "agent.tool_use"]),
        ("event_types=SANDBOX_agent.tool_use", vec!["agent.tool_use", "agent.tool_use"]),
        (
            "event_types=SANDBOX_AGENT_TOOL_USE,agent.message&entity_ids=s-1",
            vec!["agent.tool_use", "agent.message"],
        ),
        ("entity_ids=s-2", vec!["agent.tool_use"]),
        ("entity_types=sandbox&entity_ids=s-2", vec!["agent.tool_use"]),
        ("entity_types=task", vec![]),
        ("entity_types=sandbox", vec!["agent.tool_use", "agent.tool_use", "agent.message"]),
    ] {
        sockets.push((plane.subscribed(OPERATOR, query).await, expected, query));
    }
    plane.post_events("s-1", &first, json!({"event_type": "agent.tool_use"})).await.ok();
    all.receive().await;
    plane.post_events("s-2", &second, json!({"event_type": "agent.tool_use"})).await.ok();
    all.receive().await;
    plane.post_events("s-1", &first, json!({"event_type": "agent.message"})).await.ok();
    all.receive().await;
    for (mut socket, expected, query) in sockets {
        assert_eq!(received_types(&mut socket).await, expected, "{query}");
    }
}

#[tokio::test]
async fn sandbox_in_the_query_selects_its_events_like_the_path() {
    let plane = TestPlane::start().await;
    let (first, second) = (plane.register("s-1", "acme").await, plane.register("s-2", "acme").await);
    let mut all = plane.subscribed(OPERATOR, "").await;
    let mut sockets = Vec::new();
    for path in [
        "/api/v1/ws/events?sandbox_id=s-1",
        "/api/v1/sandbox/s-1/ws?sandbox_id=s-1",
        "/api/v1/sandbox/s-1/ws?batch=false",
    ] {
        sockets.push((plane.socket(&format!("{path}&token={OPERATOR}")).await, path));
    }
    plane.post_events("s-2", &second, json!({"event_type": "agent.message"})).await.ok();
    all.receive().await;
    plane.post_events("s-1", &first, json!({"event_type": "agent.message"})).await.ok();
    all.receive().await;
    for (mut socket, path) in sockets {
        let frames = socket.receive_until_pong().await;
        let ids: Vec<&str> = frames.iter().filter_map(|frame| frame["entity_id"].as_str()).collect();
        assert_eq!(ids, ["s-1"], "{path}");
    }
    for path in [
        "/api/v1/sandbox/s-1/ws?sandbox_id=s-2",
        "/api/v1/ws/events?sandbox_id=",
        "/api/v1/ws/events?sandbox=s-1",
    ] {
        let refused = plane.try_socket(&format!("{path}&token={OPERATOR}")).await;
        assert_eq!(refused.err(), Some(422), "{path}");
    }
}

#[tokio::test]
async fn subscribe_frame_joins_both_spellings_of_a_filter() {
    let plane = TestPlane::start().await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    let frame = json!({"type": "subscribe", "event_type": ["agent.message"], "event_types": ["agent.error"]});
    socket.send(frame).await;
    let confirmed = socket.receive().await;
    assert_eq!(confirmed["filters"], json!({"event_types": ["AGENT_ERROR", "AGENT_MESSAGE"]}));
}

#[tokio::test]
async fn subscribe_frame_replaces_only_the_filters_it_names() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket =
        plane.subscribed(&user("acme", "viewer"), "entity_ids=s-9&event_types=agent.message").await;
    socket.send(json!({"type": "subscribe", "entity_ids": ["s-1"]})).await;
    let confirmed = socket.receive().await;
    assert_eq!(confirmed["status"], "subscribed");
    assert_eq!(confirmed["filters"], json!({"entity_ids": ["s-1"], "event_types": ["AGENT_MESSAGE"]}));
    plane.post_events("s-1", &worker, json!({"event_type": "agent.thinking"})).await.ok();
    plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    assert_eq!(socket.receive().await["event_type"], "SANDBOX_AGENT_MESSAGE");
    assert_eq!(socket.receive_until_pong().await, Vec::<Value>::new());
}

#[tokio::test]
async fn invalid_frames_get_an_error_and_keep_the_socket_open() {
    let plane = TestPlane::start().await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    let too_many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    for (text, code) in [
        ("nonsense".to_owned(), "invalid_json"),
        ("[1]".to_owned(), "invalid_frame"),
        ("7".to_owned(), "invalid_frame"),
        (r#"{"type":"unknown"}"#.to_owned(), "unknown_frame"),
        (json!({"type": "subscribe", "entity_ids": too_many}).to_string(), "invalid"),
    ] {
        socket.send_text(&text).await;
        assert_eq!(socket.receive().await["code"], code, "{text}");
    }
    assert!(socket.receive_until_pong().await.is_empty());
}

#[tokio::test]
async fn filters_without_a_token_in_the_handshake_are_rejected() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    for path in [
        "/api/v1/sandbox/s-1/ws",
        "/api/v1/ws/events?sandbox_id=s-1",
        "/api/v1/ws/events?event_types=agent.message",
        "/api/v1/ws/events?entity_type=sandbox",
        "/api/v1/ws/events?entity_ids=s-1",
        "/api/v1/ws/events?batch=true",
    ] {
        assert_eq!(plane.try_socket(path).await.err(), Some(422), "{path}");
    }
}

#[tokio::test]
async fn batches_are_bundled_only_for_sockets_that_opted_in() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut bundled = plane.subscribed(OPERATOR, "batch=true").await;
    let mut single = plane.subscribed(OPERATOR, "").await;
    plane.post_events("s-1", &worker, batch(1, 1, 1, 50)).await.ok();
    let frame = bundled.receive().await;
    let seqs: Vec<_> =
        frame["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!((&frame["type"], seqs), (&json!("events"), (1..=50).collect::<Vec<_>>()));
    for seq in 1..=50 {
        assert_eq!(single.receive().await["seq"], seq);
    }
}

#[tokio::test]
async fn event_too_large_for_a_frame_becomes_a_reference() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    for size in [50_000, 400_000] {
        let data = json!({"file_path": "src/a.rs", "full_diff": "+ line\n".repeat(size / 7)});
        let event = json!({"event_type": "agent.file_edited", "event_data": data});
        plane.post_events("s-1", &worker, event).await.ok();
        let frame = socket.receive().await;
        assert!(frame.to_string().len() <= 32 * 1024);
        assert_eq!(frame["payload"]["file_path"], "src/a.rs");
        let reference = &frame["payload"]["body_ref"];
        assert_eq!(reference["omitted"], json!(["full_diff"]));
        let body = plane.get(reference["href"].as_str().unwrap(), OPERATOR).await.ok();
        assert_eq!(body, data);
    }
}

/// In OmoiOS, one client that stopped reading blocked all others.
#[tokio::test]
async fn stalled_reader_is_dropped_without_delaying_others() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut stalled = plane.subscribed(OPERATOR, "").await;
    let mut quick = plane.subscribed(OPERATOR, "").await;
    let open = plane.running.aws.hub.len();
    let mut posted = 0;
    // More than the TCP buffers and the bounded queue can hold.
    while plane.running.aws.hub.len() == open {
        posted += 1;
        assert!(posted < 400, "the stalled reader was never dropped");
        let text = "x".repeat(20_000);
        let events: Vec<Value> = (0..10)
            .map(|n| json!({"event_id": format!("e-{n}"), "event_type": "agent.message", "event_data": {"text": text}}))
            .collect();
        let body = json!({"epoch": 1, "batch": posted, "events": events});
        plane.post_events("s-1", &worker, body).await.ok();
        for n in 1..=10 {
            assert_eq!(quick.receive().await["seq"], (posted - 1) * 10 + n);
        }
    }
    while stalled.try_receive().await.is_some() {}
}

#[tokio::test]
async fn disconnected_socket_is_unsubscribed() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let disconnected = plane.subscribed(OPERATOR, "").await;
    let mut connected = plane.subscribed(OPERATOR, "").await;
    drop(disconnected);
    for seq in 1..=3 {
        plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
        assert_eq!(connected.receive().await["seq"], seq);
    }
    let unsubscribed = async {
        while plane.running.aws.hub.len() != 1
            || plane.running.aws.store.subscribers("*", "all").await.unwrap().len() != 1
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), unsubscribed).await.expect("the socket is unsubscribed");
}

#[tokio::test]
async fn follower_receives_stored_events_then_new_ones() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    plane.post_events("s-1", &worker, batch(1, 1, 1, 100)).await.ok();
    let mut follower = Follower::new(Follow {
        plane: plane.url.clone(),
        sockets: None,
        sandbox: SandboxId::parse("s-1").unwrap(),
        token: Some(worker.clone()),
        after_seq: 40,
        idle_timeout: client::IDLE_TIMEOUT,
    });
    for seq in 41..=100 {
        assert_eq!(follower.next().await.seq, seq);
    }
    for number in 2..=20 {
        plane.post_events("s-1", &worker, batch(1, number, number * 100, 3)).await.ok();
    }
    for seq in 101..=157 {
        let event = follower.next().await;
        assert_eq!((event.seq, event.event_type.as_str()), (seq, "agent.message"));
    }
    assert_eq!(follower.last_seq(), 157);
}

/// Field names may contain any character, and JSON escapes can make them six times as long.
#[tokio::test]
async fn frames_never_exceed_the_api_gateway_limit() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    let data: serde_json::Map<String, Value> =
        (0..2_000).map(|n| (format!("{}{n}", "\u{1}".repeat(90)), json!("x".repeat(40)))).collect();
    plane.post_events("s-1", &worker, json!({"event_type": "agent.message", "event_data": data})).await.ok();
    assert!(socket.receive().await.to_string().len() <= 32 * 1024);
}

/// A broadcast also writes to the table, and must not wait for its own stream records to be processed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_that_disconnect_under_load_do_not_block_the_plane() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut connected = plane.subscribed(OPERATOR, "batch=true").await;
    for round in 0..5u64 {
        let disconnecting: Vec<_> = {
            let opened = (0..20).map(|_| plane.subscribed(OPERATOR, ""));
            futures_util::future::join_all(opened).await
        };
        let posts =
            (0..20).map(|_| plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})));
        let posted = futures_util::future::join_all(posts);
        drop(disconnecting);
        for response in posted.await {
            response.ok();
        }
        let mut received = 0;
        while received < 20 {
            let frame = connected.receive().await;
            received += frame["events"].as_array().map_or(1, Vec::len);
        }
        assert_eq!(received, 20, "round {round}");
    }
}

/// An agent that cuts text anywhere can send an unpaired surrogate. In a field name it once stopped the broadcast.
#[tokio::test]
async fn event_with_invalid_unicode_does_not_stop_the_broadcast() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    for data in
        [r#"{"\ud800":1}"#, r#"{"text":"cut \ud83d"}"#, r#"{"body\u005fref":{"href":"//evil.example"}}"#]
    {
        for name in ["agent.message", "agent.heartbeat"] {
            let body = format!(r#"{{"event_type":"{name}","event_data":{data}}}"#);
            let path = "/api/v1/sandboxes/s-1/events";
            let request = plane.raw(reqwest::Method::POST, path).bearer_auth(&worker).body(body);
            assert_eq!(request.send().await.unwrap().status(), 200, "{data}");
            let frame = socket.receive().await;
            assert!(frame["payload"]["body_ref"].is_null(), "{frame}");
        }
    }
}

#[tokio::test]
async fn idle_socket_is_pinged() {
    let plane = TestPlane::start_with(|dev| dev.socket_timeouts.ping_after = Duration::from_secs(1)).await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    assert_eq!(socket.receive().await, json!({"type": "ping"}));
    plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    let mut frame = socket.receive().await;
    while frame["type"] == "ping" {
        frame = socket.receive().await;
    }
    assert_eq!(frame["seq"], 1);
    socket.send(json!({"type": "pong"})).await;
    assert!(
        socket.receive_until_pong().await.iter().all(|frame| frame["type"] == "ping"),
        "a pong needs no response"
    );
}

#[tokio::test]
async fn unauthenticated_socket_is_closed_and_an_authenticated_one_stays() {
    let plane = TestPlane::start_with(|dev| dev.auth_timeout_secs = 2).await;
    let mut authenticated = plane.subscribed(OPERATOR, "").await;
    let mut unauthenticated = plane.socket("/api/v1/ws/events").await;
    assert_eq!(unauthenticated.receive().await["code"], "unauthorized");
    assert_eq!(unauthenticated.try_receive().await, None);
    assert!(authenticated.receive_until_pong().await.is_empty(), "an authenticated socket is not closed");
}

#[tokio::test]
async fn socket_is_closed_at_its_maximum_age() {
    let plane = TestPlane::start_with(|dev| dev.socket_timeouts.max_age = Duration::from_secs(2)).await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    assert_eq!(socket.try_receive().await, None);
}

#[tokio::test]
async fn follower_ignores_a_task_with_the_id_of_its_sandbox() {
    let plane = TestPlane::start().await;
    let worker = plane.register("x-1", "acme").await;
    let task = Entity::Task(TaskId::parse("x-1").unwrap());
    let mut follower = Follower::new(Follow {
        plane: plane.url.clone(),
        sockets: None,
        sandbox: SandboxId::parse("x-1").unwrap(),
        token: Some(OPERATOR.into()),
        after_seq: 0,
        idle_timeout: client::IDLE_TIMEOUT,
    });
    let mut watcher = plane.subscribed(OPERATOR, "entity_types=task").await;
    plane.post_events("x-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    assert_eq!(follower.next().await.seq, 1);
    // Events are broadcast in order, so once the third arrives, the follower has received the second.
    for before in [1, 2] {
        plane.put_history(&task, "acme", before, &["task.updated"]).await;
        assert_eq!(watcher.receive().await["seq"], before + 1);
    }
    plane.post_events("x-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    let next = follower.next().await;
    assert_eq!((next.seq, next.event_type.as_str()), (2, "agent.message"));
}
