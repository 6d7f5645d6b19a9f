//! The agent's way to the network: the worker's proxy and its policy.

use super::repository::descendants;
use super::resuming::kill;
use super::{Fixture, GATED, command, text};
use contract::payloads::{AgentToolCompleted, NetworkDenied};
use kit::model::{Reply, Script};
use kit::offline::{offline, offline_with_hosts, set_hosts};
use serde_json::json;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Addresses that only exist in the namespace of a test.
const PUBLIC: &str = "1.0.0.1";
const METADATA: &str = "169.254.169.254";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_connection_is_an_event_with_its_host() {
    let fixture = Fixture::new(Script::new()).await;
    let tries = "for url in http://169.254.169.254/latest/meta-data http://10.0.0.1/ https://192.168.1.1/; do \
                 curl -sS --max-time 20 $url; done; curl -sS http://169.254.169.254/ >/dev/null; \
                 curl -sS -x socks5h://${ALL_PROXY#http://} http://[fd00:ec2::254]/; echo tried";
    let agent = fixture.script(&[command(tries), text("Done.")]);
    let worker = fixture.start_worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Try")]);
    fixture.wait_for_event("agent.completed").await;
    for (host, port) in
        [("169.254.169.254", 80), ("10.0.0.1", 80), ("192.168.1.1", 443), ("[fd00:ec2::254]", 80)]
    {
        let event = fixture.wait_for(|denied: &NetworkDenied| denied.host == host).await;
        assert_eq!(
            (&event["event_data"]["port"], &event["source"]),
            (&json!(port), &json!("worker")),
            "{event}"
        );
        assert!(event["event_data"]["reason"].as_str().unwrap().contains("not public"), "{event}");
    }
    assert_eq!(worker.terminate().await, Some(0));
    let log = fixture.log().await;
    let denied: Vec<NetworkDenied> = super::data_of(&log);
    assert_eq!(denied.len(), 4, "one event for each host: {denied:?}");
    let log = serde_json::to_string(&log).unwrap();
    assert!(log.contains("The connection to 169.254.169.254:80 is denied"), "the agent reads why: {log}");
}

/// A server on all addresses. Returns its port, and the addresses at which it was reached.
async fn server_everywhere() -> (u16, Arc<Mutex<Vec<IpAddr>>>, JoinHandle<()>) {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let (port, reached) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
    let shared = reached.clone();
    let task = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            shared.lock().unwrap().push(stream.local_addr().unwrap().ip());
            // The client may have left.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nreached\n").await;
        }
    });
    (port, reached, task)
}

/// DNS rebinding: the names are the agent's, and change their addresses between two requests.
#[test]
fn name_that_leads_to_the_plane_or_to_metadata_is_denied() {
    offline_with_hosts(&[PUBLIC, METADATA], async {
        let fixture = Fixture::new(Script::new()).await;
        let (port, reached, _server) = server_everywhere().await;
        let plane_port: u16 = fixture.plane.url.rsplit(':').next().unwrap().parse().unwrap();
        let hosts = |rebound: &str| {
            set_hosts(&format!(
                "127.0.0.1 localhost plane.example\n{METADATA} metadata.example\n{rebound} rebound.example\n"
            ));
        };
        hosts(PUBLIC);
        let fetch = |host: &str, port: u16| format!("curl -sS --max-time 20 http://{host}.example:{port}/;");
        let first = [fetch("plane", plane_port), fetch("metadata", port), fetch("rebound", port)].concat();
        let second = format!("{GATED}; {} echo fetched again", fetch("rebound", port));
        let agent = fixture.script(&[command(&first), command(&second), text("Done.")]);
        let worker = fixture.start_worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Fetch")]);
        fixture.wait_for(|completed: &AgentToolCompleted| !completed.is_error).await;
        hosts("127.0.0.1");
        fixture.open_gate();
        fixture.wait_for_event("agent.completed").await;
        for (host, port) in
            [("plane.example", plane_port), ("metadata.example", port), ("rebound.example", port)]
        {
            let event = fixture.wait_for(|denied: &NetworkDenied| denied.host == host).await;
            assert_eq!(event["event_data"]["port"], port, "{event}");
            assert!(event["event_data"]["reason"].as_str().unwrap().contains("not public"), "{event}");
        }
        assert_eq!(worker.terminate().await, Some(0));
        let log = serde_json::to_string(&fixture.log().await).unwrap();
        assert!(log.contains("reached") && log.contains("fetched again"), "{log}");
        let public: IpAddr = PUBLIC.parse().unwrap();
        assert_eq!(*reached.lock().unwrap(), [public], "the server was reached while its name was public");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn allowlist_of_the_operator_opens_a_local_registry() {
    let fixture = Fixture::new(Script::new()).await;
    let registry = fixture.model.url().trim_start_matches("http://").to_owned();
    // curl would not use a proxy for the loopback otherwise.
    let fetch = format!(
        "curl -sS --noproxy '' -o /dev/null -w 'registry %{{http_code}}\\n' http://{registry}/; \
         curl -sS --noproxy '' -o /dev/null -w 'plane %{{http_code}}\\n' {}/health",
        fixture.plane.url
    );
    // Programs connect to the loopback directly, if their settings do not say otherwise.
    let directly = format!("curl -sS -o /dev/null -w 'directly %{{http_code}}\\n' http://{registry}/");
    let fetch = format!("{fetch}; {directly}");
    for (network, registry_status) in [(registry.as_str(), "registry 200"), ("none", "registry 403")] {
        let fixture = Fixture::new(Script::new()).await;
        let agent = fixture.script(&[command(&fetch), text("Done.")]);
        let variables = [("AGENT", agent.as_str()), ("TASK_DESCRIPTION", "Fetch"), ("NETWORK", network)];
        let worker = fixture.start_worker(&variables);
        fixture.wait_for_event("agent.completed").await;
        assert_eq!(worker.terminate().await, Some(0));
        let log = serde_json::to_string(&fixture.log().await).unwrap();
        assert!(log.contains(registry_status) && log.contains("plane 403"), "{network}: {log}");
        let directly = if network == "none" { "directly 000" } else { "directly 200" };
        assert!(log.contains(directly), "{network}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_exits_with_an_error_when_its_bridge_exits() {
    let fixture = Fixture::new(Script::new()).await;
    let agent = fixture.script(&[command(GATED), text("Done.")]);
    let worker = fixture.start_worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Wait")]);
    fixture.wait_for_event("agent.tool_use").await;
    let is_bridge = |process: &u32| {
        let command = std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        command.contains("\0bridge\0")
    };
    let bridge = descendants(worker.id()).into_iter().find(is_bridge).expect("the worker has a bridge");
    kill(bridge);
    assert_eq!(worker.wait_for_exit().await, Some(1));
    let error = fixture.wait_for_event("agent.error").await;
    assert!(error["event_data"]["error"].as_str().unwrap().contains("the bridge has exited"), "{error}");
}

/// The real CLI works with the proxy in its environment, and reaches the model through the endpoint.
#[test]
fn claude_code_works_behind_proxy_and_endpoint() {
    offline(async {
        for network in ["none", "public"] {
            check_claude_code(network).await;
        }
    });
}

async fn check_claude_code(network: &str) {
    let look = json!({"command": "env; echo looked", "description": "Look"});
    let script = Script::new()
        .when("look around", Reply::tool("Bash", look))
        .always("looked", Reply::text("I looked."));
    let fixture = Fixture::new(script).await;
    let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "look around"), ("NETWORK", network)]);
    fixture.wait_for_event("agent.completed").await;
    let isolation = fixture.wait_for_event("worker.isolation").await;
    assert_eq!(isolation["event_data"]["tier"], "namespaces", "the default: {isolation}");
    assert_eq!(worker.terminate().await, Some(0));
    let shown = fixture.model.until_prompted("looked").await.prompt;
    assert!(shown.contains("ANTHROPIC_API_KEY=sunaba-"), "{network}: {shown}");
    assert!(shown.contains("ANTHROPIC_BASE_URL=http://127.0.0.1:"), "{network}: {shown}");
    assert!(!shown.contains(fixture.model.url()) && !shown.contains("key-of-the-tests"), "{shown}");
    let requests = fixture.model.requests();
    let messages = requests.iter().filter(|request| request.path.starts_with("/v1/messages"));
    assert!(messages.clone().all(|request| request.key.as_deref() == Some("key-of-the-tests")));
    assert!(messages.count() >= 2, "{network}: {requests:?}");
}
