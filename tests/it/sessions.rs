//! Session transcripts: entries are stored once, returned unchanged, and move to the sandbox that resumes the session.

use crate::harness::{Harness, invoke};
use crate::payloads::request;
use crate::support::{ApiResponse, OPERATOR, TestPlane, user};
use client::{Attempt, SandboxApi, Transcripts};
use contract::sessions::EntriesStored;
use domain::quota::{Amount, Quotas};
use domain::{JsonObject, SandboxId, SessionId};
use local::aws::Fault;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use std::time::Duration;

fn path(sandbox: &str) -> String {
    format!("/api/v1/sandboxes/{sandbox}/sessions/c0ffee/entries")
}

/// An entry that contains its number.
fn entry(number: u64) -> Value {
    json!({"type": "assistant", "uuid": format!("u-{number}"), "n": number})
}

async fn add(plane: &TestPlane, sandbox: &str, token: &str, numbers: std::ops::Range<u64>) -> ApiResponse {
    let entries: Vec<Value> = numbers.clone().map(entry).collect();
    plane.post(&path(sandbox), token, json!({"first": numbers.start, "entries": entries})).await
}

/// Appends entries through the client that workers use.
async fn append(api: &SandboxApi, first: u64, entries: &[Box<RawValue>]) -> Attempt<EntriesStored> {
    let entries: Vec<&str> = entries.iter().map(|entry| entry.get()).collect();
    api.entries("c0ffee", &format!("{{\"first\":{first},\"entries\":[{}]}}", entries.join(","))).await
}

fn stored(attempt: Attempt<EntriesStored>) -> EntriesStored {
    match attempt {
        Attempt::Answered(stored) => stored,
        other => panic!("{other:?}"),
    }
}

async fn register_resuming(plane: &TestPlane, id: &str, session: &str) -> ApiResponse {
    let body = json!({"sandbox_id": id, "org": "acme", "resumes": session});
    plane.post("/api/v1/sandboxes", OPERATOR, body).await
}

fn status_and_code(response: &ApiResponse) -> (u16, &str) {
    (response.status, response.body["code"].as_str().unwrap_or_default())
}

fn numbers(page: &Value) -> Vec<u64> {
    page["entries"].as_array().unwrap().iter().map(|entry| entry["n"].as_u64().unwrap()).collect()
}

/// Generates text that hardly compresses.
struct Noise(u64);

impl Noise {
    fn next(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(below)).unwrap()
    }

    fn text(&mut self, bytes: usize) -> String {
        (0..bytes).map(|_| char::from_digit(self.next(36), 36).unwrap()).collect()
    }

    /// UTF-8 text with nearly the maximum entropy for its size: the share of characters with one to four bytes follows
    /// how many of them exist.
    fn dense_text(&mut self, bytes: usize) -> String {
        let mut text = String::new();
        while text.len() < bytes {
            let code = match self.next(1_000) {
                0..811 => 0x21 + self.next(0x5d),
                811..954 => 0x80 + self.next(0x780),
                954..993 => 0x800 + self.next(0xd000),
                _ => 0x10000 + self.next(0x10_0000),
            };
            text.extend(char::from_u32(code).filter(|c| !matches!(c, '"' | '\\')));
        }
        text
    }
}

#[tokio::test]
async fn overlapping_appends_store_each_entry_once() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    assert_eq!(status_and_code(&add(&plane, "s-1", &worker, 2..3).await), (409, "entries_gap"));
    let first = add(&plane, "s-1", &worker, 1..4).await.ok();
    let expected = json!({
        "status": "stored", "session_id": "c0ffee", "first": 1, "entries": 3, "next": 4, "repeated": false
    });
    assert_eq!(first, expected);
    add(&plane, "s-1", &worker, 4..6).await.ok();
    let mut again = add(&plane, "s-1", &worker, 1..4).await.ok();
    assert_eq!(again["repeated"], true);
    again["repeated"] = json!(false);
    assert_eq!(again, first, "a late retry gets the original response");
    // Ranges that overlap earlier requests, and one that is partly new.
    assert_eq!(add(&plane, "s-1", &worker, 2..6).await.ok()["repeated"], true);
    let more = add(&plane, "s-1", &worker, 3..9).await.ok();
    assert_eq!((&more["next"], &more["repeated"]), (&json!(9), &json!(false)));
    let gap = add(&plane, "s-1", &worker, 10..11).await;
    assert_eq!((status_and_code(&gap), &gap.body["expected_first"]), ((409, "entries_gap"), &json!(9)));
    let changed = json!({"first": 5, "entries": [entry(5), {"n": "another"}]});
    let changed = plane.post(&path("s-1"), &worker, changed).await;
    assert_eq!((status_and_code(&changed), &changed.body["number"]), ((409, "entries_changed"), &json!(6)));
    let page = plane.get(&path("s-1"), &worker).await.ok();
    assert_eq!(numbers(&page), (1..9).collect::<Vec<_>>());
    let rest = (&page["session_id"], &page["sandbox_id"], &page["next_after"], &page["has_more"]);
    assert_eq!(rest, (&json!("c0ffee"), &json!("s-1"), &json!(8), &json!(false)));
}

#[tokio::test]
async fn session_entries_are_paged_from_any_position() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for start in (1..100).step_by(9) {
        add(&plane, "s-1", &worker, start..start + 9).await.ok();
    }
    for limit in [1, 7, 9, 500] {
        let (mut seen, mut after) = (Vec::new(), 0);
        loop {
            let page = plane.get(&format!("{}?after={after}&limit={limit}", path("s-1")), &worker).await.ok();
            let found = numbers(&page);
            assert!(found.len() <= limit);
            seen.extend(found);
            after = page["next_after"].as_u64().unwrap();
            if page["has_more"] == false {
                break;
            }
        }
        assert_eq!(seen, (1..100).collect::<Vec<_>>(), "pages of {limit}");
    }
    let end = plane.get(&format!("{}?after=4000", path("s-1")), &worker).await.ok();
    assert_eq!((numbers(&end), &end["has_more"]), (vec![], &json!(false)));
}

#[tokio::test]
async fn session_moves_to_the_sandbox_that_resumes_it() {
    let plane = TestPlane::start().await;
    let first = plane.register("s-1", "acme").await;
    add(&plane, "s-1", &first, 1..4).await.ok();
    let registered = register_resuming(&plane, "s-2", "c0ffee").await;
    assert_eq!(registered.status, 201, "{}", registered.body);
    assert_eq!(registered.body["sandbox"]["resumes"], "c0ffee");
    let second = registered.body["worker_token"].as_str().unwrap();
    let shown = plane.get("/api/v1/sandboxes/s-2", second).await.ok();
    assert_eq!(shown["resumes"], "c0ffee");
    let page = plane.get(&path("s-2"), second).await.ok();
    assert_eq!(
        (numbers(&page), &page["sandbox_id"]),
        (vec![1, 2, 3], &json!("s-1")),
        "the new sandbox can read before the session moves"
    );
    // Until the session moves, the previous sandbox may append.
    add(&plane, "s-1", &first, 4..5).await.ok();
    assert_eq!(status_and_code(&add(&plane, "s-2", second, 6..7).await), (409, "entries_gap"));
    add(&plane, "s-2", second, 5..6).await.ok();
    assert_eq!(status_and_code(&add(&plane, "s-1", &first, 6..7).await), (409, "session_superseded"));
    assert_eq!(
        plane.get(&path("s-1"), &first).await.status,
        404,
        "the previous sandbox cannot read any more"
    );
    add(&plane, "s-2", second, 6..7).await.ok();
    // A later sandbox takes the session over, and it never moves back.
    let third = register_resuming(&plane, "s-3", "c0ffee").await;
    let third = third.body["worker_token"].as_str().unwrap();
    add(&plane, "s-3", third, 7..8).await.ok();
    assert_eq!(status_and_code(&add(&plane, "s-2", second, 8..9).await), (409, "session_superseded"));
    // Users can read it through every sandbox that it was in.
    for sandbox in ["s-1", "s-2", "s-3"] {
        let page = plane.get(&path(sandbox), &user("acme", "viewer")).await.ok();
        assert_eq!((numbers(&page).len(), &page["sandbox_id"]), (7, &json!("s-3")));
    }
}

#[tokio::test]
async fn session_is_accessible_only_to_its_org_and_sandbox() {
    let plane = TestPlane::start().await;
    let own = plane.register("s-1", "acme").await;
    let same_org = plane.register("s-2", "acme").await;
    let other_org = plane.register("s-9", "rival").await;
    add(&plane, "s-1", &own, 1..3).await.ok();
    assert_eq!(plane.get(&path("s-2"), &same_org).await.status, 404);
    assert_eq!(status_and_code(&add(&plane, "s-2", &same_org, 3..4).await), (409, "session_superseded"));
    // In another org the session is not found, for every caller.
    for token in [other_org.as_str(), &user("rival", "admin"), OPERATOR] {
        assert_eq!(plane.get(&path("s-9"), token).await.status, 404);
    }
    assert_eq!(add(&plane, "s-9", &other_org, 3..4).await.status, 404);
    assert_eq!(plane.get(&path("s-1"), &user("rival", "admin")).await.status, 404);
    for (org, session) in [("rival", "c0ffee"), ("acme", "missing")] {
        let body = json!({"org": org, "resumes": session});
        let rejected = plane.post("/api/v1/sandboxes", OPERATOR, body).await;
        assert_eq!((rejected.status, &rejected.body["field"]), (422, &json!("resumes")));
    }
    let member = json!({"resumes": "c0ffee"});
    let other_org_member = plane.post("/api/v1/sandboxes", &user("rival", "member"), member.clone()).await;
    assert_eq!(other_org_member.status, 422);
    assert_eq!(plane.post("/api/v1/sandboxes", &user("acme", "member"), member).await.status, 201);
    assert_eq!(numbers(&plane.get(&path("s-1"), &own).await.ok()), [1, 2]);
}

#[tokio::test]
async fn session_entries_are_returned_byte_for_byte() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut noise = Noise(7);
    let mut text = |bytes: usize| noise.text(bytes);
    let (sandbox, session) = (SandboxId::parse("s-1").unwrap(), SessionId::parse("c0ffee").unwrap());
    let transcripts = Transcripts::new(&plane.url, &sandbox, Some(worker.clone()), Duration::from_secs(60));
    let api = SandboxApi::new(&plane.url, &sandbox, Some(worker), Duration::from_secs(60));
    let raw = |json: String| RawValue::from_string(json).unwrap();
    // Unusual formatting, larger than an item, larger than a page, highly compressible, and many entries.
    let mut sent: Vec<Vec<Box<RawValue>>> = vec![
        vec![raw(r#"{"z" : 1.000000000000000000001, "a":"\u00e9"}"#.into())],
        vec![raw(json!({"text": text(900_000)}).to_string()), raw("{}".into())],
        vec![
            raw(json!({"text": text(1_500_000)}).to_string()),
            raw(json!({"text": text(1_500_000)}).to_string()),
        ],
        vec![raw(json!({"same": "x".repeat(3_900_000)}).to_string())],
        (0..500).map(|n| to_raw_value(&entry(n)).unwrap()).collect(),
    ];
    let mut first = 1;
    for entries in &sent {
        let stored = stored(append(&api, first, entries).await);
        assert_eq!((stored.next, stored.repeated), (first + entries.len() as u64, false));
        assert!(self::stored(append(&api, first, entries).await).repeated);
        first = stored.next;
    }
    let (mut read, mut after, mut more) = (Vec::new(), 0, true);
    while more {
        let page = transcripts.page(&session, after).await.unwrap();
        read.extend(page.entries);
        (after, more) = (page.next_after, page.has_more);
    }
    let expected: Vec<Box<RawValue>> = sent.drain(..).flatten().collect();
    assert!(
        read.iter().map(JsonObject::text).eq(expected.iter().map(|entry| entry.get())),
        "{} of {} entries were returned",
        read.len(),
        expected.len()
    );
    let oversized = [raw(json!({"text": Noise(9).dense_text(4_150_000)}).to_string())];
    let Attempt::Refused(problem) = append(&api, first, &oversized).await else { panic!() };
    assert_eq!(problem.status, 413, "even compressed it exceeds a transaction");
    assert!(!stored(append(&api, first, &[raw("{}".into())]).await).repeated);
}

#[tokio::test]
async fn session_append_is_two_table_calls() {
    let harness = Harness::open().await;
    let worker = harness.register("s-1").await;
    let process = harness.process_with(|settings| {
        // A process takes a part of a quota now and then.
        let plenty = Amount::new(1 << 40, 1 << 50);
        settings.quotas = Quotas { sandbox: plenty, org: plenty, ..settings.quotas };
    });
    for (first, count) in [(1, 1), (2, 500), (502, 3)] {
        let entries: Vec<Value> = (first..first + count).map(entry).collect();
        let body = json!({"first": first, "entries": entries});
        let post = request("POST", &path("s-1"), &worker, Some(&body));
        harness.aws.meter.start();
        let response = invoke(&process, "sessions-append", &post).await.unwrap();
        harness.aws.meter.stop();
        assert_eq!(response["statusCode"], 200, "{response}");
        let calls: Vec<String> = harness.aws.meter.take().into_iter().map(|call| call.operation).collect();
        assert_eq!(calls, ["BatchGetItem", "TransactWriteItems"], "{count} entries");
    }
}

/// A failed write is a 503, never a 200, and a retry is safe.
#[tokio::test]
async fn failed_append_is_a_503_and_the_retry_stores_once() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for (number, fault) in (1..).zip([Fault::Throttled, Fault::ServerError, Fault::Unreachable]) {
        plane.running.aws.faults.inject("TransactWriteItems", fault);
        assert_eq!(add(&plane, "s-1", &worker, number..number + 1).await.status, 503);
        add(&plane, "s-1", &worker, number..number + 1).await.ok();
    }
    plane.running.aws.faults.inject("TransactWriteItems", Fault::TransactionConflict);
    add(&plane, "s-1", &worker, 4..5).await.ok();
    assert_eq!(plane.running.aws.faults.pending(), 0);
    // Concurrent duplicates, as when a client retries while the first request is still running.
    let (left, right) = tokio::join!(add(&plane, "s-1", &worker, 5..7), add(&plane, "s-1", &worker, 5..7));
    let repeated = [left.ok()["repeated"].clone(), right.ok()["repeated"].clone()];
    assert!(repeated.contains(&json!(true)) && repeated.contains(&json!(false)), "{repeated:?}");
    assert_eq!(numbers(&plane.get(&path("s-1"), &worker).await.ok()), [1, 2, 3, 4, 5, 6]);
}
