//! Settings in a repository can run programs: they apply only if the policy allows it.

use super::{Fixture, Worker};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;
use std::path::Path;

const ALLOWED: &str = r#"{"repository": {"allowSettings": true}}"#;

/// A repository whose settings start programs, each of which writes a file.
fn write_repository(folder: &Path) {
    std::fs::create_dir_all(folder.join(".claude/commands")).unwrap();
    let hook = |name: &str| json!([{"hooks": [{"type": "command", "command": format!("touch {name}")}]}]);
    let settings = json!({
        "hooks": {"SessionStart": hook("hook-ran"), "UserPromptSubmit": hook("hook-ran")},
        "enableAllProjectMcpServers": true,
    });
    let local = json!({"hooks": {"SessionStart": hook("local-hook-ran")}});
    let servers = json!({"mcpServers": {"planted": {"command": "sh", "args": ["-c", "touch server-ran"]}}});
    for (name, text) in [
        (".claude/settings.json", settings.to_string()),
        (".claude/settings.local.json", local.to_string()),
        (".mcp.json", servers.to_string()),
        ("CLAUDE.md", "Text of CLAUDE.md: use tabs.".to_owned()),
        ("AGENTS.md", "Text of AGENTS.md: run the tests.".to_owned()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// Runs the real CLI in such a repository until its task is done, and returns everything that it sent to the model.
async fn run(variables: &[(&str, &str)]) -> (Fixture, String) {
    let script = Script::new().when("say hello", Reply::text("Hello."));
    let fixture = Fixture::new(script).await;
    write_repository(&fixture.home.workspace);
    let all = [&[("TASK_DESCRIPTION", "say hello"), ("SETTING_SOURCES", "")][..], variables].concat();
    let worker: Worker = fixture.start_worker(&all);
    fixture.wait_for_event("agent.completed").await;
    assert_eq!(worker.terminate().await, Some(0));
    let request = fixture.model.until_prompted("say hello").await;
    (fixture, request.body.to_string())
}

fn exists(fixture: &Fixture, name: &str) -> bool {
    fixture.home.workspace.join(name).exists()
}

#[test]
fn settings_of_a_repository_start_no_program_and_its_instructions_are_text() {
    offline(async {
        for sources in ["", "user,project,local"] {
            let (fixture, request) = run(&[("SETTING_SOURCES", sources)]).await;
            for file in ["hook-ran", "local-hook-ran", "server-ran"] {
                assert!(!exists(&fixture, file), "{file} with SETTING_SOURCES={sources:?}");
            }
            for text in ["Text of CLAUDE.md: use tabs.", "Text of AGENTS.md: run the tests."] {
                assert_eq!(request.matches(text).count(), 1, "{text}: {request}");
            }
            assert!(request.contains("written by the authors of the repository"), "{request}");
        }
    });
}

#[test]
fn policy_of_the_project_can_allow_settings_of_the_repository() {
    offline(async {
        let (fixture, request) = run(&[("POLICY", ALLOWED)]).await;
        for file in ["hook-ran", "local-hook-ran", "server-ran"] {
            assert!(exists(&fixture, file), "{file}: {}", fixture.worker_log());
        }
        assert!(request.contains("Text of CLAUDE.md: use tabs."), "the CLI reads it: {request}");
        assert!(!request.contains("written by the authors of the repository"), "{request}");
    });
}
