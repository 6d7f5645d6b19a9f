use super::*;
use crate::fake_plane::FakePlane;
use crate::outbox;
use serde_json::json;

#[tokio::test]
async fn heartbeats_are_periodic_and_follow_status_changes() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let outbox = outbox::tests::open(&plane, dir.path());
    let (state, receiver) = watch::channel(AgentState::default());
    let heartbeats = tokio::spawn(run(plane.api(), outbox, receiver, Duration::from_millis(20)));
    let statuses = |inner: &crate::fake_plane::Inner| -> Vec<String> {
        inner.singles.iter().map(|(_, data)| data["status"].as_str().unwrap().to_owned()).collect()
    };
    plane.until("three heartbeats", |inner| statuses(inner).len() >= 3).await;
    state.send_replace(AgentState {
        status: Status::Working,
        turns: 3,
        cost_usd: 0.5,
        progress: 2,
        agent_memory_bytes: Some(7),
    });
    plane.until("working", |inner| statuses(inner).last().is_some_and(|status| status == "working")).await;
    {
        let inner = plane.inner();
        let (kind, data) = inner.singles.last().unwrap();
        assert_eq!(kind, "agent.heartbeat");
        assert_eq!((&data["turns"], &data["agent_memory_bytes"]), (&json!(3), &json!(7)));
        assert!(data["memory_bytes"].as_u64().unwrap() > 100_000);
    }
    // Progress is reported once.
    let progress_reports = |inner: &crate::fake_plane::Inner| {
        let heartbeats: Vec<bool> =
            inner.singles.iter().map(|(_, data)| data["progressed"] == true).collect();
        (heartbeats.iter().filter(|progressed| **progressed).count(), heartbeats.last() == Some(&false))
    };
    plane.until("one progress report", |inner| progress_reports(inner) == (1, true)).await;
    // A failed heartbeat does not stop the loop.
    plane.inner().broken.push(("/events", 503));
    state.send_replace(AgentState { status: Status::Waiting, ..AgentState::default() });
    plane.until("a refused heartbeat", |inner| inner.refused >= 1).await;
    plane.inner().broken.clear();
    plane.until("waiting", |inner| statuses(inner).last().is_some_and(|status| status == "waiting")).await;
    drop(state);
    tokio::time::timeout(Duration::from_secs(60), heartbeats).await.unwrap().unwrap();
}
