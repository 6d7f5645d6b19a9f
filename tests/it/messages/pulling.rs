//! Pulling and acknowledging messages.

use super::paused_plane::PausedPlane;
use super::{Api, MESSAGES, ack, ids, message_events, pull, send, send_as};
use crate::support::{OPERATOR, TestPlane, user};
use contract::messages::DEFAULT_WAIT_SECS;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

#[tokio::test]
async fn every_message_state_has_a_receipt_and_an_event() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let member = user("acme", "member");
    let mut socket = plane.subscribed(&user("acme", "viewer"), "event_types=SANDBOX_MESSAGE_QUEUED").await;
    let body = json!({"content": "use\u{7} sqlite\r\n", "message_id": "m-1"});
    let queued = plane.post(MESSAGES, &member, body).await.ok();
    let response =
        json!({"status": "queued", "message_id": "m-1", "sandbox_id": "s-1", "queue_size": 1, "seq": 1});
    assert_eq!(queued, response);
    let frame = socket.receive().await;
    assert_eq!(frame["event_type"], "SANDBOX_MESSAGE_QUEUED");
    assert_eq!(frame["payload"]["content"], "use sqlite\n");
    assert_eq!(frame["payload"]["priority"], "normal");

    let pulled = pull(&plane, &worker, "wait=0").await;
    assert_eq!(ids(&pulled), ["m-1"]);
    assert_eq!(pulled[0]["content"], "use sqlite\n");
    assert_eq!(pulled[0]["message_type"], "user_message");
    assert_eq!(pulled[0]["sender"], json!({"kind": "user", "id": "u-1"}));
    assert_eq!(
        (&pulled[0]["receipt"]["state"], &pulled[0]["receipt"]["delivery"]),
        (&json!("fetched"), &json!(1))
    );
    let response = ack(&plane, &worker, &[("m-1", "delivered"), ("m-1", "started")]).await;
    assert_eq!(response["receipts"][1], json!({"message_id": "m-1", "state": "started", "changed": true}));
    assert_eq!(response["queue_size"], 0);
    let done = json!({"receipts": [{"message_id": "m-1", "state": "completed", "detail": "three files"}]});
    plane.post(&format!("{MESSAGES}/ack"), &worker, done).await.ok();

    let states: Vec<String> = message_events(&plane).await.into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, ["queued", "fetched", "delivered", "started", "completed"]);
    let filtered =
        plane.get("/api/v1/sandboxes/s-1/events?event_type=SANDBOX_MESSAGE_QUEUED", OPERATOR).await.ok();
    assert_eq!((&filtered["total_count"], &filtered["events"][0]["seq"]), (&json!(1), &json!(1)));
    let history = plane.get(&format!("{MESSAGES}/history"), &user("acme", "viewer")).await.ok();
    let message = &history["messages"][0];
    assert_eq!(
        (&message["id"], &message["state"], &message["seq"]),
        (&json!("m-1"), &json!("completed"), &json!(1))
    );
    let receipts = message["receipts"].as_array().unwrap();
    assert_eq!(receipts.len(), 5);
    assert_eq!(receipts[4]["detail"], "three files");
    assert_eq!(history["queue_size"], 0);
}

#[tokio::test]
async fn interrupt_overtakes_queued_messages() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for n in 0..50 {
        send(&plane, &format!("m-{n}"), "go on").await.ok();
    }
    let queued = send_as(&plane, "stop", "stop", "interrupt").await.ok();
    assert_eq!(queued["queue_size"], 51);
    let pulled = pull(&plane, &worker, "wait=0").await;
    assert_eq!(ids(&pulled)[..3], ["stop", "m-0", "m-1"]);
    assert_eq!(pulled.len(), 10);
    // The ten fetched messages hold back all others except urgent ones.
    assert!(pull(&plane, &worker, "wait=0").await.is_empty());
    send_as(&plane, "stop-again", "stop", "interrupt").await.ok();
    send_as(&plane, "stop-all", "stop", "stop").await.ok();
    let urgent = pull(&plane, &worker, "wait=0").await;
    assert_eq!(ids(&urgent), ["stop-again", "stop-all"], "urgent messages keep their order");
    let types: Vec<&Value> = urgent.iter().map(|message| &message["message_type"]).collect();
    assert_eq!(types, ["interrupt", "stop"]);
    let log = plane.log("s-1").await;
    let queued = log.iter().find(|event| event["event_data"]["message_type"] == "stop").unwrap();
    assert_eq!(queued["event_data"]["priority"], "high");
}

/// Even if the unacknowledged messages fill more than one page of the query.
#[tokio::test]
async fn interrupt_is_found_behind_many_unacknowledged_messages() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for n in 0..50 {
        send_as(&plane, &format!("stop-{n}"), "stop", "interrupt").await.ok();
    }
    for _ in 0..5 {
        assert_eq!(pull(&plane, &worker, "wait=0").await.len(), 10);
    }
    assert!(pull(&plane, &worker, "wait=0").await.is_empty());
    send(&plane, "m-1", "go on").await.ok();
    send_as(&plane, "now", "stop", "interrupt").await.ok();
    assert_eq!(ids(&pull(&plane, &worker, "wait=0").await), ["now", "m-1"]);
}

#[tokio::test(start_paused = true)]
async fn unacknowledged_messages_are_redelivered_in_order() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    for id in ["m-1", "m-2", "m-3"] {
        send(&plane, id, "go on").await.ok();
    }
    assert_eq!(ids(&pull(&plane, &worker, "wait=0&max=2&visibility=1").await), ["m-1", "m-2"]);
    ack(&plane, &worker, &[("m-1", "delivered")]).await;
    // The pull waits until the unacknowledged message is visible again, and not longer.
    let started = Instant::now();
    let pulled = pull(&plane, &worker, "wait=10").await;
    assert_eq!(ids(&pulled), ["m-2", "m-3"]);
    assert_eq!(started.elapsed().as_secs(), 1);
    assert_eq!(
        (&pulled[0]["receipt"]["delivery"], &pulled[1]["receipt"]["delivery"]),
        (&json!(2), &json!(1))
    );
}

#[tokio::test]
async fn receipts_only_advance_and_are_logged_once() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    send(&plane, "m-1", "one").await.ok();
    pull(&plane, &worker, "wait=0").await;
    for (state, changed, current) in [
        ("started", true, "started"),
        ("delivered", false, "started"),
        ("started", false, "started"),
        ("cancelled", true, "cancelled"),
        ("completed", false, "cancelled"),
    ] {
        let response = ack(&plane, &worker, &[("m-1", state)]).await;
        assert_eq!(
            response["receipts"][0],
            json!({"message_id": "m-1", "state": current, "changed": changed})
        );
    }
    let states: Vec<String> = message_events(&plane).await.into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, ["queued", "fetched", "started", "cancelled"]);
    let unknown = json!({"receipts": [{"message_id": "m-1", "state": "started"},
                                      {"message_id": "m-9", "state": "started"}]});
    let rejected = plane.post(&format!("{MESSAGES}/ack"), &worker, unknown).await;
    assert_eq!((rejected.status, &rejected.body["field"]), (422, &json!("receipts[1].message_id")));
}

/// An unchanged OmoiOS worker: it polls, reads a plain list, and sends no receipts.
#[tokio::test(start_paused = true)]
async fn omoios_poll_gets_a_plain_list_and_acknowledges_it() {
    let plane = PausedPlane::open_without_auth().await;
    let call =
        async |method: Method, path: &str, body: Option<Value>| plane.call(method, path, None, body).await;
    let started = json!({"event_type": "agent.started", "source": "worker"});
    call(Method::POST, "/api/v1/sandboxes/s-1/events", Some(started)).await.ok();
    for (content, message_type) in
        [("one", "user_message"), ("two", "guardian_nudge"), ("now", "interrupt"), ("all", "stop")]
    {
        let body = json!({"content": content, "message_type": message_type});
        let path = "/api/v1/sandbox/s-1/message";
        assert_eq!(call(Method::POST, path, Some(body)).await.ok()["status"], "queued");
    }
    let list = call(Method::GET, MESSAGES, None).await.ok();
    let received: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|message| (&message["content"], &message["message_type"]))
        .collect();
    let expected = json!([
        ["now", "interrupt"],
        ["all", "interrupt"],
        ["one", "user_message"],
        ["two", "guardian_nudge"]
    ]);
    assert_eq!(json!(received), expected);
    let mut fields: Vec<&String> = list[0].as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["content", "id", "message_type", "timestamp"]);
    let started_at = Instant::now();
    assert_eq!(call(Method::GET, MESSAGES, None).await.ok(), json!([]));
    assert_eq!(
        started_at.elapsed().as_secs(),
        DEFAULT_WAIT_SECS,
        "the OmoiOS client times out after ten seconds"
    );
    let history = call(Method::GET, &format!("{MESSAGES}/history"), None).await.ok();
    let states: Vec<_> =
        history["messages"].as_array().unwrap().iter().map(|message| &message["state"]).collect();
    assert_eq!(states, ["delivered"; 4]);
    let sandbox = call(Method::GET, "/api/v1/sandboxes/s-1", None).await.ok();
    assert_eq!(
        (&history["queue_size"], &sandbox["queue_size"]),
        (&json!(0), &json!(0)),
        "the queue is empty"
    );
}
