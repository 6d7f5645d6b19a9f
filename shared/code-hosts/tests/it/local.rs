//! What only repositories of this machine have: directories, and records in the repository.

use crate::support::{Fixture, Git, Kind, failed, local, request};
use code_hosts::local::Local;
use code_hosts::{CodeHost, Environment, Merge, MergeMethod, PullRequestState, Reason};
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

fn squash(head: &str) -> Merge {
    Merge { method: MergeMethod::Squash, head: head.to_owned(), title: None }
}

#[tokio::test]
async fn directory_within_a_working_tree_is_its_repository() {
    let fixture = Fixture::new(Kind::LocalTree).await;
    fixture.push_main(&[("a/b/file", "x")], "Add a directory");
    let host = local(&fixture.repository.0.join("a/b"));
    assert_eq!(host.check(None).await.unwrap().branch, "main");
    let url = host.git_access().await.unwrap().url;
    assert_eq!(fs::canonicalize(url).unwrap(), fs::canonicalize(&fixture.repository.0).unwrap());
}

#[tokio::test]
async fn git_directory_of_a_working_tree_is_its_repository() {
    let fixture = Fixture::new(Kind::LocalTree).await;
    let head = fixture.push("feature/x", &[("new", "x")], "Work");
    let host = local(&fixture.repository.0.join(".git"));
    let number = host.propose(&request("feature/x")).await.unwrap().number;
    host.merge(number, &squash(&head)).await.unwrap();
    assert_eq!(fixture.repository.read("new"), "x");
}

#[tokio::test]
async fn directory_without_a_repository_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "x").unwrap();
    for directory in [folder.path().to_owned(), folder.path().join("missing"), folder.path().join("file")] {
        let failure = failed(local(&directory).check(None).await, Reason::NotFound);
        assert!(failure.message.contains(directory.to_str().unwrap()), "{failure}");
    }
}

#[tokio::test]
async fn repository_of_another_user_can_be_used() {
    let fixture = Fixture::new(Kind::LocalBare).await;
    // Only the superuser can give a file away. Others test the same with their own directory.
    let _ = std::os::unix::fs::chown(&fixture.repository.0, Some(65_534), None);
    assert_eq!(fixture.host.check(None).await.unwrap().branch, "main");
}

#[tokio::test]
async fn detached_head_is_no_default_branch() {
    let fixture = Fixture::new(Kind::LocalTree).await;
    fixture.repository.run(&["checkout", "--quiet", "--detach"]);
    failed(fixture.host.check(None).await, Reason::BaseMissing);
    assert_eq!(fixture.host.check(Some("main")).await.unwrap().branch, "main");
}

#[tokio::test]
async fn records_are_not_cloned() {
    let fixture = Fixture::new(Kind::LocalBare).await;
    fixture.push("feature/x", &[("new", "x")], "Work");
    fixture.propose("feature/x").await;
    fixture.clone.run(&["fetch", "--quiet", "origin"]);
    assert!(fixture.repository.refs().contains("refs/sunaba/pull/1/head"));
    assert!(!fixture.clone.refs().contains("sunaba"));
}

#[tokio::test]
async fn commits_of_a_deleted_branch_are_kept() {
    let fixture = Fixture::new(Kind::LocalBare).await;
    fixture.push("feature/x", &[("new", "x")], "Work");
    let number = fixture.propose("feature/x").await.number;
    let head = fixture.push("feature/x", &[("more", "x")], "More work");
    fixture.host.delete_branch("feature/x").await.unwrap();
    let kept = fixture.repository.run(&["rev-parse", &format!("refs/sunaba/pull/{number}/head")]);
    assert_eq!(kept, head);
}

#[tokio::test]
async fn branch_that_was_reset_to_the_base_is_not_merged() {
    let fixture = Fixture::new(Kind::LocalBare).await;
    fixture.push("feature/x", &[("new", "x")], "Work");
    let number = fixture.propose("feature/x").await.number;
    fixture.repository.run(&["update-ref", "refs/heads/feature/x", "refs/heads/main"]);
    let found = fixture.host.pull_request(number).await.unwrap().unwrap();
    assert_eq!(found.state, PullRequestState::Open);
}

#[tokio::test]
async fn unrelated_history_is_not_mergeable() {
    let fixture = Fixture::new(Kind::LocalBare).await;
    fixture.clone.run(&["checkout", "--quiet", "--orphan", "feature/x"]);
    fixture.clone.commit(&[], "Begin again");
    fixture.clone.run(&["push", "--quiet", "origin", "feature/x"]);
    let head = fixture.commit("feature/x");
    failed(fixture.host.compare("main", "feature/x").await, Reason::NotFound);
    failed(fixture.host.propose(&request("feature/x")).await, Reason::NotMergeable);
    assert_eq!(fixture.commit("feature/x"), head);
}

#[tokio::test]
async fn rebase_leaves_commits_that_are_on_the_base() {
    let fixture = Fixture::new(Kind::LocalBare).await;
    fixture.push("feature/x", &[("one", "1")], "First");
    let head = fixture.push("feature/x", &[("two", "2")], "Second");
    let number = fixture.propose("feature/x").await.number;
    let merge = Merge { method: MergeMethod::Rebase, ..squash(&head) };
    assert_eq!(fixture.host.merge(number, &merge).await.unwrap().commit, head);
}

#[tokio::test]
async fn squash_names_its_commits_and_keeps_their_author() {
    let fixture = Fixture::new(Kind::LocalBare).await;
    fixture.push("feature/x", &[("one", "1")], "First");
    let head = fixture.push("feature/x", &[("two", "2")], "Second");
    let number = fixture.propose("feature/x").await.number;
    let merge = Merge { title: Some("The work".to_owned()), ..squash(&head) };
    let commit = fixture.host.merge(number, &merge).await.unwrap().commit;
    let message = fixture.repository.run(&["log", "-1", "--format=%an: %B", &commit]);
    assert_eq!(message, "Ada: The work\n\n* First\n* Second");
}

#[tokio::test]
async fn interrupted_merge_is_not_merged_and_can_be_repeated() {
    let fixture = Fixture::new(Kind::LocalTree).await;
    let head = fixture.push("feature/x", &[("new", "x")], "Work");
    let number = fixture.propose("feature/x").await.number;
    // What is left if the plane stops after it has planned the merge: a record with a commit that the base does
    // not have.
    let planned = fixture.repository.run(&["commit-tree", "-p", "main", "-m", "Planned", "feature/x^{tree}"]);
    let reference = format!("refs/sunaba/pull/{number}/record");
    let record = fixture.repository.run(&["cat-file", "blob", &reference]);
    let record = record.strip_suffix('}').unwrap();
    let changed = format!("{record},\"merge\":{{\"head\":\"{head}\",\"commit\":\"{planned}\"}}}}");
    fs::write(fixture.folder().join("record"), changed).unwrap();
    let path = fixture.folder().join("record");
    let blob = fixture.repository.run(&["hash-object", "-w", "--no-filters", path.to_str().unwrap()]);
    fixture.repository.run(&["update-ref", &reference, &blob]);

    let found = fixture.host.pull_request(number).await.unwrap().unwrap();
    assert_eq!(found.state, PullRequestState::Open);
    fixture.host.merge(number, &squash(&head)).await.unwrap();
    assert_eq!(fixture.repository.subjects("main").len(), 2);
}

#[tokio::test]
async fn writers_take_turns() {
    let fixture = Fixture::new(Kind::LocalBare).await;
    let lock = fs::File::create(fixture.repository.0.join("sunaba.lock")).unwrap();
    lock.lock().unwrap();
    let mut environment = Environment::new(Arc::new(|| 0));
    environment.timeout = Duration::from_millis(300);
    let host = Local::new(&fixture.repository.0, &environment);
    let main = fixture.commit("main");
    failed(host.create_branch("feature/x", &main).await, Reason::Busy { retry_after_secs: None });
    assert_eq!(fixture.host.branch("feature/x").await.unwrap(), None, "reading needs no lock");
    let waiting = fixture.host.create_branch("feature/x", &main);
    let (created, ()) = tokio::join!(waiting, async { drop(lock) });
    created.unwrap();
}

#[tokio::test]
async fn git_that_does_not_end_is_stopped() {
    let fixture = Fixture::new(Kind::LocalBare).await;
    // git waits for a writer of this pipe.
    let configuration = fixture.repository.0.join("config");
    fs::remove_file(&configuration).unwrap();
    assert!(Command::new("mkfifo").arg(&configuration).status().unwrap().success());
    let mut environment = Environment::new(Arc::new(|| 0));
    environment.timeout = Duration::from_millis(100);
    let host = Local::new(&fixture.repository.0, &environment);
    let failure = failed(host.branches().await, Reason::Unreachable);
    assert!(failure.message.contains("did not finish"), "{failure}");
}

#[tokio::test]
async fn linked_working_tree_is_the_same_repository() {
    let fixture = Fixture::new(Kind::LocalBare).await;
    fixture.push("feature/x", &[("new", "x")], "Work");
    let tree = Git(fixture.folder().join("tree"));
    fixture.repository.run(&["worktree", "add", "--quiet", &tree.path(), "main"]);
    let number = local(&tree.0).propose(&request("feature/x")).await.unwrap().number;
    assert_eq!(fixture.propose("feature/x").await.number, number);
}
