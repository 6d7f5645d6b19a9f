//! Starting the agent, also again after it died or the worker did.

use super::Session;
use crate::agents::claude::recovery::recover;
use crate::agents::claude::story::Story;
use crate::agents::policy::Policy;
use crate::agents::{Ask, Running, Say, Tell, TurnEnd, acp, claude};
use crate::config::{Agent, Config, KEPT_FROM_THE_AGENT};
use crate::event::Event;
use crate::heartbeat::Status;
use crate::state::State;
use crate::transcript::{self, Tail};
use std::collections::HashSet;
use std::path::PathBuf;
use uuid::Uuid;

const PROMPTS: Uuid = Uuid::from_u128(0x2b1d_9a3e_77c4_4f0b_8d6a_c3f1_58e0_94b2);

/// How agents are started here.
#[derive(Debug, Clone)]
pub(crate) struct Crew {
    /// How this program is called, for agents that are part of it.
    pub program: Vec<String>,
    /// What is added to an agent's environment, such as how git finds its credentials.
    pub env: Vec<(String, String)>,
    /// How many lines of the agent's record were written in another sandbox.
    pub inherited: u64,
    /// The session to begin as a copy of.
    pub fork_of: Option<Uuid>,
    /// Which sandbox.
    pub sandbox: String,
}

/// What the agent's own record says about an earlier life.
#[derive(Default)]
struct Past {
    story: Option<Story>,
    heard: HashSet<Uuid>,
    unfinished: bool,
    exists: bool,
    last_text: String,
    prompts: Vec<String>,
}

impl Crew {
    /// The prompt of the iteration that runs, under the name that it has in every life.
    pub(super) fn prompt(&self, state: &State) -> Option<Say> {
        let text = state.prompt.clone()?;
        let name = format!("{}/{}", self.sandbox, state.progress.iteration);
        Some(Say { uuid: Uuid::new_v5(&PROMPTS, name.as_bytes()), text })
    }
}

impl Session {
    /// Starts the agent, and tells it what it should know and does not.
    pub(super) async fn start_agent(&mut self) {
        self.restart_at = None;
        if let Some(left_over) = self.state.process.take()
            && left_over.kill_if_alive()
        {
            tracing::warn!("An agent of an earlier life of this worker was still there and was killed");
        }
        let (running, past) = match &self.config.agent {
            Agent::Acp(command) => self.start_acp(command.clone()),
            Agent::Claude => {
                let command = vec![self.config.claude.clone()];
                self.start_claude(command, self.config.claude_dir.clone())
            }
            Agent::Scripted(script) => {
                let mut command = self.crew.program.clone();
                command.extend(["play".to_owned(), script.clone()]);
                self.start_claude(command, self.config.state_dir.join("claude"))
            }
        };
        self.agent = Some(running);
        self.save();
        let status = if self.state.prompt.is_some() { Status::Working } else { Status::Waiting };
        self.vitals.send_modify(|vitals| vitals.status = status);
        self.brief(past).await;
    }

    /// Says what the agent has not heard: the prompt that runs, and messages.
    async fn brief(&mut self, past: Past) {
        if self.state.outcome.is_none()
            && let Some(prompt) = self.crew.prompt(&self.state)
        {
            // Somebody goes on with a session in the middle of this very task: it goes on by itself.
            let under_way = past.unfinished && past.prompts.contains(&prompt.text);
            if !past.heard.contains(&prompt.uuid) {
                if !under_way {
                    self.ask(Ask::Say(prompt)).await;
                }
            } else if !past.unfinished {
                // It finished while nobody listened: the end of the turn was printed, and not read.
                let (success, result) = (true, past.last_text);
                let session = self.state.session.clone().unwrap_or_default();
                self.ends.push(TurnEnd { success, result, session, turns: self.turns, ..TurnEnd::default() });
                self.rested().await;
            }
        }
        let unheard: Vec<Say> = self
            .state
            .pending
            .iter()
            .filter(|pending| !past.heard.contains(&pending.uuid))
            .map(|pending| Say { uuid: pending.uuid, text: pending.text.clone() })
            .collect();
        for say in unheard {
            self.ask(Ask::Say(say)).await;
        }
    }

    fn start_acp(&mut self, command: Vec<String>) -> (Running, Past) {
        let settings = acp::Settings {
            command,
            env: self.crew.env.clone(),
            env_removed: KEPT_FROM_THE_AGENT.map(String::from).to_vec(),
            cwd: self.config.cwd.clone(),
            resume: self.state.session.clone(),
            policy: policy(&self.config),
        };
        (acp::start(settings), Past::default())
    }

    fn start_claude(&mut self, command: Vec<String>, config_dir: PathBuf) -> (Running, Past) {
        let session = self.state.session.as_deref().and_then(|session| session.parse().ok());
        let session: Uuid = session.unwrap_or_else(Uuid::new_v4);
        self.state.session = Some(session.to_string());
        let path = transcript::path(&config_dir, &self.config.cwd, &session.to_string());
        let past = self.past(&path);
        let copied = self.outbox.transcript_next(&session.to_string()).saturating_sub(1);
        self.tail = Some(Tail::new(path, copied));
        let begin = match (past.exists, self.crew.fork_of) {
            (true, _) => claude::Session::Resume(session),
            (false, Some(from)) => claude::Session::Fork { from, to: session },
            (false, None) => claude::Session::New(session),
        };
        let mut env = vec![("CLAUDE_CONFIG_DIR".to_owned(), config_dir.display().to_string())];
        env.push(("IS_SANDBOX".to_owned(), "1".to_owned()));
        env.extend(self.crew.env.iter().cloned());
        let config = &self.config;
        let settings = claude::Settings {
            command,
            cwd: config.cwd.clone(),
            env,
            env_removed: KEPT_FROM_THE_AGENT.map(String::from).to_vec(),
            session: begin,
            model: config.model.clone(),
            policy: policy(config),
            allowed_tools: config.allowed_tools.clone(),
            disallowed_tools: config.disallowed_tools.clone(),
            max_turns: Some(config.max_turns),
            max_budget_usd: Some(config.max_budget_usd),
            system_prompt: config.system_prompt.clone(),
            append_system_prompt: config.append_system_prompt.clone(),
            setting_sources: config.setting_sources.clone(),
            partial_messages: config.partial_messages,
            background_patience: config.background_patience,
        };
        let mut past = past;
        let story = past.story.take().unwrap_or_else(|| Story::new(config.cwd.clone()));
        (claude::start(&settings, story), past)
    }

    /// Reads the agent's record, and tells what was not told.
    fn past(&mut self, path: &std::path::Path) -> Past {
        let story = Story::new(self.config.cwd.clone());
        let Ok(record) = std::fs::read_to_string(path) else { return Past::default() };
        let inherited = usize::try_from(self.crew.inherited).unwrap_or(usize::MAX);
        let lines: Vec<&str> = record.lines().collect();
        let (theirs, ours) = lines.split_at(inherited.min(lines.len()));
        let before = recover(story, theirs.iter().copied());
        let recovered = recover(before.story, ours.iter().copied());
        let mut last_text = String::new();
        for tell in recovered.tells {
            if let Tell::Event(event) = tell {
                remember_text(&event, &mut last_text);
                self.outbox.tell(event);
            }
        }
        let (mut heard, mut prompts) = (before.heard, before.prompts);
        heard.extend(recovered.heard);
        prompts.extend(recovered.prompts);
        let unfinished = if ours.is_empty() { before.unfinished } else { recovered.unfinished };
        self.turns = recovered.story.turn();
        Past { story: Some(recovered.story), heard, unfinished, exists: true, last_text, prompts }
    }
}

fn remember_text(event: &Event, last_text: &mut String) {
    if event.event_type == "agent.message"
        && let Some(text) = event.data.get("content").and_then(|content| content.as_str())
    {
        text.clone_into(last_text);
    }
}

fn policy(config: &Config) -> Policy {
    // Rules with patterns are the CLI's own business.
    let denied = config.disallowed_tools.iter().filter(|tool| !tool.contains('(')).cloned().collect();
    Policy { mode: config.permission_mode, denied, root: config.cwd.clone() }
}
