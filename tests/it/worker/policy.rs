//! The policy of a sandbox, enforced by its worker.

use super::{Fixture, command, text};
use kit::model::Script;
use serde_json::json;
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policy_narrows_network_files_and_limits_of_the_agent() {
    for tier in ["namespaces", "landlock"] {
        check(tier).await;
    }
}

async fn check(tier: &str) {
    let fixture = Fixture::new(Script::new()).await;
    let registry = fixture.model.url().trim_start_matches("http://").to_owned();
    let shared = TempDir::new().unwrap();
    let shared = shared.path().canonicalize().unwrap();
    for (path, content) in
        [("read/data", "data-of-the-team"), ("read/key", "planted-key"), ("write/old", "old")]
    {
        std::fs::create_dir_all(shared.join(path).parent().unwrap()).unwrap();
        std::fs::write(shared.join(path), content).unwrap();
    }
    let at = shared.display();
    let policy = json!({
        "network": {"allowedDomains": ["a.example"], "allowedPrivateHosts": [registry]},
        "filesystem": {
            "allowRead": [format!("{at}/read")],
            "denyRead": [format!("{at}/read/key")],
            "allowWrite": [format!("{at}/write")],
        },
        "limits": {"fileMb": 1},
    });
    let tries = [
        format!("curl -sS --noproxy '' -o /dev/null -w 'registry %{{http_code}}\\n' http://{registry}/"),
        format!(
            "curl -sS --noproxy '' -o /dev/null -w 'plane %{{http_code}}\\n' {}/health",
            fixture.plane.url
        ),
        format!("cat {at}/read/data; cat {at}/read/key; echo new > {at}/write/new; echo new > {at}/read/new"),
        "dd if=/dev/zero of=large bs=1M count=2; echo size $(stat -c %s large)".to_owned(),
    ];
    let agent = fixture.script(&[command(&tries.join("; ")), text("Done.")]);
    let policy = policy.to_string();
    let variables = [("AGENT", agent.as_str()), ("POLICY", policy.as_str()), ("ISOLATION", tier)];
    let worker = fixture.start_worker(&[&variables[..], &[("TASK_DESCRIPTION", "Try")]].concat());
    fixture.wait_for_event("agent.completed").await;
    assert_eq!(worker.terminate().await, Some(0));
    let log = serde_json::to_string(&fixture.log().await).unwrap();
    for expected in ["registry 200", "plane 403", "data-of-the-team", "size 1048576"] {
        assert!(log.contains(expected), "{tier}: {expected}: {log}");
    }
    assert!(!log.contains("planted-key"), "{tier}: {log}");
    assert!(shared.join("write/new").exists() && !shared.join("read/new").exists(), "{tier}: {log}");
}
