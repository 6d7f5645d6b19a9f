//! Events of tickets and their tasks on sockets.

use crate::support::{OPERATOR, TestPlane, user};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[tokio::test]
async fn ticket_and_task_events_reach_only_the_orgs_sockets() {
    let plane = TestPlane::start().await;
    let kinds = "entity_types=ticket,task";
    let mut colleague = plane.subscribed(&user("acme", "viewer"), kinds).await;
    let mut operator = plane.subscribed(OPERATOR, kinds).await;
    let mut rival = plane.subscribed(&user("rival", "admin"), "").await;
    let spec = json!({"ticket_id": "k-1", "title": "Fix it"});
    let created = plane.post("/api/v1/tickets", &user("acme", "member"), spec).await;
    assert_eq!(created.status, 201, "{}", created.body);
    for socket in [&mut colleague, &mut operator] {
        // Events are ordered per entity, not between entities. Later task events are not part of this test.
        let mut received: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        while !(received.contains_key("ticket")
            && received.get("task").is_some_and(|frames| frames.len() >= 2))
        {
            let frame = socket.receive().await;
            received.entry(frame["entity_type"].as_str().unwrap().to_owned()).or_default().push(frame);
        }
        let ticket = &received["ticket"][0];
        assert_eq!((&ticket["event_type"], &ticket["entity_id"]), (&json!("TICKET_CREATED"), &json!("k-1")));
        assert_eq!(ticket["payload"]["task_id"], created.body["task_id"], "{ticket}");
        let task = &received["task"];
        assert_eq!(
            (&task[0]["event_type"], &task[1]["event_type"]),
            (&json!("TASK_CREATED"), &json!("TASK_READY"))
        );
        for frame in &task[..2] {
            assert_eq!(frame["entity_id"], created.body["task_id"]);
            assert_eq!(frame["payload"]["ticket_id"], "k-1", "{frame}");
        }
    }
    assert!(rival.receive_until_pong().await.is_empty());
}
