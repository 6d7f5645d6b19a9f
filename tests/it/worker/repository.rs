//! Code that only a token gives access to: fetched, worked on and pushed, and the token is nowhere.

use super::{Stage, command, files, git, of, text, tool};
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

/// A bare repository with one commit, which may be pushed to.
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
async fn an_agent_pushes_its_work_and_the_token_is_nowhere() {
    let remote = remote();
    let server = Server::start(remote.path(), &format!("x-access-token:{TOKEN}")).await;
    server.pause(Duration::from_millis(100));
    let stage = Stage::new(Script::new()).await;
    let look = "env; tr '\\0' ' ' < /proc/$PPID/environ; cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '; \
                git config --list; git remote -v; echo done looking";
    let agent = stage.script(&[
        tool("Write", json!({"file_path": "feature.txt", "content": "it works\n"})),
        command(
            "git add -A && git commit -qm 'Add the feature' && git push -q -u origin HEAD && echo pushed",
        ),
        command(look),
        text("It is pushed."),
    ]);
    let worker = stage.worker(&[
        ("AGENT", &agent),
        ("TASK_DESCRIPTION", "Add the feature"),
        ("REPOSITORY_URL", &server.url("repo.git")),
        ("BRANCH_NAME", "feature/x"),
        ("GITHUB_TOKEN", TOKEN),
        ("REQUIRE_CODE_PUSHED", "true"),
        ("LOG", "trace"),
    ]);
    let sampler = Sampler::start(worker.id());
    let ready = stage.until_any("workspace.ready").await;
    assert_eq!(ready["event_data"]["branch"], "feature/x", "{ready}");
    assert_eq!(ready["event_data"]["created_branch"], true, "{ready}");
    let completed = stage.until_any("agent.completed").await;
    assert_eq!(completed["event_data"]["branch_name"], "feature/x", "{completed}");
    assert_eq!(worker.terminate().await, Some(0));

    let pushed = git(&remote.path().join("repo.git"), &["log", "-1", "--format=%an|%s", "feature/x"]);
    assert_eq!(pushed, "Sunaba Agent|Add the feature");
    assert!(server.refused() > 0, "the server asks for the token");

    let seen = sampler.stop();
    for expected in ["\0clone\0", "git\0push\0", "\0credential\0get\0"] {
        assert!(seen.iter().any(|process| process.contains(expected)), "{expected:?} was not seen: {seen:?}");
    }
    assert!(!seen.iter().any(|process| process.contains(TOKEN)), "the token was in a process list: {seen:?}");
    let log = serde_json::to_string(&stage.log().await).unwrap();
    assert!(log.contains("done looking"), "the agent has looked: {log}");
    assert!(!log.contains(TOKEN), "the token is in the log");
    assert!(!log.contains("[redacted GITHUB_TOKEN]"), "the agent found it: {log}");
    // Workspace, `.git`, the worker's state and its log are all in there.
    let everything = stage.home.home().parent().unwrap().to_owned();
    for file in files(&everything) {
        assert!(!holds(&file, TOKEN), "the token is in {}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_is_there_and_hears_while_its_code_is_fetched() {
    let remote = remote();
    let server = Server::start(remote.path(), "").await;
    server.hold();
    let stage = Stage::new(Script::new()).await;
    let agent = stage.script(&[text("I read: ${message}")]);
    let url = server.url("repo.git");
    let _worker = stage.worker(&[("AGENT", &agent), ("REPOSITORY_URL", &url)]);
    stage.until_any("workspace.cloning").await;
    stage.until_shown(|shown| shown["heartbeat_status"] == "starting").await;
    let early = stage.say("user_message", "good morning").await;
    stage.receipt(&early, "fetched").await;
    assert!(of(&stage.log().await, "workspace.ready").is_empty(), "all of this is while it is fetched");
    server.release();
    stage.receipt(&early, "completed").await;
    stage.until("agent.message", |data| data["content"] == "I read: good morning").await;
    stage.until_shown(|shown| shown["heartbeat_status"] == "waiting").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_gets_no_code_starts_no_agent() {
    let remote = remote();
    let server = Server::start(remote.path(), "x-access-token:the right one").await;
    let stage = Stage::new(Script::new()).await;
    let agent = stage.script(&[text("I should not be here.")]);
    let worker = stage.worker(&[
        ("AGENT", &agent),
        ("TASK_DESCRIPTION", "Add the feature"),
        ("REPOSITORY_URL", &server.url("repo.git")),
        ("GITHUB_TOKEN", TOKEN),
    ]);
    assert_eq!(worker.ended().await, Some(1));
    let log = stage.log().await;
    let failed = of(&log, "workspace.failed");
    assert!(failed[0]["error"].as_str().unwrap().contains("Authentication failed"), "{failed:?}");
    let failed = of(&log, "agent.failed");
    assert_eq!((failed.len(), &failed[0]["phase"]), (1, &json!("workspace")), "{failed:?}");
    assert!(of(&log, "agent.started").is_empty(), "{log:?}");
    assert_eq!(super::types(&log).last(), Some(&"agent.shutdown"));
    assert!(!stage.home.home().join("state/claude").exists(), "no agent was started");
    assert!(!serde_json::to_string(&log).unwrap().contains(TOKEN));
    assert!(!stage.worker_log().contains(TOKEN));
}

fn holds(file: &Path, needle: &str) -> bool {
    let bytes = std::fs::read(file).unwrap_or_default();
    bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// Looks again and again at what everybody can see of a worker's processes: their commands, and the environment of all
/// but the worker itself, which is where it has the token from.
struct Sampler {
    done: Arc<AtomicBool>,
    thread: JoinHandle<BTreeSet<String>>,
}

impl Sampler {
    fn start(worker: u32) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let stop = done.clone();
        let thread = std::thread::spawn(move || {
            let own = concat!(env!("CARGO_BIN_EXE_sunaba"), "\0worker\0");
            let mut seen = BTreeSet::new();
            while !stop.load(Ordering::SeqCst) {
                seen.insert(read(worker, "cmdline"));
                for process in children(worker) {
                    let (before, environment) = (read(process, "cmdline"), read(process, "environ"));
                    // One that is not yet what it will be is still the worker.
                    if before != own && !before.is_empty() && read(process, "cmdline") == before {
                        seen.insert(format!("{before}\n{environment}"));
                    }
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
            seen
        });
        Self { done, thread }
    }

    fn stop(self) -> BTreeSet<String> {
        self.done.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

fn read(process: u32, what: &str) -> String {
    let bytes = std::fs::read(format!("/proc/{process}/{what}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A process' children, and theirs.
fn children(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let direct =
        lists.flat_map(|list| list.split(' ').filter_map(|id| id.parse().ok()).collect::<Vec<u32>>());
    direct.flat_map(|child| std::iter::once(child).chain(children(child))).collect()
}
