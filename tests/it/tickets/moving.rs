//! Tickets moved by hand, and tickets that are not there for somebody.

use super::Desk;
use crate::support::user;
use serde_json::{Value, json};

async fn transition(desk: &Desk, body: Value) -> (u64, Value) {
    desk.ask("tickets-transition", &desk.member, "POST", "/k-1/transition", Some(&body)).await
}

#[tokio::test]
async fn a_ticket_moves_along_its_edges_and_is_told_where_else_it_may_go() {
    let desk = Desk::open().await;
    desk.created("k-1", json!({})).await;
    let (status, moved) = transition(&desk, json!({"to_status": "analyzing", "reason": "Begun."})).await;
    assert_eq!((status, &moved["status"]), (200, &json!("analyzing")), "{moved}");
    assert_eq!(moved["phase_id"], "PHASE_REQUIREMENTS");
    assert_eq!(moved["previous_phase_id"], "PHASE_BACKLOG");
    let (status, problem) = transition(&desk, json!({"to_status": "testing"})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("no_such_move")));
    assert_eq!(
        (&problem["current_status"], &problem["allowed"]),
        (&json!("analyzing"), &json!(["building"])),
        "{problem}"
    );
    assert!(problem["detail"].as_str().unwrap().contains("It may go to building."), "{problem}");
    let (status, problem) = transition(&desk, json!({"to_status": "analyzing"})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("already_there")));
    let (status, moved) = transition(&desk, json!({"to_status": "done", "force": true})).await;
    assert_eq!((status, &moved["status"]), (200, &json!("done")));
    let (status, problem) = transition(&desk, json!({"to_status": "building"})).await;
    assert_eq!((status, &problem["allowed"]), (409, &json!([])));
    for (body, field) in [
        (json!({"to_status": "elsewhere"}), "to_status"),
        (json!({}), "to_status"),
        (json!({"to_status": "done", "force": 1}), "force"),
    ] {
        let (status, problem) = transition(&desk, body).await;
        assert_eq!((status, &problem["field"]), (422, &json!(field)));
    }
    assert_eq!(desk.events("k-1").await, ["ticket.created", "ticket.transitioned", "ticket.transitioned"]);
    let path = "/k-1/events?after_seq=1&limit=1";
    let (_, page) = desk.ask("tickets-events", &desk.member, "GET", path, None).await;
    let data = &page["events"][0]["event_data"];
    assert_eq!((&data["from_status"], &data["to_status"]), (&json!("backlog"), &json!("analyzing")));
    assert_eq!(
        (&data["reason"], &data["forced"], &data["by"]),
        (&json!("Begun."), &json!(false), &json!("u-1"))
    );
}

#[tokio::test]
async fn two_moves_at_once_are_one_move() {
    let desk = Desk::open().await;
    desk.created("k-1", json!({})).await;
    let to = || transition(&desk, json!({"to_status": "analyzing"}));
    let (one, other) = tokio::join!(to(), to());
    let mut statuses = [one.0, other.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    assert_eq!(desk.events("k-1").await, ["ticket.created", "ticket.transitioned"]);
}

#[tokio::test]
async fn a_ticket_of_another_org_looks_exactly_like_one_that_is_not_there() {
    let desk = Desk::with_approval().await;
    desk.created("k-1", json!({})).await;
    let rival = user("rival", "admin");
    for (function, method, path, body) in [
        ("tickets-get", "GET", "", None),
        ("tickets-events", "GET", "/events", None),
        ("tickets-transition", "POST", "/transition", Some(json!({"to_status": "analyzing"}))),
        ("tickets-approve", "POST", "/approve", None),
        ("tickets-reject", "POST", "/reject", Some(json!({"rejection_reason": "No."}))),
    ] {
        let ask = async |id: &str| {
            let (status, mut problem) =
                desk.ask(function, &rival, method, &format!("/{id}{path}"), body.as_ref()).await;
            problem["request_id"] = Value::Null;
            (status, problem.to_string().replace(id, "?"))
        };
        let (foreign, absent) = (ask("k-1").await, ask("k-9").await);
        assert_eq!((foreign.0, &foreign), (404, &absent), "{function}");
        let (status, problem) =
            desk.ask(function, &rival, method, &format!("/a%20b{path}"), body.as_ref()).await;
        assert_eq!((status, &problem["field"]), (422, &json!("ticket_id")), "{function}");
    }
    assert_eq!(desk.events("k-1").await, ["ticket.created"]);
}
