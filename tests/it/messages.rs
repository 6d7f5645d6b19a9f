//! Messages to a working agent: sent once, handed out in order, confirmed once, and never lost.

use crate::support::{Answer, OPERATOR, TestPlane, user};
use domain::SandboxId;
use local::aws::Fault;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const MESSAGES: &str = "/api/v1/sandboxes/s-1/messages";

async fn send(plane: &TestPlane, id: &str, content: &str) -> Answer {
    send_as(plane, id, content, "user_message").await
}

async fn send_as(plane: &TestPlane, id: &str, content: &str, message_type: &str) -> Answer {
    let body = json!({"content": content, "message_type": message_type, "message_id": id});
    plane.post(MESSAGES, OPERATOR, body).await
}

/// What a pull that confirms by receipts is handed.
async fn pull(plane: &TestPlane, worker: &str, query: &str) -> Vec<Value> {
    let page = plane.get(&format!("{MESSAGES}?ack=manual&{query}"), worker).await.ok();
    page["messages"].as_array().unwrap().clone()
}

fn ids(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["id"].as_str().unwrap()).collect()
}

async fn ack(plane: &TestPlane, worker: &str, receipts: &[(&str, &str)]) -> Value {
    let receipts: Vec<Value> =
        receipts.iter().map(|(id, state)| json!({"message_id": id, "state": state})).collect();
    plane.post(&format!("{MESSAGES}/ack"), worker, json!({"receipts": receipts})).await.ok()
}

/// What the log tells of messages: state and id.
async fn told(plane: &TestPlane) -> Vec<(String, String)> {
    let log = plane.log("s-1").await;
    let about = log.iter().filter_map(|event| {
        let state = event["event_type"].as_str()?.strip_prefix("message.")?;
        Some((state.to_owned(), event["event_data"]["message_id"].as_str()?.to_owned()))
    });
    about.collect()
}

#[tokio::test]
async fn a_message_leaves_a_receipt_at_every_step() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let member = user("acme", "member");
    let mut socket = plane.subscribed(&user("acme", "viewer"), "event_types=SANDBOX_MESSAGE_QUEUED").await;
    let body = json!({"content": "use\u{7} sqlite\r\n", "message_id": "m-1"});
    let queued = plane.post(MESSAGES, &member, body).await.ok();
    let answer =
        json!({"status": "queued", "message_id": "m-1", "sandbox_id": "s-1", "queue_size": 1, "seq": 1});
    assert_eq!(queued, answer);
    let notice = socket.hear().await;
    assert_eq!(notice["event_type"], "SANDBOX_MESSAGE_QUEUED");
    assert_eq!(notice["payload"]["content"], "use sqlite\n");
    assert_eq!(notice["payload"]["priority"], "normal");

    let handed = pull(&plane, &worker, "wait=0").await;
    assert_eq!(ids(&handed), ["m-1"]);
    assert_eq!(handed[0]["content"], "use sqlite\n");
    assert_eq!(handed[0]["message_type"], "user_message");
    assert_eq!(handed[0]["sender"], json!({"kind": "user", "id": "u-1"}));
    assert_eq!(
        (&handed[0]["receipt"]["state"], &handed[0]["receipt"]["delivery"]),
        (&json!("fetched"), &json!(1))
    );
    let answer = ack(&plane, &worker, &[("m-1", "delivered"), ("m-1", "started")]).await;
    assert_eq!(answer["receipts"][1], json!({"message_id": "m-1", "state": "started", "changed": true}));
    assert_eq!(answer["queue_size"], 0);
    let done = json!({"receipts": [{"message_id": "m-1", "state": "completed", "detail": "three files"}]});
    plane.post(&format!("{MESSAGES}/ack"), &worker, done).await.ok();

    let states: Vec<String> = told(&plane).await.into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, ["queued", "fetched", "delivered", "started", "completed"]);
    let spelled =
        plane.get("/api/v1/sandboxes/s-1/events?event_type=SANDBOX_MESSAGE_QUEUED", OPERATOR).await.ok();
    assert_eq!((&spelled["total_count"], &spelled["events"][0]["seq"]), (&json!(1), &json!(1)));
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
async fn a_repeated_message_is_sent_once_and_gets_the_first_answer() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let first = send(&plane, "m-1", "one").await.ok();
    send(&plane, "m-2", "two").await.ok();
    assert_eq!(send(&plane, "m-1", "one").await.ok(), first);
    let changed = send(&plane, "m-1", "something else").await;
    assert_eq!((changed.status, &changed.body["code"]), (409, &json!("message_changed")));
    assert_eq!(ids(&pull(&plane, &worker, "wait=0").await), ["m-1", "m-2"]);
    ack(&plane, &worker, &[("m-1", "delivered"), ("m-2", "delivered")]).await;
    assert_eq!(send(&plane, "m-1", "one").await.ok(), first, "long after it was confirmed");
    assert!(pull(&plane, &worker, "wait=0").await.is_empty());
    let without_id = plane.post(MESSAGES, OPERATOR, json!({"content": "three"})).await.ok();
    assert!(without_id["message_id"].as_str().unwrap().starts_with("msg-"));
}

#[tokio::test]
async fn an_interrupt_behind_fifty_messages_comes_first() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for n in 0..50 {
        send(&plane, &format!("m-{n}"), "go on").await.ok();
    }
    let queued = send_as(&plane, "stop", "stop", "interrupt").await.ok();
    assert_eq!(queued["queue_size"], 51);
    let handed = pull(&plane, &worker, "wait=0").await;
    assert_eq!(ids(&handed)[..3], ["stop", "m-0", "m-1"]);
    assert_eq!(handed.len(), 10);
    // In the hands of the worker are ten; nothing passes them but another interrupt.
    assert!(pull(&plane, &worker, "wait=0").await.is_empty());
    send_as(&plane, "stop-again", "stop", "interrupt").await.ok();
    assert_eq!(ids(&pull(&plane, &worker, "wait=0").await), ["stop-again"]);
}

/// However many are in the worker's hands: more than one look finds.
#[tokio::test]
async fn an_interrupt_is_found_behind_many_that_are_not_confirmed() {
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

#[tokio::test]
async fn what_is_not_confirmed_comes_back_in_order() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for id in ["m-1", "m-2", "m-3"] {
        send(&plane, id, "go on").await.ok();
    }
    assert_eq!(ids(&pull(&plane, &worker, "wait=0&max=2&visibility=1").await), ["m-1", "m-2"]);
    ack(&plane, &worker, &[("m-1", "delivered")]).await;
    // Waits for what comes back, and for nothing longer.
    let began = Instant::now();
    let handed = pull(&plane, &worker, "wait=10").await;
    assert_eq!(ids(&handed), ["m-2", "m-3"]);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(
        (&handed[0]["receipt"]["delivery"], &handed[1]["receipt"]["delivery"]),
        (&json!(2), &json!(1))
    );
}

#[tokio::test]
async fn a_waiting_pull_is_woken_at_once() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let began = Instant::now();
    let (handed, _) = tokio::join!(pull(&plane, &worker, "wait=20"), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        send(&plane, "m-1", "hello").await.ok();
    });
    assert_eq!(ids(&handed), ["m-1"]);
    // While one is in the worker's hands the next is held back, and let go by the receipt.
    send(&plane, "m-2", "and on").await.ok();
    let (handed, _) = tokio::join!(pull(&plane, &worker, "wait=20"), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        ack(&plane, &worker, &[("m-1", "delivered")]).await;
    });
    assert_eq!(ids(&handed), ["m-2"]);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// The queue only rings. Whatever happens to it costs a moment.
#[tokio::test]
async fn a_message_needs_no_bell() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let (faults, mailboxes) = (&plane.running.aws.faults, &plane.running.aws.mailboxes);
    let sandbox = SandboxId::parse("s-1").unwrap();
    let take = async |id: &str, wait: &str| {
        let began = Instant::now();
        let handed = pull(&plane, &worker, wait).await;
        assert_eq!(ids(&handed), [id]);
        ack(&plane, &worker, &[(id, "delivered")]).await;
        assert!(began.elapsed() < Duration::from_secs(10), "{id} took {:?}", began.elapsed());
    };
    let soon = async |id: &str| {
        tokio::time::sleep(Duration::from_millis(300)).await;
        send(&plane, id, "hello").await.ok();
    };
    // It does not ring.
    faults.inject("SendMessage", Fault::Unreachable);
    tokio::join!(take("unrung", "wait=2"), soon("unrung"));
    assert_eq!(faults.waiting(), 0);
    // Nobody can wait at it.
    faults.inject("ReceiveMessage", Fault::ServerError);
    tokio::join!(take("unheard", "wait=20"), soon("unheard"));
    assert_eq!(faults.waiting(), 0);
    // It is gone, while messages wait and while somebody waits for one; its name is blocked for a minute.
    send(&plane, "before", "hello").await.ok();
    mailboxes.remove(&sandbox).await.unwrap();
    take("before", "wait=20").await;
    tokio::join!(take("after", "wait=20"), soon("after"));
}

#[tokio::test]
async fn a_table_that_fails_is_a_503_and_the_repeat_sends_once() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let faults = &plane.running.aws.faults;
    for fault in [Fault::Throttled, Fault::ServerError, Fault::Unreachable] {
        faults.inject("TransactWriteItems", fault);
        let refused = send(&plane, "m-1", "hello").await;
        assert_eq!((refused.status, &refused.body["code"]), (503, &json!("unavailable")), "{fault:?}");
    }
    faults.inject("TransactWriteItems", Fault::TransactionConflict);
    send(&plane, "m-1", "hello").await.ok();
    for fault in [Fault::Throttled, Fault::Unreachable] {
        faults.inject("TransactWriteItems", fault);
        assert_eq!(plane.get(&format!("{MESSAGES}?ack=manual&wait=0"), &worker).await.status, 503);
    }
    assert_eq!(ids(&pull(&plane, &worker, "wait=0").await), ["m-1"], "what was not noted was not handed out");
    assert_eq!(told(&plane).await.len(), 2);
}

#[tokio::test]
async fn receipts_go_forward_only_and_each_is_told_once() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    send(&plane, "m-1", "one").await.ok();
    pull(&plane, &worker, "wait=0").await;
    for (state, changed, stands) in [
        ("started", true, "started"),
        ("delivered", false, "started"),
        ("started", false, "started"),
        ("cancelled", true, "cancelled"),
        ("completed", false, "cancelled"),
    ] {
        let answer = ack(&plane, &worker, &[("m-1", state)]).await;
        assert_eq!(answer["receipts"][0], json!({"message_id": "m-1", "state": stands, "changed": changed}));
    }
    let states: Vec<String> = told(&plane).await.into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, ["queued", "fetched", "started", "cancelled"]);
    let unknown = json!({"receipts": [{"message_id": "m-1", "state": "started"},
                                      {"message_id": "m-9", "state": "started"}]});
    let refused = plane.post(&format!("{MESSAGES}/ack"), &worker, unknown).await;
    assert_eq!((refused.status, &refused.body["field"]), (422, &json!("receipts[1].message_id")));
}

/// An unchanged OmoiOS worker: it polls, reads a plain list, and sends no receipts.
#[tokio::test]
async fn a_plain_poll_gets_a_plain_list_and_has_confirmed_it() {
    let plane = TestPlane::start_with(|dev| dev.no_auth = true).await;
    let anybody =
        async |method: Method, path: &str, body: Option<Value>| plane.call(method, path, None, body).await;
    let started = json!({"event_type": "agent.started", "source": "worker"});
    anybody(Method::POST, "/api/v1/sandboxes/s-1/events", Some(started)).await.ok();
    for (content, message_type) in [("one", "user_message"), ("two", "guardian_nudge"), ("now", "interrupt")]
    {
        let body = json!({"content": content, "message_type": message_type});
        let path = "/api/v1/sandbox/s-1/message";
        assert_eq!(anybody(Method::POST, path, Some(body)).await.ok()["status"], "queued");
    }
    let list = anybody(Method::GET, MESSAGES, None).await.ok();
    let told: Vec<_> =
        list.as_array().unwrap().iter().map(|one| (&one["content"], &one["message_type"])).collect();
    let expected = json!([["now", "interrupt"], ["one", "user_message"], ["two", "guardian_nudge"]]);
    assert_eq!(json!(told), expected);
    let mut fields: Vec<&String> = list[0].as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["content", "id", "message_type", "timestamp"]);
    let began = Instant::now();
    assert_eq!(anybody(Method::GET, MESSAGES, None).await.ok(), json!([]));
    assert!(began.elapsed() < Duration::from_secs(5), "well within the ten seconds of its patience");
    let history = anybody(Method::GET, &format!("{MESSAGES}/history"), None).await.ok();
    let states: Vec<_> = history["messages"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["delivered", "delivered", "delivered"]);
}

#[tokio::test]
async fn a_sandbox_that_ended_takes_no_messages_and_gives_up_those_it_had() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for n in 0..30 {
        send(&plane, &format!("m-{n}"), "go on").await.ok();
    }
    pull(&plane, &worker, "wait=0&max=1").await;
    ack(&plane, &worker, &[("m-0", "delivered")]).await;
    let waiting = pull(&plane, &worker, "wait=20");
    let (_, ended) = tokio::join!(waiting, async {
        plane.call(Method::DELETE, "/api/v1/sandboxes/s-1?reason=too+slow", Some(OPERATOR), None).await.ok()
    });
    assert_eq!((&ended["status"], &ended["ended"]["reason"]), (&json!("terminated"), &json!("too slow")));
    assert_eq!(ended["queue_size"], 0);
    let refused = send(&plane, "m-31", "hello?").await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("sandbox_finished")));
    assert!(refused.body["detail"].as_str().unwrap().contains("too slow"), "{}", refused.body);
    assert_eq!(send(&plane, "m-3", "go on").await.status, 200, "a repeat is a repeat");
    assert_eq!(plane.get(&format!("{MESSAGES}?wait=0"), &worker).await.status, 409);
    let told = told(&plane).await;
    let cancelled = told.iter().filter(|(state, _)| state == "cancelled").count();
    assert_eq!(cancelled, 29, "all but the one that was confirmed");
    // Whoever ends it again changes nothing, and its worker may say its last words.
    let again = plane.call(Method::DELETE, "/api/v1/sandboxes/s-1", Some(OPERATOR), None).await.ok();
    assert_eq!(again["ended"], ended["ended"]);
    plane.post_events("s-1", &worker, json!({"event_type": "agent.shutdown"})).await.ok();
    assert_eq!(plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok()["status"], "terminated");
    let ends = plane.log("s-1").await.into_iter().filter(|event| event["event_type"] == "sandbox.terminated");
    assert_eq!(ends.count(), 1);
}

#[tokio::test]
async fn a_pull_that_waits_for_a_sandbox_that_ends_is_told_so() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let began = Instant::now();
    let path = format!("{MESSAGES}?wait=20");
    let (waiting, _) = tokio::join!(plane.get(&path, &worker), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        plane.call(Method::DELETE, "/api/v1/sandboxes/s-1", Some(OPERATOR), None).await.ok()
    });
    assert_eq!((waiting.status, &waiting.body["code"]), (409, &json!("sandbox_finished")));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn the_history_goes_back_page_by_page() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for n in 1..=7 {
        send(&plane, &format!("m-{n}"), "go on").await.ok();
        plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    }
    let (mut seen, mut before) = (Vec::new(), String::new());
    loop {
        let page = plane.get(&format!("{MESSAGES}/history?limit=3{before}"), OPERATOR).await.ok();
        seen.extend(page["messages"].as_array().unwrap().clone());
        match page["next_before"].as_u64() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    assert_eq!(ids(&seen), ["m-7", "m-6", "m-5", "m-4", "m-3", "m-2", "m-1"]);
}

#[tokio::test]
async fn messages_are_not_the_sandboxs_own_doing() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    send(&plane, "m-1", "are you there?").await.ok();
    let sandbox = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok();
    assert_eq!((&sandbox["status"], &sandbox["queue_size"]), (&json!("registered"), &json!(1)));
    assert_eq!((&sandbox["last_event_at"], &sandbox["last_work_at"]), (&Value::Null, &Value::Null));
}
