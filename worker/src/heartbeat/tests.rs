//! A worker says that it lives.

use super::*;
use crate::fake_plane::FakePlane;
use crate::outbox;

#[tokio::test]
async fn it_beats_while_the_agent_works_and_at_once_when_that_changes() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let outbox = outbox::tests::open(&plane, dir.path());
    let (vitals, pulse) = watch::channel(Vitals::default());
    let beating = tokio::spawn(run(plane.once(), outbox, pulse, Duration::from_millis(20)));
    let statuses = |inner: &crate::fake_plane::Inner| -> Vec<String> {
        inner.singles.iter().map(|(_, data)| data["status"].as_str().unwrap().to_owned()).collect()
    };
    plane.until("three beats", |inner| statuses(inner).len() >= 3).await;
    vitals.send_replace(Vitals {
        status: Status::Working,
        turns: 3,
        cost_usd: 0.5,
        progress: 2,
        agent_memory_bytes: Some(7),
    });
    plane.until("work", |inner| statuses(inner).last().is_some_and(|status| status == "working")).await;
    {
        let inner = plane.inner();
        let (kind, data) = inner.singles.last().unwrap();
        assert_eq!(kind, "agent.heartbeat");
        assert_eq!((&data["turns"], &data["agent_memory_bytes"]), (&json!(3), &json!(7)));
        assert!(data["memory_bytes"].as_u64().unwrap() > 100_000);
    }
    // That something goes on is told once.
    let told = |inner: &crate::fake_plane::Inner| {
        let beats: Vec<bool> = inner.singles.iter().map(|(_, data)| data["progressed"] == true).collect();
        (beats.iter().filter(|progressed| **progressed).count(), beats.last() == Some(&false))
    };
    plane.until("progress is told once", |inner| told(inner) == (1, true)).await;
    // One that is not heard is no reason to stop.
    plane.inner().broken.push(("/events", 503));
    vitals.send_replace(Vitals { status: Status::Waiting, ..Vitals::default() });
    plane.until("a beat is refused", |inner| inner.refused >= 1).await;
    plane.inner().broken.clear();
    plane.until("waiting", |inner| statuses(inner).last().is_some_and(|status| status == "waiting")).await;
    drop(vitals);
    tokio::time::timeout(Duration::from_secs(60), beating).await.unwrap().unwrap();
}
