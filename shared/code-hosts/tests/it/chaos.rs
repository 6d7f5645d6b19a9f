//! Faults at random: whatever is lost, retries lead to one branch, one pull request and one merge.

use crate::support::{Fixture, Kind, NAME, request};
use code_hosts::{CheckState, Creation, Failure, Merge, MergeMethod, Status};
use kit::github::Faults;
use std::fmt::Debug;

const SEEDS: u64 = 12;
const PERCENT: u32 = 40;
const MAX_ATTEMPTS: u32 = 50;

/// Repeats a call while its failure is transient.
async fn retried<T: Debug>(mut call: impl AsyncFnMut() -> Result<T, Failure>) -> T {
    for _ in 0..MAX_ATTEMPTS {
        match call().await {
            Err(failure) if failure.reason.is_transient() => {}
            result => return result.unwrap(),
        }
    }
    panic!("{MAX_ATTEMPTS} attempts failed");
}

async fn survives(kind: Kind, seed: u64) {
    let fixture = Fixture::new(kind).await;
    let (host, fake) = (&fixture.host, fixture.fake());
    fake.set_faults(Faults::none().at_random(seed, PERCENT));
    let base = retried(async || host.check(None).await).await;
    let created = retried(async || host.create_branch("feature/x", &base.commit).await).await;
    let is_ours = created == Creation::Created || created == Creation::Exists { commit: base.commit.clone() };
    assert!(is_ours, "{created:?}");
    let head = fixture.push("feature/x", &[("new", "x")], "Work");
    let request = request("feature/x");
    let number = retried(async || host.propose(&request).await).await.number;
    assert_eq!(retried(async || host.propose(&request).await).await.number, number);
    let (name, summary) = ("sunaba".to_owned(), "Done".to_owned());
    let status = Status { name, state: CheckState::Success, summary, url: None };
    retried(async || host.report_status(&head, &status).await).await;
    assert_eq!(retried(async || host.checks(&head).await).await.len(), 1);
    let merge = Merge { method: MergeMethod::Squash, head, title: None };
    let merged = retried(async || host.merge(number, &merge).await).await;
    assert_eq!(retried(async || host.merge(number, &merge).await).await, merged);
    retried(async || host.delete_branch("feature/x").await).await;

    assert_eq!(fake.pull_requests(NAME).len(), 1);
    assert_eq!(fixture.commit("main"), merged.commit);
    assert_eq!(fixture.repository.subjects("main").len(), 2, "one merge");
    assert_eq!(
        fixture.repository.run(&["for-each-ref", "--format=%(refname)", "refs/heads"]),
        "refs/heads/main"
    );
}

#[tokio::test]
async fn random_faults_leave_one_pull_request_and_one_merge_with_a_token() {
    for seed in 0..SEEDS {
        survives(Kind::GitHubToken, seed).await;
    }
}

#[tokio::test]
async fn random_faults_leave_one_pull_request_and_one_merge_with_an_app() {
    for seed in 0..SEEDS {
        survives(Kind::GitHubApp, seed).await;
    }
}
