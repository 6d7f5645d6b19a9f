//! Configuration of the worker: `check` and `--help`.

use std::process::{Command, Output};

fn worker(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sunaba"));
    command.arg("worker").args(arguments).env_clear().envs(variables.iter().copied()).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn check_reports_every_invalid_setting_at_once() {
    let invalid = [
        ("SANDBOX_ID", "no spaces please"),
        ("CALLBACK_URL", "localhost:8000"),
        ("SOCKET_URL", "http://elsewhere"),
        ("AGENT", "gpt"),
        ("PERMISSION_MODE", "yolo"),
        ("MAX_TURNS", "many"),
        ("MAX_BUDGET_USD", "-1"),
        ("HEARTBEAT_INTERVAL", "0"),
        ("SPOOL_MAX_MB", "all of it"),
        ("BACKGROUND_WAIT_SECONDS", "ever"),
        ("PREVIEW_ENABLED", "perhaps"),
        ("EXIT_WHEN_DONE", "perhaps"),
        ("CONTINUOUS_MODE", "true"),
        ("MAX_ITERATIONS", "0"),
        ("MAX_TOTAL_COST_USD", "free"),
        ("RESUME_SESSION_ID", "the last one"),
        ("TASK_DATA_BASE64", "%%%"),
        ("REPOSITORY_URL", "https://x:planted-in-the-url@github.com/a/b"),
        ("REQUIRE_TESTS", "true"),
    ];
    let checked = worker(&["check"], &invalid);
    assert_eq!(checked.status.code(), Some(2));
    let output = printed(&checked);
    for (variable, _) in invalid.iter().filter(|(variable, _)| *variable != "CONTINUOUS_MODE") {
        assert!(output.contains(&format!("error: {variable}: ")), "{variable} is missing in\n{output}");
    }
    assert!(!output.contains("planted"), "{output}");
    // The worker does not start, and prints the same errors.
    let run = worker(&[], &invalid);
    assert_eq!(run.status.code(), Some(2));
    assert_eq!(printed(&run).lines().count(), output.lines().filter(|line| line.contains(": ")).count());
}

#[test]
fn check_prints_valid_settings_without_secrets() {
    let valid = [
        ("SANDBOX_ID", "demo"),
        ("SANDBOX_TOKEN", "planted-sandbox-token"),
        ("CALLBACK_URL", "https://plane.example"),
        ("AGENT", "scripted:hello"),
        ("GITHUB_REPO", "acme/shop"),
        ("GITHUB_TOKEN", "planted-github-token"),
        ("ANTHROPIC_API_KEY", "planted-model-key"),
        ("TASK_DESCRIPTION", "Say hello"),
    ];
    let checked = worker(&["check"], &valid);
    let output = printed(&checked);
    assert_eq!(checked.status.code(), Some(0), "{output}");
    for expected in ["demo", "https://plane.example", "hello", "github.com/acme/shop", "Say hello"] {
        assert!(output.contains(expected), "{expected} is missing in\n{output}");
    }
    assert!(!output.contains("planted"), "{output}");
    let absent = worker(&["check"], &[("SANDBOX_ID", "demo"), ("CLAUDE_PATH", "/nowhere/claude")]);
    assert_eq!(absent.status.code(), Some(2), "a missing agent binary is an error");
    assert!(printed(&absent).contains("error: CLAUDE_PATH: "), "{}", printed(&absent));
}

#[test]
fn help_lists_the_documented_variables() {
    let help = worker(&["--help"], &[]);
    assert_eq!(help.status.code(), Some(0));
    let documented = include_str!("../../../docs/worker.md");
    let table =
        documented.split("## Configuration").nth(1).unwrap().split("**Permissions.**").next().unwrap();
    let help = printed(&help);
    for variable in
        ["SANDBOX_ID", "CALLBACK_URL", "AGENT", "TASK_DESCRIPTION", "GITHUB_TOKEN", "EXIT_WHEN_DONE"]
    {
        assert!(help.contains(variable), "{variable} is missing in\n{help}");
        assert!(table.contains(&format!("`{variable}`")), "{variable} is missing in docs/worker.md");
    }
}
