//! Merges into branches that are checked out.

use crate::support::{Fixture, Git, Kind, failed};
use code_hosts::{Merge, MergeMethod, Reason};
use std::fs;

/// A pull request that changes `lines` and adds `new`, and its head.
async fn proposed() -> (Fixture, u64, Merge) {
    let fixture = Fixture::new(Kind::LocalTree).await;
    let head = fixture.push("feature/x", &[("lines", "changed\n"), ("new", "x\n")], "Work");
    let number = fixture.propose("feature/x").await.number;
    (fixture, number, Merge { method: MergeMethod::Squash, head, title: None })
}

/// Everything that must not change if a merge is refused.
fn state(repository: &Git) -> String {
    let branches = repository.run(&["for-each-ref", "refs/heads"]);
    let status = repository.run(&["status", "--porcelain=v2", "--branch", "--ignored"]);
    let staged = repository.run(&["diff", "--cached"]);
    format!("{branches}\n{status}\n{staged}\n{}", repository.run(&["diff"]))
}

#[tokio::test]
async fn merge_updates_the_working_tree() {
    let (fixture, number, merge) = proposed().await;
    fixture.host.merge(number, &merge).await.unwrap();
    assert_eq!(fixture.repository.read("lines"), "changed\n");
    assert_eq!(fixture.repository.read("new"), "x\n");
    assert_eq!(fixture.repository.run(&["status", "--porcelain"]), "");
    assert_eq!(fixture.repository.run(&["symbolic-ref", "HEAD"]), "refs/heads/main");
}

#[tokio::test]
async fn local_changes_in_the_way_are_not_overwritten() {
    type Change = fn(&Git);
    let changes: [(&str, Change); 4] = [
        ("lines", |repository| repository.write("lines", "mine\n")),
        ("lines", |repository| {
            repository.write("lines", "mine\n");
            repository.run(&["add", "lines"]);
        }),
        ("lines", |repository| fs::remove_file(repository.0.join("lines")).unwrap()),
        ("new", |repository| repository.write("new", "mine\n")),
    ];
    for (file, change) in changes {
        let (fixture, number, merge) = proposed().await;
        change(&fixture.repository);
        if !fixture.repository.0.join("lines").exists() {
            fixture.repository.run(&["add", "--all"]);
        }
        let before = state(&fixture.repository);
        let failure = failed(fixture.host.merge(number, &merge).await, Reason::Conflict);
        assert!(failure.message.contains(file), "{failure}");
        assert_eq!(state(&fixture.repository), before);
        // It succeeds when the changes are out of the way.
        fixture.repository.run(&["stash", "--quiet", "--include-untracked"]);
        fixture.host.merge(number, &merge).await.unwrap();
        assert_eq!(fixture.repository.read("lines"), "changed\n");
    }
}

#[tokio::test]
async fn other_local_changes_stay() {
    let (fixture, number, merge) = proposed().await;
    fixture.repository.write("README.md", "My shop\n");
    fixture.repository.write("notes", "mine\n");
    fixture.repository.write("staged", "mine\n");
    fixture.repository.run(&["add", "staged"]);
    fixture.host.merge(number, &merge).await.unwrap();
    assert_eq!(fixture.repository.read("README.md"), "My shop\n");
    assert_eq!(fixture.repository.read("notes"), "mine\n");
    let status = fixture.repository.run(&["status", "--porcelain"]);
    let mut lines: Vec<&str> = status.lines().map(str::trim).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["?? notes", "A  staged", "M README.md"]);
}

#[tokio::test]
async fn unfinished_merge_of_a_person_is_left_alone() {
    let (fixture, number, merge) = proposed().await;
    fixture.repository.run(&["checkout", "--quiet", "-b", "other", "main"]);
    fixture.repository.commit(&[("README.md", "Other\n")], "Other");
    fixture.repository.run(&["checkout", "--quiet", "main"]);
    fixture.repository.commit(&[("README.md", "Mine\n")], "Mine");
    assert!(fixture.repository.find(&["merge", "other"]).is_none(), "a conflict");
    let before = state(&fixture.repository);
    failed(fixture.host.merge(number, &merge).await, Reason::Conflict);
    assert_eq!(state(&fixture.repository), before);
}

#[tokio::test]
async fn index_that_another_program_writes_is_busy() {
    let (fixture, number, merge) = proposed().await;
    let lock = fixture.repository.0.join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let before = fixture.commit("main");
    failed(fixture.host.merge(number, &merge).await, Reason::Busy { retry_after_secs: None });
    assert_eq!(fixture.commit("main"), before);
    fs::remove_file(&lock).unwrap();
    fixture.host.merge(number, &merge).await.unwrap();
}

#[tokio::test]
async fn linked_working_tree_of_the_base_is_updated() {
    let (fixture, number, merge) = proposed().await;
    fixture.repository.run(&["checkout", "--quiet", "-b", "other"]);
    let tree = Git(fixture.folder().join("with a space"));
    fixture.repository.run(&["worktree", "add", "--quiet", &tree.path(), "main"]);
    fixture.host.merge(number, &merge).await.unwrap();
    assert_eq!(tree.read("lines"), "changed\n");
    assert_eq!(tree.run(&["status", "--porcelain"]), "");
    assert_eq!(
        fixture.repository.read("lines").lines().count(),
        30,
        "the other working tree has another branch"
    );
}

#[tokio::test]
async fn removed_working_tree_does_not_hinder_a_merge() {
    let (fixture, number, merge) = proposed().await;
    fixture.repository.run(&["checkout", "--quiet", "-b", "other"]);
    let tree = Git(fixture.folder().join("tree"));
    fixture.repository.run(&["worktree", "add", "--quiet", &tree.path(), "main"]);
    fs::remove_dir_all(&tree.0).unwrap();
    fixture.host.merge(number, &merge).await.unwrap();
}

#[tokio::test]
async fn branch_that_is_checked_out_is_not_deleted() {
    let (fixture, ..) = proposed().await;
    let tree = Git(fixture.folder().join("tree"));
    fixture.repository.run(&["worktree", "add", "--quiet", &tree.path(), "feature/x"]);
    let before = fixture.repository.refs();
    let failure = failed(fixture.host.delete_branch("feature/x").await, Reason::Conflict);
    assert!(failure.message.contains(tree.0.file_name().unwrap().to_str().unwrap()), "{failure}");
    failed(fixture.host.delete_branch("main").await, Reason::Conflict);
    assert_eq!(fixture.repository.refs(), before);
}

#[tokio::test]
async fn files_with_filters_are_left_to_the_user() {
    let (fixture, number, merge) = proposed().await;
    fixture.host.merge(number, &merge).await.unwrap();
    let head =
        fixture.push("feature/y", &[(".gitattributes", "*.bin filter=lfs\n"), ("a.bin", "x\n")], "Work");
    let number = fixture.propose("feature/y").await.number;
    let before = state(&fixture.repository);
    let merge = Merge { head, ..merge };
    let failure = failed(fixture.host.merge(number, &merge).await, Reason::NotMergeable);
    assert!(failure.message.contains("a.bin") && failure.message.contains("filter"), "{failure}");
    assert_eq!(state(&fixture.repository), before);
    fixture.repository.run(&["checkout", "--quiet", "-b", "other"]);
    fixture.host.merge(number, &merge).await.unwrap();
}
