//! Manual transitions of tickets, and isolation between orgs.

use super::TicketApi;
use crate::support::user;
use serde_json::{Value, json};

async fn transition(api: &TicketApi, body: Value) -> (u64, Value) {
    api.call("tickets-transition", &api.member, "POST", "/k-1/transition", Some(&body)).await
}

#[tokio::test]
async fn only_allowed_transitions_are_accepted() {
    let api = TicketApi::open().await;
    api.create("k-1", json!({})).await;
    let (status, moved) = transition(&api, json!({"to_status": "analyzing", "reason": "Begun."})).await;
    assert_eq!((status, &moved["status"]), (200, &json!("analyzing")), "{moved}");
    assert_eq!(moved["phase_id"], "PHASE_REQUIREMENTS");
    assert_eq!(moved["previous_phase_id"], "PHASE_BACKLOG");
    let (status, problem) = transition(&api, json!({"to_status": "testing"})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("transition_not_allowed")));
    assert_eq!(
        (&problem["current_status"], &problem["allowed"]),
        (&json!("analyzing"), &json!(["building"])),
        "{problem}"
    );
    assert!(problem["detail"].as_str().unwrap().contains("Allowed: building."), "{problem}");
    let (status, problem) = transition(&api, json!({"to_status": "analyzing"})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("already_in_status")));
    let (status, moved) = transition(&api, json!({"to_status": "done", "force": true})).await;
    assert_eq!((status, &moved["status"]), (200, &json!("done")));
    let (status, problem) = transition(&api, json!({"to_status": "building"})).await;
    assert_eq!((status, &problem["allowed"]), (409, &json!([])));
    for (body, field) in [
        (json!({"to_status": "elsewhere"}), "to_status"),
        (json!({}), "to_status"),
        (json!({"to_status": "done", "force": 1}), "force"),
    ] {
        let (status, problem) = transition(&api, body).await;
        assert_eq!((status, &problem["field"]), (422, &json!(field)));
    }
    assert_eq!(
        api.event_types("k-1").await,
        ["ticket.created", "ticket.transitioned", "ticket.transitioned"]
    );
    let path = "/k-1/events?after_seq=1&limit=1";
    let (_, page) = api.call("tickets-events", &api.member, "GET", path, None).await;
    let data = &page["events"][0]["event_data"];
    assert_eq!((&data["from_status"], &data["to_status"]), (&json!("backlog"), &json!("analyzing")));
    assert_eq!(
        (&data["reason"], &data["forced"], &data["by"]),
        (&json!("Begun."), &json!(false), &json!("u-1"))
    );
}

#[tokio::test]
async fn concurrent_transitions_are_applied_once() {
    let api = TicketApi::open().await;
    api.create("k-1", json!({})).await;
    let start = || transition(&api, json!({"to_status": "analyzing"}));
    let (first, second) = tokio::join!(start(), start());
    let mut statuses = [first.0, second.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    assert_eq!(api.event_types("k-1").await, ["ticket.created", "ticket.transitioned"]);
}

#[tokio::test]
async fn ticket_of_another_org_is_indistinguishable_from_a_missing_one() {
    let api = TicketApi::with_approval().await;
    api.create("k-1", json!({})).await;
    let rival = user("rival", "admin");
    for (function, method, path, body) in [
        ("tickets-get", "GET", "", None),
        ("tickets-events", "GET", "/events", None),
        ("tickets-transition", "POST", "/transition", Some(json!({"to_status": "analyzing"}))),
        ("tickets-approve", "POST", "/approve", None),
        ("tickets-reject", "POST", "/reject", Some(json!({"rejection_reason": "No."}))),
    ] {
        let call = async |id: &str| {
            let (status, mut problem) =
                api.call(function, &rival, method, &format!("/{id}{path}"), body.as_ref()).await;
            problem["request_id"] = Value::Null;
            (status, problem.to_string().replace(id, "?"))
        };
        let (foreign, absent) = (call("k-1").await, call("k-9").await);
        assert_eq!((foreign.0, &foreign), (404, &absent), "{function}");
        let (status, problem) =
            api.call(function, &rival, method, &format!("/a%20b{path}"), body.as_ref()).await;
        assert_eq!((status, &problem["field"]), (422, &json!("ticket_id")), "{function}");
    }
    assert_eq!(api.event_types("k-1").await, ["ticket.created"]);
}
