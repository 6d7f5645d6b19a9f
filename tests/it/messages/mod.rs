//! Messages to a running agent: sent once, delivered in order, acknowledged once, and never lost.

mod concurrency;
mod faults;
mod limits;
mod long_polling;
mod paused_plane;
mod pulling;
mod queues;
mod sending;
mod termination;
mod undeliverable;

use crate::support::{ApiResponse, OPERATOR, TestPlane};
use reqwest::Method;
use serde_json::{Value, json};

const MESSAGES: &str = "/api/v1/sandboxes/s-1/messages";

/// The HTTP API of a plane.
trait Api {
    async fn call(&self, method: Method, path: &str, token: Option<&str>, body: Option<Value>)
    -> ApiResponse;

    async fn get(&self, path: &str, token: &str) -> ApiResponse {
        self.call(Method::GET, path, Some(token), None).await
    }

    async fn post(&self, path: &str, token: &str, body: Value) -> ApiResponse {
        self.call(Method::POST, path, Some(token), Some(body)).await
    }

    /// Registers the sandbox s-1 and returns its worker token.
    async fn register(&self) -> String {
        let body = json!({"sandbox_id": "s-1", "org": "acme"});
        let response = self.post("/api/v1/sandboxes", OPERATOR, body).await;
        assert_eq!(response.status, 201, "{}", response.body);
        response.body["worker_token"].as_str().unwrap().to_owned()
    }
}

impl Api for TestPlane {
    async fn call(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<Value>,
    ) -> ApiResponse {
        self.call(method, path, token, body).await
    }
}

async fn send(plane: &impl Api, id: &str, content: &str) -> ApiResponse {
    send_as(plane, id, content, "user_message").await
}

async fn send_as(plane: &impl Api, id: &str, content: &str, message_type: &str) -> ApiResponse {
    let body = json!({"content": content, "message_type": message_type, "message_id": id});
    plane.post(MESSAGES, OPERATOR, body).await
}

/// Pulls messages that need an explicit acknowledgement.
async fn pull(plane: &impl Api, worker: &str, query: &str) -> Vec<Value> {
    let page = plane.get(&format!("{MESSAGES}?ack=manual&{query}"), worker).await.ok();
    page["messages"].as_array().unwrap().clone()
}

fn ids(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["id"].as_str().unwrap()).collect()
}

async fn ack(plane: &impl Api, worker: &str, receipts: &[(&str, &str)]) -> Value {
    let receipts: Vec<Value> =
        receipts.iter().map(|(id, state)| json!({"message_id": id, "state": state})).collect();
    plane.post(&format!("{MESSAGES}/ack"), worker, json!({"receipts": receipts})).await.ok()
}

/// State and message id of the message events in the log.
async fn message_events(plane: &TestPlane) -> Vec<(String, String)> {
    let log = plane.log("s-1").await;
    let events = log.iter().filter_map(|event| {
        let state = event["event_type"].as_str()?.strip_prefix("message.")?;
        Some((state.to_owned(), event["event_data"]["message_id"].as_str()?.to_owned()))
    });
    events.collect()
}

/// Terminates the sandbox and returns it.
async fn terminate(plane: &impl Api, reason: &str) -> Value {
    let path = format!("/api/v1/sandboxes/s-1?reason={reason}");
    plane.call(Method::DELETE, &path, Some(OPERATOR), None).await.ok()
}
