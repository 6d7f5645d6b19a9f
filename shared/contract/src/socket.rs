//! WebSocket frames.

use crate::SocketCode;
use crate::events::BodyOut;
use crate::limits::MAX_FRAME_BYTES;
use crate::payloads::EventData;
use domain::event::BodyReference;
use domain::filter::{FilterChange, Filters};
use domain::{Entity, Event, EventId, JsonObject, Timestamp, large_fields};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// A frame from a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientFrame {
    /// `{"type":"auth","token":…, …}`: authenticates the socket and subscribes it.
    Auth {
        /// A user, worker or operator token.
        token: String,
        /// The filters and the batching of the socket. Nothing about a socket is stored before it is authenticated, so they
        /// are not in its URL.
        #[serde(flatten)]
        subscribe: Subscribe,
    },
    /// `{"type":"subscribe", …}`: changes the filters and the batching of the socket.
    Subscribe(Subscribe),
    /// `{"type":"ping"}`. The response is a pong.
    Ping,
    /// `{"type":"pong"}`, the response to a ping of the plane.
    Pong,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Subscribe {
    /// A list that is present replaces the previous one.
    #[serde(flatten)]
    pub filters: FilterChange,
    /// Whether several events may arrive in one frame `{"type":"events","events":[…]}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<bool>,
}

/// Why a frame is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadFrame {
    pub code: SocketCode,
    /// A sentence for people.
    pub error: String,
}

impl ClientFrame {
    pub fn decode(text: &str) -> Result<Self, BadFrame> {
        let bad = |code, error: &str| BadFrame { code, error: error.to_owned() };
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|_| bad(SocketCode::InvalidJson, "Invalid JSON message"))?;
        let object = value
            .as_object()
            .ok_or_else(|| bad(SocketCode::InvalidFrame, "A frame must be a JSON object"))?;
        match object.get("type").and_then(serde_json::Value::as_str) {
            Some("ping") => Ok(Self::Ping),
            Some("pong") => Ok(Self::Pong),
            Some("auth") => match object.get("token").and_then(serde_json::Value::as_str) {
                Some(token) => Ok(Self::Auth { token: token.to_owned(), subscribe: subscribe(object)? }),
                None => Err(bad(SocketCode::InvalidFrame, "token: must be a string")),
            },
            Some("subscribe") => Ok(Self::Subscribe(subscribe(object)?)),
            Some(other) => {
                let known = "auth, subscribe, ping, pong";
                let other: String = other.chars().take(40).collect();
                Err(bad(
                    SocketCode::UnknownFrame,
                    &format!("Unknown frame type {other:?}; supported: {known}"),
                ))
            }
            None => Err(bad(SocketCode::InvalidFrame, "type: is missing")),
        }
    }
}

fn subscribe(object: &serde_json::Map<String, serde_json::Value>) -> Result<Subscribe, BadFrame> {
    Ok(Subscribe {
        filters: FilterChange {
            event_types: strings(object, ["event_types", "event_type"])?,
            entity_types: strings(object, ["entity_types", "entity_type"])?,
            entity_ids: strings(object, ["entity_ids", "entity_id"])?,
        },
        batch: match object.get("batch") {
            None => None,
            Some(serde_json::Value::Bool(batch)) => Some(*batch),
            Some(_) => {
                let error = "batch: must be true or false".to_owned();
                return Err(BadFrame { code: SocketCode::InvalidFrame, error });
            }
        },
    })
}

/// The strings of both spellings of a list, as in a query. `null` is an empty list, which does not restrict.
fn strings(
    object: &serde_json::Map<String, serde_json::Value>,
    spellings: [&str; 2],
) -> Result<Option<Vec<String>>, BadFrame> {
    let mut all: Option<Vec<String>> = None;
    for (field, value) in spellings.into_iter().filter_map(|field| Some((field, object.get(field)?))) {
        let list: Option<Vec<String>> = match value {
            serde_json::Value::Null => Some(Vec::new()),
            serde_json::Value::Array(values) => {
                values.iter().map(|value| value.as_str().map(str::to_owned)).collect()
            }
            _ => None,
        };
        let list = list.ok_or_else(|| BadFrame {
            code: SocketCode::InvalidFrame,
            error: format!("{field}: must be a list of strings"),
        })?;
        all.get_or_insert_default().extend(list);
    }
    Ok(all)
}

/// A frame from the plane. Each kind has a field of its own: `status`, `type`, `error`, `event_type`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PlaneFrame {
    /// A request of the client took effect.
    Confirmed(ConfirmedFrame),
    /// A ping, a pong, or several events.
    Plain(PlainFrame),
    /// A request of the client was rejected.
    Error(ErrorFrame),
    Event(EventFrame),
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ConfirmedFrame {
    /// Every matching event is sent from now on.
    Subscribed {
        /// In normalized form.
        filters: Filters,
        /// Whether several events may arrive in one frame.
        batch: bool,
    },
    Authenticated,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PlainFrame {
    /// Keep-alive of the plane.
    Ping,
    Pong,
    /// Several events, in order; only for clients that requested `batch`. See [`bundle`].
    Events {
        /// Oldest first.
        events: Vec<EventFrame>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ErrorFrame {
    /// A sentence for people.
    pub error: String,
    /// Stable error code.
    pub code: String,
}

impl PlaneFrame {
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("our own structs serialize to JSON")
    }
}

/// `{"status":"subscribed", …}`.
pub fn subscribed(filters: &Filters, batch: bool) -> String {
    PlaneFrame::Confirmed(ConfirmedFrame::Subscribed { filters: filters.clone(), batch }).encode()
}

/// `{"status":"authenticated"}`.
pub fn authenticated() -> String {
    PlaneFrame::Confirmed(ConfirmedFrame::Authenticated).encode()
}

/// `{"type":"pong"}`.
pub fn pong() -> String {
    PlaneFrame::Plain(PlainFrame::Pong).encode()
}

/// `{"type":"ping"}`.
pub fn ping() -> String {
    PlaneFrame::Plain(PlainFrame::Ping).encode()
}

/// `{"error":…,"code":…}`.
pub fn error(code: &str, error: &str) -> String {
    PlaneFrame::Error(ErrorFrame { error: error.to_owned(), code: code.to_owned() }).encode()
}

/// An event as it is broadcast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventFrame {
    pub id: EventId,
    /// Sequence number in the entity's log; `null` for an ephemeral event.
    pub seq: Option<u64>,
    /// `SANDBOX_AGENT_TOOL_USE`, `TASK_CREATED`.
    pub event_type: String,
    /// `sandbox`, `task` or `ticket`.
    pub entity_type: String,
    pub entity_id: String,
    /// The event's data with `source` and `original_event_type`, as OmoiOS sends it.
    #[schemars(with = "EventData")]
    pub payload: JsonObject,
    /// When the plane stored it.
    pub timestamp: Timestamp,
}

/// Reserved for everything in a frame but the event's data.
const ENVELOPE_BYTES: usize = 4 * 1024;

impl EventFrame {
    /// Fields that are too large for a frame are omitted, and the frame refers to the full data.
    pub fn new(entity: &Entity, event: &Event) -> Self {
        let abridged = large_fields::omit_large_fields(&event.data, MAX_FRAME_BYTES - ENVELOPE_BYTES);
        let body = match (&event.body, abridged.omitted.is_empty()) {
            (None, true) => None,
            (None, false) => {
                Some(BodyReference { size_bytes: event.data.text().len() as u64, omitted: abridged.omitted })
            }
            (Some(stored), _) => {
                let mut body = stored.clone();
                body.omitted.extend(abridged.omitted);
                Some(body)
            }
        };
        let reference = body.zip(event.seq).map(|(body, seq)| raw(&BodyOut::new(entity, seq, body)));
        let fields = [
            ("source", Some(raw(&event.source))),
            ("original_event_type", Some(raw(&event.event_type))),
            // Never the worker's own value: a client would send its token to that address.
            ("body_ref", reference),
        ];
        Self {
            id: event.id.clone(),
            seq: event.seq,
            event_type: entity.frame_name(&event.event_type),
            entity_type: entity.kind().to_owned(),
            entity_id: entity.id().to_owned(),
            payload: abridged.data.with_fields(&fields),
            timestamp: event.created_at,
        }
    }

    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("our own structs serialize to JSON")
    }
}

/// Packs encoded event frames into as few frames `{"type":"events","events":[…]}` as possible.
pub fn bundle(frames: &[impl AsRef<str>]) -> Vec<String> {
    const OPEN: &str = r#"{"type":"events","events":["#;
    let mut bundles: Vec<String> = Vec::new();
    for frame in frames.iter().map(AsRef::as_ref) {
        match bundles.last_mut() {
            Some(open) if open.len() + frame.len() + 3 <= MAX_FRAME_BYTES => {
                open.push(',');
                open.push_str(frame);
            }
            _ => bundles.push(format!("{OPEN}{frame}")),
        }
    }
    for bundle in &mut bundles {
        bundle.push_str("]}");
    }
    bundles
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("our own values serialize to JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_PARTIAL_BYTES;
    use domain::{EventType, SandboxId, Source, TaskId};
    use serde_json::json;

    fn event(data: serde_json::Value) -> Event {
        Event {
            seq: Some(3),
            id: EventId::parse("e-1").unwrap(),
            event_type: EventType::parse("agent.tool_use").unwrap(),
            source: Source::Agent,
            data: JsonObject::of(&data),
            created_at: Timestamp::from_secs(1_767_225_600),
            emitted_at: None,
            body: None,
        }
    }

    fn sandbox(id: &str) -> Entity {
        Entity::Sandbox(SandboxId::parse(id).unwrap())
    }

    fn frame(data: serde_json::Value) -> String {
        EventFrame::new(&sandbox("S"), &event(data)).encode()
    }

    #[test]
    fn an_event_frame_extends_the_format_of_omoios() {
        assert_eq!(
            frame(
                json!({"body_ref": {"href": "//evil.example"}, "source": "spoofed", "tool": "Bash", "turn": 3})
            ),
            concat!(
                r#"{"id":"e-1","seq":3,"event_type":"SANDBOX_AGENT_TOOL_USE","entity_type":"sandbox","entity_id":"S","#,
                r#""payload":{"tool":"Bash","turn":3,"source":"agent","original_event_type":"agent.tool_use"},"#,
                r#""timestamp":"2026-01-01T00:00:00.000000Z"}"#
            )
        );
    }

    #[test]
    fn data_that_does_not_fit_a_frame_becomes_a_reference() {
        let data = json!({"file_path": "a.rs", "full_diff": "+x\n".repeat(20_000)});
        let size = data.to_string().len();
        let text = frame(data);
        assert!(text.len() <= MAX_FRAME_BYTES);
        assert!(text.contains(r#""file_path":"a.rs""#) && !text.contains("+x"));
        let reference = format!(
            r#""body_ref":{{"href":"/api/v1/sandboxes/S/events/3/body","size_bytes":{size},"omitted":["full_diff"]}}"#
        );
        assert!(text.contains(&reference), "{text}");
    }

    #[test]
    fn a_frame_of_a_task_refers_to_its_log() {
        let task = Entity::Task(TaskId::parse("T").unwrap());
        let event_type = EventType::parse("task.created").unwrap();
        let encode =
            |data| EventFrame::new(&task, &Event { event_type: event_type.clone(), ..event(data) }).encode();
        assert_eq!(
            encode(json!({"title": "Fix it"})),
            concat!(
                r#"{"id":"e-1","seq":3,"event_type":"TASK_CREATED","entity_type":"task","entity_id":"T","#,
                r#""payload":{"title":"Fix it","source":"agent","original_event_type":"task.created"},"#,
                r#""timestamp":"2026-01-01T00:00:00.000000Z"}"#
            )
        );
        let data = json!({"title": "Fix it", "description": "x".repeat(50_000)});
        let reference =
            format!(r#""body_ref":{{"size_bytes":{},"omitted":["description"]}}"#, data.to_string().len());
        let text = encode(data);
        assert!(text.len() <= MAX_FRAME_BYTES && text.contains("Fix it"));
        assert!(text.contains(&reference), "{text}");
    }

    #[test]
    fn the_largest_partial_text_fits_a_frame() {
        let around = r#"{"text":""}"#.len();
        let data = json!({"text": "\"".repeat((MAX_PARTIAL_BYTES - around) / 2)});
        assert!((MAX_PARTIAL_BYTES - 2..=MAX_PARTIAL_BYTES).contains(&data.to_string().len()));
        let partial = Event { seq: None, ..event(data.clone()) };
        let frame = EventFrame::new(&sandbox(&"S".repeat(100)), &partial);
        assert!(frame.encode().len() <= MAX_FRAME_BYTES && frame.payload.string("text").is_some());
    }

    #[test]
    fn bundles_stay_within_the_frame_size() {
        let frames: Vec<String> = (0..50).map(|i| frame(json!({"i": i, "pad": "x".repeat(1_000)}))).collect();
        let bundles = bundle(&frames);
        assert!(bundles.len() > 1 && bundles.iter().all(|bundle| bundle.len() <= MAX_FRAME_BYTES));
        let all: Vec<EventFrame> = bundles
            .iter()
            .flat_map(|bundle| {
                let value: serde_json::Value = serde_json::from_str(bundle).unwrap();
                assert_eq!(value["type"], "events");
                value["events"].as_array().unwrap().clone()
            })
            .map(|value| serde_json::from_str(&value.to_string()).unwrap())
            .collect();
        assert_eq!(all.len(), 50);
        assert!(bundle(&Vec::<String>::new()).is_empty());
    }

    #[test]
    fn client_frames_round_trip() {
        let filters = FilterChange { entity_ids: Some(vec!["a".into()]), ..FilterChange::default() };
        let subscribe = Subscribe { filters, batch: Some(true) };
        for frame in [
            ClientFrame::Auth { token: "t".into(), subscribe: Subscribe::default() },
            ClientFrame::Auth { token: "t".into(), subscribe: subscribe.clone() },
            ClientFrame::Subscribe(subscribe),
            ClientFrame::Ping,
            ClientFrame::Pong,
        ] {
            let text = serde_json::to_string(&frame).unwrap();
            assert_eq!(ClientFrame::decode(&text), Ok(frame), "{text}");
        }
    }

    #[test]
    fn invalid_frames_are_rejected_with_a_code() {
        assert_eq!(ClientFrame::decode(r#"{"type":"ping"}"#), Ok(ClientFrame::Ping));
        for text in [
            r#"{"type":"subscribe","entity_ids":["a"],"event_types":null}"#,
            r#"{"type":"subscribe","entity_id":["a"],"event_type":[]}"#,
            r#"{"type":"subscribe","entity_id":["a"],"entity_ids":[],"event_type":[],"event_types":null}"#,
        ] {
            let expected = Ok(ClientFrame::Subscribe(Subscribe {
                filters: FilterChange {
                    event_types: Some(vec![]),
                    entity_ids: Some(vec!["a".into()]),
                    entity_types: None,
                },
                batch: None,
            }));
            assert_eq!(ClientFrame::decode(text), expected, "{text}");
        }
        for (text, code) in [
            ("nonsense", "invalid_json"),
            ("[]", "invalid_frame"),
            ("7", "invalid_frame"),
            ("{}", "invalid_frame"),
            (r#"{"type":"shout"}"#, "unknown_frame"),
            (r#"{"type":"auth"}"#, "invalid_frame"),
            (r#"{"type":"auth","token":"t","entity_ids":"a"}"#, "invalid_frame"),
            (r#"{"type":"subscribe","entity_ids":"a"}"#, "invalid_frame"),
            (r#"{"type":"subscribe","entity_ids":[1]}"#, "invalid_frame"),
            (r#"{"type":"subscribe","entity_ids":["a"],"entity_id":"b"}"#, "invalid_frame"),
        ] {
            assert_eq!(ClientFrame::decode(text).unwrap_err().code.as_str(), code, "{text}");
        }
    }
}
