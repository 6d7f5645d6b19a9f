//! Secrets do not leak.

use super::{Fixture, command, files, git, text, turn_end};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use kit::git_server::Server;
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
        for request in
            fixture.model.requests().iter().filter(|request| request.path.starts_with("/v1/messages"))
        {
            let key = request.key.as_deref();
            assert_eq!(
                key,
                Some("planted-anthropic-key-123456"),
                "the worker puts the key in: {}",
                request.path
            );
        }
        assert!(!log.contains("GITHUB_TOKEN="), "the agent does not get the variable");
    });
}

/// The agent of this test is hostile: it looks for the operator's keys everywhere, asks the endpoints for them, and writes
/// what it finds into its workspace, so that redaction hides nothing. (The environment of the worker itself is not
/// searched: keeping that from the agent is the isolation's part.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_finds_no_key_of_the_operator_in_any_encoding() {
    let remote = tempfile::TempDir::new().unwrap();
    let seed = remote.path().join("seed");
    std::fs::create_dir(&seed).unwrap();
    git(&seed, &["init", "-q"]);
    git(&seed, &["commit", "-q", "--allow-empty", "-m", "begin"]);
    git(remote.path(), &["clone", "-q", "--bare", "seed", "repo.git"]);
    let token = "planted-github-token-123456";
    let server = Server::start(remote.path(), &format!("x-access-token:{token}")).await;
    let fixture = Fixture::new(Script::new()).await;
    let planted = [
        ("ANTHROPIC_API_KEY", "planted-anthropic-key-123456"),
        ("ANTHROPIC_AUTH_TOKEN", "planted-anthropic-token-123456"),
        ("CLAUDE_CODE_OAUTH_TOKEN", "planted-oauth-token-123456"),
        ("OPENAI_API_KEY", "planted-openai-key-123456"),
        ("LLM_API_KEY", "planted-llm-key-123456"),
        ("GITHUB_TOKEN", token),
    ];
    let search = r#"{ env; cat /proc/self/environ; git config --list --show-origin; git remote -v
        find "$HOME" "$TMPDIR" . -type f -not -name found -not -name worker.log -exec cat {} +
        for url in "$ANTHROPIC_BASE_URL" "$OPENAI_BASE_URL" "$LLM_BASE_URL" "${ANTHROPIC_BASE_URL%/*}/git"; do
          for path in "" / /v1/messages /v1/models /info/refs?service=git-upload-pack /../ /%2e%2e/; do
            curl -sS -i --max-time 20 --path-as-is "$url$path" -H "X-Api-Key: $ANTHROPIC_API_KEY"
            curl -sS -i --max-time 20 "$url$path" -H "Authorization: Bearer $OPENAI_API_KEY"
          done
        done
        GIT_TRACE_CURL=1 GIT_TRACE_REDACT=0 GIT_CURL_VERBOSE=1 git fetch origin
        printf 'protocol=http\nhost=127.0.0.1\n\n' | git credential fill; } > found 2>&1; echo searched"#;
    let agent = fixture.script(&[command(search), text("Done.")]);
    let url = server.url("repo.git");
    let mut variables = planted.to_vec();
    let closed = format!("http://{}/v1", server.host());
    variables.extend([
        ("AGENT", agent.as_str()),
        ("TASK_DESCRIPTION", "Search"),
        ("REPOSITORY_URL", &url),
        ("OPENAI_BASE_URL", &closed),
        ("LLM_BASE_URL", &closed),
        ("LOG", "trace"),
    ]);
    let host = server.host();
    variables.push(("GITHUB_HOST", &host));
    let worker = fixture.start_worker(&variables);
    fixture.wait_for_event("agent.completed").await;
    assert_eq!(worker.terminate().await, Some(0));
    let found = std::fs::read(fixture.home.workspace.join("found")).unwrap();
    let found = String::from_utf8_lossy(&found).into_owned();
    assert!(found.contains("ANTHROPIC_API_KEY=sunaba-"), "the agent has worthless keys: {found}");
    assert!(found.contains("HTTP/1.1 401") && found.contains("git-upload-pack"), "it asked: {found}");
    let log = serde_json::to_string(&fixture.log().await).unwrap();
    assert!(log.contains("searched"), "{log}");
    let mut spool = String::new();
    for file in files(&fixture.home.home()) {
        spool.push_str(&String::from_utf8_lossy(&std::fs::read(file).unwrap()));
    }
    for (variable, secret) in planted {
        for form in forms(secret) {
            for (place, text) in [("the agent's search", &found), ("the log", &log), ("files", &spool)] {
                assert!(!text.contains(&form), "{variable} is in {place} as {form}");
            }
        }
    }
}

/// A secret as it is, reversed, in hexadecimal, and in base64 at every alignment.
fn forms(secret: &str) -> Vec<String> {
    let reversed: String = secret.chars().rev().collect();
    let hex = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms =
        vec![secret.to_owned(), reversed, hex, STANDARD.encode(format!("x-access-token:{secret}"))];
    for skipped in 0..3 {
        let encoded = STANDARD_NO_PAD.encode(&secret[skipped..]);
        // The last characters depend on what follows.
        forms.push(encoded[..encoded.len() - 4].to_owned());
    }
    forms
}

/// Finds every variable and file that an agent, its hooks and its tests can see. Reversed, because the worker redacts what
/// it knows.
const SEARCH: &str = "{ env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; \
    cat ../home/state/*.json ../home/state/*/* ~/../* ../variables ../variables.copy; } 2>/dev/null </dev/null | tr '\\0' '\\n' | rev";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_its_hooks_and_its_tests_find_no_secret_of_the_worker() {
    for isolation in ["namespaces", "landlock"] {
        let fixture = Fixture::new(Script::new()).await;
        let workspace = &fixture.home.workspace;
        let git = |arguments: &[&str]| {
            let status = std::process::Command::new("git").args(arguments).current_dir(workspace).status();
            assert!(status.unwrap().success(), "git {arguments:?}");
        };
        git(&["init", "--quiet"]);
        // The worker runs git in the workspace: what the agent configured must not run as the worker.
        let hook = workspace.join("hook");
        std::fs::write(&hook, format!("#!/bin/sh\n{SEARCH} >>{}/by-hook\n", workspace.display())).unwrap();
        std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        git(&["config", "core.fsmonitor", hook.to_str().unwrap()]);
        let search = json!({"type": "tool_use", "name": "Bash",
            "input": {"command": format!("{SEARCH} >by-agent; echo {isolation} >done")}});
        let agent = fixture.script(&[search, turn_end()]);
        let planted = [
            ("GITHUB_TOKEN", "planted-github-token-123456"),
            ("OMOIOS_API_KEY", "planted-omoios-key-123456"),
            ("AWS_SECRET_ACCESS_KEY", "planted-key-of-the-user-123456"),
        ];
        let tests = format!("{SEARCH} >by-tests");
        let mut variables = planted.to_vec();
        variables.extend([
            ("AGENT", agent.as_str()),
            ("TASK_DESCRIPTION", "Search for secrets"),
            ("ISOLATION", isolation),
            ("TEST_COMMAND", &tests),
        ]);
        let worker = fixture.start_worker(&variables);
        fixture.wait_for_event("agent.completed").await;
        let reported = fixture.wait_for_event("worker.isolation").await;
        assert_eq!(reported["event_data"]["tier"], isolation);
        let mut secrets: Vec<&str> = planted.iter().map(|(_, secret)| *secret).collect();
        secrets.push(&fixture.token);
        for found in ["by-agent", "by-tests", "by-hook"] {
            let found_by = std::fs::read_to_string(workspace.join(found)).unwrap_or_default();
            assert!(found_by.contains("=HTAP\n"), "{isolation}: the search ran {found}: {found_by}");
            for secret in &secrets {
                let reversed: String = secret.chars().rev().collect();
                assert!(!found_by.contains(&reversed), "{isolation}: {secret} was found {found}");
            }
        }
        assert_eq!(worker.terminate().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_takes_secrets_from_a_file_and_deletes_it() {
    let fixture = Fixture::new(Script::new()).await;
    let file = fixture.home.home().join("variables");
    let variables = json!({"SANDBOX_TOKEN": fixture.token, "DATABASE_URL": "of-the-task"});
    std::fs::write(&file, variables.to_string()).unwrap();
    let show =
        json!({"type": "tool_use", "name": "Bash", "input": {"command": "echo database $DATABASE_URL"}});
    let agent = fixture.script(&[show, turn_end()]);
    let worker = fixture.start_worker(&[
        ("SANDBOX_TOKEN", ""),
        ("SECRETS_FILE", file.to_str().unwrap()),
        ("AGENT", &agent),
        ("TASK_DESCRIPTION", "Show the database"),
    ]);
    fixture.wait_for_event("agent.completed").await;
    assert!(!file.exists());
    let log = serde_json::to_string(&fixture.log().await).unwrap();
    assert!(log.contains("database of-the-task"), "the agent gets variables of the task: {log}");
    assert_eq!(worker.terminate().await, Some(0));
}
