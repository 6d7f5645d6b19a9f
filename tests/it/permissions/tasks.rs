//! Scenarios for the functions of the task API and of monitoring.

use super::provisioning::{InstantProvider, emit, process, provision, reconcile, run_job};
use super::{CallRecorder, get};
use crate::harness::body_of;
use crate::payloads::request;
use crate::support::OPERATOR;
use contract::jobs::Job;
use domain::{OrgId, SandboxId, TaskId};
use edge::Plane;
use serde_json::{Value, json};
use std::sync::Arc;

pub async fn tasks(recorder: &mut CallRecorder) {
    let process = process(recorder, &Arc::new(InstantProvider::default()));
    let mut scenarios = TaskScenarios { recorder, process };
    scenarios.create_tasks().await;
    scenarios.read_tasks().await;
    scenarios.update_tasks().await;
    scenarios.complete_task().await;
    scenarios.change_dependencies().await;
    scenarios.review_results().await;
    scenarios.fail_and_cancel().await;
}

struct TaskScenarios<'a> {
    recorder: &'a mut CallRecorder,
    process: Arc<Plane>,
}

impl TaskScenarios<'_> {
    async fn create_tasks(&mut self) {
        let ticket =
            json!({"org": "acme", "ticket_id": "k-tasks", "title": "Many things", "force_create": true});
        self.post("tickets-create", "/api/v1/tickets", ticket, 201).await;
        self.create(json!({"task_id": "t-1", "ticket_id": "k-tasks"}), 201).await;
        // A retry, an id conflict, a dependency, and a missing dependency.
        self.create(json!({"task_id": "t-1", "ticket_id": "k-tasks"}), 200).await;
        self.create(json!({"task_id": "t-1"}), 409).await;
        self.create(json!({"task_id": "t-2", "depends_on": ["t-1"]}), 201).await;
        self.create(json!({"task_id": "t-3", "depends_on": ["missing"]}), 422).await;
    }

    async fn read_tasks(&mut self) {
        for query in
            ["", "?limit=1", "?status=pending", "?ticket_id=k-tasks", "?sandbox_id=s-1", "?task_type=sandbox"]
        {
            self.get("tasks-list", &format!("/api/v1/tasks{query}"), 200).await;
        }
        for (id, status) in [("t-1", 200), ("missing", 404)] {
            self.get("tasks-get", &format!("/api/v1/tasks/{id}"), status).await;
            self.get("tasks-events", &format!("/api/v1/tasks/{id}/events"), status).await;
            self.get("tasks-dependencies", &format!("/api/v1/tasks/{id}/dependencies"), status).await;
        }
        for (id, status) in [("t-1", 409), ("missing", 404)] {
            self.get("tasks-workspace", &format!("/api/v1/tasks/{id}/workspace"), status).await;
            self.get("tasks-workspace-files", &format!("/api/v1/tasks/{id}/workspace/files"), status).await;
        }
        for query in ["", "?cursor=s-1"] {
            self.get("monitoring-status", &format!("/api/v1/monitoring/status{query}"), 200).await;
        }
        for (id, status) in [("s-1", 200), ("missing", 404)] {
            self.get("monitoring-phase", &format!("/api/v1/sandboxes/{id}/phase-status"), status).await;
        }
    }

    async fn update_tasks(&mut self) {
        let update = |id: &str| {
            let body = json!({"priority": "CRITICAL"});
            request("PATCH", &format!("/api/v1/tasks/{id}"), OPERATOR, Some(&body))
        };
        self.run("tasks-update", &update("t-1"), 200).await;
        self.set_timeout("t-1").await;
        // A task that waits for its retry.
        self.create(json!({"task_id": "t-later"}), 201).await;
        let sandbox = self.start_agent("t-later").await;
        let failed =
            json!({"task_id": "t-later", "success": false, "error_message": "the model is away (503)"});
        self.post("tasks-complete", &format!("/api/v1/sandboxes/{sandbox}/task-complete"), failed, 200).await;
        self.run("tasks-update", &update("t-later"), 200).await;
        self.set_timeout("t-later").await;
        let dependencies = json!({"depends_on": ["t-2"]});
        self.post("tasks-add-dependencies", "/api/v1/tasks/t-later/dependencies", dependencies, 200).await;
    }

    async fn set_timeout(&mut self, id: &str) {
        let path = format!("/api/v1/tasks/{id}/set-timeout");
        self.post("tasks-set-timeout", &path, json!({"timeout_seconds": 600}), 200).await;
    }

    async fn complete_task(&mut self) {
        let sandbox = self.start_agent("t-1").await;
        for (path, status) in [(sandbox.as_str(), 200), ("s-1", 404)] {
            self.get("tasks-of-sandbox", &format!("/api/v1/sandboxes/{path}/task"), status).await;
        }
        let list = format!("/api/v1/tasks?sandbox_id={sandbox}");
        self.get("tasks-list", &list, 200).await;
        self.get("monitoring-status", "/api/v1/monitoring/status", 200).await;
        let path = format!("/api/v1/sandboxes/{sandbox}/task-complete");
        for status in [200, 200] {
            self.post(
                "tasks-complete",
                &path,
                json!({"task_id": "t-1", "result": {"output": "done"}}),
                status,
            )
            .await;
        }
        self.post("tasks-complete", &path, json!({"task_id": "t-2"}), 409).await;
    }

    /// Dependencies change after a task has completed and before its dependents are unblocked.
    async fn change_dependencies(&mut self) {
        for id in ["t-a", "t-b", "t-c"] {
            self.create(json!({"task_id": id}), 201).await;
            self.create(json!({"task_id": format!("{id}-next"), "depends_on": [id]}), 201).await;
            let sandbox = self.start_agent(id).await;
            emit(self.recorder, &self.process, &sandbox, "agent.completed", json!({"success": true})).await;
            reconcile(self.recorder, &self.process, &sandbox).await;
        }
        for id in ["t-x", "t-y", "t-z"] {
            self.create(json!({"task_id": id}), 201).await;
        }
        let path = |id: &str| format!("/api/v1/tasks/{id}/dependencies");
        let on = |ids: &[&str]| json!({"depends_on": ids});
        for (ids, status) in [(["t-a", "t-y"], 200), (["t-a", "missing"], 422), (["t-x", "t-y"], 409)] {
            self.post("tasks-add-dependencies", &path("t-x"), on(&ids), status).await;
        }
        for ids in [vec!["t-b", "t-y"], vec![], vec!["t-y"]] {
            let replace = request("PUT", &path("t-z"), OPERATOR, Some(&on(&ids)));
            self.run("tasks-replace-dependencies", &replace, 200).await;
        }
        for (task, dependency, status) in [("t-c-next", "t-c", 200), ("t-x", "t-y", 200), ("t-x", "t-y", 404)]
        {
            let remove = request("DELETE", &format!("{}/{dependency}", path(task)), OPERATOR, None);
            self.run("tasks-remove-dependency", &remove, status).await;
        }
    }

    /// A result is reviewed twice: it is rejected, then accepted, which unblocks a dependent.
    async fn review_results(&mut self) {
        self.create(json!({"task_id": "t-review", "validation": true, "ticket_id": "k-tasks"}), 201).await;
        self.create(json!({"task_id": "t-review-next", "depends_on": ["t-review"]}), 201).await;
        for passed in [false, true] {
            let sandbox = self.start_agent("t-review").await;
            let path = format!("/api/v1/sandboxes/{sandbox}");
            let done = json!({"task_id": "t-review", "result": {}});
            self.post("tasks-complete", &format!("{path}/task-complete"), done, 200).await;
            let review = json!({"task_id": "t-review", "passed": passed, "feedback": "as it is"});
            for _ in 0..2 {
                self.post("tasks-validate", &format!("{path}/validation-result"), review.clone(), 200).await;
            }
        }
    }

    /// While the task is queued and while it is running.
    async fn fail_and_cancel(&mut self) {
        for (name, verb) in [("tasks-fail", "fail"), ("tasks-cancel", "cancel")] {
            let (queued, running) = (format!("t-{verb}-1"), format!("t-{verb}-2"));
            for id in [&running, &queued] {
                self.create(json!({"task_id": id, "ticket_id": "k-tasks"}), 201).await;
                if *id == running {
                    self.start_agent(id).await;
                }
            }
            for (id, status) in [(&queued, 200), (&running, 200), (&running, 409)] {
                self.post(name, &format!("/api/v1/tasks/{id}/{verb}"), json!({}), status).await;
            }
            self.post("tasks-retry", &format!("/api/v1/tasks/{queued}/retry"), json!({}), 200).await;
        }
    }

    /// Starts the agent of a task; returns its sandbox. Tasks ahead of it in the queue are claimed too.
    async fn start_agent(&mut self, id: &str) -> SandboxId {
        let task = TaskId::parse(id).unwrap();
        run_job(self.recorder, &self.process, &Job::Dispatch { org: OrgId::parse("acme").unwrap() }).await;
        let sandbox = provision(self.recorder, &self.process, &task).await;
        emit(self.recorder, &self.process, &sandbox, "agent.heartbeat", json!({"status": "working"})).await;
        reconcile(self.recorder, &self.process, &sandbox).await;
        sandbox
    }

    async fn create(&mut self, mut body: Value, status: u16) {
        (body["org"], body["title"]) = (json!("acme"), json!("Something to do"));
        self.post("tasks-create", "/api/v1/tasks", body, status).await;
    }

    async fn post(&mut self, name: &str, path: &str, body: Value, status: u16) {
        self.run(name, &request("POST", path, OPERATOR, Some(&body)), status).await;
    }

    async fn get(&mut self, name: &str, path: &str, status: u16) {
        self.run(name, &get(path), status).await;
    }

    async fn run(&mut self, name: &str, payload: &str, status: u16) -> Value {
        body_of(&self.recorder.request(&self.process, name, payload, status).await)
    }
}
