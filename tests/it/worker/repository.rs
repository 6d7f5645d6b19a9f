//! Private repositories: the worker clones and the agent pushes, without exposing the token.

use super::{Fixture, command, data_of, files, git, text, tool};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::payloads::{AgentFailed, AgentMessage, AgentStarted, WorkspaceFailed, WorkspaceReady};
use kit::git_server::Server;
use kit::model::Script;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

const TOKEN: &str = "planted-token-of-the-repository";

/// A bare repository with one commit that accepts pushes.
fn remote() -> TempDir {
    let folder = TempDir::new().unwrap();
    let seed = folder.path().join("seed");
    std::fs::create_dir(&seed).unwrap();
    git(&seed, &["init", "-q"]);
    std::fs::write(seed.join("README.md"), "begin\n").unwrap();
    git(&seed, &["add", "-A"]);
    git(&seed, &["commit", "-qm", "begin"]);
    git(folder.path(), &["clone", "-q", "--bare", "seed", "repo.git"]);
    git(&folder.path().join("repo.git"), &["config", "http.receivepack", "true"]);
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_can_push_without_exposing_the_repository_token() {
    let remote = remote();
    let server = Server::start(remote.path(), &format!("x-access-token:{TOKEN}")).await;
    server.pause(Duration::from_millis(100));
    let fixture = Fixture::new(Script::new()).await;
    let search = "env; tr '\\0' ' ' < /proc/$PPID/environ; cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '; \
                git config --list; git remote -v; echo search finished";
    let agent = fixture.script(&[
        tool("Write", json!({"file_path": "feature.txt", "content": "it works\n"})),
        command(
            "git add -A && git commit -qm 'Add the feature' && git push -q -u origin HEAD && echo pushed",
        ),
        command(search),
        text("It is pushed."),
    ]);
    let worker = fixture.start_worker(&[
        ("AGENT", &agent),
        ("TASK_DESCRIPTION", "Add the feature"),
        ("REPOSITORY_URL", &server.url("repo.git")),
        ("BRANCH_NAME", "feature/x"),
        ("GITHUB_TOKEN", TOKEN),
        ("GITHUB_HOST", &server.host()),
        ("REQUIRE_CODE_PUSHED", "true"),
        ("LOG", "trace"),
    ]);
    let sampler = Sampler::start(worker.id());
    let ready = fixture.wait_for_event("workspace.ready").await;
    assert_eq!(ready["event_data"]["branch"], "feature/x", "{ready}");
    assert_eq!(ready["event_data"]["created_branch"], true, "{ready}");
    let completed = fixture.wait_for_event("agent.completed").await;
    assert_eq!(completed["event_data"]["branch_name"], "feature/x", "{completed}");
    assert_eq!(worker.terminate().await, Some(0));

    let pushed = git(&remote.path().join("repo.git"), &["log", "-1", "--format=%an|%s", "feature/x"]);
    assert_eq!(pushed, "Sunaba Agent|Add the feature");
    let processes = sampler.stop();
    for expected in ["\0clone\0", "git\0push\0"] {
        assert!(
            processes.iter().any(|process| process.contains(expected)),
            "{expected:?} was not sampled: {processes:?}"
        );
    }
    let forms = [TOKEN.to_owned(), basic(TOKEN)];
    assert!(
        !processes.iter().any(|process| process.contains(TOKEN)),
        "the token was in a process list: {processes:?}"
    );
    // The environment of git itself has the encoded form, and is closed to other users.
    let mut arguments = processes.iter().filter_map(|process| process.lines().next());
    assert!(!arguments.any(|words| words.contains(&forms[1])), "the token was an argument: {processes:?}");
    let log = serde_json::to_string(&fixture.log().await).unwrap();
    assert!(log.contains("search finished"), "the agent searched for the token: {log}");
    assert!(!forms.iter().any(|form| log.contains(form)), "the token is in the log");
    assert!(!log.contains("[redacted GITHUB_TOKEN]"), "the agent found the token: {log}");
    // Contains the workspace, `.git`, and the worker's state and log.
    let root = fixture.home.home().parent().unwrap().to_owned();
    for file in files(&root) {
        for form in &forms {
            assert!(!contains(&file, form), "the token is in {}", file.display());
        }
    }
}

/// Every header that the server receives is recorded. The repository is the one of the task, whose author chose it.
/// The agent of a worker that runs as root has a user of its own there, and git refuses repositories of other users.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_with_a_user_of_its_own_works_in_a_clone_of_a_local_repository() {
    use std::os::unix::fs::MetadataExt;
    let remote = remote();
    let repository = remote.path().join("repo.git");
    let fixture = Fixture::new(Script::new()).await;
    let agent = fixture.script(&[
        tool("Write", json!({"file_path": "feature.txt", "content": "it works\n"})),
        command("git add -A && git commit -qm 'Add the feature' && id -u >.git/user"),
        text("It is done."),
    ]);
    let worker = fixture.start_worker(&[
        ("AGENT", &agent),
        ("TASK_DESCRIPTION", "Add the feature"),
        ("REPOSITORY_URL", repository.to_str().unwrap()),
        ("BRANCH_NAME", "feature/x"),
        ("ISOLATION", "landlock"),
        // Its directory is closed to other users: the operator opens it, not the author of the task.
        ("ISOLATION_READABLE", remote.path().to_str().unwrap()),
        ("REQUIRE_CLEAN_GIT", "true"),
    ]);
    let completed = fixture.wait_for_event("agent.completed").await;
    assert_eq!(completed["event_data"]["branch_name"], "feature/x", "{completed}");
    fixture.wait_for_event("agent.file_edited").await;
    let workspace = &fixture.home.workspace;
    assert_eq!(
        git(workspace, &["-c", "safe.directory=*", "log", "-1", "--format=%an|%s"]),
        "Sunaba Agent|Add the feature"
    );
    let user = std::fs::read_to_string(workspace.join(".git/user")).unwrap();
    let worker_user = std::fs::metadata("/proc/self").unwrap().uid();
    for own in ["feature.txt", "README.md", ".git/HEAD"] {
        let owner = workspace.join(own).metadata().unwrap().uid();
        assert_eq!(owner.to_string(), user.trim(), "{own}");
        assert_eq!(owner == worker_user, worker_user != 0, "a plain user cannot become another");
    }
    assert_eq!(worker.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repository_that_is_hidden_from_agents_is_not_cloned() {
    let remote = remote();
    let repository = remote.path().join("repo.git");
    let link = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&repository, link.path().join("repo.git")).unwrap();
    for (isolation, address) in [
        ("namespaces", repository.clone()),
        ("landlock", repository.clone()),
        ("namespaces", link.path().join("repo.git")),
    ] {
        let fixture = Fixture::new(Script::new()).await;
        let agent = fixture.script(&[text("Not reached.")]);
        let worker = fixture.start_worker(&[
            ("AGENT", &agent),
            ("TASK_DESCRIPTION", "Read it"),
            ("REPOSITORY_URL", address.to_str().unwrap()),
            ("ISOLATION", isolation),
            ("ISOLATION_HIDDEN", remote.path().to_str().unwrap()),
        ]);
        assert_eq!(worker.wait_for_exit().await, Some(1));
        let failed: Vec<WorkspaceFailed> = data_of(&fixture.log().await);
        assert!(failed[0].error.contains("is hidden from agents"), "{failed:?}");
        assert!(!fixture.home.workspace.join(".git").exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_is_sent_to_no_other_host_than_its_own() {
    let remote = remote();
    for password in ["", "x-access-token:another-token"] {
        let server = Server::start(remote.path(), password).await;
        let fixture = Fixture::new(Script::new()).await;
        let fetch = "git fetch -q; git ls-remote origin; env; git config --list; echo fetched";
        let agent = fixture.script(&[command(fetch), text("Done.")]);
        let worker = fixture.start_worker(&[
            ("AGENT", &agent),
            ("TASK_DESCRIPTION", "Look around"),
            ("REPOSITORY_URL", &server.url("repo.git")),
            ("GITHUB_TOKEN", TOKEN),
            ("GH_TOKEN", TOKEN),
            ("NETWORK", &server.host()),
        ]);
        if password.is_empty() {
            fixture.wait_for_event("agent.completed").await;
            assert_eq!(worker.terminate().await, Some(0));
        } else {
            assert_eq!(worker.wait_for_exit().await, Some(1));
        }
        let received = server.received().join("\n");
        assert!(received.contains("info/refs"), "the server was asked: {received}");
        let encoded = basic(TOKEN);
        assert!(!received.contains(TOKEN) && !received.contains(&encoded), "{received}");
        assert!(!received.to_lowercase().contains("authorization"), "{received}");
        assert!(fixture.worker_log().contains("GITHUB_HOST"), "{}", fixture.worker_log());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_repositories_of_the_host_get_no_credential() {
    let remote = remote();
    git(remote.path(), &["clone", "-q", "--bare", "seed", "other.git"]);
    let server = Server::start(remote.path(), &format!("x-access-token:{TOKEN}")).await;
    let fixture = Fixture::new(Script::new()).await;
    // By its own address, and through the endpoint of the repository.
    let search = format!(
        "git ls-remote {0} 2>&1; end=$(git config --get-regexp '^url' | sed 's/^url[.]//; s/[.]insteadof.*//'); \
         git ls-remote $end/../other.git 2>&1; git ls-remote $end/%2e%2e/other.git 2>&1; \
         git ls-remote ${{end%/git}}/other.git 2>&1; git ls-remote origin && echo searched",
        server.url("other.git")
    );
    let agent = fixture.script(&[command(&search), text("Done.")]);
    let worker = fixture.start_worker(&[
        ("AGENT", &agent),
        ("TASK_DESCRIPTION", "Look around"),
        ("REPOSITORY_URL", &server.url("repo.git")),
        ("GITHUB_TOKEN", TOKEN),
        ("GITHUB_HOST", &server.host()),
        ("NETWORK", &server.host()),
    ]);
    fixture.wait_for_event("agent.completed").await;
    assert_eq!(worker.terminate().await, Some(0));
    let log = serde_json::to_string(&fixture.log().await).unwrap();
    assert!(log.contains("searched"), "{log}");
    let encoded = basic(TOKEN);
    for request in server.received().iter().filter(|request| request.contains("other.git")) {
        assert!(!request.contains(&encoded), "the token was sent for another repository: {request}");
    }
    assert!(server.received().iter().any(|request| request.contains(&encoded)), "its own gets the token");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_accepts_messages_while_cloning() {
    let remote = remote();
    let server = Server::start(remote.path(), "").await;
    server.hold();
    let fixture = Fixture::new(Script::new()).await;
    let agent = fixture.script(&[text("I read: ${message}")]);
    let (url, host) = (server.url("repo.git"), server.host());
    let _worker = fixture.start_worker(&[("AGENT", &agent), ("REPOSITORY_URL", &url), ("NETWORK", &host)]);
    fixture.wait_for_event("workspace.cloning").await;
    fixture.wait_for_sandbox(|sandbox| sandbox["heartbeat_status"] == "starting").await;
    let early = fixture.send_message("user_message", "good morning").await;
    fixture.wait_for_receipt(&early, "fetched").await;
    assert!(data_of::<WorkspaceReady>(&fixture.log().await).is_empty(), "the clone is still running");
    server.release();
    fixture.wait_for_receipt(&early, "completed").await;
    fixture.wait_for(|message: &AgentMessage| message.content == "I read: good morning").await;
    fixture.wait_for_sandbox(|sandbox| sandbox["heartbeat_status"] == "waiting").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_clone_fails_the_task_without_starting_an_agent() {
    let remote = remote();
    let server = Server::start(remote.path(), "x-access-token:another-token").await;
    let fixture = Fixture::new(Script::new()).await;
    let agent = fixture.script(&[text("Not reached.")]);
    let worker = fixture.start_worker(&[
        ("AGENT", &agent),
        ("TASK_DESCRIPTION", "Add the feature"),
        ("REPOSITORY_URL", &server.url("repo.git")),
        ("GITHUB_TOKEN", TOKEN),
        ("GITHUB_HOST", &server.host()),
    ]);
    assert_eq!(worker.wait_for_exit().await, Some(1));
    let log = fixture.log().await;
    let failed: Vec<WorkspaceFailed> = data_of(&log);
    assert!(failed[0].error.contains("Authentication failed"), "{failed:?}");
    let failed: Vec<AgentFailed> = data_of(&log);
    assert_eq!((failed.len(), failed[0].phase.as_deref()), (1, Some("workspace")), "{failed:?}");
    assert!(data_of::<AgentStarted>(&log).is_empty(), "{log:?}");
    assert_eq!(super::event_types(&log).last(), Some(&"agent.shutdown"));
    assert!(!fixture.home.home().join("state/claude/projects").exists(), "no agent was started");
    assert!(!serde_json::to_string(&log).unwrap().contains(TOKEN));
    assert!(!fixture.worker_log().contains(TOKEN));
}

/// A token as git sends it.
pub(super) fn basic(token: &str) -> String {
    STANDARD.encode(format!("x-access-token:{token}"))
}

fn contains(file: &Path, needle: &str) -> bool {
    let bytes = std::fs::read(file).unwrap_or_default();
    bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// Samples what other processes can read about a worker's processes: the command lines, and the environment of all but
/// the worker itself, which gets the token from there.
struct Sampler {
    done: Arc<AtomicBool>,
    thread: JoinHandle<BTreeSet<String>>,
}

impl Sampler {
    fn start(worker: u32) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let stop = done.clone();
        let thread = std::thread::spawn(move || {
            let worker_command = concat!(env!("CARGO_BIN_EXE_sunaba"), "\0worker\0");
            let mut samples = BTreeSet::new();
            while !stop.load(Ordering::SeqCst) {
                samples.insert(read(worker, "cmdline"));
                for process in descendants(worker) {
                    let (before, environment) = (read(process, "cmdline"), read(process, "environ"));
                    // Between fork and exec, a child still has the command line of the worker.
                    if before != worker_command && !before.is_empty() && read(process, "cmdline") == before {
                        samples.insert(format!("{before}\n{environment}"));
                    }
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
            samples
        });
        Self { done, thread }
    }

    fn stop(self) -> BTreeSet<String> {
        self.done.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

fn read(process: u32, file: &str) -> String {
    let bytes = std::fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// All descendants of a process.
pub(super) fn descendants(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let direct =
        lists.flat_map(|list| list.split(' ').filter_map(|id| id.parse().ok()).collect::<Vec<u32>>());
    direct.flat_map(|child| std::iter::once(child).chain(descendants(child))).collect()
}
