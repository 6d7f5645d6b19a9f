//! Which files of several branches conflict.

use crate::for_every_code_host;
use crate::support::{Fixture, Kind};
use code_hosts::{Conflicts, PullRequestState};

/// `one` and `two` change the same line, `other` changes another file, and the base has changed a file of `behind`.
async fn branches(kind: Kind) -> (Fixture, Vec<String>) {
    let fixture = Fixture::new(kind).await;
    for (branch, file, text) in [
        ("work/one", "lines", "mine\n"),
        ("work/two", "lines", "yours\n"),
        ("work/other", "other", "x\n"),
        ("work/behind", "README.md", "Shop, mine\n"),
    ] {
        fixture.push(branch, &[(file, text)], branch);
    }
    fixture.push_main(&[("README.md", "Shop, theirs\n")], "Meanwhile");
    let heads = ["work/one", "work/two", "work/other", "work/behind"].map(str::to_owned).to_vec();
    (fixture, heads)
}

fn pairs(found: &Conflicts) -> Vec<(usize, Option<usize>, Vec<&str>)> {
    let files = |pair: &code_hosts::ConflictingPair| (pair.one, pair.other);
    found
        .pairs
        .iter()
        .map(|pair| {
            let (one, other) = files(pair);
            (one, other, pair.files.iter().map(|file| file.path.as_str()).collect())
        })
        .collect()
}

async fn files_that_contradict_each_other_are_named(kind: Kind) {
    let (fixture, heads) = branches(kind).await;
    let before = fixture.repository.refs();
    let found = fixture.host.conflicts("main", &heads).await.unwrap();
    assert_eq!(pairs(&found), [(0, Some(1), vec!["lines"]), (3, None, vec!["README.md"])]);
    assert_eq!(fixture.repository.refs(), before, "nothing is changed");
    assert!(fixture.host.conflicts("main", &[]).await.unwrap().pairs.is_empty());
}

for_every_code_host! {
    files_that_contradict_each_other_are_named,
}

#[tokio::test]
async fn trial_merge_shows_the_hunks() {
    let (fixture, heads) = branches(Kind::LocalTree).await;
    let found = fixture.host.conflicts("main", &heads[3..]).await.unwrap();
    let hunks = found.pairs[0].files[0].hunks.as_deref().unwrap();
    assert!(
        hunks.starts_with("@@ line 1 @@\n<<<<<<< ") && hunks.contains("Shop, theirs\n=======\nShop, mine\n"),
        "{hunks}"
    );
    assert!(!found.estimated);
}

/// The reason why an estimate only orders branches and refuses none.
#[tokio::test]
async fn estimate_of_github_may_name_files_that_merge() {
    let fixture = Fixture::new(Kind::GitHubToken).await;
    let lines: String = (1..=30).map(|number| format!("line {number}\n")).collect();
    fixture.push("work/top", &[("lines", &format!("top\n{lines}"))], "Top");
    fixture.push_main(&[("lines", &format!("{lines}bottom\n"))], "Bottom");
    let found = fixture.host.conflicts("main", &["work/top".to_owned()]).await.unwrap();
    assert_eq!((pairs(&found), found.estimated), (vec![(0, None, vec!["lines"])], true));
    let pull = fixture.propose("work/top").await;
    let pull = fixture.host.pull_request(pull.number).await.unwrap().unwrap();
    assert_eq!((pull.state, pull.mergeable), (PullRequestState::Open, Some(true)));
}
