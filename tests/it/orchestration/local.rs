//! scratch
use crate::support::{OPERATOR, TestPlane};
use domain::task::{Execution, Priority, Status, Task};
use domain::{OrgId, Timestamp};
use std::time::Duration;
use store::commit::{Change, Commit};

#[tokio::test(flavor = "multi_thread")]
async fn scratch() {
    let plane = TestPlane::start_with(|dev| dev.sandboxes.agent = Some("scripted:hello".into())).await;
    let now = Timestamp::from_micros(
        i64::try_from(
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros(),
        )
        .unwrap(),
    );
    let task = Task {
        id: app::ids::task(),
        org: OrgId::parse("default").unwrap(),
        ticket: None,
        project: None,
        task_type: "implement_feature".into(),
        title: "x".into(),
        description: "say hello".into(),
        phase: "PHASE_IMPLEMENTATION".into(),
        priority: Priority::Medium,
        status: Status::Pending,
        created_at: now,
        updated_at: now,
        started_at: None,
        completed_at: None,
        since: now,
        depends_on: vec![],
        unmet: 0,
        dependents: 0,
        place: None,
        attempt: 0,
        sandbox: None,
        retry_count: 0,
        max_retries: 3,
        not_before: None,
        timeout_secs: None,
        deadline_at: None,
        validation: false,
        feedback: None,
        revisions: 0,
        result: None,
        error: None,
        execution: Execution::default(),
        digest: None,
        version: 0,
        seq: 0,
        segments: 0,
    };
    let id = task.id.clone();
    let moved = task.created(&domain::score::Weights::default(), now);
    let events: Vec<_> = moved
        .told
        .into_iter()
        .map(|told| domain::ingest::NewEvent {
            id: app::ids::event(),
            event_type: told.event_type,
            source: domain::Source::System,
            data: told.data,
            emitted_at: None,
        })
        .collect();
    let mut commit = Commit::new(now);
    commit.tasks.push(Change { before: None, after: moved.task, events });
    let store = &plane.running.aws.store;
    dbg!(store.commit(commit).await.unwrap());
    let begun = std::time::Instant::now();
    plane
        .running
        .aws
        .work
        .send(
            &contract::jobs::Job::Dispatch { org: OrgId::parse("default").unwrap() }.encode(),
            Duration::ZERO,
        )
        .await
        .unwrap();
    loop {
        let task = store.task(&id).await.unwrap().unwrap();
        eprintln!("{:?} {:?} {:?}", begun.elapsed(), task.status, task.sandbox);
        if task.status.is_final() || begun.elapsed() > Duration::from_secs(60) {
            tokio::time::sleep(Duration::from_secs(3)).await;
            for event in plane.log(task.sandbox.as_ref().unwrap().as_str()).await {
                eprintln!("{} {} {}", event["seq"], event["event_type"], event["created_at"]);
            }
            eprintln!(
                "{:#}",
                plane.get(&format!("/api/v1/sandboxes/{}", task.sandbox.unwrap()), OPERATOR).await.ok()
            );
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
