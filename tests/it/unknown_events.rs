//! Events that this version does not know are kept: types of a newer worker, and fields of known types.

use crate::support::TestPlane;
use contract::payloads::{EMITTED_BY_THE_PLANE, EMITTED_BY_THE_WORKER, EventPayload};
use domain::{EventType, JsonObject};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reqwest::Method;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;

/// JSON as a foreign serializer may write it: numbers that no `f64` holds, escapes, spaces, fields in any order.
fn json() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        prop::sample::select(vec!["1.10", "-0", "1e400", "123456789012345678901234567890", "1E-7"])
            .prop_map(str::to_owned),
        string(),
    ];
    scalar.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            object_of(inner),
        ]
    })
}

fn string() -> impl Strategy<Value = String> {
    let escaped = prop::sample::select(vec![
        r#""\u00e9 é""#,
        r#""\/""#,
        r#""\ud83d\ude00""#,
        r#""a\tb\n""#,
        r#""砂場""#,
    ]);
    prop_oneof![
        escaped.prop_map(str::to_owned),
        ".{0,20}".prop_map(|text| serde_json::to_string(&text).unwrap()),
    ]
}

/// Names of fields that payloads have, and others.
fn object_of(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let known =
        ["tool", "tool_input", "input", "content", "turn", "error", "success", "status", "message_id"];
    let name = prop_oneof![prop::sample::select(known.to_vec()).prop_map(str::to_owned), "[a-zA-Z_. ]{0,12}"];
    prop::collection::vec((name, value), 0..6).prop_map(|fields| {
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name:?} : {value}")).collect();
        format!("{{ {} }}", fields.join(","))
    })
}

fn event_type() -> impl Strategy<Value = String> {
    let of_the_worker = prop::sample::select(EMITTED_BY_THE_WORKER.to_vec()).prop_map(str::to_owned);
    let any_type = prop_oneof![of_the_worker, "[a-z]{1,8}\\.[a-z_]{1,12}", "[A-Za-z0-9._-]{1,40}"];
    any_type.prop_filter("the plane stores it", |name| {
        EventType::parse(name.as_str()).is_ok_and(|name| !name.is_reserved() && !name.is_ephemeral())
    })
}

#[test]
fn unknown_types_and_fields_come_back_byte_for_byte() {
    let runtime = Runtime::new().unwrap();
    let (plane, worker) = runtime.block_on(async {
        let plane = TestPlane::start().await;
        let worker = plane.register("s-1", "acme").await;
        (plane, worker)
    });
    let mut runner = TestRunner::new(Config { cases: 200, ..Config::default() });
    let cases = (event_type(), object_of(json()));
    let checked = runner.run(&cases, |(name, data)| {
        let (page, body) = runtime.block_on(stored(&plane, &worker, &name, &data));
        prop_assert!(page.contains(&format!(r#""event_type":{name:?},"event_data":{data},"#)), "{page}");
        prop_assert_eq!(&body, &data);
        // A payload is a view: reading it never fails, and an unknown type is shown as raw data.
        let read = read(&name, &data);
        let is_known = EMITTED_BY_THE_WORKER.contains(&name.as_str());
        prop_assert_eq!(read != EventPayload::Other, is_known, "{:?}", read);
        Ok(())
    });
    if let Err(failure) = checked {
        panic!("{failure}");
    }
}

/// Sends an event and returns the page with it, and its full data.
async fn stored(plane: &TestPlane, worker: &str, name: &str, data: &str) -> (String, String) {
    let request = plane.raw(Method::POST, "/api/v1/sandboxes/s-1/events").bearer_auth(worker);
    let sent =
        request.body(format!(r#"{{"event_type":{name:?},"event_data":{data}}}"#)).send().await.unwrap();
    let (status, answer) = (sent.status(), sent.text().await.unwrap());
    assert_eq!(status, 200, "{answer}");
    let seq = serde_json::from_str::<serde_json::Value>(&answer).unwrap()["seq"].clone();
    let get = async |path: String| {
        let response = plane.raw(Method::GET, &path).bearer_auth(worker).send().await.unwrap();
        response.text().await.unwrap()
    };
    let page = get("/api/v1/sandboxes/s-1/events?order=newest&limit=1".into()).await;
    (page, get(format!("/api/v1/sandboxes/s-1/events/{seq}/body")).await)
}

fn read(name: &str, data: &str) -> EventPayload {
    let raw = RawValue::from_string(data.to_owned()).unwrap();
    EventPayload::read(&EventType::parse(name).unwrap(), &JsonObject::parse(&raw).unwrap())
}

/// Data of the plane has fields that are never absent, so data without them is not read as one of its payloads.
#[test]
fn data_without_a_required_field_is_shown_as_raw() {
    for name in EMITTED_BY_THE_PLANE.iter().filter(|name| **name != "sandbox.completing") {
        let read = read(name, r#"{"by": 7}"#);
        let has_only_optional_fields =
            matches!(read, EventPayload::SandboxCompleted(_) | EventPayload::SandboxReleased(_));
        assert!(read == EventPayload::Other || has_only_optional_fields, "{name}: {read:?}");
    }
}
