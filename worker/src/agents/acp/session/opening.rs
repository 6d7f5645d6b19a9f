//! The way to a session: what the agent can do, and whether it continues an old session or begins a new one.

use super::{Call, PROTOCOL_VERSION, Phase, Session};
use crate::agents::acp::rpc;
use crate::agents::{Mood, Tell};
use agent_client_protocol_schema::v1::{Error, ErrorCode};
use serde_json::{Value, json};

impl Session {
    pub(super) fn answered(&mut self, call: Call, answer: Result<Value, Error>) {
        match (call, answer) {
            (Call::Prompt, answer) => self.prompt_returned(answer),
            (Call::Initialize, Ok(result)) => self.initialized(result),
            (Call::Initialize, Err(error)) => {
                self.fail(format!("It refused to begin: {}.", rpc::describe(&error)));
            }
            (Call::Resume | Call::Load | Call::New, Ok(result)) => self.opened(call, &result),
            (Call::New, Err(error)) => {
                let why = rpc::describe(&error);
                self.fail(if error.code == ErrorCode::AuthRequired {
                    format!("It has to be signed in first: {why}. Give it a key in its environment.")
                } else {
                    format!("It refused to begin a session: {why}.")
                });
            }
            (Call::Resume | Call::Load, Err(error)) => {
                self.narrator.end_replay();
                let why = rpc::describe(&error);
                if call == Call::Resume && self.agent.can_load {
                    self.agent.can_resume = false;
                    self.open();
                } else {
                    self.error(
                        &format!("The session could not be resumed, so a new one begins: {why}."),
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
            return self.fail(format!("It speaks version {version} of ACP, not {PROTOCOL_VERSION}."));
        }
        let capabilities = &result["agentCapabilities"];
        let resume = &capabilities["sessionCapabilities"]["resume"];
        self.agent.can_resume = resume.is_object() || resume == true;
        self.agent.can_load = capabilities["loadSession"] == true;
        self.agent.info = result.get_mut("agentInfo").map(Value::take).unwrap_or_default();
        self.open();
    }

    fn open(&mut self) {
        let Some(session) = self.terms.resume.clone() else { return self.open_new() };
        let params = json!({ "sessionId": session, "cwd": self.terms.cwd, "mcpServers": [] });
        self.narrator.session = session;
        self.narrator.cost.is_resumed = true;
        if self.agent.can_resume {
            self.call(Call::Resume, "session/resume", &params);
        } else if self.agent.can_load {
            self.narrator.is_replay = true;
            self.call(Call::Load, "session/load", &params);
        } else {
            self.error("This agent cannot resume a session, so a new one begins.", "resume");
            self.open_new();
        }
    }

    fn open_new(&mut self) {
        self.narrator.session.clear();
        self.narrator.cost.is_resumed = false;
        self.call(Call::New, "session/new", &json!({ "cwd": self.terms.cwd, "mcpServers": [] }));
    }

    fn opened(&mut self, call: Call, result: &Value) {
        self.narrator.end_replay();
        if call == Call::New {
            let Some(session) = result["sessionId"].as_str() else {
                return self.fail("It began a session without an id.".to_owned());
            };
            session.clone_into(&mut self.narrator.session);
        }
        self.phase = Phase::Ready;
        let metadata = json!({
            "session_id": self.narrator.session,
            "agent": self.agent.info,
            "cwd": self.terms.cwd,
            "resumed": call != Call::New,
            "modes": result["modes"],
        });
        // So that a worker that comes after this one goes on with it.
        self.narrator.tell(Tell::Session(self.narrator.session.clone()));
        self.narrator.system("init", metadata);
        if self.held.is_empty() {
            self.narrator.tell(Tell::Mood(Mood::Idle));
        }
        self.go_on();
    }

    /// It cannot come up.
    pub(super) fn fail(&mut self, reason: String) {
        self.narrator.is_replay = false;
        self.error(&reason, "initialization");
        self.phase = Phase::Failed { reason };
    }
}
