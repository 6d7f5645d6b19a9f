//! An answer as server-sent events, in the order of the real API.

use super::reply::Reply;
use axum::body::Body;
use axum::response::Response;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The answer, streamed. If nobody reads it any more it ends.
pub(super) fn answer(opening: Value, reply: Reply) -> Response {
    let events = events(opening, &reply);
    let (pace, gate) = (reply.pace, reply.gate);
    let paced = stream::iter(events).then(move |event| {
        let gate = gate.clone();
        async move {
            if event["type"] == "content_block_delta" {
                wait(pace, gate).await;
            }
            let name = event["type"].as_str().expect("every event has a type");
            Ok::<_, Infallible>(format!("event: {name}\ndata: {event}\n\n"))
        }
    });
    let answer =
        Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(paced));
    answer.expect("its parts are right")
}

/// What comes before a word.
async fn wait(pace: Duration, gate: Option<Arc<Semaphore>>) {
    if !pace.is_zero() {
        tokio::time::sleep(pace).await;
    }
    if let Some(gate) = gate {
        gate.acquire().await.expect("tests do not close a gate").forget();
    }
}

fn events(opening: Value, reply: &Reply) -> Vec<Value> {
    let mut events = vec![json!({"type": "message_start", "message": opening})];
    for (index, block) in reply.blocks.iter().enumerate() {
        let start = json!({"type": "content_block_start", "index": index, "content_block": block.opening()});
        events.push(start);
        if index == 0 {
            events.push(json!({"type": "ping"}));
        }
        let deltas = block.deltas().into_iter();
        events.extend(
            deltas.map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": reply.stop_reason(), "stop_sequence": null},
        "usage": reply.usage.with_output(reply.usage.output),
    }));
    events.push(json!({"type": "message_stop"}));
    events
}
