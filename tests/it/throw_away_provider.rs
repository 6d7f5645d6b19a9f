//! A provider that is not part of the product, set up by the local host from its registration.

#[path = "../../shared/providers/tests/it/throw_away/mod.rs"]
mod throw_away;

use crate::support::{OPERATOR, TestPlane};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_sets_up_a_throw_away_provider_and_completes_a_task_with_it() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let worker = format!(
        "#!/bin/sh\nexport PATH=/usr/local/bin:/usr/bin:/bin\nexec '{}' worker\n",
        env!("CARGO_BIN_EXE_sunaba")
    );
    fs::write(path("worker"), worker).unwrap();
    fs::set_permissions(path("worker"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(path("script.jsonl"), json!({"type": "text", "text": "Hello."}).to_string()).unwrap();
    let settings = format!(
        "provider: throwaway\nthrowaway_folder: {}\nworker_source: {}\n",
        path("sandboxes"),
        path("worker")
    );
    fs::write(path("settings.yaml"), settings).unwrap();
    let plane = TestPlane::start_with(|dev| {
        dev.provider_kinds = &[&throw_away::THROW_AWAY];
        dev.config = Some(path("settings.yaml").into());
        dev.sandboxes.agents = Some(format!("hello=scripted:{}", path("script.jsonl")));
    })
    .await;
    assert!(
        plane.running.notices.iter().any(|notice| notice.starts_with("Sandbox provider: throwaway.")),
        "{:?}",
        plane.running.notices
    );

    let task = json!({"title": "Say hello", "agent": "hello"});
    let created = plane.post("/api/v1/tasks", OPERATOR, task).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let task_path = format!("/api/v1/tasks/{}", created.body["id"].as_str().unwrap());
    let mut task = created.body;
    let completed = async {
        while task["status"] != "completed" {
            sleep(POLL_INTERVAL).await;
            task = plane.get(&task_path, OPERATOR).await.ok();
        }
    };
    let completed = timeout(TIMEOUT, completed).await;
    assert!(completed.is_ok(), "the task is not completed: {task}");
    let log = plane.log(task["sandbox_id"].as_str().unwrap()).await;
    let spawned = log.iter().find(|event| event["event_type"] == "sandbox.spawned").unwrap();
    assert_eq!(spawned["event_data"]["provider"], "throwaway", "{spawned}");
}
