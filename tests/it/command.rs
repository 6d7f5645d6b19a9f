//! The commands `sunaba dev` and `sunaba send`.

use crate::support::{OPERATOR, TestPlane, batch, dev, now_secs};
use domain::{ConnectionId, Timestamp};
use edge::registry::{FUNCTIONS, Trigger};
use kit::process::{Process, ProcessOptions};
use local::config::Dev;
use reqwest::Method;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use store::connections::Connection;
use tempfile::TempDir;

/// Options to run the real binary on a data folder inside of `data`.
pub fn process_options(data: &TempDir) -> ProcessOptions {
    ProcessOptions {
        binary: env!("CARGO_BIN_EXE_sunaba").into(),
        data: data.path().join("data"),
        port: 0,
        token: OPERATOR.into(),
        log: None,
        arguments: vec![],
    }
}

#[tokio::test]
async fn plane_serves_once_ready_and_exits_cleanly_on_sigterm() {
    let data = TempDir::new().unwrap();
    let plane = Process::start(&process_options(&data)).await;
    let health = reqwest::get(format!("{}/api/v1/sandboxes/health", plane.url)).await.unwrap();
    assert_eq!(health.status(), 200);
    let page = reqwest::get(&plane.link).await.unwrap();
    assert!(page.headers().contains_key("content-security-policy"));
    assert!(page.text().await.unwrap().contains("Sunaba"));
    assert_eq!(plane.terminate().await, Some(0));
}

#[tokio::test]
async fn shutdown_closes_sockets_and_removes_their_subscriptions() {
    let plane = TestPlane::start().await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    let store = plane.running.aws.store.clone();
    assert_eq!(store.subscribers("*", "all").await.unwrap().len(), 1);
    plane.running.stop().await;
    assert_eq!(socket.try_receive().await, None);
    assert_eq!(store.subscribers("*", "all").await.unwrap().len(), 0);
}

#[tokio::test]
async fn secrets_are_generated_once_and_private_to_the_owner() {
    let data = TempDir::new().unwrap();
    let mut options = dev(&data);
    options.data = data.path().join("new");
    options.token = None;
    let first = local::dev::start(&options).await.unwrap();
    let token = first.operator_token.clone();
    first.stop().await;
    let mode = |name: &str| std::fs::metadata(options.data.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("plane")), (0o700, 0o700));
    assert_eq!((mode("plane/operator-token"), mode("plane/worker-secret")), (0o600, 0o600));
    let second = local::dev::start(&options).await.unwrap();
    assert_eq!(second.operator_token, token, "commands and scripts keep working");
    second.stop().await;
}

/// As when the folder was unpacked from a backup or created by an older version.
#[tokio::test]
async fn existing_data_folder_is_made_private_at_start() {
    let data = TempDir::new().unwrap();
    let mut options = dev(&data);
    options.data = data.path().join("old");
    options.token = None;
    options.serve_aws = Some(0);
    local::dev::start(&options).await.unwrap().stop().await;
    let secrets =
        ["operator-token", "worker-secret", "sign-in-secret", "plane-name", "lambda.env", "sunaba.yaml"]
            .map(|name| format!("plane/{name}"));
    std::fs::write(options.data.join("plane/sunaba.yaml"), "agent: scripted:hello\n").unwrap();
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
        assert_eq!(mode(&name), 0o600, "{name}");
    }
}

/// A sandbox is a folder in `sandboxes`, and its agent can try to read every folder above it.
#[tokio::test]
async fn no_parent_directory_of_a_sandbox_contains_a_file_of_the_plane() {
    let data = TempDir::new().unwrap();
    let mut options = dev(&data);
    options.token = None;
    options.serve_aws = Some(0);
    let token = local::dev::start(&options).await.unwrap();
    let known = token.operator_token.clone().unwrap();
    token.stop().await;
    let names = |directory: &str| {
        let entries = std::fs::read_dir(data.path().join(directory)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    // `sandboxes` is created with the first one.
    assert_eq!(names(""), ["lock", "plane"]);
    assert_eq!(std::fs::read(data.path().join("lock")).unwrap(), b"");

    // As an earlier version left it.
    for name in names("plane") {
        std::fs::rename(data.path().join("plane").join(&name), data.path().join(&name)).unwrap();
    }
    std::fs::write(data.path().join("sunaba.yaml"), "agent: openhands\n").unwrap();
    let upgraded = local::dev::start(&options).await.unwrap();
    assert_eq!(upgraded.operator_token.as_deref(), Some(known.as_str()));
    assert!(upgraded.notices.iter().any(|notice| notice == "Default agent: openhands."));
    upgraded.stop().await;
    // `sandboxes` is created with the first one.
    assert_eq!(names(""), ["lock", "plane"]);
    assert!(names("plane").contains(&"sunaba.yaml".to_owned()));
}

/// Otherwise tokens for other applications of the same issuer, or of any issuer, would be accepted.
#[tokio::test]
async fn plane_with_jwks_does_not_start_without_issuer_or_audience() {
    let data = TempDir::new().unwrap();
    let (issuer, audience) = (Some("https://users.example"), Some("sunaba"));
    for (issuer, audience) in [(issuer, None), (None, audience), (None, None)] {
        let mut options = dev(&data);
        options.jwks_url = Some("https://users.example/jwks".into());
        (options.jwt_issuer, options.jwt_audience) = (issuer.map(str::to_owned), audience.map(str::to_owned));
        let refusal = local::dev::start(&options).await.unwrap_err().to_string();
        assert!(refusal.contains("SUNABA_JWKS_URL needs SUNABA_JWT_ISSUER"), "{refusal}");
    }
}

/// An agent without isolation can read the plane's keys, and members of any org start agents.
#[tokio::test]
async fn plane_with_users_does_not_start_with_unconfined_sandboxes_or_agent_commands() {
    let data = TempDir::new().unwrap();
    let refusal = async |change: &dyn Fn(&mut Dev)| {
        let mut options = dev(&data);
        change(&mut options);
        local::dev::start(&options).await.unwrap_err().to_string()
    };
    let without = refusal(&|dev| dev.sandboxes.isolation = Some("none".into())).await;
    assert!(without.contains("tokens of users need isolated sandboxes"), "{without}");
    let by_jwks = refusal(&|dev| {
        dev.sandboxes.isolation = Some("none".into());
        (dev.jwt_secret, dev.jwks_url) = (None, Some("https://users.example/jwks".into()));
        (dev.jwt_issuer, dev.jwt_audience) = (Some("https://users.example".into()), Some("sunaba".into()));
    })
    .await;
    assert!(by_jwks.contains("tokens of users need isolated sandboxes"), "{by_jwks}");
    let commands = refusal(&|dev| dev.allow_agent_commands = true).await;
    assert!(commands.contains("--allow-agent-commands cannot be used with tokens of users"), "{commands}");
    let mut alone = dev(&data);
    (alone.jwt_secret, alone.sandboxes.isolation) = (None, Some("none".into()));
    alone.allow_agent_commands = true;
    let plane = local::dev::start(&alone).await.unwrap();
    let notices = plane.notices.join("\n");
    assert!(
        notices.contains("--allow-agent-commands: every ticket and task can run any command"),
        "{notices}"
    );
    plane.stop().await;
}

#[tokio::test]
async fn data_folder_that_cannot_be_made_private_is_refused() {
    let data = TempDir::new().unwrap();
    let mut options = dev(&data);
    // Readable by all users, and not even root can change that.
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
    let response = plane.call(Method::POST, path, None, Some(event)).await.ok();
    assert_eq!((&response["status"], &response["seq"]), (&json!("received"), &json!(1)));
    let list = plane.call(Method::GET, "/api/v1/sandboxes", None, None).await.ok();
    assert_eq!(list["sandboxes"][0]["sandbox_id"], "omoios-1234abcd-a1b2c3");
    let mut socket = plane.socket("/api/v1/ws/events").await;
    plane.call(Method::POST, path, None, Some(json!({"event_type": "agent.message"}))).await.ok();
    assert_eq!(socket.receive().await["seq"], 2);
}

#[test]
fn all_invalid_options_are_reported_at_once() {
    let data = TempDir::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sunaba"))
        .args(["dev", "--no-auth", "--host", "0.0.0.0", "--port", "0", "--origins", "example.com", "--data"])
        .arg(data.path())
        .env("SUNABA_TOKEN", "short")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    for part in ["--no-auth needs a loopback address", "SUNABA_TOKEN must have", "SUNABA_ORIGINS"] {
        assert!(stderr.contains(part), "{stderr}");
    }
}

#[test]
fn help_names_every_option_and_variable() {
    let output = Command::new(env!("CARGO_BIN_EXE_sunaba")).args(["dev", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    for option in
        ["--host", "--port", "--data", "--no-auth", "--fsync", "--org-quota", "--hosts", "--origins"]
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
async fn plane_works_with_fsync() {
    let plane = TestPlane::start_with(|dev| dev.fsync = true).await;
    let worker = plane.register("s-1", "acme").await;
    let mut socket = plane.subscribed(OPERATOR, "").await;
    plane.post_events("s-1", &worker, batch(1, 1, 1, 3)).await.ok();
    assert_eq!(plane.log("s-1").await.len(), 3);
    assert_eq!(socket.receive().await["seq"], 1);
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
async fn expired_items_are_removed() {
    let plane = TestPlane::start().await;
    let connection = |name: &str, secs: u64| {
        let connected_at = Timestamp::from_secs(i64::try_from(secs).unwrap());
        Connection::new(ConnectionId::parse(name).unwrap(), connected_at)
    };
    let store = &plane.running.aws.store;
    for connection in [connection("old", now_secs() - 86_400), connection("new", now_secs())] {
        store.resubscribe(&connection.clone(), &mut connection.clone()).await.unwrap();
    }
    assert_eq!(plane.running.aws.sweeper().sweep().await.unwrap(), 1);
    assert!(store.connection(&ConnectionId::parse("old").unwrap()).await.unwrap().is_none());
    assert!(store.connection(&ConnectionId::parse("new").unwrap()).await.unwrap().is_some());
}

#[tokio::test]
async fn tokens_and_event_data_are_never_logged() {
    let data = TempDir::new().unwrap();
    let log = data.path().join("log");
    let arguments = ["--log", "debug"].map(str::to_owned).into();
    let plane =
        Process::start(&ProcessOptions { log: Some(log.clone()), arguments, ..process_options(&data) }).await;
    let http = reqwest::Client::new();
    let sandboxes = format!("{}/api/v1/sandboxes", plane.url);
    let register = http.post(&sandboxes).bearer_auth(OPERATOR).body(r#"{"sandbox_id":"s-1"}"#);
    let registered: serde_json::Value = register.send().await.unwrap().json().await.unwrap();
    let worker = registered["worker_token"].as_str().unwrap();
    for body in [
        r#"{"event_type":"agent.message","event_data":{"content":"private-event-data"}}"#,
        "private-event-data",
    ] {
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
    let (_, code) = plane.link.split_once("#code=").unwrap();
    let sign_in = async || {
        let request = http.post(format!("{}/api/v1/sign-in", plane.url)).header("origin", &plane.url);
        request.body(json!({"code": code}).to_string()).send().await.unwrap()
    };
    let signed_in: serde_json::Value = sign_in().await.json().await.unwrap();
    let browser = signed_in["token"].as_str().unwrap().to_owned();
    assert_eq!(sign_in().await.status(), 401);
    let code = code.to_owned();
    plane.terminate().await;
    let log = std::fs::read_to_string(log).unwrap();
    for line in ["POST /api/v1/sign-in: 200", "POST /api/v1/sign-in was refused: 401"] {
        assert!(log.contains(line), "sign-ins are logged: {log}");
    }
    assert!(
        log.contains("/api/v1/sandboxes/s-1/events was refused: 401"),
        "refused requests are logged: {log}"
    );
    for secret in [OPERATOR, worker, &code, &browser, "a-wrong-token", "private-event-data"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

/// `--serve-aws` exposes all data and secrets, so it needs the access key from `lambda.env` and rejects browsers.
#[tokio::test]
async fn local_aws_endpoint_requires_the_key_from_the_data_folder() {
    let data = TempDir::new().unwrap();
    let mut options = dev(&data);
    options.serve_aws = Some(0);
    let running = local::dev::start(&options).await.unwrap();
    let file = data.path().join("plane/lambda.env");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    let variable = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {name}")).trim_matches('"').to_owned()
    };
    let signed = |key: &str| format!("AWS4-HMAC-SHA256 Credential={key}/20261116/us-east-1/x/aws4_request");
    let get_secret = async |authorization: Option<String>, origin: Option<&str>| {
        let mut request = reqwest::Client::new()
            .post(variable("AWS_ENDPOINT_URL"))
            .header("x-amz-target", "secretsmanager.GetSecretValue")
            .body(json!({"SecretId": variable("SUNABA_OPERATORS_ID")}).to_string());
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let key = variable("AWS_ACCESS_KEY_ID");
    let (status, body) = get_secret(Some(signed(&key)), None).await;
    assert!(status == 200 && body.contains("local") && !body.contains(OPERATOR), "{status} {body}");
    for (authorization, origin) in [
        (None, None),
        (Some(signed("unknown")), None),
        (Some(signed(&key[1..])), None),
        (Some(signed(&key)), Some("http://evil.example")),
    ] {
        let (status, body) = get_secret(authorization.clone(), origin).await;
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
    let text = std::fs::read_to_string(data.path().join("plane/lambda.env")).unwrap();
    let variable = |name: &str| {
        text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.trim_matches('"')))
    };
    for function in FUNCTIONS.iter().filter(|function| matches!(function.trigger, Trigger::Http(_))) {
        let config = lambda_host::Config::read(|name| match name {
            "SUNABA_FUNCTION" => Some(function.name.to_owned()),
            name => variable(name).map(str::to_owned),
        });
        assert!(config.is_ok(), "{}: {config:?}", function.name);
    }
    let all_routes = lambda_host::Config::read(|name| variable(name).map(str::to_owned)).unwrap();
    assert!(matches!(all_routes.serves, lambda_host::Serves::EveryRoute), "{all_routes:?}");
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
async fn send_watch_prints_every_receipt() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let acknowledge = async {
        let pull = "/api/v1/sandboxes/s-1/messages?ack=manual&wait=20";
        let pulled = plane.get(pull, &worker).await.ok();
        assert_eq!(pulled["messages"][0]["content"], "use sqlite");
        for state in ["delivered", "started", "completed"] {
            let body = json!({"receipts": [{"message_id": "m-1", "state": state}]});
            plane.post("/api/v1/sandboxes/s-1/messages/ack", &worker, body).await.ok();
        }
    };
    let mut command = send(&plane, &["s-1", "use sqlite", "--id", "m-1", "--watch"]);
    let (sent, ()) = tokio::join!(command.output(), acknowledge);
    let sent = sent.unwrap();
    let stdout = String::from_utf8(sent.stdout).unwrap();
    let states: Vec<&str> = stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(states, ["queued", "fetched", "delivered", "started", "completed"], "{stdout}");
    assert!(sent.status.success());
}

#[tokio::test]
async fn rejected_message_prints_the_reason() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    for (arguments, reason) in [
        (vec!["s-9", "hello"], "Sandbox s-9 was not found."),
        (vec!["s-1", " "], "content: must not be blank"),
        (vec!["s-1"], "content: must not be blank"),
        (vec!["s-1", "hello", "--type", "unknown"], "message_type: must be one of"),
        (vec!["s 1", "hello"], "sandbox_id: may contain"),
    ] {
        let sent = send(&plane, &arguments).output().await.unwrap();
        let stderr = String::from_utf8(sent.stderr).unwrap();
        assert!(!sent.status.success() && stderr.contains(reason), "{arguments:?}: {stderr}");
    }
    plane.call(Method::DELETE, "/api/v1/sandboxes/s-1?reason=done", Some(OPERATOR), None).await.ok();
    let ended = send(&plane, &["s-1", "hello"]).output().await.unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success() && stderr.contains("is terminated: done"), "{stderr}");
    plane.register("s-2", "acme").await;
    for (flag, message_type) in [("-i", "interrupt"), ("--stop", "stop")] {
        let sent = send(&plane, &["s-2", flag]).output().await.unwrap();
        assert!(String::from_utf8(sent.stdout).unwrap().starts_with("queued"), "{flag} needs no text");
        let history = plane.get("/api/v1/sandboxes/s-2/messages/history", OPERATOR).await.ok();
        let latest = (&history["messages"][0]["message_type"], &history["messages"][0]["content"]);
        assert_eq!(latest, (&json!(message_type), &json!("Stop.")));
    }
    let both = send(&plane, &["s-2", "-i", "--stop"]).output().await.unwrap();
    assert!(!both.status.success(), "-i and --stop are exclusive");
}

#[tokio::test]
async fn send_watch_exits_when_no_further_receipt_can_follow() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let watch = async |id: &str| {
        let output = send(&plane, &["s-1", "hello", "--id", id, "--watch"]).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), text.lines().last().unwrap_or_default().to_owned())
    };
    // An OmoiOS worker sends no receipts.
    let pull = plane.get("/api/v1/sandboxes/s-1/messages?wait=20", &worker);
    let ((done, last), pulled) = tokio::join!(watch("m-1"), pull);
    assert!(done && last.starts_with("delivered"), "{last}");
    assert_eq!(pulled.ok()[0]["id"], "m-1");
    // The sandbox is terminated while its worker processes the message.
    let terminate = async {
        plane.get("/api/v1/sandboxes/s-1/messages?ack=manual&wait=20", &worker).await.ok();
        let receipt = json!({"receipts": [{"message_id": "m-2", "state": "started"}]});
        plane.post("/api/v1/sandboxes/s-1/messages/ack", &worker, receipt).await.ok();
        plane.call(Method::DELETE, "/api/v1/sandboxes/s-1", Some(OPERATOR), None).await.ok();
    };
    let ((done, last), ()) = tokio::join!(watch("m-2"), terminate);
    assert!(!done && last.starts_with("ended"), "{last}");
}
