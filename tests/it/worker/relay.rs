//! The relay between an agent and the host of its repository: the work comes back, and nothing else changes there.

use super::{DEADLINE, Fixture, GATED, POLL_INTERVAL, command, data_of, git, text, tool};
use contract::payloads::{
    AgentCompleted, AgentFailed, WorkspacePushFailed, WorkspacePushRejected, WorkspacePushed,
};
use kit::git_server::Server;
use kit::model::Script;
use serde_json::{Value, json};
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

const TOKEN: &str = "planted-token-of-the-host";
const BRANCH: &str = "feature/x";

/// A git server with a password, and one repository with the branches `main` and `other` and the tag `v1`.
struct Host {
    folder: TempDir,
    server: Server,
}

impl Host {
    async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let seed = folder.path().join("seed");
        std::fs::create_dir(&seed).unwrap();
        git(&seed, &["init", "-q"]);
        std::fs::write(seed.join("README.md"), "begin\n").unwrap();
        git(&seed, &["add", "-A"]);
        git(&seed, &["commit", "-qm", "begin"]);
        git(&seed, &["branch", "other"]);
        git(&seed, &["tag", "v1"]);
        git(folder.path(), &["clone", "-q", "--bare", "seed", "repo.git"]);
        git(&folder.path().join("repo.git"), &["config", "http.receivepack", "true"]);
        let server = Server::start(folder.path(), &format!("x-access-token:{TOKEN}")).await;
        Self { folder, server }
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("repo.git")
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.repository(), arguments)
    }

    fn references(&self) -> String {
        self.git(&["for-each-ref", "--format=%(refname) %(objectname)"])
    }

    fn has_branch(&self) -> bool {
        self.references().contains(&format!("refs/heads/{BRANCH} "))
    }

    async fn wait_for_branch(&self) {
        let arrived = async {
            while !self.has_branch() {
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(DEADLINE, arrived).await.expect("the branch arrives at the host");
    }

    /// Author and subject of the commits of the branch, the last one first.
    fn commits(&self) -> Vec<String> {
        let log = self.git(&["log", "--format=%an|%s", &format!("main..{BRANCH}")]);
        log.lines().map(str::to_owned).collect()
    }

    fn files(&self) -> Vec<String> {
        self.git(&["ls-tree", "-r", "--name-only", BRANCH]).lines().map(str::to_owned).collect()
    }

    /// Environment of a worker with this repository.
    fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("TASK_DESCRIPTION", "Add the feature".to_owned()),
            ("TASK_ID", "task-1".to_owned()),
            ("REPOSITORY_URL", self.server.url("repo.git")),
            ("BRANCH_NAME", BRANCH.to_owned()),
            ("GITHUB_TOKEN", TOKEN.to_owned()),
            ("GITHUB_HOST", self.server.host()),
        ]
    }
}

fn start(fixture: &Fixture, host: &Host, steps: &[Value], further: &[(&str, &str)]) -> super::Worker {
    let agent = fixture.script(steps);
    let variables = host.variables();
    let mut variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    variables.push(("AGENT", &agent));
    variables.extend(further);
    fixture.start_worker(&variables)
}

fn write(name: &str) -> Value {
    tool("Write", json!({"file_path": name, "content": "it works\n"}))
}

fn commit(subject: &str) -> Value {
    command(&format!("git add -A && git commit -qm '{subject}' && echo committed"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_reach_the_host_although_the_agent_pushes_nothing() {
    for isolation in ["namespaces", "landlock"] {
        let (host, fixture) = (Host::start().await, Fixture::new(Script::new()).await);
        let steps = [write("feature.txt"), commit("Add the feature"), text("Done.")];
        let worker = start(&fixture, &host, &steps, &[("ISOLATION", isolation)]);
        let completed = fixture.wait_for_event("agent.completed").await;
        let head = host.git(&["rev-parse", BRANCH]);
        let data = &completed["event_data"];
        assert_eq!((&data["branch_name"], &data["commit"]), (&json!(BRANCH), &json!(head)), "{completed}");
        assert_eq!((&data["code_pushed"], &data["files_changed"]), (&json!(true), &json!(1)), "{completed}");
        assert_eq!(host.commits(), ["Sunaba Agent|Add the feature"]);
        let pushed: Vec<WorkspacePushed> = data_of(&fixture.log().await);
        assert_eq!((pushed[0].commit.as_str(), pushed[0].commits), (head.as_str(), 1));
        assert_eq!(worker.terminate().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uncommitted_work_is_part_of_a_completed_task() {
    let (host, fixture) = (Host::start().await, Fixture::new(Script::new()).await);
    let ignore = tool("Write", json!({"file_path": ".gitignore", "content": "secret.env\n"}));
    let steps = [ignore, write("secret.env"), write("feature.txt"), text("Done.")];
    let requested = [("TICKET_TITLE", "Add a feature"), ("REQUESTED_BY", "Ada <ada@example.invalid>")];
    let worker = start(&fixture, &host, &steps, &requested);
    let completed = fixture.wait_for_event("agent.completed").await;
    assert_eq!(completed["event_data"]["code_committed"], true, "{completed}");
    assert_eq!(completed["event_data"]["code_pushed"], true, "{completed}");
    assert_eq!(host.files(), [".gitignore", "README.md", "feature.txt"]);
    assert_eq!(host.commits(), ["Sunaba Agent|Add a feature"]);
    let trailers = host.git(&["log", "-1", "--format=%(trailers)", BRANCH]);
    assert_eq!(trailers, "Co-authored-by: Ada <ada@example.invalid>\nSunaba-Task: task-1");
    assert_eq!(worker.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_a_failed_agent_is_saved() {
    let (host, fixture) = (Host::start().await, Fixture::new(Script::new()).await);
    let fail = json!({"play": "fail", "error": "the model is gone"});
    let worker = start(&fixture, &host, &[write("half.txt"), fail], &[]);
    fixture.wait_for_event("agent.failed").await;
    assert_eq!(host.commits(), ["Sunaba Agent|wip: Add the feature"]);
    assert!(host.files().contains(&"half.txt".to_owned()));
    let failed: Vec<AgentFailed> = data_of(&fixture.log().await);
    assert_eq!(failed[0].report.state.code_pushed, Some(true), "{failed:?}");
    assert_eq!(worker.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_a_stopped_agent_is_saved() {
    let (host, fixture) = (Host::start().await, Fixture::new(Script::new()).await);
    let worker = start(&fixture, &host, &[write("half.txt"), command(GATED), text("Done.")], &[]);
    fixture.wait_for_data("agent.tool_use", |data| data["tool"] == "Bash").await;
    fixture.send_message("stop", "Stop.").await;
    fixture.wait_for(|pushed: &WorkspacePushed| pushed.branch == BRANCH).await;
    assert_eq!(host.commits(), ["Sunaba Agent|wip: Add the feature"]);
    assert_eq!(host.files(), ["README.md", "half.txt"]);
    assert_eq!(worker.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_a_terminated_worker_is_saved() {
    for isolation in ["namespaces", "landlock"] {
        let (host, fixture) = (Host::start().await, Fixture::new(Script::new()).await);
        let steps = [write("half.txt"), commit("Begin it"), write("more.txt"), command(GATED), text("Done.")];
        let worker = start(&fixture, &host, &steps, &[("ISOLATION", isolation)]);
        let gate = |data: &Value| data["tool_input"]["command"].as_str().is_some_and(|text| text == GATED);
        fixture.wait_for_data("agent.tool_use", gate).await;
        assert_eq!(worker.terminate().await, Some(0));
        assert_eq!(host.commits(), ["Sunaba Agent|wip: Add the feature", "Sunaba Agent|Begin it"]);
        assert_eq!(host.files(), ["README.md", "half.txt", "more.txt"]);
    }
}

/// What it finds goes into its workspace, so that redaction hides nothing. The marks of a success are written in two parts,
/// because the output contains the script, too.
const ATTACK: &str = r#"exec > found 2>&1
git add -A; git commit -qm 'Take over'; git push -q origin HEAD
for push in HEAD:main '+HEAD:other' :other HEAD:refs/heads/new HEAD:refs/tags/v2 '+HEAD:refs/tags/v1' :refs/tags/v1 \
    "+HEAD:refs/sunaba/host/main" "+HEAD:refs/sunaba/known/feature/x" ":feature/x" HEAD:refs/heads/feature/x/y HEAD:HEAD; do
  git push origin "$push" && echo "PUSH""ED $push"
done
git push --mirror origin && echo "PUSH""ED mirror"
endpoint=$(git config --get-regexp '^url' | sed 's/^url[.]//; s/[.]insteadof.*//')
for path in /config /HEAD /hooks/update /objects/info/alternates /../config /info/refs /info/refs?service=git-evil; do
  curl -sS --max-time 20 --path-as-is -u agent:x "$endpoint$path"
  git -c "http.$endpoint$path.x=1" ls-remote "$endpoint$path"
  for method in PUT DELETE POST; do curl -sS --max-time 20 -X $method -d 'x' "$endpoint$path"; done
done
state=$(dirname "$HOME"); ls -la "$state" "$state/relay" "$state/relay/repository.git"
for file in "$state"/relay/config "$state"/relay/repository.git/config "$state"/relay/repository.git/hooks/update; do
  cat "$file" && echo "RE""AD $file"; echo '[core] sshCommand = evil' >> "$file" && echo "WRO""TE $file"
done
env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'
git config --list --show-origin; git remote -v
printf 'protocol=http\nhost=%s\n\n' "${REMOTE#http://}" | git credential fill
GIT_TRACE_CURL=1 GIT_TRACE_REDACT=0 git fetch origin
printf '#!/bin/sh\nenv | tr "\\0" "\\n" >> %s/by-hook\n' "$PWD" > .git/hooks/pre-push
cp .git/hooks/pre-push .git/hooks/pre-commit; cp .git/hooks/pre-push .git/hooks/reference-transaction; chmod +x .git/hooks/*
while :; do cat /proc/*/environ 2>/dev/null | tr '\0' '\n' | grep -a 'GIT_CONFIG_VALUE\|Authorization' >> sampled; done &
sampler=$!; git push origin HEAD:feature/x; sleep 1; kill $sampler
echo attack finished"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_agent_changes_nothing_but_its_branch_and_finds_no_credential() {
    for isolation in ["namespaces", "landlock"] {
        let (host, fixture) = (Host::start().await, Fixture::new(Script::new()).await);
        let others = |references: String| -> Vec<String> {
            references.lines().filter(|line| !line.contains(BRANCH)).map(str::to_owned).collect()
        };
        let (before, main) = (others(host.references()), host.git(&["rev-parse", "main"]));
        let attack = ATTACK.replace("${REMOTE#http://}", &host.server.host());
        let worker = start(&fixture, &host, &[command(&attack), text("Done.")], &[("ISOLATION", isolation)]);
        fixture.wait_for_event("agent.completed").await;
        let found = std::fs::read(fixture.home.workspace.join("found")).unwrap();
        let found = String::from_utf8_lossy(&found).into_owned();
        assert!(found.contains("attack finished"), "{isolation}: {found}");
        assert!(
            !found.contains("PUSHED") && !found.contains("WROTE") && !found.contains("READ /"),
            "{found}"
        );
        assert!(found.contains("remote: sunaba: refs/heads/main is not pushed: "), "{found}");
        assert_eq!(others(host.references()), before, "{isolation}: {found}");
        assert_eq!(host.git(&["rev-parse", "main"]), main);
        assert!(!host.repository().join("hooks/update").exists());
        let rejected: Vec<WorkspacePushRejected> = data_of(&fixture.log().await);
        for name in ["refs/heads/main", "refs/heads/other", "refs/tags/v1", "refs/heads/feature/x"] {
            assert!(rejected.iter().any(|rejected| rejected.ref_name == name), "{name}: {rejected:?}");
        }
        assert_eq!(worker.terminate().await, Some(0));
        let encoded = super::repository::basic(TOKEN);
        for file in super::files(&fixture.home.home()).iter().chain(&super::files(&fixture.home.workspace)) {
            let bytes = std::fs::read(file).unwrap();
            let content = String::from_utf8_lossy(&bytes);
            for secret in [TOKEN, &encoded] {
                assert!(!content.contains(secret), "{isolation}: the token is in {}", file.display());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_may_rewrite_its_own_branch() {
    let (host, fixture) = (Host::start().await, Fixture::new(Script::new()).await);
    let steps = [
        write("feature.txt"),
        commit("First"),
        command(
            "git push -q -u origin HEAD && git commit -q --amend -m Better && git push -q --force-with-lease && echo ok",
        ),
        text("Done."),
    ];
    let worker = start(&fixture, &host, &steps, &[]);
    fixture.wait_for_event("agent.completed").await;
    assert_eq!(host.commits(), ["Sunaba Agent|Better"]);
    assert_eq!(worker.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcome_says_that_the_host_did_not_get_the_work_and_it_is_pushed_later() {
    let (host, fixture) = (Host::start().await, Fixture::new(Script::new()).await);
    let steps = [write("feature.txt"), commit("Add the feature"), command(GATED), text("Done.")];
    let worker = start(&fixture, &host, &steps, &[("PUSH_TIMEOUT_SECONDS", "2")]);
    fixture.wait_for_data("agent.tool_use", |data| data["tool_input"]["command"] == GATED).await;
    host.server.break_next(usize::MAX);
    fixture.open_gate();
    let completed = fixture.wait_for(|completed: &AgentCompleted| completed.success).await;
    let data = &completed["event_data"];
    assert_eq!((&data["code_pushed"], &data["branch_name"]), (&json!(false), &json!(BRANCH)), "{completed}");
    assert_eq!(data.get("commit"), None, "{completed}");
    let failed: Vec<WorkspacePushFailed> = data_of(&fixture.log().await);
    assert!(failed[0].will_retry && failed[0].branch == BRANCH, "{failed:?}");
    host.server.break_next(0);
    fixture.wait_for(|pushed: &WorkspacePushed| pushed.branch == BRANCH).await;
    assert!(host.commits().contains(&"Sunaba Agent|Add the feature".to_owned()));
    assert_eq!(worker.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_killed_between_relay_and_host_loses_no_commit() {
    let (host, fixture) = (Host::start().await, Fixture::new(Script::new()).await);
    let begin = command("for _ in $(seq 6000); do [ -e begin ] && break; sleep 0.05; done; rm begin");
    let push = command("git push -q origin HEAD && echo pushed");
    let steps = [begin, write("feature.txt"), commit("Add the feature"), push, command(GATED), text("Done.")];
    let worker = start(&fixture, &host, &steps, &[]);
    fixture.wait_for_event("agent.tool_use").await;
    host.server.break_next(usize::MAX);
    std::fs::write(fixture.home.workspace.join("begin"), "").unwrap();
    fixture.wait_for(|failed: &WorkspacePushFailed| failed.will_retry).await;
    worker.kill().await;
    assert!(!host.has_branch());
    host.server.break_next(0);
    let worker = start(&fixture, &host, &steps, &[]);
    host.wait_for_branch().await;
    assert_eq!(host.commits(), ["Sunaba Agent|Add the feature"]);
    assert_eq!(worker.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repository_on_this_machine_gets_the_branch_too() {
    let (host, fixture) = (Host::start().await, Fixture::new(Script::new()).await);
    let directory = host.repository();
    let look = command(&format!(
        "ls {} && echo seen; git remote -v; git fetch -q && echo fetched",
        directory.display()
    ));
    let steps = [look, write("feature.txt"), commit("Add the feature"), text("Done.")];
    let address = directory.display().to_string();
    let worker = start(&fixture, &host, &steps, &[("REPOSITORY_URL", &address), ("ISOLATION", "namespaces")]);
    fixture.wait_for_event("agent.completed").await;
    assert_eq!(host.commits(), ["Sunaba Agent|Add the feature"]);
    let log = serde_json::to_string(&fixture.log().await).unwrap();
    assert!(log.contains("fetched") && !log.contains("\nseen") && !log.contains("\\nseen"), "{log}");
    assert_eq!(worker.terminate().await, Some(0));
}
