//! The contract of [`CodeHost`]: pull requests and merges.

use crate::for_every_code_host;
use crate::support::{Fixture, Kind, failed, request};
use code_hosts::{Merge, MergeMethod, Merged, NewPullRequest, PullRequestState, Reason};
use futures_util::future::join_all;
use std::collections::BTreeSet;

for_every_code_host! {
    pull_request_is_created_once_for_a_branch,
    pull_request_without_changes_or_branches_is_refused,
    pull_request_follows_its_branch,
    unknown_pull_request_is_none,
    merge_makes_a_commit_with_two_parents,
    squash_makes_one_commit,
    rebase_puts_the_commits_on_the_base,
    moved_branch_is_not_merged,
    conflict_is_not_merged,
    repeated_merge_returns_the_first_one,
    pull_request_of_a_deleted_branch_is_closed,
    merge_by_a_person_is_recognized,
    branch_of_a_merged_pull_request_can_be_proposed_again,
}

fn how(method: MergeMethod, head: &str) -> Merge {
    Merge { method, head: head.to_owned(), title: None }
}

async fn pull_request_is_created_once_for_a_branch(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let head = fixture.push("feature/x", &[("new", "x")], "Work");
    let hosts: Vec<_> = (0..4).map(|_| fixture.reopened()).collect();
    let request = request("feature/x");
    let proposed = join_all(hosts.iter().map(|host| host.propose(&request))).await;
    let numbers: BTreeSet<u64> = proposed.into_iter().map(|proposed| proposed.unwrap().number).collect();
    assert_eq!(numbers.len(), 1, "{numbers:?}");

    let changed = NewPullRequest { title: "Another title".to_owned(), ..request };
    let updated = fixture.host.propose(&changed).await.unwrap();
    assert_eq!(numbers, [updated.number].into());
    let found = fixture.host.pull_request(updated.number).await.unwrap().unwrap();
    assert_eq!((found.title.as_str(), found.base.as_str()), ("Another title", "main"));
    assert_eq!((found.branch.as_str(), &found.head_commit), ("feature/x", &head));
    assert_eq!((found.state, found.mergeable), (PullRequestState::Open, Some(true)));
    assert!(!found.url.is_empty());

    fixture.push("feature/y", &[("other", "y")], "Other work");
    assert!(!numbers.contains(&fixture.propose("feature/y").await.number));
}

async fn pull_request_without_changes_or_branches_is_refused(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    fixture.host.create_branch("feature/x", &fixture.commit("main")).await.unwrap();
    failed(fixture.host.propose(&request("feature/x")).await, Reason::NothingToPropose);
    failed(fixture.host.propose(&request("main")).await, Reason::NothingToPropose);
    failed(fixture.host.propose(&request("feature/y")).await, Reason::NotFound);
    fixture.push("feature/x", &[("new", "x")], "Work");
    let missing = NewPullRequest { base: "release".to_owned(), ..request("feature/x") };
    failed(fixture.host.propose(&missing).await, Reason::BaseMissing);
    assert_eq!(fixture.host.pull_request(1).await.unwrap(), None);

    let number = fixture.propose("feature/x").await.number;
    failed(fixture.host.propose(&missing).await, Reason::BaseMissing);
    assert_eq!(fixture.host.pull_request(number).await.unwrap().unwrap().base, "main");
}

async fn pull_request_follows_its_branch(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    fixture.push("feature/x", &[("lines", "mine\n")], "Work");
    let number = fixture.propose("feature/x").await.number;
    fixture.push_main(&[("lines", "theirs\n")], "Contradict");
    let head = fixture.push("feature/x", &[("more", "x")], "More work");
    let found = fixture.host.pull_request(number).await.unwrap().unwrap();
    assert_eq!((found.head_commit, found.mergeable), (head, Some(false)));
}

async fn unknown_pull_request_is_none(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    assert_eq!(fixture.host.pull_request(0).await.unwrap(), None);
    assert_eq!(fixture.host.pull_request(u64::MAX).await.unwrap(), None);
    let merge = how(MergeMethod::Merge, &fixture.commit("main"));
    failed(fixture.host.merge(9, &merge).await, Reason::NotFound);
}

/// A pull request with two commits, and a base that went on.
async fn diverged(kind: Kind) -> (Fixture, u64, String, String) {
    let fixture = Fixture::new(kind).await;
    fixture.push("feature/x", &[("one", "1")], "First");
    let head = fixture.push("feature/x", &[("two", "2")], "Second");
    let number = fixture.propose("feature/x").await.number;
    let base = fixture.push_main(&[("theirs", "x")], "Meanwhile");
    (fixture, number, head, base)
}

/// Checks what all methods have in common.
async fn merged(fixture: &Fixture, number: u64, merge: &Merge) -> String {
    let Merged { commit } = fixture.host.merge(number, merge).await.unwrap();
    assert_eq!(fixture.commit("main"), commit);
    let files = fixture.repository.run(&["ls-tree", "--name-only", "main"]);
    assert_eq!(files.lines().collect::<Vec<_>>(), ["README.md", "lines", "one", "theirs", "two"]);
    let found = fixture.host.pull_request(number).await.unwrap().unwrap();
    assert_eq!(found.state, PullRequestState::Merged { commit: commit.clone() });
    assert_eq!((found.head_commit, found.mergeable), (merge.head.clone(), None));
    assert_eq!(fixture.commit("feature/x"), merge.head, "the branch is left as it is");
    commit
}

async fn merge_makes_a_commit_with_two_parents(kind: Kind) {
    let (fixture, number, head, base) = diverged(kind).await;
    let merge = Merge { title: Some("Merge the work".to_owned()), ..how(MergeMethod::Merge, &head) };
    let commit = merged(&fixture, number, &merge).await;
    assert_eq!(fixture.repository.parents(&commit), [base, head]);
    assert_eq!(fixture.repository.subjects("main"), ["Merge the work", "Meanwhile", "Begin"]);
}

async fn squash_makes_one_commit(kind: Kind) {
    let (fixture, number, head, base) = diverged(kind).await;
    let commit = merged(&fixture, number, &how(MergeMethod::Squash, &head)).await;
    assert_eq!(fixture.repository.parents(&commit), [base]);
    let title = format!("Work of feature/x (#{number})");
    assert_eq!(fixture.repository.subjects("main"), [title.as_str(), "Meanwhile", "Begin"]);
}

async fn rebase_puts_the_commits_on_the_base(kind: Kind) {
    let (fixture, number, head, _) = diverged(kind).await;
    let commit = merged(&fixture, number, &how(MergeMethod::Rebase, &head)).await;
    assert_eq!(fixture.repository.subjects("main"), ["Second", "First", "Meanwhile", "Begin"]);
    let author = fixture.repository.run(&["log", "-1", "--format=%an %ae", &commit]);
    assert_eq!(author, "Ada ada@example.test");
}

async fn moved_branch_is_not_merged(kind: Kind) {
    let (fixture, number, head, base) = diverged(kind).await;
    let newer = fixture.push("feature/x", &[("three", "3")], "Third");
    failed(fixture.host.merge(number, &how(MergeMethod::Squash, &head)).await, Reason::HeadMoved);
    assert_eq!(fixture.commit("main"), base);
    fixture.host.merge(number, &how(MergeMethod::Squash, &newer)).await.unwrap();
    // It was merged with another head, which is not what the caller asks for.
    failed(fixture.host.merge(number, &how(MergeMethod::Squash, &head)).await, Reason::HeadMoved);
}

async fn conflict_is_not_merged(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let head = fixture.push("feature/x", &[("lines", "mine\n")], "Work");
    let number = fixture.propose("feature/x").await.number;
    let base = fixture.push_main(&[("lines", "theirs\n")], "Contradict");
    for method in [MergeMethod::Merge, MergeMethod::Squash, MergeMethod::Rebase] {
        let failure = failed(fixture.host.merge(number, &how(method, &head)).await, Reason::Conflict);
        assert!(!failure.reason.is_transient());
    }
    assert_eq!(fixture.commit("main"), base);
    let found = fixture.host.pull_request(number).await.unwrap().unwrap();
    assert_eq!((found.state, found.mergeable), (PullRequestState::Open, Some(false)));
}

async fn repeated_merge_returns_the_first_one(kind: Kind) {
    for method in [MergeMethod::Merge, MergeMethod::Squash, MergeMethod::Rebase] {
        let (fixture, number, head, _) = diverged(kind).await;
        let first = fixture.host.merge(number, &how(method, &head)).await.unwrap();
        let later = fixture.push_main(&[("later", "x")], "Later");
        assert_eq!(fixture.reopened().merge(number, &how(method, &head)).await.unwrap(), first);
        fixture.host.delete_branch("feature/x").await.unwrap();
        assert_eq!(fixture.host.merge(number, &how(method, &head)).await.unwrap(), first);
        assert_eq!(fixture.commit("main"), later);
    }
}

async fn pull_request_of_a_deleted_branch_is_closed(kind: Kind) {
    let (fixture, number, head, base) = diverged(kind).await;
    fixture.host.delete_branch("feature/x").await.unwrap();
    let found = fixture.host.pull_request(number).await.unwrap().unwrap();
    assert_eq!((found.state, &found.head_commit), (PullRequestState::Closed, &head));
    failed(fixture.host.merge(number, &how(MergeMethod::Merge, &head)).await, Reason::NotMergeable);
    assert_eq!(fixture.commit("main"), base);
}

async fn merge_by_a_person_is_recognized(kind: Kind) {
    let (fixture, number, head, _) = diverged(kind).await;
    if kind == Kind::LocalTree {
        fixture.repository.run(&["merge", "--quiet", "--no-ff", "feature/x"]);
    } else {
        fixture.push_main(&[], "Prepare");
        fixture.clone.run(&["merge", "--quiet", "--no-ff", "feature/x"]);
        fixture.clone.run(&["push", "--quiet", "origin", "main"]);
    }
    let found = fixture.host.pull_request(number).await.unwrap().unwrap();
    assert!(matches!(found.state, PullRequestState::Merged { .. }), "{found:?}");
    assert!(fixture.host.merge(number, &how(MergeMethod::Squash, &head)).await.is_ok());
}

async fn branch_of_a_merged_pull_request_can_be_proposed_again(kind: Kind) {
    let (fixture, number, head, _) = diverged(kind).await;
    fixture.host.merge(number, &how(MergeMethod::Squash, &head)).await.unwrap();
    let newer = fixture.push("feature/x", &[("three", "3")], "Third");
    let again = fixture.propose("feature/x").await;
    assert!(again.number > number && again.head_commit == newer, "{again:?}");
    let first = fixture.host.pull_request(number).await.unwrap().unwrap();
    assert!(matches!(first.state, PullRequestState::Merged { .. }), "{first:?}");
}
