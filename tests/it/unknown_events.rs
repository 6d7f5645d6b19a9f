//! Events that this version does not know are kept: types of a newer worker, and fields of known types.

use crate::support::{OPERATOR, Socket, TestPlane};
use contract::payloads::EMITTED_BY_THE_WORKER;
use contract::socket::EventFrame;
use domain::{EventType, JsonObject};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reqwest::Method;
use serde_json::Value;
use serde_json::value::RawValue;
use std::cell::RefCell;
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
    let fixture = RefCell::new(runtime.block_on(Fixture::start()));
    let mut runner = TestRunner::new(Config { cases: 200, ..Config::default() });
    let cases = (event_type(), object_of(json()), any::<bool>());
    let checked = runner.run(&cases, |(name, data, in_batch)| {
        let returned = runtime.block_on(fixture.borrow_mut().send(&name, &data, in_batch));
        let as_sent = format!(r#""event_type":{name:?},"event_data":{data},"#);
        prop_assert!(returned.page.contains(&as_sent), "{}", returned.page);
        prop_assert!(returned.trajectory.contains(&as_sent), "{}", returned.trajectory);
        prop_assert_eq!(&returned.body, &data);
        // A frame adds fields of its own, so the values are compared one by one.
        let raw = RawValue::from_string(data).unwrap();
        prop_assert_eq!(values(&returned.frame.payload), values(&JsonObject::parse(&raw).unwrap()));
        Ok(())
    });
    if let Err(failure) = checked {
        panic!("{failure}");
    }
}

/// A plane with a sandbox and a subscriber.
struct Fixture {
    plane: TestPlane,
    worker: String,
    socket: Socket,
    batches: u64,
}

/// An event as the plane returns it.
struct Returned {
    page: String,
    trajectory: String,
    body: String,
    frame: EventFrame,
}

impl Fixture {
    async fn start() -> Self {
        let plane = TestPlane::start().await;
        let worker = plane.register("s-1", "acme").await;
        let socket = plane.subscribed(OPERATOR, "").await;
        Self { plane, worker, socket, batches: 0 }
    }

    /// Sends an event, alone or in a batch, and reads it in every way.
    async fn send(&mut self, name: &str, data: &str, in_batch: bool) -> Returned {
        let event = format!(r#"{{"event_type":{name:?},"event_data":{data}}}"#);
        let seq = if in_batch {
            self.batches += 1;
            let number = self.batches;
            let stored = self.post(format!(r#"{{"epoch":1,"batch":{number},"events":[{event}]}}"#)).await;
            stored["first_seq"].as_u64().unwrap()
        } else {
            self.post(event).await["seq"].as_u64().unwrap()
        };
        Returned {
            page: self.get("events?order=newest&limit=1").await,
            trajectory: self.get("trajectory?limit=1").await,
            body: self.get(&format!("events/{seq}/body")).await,
            frame: self.frame(seq).await,
        }
    }

    async fn post(&self, body: String) -> Value {
        let request = self.plane.raw(Method::POST, "/api/v1/sandboxes/s-1/events").bearer_auth(&self.worker);
        let response = request.body(body).send().await.unwrap();
        let (status, body) = (response.status(), response.text().await.unwrap());
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    async fn get(&self, path: &str) -> String {
        let request = self.plane.raw(Method::GET, &format!("/api/v1/sandboxes/s-1/{path}"));
        request.bearer_auth(&self.worker).send().await.unwrap().text().await.unwrap()
    }

    async fn frame(&mut self, seq: u64) -> EventFrame {
        loop {
            let text = self.socket.receive_text().await;
            match serde_json::from_str::<EventFrame>(&text) {
                Ok(frame) if frame.seq == Some(seq) => return frame,
                _ => {}
            }
        }
    }
}

/// The fields with the texts of their values, without those that a frame sets.
fn values(data: &JsonObject) -> Vec<(String, String)> {
    let of_the_frame = ["source", "original_event_type", "body_ref"];
    let fields = data.fields().into_iter().filter(|(name, _)| !of_the_frame.contains(&name.as_str()));
    fields.map(|(name, raw)| (name, raw.get().to_owned())).collect()
}
