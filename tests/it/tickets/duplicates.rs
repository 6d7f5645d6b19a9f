//! A ticket that asks for what another asks for.

use super::Desk;
use crate::support::user;
use serde_json::{Value, json};

fn similar(answer: &Value) -> Vec<&str> {
    let Some(candidates) = answer["candidates"].as_array() else { return Vec::new() };
    candidates.iter().map(|candidate| candidate["ticket_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_similar_open_ticket_is_told_instead_of_creating_another() {
    let mut desk = Desk::open().await;
    desk.created("k-1", json!({"title": "Fix the login bug", "description": "It throws."})).await;
    desk.created("k-2", json!({"title": "Add a dark mode"})).await;
    desk.jobs().await;
    let (status, answer) = desk.create(json!({"title": "fix login bugs"})).await;
    assert_eq!((status, &answer["is_duplicate"]), (200, &json!(true)));
    assert_eq!(similar(&answer), ["k-1"]);
    let candidate = &answer["candidates"][0];
    assert_eq!(candidate["title"], "Fix the login bug");
    assert_eq!((&candidate["description"], &candidate["status"]), (&json!("It throws."), &json!("backlog")));
    assert_eq!(candidate["similarity_score"], answer["highest_similarity"]);
    assert!(answer["highest_similarity"].as_f64().unwrap() >= 0.85, "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains("k-1") && message.contains("force_create"),
        "it says what can be done: {answer}"
    );
    assert_eq!(desk.list("").await["tickets"].as_array().unwrap().len(), 2, "nothing was created");
    assert!(desk.jobs().await.is_empty());
    for way in [
        json!({"title": "Fix login bug", "force_create": true}),
        json!({"title": "Fix login bug", "check_duplicates": false}),
        json!({"title": "Fix the logout bug"}),
    ] {
        assert_eq!(desk.create(way.clone()).await.0, 201, "{way}");
    }
    let (_, strict) = desk.create(json!({"title": "Add dark modes", "similarity_threshold": 1})).await;
    assert_eq!(strict["is_duplicate"], Value::Null);
    let (_, lax) = desk.create(json!({"title": "Remove the dark mode", "similarity_threshold": 0.3})).await;
    assert!(similar(&lax).contains(&"k-2"), "{lax}");
}

#[tokio::test]
async fn what_is_over_and_what_is_somebody_elses_is_no_duplicate() {
    let desk = Desk::open().await;
    desk.created("k-1", json!({"title": "Fix the login bug"})).await;
    let wish = json!({"title": "Fix the login bug"});
    let (status, theirs) = desk.create_as(&user("rival", "member"), &wish).await;
    assert_eq!(status, 201, "{theirs}");
    let done = json!({"to_status": "done", "force": true});
    let (status, _) =
        desk.ask("tickets-transition", &desk.member, "POST", "/k-1/transition", Some(&done)).await;
    assert_eq!(status, 200);
    assert_eq!(desk.create(wish).await.0, 201);
}

#[tokio::test]
async fn a_ticket_that_was_rejected_or_forgotten_may_be_asked_for_again() {
    let desk = Desk::with_approval().await;
    desk.created("k-1", json!({"title": "Fix the login bug"})).await;
    let wish = json!({"title": "Fix the login bug"});
    let (status, answer) = desk.create(wish.clone()).await;
    assert_eq!((status, similar(&answer)), (200, vec!["k-1"]), "it may still be approved");
    let no = json!({"rejection_reason": "Not now."});
    assert_eq!(desk.ask("tickets-reject", &desk.member, "POST", "/k-1/reject", Some(&no)).await.0, 200);
    assert_eq!(desk.create(wish).await.0, 201);
}

#[tokio::test]
async fn long_descriptions_that_begin_alike_are_two_tickets() {
    let desk = Desk::open().await;
    let wish = |what: &str| {
        let start = "As a customer of the shop who is signed in and has at least one order I want to be able, on my page, ";
        json!({"description": format!("{start}{what}")})
    };
    let (status, first) = desk.create(wish("to pay an order.")).await;
    assert_eq!(status, 201, "{first}");
    let (status, second) = desk.create(wish("to cancel an order.")).await;
    assert_eq!(
        (status, &second["title"]),
        (201, &first["title"]),
        "the same title, and another wish: {second}"
    );
    let (status, again) = desk.create(wish("to pay an order.")).await;
    assert_eq!((status, similar(&again)), (200, vec![first["id"].as_str().unwrap()]), "{again}");
}
