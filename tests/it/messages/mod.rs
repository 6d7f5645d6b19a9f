//! Messages to a working agent: sent once, handed out in order, confirmed once, and never lost.

mod ending;
mod faults;
mod paused;
mod racing;
mod sending;
mod sizes;
mod taking;
mod waiting;

use crate::support::{Answer, OPERATOR, TestPlane};
use reqwest::Method;
use serde_json::{Value, json};

const MESSAGES: &str = "/api/v1/sandboxes/s-1/messages";

/// Something that answers requests.
trait Api {
    async fn call(&self, method: Method, path: &str, token: Option<&str>, body: Option<Value>) -> Answer;

    async fn get(&self, path: &str, token: &str) -> Answer {
        self.call(Method::GET, path, Some(token), None).await
    }

    async fn post(&self, path: &str, token: &str, body: Value) -> Answer {
        self.call(Method::POST, path, Some(token), Some(body)).await
    }

    /// Registers the sandbox and returns its worker's token.
    async fn register(&self) -> String {
        let body = json!({"sandbox_id": "s-1", "org": "acme"});
        let answer = self.post("/api/v1/sandboxes", OPERATOR, body).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.body["worker_token"].as_str().unwrap().to_owned()
    }
}

impl Api for TestPlane {
    async fn call(&self, method: Method, path: &str, token: Option<&str>, body: Option<Value>) -> Answer {
        self.call(method, path, token, body).await
    }
}

async fn send(plane: &impl Api, id: &str, content: &str) -> Answer {
    send_as(plane, id, content, "user_message").await
}

async fn send_as(plane: &impl Api, id: &str, content: &str, message_type: &str) -> Answer {
    let body = json!({"content": content, "message_type": message_type, "message_id": id});
    plane.post(MESSAGES, OPERATOR, body).await
}

/// What a pull that confirms by receipts is handed.
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

/// What the log tells of messages: state and id.
async fn told(plane: &TestPlane) -> Vec<(String, String)> {
    let log = plane.log("s-1").await;
    let about = log.iter().filter_map(|event| {
        let state = event["event_type"].as_str()?.strip_prefix("message.")?;
        Some((state.to_owned(), event["event_data"]["message_id"].as_str()?.to_owned()))
    });
    about.collect()
}

/// Ends the sandbox; what it is then.
async fn end(plane: &impl Api, reason: &str) -> Value {
    let path = format!("/api/v1/sandboxes/s-1?reason={reason}");
    plane.call(Method::DELETE, &path, Some(OPERATOR), None).await.ok()
}
