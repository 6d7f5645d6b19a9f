//! All that functions ever do around tasks, and those that say how sandboxes do.

use super::work::{Shelf, do_job, made, process, tell, tend};
use super::{Watch, get};
use crate::payloads::request;
use crate::stage::body_of;
use crate::support::OPERATOR;
use contract::jobs::Job;
use domain::{OrgId, SandboxId, TaskId};
use edge::Plane;
use serde_json::{Value, json};
use std::sync::Arc;

pub async fn tasks(watch: &mut Watch) {
    let process = process(watch, &Arc::new(Shelf::default()));
    let mut desk = Desk { watch, process };
    desk.creating().await;
    desk.reading().await;
    desk.changing().await;
    desk.working().await;
    desk.depending().await;
    desk.judging().await;
    desk.giving_up().await;
}

struct Desk<'a> {
    watch: &'a mut Watch,
    process: Arc<Plane>,
}

impl Desk<'_> {
    async fn creating(&mut self) {
        let ticket =
            json!({"org": "acme", "ticket_id": "k-tasks", "title": "Many things", "force_create": true});
        self.post("tickets-create", "/api/v1/tickets", ticket, 201).await;
        self.create(json!({"task_id": "t-1", "ticket_id": "k-tasks"}), 201).await;
        // A repeat, another under the same id, and some that wait.
        self.create(json!({"task_id": "t-1", "ticket_id": "k-tasks"}), 200).await;
        self.create(json!({"task_id": "t-1"}), 409).await;
        self.create(json!({"task_id": "t-2", "depends_on": ["t-1"]}), 201).await;
        self.create(json!({"task_id": "t-3", "depends_on": ["nobody"]}), 422).await;
    }

    async fn reading(&mut self) {
        for query in
            ["", "?limit=1", "?status=pending", "?ticket_id=k-tasks", "?sandbox_id=s-1", "?task_type=sandbox"]
        {
            self.get("tasks-list", &format!("/api/v1/tasks{query}"), 200).await;
        }
        for (id, status) in [("t-1", 200), ("nobody", 404)] {
            self.get("tasks-get", &format!("/api/v1/tasks/{id}"), status).await;
            self.get("tasks-events", &format!("/api/v1/tasks/{id}/events"), status).await;
            self.get("tasks-dependencies", &format!("/api/v1/tasks/{id}/dependencies"), status).await;
        }
        for query in ["", "?cursor=s-1"] {
            self.get("monitoring-status", &format!("/api/v1/monitoring/status{query}"), 200).await;
        }
        for (id, status) in [("s-1", 200), ("nobody", 404)] {
            self.get("monitoring-phase", &format!("/api/v1/sandboxes/{id}/phase-status"), status).await;
        }
    }

    async fn changing(&mut self) {
        let update = |id: &str| {
            let body = json!({"priority": "CRITICAL"});
            request("PATCH", &format!("/api/v1/tasks/{id}"), OPERATOR, Some(&body))
        };
        self.run("tasks-update", &update("t-1"), 200).await;
        self.set_timeout("t-1").await;
        // One that waits to be tried again.
        self.create(json!({"task_id": "t-later"}), 201).await;
        let sandbox = self.running("t-later").await;
        let failed =
            json!({"task_id": "t-later", "success": false, "error_message": "the model is away (503)"});
        self.post("tasks-complete", &format!("/api/v1/sandboxes/{sandbox}/task-complete"), failed, 200).await;
        self.run("tasks-update", &update("t-later"), 200).await;
        self.set_timeout("t-later").await;
        let on = json!({"depends_on": ["t-2"]});
        self.post("tasks-add-dependencies", "/api/v1/tasks/t-later/dependencies", on, 200).await;
    }

    async fn set_timeout(&mut self, id: &str) {
        let path = format!("/api/v1/tasks/{id}/set-timeout");
        self.post("tasks-set-timeout", &path, json!({"timeout_seconds": 600}), 200).await;
    }

    async fn working(&mut self) {
        let sandbox = self.running("t-1").await;
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

    /// Others wait for tasks that are completed, and nobody has told them yet when somebody changes what they wait for.
    async fn depending(&mut self) {
        for id in ["t-a", "t-b", "t-c"] {
            self.create(json!({"task_id": id}), 201).await;
            self.create(json!({"task_id": format!("{id}-next"), "depends_on": [id]}), 201).await;
            let sandbox = self.running(id).await;
            tell(self.watch, &self.process, &sandbox, "agent.completed", json!({"success": true})).await;
            tend(self.watch, &self.process, &sandbox).await;
        }
        for id in ["t-x", "t-y", "t-z"] {
            self.create(json!({"task_id": id}), 201).await;
        }
        let path = |id: &str| format!("/api/v1/tasks/{id}/dependencies");
        let on = |ids: &[&str]| json!({"depends_on": ids});
        for (ids, status) in [(["t-a", "t-y"], 200), (["t-a", "nobody"], 422), (["t-x", "t-y"], 409)] {
            self.post("tasks-add-dependencies", &path("t-x"), on(&ids), status).await;
        }
        for ids in [vec!["t-b", "t-y"], vec![], vec!["t-y"]] {
            let replace = request("PUT", &path("t-z"), OPERATOR, Some(&on(&ids)));
            self.run("tasks-replace-dependencies", &replace, 200).await;
        }
        for (task, one, status) in [("t-c-next", "t-c", 200), ("t-x", "t-y", 200), ("t-x", "t-y", 404)] {
            let remove = request("DELETE", &format!("{}/{one}", path(task)), OPERATOR, None);
            self.run("tasks-remove-dependency", &remove, status).await;
        }
    }

    /// A result that somebody looks at, twice: it goes back, and is then good enough for those that wait.
    async fn judging(&mut self) {
        self.create(json!({"task_id": "t-judged", "validation": true, "ticket_id": "k-tasks"}), 201).await;
        self.create(json!({"task_id": "t-judged-next", "depends_on": ["t-judged"]}), 201).await;
        for passed in [false, true] {
            let sandbox = self.running("t-judged").await;
            let path = format!("/api/v1/sandboxes/{sandbox}");
            let done = json!({"task_id": "t-judged", "result": {}});
            self.post("tasks-complete", &format!("{path}/task-complete"), done, 200).await;
            let judged = json!({"task_id": "t-judged", "passed": passed, "feedback": "as it is"});
            for _ in 0..2 {
                self.post("tasks-validate", &format!("{path}/validation-result"), judged.clone(), 200).await;
            }
        }
    }

    /// By hand: while it waits, and while it is worked on.
    async fn giving_up(&mut self) {
        for (name, verb) in [("tasks-fail", "fail"), ("tasks-cancel", "cancel")] {
            let (waiting, worked_on) = (format!("t-{verb}-1"), format!("t-{verb}-2"));
            for id in [&worked_on, &waiting] {
                self.create(json!({"task_id": id, "ticket_id": "k-tasks"}), 201).await;
                if *id == worked_on {
                    self.running(id).await;
                }
            }
            for (id, status) in [(&waiting, 200), (&worked_on, 200), (&worked_on, 409)] {
                self.post(name, &format!("/api/v1/tasks/{id}/{verb}"), json!({}), status).await;
            }
            self.post("tasks-retry", &format!("/api/v1/tasks/{waiting}/retry"), json!({}), 200).await;
        }
    }

    /// The sandbox of a task whose agent is at work. Whoever is before it in the queue gets one too.
    async fn running(&mut self, id: &str) -> SandboxId {
        let task = TaskId::parse(id).unwrap();
        do_job(self.watch, &self.process, &Job::Dispatch { org: OrgId::parse("acme").unwrap() }).await;
        let sandbox = made(self.watch, &self.process, &task).await;
        tell(self.watch, &self.process, &sandbox, "agent.heartbeat", json!({"status": "working"})).await;
        tend(self.watch, &self.process, &sandbox).await;
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
        body_of(&self.watch.request(&self.process, name, payload, status).await)
    }
}
