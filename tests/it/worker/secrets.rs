//! Secrets do not leak.

use super::{Fixture, files};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;

#[test]
fn secrets_never_appear_in_events_logs_or_the_spool() {
    offline(async {
        // The agent searches for secrets.
        let search =
            "env; cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '; git config --list; echo search finished";
        let script = Script::new()
            .when(
                "search for secrets",
                Reply::tool("Bash", json!({"command": search, "description": "Search"})),
            )
            .always("", Reply::text("I have the key planted-anthropic-key-123456 now."));
        let fixture = Fixture::new(script).await;
        let planted = [
            ("GITHUB_TOKEN", "planted-github-token-123456"),
            ("ANTHROPIC_API_KEY", "planted-anthropic-key-123456"),
            ("OMOIOS_API_KEY", "planted-omoios-key-123456"),
        ];
        let mut variables = planted.to_vec();
        variables.extend([("TASK_DESCRIPTION", "search for secrets"), ("LOG", "trace")]);
        let worker = fixture.start_worker(&variables);
        fixture.wait_for_event("agent.completed").await;
        let mut secrets: Vec<&str> = planted.iter().map(|(_, secret)| *secret).collect();
        secrets.push(&fixture.token);
        let log = serde_json::to_string(&fixture.log().await).unwrap();
        assert!(log.contains("search finished"), "the agent searched: {log}");
        let worker_log = std::fs::read_to_string(fixture.home.home().join("worker.log")).unwrap();
        let started = fixture.wait_for_event("agent.started").await;
        let session = started["event_data"]["session_id"].as_str().unwrap().to_owned();
        assert_eq!(worker.terminate().await, Some(0));
        let path = format!("/api/v1/sandboxes/box/sessions/{session}/entries");
        let transcript = fixture.plane.get(&path, super::OPERATOR).await.ok().to_string();
        assert!(transcript.contains("search finished"), "the transcript is stored");
        let mut spool = String::new();
        for file in files(&fixture.home.home().join("state/outbox")) {
            spool.push_str(&String::from_utf8_lossy(&std::fs::read(file).unwrap()));
        }
        for secret in secrets {
            for (place, text) in
                [("log", &log), ("worker's log", &worker_log), ("transcript", &transcript), ("spool", &spool)]
            {
                assert!(!text.contains(secret), "{secret} is in the {place}");
            }
        }
        assert!(log.contains("[redacted ANTHROPIC_API_KEY]"), "a redaction names the variable");
        assert!(!log.contains("GITHUB_TOKEN="), "the agent does not get the variable");
    });
}
