//! Messages to a running agent.

use super::{Fixture, GATED, data_of};
use contract::payloads::{AgentCompleted, AgentFailed, AgentMessage, AgentTurnCompleted};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;
use std::time::Duration;

fn bash(command: &str) -> Reply {
    Reply::tool("Bash", json!({"command": command, "description": "Work"}))
}

#[test]
fn message_joins_the_running_turn() {
    offline(async {
        let script = Script::new()
            .when("take your time", bash(GATED))
            .when("use blue instead", Reply::text("Blue it is."));
        let fixture = Fixture::new(script).await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "take your time")]);
        fixture.wait_for_event("agent.tool_use").await;
        let message = fixture.send_message("user_message", "use blue instead").await;
        for state in ["fetched", "delivered"] {
            fixture.wait_for_receipt(&message, state).await;
        }
        fixture.open_gate();
        for state in ["started", "completed"] {
            fixture.wait_for_receipt(&message, state).await;
        }
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(
            completed["event_data"]["final_output"], "Blue it is.",
            "the message joined the same turn"
        );
        let injected = fixture.wait_for_event("agent.message_injected").await;
        assert_eq!(injected["event_data"]["message_id"], message.as_str());
        assert_eq!(injected["event_data"]["intervention_number"], 1);
    });
}

#[test]
fn guidance_is_labelled_in_the_prompt() {
    offline(async {
        let script = Script::new().when("begin", bash(GATED)).when("mind the tests", Reply::text("I do."));
        let fixture = Fixture::new(script).await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        fixture.wait_for_event("agent.tool_use").await;
        let message = fixture.send_message("guidance", "mind the tests").await;
        fixture.wait_for_receipt(&message, "delivered").await;
        fixture.open_gate();
        let request = fixture.model.until_prompted("mind the tests").await;
        assert!(request.prompt.contains("[Guidance from the guardian"), "{}", request.prompt);
    });
}

#[test]
fn interrupt_stops_the_turn_and_its_text_is_the_next_prompt() {
    offline(async {
        let script = Script::new()
            .when("work hard", bash(GATED))
            .when("do this instead", Reply::text("Done differently."));
        let fixture = Fixture::new(script).await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "work hard")]);
        fixture.wait_for_event("agent.tool_use").await;
        let message = fixture.send_message("interrupt", "do this instead").await;
        // The gate of the command is never opened, so only the interrupt ends it.
        let interrupted = fixture.wait_for_event("agent.interrupted").await;
        assert_eq!(interrupted["event_data"]["message_id"], message.as_str());
        fixture.wait_for_receipt(&message, "completed").await;
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Done differently.");
    });
}

#[test]
fn messages_sent_with_an_interrupt_are_not_lost() {
    offline(async {
        let script = Script::new().when("work hard", bash(GATED)).always("", Reply::text("Understood."));
        let fixture = Fixture::new(script).await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "work hard")]);
        fixture.wait_for_event("agent.tool_use").await;
        let messages = [("user_message", "first"), ("interrupt", "second"), ("user_message", "third")];
        let mut sent = Vec::new();
        for (message_type, content) in messages {
            sent.push(fixture.send_message(message_type, content).await);
        }
        for message in &sent {
            fixture.wait_for_receipt(message, "completed").await;
        }
        let prompts = fixture.model.prompts().join("\n");
        for (_, content) in messages {
            assert_eq!(prompts.matches(content).count(), 1, "{content} in {prompts}");
        }
    });
}

#[test]
fn failed_turn_after_completion_does_not_fail_the_task() {
    offline(async {
        let script = Script::new()
            .when("do it", Reply::text("Done."))
            .when("and now", Reply::error(400, None))
            .when("again", Reply::text("Here."));
        let fixture = Fixture::new(script).await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "do it")]);
        fixture.wait_for_event("agent.completed").await;
        fixture.send_message("user_message", "and now").await;
        fixture.wait_for(|turn: &AgentTurnCompleted| !turn.success).await;
        let again = fixture.send_message("user_message", "again").await;
        fixture.wait_for_receipt(&again, "completed").await;
        fixture.wait_for(|message: &AgentMessage| message.content == "Here.").await;
        let log = fixture.log().await;
        assert!(data_of::<AgentFailed>(&log).is_empty(), "the task was already completed");
        assert_eq!(data_of::<AgentCompleted>(&log).len(), 1);
    });
}

#[test]
fn stop_cancels_queued_messages_and_the_agent_waits() {
    offline(async {
        let script = Script::new()
            .when(
                "work hard",
                Reply::text("word ".repeat(400).trim()).with_word_delay(Duration::from_millis(50)),
            )
            .when("again", Reply::text("Here I am."));
        let fixture = Fixture::new(script).await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "work hard")]);
        fixture.wait_for_event("agent.system_message").await;
        fixture.model.until_prompted("work hard").await;
        let queued = fixture.send_message("user_message", "and then this").await;
        fixture.wait_for_receipt(&queued, "delivered").await;
        let stop = fixture.send_message("stop", "Stop.").await;
        fixture.wait_for_receipt(&stop, "completed").await;
        fixture.wait_for_receipt(&queued, "cancelled").await;
        let waiting = fixture.wait_for_event("agent.waiting").await;
        assert!(waiting["event_data"]["message"].as_str().unwrap().contains("Stopped"), "{waiting}");
        let prompts = fixture.model.prompts();
        assert!(!prompts.iter().any(|prompt| prompt.contains("and then this")), "cancelled: {prompts:?}");
        // The next message starts a new turn, whose result completes the task.
        let again = fixture.send_message("user_message", "again").await;
        fixture.wait_for_receipt(&again, "completed").await;
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Here I am.");
    });
}

#[test]
fn agent_without_a_task_waits_for_a_message() {
    offline(async {
        let fixture = Fixture::new(Script::new().when("hello", Reply::text("Hello."))).await;
        let _worker = fixture.start_worker(&[]);
        fixture.wait_for_event("agent.waiting").await;
        let message = fixture.send_message("user_message", "hello").await;
        fixture.wait_for_receipt(&message, "completed").await;
        fixture.wait_for(|message: &AgentMessage| message.content == "Hello.").await;
        let log = fixture.log().await;
        assert!(
            !log.iter().any(|event| event["event_type"] == "agent.completed"),
            "there was no task to complete"
        );
    });
}
