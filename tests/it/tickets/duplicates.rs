//! Detection of duplicate tickets.

use super::TicketApi;
use crate::support::user;
use serde_json::{Value, json};

fn candidate_ids(answer: &Value) -> Vec<&str> {
    let Some(candidates) = answer["candidates"].as_array() else { return Vec::new() };
    candidates.iter().map(|candidate| candidate["ticket_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn similar_open_ticket_is_returned_instead_of_a_new_one() {
    let mut api = TicketApi::open().await;
    api.create("k-1", json!({"title": "Fix the login bug", "description": "It throws."})).await;
    api.create("k-2", json!({"title": "Add a dark mode"})).await;
    api.take_jobs().await;
    let (status, answer) = api.post(json!({"title": "fix login bugs"})).await;
    assert_eq!((status, &answer["is_duplicate"]), (200, &json!(true)));
    assert_eq!(candidate_ids(&answer), ["k-1"]);
    let candidate = &answer["candidates"][0];
    assert_eq!(candidate["title"], "Fix the login bug");
    assert_eq!((&candidate["description"], &candidate["status"]), (&json!("It throws."), &json!("backlog")));
    assert_eq!(candidate["similarity_score"], answer["highest_similarity"]);
    assert!(answer["highest_similarity"].as_f64().unwrap() >= 0.85, "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains("k-1") && message.contains("force_create"),
        "the message names the ticket and the override: {answer}"
    );
    assert_eq!(api.list("").await["tickets"].as_array().unwrap().len(), 2, "nothing was created");
    assert!(api.take_jobs().await.is_empty());
    for body in [
        json!({"title": "Fix login bug", "force_create": true}),
        json!({"title": "Fix login bug", "check_duplicates": false}),
        json!({"title": "Fix the logout bug"}),
    ] {
        assert_eq!(api.post(body.clone()).await.0, 201, "{body}");
    }
    let (_, strict) = api.post(json!({"title": "Add dark modes", "similarity_threshold": 1})).await;
    assert_eq!(strict["is_duplicate"], Value::Null);
    let (_, lax) = api.post(json!({"title": "Remove the dark mode", "similarity_threshold": 0.3})).await;
    assert!(candidate_ids(&lax).contains(&"k-2"), "{lax}");
}

#[tokio::test]
async fn finished_and_foreign_tickets_are_no_duplicates() {
    let api = TicketApi::open().await;
    api.create("k-1", json!({"title": "Fix the login bug"})).await;
    let spec = json!({"title": "Fix the login bug"});
    let (status, theirs) = api.post_as(&user("rival", "member"), &spec).await;
    assert_eq!(status, 201, "{theirs}");
    let done = json!({"to_status": "done", "force": true});
    let (status, _) =
        api.call("tickets-transition", &api.member, "POST", "/k-1/transition", Some(&done)).await;
    assert_eq!(status, 200);
    assert_eq!(api.post(spec).await.0, 201);
}

#[tokio::test]
async fn rejected_ticket_is_no_duplicate() {
    let api = TicketApi::with_approval().await;
    api.create("k-1", json!({"title": "Fix the login bug"})).await;
    let spec = json!({"title": "Fix the login bug"});
    let (status, answer) = api.post(spec.clone()).await;
    assert_eq!((status, candidate_ids(&answer)), (200, vec!["k-1"]), "it may still be approved");
    let no = json!({"rejection_reason": "Not now."});
    assert_eq!(api.call("tickets-reject", &api.member, "POST", "/k-1/reject", Some(&no)).await.0, 200);
    assert_eq!(api.post(spec).await.0, 201);
}

#[tokio::test]
async fn descriptions_with_a_common_prefix_are_no_duplicates() {
    let api = TicketApi::open().await;
    let spec = |ending: &str| {
        let prefix = "As a customer of the shop who is signed in and has at least one order I want to be able, on my page, ";
        json!({"description": format!("{prefix}{ending}")})
    };
    let (status, first) = api.post(spec("to pay an order.")).await;
    assert_eq!(status, 201, "{first}");
    let (status, second) = api.post(spec("to cancel an order.")).await;
    assert_eq!(
        (status, &second["title"]),
        (201, &first["title"]),
        "same title, different description: {second}"
    );
    let (status, repeated) = api.post(spec("to pay an order.")).await;
    assert_eq!((status, candidate_ids(&repeated)), (200, vec![first["id"].as_str().unwrap()]), "{repeated}");
}
