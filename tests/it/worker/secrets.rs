//! Secrets go where they belong and nowhere else.

use super::{Stage, files};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;

#[test]
fn secrets_are_in_no_event_no_log_and_no_process_list() {
    offline(async {
        // An agent that looks for them.
        let look =
            "env; cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '; git config --list; echo done looking";
        let script = Script::new()
            .when("look around", Reply::tool("Bash", json!({"command": look, "description": "Look"})))
            .always("", Reply::text("I have the key planted-anthropic-key-123456 now."));
        let stage = Stage::new(script).await;
        let planted = [
            ("GITHUB_TOKEN", "planted-github-token-123456"),
            ("ANTHROPIC_API_KEY", "planted-anthropic-key-123456"),
            ("OMOIOS_API_KEY", "planted-omoios-key-123456"),
        ];
        let mut variables = planted.to_vec();
        variables.extend([("TASK_DESCRIPTION", "look around"), ("LOG", "trace")]);
        let worker = stage.worker(&variables);
        stage.until_any("agent.completed").await;
        let mut secrets: Vec<&str> = planted.iter().map(|(_, secret)| *secret).collect();
        secrets.push(&stage.token);
        let log = serde_json::to_string(&stage.log().await).unwrap();
        assert!(log.contains("done looking"), "the agent has looked: {log}");
        let worker_log = std::fs::read_to_string(stage.home.home().join("worker.log")).unwrap();
        let started = stage.until_any("agent.started").await;
        let session = started["event_data"]["session_id"].as_str().unwrap().to_owned();
        assert_eq!(worker.terminate().await, Some(0));
        let path = format!("/api/v1/sandboxes/box/sessions/{session}/entries");
        let record = stage.plane.get(&path, super::OPERATOR).await.ok().to_string();
        assert!(record.contains("done looking"), "the record is there");
        let mut spool = String::new();
        for file in files(&stage.home.home().join("state/outbox")) {
            spool.push_str(&String::from_utf8_lossy(&std::fs::read(file).unwrap()));
        }
        for secret in secrets {
            for (place, text) in
                [("log", &log), ("worker's log", &worker_log), ("record", &record), ("spool", &spool)]
            {
                assert!(!text.contains(secret), "{secret} is in the {place}");
            }
        }
        assert!(log.contains("[redacted ANTHROPIC_API_KEY]"), "it says what was taken out");
        assert!(!log.contains("GITHUB_TOKEN="), "the agent does not even have it");
    });
}
