//! Quotas: what an org, a sandbox, a user or an operator may write within a minute.

use crate::harness::{Harness, body_of, invoke};
use crate::payloads::request;
use crate::support::{OPERATOR, TestPlane, batch, user, user_with};
use domain::quota::{Amount, Quotas};
use edge::Plane;
use kit::template::parse;
use serde_json::{Value, json};
use std::sync::Arc;

const MANY: u64 = 1 << 40;

/// Quotas that are not reached, shared by all processes as on Lambda.
const PLENTY: Quotas = Quotas {
    sandbox: Amount::new(MANY, MANY),
    org: Amount::new(MANY, MANY),
    user: Amount::new(MANY, MANY),
    operator: Amount::new(MANY, MANY),
    shared: true,
};

/// Until the year 2100.
fn member(id: &str) -> String {
    user_with(json!({"sub": id, "org": "acme", "role": "member", "exp": 4_102_444_800_u64}))
}

fn process(harness: &Harness, quotas: Quotas) -> Arc<Plane> {
    harness.process_with(|settings| settings.quotas = quotas)
}

async fn register(harness: &Harness, id: &str, org: &str) -> String {
    let body = json!({"sandbox_id": id, "org": org});
    let request = request("POST", "/api/v1/sandboxes", OPERATOR, Some(&body));
    let answer = invoke(&process(harness, PLENTY), "sandboxes-register", &request).await.unwrap();
    body_of(&answer)["worker_token"].as_str().unwrap().to_owned()
}

async fn post(process: &Arc<Plane>, sandbox: &str, token: &str, body: &Value) -> Value {
    let path = format!("/api/v1/sandboxes/{sandbox}/events");
    invoke(process, "events-ingest", &request("POST", &path, token, Some(body))).await.unwrap()
}

async fn last_seq(harness: &Harness, sandbox: &str) -> u64 {
    let id = domain::SandboxId::parse(sandbox).unwrap();
    harness.aws.store.sandbox(&id).await.unwrap().unwrap().seq
}

/// Asserts a 429 that says when to retry.
fn assert_limited(answer: &Value, secs: &str) {
    assert_eq!(answer["statusCode"], 429, "{answer}");
    assert_eq!(body_of(answer)["code"], "rate_limited", "{answer}");
    assert_eq!(answer["headers"]["retry-after"], secs, "{answer}");
}

#[tokio::test]
async fn org_at_its_quota_does_not_slow_another() {
    let harness = Harness::open().await;
    let (first, second) = (register(&harness, "a-1", "acme").await, register(&harness, "a-2", "acme").await);
    let rival = register(&harness, "r-1", "rival").await;
    let process = process(&harness, Quotas { org: Amount::new(10, MANY), ..PLENTY });
    let before = last_seq(&harness, "a-2").await;
    assert_eq!(post(&process, "a-1", &first, &batch(1, 1, 0, 6)).await["statusCode"], 200);
    // The sandboxes of an org share its quota.
    assert_limited(&post(&process, "a-2", &second, &batch(1, 1, 0, 6)).await, "60");
    assert_eq!(last_seq(&harness, "a-2").await, before, "nothing is stored");
    assert_eq!(post(&process, "r-1", &rival, &batch(1, 1, 0, 6)).await["statusCode"], 200);
}

#[tokio::test]
async fn bytes_count_like_events() {
    let harness = Harness::open().await;
    let (worker, other) = (register(&harness, "s-1", "acme").await, register(&harness, "s-2", "acme").await);
    let large = |number: u64| {
        let data = json!({"text": "x".repeat(40_000)});
        let event =
            json!({"event_id": format!("e-{number}"), "event_type": "agent.message", "event_data": data});
        json!({"epoch": 1, "batch": number, "events": [event]})
    };
    let per_sandbox = process(&harness, Quotas { sandbox: Amount::new(MANY, 100_000), ..PLENTY });
    let per_org = process(&harness, Quotas { org: Amount::new(MANY, 100_000), ..PLENTY });
    for (process, sandbox, token) in [(&per_sandbox, "s-1", &worker), (&per_org, "s-2", &other)] {
        let before = last_seq(&harness, sandbox).await;
        for number in 1..=2 {
            assert_eq!(post(process, sandbox, token, &large(number)).await["statusCode"], 200, "{sandbox}");
        }
        assert_limited(&post(process, sandbox, token, &large(3)).await, "60");
        assert_eq!(last_seq(&harness, sandbox).await, before + 2, "{sandbox}");
    }
}

#[tokio::test]
async fn rejected_batch_is_stored_once_when_it_is_retried() {
    let harness = Harness::open().await;
    for (id, quotas) in [
        ("s-1", Quotas { sandbox: Amount::new(10, MANY), ..PLENTY }),
        ("s-2", Quotas { org: Amount::new(10, MANY), ..PLENTY }),
    ] {
        let worker = register(&harness, id, "acme").await;
        let process = process(&harness, quotas);
        let before = last_seq(&harness, id).await;
        let (first, second) = (batch(1, 1, 0, 6), batch(1, 2, 6, 6));
        assert_eq!(post(&process, id, &worker, &first).await["statusCode"], 200);
        harness.clock.advance_secs(48);
        assert_limited(&post(&process, id, &worker, &second).await, "12");
        // The receipt of what is stored costs nothing.
        assert_eq!(body_of(&post(&process, id, &worker, &first).await)["repeated"], true);
        harness.clock.advance_secs(12);
        for repeated in [false, true] {
            let answer = post(&process, id, &worker, &second).await;
            assert_eq!(body_of(&answer)["repeated"], repeated, "{answer}");
        }
        assert_eq!(last_seq(&harness, id).await, before + 12, "{id}");
        harness.clock.advance_secs(60);
    }
}

/// **Invariant:** processes that share a quota never admit more than it together, besides a thousandth of it each.
#[tokio::test]
async fn processes_share_the_quota_of_an_org() {
    let harness = Harness::open().await;
    let quotas = Quotas { org: Amount::new(2_000, MANY), ..PLENTY };
    let mut stored = 0;
    for n in 0..30 {
        let id = format!("s-{n}");
        let worker = register(&harness, &id, "acme").await;
        let process = process(&harness, quotas);
        for number in 1..=2 {
            let answer = post(&process, &id, &worker, &batch(1, number, number * 100, 90)).await;
            stored += if answer["statusCode"] == 200 { 90 } else { 0 };
        }
    }
    assert!((1_900..=2_000 + 30 * 2).contains(&stored), "{stored}");
}

#[tokio::test]
async fn first_share_of_a_quota_needs_no_table_call_and_a_refusal_writes_nothing() {
    let harness = Harness::open().await;
    let worker = register(&harness, "s-1", "acme").await;
    let process = process(&harness, Quotas { org: Amount::new(10_000, MANY), ..PLENTY });
    let meter = &harness.aws.meter;
    let operations = || meter.take().into_iter().map(|call| call.operation).collect::<Vec<_>>();
    post(&process, "s-1", &worker, &batch(1, 1, 0, 5)).await;
    meter.start();
    post(&process, "s-1", &worker, &batch(1, 2, 5, 5)).await;
    assert_eq!(operations(), ["TransactWriteItems"]);
    // More than a thousandth.
    post(&process, "s-1", &worker, &batch(1, 3, 10, 5)).await;
    assert_eq!(operations(), ["UpdateItem", "TransactWriteItems"]);
    post(&process, "s-1", &worker, &batch(1, 4, 15, 5)).await;
    assert_eq!(operations(), ["TransactWriteItems"]);

    harness.clock.advance_secs(60);
    let process = self::process(&harness, Quotas { org: Amount::new(10, MANY), ..PLENTY });
    for number in 5..=7 {
        post(&process, "s-1", &worker, &batch(1, number, number * 5, 5)).await;
    }
    operations();
    assert_limited(&post(&process, "s-1", &worker, &batch(1, 7, 35, 5)).await, "60");
    let calls = meter.take();
    assert!(calls.iter().all(|call| call.write_units == 0.0), "{calls:?}");
}

#[tokio::test]
async fn user_at_their_quota_may_read_and_others_may_write() {
    let harness = Harness::open().await;
    register(&harness, "s-1", "acme").await;
    let process = process(&harness, Quotas { user: Amount::new(2, MANY), ..PLENTY });
    let send = async |token: &str| {
        let path = "/api/v1/sandboxes/s-1/messages";
        let request = request("POST", path, token, Some(&json!({"content": "go on"})));
        invoke(&process, "messages-send", &request).await.unwrap()
    };
    let (alice, bob) = (member("alice"), member("bob"));
    for _ in 0..2 {
        assert_eq!(send(&alice).await["statusCode"], 200);
    }
    assert_limited(&send(&alice).await, "60");
    let read = request("GET", "/api/v1/sandboxes/s-1", &alice, None);
    assert_eq!(invoke(&process, "sandboxes-get", &read).await.unwrap()["statusCode"], 200);
    assert_eq!(send(&bob).await["statusCode"], 200);
    harness.clock.advance_secs(60);
    assert_eq!(send(&alice).await["statusCode"], 200);
}

#[tokio::test]
async fn receipts_count_for_the_org_of_their_sandbox() {
    let harness = Harness::open().await;
    let (first, second) = (register(&harness, "a-1", "acme").await, register(&harness, "a-2", "acme").await);
    let rival = register(&harness, "r-1", "rival").await;
    let plenty = process(&harness, PLENTY);
    let process = process(&harness, Quotas { org: Amount::new(2, MANY), ..PLENTY });
    let acknowledge = async |sandbox: &str, token: &str, state: &str| {
        let path = format!("/api/v1/sandboxes/{sandbox}/messages/ack");
        let body = json!({"receipts": [{"message_id": format!("m-{sandbox}"), "state": state}]});
        invoke(&process, "messages-ack", &request("POST", &path, token, Some(&body))).await.unwrap()
    };
    for sandbox in ["a-1", "a-2", "r-1"] {
        let path = format!("/api/v1/sandboxes/{sandbox}/messages");
        let body = json!({"content": "go on", "message_id": format!("m-{sandbox}")});
        let send = request("POST", &path, OPERATOR, Some(&body));
        assert_eq!(invoke(&plenty, "messages-send", &send).await.unwrap()["statusCode"], 200, "{sandbox}");
    }
    for repeated in [false, true] {
        // What changes nothing is not counted for the org.
        let answer = acknowledge("a-1", &first, "delivered").await;
        assert_eq!(body_of(&answer)["receipts"][0]["changed"], !repeated, "{answer}");
    }
    assert_eq!(acknowledge("a-1", &first, "started").await["statusCode"], 200);
    let before = last_seq(&harness, "a-2").await;
    assert_limited(&acknowledge("a-2", &second, "delivered").await, "60");
    assert_eq!(last_seq(&harness, "a-2").await, before, "nothing is stored");
    assert_eq!(acknowledge("r-1", &rival, "delivered").await["statusCode"], 200);
}

#[tokio::test]
async fn operator_and_session_entries_have_quotas_too() {
    let harness = Harness::open().await;
    let worker = register(&harness, "s-1", "acme").await;
    let operator = process(&harness, Quotas { operator: Amount::new(10, MANY), ..PLENTY });
    assert_eq!(post(&operator, "s-1", OPERATOR, &batch(1, 1, 0, 8)).await["statusCode"], 200);
    assert_limited(&post(&operator, "s-1", OPERATOR, &batch(1, 2, 8, 8)).await, "60");

    let append = async |process: &Arc<Plane>, first: u64| {
        let entries: Vec<Value> = (first..first + 6).map(|n| json!({"n": n})).collect();
        let path = "/api/v1/sandboxes/s-1/sessions/c0ffee/entries";
        let body = json!({"first": first, "entries": entries});
        invoke(process, "sessions-append", &request("POST", path, &worker, Some(&body))).await.unwrap()
    };
    let sandbox = process(&harness, Quotas { sandbox: Amount::new(10, MANY), ..PLENTY });
    assert_eq!(append(&sandbox, 1).await["statusCode"], 200);
    assert_limited(&append(&sandbox, 7).await, "60");
    harness.clock.advance_secs(60);
    assert_eq!(body_of(&append(&sandbox, 7).await)["repeated"], false);
    assert_eq!(body_of(&append(&sandbox, 7).await)["repeated"], true);
}

#[tokio::test]
async fn local_plane_counts_without_its_table() {
    let plane = TestPlane::start_with(|dev| dev.user_quota = Amount::new(2, MANY)).await;
    plane.register("s-1", "acme").await;
    plane.running.aws.meter.start();
    let alice = user("acme", "member");
    // If a new minute starts between two messages, the third one is still accepted.
    for number in 1.. {
        let body = json!({"content": "go on"});
        let answer = plane.post("/api/v1/sandboxes/s-1/messages", &alice, body).await;
        if answer.status == 429 {
            assert!(answer.headers.contains_key("retry-after"));
            assert!(answer.body["detail"].as_str().unwrap().starts_with("Your quota"), "{}", answer.body);
            break;
        }
        assert!(number < 5, "the quota never applied");
    }
    let calls = plane.running.aws.meter.take();
    assert!(calls.iter().all(|call| call.operation != "UpdateItem"), "{calls:?}");
}

#[test]
fn template_has_the_default_quotas() {
    let template = parse(include_str!("../../template.yaml")).unwrap();
    let Quotas { sandbox, org, user, operator, .. } = Quotas::default();
    for (parameter, quota) in
        [("SandboxQuota", sandbox), ("OrgQuota", org), ("UserQuota", user), ("OperatorQuota", operator)]
    {
        assert_eq!(template["Parameters"][parameter]["Default"], quota.to_string(), "{parameter}");
    }
}
