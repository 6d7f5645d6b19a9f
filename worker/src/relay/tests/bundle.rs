use super::support::{BRANCH, Host};
use super::{clone, commit};

#[tokio::test]
async fn commits_that_the_host_does_not_have_are_a_bundle_and_a_patch() {
    let host = Host::new();
    let served = host.serve().await;
    served.relay.prepare().await.unwrap();
    assert_eq!(served.relay.unpushed().await, None);
    let root = clone(&host, &served).await;
    commit(&served, &root, "first").await;
    let head = commit(&served, &root, "second").await;
    // Nothing is pushed to the host in this test.
    served.agent_text(&root, &["push", "--quiet", "origin", BRANCH]).await;
    assert_eq!(served.relay.unpushed().await, Some(head.clone()));
    let (bundle, patch) = (host.path("commits.bundle"), host.path("commits.patch"));
    served.relay.write_bundle(&bundle).await.unwrap();
    served.relay.write_patch(&patch).await.unwrap();
    host.git("person", &["fetch", "--quiet", bundle.to_str().unwrap(), BRANCH]);
    assert_eq!(host.git("person", &["rev-parse", "FETCH_HEAD"]), head);
    host.git("person", &["apply", patch.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(host.path("person/second")).unwrap(), "second");
}
