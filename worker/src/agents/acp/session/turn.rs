//! Runs prompts one after the other.

use super::{Call, Interrupt, Phase, Prompt, Session};
use crate::agents::acp::{permission, rpc, tools};
use crate::agents::policy::Decision;
use crate::agents::{AgentActivity, AgentOutput, Tokens, TurnEnd, UserMessage};
use crate::event::Event;
use agent_client_protocol_schema::v1::{Error, ErrorCode, ToolCall, ToolCallUpdate};
use contract::payloads::{AgentPermissionDecided, AgentTurnCompleted};
use domain::message::State;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

impl Session {
    /// Sends the first queued message if the agent is idle.
    pub(super) fn prompt_next(&mut self) {
        if self.phase != Phase::Ready || self.running.is_some() || self.stopping_since.is_some() {
            return;
        }
        let Some(UserMessage { uuid, text }) = self.queued.pop_front() else {
            if std::mem::take(&mut self.is_working) {
                self.normalizer.emit(AgentOutput::Activity(AgentActivity::Idle));
            }
            return;
        };
        self.normalizer.begin_turn();
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": self.normalizer.session, "prompt": prompt });
        self.call(Call::Prompt, "session/prompt", &params);
        self.running = Some(Prompt { uuid, started_at: Instant::now() });
        if !std::mem::replace(&mut self.is_working, true) {
            self.normalizer.emit(AgentOutput::Activity(AgentActivity::Working));
        }
        self.receipt(uuid, State::Delivered);
        self.receipt(uuid, State::Started);
    }

    pub(super) fn interrupt(&mut self, cancelled: Vec<Uuid>) {
        if self.running.is_none() {
            return self.normalizer.emit(AgentOutput::Interrupted { cancelled });
        }
        let new = || Interrupt { requested_at: Instant::now(), reported: false, cancelled: Vec::new() };
        self.interrupt.get_or_insert_with(new).cancelled.extend(cancelled);
        self.cancel();
    }

    pub(super) fn stop(&mut self) {
        if self.stopping_since.is_none() {
            self.stopping_since = Some(Instant::now());
            if self.running.is_some() {
                self.cancel();
            }
        }
    }

    fn cancel(&mut self) {
        self.lines
            .push(rpc::notification("session/cancel", &json!({ "sessionId": self.normalizer.session })));
    }

    /// Answers a permission request immediately, by policy. While a turn is being stopped, the answer is `cancelled`.
    pub(super) fn permission(&mut self, params: &Value) -> Result<Value, Error> {
        let call = match ToolCallUpdate::deserialize(&params["toolCall"]) {
            Ok(update) => self.normalizer.permission_requested(update),
            Err(_) => ToolCall::new("", params["toolCall"]["title"].as_str().unwrap_or_default()),
        };
        let tool = tools::name(&call);
        let decided = AgentPermissionDecided {
            turn: self.normalizer.turn,
            tool: tool.clone(),
            tool_use_id: call.tool_call_id.0.to_string(),
            mode: self.options.policy.mode.as_str().to_owned(),
            decision: "cancelled".to_owned(),
            reason: None,
        };
        if self.interrupt.is_some() || self.stopping_since.is_some() {
            self.normalizer.emit_event(Event::agent(decided));
            return Ok(json!({ "outcome": { "outcome": "cancelled" } }));
        }
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let choice = permission::choose(&self.options.policy, &tool, &call, options);
        let (decision, reason) = match &choice.decision {
            Decision::Allow => ("allow".to_owned(), None),
            Decision::Deny(reason) => ("deny".to_owned(), Some(reason.clone())),
        };
        self.normalizer.emit_event(Event::agent(AgentPermissionDecided { decision, reason, ..decided }));
        match choice.option_id {
            Some(id) => Ok(json!({ "outcome": { "outcome": "selected", "optionId": id } })),
            None => {
                let reason = format!("{tool} is not allowed, and the request has no option to reject it.");
                Err(Error::new(ErrorCode::InvalidParams.into(), reason))
            }
        }
    }

    pub(super) fn prompt_finished(&mut self, response: Result<Value, Error>) {
        let Some(prompt) = self.running.take() else { return };
        let interrupt = self.interrupt.take();
        let stop_requested = interrupt.is_some() || self.stopping_since.is_some();
        let (stop_reason, usage, error) = match response {
            Ok(mut result) => {
                let reason = result["stopReason"].as_str().unwrap_or("unknown").to_owned();
                (reason, result.get_mut("usage").map(Value::take).unwrap_or_default(), None)
            }
            // The agent should return `cancelled`, but cancelling may make its own request fail.
            Err(_) if stop_requested => ("cancelled".to_owned(), Value::Null, None),
            Err(error) => ("error".to_owned(), Value::Null, Some(rpc::describe(&error))),
        };
        let was_cancelled = stop_reason == "cancelled";
        let (final_output, result) = self.normalizer.end_turn(was_cancelled);
        if let Some(error) = &error {
            self.error(error, "prompt");
        }
        let (cost_usd, total_cost_usd) = self.normalizer.cost.usd();
        let turn = TurnEnd {
            success: stop_reason == "end_turn",
            interrupted: was_cancelled,
            limit: (stop_reason == "max_turn_requests").then_some("max_turns".into()),
            error: error.or_else(|| error_message(&stop_reason)),
            result,
            session: self.normalizer.session.clone(),
            cost_usd,
            tokens: tokens(&usage),
            turns: self.normalizer.turn,
            answered: vec![prompt.uuid],
        };
        let duration = u64::try_from(prompt.started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let event = Event::agent(AgentTurnCompleted {
            turn: self.normalizer.turn,
            success: turn.success,
            stop_reason: Some(stop_reason),
            error: turn.error.clone(),
            turns: turn.turns,
            cost_usd,
            total_cost_usd,
            tokens: turn.tokens.counts(),
            context: self.normalizer.cost.context(),
            session_id: turn.session.clone(),
            final_output,
            duration_ms: duration,
            ..Default::default()
        });
        self.normalizer.emit_event(event);
        self.receipt(prompt.uuid, if was_cancelled { State::Cancelled } else { State::Completed });
        self.normalizer.emit(AgentOutput::TurnEnded(Box::new(turn)));
        if let Some(interrupt) = interrupt {
            self.normalizer.emit(AgentOutput::Interrupted { cancelled: interrupt.cancelled });
        }
        self.prompt_next();
    }
}

fn error_message(stop_reason: &str) -> Option<String> {
    let message = match stop_reason {
        "end_turn" | "cancelled" => return None,
        "max_tokens" => "The model reached its token limit.",
        "max_turn_requests" => "The agent reached its limit of model requests for one turn.",
        "refusal" => "The agent refused to continue.",
        other => return Some(format!("The turn ended with an unknown stop reason: {other}.")),
    };
    Some(message.to_owned())
}

/// Tokens of this turn, from a protocol extension that many agents support.
fn tokens(usage: &Value) -> Tokens {
    let count = |field: &str| usage[field].as_u64().unwrap_or_default();
    Tokens {
        input: count("inputTokens"),
        output: count("outputTokens"),
        cache_read: count("cachedReadTokens"),
        cache_write: count("cachedWriteTokens"),
    }
}
