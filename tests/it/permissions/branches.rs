//! Scenarios for the functions that work with code hosts, on a repository of this machine.

use super::CallRecorder;
use super::provisioning::{InstantProvider, emit, process, provision, reconcile, run_job};
use crate::payloads::request;
use crate::support::OPERATOR;
use contract::jobs::Job;
use domain::{OrgId, TaskId};
use kit::git::Repository;
use serde_json::json;
use std::sync::Arc;

pub(super) async fn branches(recorder: &mut CallRecorder) {
    let process = process(recorder, &Arc::new(InstantProvider::default()));
    let repository = Repository::with_one_commit();
    let task = TaskId::parse("t-branch").unwrap();
    let body = json!({
        "org": "acme", "task_id": task, "title": "Fix the greeting", "repository": repository.path().to_str(),
    });
    let create = request("POST", "/api/v1/tasks", OPERATOR, Some(&body));
    recorder.request(&process, "tasks-create", &create, 201).await;
    run_job(recorder, &process, &Job::Dispatch { org: OrgId::parse("acme").unwrap() }).await;
    let sandbox = provision(recorder, &process, &task).await;
    let access = |id: &str| request("POST", &format!("/api/v1/sandboxes/{id}/git-access"), OPERATOR, None);
    for (id, status) in [(sandbox.as_str(), 200), ("s-1", 409), ("missing", 404)] {
        recorder.request(&process, "sandboxes-git-access", &access(id), status).await;
    }

    let stored = recorder.harness.aws.store.task(&task).await.unwrap().unwrap();
    let branch = stored.branch.expect("the branch is created before the sandbox").name;
    assert_eq!(branch, "fix/t-branch-fix-the-greeting");
    repository.commit_on(&branch, "greeting.txt", "hello\n");
    emit(recorder, &process, &sandbox, "agent.heartbeat", json!({"status": "working"})).await;
    emit(recorder, &process, &sandbox, "agent.completed", json!({"success": true})).await;
    reconcile(recorder, &process, &sandbox).await;

    let path = |action: &str| format!("/api/v1/tasks/t-branch/{action}");
    recorder.request(&process, "tasks-diff", &request("GET", &path("diff"), OPERATOR, None), 200).await;
    let read = request("GET", &path("pull-request"), OPERATOR, None);
    recorder.request(&process, "tasks-pull-request", &read, 200).await;
    // A further commit, so that the plane records it.
    repository.commit_on(&branch, "greeting.txt", "hello world\n");
    let open = request("POST", &path("pull-request"), OPERATOR, None);
    recorder.request(&process, "tasks-open-pull-request", &open, 200).await;
    let outdated = json!({"commit": "0123456789012345678901234567890123456789"});
    for (body, status) in [(Some(&outdated), 409), (None, 200), (None, 200)] {
        let merge = request("POST", &path("merge"), OPERATOR, body);
        recorder.request(&process, "tasks-merge", &merge, status).await;
    }
    recorder.request(&process, "tasks-pull-request", &read, 200).await;
}
