//! From a ticket to a merged branch, in a repository of this machine: a real plane, real workers and real git.

use super::{PlaneProcess, SLOW_COMMAND, filter_types, slow_script};
use kit::git::Repository;
use kit::github::{GitHub, Token};
use reqwest::Method;
use serde_json::{Value, json};

const TOKEN: &str = "planted-token-of-github";

fn write(file: &str, content: &str) -> Value {
    json!({"type": "tool_use", "name": "Write", "input": {"file_path": file, "content": content}})
}

fn command(command: &str) -> Value {
    json!({"type": "tool_use", "name": "Bash", "input": {"command": command}})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Creates a ticket for the repository, with an agent that plays these steps. Returns its id.
async fn create_ticket(
    plane: &PlaneProcess,
    repository: &Repository,
    title: &str,
    steps: &[Value],
) -> String {
    let agent = plane.write_script(steps);
    let fields = json!({
        "agent": agent, "title": title, "description": title, "repository": repository.path(), "max_retries": 0,
    });
    plane.create_ticket(fields).await
}

fn branch_of(task: &Value) -> &str {
    task["branch"]["name"].as_str().unwrap_or_else(|| panic!("{task}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_a_ticket_reaches_the_base_of_its_repository() {
    let (plane, repository) = (PlaneProcess::start(&[]).await, Repository::with_one_commit());
    let steps = [
        write("health.txt", "ok\n"),
        command("git add -A && git commit -qm 'Add the health check'"),
        // Not committed by the agent.
        write("notes.txt", "remember\n"),
        text("It is added."),
    ];
    let ticket = create_ticket(&plane, &repository, "Add a health check", &steps).await;
    let task = plane.wait_for_status(&ticket, "completed").await;

    let branch = branch_of(&task).to_owned();
    assert!(branch.starts_with("feature/") && branch.ends_with("-add-a-health-check"), "{branch}");
    assert_eq!(repository.branches(), [branch.as_str(), "main"], "no branch but that of the task is written");
    assert_eq!(repository.file_on(&branch, "health.txt").as_deref(), Some("ok\n"));
    assert_eq!(repository.file_on(&branch, "notes.txt").as_deref(), Some("remember\n"));
    let head = repository.git(&["rev-parse", &branch]);
    let result = &task["result"];
    assert_eq!(
        json!([result["branch_name"], result["commit"], result["code_pushed"], result["files_changed"]]),
        json!([branch, head, true, 2]),
        "{result}"
    );
    assert_eq!((&result["pr_created"], &result["pr_number"]), (&json!(true), &json!(1)), "{result}");
    let id = task["id"].as_str().unwrap();
    let order = ["created", "branch_created", "started", "completing", "pull_request_opened", "completed"]
        .map(|name| format!("task.{name}"));
    let order: Vec<&str> = order.iter().map(String::as_str).collect();
    assert_eq!(filter_types(&plane.event_types("tasks", id).await, &order), order);

    let diff = plane.get(&format!("/api/v1/tasks/{id}/diff")).await;
    let paths: Vec<&Value> = diff["files"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["health.txt", "notes.txt"], "{diff}");
    let pull_request = plane.get(&format!("/api/v1/tasks/{id}/pull-request")).await;
    assert_eq!(
        json!([pull_request["state"], pull_request["mergeable"], pull_request["commit"]]),
        json!(["open", true, head]),
    );

    let merged = plane.post(&format!("/api/v1/tasks/{id}/merge"), json!({"commit": head})).await;
    assert_eq!(merged["branch_deleted"], true, "{merged}");
    assert_eq!(repository.branches(), ["main"]);
    assert_eq!(merged["commit"], repository.git(&["rev-parse", "main"]), "{merged}");
    // The user's working tree has the work.
    assert_eq!(std::fs::read_to_string(repository.path().join("health.txt")).unwrap(), "ok\n");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    let again = plane.post(&format!("/api/v1/tasks/{id}/merge"), json!({})).await;
    assert_eq!(again["commit"], merged["commit"], "a repeated merge changes nothing");
    assert_eq!(plane.get(&format!("/api/v1/tasks/{id}/pull-request")).await["state"], "merged");
    assert!(plane.event_types("tasks", id).await.contains(&"task.merged".to_owned()));
    assert_eq!(plane.get(&format!("/api/v1/tasks/{id}/diff")).await["files"], diff["files"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicting_branches_are_never_merged_silently() {
    let (plane, repository) = (PlaneProcess::start(&[]).await, Repository::with_one_commit());
    let mut ids = Vec::new();
    for content in ["one\n", "two\n"] {
        let steps = [write("README.md", content), text("It is changed.")];
        let ticket = create_ticket(&plane, &repository, "Change the readme", &steps).await;
        let task = plane.wait_for_status(&ticket, "completed").await;
        ids.push(task["id"].as_str().unwrap().to_owned());
    }
    plane.post(&format!("/api/v1/tasks/{}/merge", ids[0]), json!({})).await;
    let before = repository.git(&["rev-parse", "main"]);
    let path = format!("/api/v1/tasks/{}/merge", ids[1]);
    let refused = plane.request(Method::POST, &path, Some(json!({}))).await;
    assert_eq!(
        (refused.status, &refused.body["reason"]),
        (409, &json!("merge_conflict")),
        "{}",
        refused.body
    );
    assert!(refused.body["detail"].as_str().unwrap().contains("README.md"), "{}", refused.body);
    assert_eq!(repository.git(&["rev-parse", "main"]), before);
    let pull_request = plane.get(&format!("/api/v1/tasks/{}/pull-request", ids[1])).await;
    assert_eq!(json!([pull_request["state"], pull_request["mergeable"]]), json!(["open", false]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_work_stays_on_its_branch() {
    let (plane, repository) = (PlaneProcess::start(&[]).await, Repository::with_one_commit());
    let mut steps = vec![write("half.txt", "half\n")];
    steps.extend(slow_script());
    let ticket = create_ticket(&plane, &repository, "Try it", &steps).await;
    let task = plane.wait_for_status(&ticket, "running").await;
    let sandbox = task["sandbox_id"].as_str().unwrap().to_owned();
    plane.wait_for_command(&sandbox, SLOW_COMMAND).await;
    plane.post(&format!("/api/v1/tasks/{}/cancel", task["id"].as_str().unwrap()), json!({})).await;
    plane.wait_until_released(&sandbox).await;
    let log = plane.get(&format!("/api/v1/sandboxes/{sandbox}/logs")).await;
    let saved = repository.file_on(branch_of(&task), "half.txt");
    assert_eq!(saved.as_deref(), Some("half\n"), "{log:#}");
    assert_eq!(repository.file_on("main", "half.txt"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_without_changes_completes_without_a_pull_request() {
    let (plane, repository) = (PlaneProcess::start(&[]).await, Repository::with_one_commit());
    let ticket = create_ticket(&plane, &repository, "Explain it", &[text("It counts words.")]).await;
    let task = plane.wait_for_status(&ticket, "completed").await;
    let result = &task["result"];
    assert_eq!(json!([result["code_pushed"], result["pr_created"]]), json!([false, false]), "{result}");
    assert_eq!(task["branch"]["pull_request"], Value::Null);
    let merge = format!("/api/v1/tasks/{}/merge", task["id"].as_str().unwrap());
    assert_eq!(plane.request(Method::POST, &merge, None).await.body["code"], "no_pull_request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repository_that_cannot_be_used_costs_no_sandbox() {
    let plane = PlaneProcess::start(&[]).await;
    let empty = tempfile::TempDir::new().unwrap();
    let ticket = plane.create_ticket(json!({"repository": empty.path(), "max_retries": 0})).await;
    let task = plane.wait_for_status(&ticket, "failed").await;
    let error = task["error_message"].as_str().unwrap();
    assert!(error.contains("Check the address of the repository"), "{error}");
    let types = plane.event_types("sandboxes", task["sandbox_id"].as_str().unwrap()).await;
    assert!(!types.contains(&"sandbox.creating".to_owned()), "{types:?}");
}

/// The same way with GitHub: the worker pushes with a token that it gets for this, and the agent never sees it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticket_ends_with_a_merged_pull_request_at_github() {
    let github = GitHub::start(kit::github::Options::default()).await;
    github.allow(Token::new(TOKEN));
    let directory = github.create_repository("acme/shop");
    let seed = Repository::with_one_commit();
    seed.git(&["push", "--quiet", directory.to_str().unwrap(), "main"]);
    let folder = tempfile::TempDir::new().unwrap();
    let variables = folder.path().join("variables.json");
    let content = json!({"GITHUB_TOKEN": TOKEN, "GITHUB_HOST": github.host()});
    std::fs::write(&variables, content.to_string()).unwrap();
    std::fs::set_permissions(&variables, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let plane = PlaneProcess::start(&["--worker-variables", variables.to_str().unwrap()]).await;
    let agent = plane.write_script(&[
        write("health.txt", "ok\n"),
        command("git add -A && git commit -qm 'Add the health check'"),
        command("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; git config --list; git push origin HEAD:main"),
        text("It is added."),
    ]);
    let fields = json!({
        "agent": agent, "title": "Add a health check", "repository": github.repository_url("acme/shop"), "max_retries": 0,
    });
    let ticket = plane.create_ticket(fields).await;
    let task = plane.wait_for_status(&ticket, "completed").await;
    let (id, branch) = (task["id"].as_str().unwrap(), branch_of(&task));
    let git = |arguments: &[&str]| kit::git::git(&directory, arguments);
    assert_eq!(git(&["show", &format!("{branch}:health.txt")]), "ok");
    assert_eq!(git(&["log", "--format=%s", "main"]), "begin", "the agent cannot push to the base");
    let proposed = github.pull_requests("acme/shop");
    assert_eq!(proposed.len(), 1, "{proposed:?}");
    let body = proposed[0]["body"].as_str().unwrap();
    assert!(body.contains("> It is added.") && body.contains("`health.txt`"), "{body}");
    assert_eq!(task["result"]["pr_url"], proposed[0]["html_url"], "{task}");

    let sandbox = task["sandbox_id"].as_str().unwrap();
    let log = plane.events("sandboxes", sandbox).await;
    assert!(!json!(log).to_string().contains(TOKEN), "the agent finds the token");
    let rejected = log.iter().filter(|event| event["event_type"] == "workspace.push_rejected").count();
    assert_eq!(rejected, 1, "{log:#?}");

    plane.post(&format!("/api/v1/tasks/{id}/merge"), json!({})).await;
    assert_eq!(git(&["show", "main:health.txt"]), "ok");
    assert_eq!(git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]), "main");
}
