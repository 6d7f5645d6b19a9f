//! `sunaba dev`, as somebody runs it.

use crate::support::{OPERATOR, TestPlane, batch, dev, now_secs};
use domain::filter::Filters;
use domain::{ConnectionId, Timestamp};
use edge::registry::{FUNCTIONS, Trigger};
use kit::process::{Process, Recipe};
use reqwest::Method;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use store::connections::Connection;
use tempfile::TempDir;

pub fn recipe(data: &TempDir) -> Recipe {
    Recipe {
        binary: env!("CARGO_BIN_EXE_sunaba").into(),
        data: data.path().join("data"),
        port: 0,
        token: OPERATOR.into(),
        log: None,
        arguments: vec![],
    }
}

#[tokio::test]
async fn it_is_ready_when_it_says_so_and_ends_cleanly_when_told() {
    let data = TempDir::new().unwrap();
    let plane = Process::start(&recipe(&data)).await;
    let health = reqwest::get(format!("{}/api/v1/sandboxes/health", plane.url)).await.unwrap();
    assert_eq!(health.status(), 200);
    let page = reqwest::get(format!("{}/?token=x", plane.url)).await.unwrap();
    assert!(page.headers().contains_key("content-security-policy"));
    assert!(page.text().await.unwrap().contains("Sunaba"));
    assert_eq!(plane.terminate().await, Some(0));
}

#[tokio::test]
async fn when_it_ends_it_says_goodbye_to_sockets_and_forgets_them() {
    let plane = TestPlane::start().await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    let store = plane.running.aws.store.clone();
    assert_eq!(store.subscribers("*", "all").await.unwrap().len(), 1);
    plane.running.stop().await;
    assert_eq!(socket.try_hear().await, None);
    assert_eq!(store.subscribers("*", "all").await.unwrap().len(), 0);
}

#[tokio::test]
async fn secrets_are_made_once_and_for_their_owner_only() {
    let data = TempDir::new().unwrap();
    let mut options = dev(&data);
    options.data = data.path().join("new");
    options.token = None;
    let first = local::dev::start(&options).await.unwrap();
    let token = first.operator_token.clone();
    first.stop().await;
    let mode = |name: &str| std::fs::metadata(options.data.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("operator-token"), mode("worker-secret")), (0o700, 0o600, 0o600));
    let second = local::dev::start(&options).await.unwrap();
    assert_eq!(second.operator_token, token, "the link of yesterday still works");
    second.stop().await;
}

/// A folder that was unpacked from a backup, or made by an older version, and is readable by everybody.
#[tokio::test]
async fn existing_data_folder_is_made_private_at_start() {
    let data = TempDir::new().unwrap();
    let mut options = dev(&data);
    options.data = data.path().join("old");
    options.token = None;
    options.serve_aws = Some(0);
    local::dev::start(&options).await.unwrap().stop().await;
    let secrets = ["operator-token", "worker-secret", "plane-name", "lambda.env", "sunaba.yaml"];
    std::fs::write(options.data.join("sunaba.yaml"), "agent: scripted:hello\n").unwrap();
    let change = |name: &str, mode: u32| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(options.data.join(name), permissions).unwrap();
    };
    change("", 0o755);
    secrets.iter().for_each(|name| change(name, 0o644));
    local::dev::start(&options).await.unwrap().stop().await;
    let mode = |name: &str| std::fs::metadata(options.data.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(""), 0o700);
    for name in secrets {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

#[tokio::test]
async fn data_folder_that_cannot_be_made_private_is_refused() {
    let data = TempDir::new().unwrap();
    let mut options = dev(&data);
    // Everybody may read it, and not even root can change that.
    options.data = "/proc/self/task".into();
    let refusal = local::dev::start(&options).await.unwrap_err().to_string();
    for part in ["/proc/self/task has mode 0555", "run `chmod 700 /proc/self/task`", "--data"] {
        assert!(refusal.contains(part), "{refusal}");
    }
}

#[tokio::test]
async fn without_authentication_an_unchanged_omoios_worker_can_post() {
    let plane = TestPlane::start_with(|dev| dev.no_auth = true).await;
    let event = json!({"event_type": "agent.started", "event_data": {"task_id": "T"}, "source": "worker"});
    let path = "/api/v1/sandboxes/omoios-1234abcd-a1b2c3/events";
    let answer = plane.call(Method::POST, path, None, Some(event)).await.ok();
    assert_eq!((&answer["status"], &answer["seq"]), (&json!("received"), &json!(1)));
    let list = plane.call(Method::GET, "/api/v1/sandboxes", None, None).await.ok();
    assert_eq!(list["sandboxes"][0]["sandbox_id"], "omoios-1234abcd-a1b2c3");
    let mut socket = plane.socket("/api/v1/ws/events").await;
    plane.call(Method::POST, path, None, Some(json!({"event_type": "agent.message"}))).await.ok();
    assert_eq!(socket.hear().await["seq"], 2);
}

#[test]
fn what_does_not_go_together_is_said_in_a_sentence_and_all_at_once() {
    let data = TempDir::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sunaba"))
        .args(["dev", "--no-auth", "--host", "0.0.0.0", "--port", "0", "--origins", "example.com", "--data"])
        .arg(data.path())
        .env("SUNABA_TOKEN", "short")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    for part in ["--no-auth needs a loopback address", "SUNABA_TOKEN must have", "SUNABA_ORIGINS"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn help_names_every_option_and_variable() {
    let output = Command::new(env!("CARGO_BIN_EXE_sunaba")).args(["dev", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    for option in
        ["--host", "--port", "--data", "--no-auth", "--fsync", "--events-per-minute", "--hosts", "--origins"]
    {
        assert!(help.contains(option), "{option}: {help}");
    }
    for variable in
        ["TOKEN", "JWT_SECRET", "JWKS_URL", "JWT_ISSUER", "JWT_AUDIENCE", "HOSTS", "ORIGINS", "LOG"]
    {
        assert!(help.contains(&format!("[env: SUNABA_{variable}")), "{variable}: {help}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_fsync_everything_works_as_without() {
    let plane = TestPlane::start_with(|dev| dev.fsync = true).await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    plane.post_events("s-1", &worker, batch(1, 1, 1, 3)).await.ok();
    assert_eq!(plane.log("s-1").await.len(), 3);
    assert_eq!(socket.hear().await["seq"], 1);
}

#[tokio::test]
async fn two_planes_do_not_share_a_folder() {
    let data = TempDir::new().unwrap();
    let first = local::dev::start(&dev(&data)).await.unwrap();
    let second = local::dev::start(&dev(&data)).await.unwrap_err();
    assert!(second.to_string().contains("another plane runs on the data"), "{second}");
    first.stop().await;
    local::dev::start(&dev(&data)).await.unwrap().stop().await;
}

#[tokio::test]
async fn what_has_expired_is_removed() {
    let plane = TestPlane::start().await;
    let opened = |name: &str, secs: u64| Connection {
        id: ConnectionId::parse(name).unwrap(),
        principal: None,
        realm: None,
        filters: Filters::default(),
        batch: false,
        version: 0,
        connected_at: Timestamp::from_secs(i64::try_from(secs).unwrap()),
        until: None,
    };
    let store = &plane.running.aws.store;
    for connection in [opened("old", now_secs() - 86_400), opened("new", now_secs())] {
        store.resubscribe(&connection.clone(), &mut connection.clone()).await.unwrap();
    }
    assert_eq!(plane.running.aws.sweeper().sweep().await.unwrap(), 1);
    assert!(store.connection(&ConnectionId::parse("old").unwrap()).await.unwrap().is_none());
    assert!(store.connection(&ConnectionId::parse("new").unwrap()).await.unwrap().is_some());
}

#[tokio::test]
async fn tokens_and_what_agents_say_stay_out_of_the_log() {
    let data = TempDir::new().unwrap();
    let log = data.path().join("log");
    let arguments = ["--log", "debug"].map(str::to_owned).into();
    let plane = Process::start(&Recipe { log: Some(log.clone()), arguments, ..recipe(&data) }).await;
    let http = reqwest::Client::new();
    let sandboxes = format!("{}/api/v1/sandboxes", plane.url);
    let register = http.post(&sandboxes).bearer_auth(OPERATOR).body(r#"{"sandbox_id":"s-1"}"#);
    let registered: serde_json::Value = register.send().await.unwrap().json().await.unwrap();
    let worker = registered["worker_token"].as_str().unwrap();
    for body in
        [r#"{"event_type":"agent.message","event_data":{"content":"a-secret-thought"}}"#, "a-secret-thought"]
    {
        http.post(format!("{sandboxes}/s-1/events")).bearer_auth(worker).body(body).send().await.unwrap();
    }
    http.get(format!("{sandboxes}/s-1/events?token={worker}"))
        .bearer_auth("a-wrong-token")
        .send()
        .await
        .unwrap();
    let socket = format!("{}/api/v1/ws/events?token=", plane.url.replacen("http", "ws", 1));
    drop(tokio_tungstenite::connect_async(format!("{socket}{worker}")).await.unwrap());
    assert!(tokio_tungstenite::connect_async(format!("{socket}a-wrong-token")).await.is_err());
    plane.terminate().await;
    let said = std::fs::read_to_string(log).unwrap();
    assert!(
        said.contains("/api/v1/sandboxes/s-1/events was refused: 401"),
        "the log tells the story: {said}"
    );
    for secret in [OPERATOR, worker, "a-wrong-token", "a-secret-thought"] {
        assert!(!said.contains(secret), "the log holds {secret}");
    }
}

/// What `--serve-aws` serves is everything: whoever has not read `lambda.env` gets none of it, and no page does.
#[tokio::test]
async fn the_served_aws_is_for_whoever_may_read_the_data_folder() {
    let data = TempDir::new().unwrap();
    let mut options = dev(&data);
    options.serve_aws = Some(0);
    let running = local::dev::start(&options).await.unwrap();
    let file = data.path().join("lambda.env");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    let variable = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    let signed = |key: &str| format!("AWS4-HMAC-SHA256 Credential={key}/20261116/us-east-1/x/aws4_request");
    let ask = async |authorization: Option<String>, origin: Option<&str>| {
        let mut request = reqwest::Client::new()
            .post(variable("AWS_ENDPOINT_URL"))
            .header("x-amz-target", "secretsmanager.GetSecretValue")
            .body(json!({"SecretId": variable("SUNABA_OPERATOR_TOKEN_ID")}).to_string());
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let key = variable("AWS_ACCESS_KEY_ID");
    let (status, body) = ask(Some(signed(&key)), None).await;
    assert!(status == 200 && body.contains(OPERATOR), "{status} {body}");
    for (authorization, origin) in [
        (None, None),
        (Some(signed("somebody")), None),
        (Some(signed(&key[1..])), None),
        (Some(signed(&key)), Some("http://evil.example")),
    ] {
        let (status, body) = ask(authorization.clone(), origin).await;
        assert!(status == 403 && !body.contains(OPERATOR), "{authorization:?} {origin:?}: {status} {body}");
    }
    running.stop().await;
}

#[tokio::test]
async fn lambda_env_has_every_variable_that_functions_with_routes_require() {
    let data = TempDir::new().unwrap();
    let mut options = dev(&data);
    options.serve_aws = Some(0);
    let running = local::dev::start(&options).await.unwrap();
    let text = std::fs::read_to_string(data.path().join("lambda.env")).unwrap();
    let variable = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    for function in FUNCTIONS.iter().filter(|function| matches!(function.trigger, Trigger::Http(_))) {
        let read = lambda_host::Config::read(|name| match name {
            "SUNABA_FUNCTION" => Some(function.name.to_owned()),
            name => variable(name).map(str::to_owned),
        });
        assert!(read.is_ok(), "{}: {read:?}", function.name);
    }
    let every = lambda_host::Config::read(|name| variable(name).map(str::to_owned)).unwrap();
    assert!(matches!(every.serves, lambda_host::Serves::EveryRoute), "{every:?}");
    assert_eq!(variable("SUNABA_CALLBACK_URL"), Some(format!("http://{}", running.address).as_str()));
    running.stop().await;
}

fn send(plane: &TestPlane, arguments: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_sunaba"));
    command.arg("send").args(arguments).env("SUNABA_URL", &plane.url).env("SUNABA_TOKEN", OPERATOR);
    command.stdin(std::process::Stdio::null()).kill_on_drop(true);
    command
}

#[tokio::test]
async fn somebody_who_sends_a_message_sees_how_far_it_comes() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let work = async {
        let pull = "/api/v1/sandboxes/s-1/messages?ack=manual&wait=20";
        let taken = plane.get(pull, &worker).await.ok();
        assert_eq!(taken["messages"][0]["content"], "use sqlite");
        for state in ["delivered", "started", "completed"] {
            let body = json!({"receipts": [{"message_id": "m-1", "state": state}]});
            plane.post("/api/v1/sandboxes/s-1/messages/ack", &worker, body).await.ok();
        }
    };
    let mut command = send(&plane, &["s-1", "use sqlite", "--id", "m-1", "--watch"]);
    let (sent, ()) = tokio::join!(command.output(), work);
    let sent = sent.unwrap();
    let shown = String::from_utf8(sent.stdout).unwrap();
    let steps: Vec<&str> = shown.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(steps, ["queued", "fetched", "delivered", "started", "completed"], "{shown}");
    assert!(sent.status.success());
}

#[tokio::test]
async fn a_message_that_cannot_be_sent_says_why() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    for (arguments, why) in [
        (vec!["s-9", "hello"], "Sandbox s-9 was not found."),
        (vec!["s-1", " "], "content: must hold something"),
        (vec!["s-1"], "content: must hold something"),
        (vec!["s-1", "hello", "--type", "shout"], "message_type: must be one of"),
        (vec!["s 1", "hello"], "sandbox_id: may hold"),
    ] {
        let sent = send(&plane, &arguments).output().await.unwrap();
        let said = String::from_utf8(sent.stderr).unwrap();
        assert!(!sent.status.success() && said.contains(why), "{arguments:?}: {said}");
    }
    plane.call(Method::DELETE, "/api/v1/sandboxes/s-1?reason=done", Some(OPERATOR), None).await.ok();
    let ended = send(&plane, &["s-1", "hello"]).output().await.unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success() && said.contains("is terminated: done"), "{said}");
    plane.register("s-2", "acme").await;
    for (flag, message_type) in [("-i", "interrupt"), ("--stop", "stop")] {
        let sent = send(&plane, &["s-2", flag]).output().await.unwrap();
        assert!(String::from_utf8(sent.stdout).unwrap().starts_with("queued"), "{flag} needs no words");
        let history = plane.get("/api/v1/sandboxes/s-2/messages/history", OPERATOR).await.ok();
        let latest = (&history["messages"][0]["message_type"], &history["messages"][0]["content"]);
        assert_eq!(latest, (&json!(message_type), &json!("Stop.")));
    }
    let both = send(&plane, &["s-2", "-i", "--stop"]).output().await.unwrap();
    assert!(!both.status.success(), "one of the two");
}

#[tokio::test]
async fn whoever_watches_a_message_is_let_go_when_nobody_will_say_more() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let watch = async |id: &str| {
        let shown = send(&plane, &["s-1", "hello", "--id", id, "--watch"]).output().await.unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        (shown.status.success(), text.lines().last().unwrap_or_default().to_owned())
    };
    // A worker of OmoiOS, which sends no receipts.
    let take = plane.get("/api/v1/sandboxes/s-1/messages?wait=20", &worker);
    let ((done, last), taken) = tokio::join!(watch("m-1"), take);
    assert!(done && last.starts_with("delivered"), "{last}");
    assert_eq!(taken.ok()[0]["id"], "m-1");
    // A worker that has the message when its sandbox ends.
    let end = async {
        plane.get("/api/v1/sandboxes/s-1/messages?ack=manual&wait=20", &worker).await.ok();
        let receipt = json!({"receipts": [{"message_id": "m-2", "state": "started"}]});
        plane.post("/api/v1/sandboxes/s-1/messages/ack", &worker, receipt).await.ok();
        plane.call(Method::DELETE, "/api/v1/sandboxes/s-1", Some(OPERATOR), None).await.ok();
    };
    let ((done, last), ()) = tokio::join!(watch("m-2"), end);
    assert!(!done && last.starts_with("ended"), "{last}");
}
