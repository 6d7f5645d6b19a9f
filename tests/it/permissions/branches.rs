//! Scenarios for the functions that work with code hosts, on a repository of this machine.

use super::CallRecorder;
use super::provisioning::{InstantProvider, emit, process, provision, reconcile, run_job};
use crate::harness::{body_of, keys};
use crate::payloads::{request, request_with};
use crate::support::OPERATOR;
use app::orchestration::WorkerVariables;
use app::webhooks::GITHUB_SECRET;
use contract::jobs::Job;
use domain::{OrgId, TaskId, TicketId, Timestamp};
use edge::auth::Authenticator;
use edge::{Plane, Settings};
use kit::git::Repository;
use kit::github::{Webhook, webhooks};
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
    let rounds = request("POST", &path("feedback-rounds"), OPERATOR, None);
    recorder.request(&process, "tasks-request-feedback", &rounds, 200).await;
    let outdated = json!({"commit": "0123456789012345678901234567890123456789"});
    for (body, status) in [(Some(&outdated), 409), (None, 200), (None, 200)] {
        let merge = request("POST", &path("merge"), OPERATOR, body);
        recorder.request(&process, "tasks-merge", &merge, status).await;
    }
    recorder.request(&process, "tasks-pull-request", &read, 200).await;
    workflow(recorder, &process, &repository).await;
    ticket_merge(recorder, &process, &repository).await;
    let list = request("GET", "/api/v1/repositories?query=shop", OPERATOR, None);
    recorder.request(&process, "repositories-list", &list, 200).await;
    let of_repository = repository.path().display();
    let branches = format!("/api/v1/repositories/branches?repository={of_repository}");
    let branches = request("GET", &branches, OPERATOR, None);
    recorder.request(&process, "repositories-branches", &branches, 200).await;
    webhook(recorder).await;
}

/// All finished branches of a ticket.
async fn ticket_merge(recorder: &mut CallRecorder, process: &Arc<Plane>, repository: &Repository) {
    let ticket =
        json!({"org": "acme", "ticket_id": "k-merge", "title": "Greet in Dutch", "check_duplicates": false});
    let create = request("POST", "/api/v1/tickets", OPERATOR, Some(&ticket));
    recorder.request(process, "tickets-create", &create, 201).await;
    let merge = |ticket: &str| request("POST", &format!("/api/v1/tickets/{ticket}/merge"), OPERATOR, None);
    for (ticket, status) in [("k-merge", 409), ("missing", 404)] {
        recorder.request(process, "tickets-merge", &merge(ticket), status).await;
    }
    let task = TaskId::parse("t-merge").unwrap();
    let body = json!({
        "org": "acme", "ticket_id": "k-merge", "task_id": task, "title": "Add a Dutch greeting",
        "repository": repository.path().to_str(),
    });
    recorder
        .request(process, "tasks-create", &request("POST", "/api/v1/tasks", OPERATOR, Some(&body)), 201)
        .await;
    run_job(recorder, process, &Job::Dispatch { org: OrgId::parse("acme").unwrap() }).await;
    let sandbox = provision(recorder, process, &task).await;
    let stored = recorder.harness.aws.store.task(&task).await.unwrap().unwrap();
    repository.commit_on(&stored.branch.unwrap().name, "dag.txt", "dag\n");
    emit(recorder, process, &sandbox, "agent.heartbeat", json!({"status": "working"})).await;
    emit(recorder, process, &sandbox, "agent.completed", json!({"success": true})).await;
    reconcile(recorder, process, &sandbox).await;
    // The second request finds the merge that the first one has started.
    for _ in 0..2 {
        recorder.request(process, "tickets-merge", &merge("k-merge"), 200).await;
    }
    let job = Job::ReconcileTicket { ticket_id: TicketId::parse("k-merge").unwrap() };
    for _ in 0..2 {
        run_job(recorder, process, &job).await;
    }
    assert_eq!(repository.file_on("main", "dag.txt").as_deref(), Some("dag\n"));
}

/// The same with the requests of OmoiOS, which name a ticket.
async fn workflow(recorder: &mut CallRecorder, process: &Arc<Plane>, repository: &Repository) {
    let ticket = json!({
        "org": "acme", "ticket_id": "k-workflow", "title": "Greet in French", "check_duplicates": false,
        "repository": repository.path().to_str(),
    });
    let create = request("POST", "/api/v1/tickets", OPERATOR, Some(&ticket));
    recorder.request(process, "tickets-create", &create, 201).await;
    let of_ticket = json!({"ticket_id": "k-workflow", "user_id": "u-1"});
    let post = |verb: &str, body: &serde_json::Value| {
        request("POST", &format!("/api/v1/branch-workflow/{verb}"), OPERATOR, Some(body))
    };
    // The second response is that of the first.
    let mut branch = String::new();
    for _ in 0..2 {
        let started =
            recorder.request(process, "branch-workflow-start", &post("start", &of_ticket), 200).await;
        branch = body_of(&started)["branch_name"].as_str().unwrap().to_owned();
    }
    repository.commit_on(&branch, "bonjour.txt", "bonjour\n");
    let status = "/api/v1/branch-workflow/status?ticket_id=k-workflow";
    let status = request("GET", status, OPERATOR, None);
    recorder.request(process, "branch-workflow-status", &status, 200).await;
    recorder.request(process, "branch-workflow-finish", &post("finish", &of_ticket), 200).await;
    recorder.request(process, "branch-workflow-merge", &post("merge", &of_ticket), 200).await;
    for verb in ["start", "finish", "merge"] {
        let unknown = post(verb, &json!({"task_id": "missing"}));
        recorder.request(process, &format!("branch-workflow-{verb}"), &unknown, 404).await;
    }
}

/// Arrives twice.
async fn webhook(recorder: &mut CallRecorder) {
    let (aws, clock, ids) =
        (&recorder.harness.aws, recorder.harness.clock.clone(), recorder.harness.ids.clone());
    let mut settings = Settings::default();
    let secrets = [(GITHUB_SECRET.to_owned(), "secret".to_owned())];
    settings.orchestration.worker_variables = WorkerVariables::shared(secrets.into());
    let authenticator = Authenticator::new(&keys(), clock.clone());
    let process =
        Arc::new(Plane::new(aws.store.clone(), aws.bindings(), authenticator, clock, ids, settings));
    let body = webhooks::review_submitted("https://github.com/acme/shop.git", 7);
    for _ in 0..2 {
        let webhook = Webhook::new("pull_request_review", "d-1", &body, "secret");
        let path = "/api/v1/webhooks/github";
        let payload = request_with("POST", path, "none", Some(&body), &webhook.headers());
        recorder.request(&process, "webhooks-github", &payload, 202).await;
    }
    let job = Job::PullRequestChanged {
        repository: "github.com/acme/shop".to_owned(),
        number: 7,
        org: None,
        at: Timestamp::from_secs(0),
    };
    let provider = Arc::new(InstantProvider::default());
    let process = super::provisioning::process(recorder, &provider);
    run_job(recorder, &process, &job).await;
}
