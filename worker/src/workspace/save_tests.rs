use super::*;
use crate::relay::tests::support::{BRANCH, Host, Served};
use crate::workspace::{Repository, prepare};
use std::time::Duration;

/// A workspace on the branch of the task, with a saver.
struct Fixture {
    host: Host,
    served: Served,
    saver: Saver,
}

fn settings(host: &Host, variables: &[(String, String)]) -> Settings {
    let launcher = crate::confinement::unconfined();
    Settings::new(host.path("work"), host.path("state"), variables.to_vec(), &launcher)
}

fn about() -> About {
    About {
        title: Some("Add the feature".to_owned()),
        id: "task-1".to_owned(),
        requested_by: Some("Ada <ada@example.invalid>".to_owned()),
    }
}

impl Fixture {
    async fn new() -> Self {
        let host = Host::new();
        let mut served = host.serve().await;
        let settings = settings(&host, &served.variables);
        let repository = Repository::new(&host.address(), None, Some(BRANCH)).unwrap();
        prepare(Some((&repository, &served.origin)), &settings, &mut |_| {}).await.unwrap();
        served.push_to_host();
        let saver = Saver::new(settings, Some(served.origin.clone()), about());
        Self { host, served, saver }
    }

    fn git(&self, arguments: &[&str]) -> String {
        self.host.git("work", arguments)
    }

    fn commit(&self, name: &str) -> String {
        self.host.commit("work", name)
    }

    fn write(&self, name: &str) {
        std::fs::write(self.host.path("work").join(name), name).unwrap();
    }

    /// The commit of the branch at the host, when everything has arrived there.
    async fn at_host(&self) -> Option<String> {
        self.served.relay.delivered(Duration::from_secs(60)).await;
        self.host.branch(BRANCH)
    }

    /// Names of the files in the branch at the host.
    async fn files(&self) -> Vec<String> {
        let head = self.at_host().await.unwrap();
        let listed = self.host.git("host.git", &["ls-tree", "-r", "--name-only", &head]);
        listed.lines().map(str::to_owned).collect()
    }

    async fn host_has(&self, commit: &str) -> bool {
        self.at_host().await;
        self.served.relay.host_has(commit).await
    }
}

#[tokio::test]
async fn commits_leave_the_workspace_without_a_push_of_the_agent() {
    let fixture = Fixture::new().await;
    fixture.saver.push_commits().await.unwrap();
    assert_eq!(fixture.at_host().await, None, "without commits, the host needs no branch");
    let head = fixture.commit("work");
    fixture.write("uncommitted");
    fixture.saver.push_commits().await.unwrap();
    assert_eq!(fixture.at_host().await, Some(head.clone()));
    assert_eq!(fixture.git(&["rev-parse", &format!("origin/{BRANCH}")]), head, "the agent's git knows");
    assert_eq!(fixture.files().await, ["README", "work"]);
}

#[tokio::test]
async fn uncommitted_work_is_committed_with_its_origin() {
    let fixture = Fixture::new().await;
    fixture.write(".gitignore");
    std::fs::write(fixture.host.path("work/.gitignore"), "ignored\n").unwrap();
    for name in ["README", "new", "ignored"] {
        std::fs::write(fixture.host.path("work").join(name), "changed").unwrap();
    }
    fixture.saver.save(Occasion::Interrupted).await.unwrap();
    assert_eq!(fixture.files().await, [".gitignore", "README", "new"]);
    let message = |format: &str| fixture.git(&["log", "-1", &format!("--format={format}")]);
    assert_eq!(message("%an <%ae>|%cn"), "Sunaba Agent <agent@sunaba.invalid>|Sunaba Agent");
    assert_eq!(message("%s"), "wip: Add the feature");
    assert_eq!(message("%(trailers)"), "Co-authored-by: Ada <ada@example.invalid>\nSunaba-Task: task-1");
    fixture.write("more");
    fixture.saver.save(Occasion::Completed).await.unwrap();
    assert_eq!(message("%s"), "Add the feature");
    let head = fixture.at_host().await;
    fixture.saver.save(Occasion::Completed).await.unwrap();
    assert_eq!(fixture.at_host().await, head, "without changes, there is no commit");
}

#[tokio::test]
async fn neither_hooks_nor_locks_nor_broken_directories_keep_work_back() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new().await;
    for hook in ["pre-commit", "commit-msg", "pre-push", "reference-transaction"] {
        let path = fixture.host.path("work/.git/hooks").join(hook);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "#!/bin/sh\nexit 1\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    fixture.git(&["-c", "core.hooksPath=/dev/null", "config", "commit.gpgSign", "true"]);
    fixture.write(".git/index.lock");
    fixture.write("work");
    fixture.git(&["init", "--quiet", "nested"]);
    fixture.saver.save(Occasion::Interrupted).await.unwrap();
    assert_eq!(fixture.files().await, ["README", "work"]);
}

/// Git would commit only the name of a commit that exists nowhere else.
#[tokio::test]
async fn repositories_in_the_workspace_become_files_of_the_branch() {
    let fixture = Fixture::new().await;
    let host = &fixture.host;
    for name in ["own", "own/deep", "copy", "added"] {
        fixture.git(&["init", "--quiet", name]);
        fixture.write(&format!("{name}/file"));
        fixture.write(&format!("{name}/committed"));
        host.git(&format!("work/{name}"), &["add", "--", "committed"]);
        host.git(&format!("work/{name}"), &["commit", "--quiet", "--message", name]);
    }
    fixture.git(&["init", "--quiet", "empty"]);
    host.git("work/copy", &["remote", "add", "origin", "https://host.invalid/x"]);
    // The agent has committed one by its name.
    fixture.git(&["-c", "advice.addEmbeddedRepo=false", "add", "added"]);
    fixture.git(&["commit", "--quiet", "--message", "Add it"]);
    fixture.saver.save(Occasion::Completed).await.unwrap();
    let expected = [
        "README",
        "added/committed",
        "added/file",
        "own/committed",
        "own/deep/committed",
        "own/deep/file",
        "own/file",
    ];
    assert_eq!(fixture.files().await, expected);
    assert_eq!(fixture.saver.repositories_left_out().await, [b"copy".to_vec()]);
    // Later changes are those of plain files.
    fixture.write("own/later");
    fixture.saver.save(Occasion::Completed).await.unwrap();
    assert!(fixture.files().await.contains(&"own/later".to_owned()));
}

#[tokio::test]
async fn branch_that_the_agent_rewrites_is_rewritten() {
    let fixture = Fixture::new().await;
    fixture.commit("first");
    fixture.saver.push_commits().await.unwrap();
    fixture.at_host().await;
    fixture.git(&["commit", "--quiet", "--amend", "-m", "better"]);
    fixture.saver.push_commits().await.unwrap();
    assert_eq!(fixture.at_host().await, Some(fixture.git(&["rev-parse", "HEAD"])));
}

#[tokio::test]
async fn commits_of_another_branch_and_of_a_detached_head_are_added() {
    for detached in [false, true] {
        let fixture = Fixture::new().await;
        let first = fixture.commit("first");
        fixture.saver.push_commits().await.unwrap();
        let elsewhere: &[&str] =
            if detached { &["--detach", "origin/main"] } else { &["-b", "elsewhere", "origin/main"] };
        fixture.git(&[&["checkout", "--quiet"], elsewhere].concat());
        let second = fixture.commit("second");
        fixture.write("uncommitted");
        fixture.saver.save(Occasion::Completed).await.unwrap();
        assert_eq!(fixture.files().await, ["README", "first", "second", "uncommitted"]);
        assert!(fixture.host_has(&first).await && fixture.host_has(&second).await);
        let head = fixture.at_host().await;
        fixture.saver.save(Occasion::Completed).await.unwrap();
        assert_eq!(fixture.at_host().await, head, "a repetition adds nothing");
        let third = fixture.commit("third");
        fixture.saver.save(Occasion::Completed).await.unwrap();
        assert!(fixture.host_has(&third).await);
    }
}

#[tokio::test]
async fn conflicting_commits_of_the_agent_stay_in_the_history() {
    let fixture = Fixture::new().await;
    std::fs::write(fixture.host.path("work/README"), "of the branch").unwrap();
    let first = fixture.commit("first");
    fixture.saver.push_commits().await.unwrap();
    fixture.git(&["checkout", "--quiet", "-b", "elsewhere", "origin/main"]);
    std::fs::write(fixture.host.path("work/README"), "of the working tree").unwrap();
    let second = fixture.commit("second");
    fixture.saver.save(Occasion::Completed).await.unwrap();
    assert!(fixture.host_has(&first).await && fixture.host_has(&second).await);
    let head = fixture.at_host().await.unwrap();
    assert_eq!(fixture.host.git("host.git", &["show", &format!("{head}:README")]), "of the working tree");
}

#[tokio::test]
async fn commits_of_others_are_merged_or_reported_but_never_replaced() {
    for (name, is_merged) in [("other", true), ("README", false)] {
        let fixture = Fixture::new().await;
        fixture.commit("first");
        fixture.saver.push_commits().await.unwrap();
        fixture.at_host().await;
        fixture.host.git("person", &["fetch", "--quiet", "origin"]);
        fixture.host.git("person", &["checkout", "--quiet", BRANCH]);
        std::fs::write(fixture.host.path("person").join(name), "of a person").unwrap();
        fixture.host.git("person", &["add", "-A"]);
        fixture.host.git("person", &["commit", "--quiet", "-m", "review"]);
        fixture.host.git("person", &["push", "--quiet", "origin", BRANCH]);
        let of_person = fixture.host.git("person", &["rev-parse", "HEAD"]);
        fixture.served.relay.prepare().await.unwrap();

        std::fs::write(fixture.host.path("work/README"), "of the agent").unwrap();
        let of_agent = fixture.commit("second");
        let saved = fixture.saver.save(Occasion::Completed).await;
        assert_eq!(saved.is_ok(), is_merged, "{saved:?}");
        assert!(fixture.host_has(&of_person).await);
        assert_eq!(fixture.host_has(&of_agent).await, is_merged);
    }
}

#[tokio::test]
async fn unfinished_merge_and_rebase_are_saved() {
    for operation in ["merge", "rebase"] {
        let fixture = Fixture::new().await;
        std::fs::write(fixture.host.path("work/README"), "of the branch").unwrap();
        let first = fixture.commit("first");
        fixture.git(&["checkout", "--quiet", "-b", "elsewhere", "origin/main"]);
        std::fs::write(fixture.host.path("work/README"), "conflict").unwrap();
        fixture.commit("second");
        fixture.git(&["checkout", "--quiet", BRANCH]);
        fixture.saver.push_commits().await.unwrap();
        let output =
            crate::relay::tests::support::run_git(&fixture.host.path("work"), &[operation, "elsewhere"]);
        assert!(!output.status.success(), "it conflicts");
        fixture.saver.save(Occasion::Interrupted).await.unwrap();
        assert!(fixture.host_has(&first).await, "{operation}");
        let head = fixture.at_host().await.unwrap();
        let readme = fixture.host.git("host.git", &["show", &format!("{head}:README")]);
        assert!(readme.contains("<<<<<<<"), "{operation}: {readme}");
    }
}

#[tokio::test]
async fn workspace_without_a_repository_keeps_its_work_as_commits() {
    let host = Host::new();
    let settings = settings(&host, &[]);
    prepare(None, &settings, &mut |_| {}).await.unwrap();
    std::fs::write(host.path("work/new"), "x").unwrap();
    Saver::new(settings, None, about()).save(Occasion::Completed).await.unwrap();
    assert_eq!(host.git("work", &["log", "--format=%s"]), "Add the feature\nBegin");
}

#[tokio::test]
async fn repository_of_a_person_is_not_changed() {
    let host = Host::new();
    host.git("", &["clone", "--quiet", "host.git", "work"]);
    let settings = settings(&host, &[]);
    prepare(None, &settings, &mut |_| {}).await.unwrap();
    std::fs::write(host.path("work/new"), "x").unwrap();
    Saver::new(settings, None, about()).save(Occasion::Interrupted).await.unwrap();
    assert_eq!(host.git("work", &["log", "--format=%s"]), "README");
}

#[test]
fn message_names_the_task_in_one_line() {
    let about = |title: Option<&str>, requested_by: Option<&str>| About {
        title: title.map(str::to_owned),
        id: "task-1".to_owned(),
        requested_by: requested_by.map(str::to_owned),
    };
    let long = format!("\n {} end\nmore", "word ".repeat(20));
    for (title, requested_by, expected) in [
        (None, None, "wip: task-1\n\nSunaba-Task: task-1\n"),
        (Some("Fix it\nnow"), Some("ada"), "wip: Fix it\n\nRequested-by: ada\nSunaba-Task: task-1\n"),
        (
            Some("Fix it"),
            Some("A\nSigned-off-by: B <b@c>"),
            "wip: Fix it\n\nCo-authored-by: A Signed-off-by: B <b@c>\nSunaba-Task: task-1\n",
        ),
    ] {
        assert_eq!(about(title, requested_by).message(Occasion::Interrupted), expected);
    }
    let message = about(Some(&long), None).message(Occasion::Completed);
    assert!(message.lines().next().unwrap().chars().count() <= MAX_TITLE_CHARS + 1, "{message}");
    assert_eq!(about(None, None).message(Occasion::Completed).lines().next(), Some("Task task-1"));
}
