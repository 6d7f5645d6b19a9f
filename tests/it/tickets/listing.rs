//! Listing tickets.

use super::{TicketApi, ids};
use crate::support::{OPERATOR, user};
use app::tickets;
use contract::tickets::{Filter, TicketOut};
use domain::access::Principal;
use serde_json::{Value, json};

#[tokio::test]
async fn pages_are_newest_first_and_complete() {
    let api = TicketApi::open().await;
    for n in 1..=5 {
        api.create(&format!("k-{n}"), json!({})).await;
    }
    let page = api.list("").await;
    assert_eq!(ids(&page), ["k-5", "k-4", "k-3", "k-2", "k-1"]);
    assert_eq!((&page["next_cursor"], &page["has_more"]), (&Value::Null, &json!(false)));
    let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = api.list(&format!("limit=2{cursor}")).await;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        pages += 1;
        assert_eq!(page["has_more"], page["next_cursor"].is_string(), "{page}");
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={}", next.replace('#', "%23"));
    }
    assert_eq!((seen.join(" ").as_str(), pages), ("k-5 k-4 k-3 k-2 k-1", 3));
}

#[tokio::test]
async fn filters_apply_across_pages() {
    let api = TicketApi::open().await;
    // More than one page of the table, with a match at its far end.
    api.create("k-old", json!({"title": "The Café", "priority": "CRITICAL", "project_id": "p-1"})).await;
    api.create("k", json!({"priority": "LOW"})).await;
    api.add_copies("k", 100).await;
    api.create("k-new", json!({"description": "Open a café", "project_id": "p-2"})).await;
    let body = json!({"to_status": "analyzing"});
    let moved = api.call("tickets-transition", &api.member, "POST", "/k-new/transition", Some(&body)).await;
    assert_eq!(moved.0, 200);
    for (query, expected) in [
        ("search=CAF%C3%89", vec!["k-new", "k-old"]),
        ("search=nothing+like+it", vec![]),
        ("priority=CRITICAL", vec!["k-old"]),
        ("project_id=p-2", vec!["k-new"]),
        ("status=analyzing", vec!["k-new"]),
        ("status=analyzing&priority=LOW", vec![]),
        ("approval_status=pending_review", vec![]),
    ] {
        let page = api.list(query).await;
        assert_eq!(ids(&page), expected, "{query}");
        assert_eq!((&page["next_cursor"], &page["has_more"]), (&Value::Null, &json!(false)), "{query}");
    }
    let first = api.list("search=caf%C3%A9&limit=1").await;
    assert_eq!((ids(&first), &first["has_more"]), (vec!["k-new"], &json!(true)));
    let cursor = first["next_cursor"].as_str().unwrap().replace('#', "%23");
    let second = api.list(&format!("search=caf%C3%A9&limit=1&cursor={cursor}")).await;
    assert_eq!((ids(&second), &second["has_more"]), (vec!["k-old"], &json!(false)));
}

#[tokio::test]
async fn search_continues_across_empty_pages() {
    let api = TicketApi::open().await;
    api.create("k-old", json!({"title": "The needle"})).await;
    api.create("k", json!({})).await;
    api.add_copies("k", 499).await;
    let first = api.list("search=needle").await;
    assert_eq!(
        (ids(&first), &first["has_more"]),
        (vec![], &json!(true)),
        "the scan limit of one request is reached"
    );
    let cursor = first["next_cursor"].as_str().unwrap().replace('#', "%23");
    let second = api.list(&format!("search=needle&cursor={cursor}")).await;
    assert_eq!((ids(&second), &second["has_more"]), (vec!["k-old"], &json!(false)));
}

#[tokio::test]
async fn page_size_in_bytes_is_bounded() {
    let api = TicketApi::open().await;
    api.create("k", json!({"description": "x".repeat(64 * 1024)})).await;
    api.add_copies("k", 29).await;
    let list = async |cursor: Option<String>| {
        let (principal, org, filter) = (Principal::operator("local"), None, Filter::default());
        let command = tickets::list::Command { principal, org, filter, cursor, limit: 100 };
        tickets::list::run(tickets::list::Deps { store: &api.harness.aws.store }, command).await.unwrap()
    };
    let first = list(None).await;
    let shown: Vec<TicketOut> = first.tickets.iter().map(TicketOut::from).collect();
    assert!(json!(shown).to_string().len() < 4 * 1024 * 1024);
    let second = list(first.next_cursor).await;
    assert_eq!((first.tickets.len() + second.tickets.len(), second.next_cursor), (30, None));
}

#[tokio::test]
async fn list_is_limited_to_the_callers_org() {
    let api = TicketApi::open().await;
    api.create("k-1", json!({})).await;
    api.harness.clock.advance_secs(1);
    let theirs = json!({"ticket_id": "k-2", "title": "Theirs", "org": "rival"});
    assert_eq!(api.post_as(OPERATOR, &theirs).await.0, 201);
    let list = async |token: &str, query: &str| api.call("tickets-list", token, "GET", query, None).await;
    assert_eq!(ids(&list(&api.member, "").await.1), ["k-1"]);
    assert_eq!(ids(&list(&api.member, "?org=acme").await.1), ["k-1"]);
    assert_eq!(ids(&list(&user("rival", "viewer"), "").await.1), ["k-2"]);
    assert_eq!(ids(&list(OPERATOR, "").await.1), ["k-2", "k-1"]);
    assert_eq!(ids(&list(OPERATOR, "?org=acme").await.1), ["k-1"]);
    assert_eq!(list(&api.member, "?org=rival").await.0, 403);
}

#[tokio::test]
async fn invalid_query_parameter_is_named() {
    let api = TicketApi::open().await;
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("cursor=nonsense", "cursor"),
        ("status=open", "status"),
        ("priority=high", "priority"),
        ("project_id=a%20b", "project_id"),
        ("approval_status=maybe", "approval_status"),
        ("org=a%20b", "org"),
    ] {
        let (status, problem) =
            api.call("tickets-list", &api.member, "GET", &format!("?{query}"), None).await;
        assert_eq!((status, &problem["field"]), (422, &json!(field)), "{query}");
    }
}
