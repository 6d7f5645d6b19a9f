//! A client of the deployed plane.

use crate::account::Account;
use anyhow::{Context, ensure};
use edge::auth::{Operators, SigningKey};
use kit::socket::Socket;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

#[derive(Debug)]
pub struct Plane {
    /// URL of the HTTP API.
    pub url: String,
    /// URL of the WebSocket API.
    pub sockets: String,
    /// Name of the event bus.
    pub bus: String,
    /// The operator's token.
    pub operator: String,
    /// Name of the table.
    pub table: String,
    http: reqwest::Client,
}

const WORKER_SECRET: &str = "the worker secret of the plane in the emulator";
const OPERATOR: &str = "the-token-of-the-emulators-operator";
/// The name of the operator.
const OPERATOR_NAME: &str = "emulator";
/// Names of the secrets that an operator creates before the deployment.
const WORKER_KEY_NAME: &str = "sunaba-dev-worker-key";
const OPERATORS_NAME: &str = "sunaba-dev-operators";

/// Creates the key of worker tokens, and the operator. Returns the stack parameters for both.
pub async fn create_keys(account: &Account) -> anyhow::Result<Vec<String>> {
    let public = SigningKey::of_secret(WORKER_SECRET).public();
    account.create_secret(WORKER_KEY_NAME, WORKER_SECRET).await?;
    account.create_secret(OPERATORS_NAME, &Operators::one(OPERATOR_NAME, OPERATOR).to_json()).await?;
    Ok(vec![
        format!("WorkerKeyName={WORKER_KEY_NAME}"),
        format!("WorkerPublicKey={public}"),
        format!("OperatorsName={OPERATORS_NAME}"),
    ])
}

/// Generous, because the emulator starts a process for a function's first request on busy cores.
pub const TIMEOUT: Duration = Duration::from_secs(30);

impl Plane {
    /// Reads the addresses from the outputs of the stack.
    pub async fn find(account: &Account) -> anyhow::Result<Self> {
        let outputs = account.outputs().await?;
        let output = |name: &str| {
            let value = outputs[name].as_str().map(str::to_owned);
            value.with_context(|| format!("the stack has no output {name}"))
        };
        let apis = account.apis();
        Ok(Self {
            url: format!("{apis}/{}/$default", output("HttpApiId")?),
            sockets: format!("{}/{}/live", apis.replacen("http", "ws", 1), output("SocketApiId")?),
            bus: output("BusName")?,
            operator: OPERATOR.to_owned(),
            table: output("TableName")?,
            http: reqwest::Client::builder().timeout(TIMEOUT).build()?,
        })
    }

    /// Addresses and token, for use by hand.
    pub fn describe(&self) -> String {
        let Self { url, sockets, operator, .. } = self;
        format!("HTTP:           {url}\nsockets:        {sockets}\noperator token: {operator}")
    }

    /// Sends a request. Returns the status and the body, as a string if it is not JSON.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<Value>,
    ) -> anyhow::Result<(u16, Value)> {
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await?;
        let (status, text) = (answer.status().as_u16(), answer.text().await?);
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    /// GET with the operator's token; fails unless the status is 200.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let (status, body) = self.call(Method::GET, path, Some(&self.operator), None).await?;
        ensure!(status == 200, "GET {path}: {status} {body}");
        Ok(body)
    }

    /// Posts an event or a batch.
    pub async fn post_events(&self, sandbox: &str, token: &str, body: Value) -> anyhow::Result<(u16, Value)> {
        let path = format!("/api/v1/sandboxes/{sandbox}/events");
        self.call(Method::POST, &path, Some(token), Some(body)).await
    }

    /// Registers a sandbox. Returns its worker token.
    pub async fn register(&self, sandbox: &str) -> anyhow::Result<String> {
        let body = json!({"sandbox_id": sandbox, "org": "acme"});
        let answer = self.call(Method::POST, "/api/v1/sandboxes", Some(&self.operator), Some(body)).await?;
        ensure!(answer.0 == 201, "{answer:?}");
        Ok(answer.1["worker_token"].as_str().context("no worker token")?.to_owned())
    }

    /// Opens a socket and waits until it is subscribed to these entities, or to all if there are none.
    pub async fn socket(&self, entity_ids: &[&str]) -> anyhow::Result<Socket> {
        let socket = Socket::open(&self.sockets).await;
        let mut socket = socket.map_err(|status| anyhow::anyhow!("the socket was refused: {status}"))?;
        socket.send(json!({"type": "auth", "token": self.operator, "entity_ids": entity_ids})).await;
        let (first, second) = (receive(&mut socket).await?, receive(&mut socket).await?);
        ensure!(first["status"] == "authenticated" && second["status"] == "subscribed", "{first} {second}");
        Ok(socket)
    }

    /// The last sequence number of a log.
    pub async fn last_seq(&self, sandbox: &str) -> anyhow::Result<u64> {
        let found = self.get(&format!("/api/v1/sandboxes/{sandbox}")).await?;
        found["last_seq"].as_u64().with_context(|| format!("no last_seq in {found}"))
    }
}

/// The next frame, within the timeout.
pub async fn receive(socket: &mut Socket) -> anyhow::Result<Value> {
    let frame = timeout(TIMEOUT, socket.next()).await.context("no frame arrived on the socket")?;
    frame.context("the socket was closed")
}
