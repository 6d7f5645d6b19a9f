//! What a socket hears, and when.

use crate::support::{OPERATOR, Socket, TestPlane, batch, user};
use client::{Follow, Follower};
use domain::{Entity, SandboxId, TaskId};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn an_event_is_heard_with_id_sequence_and_time() {
    let plane = TestPlane::start().await;
    let worker = plane.register("S", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "entity_ids=S").await;
    let data = json!({"turn": 3, "tool": "Bash", "input": {"command": "ls"}});
    let sent = json!({"event_type": "agent.tool_use", "event_data": data, "source": "agent"});
    let answer = plane.post_events("S", &worker, sent).await.ok();
    let frame = socket.hear().await;
    assert_eq!(
        frame,
        json!({
            "id": answer["event_id"], "seq": 1, "event_type": "SANDBOX_AGENT_TOOL_USE", "entity_type": "sandbox",
            "entity_id": "S", "timestamp": answer["timestamp"],
            "payload": {"turn": 3, "tool": "Bash", "input": {"command": "ls"}, "source": "agent",
                        "original_event_type": "agent.tool_use"},
        })
    );
}

#[tokio::test]
async fn heartbeats_are_heard_without_a_sequence_number() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    let beat = json!({"event_type": "agent.heartbeat", "event_data": {"status": "working"}});
    plane.post_events("s-1", &worker, beat).await.ok();
    let frame = socket.hear().await;
    assert_eq!((&frame["event_type"], &frame["seq"]), (&json!("SANDBOX_AGENT_HEARTBEAT"), &Value::Null));
    assert_eq!(frame["payload"]["status"], "working");
}

#[tokio::test]
async fn unfinished_text_is_heard_and_never_kept() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    let beat = json!({"event_type": "agent.heartbeat", "event_data": {"status": "idle"}});
    plane.post_events("s-1", &worker, beat).await.ok();
    let before = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok();
    let mut socket = plane.subscribed(&user("acme", "viewer"), "").await;
    let partial = |n: u64| {
        let data = json!({"message_id": "msg-1", "block": 0, "kind": "text", "offset": n, "text": "hel", "status": "busy"});
        json!({"event_id": format!("p-{n}"), "event_type": "agent.partial", "event_data": data})
    };
    let single = plane.post_events("s-1", &worker, partial(0)).await.ok();
    assert_eq!((&single["seq"], &single["status"]), (&Value::Null, &json!("received")));
    let frame = socket.hear().await;
    assert_eq!((&frame["event_type"], &frame["seq"]), (&json!("SANDBOX_AGENT_PARTIAL"), &Value::Null));
    assert_eq!((&frame["id"], &frame["payload"]["text"]), (&json!("p-0"), &json!("hel")));
    let several = json!({"epoch": 1, "batch": 1, "events": [partial(1), partial(2), partial(3)]});
    let answer = plane.post_events("s-1", &worker, several.clone()).await.ok();
    let told = (&answer["first_seq"], &answer["events"], &answer["heartbeats"]);
    assert_eq!(told, (&Value::Null, &json!(0), &json!(0)));
    for offset in 1..=3 {
        assert_eq!(socket.hear().await["payload"]["offset"], offset);
    }
    assert_eq!(plane.post_events("s-1", &worker, several).await.ok()["repeated"], true);
    assert!(socket.hear_until_pong().await.is_empty(), "a repeat is not told again");
    let after = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok();
    for same in ["last_seq", "heartbeats", "heartbeat_status", "event_counts"] {
        assert_eq!(after[same], before[same], "{same}");
    }
    for later in ["last_event_at", "last_work_at"] {
        assert!(after[later].as_str() > before[later].as_str(), "{later}: it shows that work is done");
    }
    let page = plane.get("/api/v1/sandboxes/s-1/events", OPERATOR).await.ok();
    assert_eq!((&page["total_count"], &page["last_seq"]), (&json!(1), &json!(1)));
    let trajectory = plane.get("/api/v1/sandboxes/s-1/trajectory", OPERATOR).await.ok();
    assert_eq!((&trajectory["total_events"], &trajectory["trajectory_events"]), (&json!(2), &json!(1)));
    assert_eq!(plane.log("s-1").await.len(), 1);
}

/// A batch may hold more of it than one item of the table can.
#[tokio::test]
async fn much_unfinished_text_is_heard_whole_in_frames_that_fit() {
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
        let frame = socket.hear().await;
        assert!(frame.to_string().len() <= 32 * 1024);
        let bundled = frame["events"].as_array().cloned().unwrap_or_else(|| vec![frame]);
        for event in bundled {
            assert!(event["payload"]["text"].as_str().unwrap().len() > 16_000, "nothing is left out");
            offsets.push(event["payload"]["offset"].as_u64().unwrap());
        }
    }
    assert_eq!(offsets, (0..60).collect::<Vec<_>>());
}

async fn names_heard(socket: &mut Socket) -> Vec<String> {
    let frames = socket.hear_until_pong().await;
    frames.iter().map(|frame| frame["payload"]["original_event_type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn filters_are_and_across_and_or_within_in_any_spelling() {
    let plane = TestPlane::start().await;
    let (one, two) = (plane.register("s-1", "acme").await, plane.register("s-2", "acme").await);
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
    plane.post_events("s-1", &one, json!({"event_type": "agent.tool_use"})).await.ok();
    all.hear().await;
    plane.post_events("s-2", &two, json!({"event_type": "agent.tool_use"})).await.ok();
    all.hear().await;
    plane.post_events("s-1", &one, json!({"event_type": "agent.message"})).await.ok();
    all.hear().await;
    for (mut socket, expected, query) in sockets {
        assert_eq!(names_heard(&mut socket).await, expected, "{query}");
    }
}

#[tokio::test]
async fn a_subscribe_frame_replaces_the_filters_it_names() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket =
        plane.subscribed(&user("acme", "viewer"), "entity_ids=s-9&event_types=agent.message").await;
    socket.say(json!({"type": "subscribe", "entity_ids": ["s-1"]})).await;
    let confirmed = socket.hear().await;
    assert_eq!(confirmed["status"], "subscribed");
    assert_eq!(confirmed["filters"], json!({"entity_ids": ["s-1"], "event_types": ["AGENT_MESSAGE"]}));
    plane.post_events("s-1", &worker, json!({"event_type": "agent.thinking"})).await.ok();
    plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    assert_eq!(socket.hear().await["event_type"], "SANDBOX_AGENT_MESSAGE");
    assert_eq!(socket.hear_until_pong().await, Vec::<Value>::new());
}

#[tokio::test]
async fn odd_frames_are_answered_and_do_not_close_the_socket() {
    let plane = TestPlane::start().await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    let too_many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    for (text, code) in [
        ("nonsense".to_owned(), "invalid_json"),
        ("[1]".to_owned(), "invalid_frame"),
        ("7".to_owned(), "invalid_frame"),
        (r#"{"type":"shout"}"#.to_owned(), "unknown_frame"),
        (json!({"type": "subscribe", "entity_ids": too_many}).to_string(), "invalid"),
    ] {
        socket.say_text(&text).await;
        assert_eq!(socket.hear().await["code"], code, "{text}");
    }
    assert!(socket.hear_until_pong().await.is_empty());
}

#[tokio::test]
async fn a_batch_comes_bundled_to_those_who_asked_and_one_by_one_to_others() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut bundled = plane.subscribed(OPERATOR, "batch=true").await;
    let mut single = plane.subscribed(OPERATOR, "").await;
    plane.post_events("s-1", &worker, batch(1, 1, 1, 50)).await.ok();
    let frame = bundled.hear().await;
    let seqs: Vec<_> =
        frame["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!((&frame["type"], seqs), (&json!("events"), (1..=50).collect::<Vec<_>>()));
    for seq in 1..=50 {
        assert_eq!(single.hear().await["seq"], seq);
    }
}

#[tokio::test]
async fn what_is_too_large_for_a_frame_is_heard_as_a_reference() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    for size in [50_000, 400_000] {
        let data = json!({"file_path": "src/a.rs", "full_diff": "+ line\n".repeat(size / 7)});
        let event = json!({"event_type": "agent.file_edited", "event_data": data});
        plane.post_events("s-1", &worker, event).await.ok();
        let frame = socket.hear().await;
        assert!(frame.to_string().len() <= 32 * 1024);
        assert_eq!(frame["payload"]["file_path"], "src/a.rs");
        let reference = &frame["payload"]["body_ref"];
        assert_eq!(reference["omitted"], json!(["full_diff"]));
        let whole = plane.get(reference["href"].as_str().unwrap(), OPERATOR).await.ok();
        assert_eq!(whole, data);
    }
}

/// OmoiOS froze everybody when one client stopped reading.
#[tokio::test]
async fn a_reader_that_stops_is_dropped_and_delays_nobody() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut stalled = plane.subscribed(OPERATOR, "").await;
    let mut quick = plane.subscribed(OPERATOR, "").await;
    let open = plane.running.aws.hub.len();
    let mut posted = 0;
    // As much as the wire and the bounded buffer hold, and then some.
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
            assert_eq!(quick.hear().await["seq"], (posted - 1) * 10 + n);
        }
    }
    while stalled.try_hear().await.is_some() {}
}

#[tokio::test]
async fn a_socket_that_is_gone_is_forgotten() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let gone = plane.subscribed(OPERATOR, "").await;
    let mut stays = plane.subscribed(OPERATOR, "").await;
    drop(gone);
    for seq in 1..=3 {
        plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
        assert_eq!(stays.hear().await["seq"], seq);
    }
    let forgotten = async {
        while plane.running.aws.hub.len() != 1
            || plane.running.aws.store.subscribers("*", "all").await.unwrap().len() != 1
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), forgotten).await.expect("the socket is forgotten");
}

#[tokio::test]
async fn a_follower_sees_what_was_before_and_what_comes() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    plane.post_events("s-1", &worker, batch(1, 1, 1, 100)).await.ok();
    let mut follower = Follower::new(Follow {
        plane: plane.url.clone(),
        sockets: None,
        sandbox: SandboxId::parse("s-1").unwrap(),
        token: Some(worker.clone()),
        after_seq: 40,
        silence: client::SILENCE,
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

/// Field names may be anything: as JSON they may be six times as long.
#[tokio::test]
async fn no_frame_is_larger_than_api_gateway_takes() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    let data: serde_json::Map<String, Value> =
        (0..2_000).map(|n| (format!("{}{n}", "\u{1}".repeat(90)), json!("x".repeat(40)))).collect();
    plane.post_events("s-1", &worker, json!({"event_type": "agent.message", "event_data": data})).await.ok();
    assert!(socket.hear().await.to_string().len() <= 32 * 1024);
}

/// Whoever tells the news also writes, and must not wait for its own news to be told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_that_vanish_under_load_do_not_stop_the_plane() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut stays = plane.subscribed(OPERATOR, "batch=true").await;
    for round in 0..5u64 {
        let leaving: Vec<_> = {
            let opened = (0..20).map(|_| plane.subscribed(OPERATOR, ""));
            futures_util::future::join_all(opened).await
        };
        let posts =
            (0..20).map(|_| plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})));
        let posted = futures_util::future::join_all(posts);
        drop(leaving);
        for answer in posted.await {
            answer.ok();
        }
        let mut heard = 0;
        while heard < 20 {
            let frame = stays.hear().await;
            heard += frame["events"].as_array().map_or(1, Vec::len);
        }
        assert_eq!(heard, 20, "round {round}");
    }
}

/// Half of an emoji, as an agent sends it that cuts its text anywhere. In a name it once ended the telling.
#[tokio::test]
async fn an_event_that_is_hard_to_read_does_not_silence_anybody() {
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
            let frame = socket.hear().await;
            assert!(frame["payload"]["body_ref"].is_null(), "{frame}");
        }
    }
}

#[tokio::test]
async fn a_silent_socket_is_pinged() {
    let plane = TestPlane::start_with(|dev| dev.patience.ping_after = Duration::from_secs(1)).await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    assert_eq!(socket.hear().await, json!({"type": "ping"}));
    plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    let mut frame = socket.hear().await;
    while frame["type"] == "ping" {
        frame = socket.hear().await;
    }
    assert_eq!(frame["seq"], 1);
    socket.say(json!({"type": "pong"})).await;
    assert!(
        socket.hear_until_pong().await.iter().all(|frame| frame["type"] == "ping"),
        "a pong needs no answer"
    );
}

#[tokio::test]
async fn unauthenticated_socket_is_closed_and_an_authenticated_one_stays() {
    let plane = TestPlane::start_with(|dev| dev.known_within_secs = 2).await;
    let mut known = plane.subscribed(OPERATOR, "").await;
    let mut silent = plane.socket("/api/v1/ws/events").await;
    assert_eq!(silent.hear().await["code"], "unauthorized");
    assert_eq!(silent.try_hear().await, None);
    assert!(known.hear_until_pong().await.is_empty(), "an authenticated socket is not closed");
}

#[tokio::test]
async fn every_socket_is_closed_after_its_longest_time() {
    let plane = TestPlane::start_with(|dev| dev.patience.longest = Duration::from_secs(2)).await;
    let mut known = plane.subscribed(OPERATOR, "").await;
    assert_eq!(known.try_hear().await, None);
}

#[tokio::test]
async fn a_follower_is_not_misled_by_a_task_that_is_called_like_its_sandbox() {
    let plane = TestPlane::start().await;
    let worker = plane.register("x-1", "acme").await;
    let task = Entity::Task(TaskId::parse("x-1").unwrap());
    let mut follower = Follower::new(Follow {
        plane: plane.url.clone(),
        sockets: None,
        sandbox: SandboxId::parse("x-1").unwrap(),
        token: Some(OPERATOR.into()),
        after_seq: 0,
        silence: client::SILENCE,
    });
    let mut watcher = plane.subscribed(OPERATOR, "entity_types=task").await;
    plane.post_events("x-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    assert_eq!(follower.next().await.seq, 1);
    // Whoever hears the third was told the second before, and so was the follower.
    for before in [1, 2] {
        plane.put_history(&task, "acme", before, &["task.updated"]).await;
        assert_eq!(watcher.hear().await["seq"], before + 1);
    }
    plane.post_events("x-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    let next = follower.next().await;
    assert_eq!((next.seq, next.event_type.as_str()), (2, "agent.message"));
}
