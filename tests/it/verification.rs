//! A writer of the table cannot change a stored log without being noticed.

use crate::large_events::noise;
use crate::support::{ApiResponse, OPERATOR, TestPlane, batch, user};
use serde_json::{Value, json};
use std::process::Output;

const PATH: &str = "/api/v1/sandboxes/s-1/verification";

/// Segments of events of different kinds: batches, single events, a lifecycle event, data outside of the log.
async fn plane_with_log() -> TestPlane {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for number in 1..=4 {
        plane.post_events("s-1", &worker, batch(1, number, number * 3, 3)).await.ok();
    }
    let large = json!({"event_type": "agent.message", "event_data": {"text": "x".repeat(300 * 1024)}});
    let detached = json!({"event_type": "agent.message", "event_data": {"text": noise(1, 5_000_000)}});
    let last = json!({"event_type": "agent.message", "event_data": {"text": "the end"}});
    for event in [large, detached, last] {
        plane.post_events("s-1", &worker, event).await.ok();
    }
    plane
}

async fn verify(plane: &TestPlane, query: &str) -> ApiResponse {
    plane.get(&format!("{PATH}{query}"), OPERATOR).await
}

/// Calls the plane's table, as a person with access to the AWS account can.
async fn table(plane: &TestPlane, operation: &str, mut body: Value) -> Value {
    body["TableName"] = local::aws::TABLE.into();
    let target = format!("DynamoDB_20120810.{operation}");
    let reply =
        plane.running.aws.call(Some(&target), "POST", "/", body.to_string().as_bytes()).await.unwrap();
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    serde_json::from_slice(&reply.body).unwrap()
}

/// The stored items of the sandbox whose sort keys start like this.
async fn items(plane: &TestPlane, prefix: &str) -> Vec<Value> {
    let values = json!({":pk": {"S": "SANDBOX#s-1"}, ":sk": {"S": prefix}});
    let query = json!({
        "KeyConditionExpression": "PK = :pk AND begins_with(SK, :sk)", "ExpressionAttributeValues": values,
    });
    let found = table(plane, "Query", query).await["Items"].as_array().unwrap().clone();
    assert!(!found.is_empty(), "{prefix}");
    found
}

async fn put(plane: &TestPlane, item: &Value) {
    table(plane, "PutItem", json!({"Item": item})).await;
}

async fn delete(plane: &TestPlane, item: &Value) {
    table(plane, "DeleteItem", json!({"Key": {"PK": item["PK"], "SK": item["SK"]}})).await;
}

/// The last response of a verification of the whole log.
async fn verify_all(plane: &TestPlane) -> Value {
    let mut after = 0;
    loop {
        let verified = verify(plane, &format!("?after_seq={after}")).await.ok();
        if verified["has_more"] == false {
            return verified;
        }
        after = verified["verified_seq"].as_u64().unwrap();
    }
}

/// The sequence number of the first event that was found changed.
async fn changed_event(plane: &TestPlane) -> Option<u64> {
    verify_all(plane).await["problem"]["seq"].as_u64()
}

#[tokio::test]
async fn unchanged_log_is_verified_to_its_end() {
    let plane = plane_with_log().await;
    let verified = verify(&plane, "").await.ok();
    assert_eq!((&verified["problem"], &verified["has_more"]), (&Value::Null, &json!(false)), "{verified}");
    assert_eq!((&verified["verified_seq"], &verified["last_seq"]), (&json!(15), &json!(15)));
    assert_eq!(verified["unhashed_events"], 0);
    // The hash at each segment is that which a verification of the whole log comes to.
    let part = verify(&plane, "?to_seq=6").await.ok();
    assert_eq!((&part["verified_seq"], &part["has_more"]), (&json!(6), &json!(false)));
    let rest = verify(&plane, "?after_seq=6").await.ok();
    assert_eq!((&rest["log_hash"], &rest["problem"]), (&verified["log_hash"], &Value::Null));
    assert_ne!(part["log_hash"], verified["log_hash"]);
}

#[tokio::test]
async fn sandbox_without_events_is_unchanged() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    let verified = verify(&plane, "").await.ok();
    assert_eq!(verified["problem"], Value::Null, "{verified}");
}

#[tokio::test]
async fn every_change_of_a_segment_is_found() {
    let plane = plane_with_log().await;
    let segments = items(&plane, "LOG#").await;
    let (first, second) = (&segments[0], &segments[1]);
    let mut changed = Vec::new();
    for name in
        first.as_object().unwrap().keys().filter(|name| !["PK", "SK", "kind", "v"].contains(&name.as_str()))
    {
        let mut other = second.clone();
        // `class` is present or absent.
        other[name] = match &second[name] {
            value if value["S"].is_string() => json!({"S": format!("{} ", value["S"].as_str().unwrap())}),
            value if value["N"].is_string() => json!({"N": format!("1{}", value["N"].as_str().unwrap())}),
            _ => first[name].clone(),
        };
        changed.push((format!("changed {name}"), other));
        let mut without = second.clone();
        without.as_object_mut().unwrap().remove(name);
        changed.push((format!("without {name}"), without));
    }
    let mut copy = first.clone();
    (copy["SK"], copy["first_seq"]) = (second["SK"].clone(), second["first_seq"].clone());
    changed.push(("copy of another segment".to_owned(), copy));
    assert!(changed.len() > 8, "{changed:?}");
    for (what, item) in changed {
        put(&plane, &item).await;
        assert_eq!(changed_event(&plane).await, Some(4), "{what}");
        put(&plane, second).await;
    }
    assert_eq!(changed_event(&plane).await, None, "the original segment is in place again");
}

#[tokio::test]
async fn removed_events_are_found() {
    let plane = plane_with_log().await;
    let segments = items(&plane, "LOG#").await;
    for (segment, seq) in [(&segments[0], 1), (&segments[1], 4), (&segments[6], 15)] {
        delete(&plane, segment).await;
        assert_eq!(changed_event(&plane).await, Some(seq));
        put(&plane, segment).await;
    }
    assert_eq!(changed_event(&plane).await, None);
    // Also if the sandbox states a shorter log.
    let mut sandbox = items(&plane, "STATE").await.remove(0);
    sandbox["seq"] = json!({"N": "14"});
    delete(&plane, &segments[6]).await;
    put(&plane, &sandbox).await;
    assert_eq!(changed_event(&plane).await, Some(14));
}

#[tokio::test]
async fn changed_large_data_is_found() {
    let plane = plane_with_log().await;
    for (prefix, seq) in [("BODY#000000000013#", 13), ("BODY#000000000014#", 14), ("DETACHED#", 14)] {
        let piece = items(&plane, prefix).await.remove(0);
        delete(&plane, &piece).await;
        assert_eq!(changed_event(&plane).await, Some(seq), "{prefix}");
        put(&plane, &piece).await;
    }
    assert_eq!(changed_event(&plane).await, None);
}

/// As a version without hashes stored it, or a writer who wants to hide a change. The new version number makes the plane
/// read the sandbox again.
async fn remove_hashes(plane: &TestPlane) {
    for mut item in items(plane, "LOG#").await {
        item.as_object_mut().unwrap().remove("log_hash").unwrap();
        put(plane, &item).await;
    }
    let mut sandbox = items(plane, "STATE").await.remove(0);
    sandbox.as_object_mut().unwrap().remove("log_hash").unwrap();
    sandbox["version"] = json!({"N": "99"});
    put(plane, &sandbox).await;
}

#[tokio::test]
async fn events_stored_without_a_hash_are_counted_but_not_verified() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    plane.post_events("s-1", &worker, batch(1, 1, 1, 3)).await.ok();
    remove_hashes(&plane).await;
    let verified = verify_all(&plane).await;
    assert_eq!((&verified["unhashed_events"], &verified["log_hash"]), (&json!(3), &Value::Null));
    plane.post_events("s-1", &worker, batch(1, 2, 4, 2)).await.ok();
    let verified = verify_all(&plane).await;
    assert_eq!((&verified["unhashed_events"], &verified["verified_seq"]), (&json!(3), &json!(5)));
    assert!(verified["log_hash"].is_string() && verified["problem"].is_null(), "{verified}");
}

#[tokio::test]
async fn invalid_positions_are_refused() {
    let plane = plane_with_log().await;
    for (query, field) in [
        // Within a segment, and after the end.
        ("?after_seq=2", "after_seq"),
        ("?after_seq=99", "after_seq"),
        ("?after_seq=x", "after_seq"),
        ("?after_seq=3&to_seq=3", "to_seq"),
        ("?limit=3", "limit"),
    ] {
        let response = verify(&plane, query).await;
        assert_eq!((response.status, &response.body["field"]), (422, &json!(field)), "{query}");
    }
    let other_org = plane.get(PATH, &user("rival", "admin")).await;
    assert_eq!(other_org.status, 404);
}

async fn sunaba(plane: &TestPlane, arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_sunaba"));
    command.args(["verify", "s-1"]).args(arguments);
    command.env("SUNABA_URL", &plane.url).env("SUNABA_TOKEN", OPERATOR);
    command.stdin(std::process::Stdio::null()).kill_on_drop(true);
    command.output().await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn command_reports_a_rewritten_log_by_its_checkpoint() {
    let plane = plane_with_log().await;
    let checkpoint = verify(&plane, "?to_seq=6").await.ok()["log_hash"].as_str().unwrap().to_owned();
    let checkpoint = format!("6:{checkpoint}");
    let unchanged = sunaba(&plane, &["--checkpoint", &checkpoint]).await;
    assert!(unchanged.status.success(), "{unchanged:?}");
    assert!(
        text(&unchanged).starts_with("The log of s-1 is unchanged: 15 events, hash 15:"),
        "{unchanged:?}"
    );

    // A writer who computes all hashes anew leaves a log that is consistent. Only the checkpoint shows it.
    let other = format!("6:{}", "0".repeat(64));
    let rewritten = sunaba(&plane, &["--checkpoint", &other]).await;
    assert_eq!(rewritten.status.code(), Some(1));
    assert_eq!(text(&rewritten), "The log of s-1 was changed: event 6 has another hash.\n");
    let longer = format!("99:{}", "0".repeat(64));
    let shortened = sunaba(&plane, &["--checkpoint", &longer]).await;
    assert_eq!(shortened.status.code(), Some(1));
    assert!(text(&shortened).contains("it ends at event 15, before event 99"), "{shortened:?}");

    delete(&plane, &items(&plane, "LOG#").await[1]).await;
    let changed = sunaba(&plane, &[]).await;
    assert_eq!(changed.status.code(), Some(1));
    assert_eq!(text(&changed), "The log of s-1 was changed: Event 4 is missing in the log.\n");
}

#[tokio::test]
async fn command_fails_if_events_have_no_hash() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    plane.post_events("s-1", &worker, batch(1, 1, 1, 3)).await.ok();
    remove_hashes(&plane).await;
    let none = sunaba(&plane, &[]).await;
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    assert_eq!(text(&none), "The log of s-1 has 3 events. No event has a hash; none is verified.\n");
    assert!(String::from_utf8_lossy(&none.stderr).contains("--allow-unhashed"), "{none:?}");

    plane.post_events("s-1", &worker, batch(1, 2, 4, 2)).await.ok();
    let first = sunaba(&plane, &[]).await;
    assert_eq!(first.status.code(), Some(1), "{first:?}");
    assert!(text(&first).ends_with("The first 3 events have no hash and are not verified.\n"), "{first:?}");
    let accepted = sunaba(&plane, &["--allow-unhashed"]).await;
    assert!(accepted.status.success(), "{accepted:?}");
    // It accepts missing hashes, not changes.
    let last = items(&plane, "LOG#").await.pop().unwrap();
    delete(&plane, &last).await;
    let changed = sunaba(&plane, &["--allow-unhashed"]).await;
    assert_eq!(changed.status.code(), Some(1), "{changed:?}");
}
