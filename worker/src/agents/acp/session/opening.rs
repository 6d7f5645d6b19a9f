//! Opens a session: negotiates capabilities, then resumes or loads an old session or starts a new one.

use super::{Call, PROTOCOL_VERSION, Phase, Session};
use crate::agents::acp::rpc;
use crate::agents::{AgentActivity, AgentOutput};
use agent_client_protocol_schema::v1::{Error, ErrorCode};
use serde_json::{Value, json};

impl Session {
    pub(super) fn handle_response(&mut self, call: Call, result: Result<Value, Error>) {
        match (call, result) {
            (Call::Prompt, result) => self.prompt_finished(result),
            (Call::Initialize, Ok(result)) => self.initialized(result),
            (Call::Initialize, Err(error)) => {
                self.fail(format!("The agent rejected initialization: {}.", rpc::describe(&error)));
            }
            (Call::Resume | Call::Load | Call::New, Ok(result)) => self.opened(call, &result),
            (Call::New, Err(error)) => {
                let reason = rpc::describe(&error);
                self.fail(if error.code == ErrorCode::AuthRequired {
                    format!("The agent is not signed in: {reason}. Set its API key in the environment.")
                } else {
                    format!("The agent rejected the new session: {reason}.")
                });
            }
            (Call::Resume | Call::Load, Err(error)) => {
                self.normalizer.end_replay();
                let reason = rpc::describe(&error);
                if call == Call::Resume && self.agent.can_load {
                    self.agent.can_resume = false;
                    self.open();
                } else {
                    self.error(
                        &format!("The session could not be resumed; starting a new one: {reason}."),
                        "resume",
                    );
                    self.open_new();
                }
            }
        }
    }

    fn initialized(&mut self, mut result: Value) {
        let version = result["protocolVersion"].as_u64().unwrap_or(PROTOCOL_VERSION);
        if version != PROTOCOL_VERSION {
            return self.fail(format!(
                "The agent uses ACP version {version}; only version {PROTOCOL_VERSION} is supported."
            ));
        }
        let capabilities = &result["agentCapabilities"];
        let resume = &capabilities["sessionCapabilities"]["resume"];
        self.agent.can_resume = resume.is_object() || resume == true;
        self.agent.can_load = capabilities["loadSession"] == true;
        self.agent.info = result.get_mut("agentInfo").map(Value::take).unwrap_or_default();
        self.open();
    }

    fn open(&mut self) {
        let Some(session) = self.options.resume.clone() else { return self.open_new() };
        let params = self.opening(json!({ "sessionId": session, "cwd": self.options.cwd, "mcpServers": [] }));
        self.normalizer.session = session;
        self.normalizer.cost.is_resumed = true;
        if self.agent.can_resume {
            self.call(Call::Resume, "session/resume", &params);
        } else if self.agent.can_load {
            self.normalizer.is_replay = true;
            self.call(Call::Load, "session/load", &params);
        } else {
            self.error("The agent cannot resume a session; starting a new one.", "resume");
            self.open_new();
        }
    }

    fn open_new(&mut self) {
        self.normalizer.session.clear();
        self.normalizer.cost.is_resumed = false;
        let params = self.opening(json!({ "cwd": self.options.cwd, "mcpServers": [] }));
        self.call(Call::New, "session/new", &params);
    }

    fn opening(&self, mut params: Value) -> Value {
        if let Some(meta) = &self.options.meta {
            params["_meta"] = meta.clone();
        }
        params
    }

    fn opened(&mut self, call: Call, result: &Value) {
        self.normalizer.end_replay();
        if call == Call::New {
            let Some(session) = result["sessionId"].as_str() else {
                return self.fail("The agent returned a session without an id.".to_owned());
            };
            session.clone_into(&mut self.normalizer.session);
        }
        self.phase = Phase::Ready;
        let metadata = json!({
            "session_id": self.normalizer.session,
            "agent": self.agent.info,
            "cwd": self.options.cwd,
            "resumed": call != Call::New,
            "modes": result["modes"],
        });
        // A later run of the worker resumes it.
        self.normalizer.emit(AgentOutput::Session(self.normalizer.session.clone()));
        self.normalizer.emit_system_message("init", metadata);
        if self.queued.is_empty() {
            self.normalizer.emit(AgentOutput::Activity(AgentActivity::Idle));
        }
        self.prompt_next();
    }

    /// Gives up on opening a session.
    pub(super) fn fail(&mut self, reason: String) {
        self.normalizer.is_replay = false;
        self.error(&reason, "initialization");
        self.phase = Phase::Failed { reason };
    }
}
