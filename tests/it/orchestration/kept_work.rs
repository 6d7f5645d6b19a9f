//! Work that no code host has outlives its sandbox: real workers upload it before the sandbox is removed.

use super::{PlaneProcess, SLOW_COMMAND};
use crate::support::OPERATOR;
use kit::git::Repository;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

fn write(file: &str, content: &str) -> Value {
    json!({"type": "tool_use", "name": "Write", "input": {"file_path": file, "content": content}})
}

fn command(command: &str) -> Value {
    json!({"type": "tool_use", "name": "Bash", "input": {"command": command, "timeout": 400_000}})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

impl PlaneProcess {
    async fn start_task(&self, fields: Value, steps: &[Value]) -> String {
        let mut body = json!({"agent": self.write_script(steps), "max_retries": 0});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.create_ticket(body).await
    }

    /// Runs `sunaba download` in a new directory, and returns the directory.
    async fn download(&self, task: &str, arguments: &[&str]) -> PathBuf {
        let directory = self.folder.path().join(format!("download{}", arguments.concat()));
        std::fs::create_dir(&directory).unwrap();
        let mut sunaba = tokio::process::Command::new(env!("CARGO_BIN_EXE_sunaba"));
        sunaba.args(["download", task, "--url", &self.url, "--token", OPERATOR]).args(arguments);
        let output = sunaba.current_dir(&directory).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        directory
    }
}

fn run(directory: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn read(directory: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(directory.join(name)).ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workspace_without_a_repository_is_downloaded_after_its_sandbox_is_gone() {
    let plane = PlaneProcess::start(&[]).await;
    let secret = plane.folder.path().join("plane.log");
    let hostile = format!(
        "mkdir -p src node_modules/a; echo 'fn main() {{}}' > src/main.rs; ln -s {} leak; mkfifo pipe; \
         printf x > \"$(printf 'new\\nline')\"; truncate -s 300M sparse; \
         echo x > node_modules/a/index.js; git init -q inner; echo inner > inner/file; echo done",
        secret.display()
    );
    let steps = [write("notes.txt", "remember\n"), command(&hostile), text("It is done.")];
    let ticket = plane.start_task(json!({}), &steps).await;
    let task = plane.wait_for_status(&ticket, "completed").await;
    let (id, sandbox) = (task["id"].as_str().unwrap(), task["sandbox_id"].as_str().unwrap());
    plane.wait_until_released(sandbox).await;
    plane.check_removed(sandbox);

    let kept = plane.get(&format!("/api/v1/tasks/{id}/workspace/files")).await;
    let formats: Vec<&Value> = kept["files"].as_array().unwrap().iter().map(|file| &file["format"]).collect();
    assert_eq!(formats, ["archive", "patch"], "{kept}");
    let mut left_out: Vec<&str> =
        kept["left_out"].as_array().unwrap().iter().map(|part| part["path"].as_str().unwrap()).collect();
    left_out.sort_unstable();
    assert_eq!(left_out, ["inner/.git", "leak", "sparse"], "{kept}");
    assert!(plane.event_types("sandboxes", sandbox).await.contains(&"workspace.kept".to_owned()));

    let directory = plane.download(id, &[]).await;
    run(&directory, "tar", &["--zstd", "-xf", &format!("{id}.tar.zst")]);
    let workspace = directory.join("workspace");
    assert_eq!(read(&workspace, "notes.txt").as_deref(), Some("remember\n"));
    assert_eq!(read(&workspace, "src/main.rs").as_deref(), Some("fn main() {}\n"));
    assert_eq!(read(&workspace, "new\nline").as_deref(), Some("x"));
    assert_eq!(read(&workspace, "inner/file").as_deref(), Some("inner\n"));
    for missing in ["leak", "pipe", "sparse", "node_modules", "inner/.git", ".git"] {
        assert!(!workspace.join(missing).exists(), "{missing}");
    }
    let directory = plane.download(id, &["--patch"]).await;
    run(&directory, "git", &["apply", &format!("{id}.patch")]);
    assert_eq!(read(&directory, "src/main.rs").as_deref(), Some("fn main() {}\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_a_terminated_sandbox_is_kept_before_it_is_removed() {
    let plane = PlaneProcess::start(&[]).await;
    let steps = [write("half.txt", "half of it\n"), command(SLOW_COMMAND), text("Done.")];
    let ticket = plane.start_task(json!({}), &steps).await;
    let task = plane.wait_for_status(&ticket, "running").await;
    let (id, sandbox) = (task["id"].as_str().unwrap(), task["sandbox_id"].as_str().unwrap());
    plane.wait_for_command(sandbox, SLOW_COMMAND).await;
    plane.request(reqwest::Method::DELETE, &format!("/api/v1/sandboxes/{sandbox}"), None).await.ok();
    plane.wait_until_released(sandbox).await;
    plane.check_removed(sandbox);
    let directory = plane.download(id, &[]).await;
    run(&directory, "tar", &["--zstd", "-xf", &format!("{id}.tar.zst")]);
    assert_eq!(read(&directory.join("workspace"), "half.txt").as_deref(), Some("half of it\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_the_host_refuses_are_downloaded_as_a_bundle() {
    let (plane, repository) = (PlaneProcess::start(&[]).await, Repository::with_one_commit());
    // The host accepts nothing of this size.
    repository.git(&["config", "receive.maxInputSize", "1"]);
    let steps = [
        write("feature.txt", "it works\n"),
        command("git add -A && git commit -qm 'Add the feature'"),
        text("It is added."),
    ];
    let ticket = plane.start_task(json!({"repository": repository.path()}), &steps).await;
    let task = plane.wait_for_status(&ticket, "failed").await;
    let (id, branch) = (task["id"].as_str().unwrap(), task["branch"]["name"].as_str().unwrap());
    let error = task["error_message"].as_str().unwrap();
    assert!(error.contains(&format!("`sunaba download {id}`")), "{error}");
    assert_eq!(repository.file_on(branch, "feature.txt"), None);
    plane.wait_until_released(task["sandbox_id"].as_str().unwrap()).await;

    let directory = plane.download(id, &[]).await;
    let bundle = directory.join(format!("{id}.bundle"));
    run(repository.path(), "git", &["fetch", "-q", bundle.to_str().unwrap(), branch]);
    assert_eq!(run(repository.path(), "git", &["show", "FETCH_HEAD:feature.txt"]), "it works\n");
    let directory = plane.download(id, &["--patch"]).await;
    run(repository.path(), "git", &["apply", directory.join(format!("{id}.patch")).to_str().unwrap()]);
    assert_eq!(read(repository.path(), "feature.txt").as_deref(), Some("it works\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repositories_in_the_workspace_reach_the_branch_or_the_archive() {
    let (plane, repository) = (PlaneProcess::start(&[]).await, Repository::with_one_commit());
    let steps = [
        command(
            "git init -q own && echo own > own/file && git -C own add -A && \
             git -C own -c user.name=a -c user.email=a@host.invalid commit -qm own && \
             git init -q copy && echo copy > copy/file && git -C copy remote add origin https://host.invalid/x && echo done",
        ),
        text("It is done."),
    ];
    let ticket = plane.start_task(json!({"repository": repository.path()}), &steps).await;
    let task = plane.wait_for_status(&ticket, "completed").await;
    let (id, branch) = (task["id"].as_str().unwrap(), task["branch"]["name"].as_str().unwrap());
    assert_eq!(repository.file_on(branch, "own/file").as_deref(), Some("own\n"));
    let tree = repository.git(&["ls-tree", "-r", "--name-only", branch]);
    assert!(!tree.contains("copy"), "a copy of another repository is not part of the branch: {tree}");
    let kept = plane.get(&format!("/api/v1/tasks/{id}/workspace/files")).await;
    assert_eq!(kept["left_out"][0]["path"], "copy", "{kept}");
    let directory = plane.download(id, &[]).await;
    run(&directory, "tar", &["--zstd", "-xf", &format!("{id}.tar.zst")]);
    let workspace = directory.join("workspace");
    assert_eq!(read(&workspace, "copy/file").as_deref(), Some("copy\n"));
    assert_eq!(read(&workspace, "own/file"), None, "it is on the branch");
}
