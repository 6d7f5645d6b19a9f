//! An in-process plane, and a client for it.

use domain::Entity;
use domain::quota::Amount;
use jsonwebtoken::{EncodingKey, Header};
pub use kit::socket::Socket;
use local::config::sandboxes::Sandboxes;
use local::config::{Dev, plane_directory};
use local::dev::{Running, start};
use local::hosts::ws::SocketTimeouts;
use providers::PROVIDERS;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use store::keys::{self, Key};
use tempfile::TempDir;

pub const OPERATOR: &str = "operator-token-of-the-tests";
pub const JWT_SECRET: &str = "a secret of the tests, long enough to be one";

/// More than any test sends.
const UNLIMITED: Amount = Amount::new(1 << 40, 1 << 50);

/// A plane with its own data folder, for one test.
pub struct TestPlane {
    pub running: Running,
    pub url: String,
    http: reqwest::Client,
    data: TempDir,
}

/// Settings of a plane that keeps its data in this folder.
pub fn dev(data: &TempDir) -> Dev {
    Dev {
        host: "127.0.0.1".parse().unwrap(),
        port: 0,
        data: data.path().to_owned(),
        no_auth: false,
        fsync: false,
        sandbox_quota: UNLIMITED,
        org_quota: UNLIMITED,
        user_quota: UNLIMITED,
        operator_quota: UNLIMITED,
        workspace_days: 30,
        token: Some(OPERATOR.into()),
        jwt_secret: Some(JWT_SECRET.into()),
        jwks_url: None,
        jwt_issuer: None,
        jwt_audience: None,
        hosts: vec![],
        origins: vec!["https://console.example".into()],
        web: None,
        serve_aws: None,
        auth_timeout_secs: 10,
        socket_timeouts: SocketTimeouts::default(),
        log: "off".into(),
        config: None,
        worker_variables: None,
        policy: None,
        // No test reads the directories of this machine.
        folders: vec!["/nonexistent".into()],
        allow_agent_commands: false,
        // Users have tokens, so sandboxes need isolation.
        sandboxes: Sandboxes::default(),
        worker: Some(env!("CARGO_BIN_EXE_sunaba").into()),
        provider_kinds: PROVIDERS,
    }
}

impl TestPlane {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Dev)) -> Self {
        let data = TempDir::new().unwrap();
        let mut dev = dev(&data);
        change(&mut dev);
        let running = start(&dev).await.unwrap();
        let url = format!("http://{}", running.address);
        Self { running, url, http: reqwest::Client::new(), data }
    }

    /// Where this plane keeps its keys and its table.
    pub fn directory(&self) -> PathBuf {
        plane_directory(self.data.path())
    }

    pub async fn call(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<Value>,
    ) -> ApiResponse {
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        ApiResponse::of(request.send().await.unwrap()).await
    }

    pub async fn get(&self, path: &str, token: &str) -> ApiResponse {
        self.call(Method::GET, path, Some(token), None).await
    }

    pub async fn post(&self, path: &str, token: &str, body: Value) -> ApiResponse {
        self.call(Method::POST, path, Some(token), Some(body)).await
    }

    /// A request builder, for unusual headers and bodies.
    pub fn raw(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// Registers a sandbox and returns its worker token.
    pub async fn register(&self, id: &str, org: &str) -> String {
        let response = self.post("/api/v1/sandboxes", OPERATOR, json!({"sandbox_id": id, "org": org})).await;
        assert_eq!(response.status, 201, "{}", response.body);
        response.body["worker_token"].as_str().unwrap().to_owned()
    }

    pub async fn post_events(&self, id: &str, token: &str, body: Value) -> ApiResponse {
        self.post(&format!("/api/v1/sandboxes/{id}/events"), token, body).await
    }

    /// Every event in the log of a sandbox.
    pub async fn log(&self, id: &str) -> Vec<Value> {
        let (mut events, mut after) = (Vec::new(), 0);
        loop {
            let path = format!("/api/v1/sandboxes/{id}/events?after_seq={after}&limit=500");
            let page = self.get(&path, OPERATOR).await.ok();
            events.extend(page["events"].as_array().unwrap().clone());
            after = page["next_after_seq"].as_u64().unwrap();
            if page["has_more"] == false {
                return events;
            }
        }
    }

    /// Appends events to the log of a task or ticket that has `before` events, by writing the items that
    /// `infra/TABLE.md` describes. The segment count is an estimate, which is how readers treat it.
    pub async fn put_history(&self, entity: &Entity, org: &str, before: u64, event_types: &[&str]) {
        let (first_seq, last_seq) = (before + 1, before + event_types.len() as u64);
        let entries: Vec<Value> = (first_seq..)
            .zip(event_types)
            .map(|(seq, name)| json!({"id": format!("e-{seq}"), "type": name, "source": "system", "data": {"n": seq}}))
            .collect();
        let put = |key: Key, attributes: Value| {
            let mut item = json!({"PK": {"S": key.pk}, "SK": {"S": key.sk}, "org": {"S": org}});
            item.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
            json!({"Put": {"TableName": local::aws::TABLE, "Item": item}})
        };
        let number = |n: u64| json!({"N": n.to_string()});
        let segment = json!({
            "kind": {"S": "log"}, "generation": number(1), "received_at": {"S": "2026-01-05T12:00:00.000000Z"},
            "first_seq": number(first_seq), "count": number(entries.len() as u64),
            "text": {"S": json!(entries).to_string()},
        });
        let entity_item =
            json!({"kind": {"S": entity.kind()}, "seq": number(last_seq), "segments": number(before + 1)});
        let writes = [put(keys::segment(entity, first_seq), segment), put(keys::entity(entity), entity_item)];
        let body = json!({"TransactItems": writes}).to_string();
        let target = "DynamoDB_20120810.TransactWriteItems";
        let reply = self.running.aws.call(Some(target), "POST", "/", body.as_bytes()).await.unwrap();
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    }

    pub async fn socket(&self, path_and_query: &str) -> Socket {
        self.try_socket(path_and_query).await.unwrap()
    }

    /// A socket, or the HTTP status with which the handshake was rejected.
    pub async fn try_socket(&self, path_and_query: &str) -> Result<Socket, u16> {
        Socket::open(&format!("{}{path_and_query}", self.url.replacen("http", "ws", 1))).await
    }

    /// A subscribed socket that authenticated in its first frame. The filters are those of a query.
    pub async fn subscribed(&self, token: &str, query: &str) -> Socket {
        let mut socket = self.socket("/api/v1/ws/events").await;
        let mut frame = json!({"type": "auth", "token": token});
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            frame[name] = match name {
                "batch" => json!(value == "true"),
                _ => json!(value.split(',').collect::<Vec<_>>()),
            };
        }
        socket.send(frame).await;
        assert_eq!(socket.receive().await["status"], "authenticated");
        assert_eq!(socket.receive().await["status"], "subscribed");
        socket
    }
}

#[derive(Debug)]
pub struct ApiResponse {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl ApiResponse {
    pub async fn of(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        if headers.get("content-type").is_some_and(|media_type| media_type == contract::problem::MEDIA_TYPE) {
            let parsed = serde_json::from_str::<contract::problem::Problem>(&text);
            assert!(parsed.is_ok(), "clients must be able to parse every problem: {text}");
        }
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Self { status, headers, body }
    }

    pub fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.body
    }
}

/// An access token of user `u-1`, valid for ten minutes.
pub fn user(org: &str, role: &str) -> String {
    user_with(json!({"sub": "u-1", "org": org, "role": role, "exp": now_secs() + 600, "type": "access"}))
}

pub fn user_with(claims: Value) -> String {
    let key = EncodingKey::from_secret(JWT_SECRET.as_bytes());
    jsonwebtoken::encode(&Header::default(), &claims, &key).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "test tokens expire by the system clock")]
pub fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A batch of `count` events; the nth has the id `e-n` and the data `{"n": n}`.
pub fn batch(epoch: u64, batch: u64, first: u64, count: u64) -> Value {
    let events: Vec<Value> = (first..first + count)
        .map(|n| json!({"event_id": format!("e-{n}"), "event_type": "agent.message", "event_data": {"n": n}}))
        .collect();
    json!({"epoch": epoch, "batch": batch, "events": events})
}
