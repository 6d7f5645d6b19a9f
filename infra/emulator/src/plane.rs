//! A deployed plane, and ways to talk to it.

use crate::account::Account;
use anyhow::{Context, ensure};
use kit::socket::Socket;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// A deployed plane.
#[derive(Debug)]
pub struct Plane {
    /// The HTTP API.
    pub url: String,
    /// The WebSocket API.
    pub sockets: String,
    /// The event bus.
    pub bus: String,
    /// The operator's token.
    pub operator: String,
    /// The table.
    pub table: String,
    http: reqwest::Client,
}

/// The emulator starts a process for a function's first request, on cores that do other things too.
pub const PATIENCE: Duration = Duration::from_secs(30);

impl Plane {
    /// Where a stack says that it is.
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
            operator: account.secret(&output("OperatorTokenSecret")?).await?,
            table: output("TableName")?,
            http: reqwest::Client::builder().timeout(PATIENCE).build()?,
        })
    }

    /// For a person who wants to try it.
    pub fn describe(&self) -> String {
        let Self { url, sockets, operator, .. } = self;
        format!("HTTP:           {url}\nsockets:        {sockets}\noperator token: {operator}")
    }

    /// A request; its status, and its body as JSON where it is.
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

    /// Something that must be there.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let (status, body) = self.call(Method::GET, path, Some(&self.operator), None).await?;
        ensure!(status == 200, "GET {path}: {status} {body}");
        Ok(body)
    }

    /// An event or a batch.
    pub async fn post_events(&self, sandbox: &str, token: &str, body: Value) -> anyhow::Result<(u16, Value)> {
        let path = format!("/api/v1/sandboxes/{sandbox}/events");
        self.call(Method::POST, &path, Some(token), Some(body)).await
    }

    /// Registers a sandbox; its worker's token.
    pub async fn register(&self, sandbox: &str) -> anyhow::Result<String> {
        let body = json!({"sandbox_id": sandbox, "org": "acme"});
        let answer = self.call(Method::POST, "/api/v1/sandboxes", Some(&self.operator), Some(body)).await?;
        ensure!(answer.0 == 201, "{answer:?}");
        Ok(answer.1["worker_token"].as_str().context("no worker token")?.to_owned())
    }

    /// A socket that is subscribed.
    pub async fn socket(&self, query: &str) -> anyhow::Result<Socket> {
        let url = format!("{}?{query}", self.sockets);
        let socket = Socket::open(&url).await;
        let mut socket = socket.map_err(|status| anyhow::anyhow!("the socket was refused: {status}"))?;
        socket.say(json!({"type": "auth", "token": self.operator})).await;
        let (first, second) = (hear(&mut socket).await?, hear(&mut socket).await?);
        ensure!(first["status"] == "authenticated" && second["status"] == "subscribed", "{first} {second}");
        Ok(socket)
    }

    /// How long a log is.
    pub async fn last_seq(&self, sandbox: &str) -> anyhow::Result<u64> {
        let found = self.get(&format!("/api/v1/sandboxes/{sandbox}")).await?;
        found["last_seq"].as_u64().with_context(|| format!("no last_seq in {found}"))
    }
}

/// The next frame, soon.
pub async fn hear(socket: &mut Socket) -> anyhow::Result<Value> {
    let heard = timeout(PATIENCE, socket.next()).await.context("nothing came on the socket")?;
    heard.context("the socket was closed")
}
