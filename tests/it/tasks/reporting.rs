//! What workers report. What comes late, again, or from another sandbox changes nothing, and is answered clearly.

use super::{Desk, task_id};
use crate::support::OPERATOR;
use contract::jobs::Job;
use domain::{SandboxId, Task};
use serde_json::{Value, json};

/// Where a task can stand when a report comes.
const STATES: [&str; 8] =
    ["pending", "claiming", "assigned", "running", "validating", "completed", "failed", "cancelled"];

impl Desk {
    /// A task in a state, after a first try that failed; that try's sandbox.
    async fn second_try(&self, id: &str, state: &str) -> SandboxId {
        self.create(id, json!({"validation": state == "validating"})).await;
        let older = self.start(id).await;
        self.tell(&older, "agent.failed", json!({"error": "the model is away (503)"})).await;
        self.tend(&older).await;
        self.stage.clock.advance_secs(120);
        if state != "pending" {
            self.work(&Job::ReconcileTask { task_id: task_id(id) }).await;
            match state {
                "claiming" => self.claim(id).await,
                "assigned" => self.assign(id).await,
                _ => self.start(id).await,
            };
        }
        match state {
            "validating" | "completed" => drop(self.complete(id).await),
            "failed" => assert_eq!(self.post(&format!("/tasks/{id}/fail"), json!({})).await.0, 200),
            "cancelled" => assert_eq!(self.post(&format!("/tasks/{id}/cancel"), json!({})).await.0, 200),
            _ => {}
        }
        assert_eq!(self.stored(id).await.status.as_str(), state);
        older
    }

    /// All that is known of a task: it, and its log.
    async fn all_of(&self, id: &str) -> (Task, Vec<String>) {
        (self.stored(id).await, self.log(id).await)
    }

    /// Says what came of a task, as a worker says it.
    async fn report(&self, sandbox: &SandboxId, id: &str, success: bool) -> (u64, Value) {
        let body =
            json!({"task_id": id, "success": success, "result": {"output": "late"}, "error_message": "late"});
        self.ask(OPERATOR, "POST", &format!("/sandboxes/{sandbox}/task-complete"), Some(body)).await
    }

    /// Says all that a worker can say about the end of its task, and has done what is due for the sandbox.
    async fn last_words(&self, sandbox: &SandboxId, id: &str) {
        for (event, data) in [
            ("agent.completed", json!({"success": true, "task_id": id})),
            ("agent.failed", json!({"error": "late", "task_id": id})),
            ("agent.completed", json!({"success": true, "task_id": id})),
        ] {
            let (status, answer) = self.tell(sandbox, event, data).await;
            assert_eq!((status, &answer["status"]), (200, &json!("received")), "{answer}");
            self.tend(sandbox).await;
        }
    }
}

#[tokio::test]
async fn an_older_trys_reports_change_nothing_wherever_the_task_stands() {
    let desk = Desk::open().await;
    for state in STATES {
        let id = format!("t-{state}");
        let older = desk.second_try(&id, state).await;
        let before = desk.all_of(&id).await;
        desk.last_words(&older, &id).await;
        for success in [true, false] {
            let (status, answer) = desk.report(&older, &id, success).await;
            let expected = match (state, success) {
                // No other try has begun: that one has said its last word, and may repeat it.
                ("pending", false) => (200, "pending"),
                ("pending", true) => (409, "outcome_known"),
                _ => (409, "not_its_task"),
            };
            let word = if status == 200 { &answer["new_status"] } else { &answer["code"] };
            assert_eq!((status, word), (expected.0, &json!(expected.1)), "{state}: {answer}");
        }
        let judged = json!({"task_id": id, "passed": true, "feedback": "late"});
        let (status, problem) = desk.post(&format!("/sandboxes/{older}/validation-result"), judged).await;
        assert_eq!((status, &problem["code"]), (409, &json!("not_validating")), "{state}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains("nothing was changed"), "{problem}");
        assert_eq!(desk.all_of(&id).await, before, "{state}");
    }
}

#[tokio::test]
async fn reports_from_other_sandboxes_change_nothing_wherever_the_task_stands() {
    let desk = Desk::open().await;
    let registered = async |id: &str, org: &str| {
        let body = json!({"sandbox_id": id, "org": org});
        let (status, answer) = desk.ask(OPERATOR, "POST", "/sandboxes", Some(body)).await;
        assert_eq!(status, 201, "{answer}");
        answer["worker_token"].as_str().unwrap().to_owned()
    };
    registered("s-free", "acme").await;
    let theirs = registered("s-theirs", "rival").await;
    let free = SandboxId::parse("s-free").unwrap();
    for state in STATES {
        let (id, other) = (format!("t-{state}"), format!("other-{state}"));
        desk.second_try(&id, state).await;
        desk.create(&other, json!({})).await;
        // One more is claimed on the way if it stands in the queue; the task under test does not.
        let busy = desk.start(&other).await;
        let (before, others) = (desk.all_of(&id).await, desk.all_of(&other).await);
        for sandbox in [&busy, &free] {
            for success in [true, false] {
                let (status, problem) = desk.report(sandbox, &id, success).await;
                assert_eq!((status, &problem["code"]), (409, &json!("not_its_task")), "{state}: {problem}");
                assert!(problem["detail"].as_str().unwrap().contains(id.as_str()), "{problem}");
            }
            let judged = json!({"task_id": id, "passed": false, "feedback": "no"});
            let (status, problem) =
                desk.post(&format!("/sandboxes/{sandbox}/validation-result"), judged).await;
            assert_eq!((status, &problem["code"]), (409, &json!("not_validating")), "{state}: {problem}");
        }
        assert_eq!(desk.all_of(&other).await, others, "{state}");
        // A worker of another org, under its own name and under one of ours.
        let body = json!({"task_id": id});
        for (sandbox, expected) in [("s-theirs", 409), (busy.as_str(), 403)] {
            let path = format!("/sandboxes/{sandbox}/task-complete");
            let (status, problem) = desk.ask(&theirs, "POST", &path, Some(body.clone())).await;
            assert_eq!(status, expected, "{state}: {problem}");
        }
        // What they say in their own logs is about their own work, whatever task they name.
        desk.last_words(&busy, &id).await;
        for event in ["agent.completed", "agent.failed"] {
            desk.tell(&free, event, json!({"task_id": id})).await;
        }
        assert_eq!(desk.stored(&other).await.status.as_str(), "completed");
        assert_eq!(desk.all_of(&id).await, before, "{state}");
    }
}

#[tokio::test]
async fn a_repeated_report_gets_the_first_answer_and_another_is_refused() {
    let desk = Desk::open().await;
    for (state, validation) in [("completed", false), ("validating", true)] {
        desk.create(state, json!({"validation": validation})).await;
        let sandbox = desk.start(state).await;
        let (status, first) = desk.report(&sandbox, state, true).await;
        assert_eq!((status, &first["new_status"]), (200, &json!(state)), "{first}");
        assert_eq!(desk.stored(state).await.result.unwrap().text(), r#"{"output":"late"}"#);
        let before = desk.all_of(state).await;
        let log = desk.get(&format!("/sandboxes/{sandbox}")).await["seq"].clone();
        assert_eq!(desk.report(&sandbox, state, true).await, (200, first));
        let (status, problem) = desk.report(&sandbox, state, false).await;
        assert_eq!((status, &problem["code"]), (409, &json!("outcome_known")), "{problem}");
        assert_eq!(
            desk.get(&format!("/sandboxes/{sandbox}")).await["seq"],
            log,
            "the sandbox's log says it once"
        );
        desk.last_words(&sandbox, state).await;
        assert_eq!(desk.all_of(state).await, before, "{state}");
    }
    // A failure that is not tried again.
    desk.create("failed", json!({"max_retries": 0})).await;
    let sandbox = desk.start("failed").await;
    let (status, first) = desk.report(&sandbox, "failed", false).await;
    assert_eq!((status, &first["new_status"]), (200, &json!("failed")));
    let before = desk.all_of("failed").await;
    assert_eq!(desk.report(&sandbox, "failed", false).await, (200, first));
    assert_eq!(desk.report(&sandbox, "failed", true).await.1["code"], "outcome_known");
    desk.last_words(&sandbox, "failed").await;
    assert_eq!(desk.all_of("failed").await, before);
}

/// Its own sandbox, of the last try: it does not know yet that nobody waits for it.
#[tokio::test]
async fn what_a_worker_says_after_its_task_was_called_off_changes_nothing() {
    let desk = Desk::open().await;
    for verb in ["cancel", "fail"] {
        for begun in ["claiming", "assigned", "running"] {
            let id = format!("{verb}-{begun}");
            desk.create(&id, json!({})).await;
            let sandbox = match begun {
                "claiming" => desk.claim(&id).await,
                "assigned" => desk.assign(&id).await,
                _ => desk.start(&id).await,
            };
            assert_eq!(desk.post(&format!("/tasks/{id}/{verb}"), json!({})).await.0, 200);
            let before = desk.all_of(&id).await;
            for success in [true, false] {
                let (status, problem) = desk.report(&sandbox, &id, success).await;
                assert_eq!((status, &problem["code"]), (409, &json!("not_its_task")), "{id}: {problem}");
            }
            desk.last_words(&sandbox, &id).await;
            assert_eq!(desk.all_of(&id).await, before, "{id}");
        }
    }
}

#[tokio::test]
async fn a_report_names_what_is_wrong_with_it() {
    let desk = Desk::open().await;
    desk.create("t", json!({})).await;
    let sandbox = desk.start("t").await;
    let before = desk.all_of("t").await;
    for (path, body, field) in [
        ("task-complete", json!({}), "task_id"),
        ("task-complete", json!({"task_id": "t", "success": "yes"}), "success"),
        ("task-complete", json!({"task_id": "t", "result": "done"}), "result"),
        ("validation-result", json!({"task_id": "t", "feedback": ""}), "passed"),
        ("validation-result", json!({"task_id": "t", "passed": true}), "feedback"),
    ] {
        let (status, problem) =
            desk.ask(OPERATOR, "POST", &format!("/sandboxes/{sandbox}/{path}"), Some(body.clone())).await;
        assert_eq!((status, &problem["field"]), (422, &json!(field)), "{body}: {problem}");
    }
    assert_eq!(desk.all_of("t").await, before);
}

/// As the seeds spell the routes: in the singular, and with the tasks below their sandboxes.
#[tokio::test]
async fn the_seeds_spellings_lead_a_task_from_its_sandbox_to_its_end() {
    let desk = Desk::open().await;
    desk.create("t", json!({"validation": true})).await;
    let mut tries = Vec::new();
    for (route, passed, status) in [("sandbox", false, "needs_revision"), ("sandboxes", true, "completed")] {
        let sandbox = desk.start("t").await;
        let worker = desk.worker(&sandbox).await;
        let (seen, task) = desk.ask(&worker, "GET", &format!("/{route}/{sandbox}/task"), None).await;
        assert_eq!((seen, &task["id"], &task["status"]), (200, &json!("t"), &json!("running")), "{task}");
        for query in
            ["task_type=sandbox".to_owned(), format!("sandbox_id={sandbox}"), "has_sandbox=true".to_owned()]
        {
            assert_eq!(super::ids(&desk.get(&format!("/tasks?{query}")).await), ["t"], "{query}");
        }
        let done = json!({"task_id": "t", "success": true, "result": {"pr_url": "https://example.com/1"}});
        let path = format!("/{route}/{sandbox}/task-complete");
        let (seen, answer) = desk.ask(&worker, "POST", &path, Some(done)).await;
        let expected =
            json!({"status": "accepted", "task_id": "t", "new_status": "validating", "unblocked_tasks": []});
        assert_eq!((seen, answer), (200, expected));
        let judged = json!({"task_id": "t", "passed": passed, "feedback": "Look again.", "recommendations": ["Test it."]});
        let (seen, answer) = desk.post(&format!("/{route}/{sandbox}/validation-result"), judged).await;
        let expected = json!({"status": "accepted", "task_id": "t", "validation_passed": passed, "new_task_status": status});
        assert_eq!((seen, answer), (200, expected));
        tries.push(sandbox);
    }
    assert_ne!(tries[0], tries[1], "every try has a sandbox of its own");
    for sandbox in &tries {
        assert_eq!(desk.get(&format!("/sandbox/{sandbox}/task")).await["status"], "completed");
    }
    let task = desk.get("/tasks/t").await;
    assert_eq!((&task["attempt"], &task["feedback"]), (&json!(2), &json!("Look again.\n- Test it.")));
    assert_eq!(task["result"], json!({"pr_url": "https://example.com/1"}));
}
