//! The contract of [`CodeHost`]: repository and branches. Each promise is checked for each kind.

use crate::support::{Fixture, Git, Kind, TOKEN, failed, request};
use code_hosts::{Base, Check, CheckState, Creation, Merge, MergeMethod, Reason, Status};
use futures_util::future::join_all;
use kit::github::{Fault, Faults, Operation, Options};
use std::collections::BTreeSet;

/// One test for each promise and kind: `contract::local_bare::<promise>`.
#[macro_export]
macro_rules! for_every_code_host {
    ($($promise:ident),* $(,)?) => {
        mod local_bare { $($crate::test_of_kind!(LocalBare, $promise);)* }
        mod local_tree { $($crate::test_of_kind!(LocalTree, $promise);)* }
        mod github_token { $($crate::test_of_kind!(GitHubToken, $promise);)* }
        mod github_app { $($crate::test_of_kind!(GitHubApp, $promise);)* }
    };
}

#[macro_export]
macro_rules! test_of_kind {
    ($kind:ident, $promise:ident) => {
        #[tokio::test]
        async fn $promise() {
            super::$promise($crate::support::Kind::$kind).await;
        }
    };
}

for_every_code_host! {
    check_finds_the_default_branch_and_others,
    check_names_what_is_missing,
    one_of_concurrent_calls_creates_a_branch,
    existing_branch_is_left_as_it_is,
    branch_beside_a_branch_of_the_same_folder_is_refused,
    names_with_unusual_characters_are_kept,
    invalid_names_are_refused,
    every_branch_is_listed,
    deletion_is_idempotent,
    git_fetches_and_pushes_with_the_access,
    last_report_of_a_name_counts,
    secrets_are_in_no_debug_output_and_no_failure,
}

async fn check_finds_the_default_branch_and_others(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let commit = fixture.push("release", &[("new", "x")], "Release");
    let main = Base { branch: "main".to_owned(), commit: fixture.commit("main") };
    assert_eq!(fixture.host.check(None).await.unwrap(), main);
    assert_eq!(fixture.host.check(Some("main")).await.unwrap(), main);
    let release = Base { branch: "release".to_owned(), commit };
    assert_eq!(fixture.host.check(Some("release")).await.unwrap(), release);
}

async fn check_names_what_is_missing(kind: Kind) {
    let fixture = Fixture::empty(kind, Options::default()).await;
    failed(fixture.host.check(None).await, Reason::EmptyRepository);
    failed(fixture.host.check(Some("main")).await, Reason::EmptyRepository);
    assert_eq!(fixture.host.branches().await.unwrap(), []);
    assert_eq!(fixture.host.branch("main").await.unwrap(), None);

    let fixture = Fixture::new(kind).await;
    let failure = failed(fixture.host.check(Some("release")).await, Reason::BaseMissing);
    assert!(failure.message.contains("release"), "{failure}");
    assert!(!failure.reason.is_transient());
    // The beginning of a name is not the name.
    failed(fixture.host.check(Some("mai")).await, Reason::BaseMissing);
}

async fn one_of_concurrent_calls_creates_a_branch(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let main = fixture.commit("main");
    let hosts: Vec<_> = (0..5).map(|_| fixture.reopened()).collect();
    let calls = hosts.iter().map(|host| host.create_branch("feature/x", &main));
    let created: Vec<Creation> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
    let exists = Creation::Exists { commit: main.clone() };
    assert_eq!(created.iter().filter(|creation| **creation == Creation::Created).count(), 1, "{created:?}");
    assert!(created.iter().all(|creation| [&Creation::Created, &exists].contains(&creation)), "{created:?}");
    assert_eq!(fixture.commit("feature/x"), main);
}

async fn existing_branch_is_left_as_it_is(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let commit = fixture.push("feature/x", &[("new", "x")], "Work");
    let created = fixture.host.create_branch("feature/x", &fixture.commit("main")).await.unwrap();
    assert_eq!(created, Creation::Exists { commit: commit.clone() });
    assert_eq!(fixture.host.branch("feature/x").await.unwrap(), Some(commit.clone()));
    assert_eq!(fixture.commit("feature/x"), commit);
    failed(fixture.host.create_branch("feature/y", &"0a".repeat(20)).await, Reason::NotFound);
    assert_eq!(fixture.host.branch("feature/y").await.unwrap(), None);
}

async fn branch_beside_a_branch_of_the_same_folder_is_refused(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let main = fixture.commit("main");
    fixture.host.create_branch("feature/x", &main).await.unwrap();
    failed(fixture.host.create_branch("feature", &main).await, Reason::Invalid);
    failed(fixture.host.create_branch("feature/x/y", &main).await, Reason::Invalid);
}

async fn names_with_unusual_characters_are_kept(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let main = fixture.commit("main");
    for name in ["feature/ü", "fix/100%25-cpu", "a&b=c#d+e", "name/日本", "it's"] {
        assert_eq!(fixture.host.create_branch(name, &main).await.unwrap(), Creation::Created, "{name}");
        assert_eq!(fixture.host.branch(name).await.unwrap(), Some(main.clone()), "{name}");
        assert_eq!(fixture.commit(name), main);
        assert!(fixture.host.branches().await.unwrap().iter().any(|branch| branch.name == name), "{name}");
        let commit = fixture.push(name, &[("new", name)], "Work");
        assert_eq!(fixture.host.compare("main", name).await.unwrap().ahead, 1, "{name}");
        let proposed = fixture.propose(name).await;
        assert_eq!((proposed.branch.as_str(), &proposed.head_commit), (name, &commit));
        assert_eq!(fixture.propose(name).await.number, proposed.number, "{name}");
        fixture.host.delete_branch(name).await.unwrap();
        assert_eq!(fixture.host.branch(name).await.unwrap(), None, "{name}");
    }
}

async fn invalid_names_are_refused(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let main = fixture.commit("main");
    for name in ["", "a b", "-d", "--all", "a..b", "x~1", "refs^", "a:b", "a.lock", "/a", "@{u}", "HEAD"] {
        failed(fixture.host.check(Some(name)).await, Reason::Invalid);
        failed(fixture.host.branch(name).await, Reason::Invalid);
        failed(fixture.host.create_branch(name, &main).await, Reason::Invalid);
        failed(fixture.host.delete_branch(name).await, Reason::Invalid);
        failed(fixture.host.propose(&request(name)).await, Reason::Invalid);
        failed(fixture.host.compare("main", name).await, Reason::Invalid);
        failed(fixture.host.compare(name, "main").await, Reason::Invalid);
    }
    for commit in ["", "main", "HEAD", &main[..12], "--help"] {
        failed(fixture.host.create_branch("x", commit).await, Reason::Invalid);
        failed(fixture.host.checks(commit).await, Reason::Invalid);
        let merge = Merge { method: MergeMethod::Merge, head: commit.to_owned(), title: None };
        failed(fixture.host.merge(1, &merge).await, Reason::Invalid);
    }
}

async fn every_branch_is_listed(kind: Kind) {
    let options = Options { page: 10, ..Options::default() };
    let fixture = Fixture::with_options(kind, options).await;
    let main = fixture.commit("main");
    let names: BTreeSet<String> = (0..35).map(|number| format!("work/{number}")).collect();
    for name in &names {
        fixture.repository.run(&["update-ref", &format!("refs/heads/{name}"), &main]);
    }
    fixture.repository.run(&["update-ref", "refs/tags/v1", &main]);
    let listed = fixture.host.branches().await.unwrap();
    assert!(listed.is_sorted_by(|one, other| one.name < other.name));
    assert!(listed.iter().all(|branch| branch.commit == main));
    let found: BTreeSet<String> = listed.into_iter().map(|branch| branch.name).collect();
    assert_eq!(found, names.into_iter().chain(["main".to_owned()]).collect());
}

async fn deletion_is_idempotent(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    fixture.host.delete_branch("never/existed").await.unwrap();
    fixture.host.create_branch("feature/x", &fixture.commit("main")).await.unwrap();
    for _ in 0..2 {
        fixture.host.delete_branch("feature/x").await.unwrap();
        assert_eq!(fixture.host.branch("feature/x").await.unwrap(), None);
    }
    assert_eq!(fixture.host.branches().await.unwrap().len(), 1);
}

async fn git_fetches_and_pushes_with_the_access(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let access = fixture.host.git_access().await.unwrap();
    assert!(!access.url.contains('@'), "{access:?}");
    let mut url = access.url.clone();
    if let (Some(user), Some(token)) = (&access.username, &access.token) {
        url = url.replacen("://", &format!("://{user}:{}@", token.reveal()), 1);
    }
    // It blocks, and the fake needs this thread.
    let (clone, target) = (fixture.clone.clone(), fixture.folder().join("other"));
    let pushed = tokio::task::spawn_blocking(move || {
        clone.run(&["clone", "--quiet", &url, target.to_str().unwrap()]);
        let other = Git(target);
        let commit = other.commit(&[("new", "x")], "Work");
        other.run(&["push", "--quiet", "origin", "HEAD:refs/heads/feature/x"]);
        commit
    });
    let commit = pushed.await.unwrap();
    assert_eq!(fixture.host.branch("feature/x").await.unwrap(), Some(commit));
}

async fn last_report_of_a_name_counts(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let main = fixture.commit("main");
    assert_eq!(fixture.host.checks(&main).await.unwrap(), []);
    let report = |name: &str, state, summary: &str| Status {
        name: name.to_owned(),
        state,
        summary: summary.to_owned(),
        url: Some("https://plane.example/tasks/1".to_owned()),
    };
    for (name, state, summary) in [
        ("sunaba", CheckState::Pending, "Working"),
        ("other & more", CheckState::Failure, "Failed"),
        ("sunaba", CheckState::Success, "Done"),
        ("sunaba", CheckState::Pending, "Second round"),
        ("sunaba", CheckState::Failure, "Failed again"),
    ] {
        let host = fixture.reopened();
        host.report_status(&main, &report(name, state, summary)).await.unwrap();
        let checks = host.checks(&main).await.unwrap();
        let url = Some("https://plane.example/tasks/1".to_owned());
        let (name, summary) = (name.to_owned(), Some(summary.to_owned()));
        assert!(checks.contains(&Check { name, state, summary, url }), "{checks:?}");
    }
    let checks = fixture.host.checks(&main).await.unwrap();
    assert_eq!(
        checks.iter().map(|check| check.name.as_str()).collect::<Vec<_>>(),
        ["other & more", "sunaba"]
    );
    let unknown = "0a".repeat(20);
    failed(fixture.host.checks(&unknown).await, Reason::NotFound);
    let status = report("sunaba", CheckState::Success, &"long ".repeat(100));
    failed(fixture.host.report_status(&unknown, &status).await, Reason::NotFound);
    fixture.host.report_status(&main, &status).await.unwrap();
}

async fn secrets_are_in_no_debug_output_and_no_failure(kind: Kind) {
    let fixture = Fixture::new(kind).await;
    let access = fixture.host.git_access().await.unwrap();
    let secret = access.token.as_ref().map_or(TOKEN, |token| token.reveal());
    let mut shown = vec![format!("{:?} {access:?}", fixture.host)];
    shown.push(format!("{:?}", fixture.host.check(Some("missing")).await.unwrap_err()));
    if let Some(fake) = &fixture.fake {
        // A server that repeats the credential.
        let message = "Bad token {credential}".to_owned();
        for operation in [Operation::Branches, Operation::CreateToken, Operation::Installation] {
            let fault = Fault::Rejected { status: 400, message: message.clone() };
            fake.set_faults(Faults::none().once(operation, fault));
            // Without a cached token.
            let failure = fixture.reopened().branches().await;
            let is_sent = operation == Operation::Branches || kind == Kind::GitHubApp;
            assert_eq!(failure.is_err(), is_sent, "{failure:?}");
            shown.extend(failure.err().map(|failure| format!("{failure} {failure:?}")));
        }
        let sent = fake.requests().into_iter().filter_map(|request| request.credential);
        for credential in sent {
            assert!(!shown.iter().any(|text| text.contains(&credential)), "{shown:?}");
        }
    }
    for text in shown {
        assert!(!text.contains(secret) && !text.contains("PRIVATE KEY"), "{text}");
    }
}
