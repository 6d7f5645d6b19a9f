//! Turns: prompts, one after the other, and what ends them.

use super::{Call, Interrupt, Phase, Prompt, Session};
use crate::agents::acp::{permission, rpc, tools};
use crate::agents::policy::Decision;
use crate::agents::{Mood, Say, Tell, Tokens, TurnEnd};
use crate::event::Event;
use agent_client_protocol_schema::v1::{Error, ErrorCode, ToolCall, ToolCallUpdate};
use domain::message::State;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

impl Session {
    /// Prompts what was said first, if the agent is free.
    pub(super) fn go_on(&mut self) {
        if self.phase != Phase::Ready || self.running.is_some() || self.stopping.is_some() {
            return;
        }
        let Some(Say { uuid, text }) = self.held.pop_front() else {
            if std::mem::take(&mut self.is_working) {
                self.narrator.tell(Tell::Mood(Mood::Idle));
            }
            return;
        };
        self.narrator.begin_turn();
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": self.narrator.session, "prompt": prompt });
        self.call(Call::Prompt, "session/prompt", &params);
        self.running = Some(Prompt { uuid, since: Instant::now() });
        if !std::mem::replace(&mut self.is_working, true) {
            self.narrator.tell(Tell::Mood(Mood::Working));
        }
        self.receipt(uuid, State::Delivered);
        self.receipt(uuid, State::Started);
    }

    pub(super) fn interrupt(&mut self, cancelled: Vec<Uuid>) {
        if self.running.is_none() {
            return self.narrator.tell(Tell::Interrupted { cancelled });
        }
        let begun = || Interrupt { since: Instant::now(), complained: false, cancelled: Vec::new() };
        self.interrupt.get_or_insert_with(begun).cancelled.extend(cancelled);
        self.cancel();
    }

    pub(super) fn stop(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(Instant::now());
            if self.running.is_some() {
                self.cancel();
            }
        }
    }

    fn cancel(&mut self) {
        self.lines.push(rpc::notification("session/cancel", &json!({ "sessionId": self.narrator.session })));
    }

    /// Permissions are never left open: the policy answers at once, and a turn that is to end gets none.
    pub(super) fn permission(&mut self, params: &Value) -> Result<Value, Error> {
        let call = match ToolCallUpdate::deserialize(&params["toolCall"]) {
            Ok(update) => self.narrator.asked_about(update),
            Err(_) => ToolCall::new("", params["toolCall"]["title"].as_str().unwrap_or_default()),
        };
        let tool = tools::name(&call);
        let decided = Event::agent("agent.permission_decided")
            .with("tool", tool.as_str())
            .with("tool_use_id", &*call.tool_call_id.0)
            .with("mode", self.terms.policy.mode.as_str());
        if self.interrupt.is_some() || self.stopping.is_some() {
            self.narrator.event(decided.with("decision", "cancelled"));
            return Ok(json!({ "outcome": { "outcome": "cancelled" } }));
        }
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let choice = permission::choose(&self.terms.policy, &tool, &call, options);
        self.narrator.event(match &choice.decision {
            Decision::Allow => decided.with("decision", "allow"),
            Decision::Deny(reason) => decided.with("decision", "deny").with("reason", reason.as_str()),
        });
        match choice.option_id {
            Some(id) => Ok(json!({ "outcome": { "outcome": "selected", "optionId": id } })),
            None => {
                let why = format!("{tool} is not allowed here, and none of the options says so.");
                Err(Error::new(ErrorCode::InvalidParams.into(), why))
            }
        }
    }

    pub(super) fn prompt_returned(&mut self, answer: Result<Value, Error>) {
        let Some(prompt) = self.running.take() else { return };
        let interrupt = self.interrupt.take();
        let was_asked_to = interrupt.is_some() || self.stopping.is_some();
        let (stop_reason, usage, error) = match answer {
            Ok(mut result) => {
                let reason = result["stopReason"].as_str().unwrap_or("unknown").to_owned();
                (reason, result.get_mut("usage").map(Value::take).unwrap_or_default(), None)
            }
            // The agent should say that it was cancelled, but what it was doing may fail of it.
            Err(_) if was_asked_to => ("cancelled".to_owned(), Value::Null, None),
            Err(error) => ("error".to_owned(), Value::Null, Some(rpc::describe(&error))),
        };
        let was_cancelled = stop_reason == "cancelled";
        let (final_output, result) = self.narrator.end_turn(was_cancelled);
        if let Some(error) = &error {
            self.error(error, "prompt");
        }
        let (cost_usd, total_cost_usd) = self.narrator.cost.usd();
        let turn = TurnEnd {
            success: stop_reason == "end_turn",
            interrupted: was_cancelled,
            limit: (stop_reason == "max_turn_requests").then_some("max_turns".into()),
            error: error.or_else(|| reason_in_words(&stop_reason)),
            result,
            session: self.narrator.session.clone(),
            cost_usd,
            tokens: tokens(&usage),
            turns: self.narrator.turn,
            answered: vec![prompt.uuid],
        };
        let duration = u64::try_from(prompt.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let event = Event::agent("agent.turn_completed")
            .with("success", turn.success)
            .with("stop_reason", stop_reason)
            .with_some("error", turn.error.clone())
            .with("turns", turn.turns)
            .with("cost_usd", cost_usd)
            .with("total_cost_usd", total_cost_usd)
            .with("input_tokens", turn.tokens.input)
            .with("output_tokens", turn.tokens.output)
            .with("cache_read_tokens", turn.tokens.cache_read)
            .with("cache_write_tokens", turn.tokens.cache_write)
            .with_some("context", self.narrator.cost.context())
            .with("session_id", turn.session.as_str())
            .with("final_output", final_output)
            .with("duration_ms", duration);
        self.narrator.event(event);
        self.receipt(prompt.uuid, if was_cancelled { State::Cancelled } else { State::Completed });
        self.narrator.tell(Tell::TurnEnded(Box::new(turn)));
        if let Some(interrupt) = interrupt {
            self.narrator.tell(Tell::Interrupted { cancelled: interrupt.cancelled });
        }
        self.go_on();
    }
}

fn reason_in_words(stop_reason: &str) -> Option<String> {
    let words = match stop_reason {
        "end_turn" | "cancelled" => return None,
        "max_tokens" => "The model has reached its limit of tokens.",
        "max_turn_requests" => "The agent has asked its model as often as it may in one turn.",
        "refusal" => "The agent refuses to go on.",
        other => return Some(format!("The turn has ended for a reason that is not known here: {other}.")),
    };
    Some(words.to_owned())
}

/// Of this turn. An extension that many agents send.
fn tokens(usage: &Value) -> Tokens {
    let count = |field: &str| usage[field].as_u64().unwrap_or_default();
    Tokens {
        input: count("inputTokens"),
        output: count("outputTokens"),
        cache_read: count("cachedReadTokens"),
        cache_write: count("cachedWriteTokens"),
    }
}
