//! What people say to a working agent.

use super::{GATED, Stage, of};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;
use std::time::Duration;

fn bash(command: &str) -> Reply {
    Reply::tool("Bash", json!({"command": command, "description": "Work"}))
}

#[test]
fn a_message_reaches_an_agent_in_the_middle_of_its_work() {
    offline(async {
        let script = Script::new()
            .when("take your time", bash(GATED))
            .when("use blue instead", Reply::text("Blue it is."));
        let stage = Stage::new(script).await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "take your time")]);
        stage.until_any("agent.tool_use").await;
        let message = stage.say("user_message", "use blue instead").await;
        for state in ["fetched", "delivered"] {
            stage.receipt(&message, state).await;
        }
        stage.let_go();
        for state in ["started", "completed"] {
            stage.receipt(&message, state).await;
        }
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Blue it is.", "in the same turn");
        let injected = stage.until_any("agent.message_injected").await;
        assert_eq!(injected["event_data"]["message_id"], message.as_str());
        assert_eq!(injected["event_data"]["intervention_number"], 1);
    });
}

#[test]
fn guidance_is_marked_as_what_it_is() {
    offline(async {
        let script = Script::new().when("begin", bash(GATED)).when("mind the tests", Reply::text("I do."));
        let stage = Stage::new(script).await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until_any("agent.tool_use").await;
        let message = stage.say("guidance", "mind the tests").await;
        stage.receipt(&message, "delivered").await;
        stage.let_go();
        let request = stage.model.until_told("mind the tests").await;
        assert!(request.told.contains("[Guidance from the guardian"), "{}", request.told);
    });
}

#[test]
fn an_interrupt_stops_the_turn_and_its_text_is_what_comes_next() {
    offline(async {
        let script = Script::new()
            .when("work hard", bash(GATED))
            .when("do this instead", Reply::text("Done differently."));
        let stage = Stage::new(script).await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "work hard")]);
        stage.until_any("agent.tool_use").await;
        let message = stage.say("interrupt", "do this instead").await;
        // The command would never have ended by itself.
        let interrupted = stage.until_any("agent.interrupted").await;
        assert_eq!(interrupted["event_data"]["message_id"], message.as_str());
        stage.receipt(&message, "completed").await;
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Done differently.");
    });
}

#[test]
fn what_is_said_together_with_an_interrupt_is_not_lost() {
    offline(async {
        let script = Script::new().when("work hard", bash(GATED)).always("", Reply::text("Heard."));
        let stage = Stage::new(script).await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "work hard")]);
        stage.until_any("agent.tool_use").await;
        let said = [("user_message", "first"), ("interrupt", "second"), ("user_message", "third")];
        let mut sent = Vec::new();
        for (message_type, content) in said {
            sent.push(stage.say(message_type, content).await);
        }
        for message in &sent {
            stage.receipt(message, "completed").await;
        }
        let told = stage.model.told().join("\n");
        for (_, content) in said {
            assert_eq!(told.matches(content).count(), 1, "{content} in {told}");
        }
    });
}

#[test]
fn trouble_after_the_task_does_not_undo_it() {
    offline(async {
        let script = Script::new()
            .when("do it", Reply::text("Done."))
            .when("and now", Reply::error(400, None))
            .when("again", Reply::text("Here."));
        let stage = Stage::new(script).await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "do it")]);
        stage.until_any("agent.completed").await;
        stage.say("user_message", "and now").await;
        stage.until("agent.turn_completed", |data| data["success"] == false).await;
        let again = stage.say("user_message", "again").await;
        stage.receipt(&again, "completed").await;
        stage.until("agent.message", |data| data["content"] == "Here.").await;
        let log = stage.log().await;
        assert!(of(&log, "agent.failed").is_empty(), "the task was over");
        assert_eq!(of(&log, "agent.completed").len(), 1);
    });
}

#[test]
fn a_stop_ends_everything_and_the_agent_waits() {
    offline(async {
        let script = Script::new()
            .when("work hard", Reply::text("word ".repeat(400).trim()).slowly(Duration::from_millis(50)))
            .when("again", Reply::text("Here I am."));
        let stage = Stage::new(script).await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "work hard")]);
        stage.until_any("agent.system_message").await;
        stage.model.until_told("work hard").await;
        let queued = stage.say("user_message", "and then this").await;
        stage.receipt(&queued, "delivered").await;
        let stop = stage.say("stop", "Stop.").await;
        stage.receipt(&stop, "completed").await;
        stage.receipt(&queued, "cancelled").await;
        let waiting = stage.until_any("agent.waiting").await;
        assert!(waiting["event_data"]["message"].as_str().unwrap().contains("stopped"), "{waiting}");
        let told = stage.model.told();
        assert!(!told.iter().any(|told| told.contains("and then this")), "it was taken back: {told:?}");
        // A person has taken over: what they say next is worked on, and decides.
        let again = stage.say("user_message", "again").await;
        stage.receipt(&again, "completed").await;
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Here I am.");
    });
}

#[test]
fn an_agent_without_a_task_waits_to_be_told() {
    offline(async {
        let stage = Stage::new(Script::new().when("hello", Reply::text("Hello."))).await;
        let _worker = stage.worker(&[]);
        stage.until_any("agent.waiting").await;
        let message = stage.say("user_message", "hello").await;
        stage.receipt(&message, "completed").await;
        stage.until("agent.message", |data| data["content"] == "Hello.").await;
        let log = stage.log().await;
        assert!(
            !log.iter().any(|event| event["event_type"] == "agent.completed"),
            "there was no task to complete"
        );
    });
}
