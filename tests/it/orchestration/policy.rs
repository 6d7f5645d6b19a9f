//! The operator's policy file reaches the workers of each project.

use super::PlaneProcess;
use serde_json::json;
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn project_receives_its_policy_and_no_other() {
    let folder = TempDir::new().unwrap();
    let shared = folder.path().canonicalize().unwrap().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("data"), "data-of-the-team").unwrap();
    let policy = json!({
        "maximum": {"filesystem": {"allowRead": [shared]}},
        "projects": {"default/web": {"filesystem": {"allowRead": [shared], "allowWrite": [shared]}}},
    });
    let file = folder.path().join("policy.json");
    std::fs::write(&file, policy.to_string()).unwrap();
    let plane = PlaneProcess::start(&["--policy", file.to_str().unwrap()]).await;
    let command = format!("cat {0}/data; touch {0}/new; echo tried", shared.display());
    let call =
        json!({"type": "tool_use", "name": "Bash", "input": {"command": command, "description": "Read"}});
    let agent = plane.write_script(&[call, json!({"type": "text", "text": "Done."})]);
    for (project, is_readable) in [("web", true), ("app", false)] {
        let ticket = plane.create_ticket(json!({"agent": agent, "project_id": project})).await;
        let task = plane.wait_for_status(&ticket, "completed").await;
        let log = json!(plane.events("sandboxes", task["sandbox_id"].as_str().unwrap()).await).to_string();
        assert!(log.contains("tried"), "{log}");
        assert_eq!(log.contains("data-of-the-team"), is_readable, "{project}: {log}");
    }
    assert!(!shared.join("new").exists(), "the maximum has no allowWrite");
}
