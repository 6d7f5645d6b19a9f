//! An agent that exists only here. It shows what an agent consists of: this folder, and its line in the list. It repeats
//! every message, in this process.

use contract::payloads::{AgentMessage, BlockPlace};
use domain::message::State;
use tokio::sync::mpsc;
use uuid::Uuid;
use worker::agents::{
    Agent, AgentActivity, AgentCommand, AgentHandle, AgentKind, AgentOutput, ExitReason, Launch, TurnEnd,
};
use worker::config::variables::{DefaultValue, variable};
use worker::config::{Problem, Reader};
use worker::event::Event;

pub const THROW_AWAY: AgentKind = AgentKind {
    name: "throwaway",
    argument: None,
    title: "Throw-away",
    variables: &[variable("THROWAWAY_GREETING", DefaultValue::Fixed("Hello"), "What it says first")],
    secrets: &[],
    prefixes: &[],
    urls: &[],
    services: &[],
    directories: &[],
    configure,
    program: None,
};

fn configure(reader: &mut Reader<'_>, _argument: &str) -> Option<Box<dyn Agent>> {
    let greeting = reader.text("THROWAWAY_GREETING").unwrap_or_else(|| "Hello".to_owned());
    Some(Box::new(ThrowAway { greeting }))
}

#[derive(Debug)]
struct ThrowAway {
    greeting: String,
}

impl Agent for ThrowAway {
    fn name(&self) -> &'static str {
        THROW_AWAY.name
    }

    fn describe(&self) -> String {
        format!("throw-away agent that says {}", self.greeting)
    }

    fn check(&self, _path: &str) -> Result<(), Problem> {
        Ok(())
    }

    fn start(&mut self, launch: Launch) -> AgentHandle {
        let (commands, command_receiver) = mpsc::channel(16);
        let (outputs, output_receiver) = mpsc::channel(64);
        let session = launch.session.unwrap_or_else(|| "throwaway-1".to_owned());
        let conversation = Conversation { greeting: self.greeting.clone(), session, outputs, turns: 0 };
        let driver = tokio::spawn(conversation.run(command_receiver));
        AgentHandle { commands, outputs: output_receiver, driver }
    }
}

struct Conversation {
    greeting: String,
    session: String,
    outputs: mpsc::Sender<AgentOutput>,
    turns: u64,
}

impl Conversation {
    async fn run(mut self, mut commands: mpsc::Receiver<AgentCommand>) {
        self.send(AgentOutput::Session(self.session.clone())).await;
        loop {
            match commands.recv().await {
                Some(AgentCommand::Message(message)) => {
                    let interrupted = self.turn(message.uuid, &message.text, &mut commands).await;
                    if interrupted.is_none() {
                        break;
                    }
                }
                Some(AgentCommand::Interrupt { .. }) => {
                    self.send(AgentOutput::Interrupted { cancelled: Vec::new() }).await;
                }
                Some(AgentCommand::Stop) | None => break,
            }
        }
        self.send(AgentOutput::Exited(ExitReason::Exited { code: 0 })).await;
    }

    /// Whether the turn was interrupted. `None` if the agent must stop.
    async fn turn(
        &mut self,
        uuid: Uuid,
        text: &str,
        commands: &mut mpsc::Receiver<AgentCommand>,
    ) -> Option<bool> {
        self.turns += 1;
        self.send(AgentOutput::Receipt { uuid, state: State::Delivered }).await;
        self.send(AgentOutput::Activity(AgentActivity::Working)).await;
        self.send(AgentOutput::Receipt { uuid, state: State::Started }).await;
        let content = format!("{}: {text}", self.greeting);
        let content_length = content.chars().count() as u64;
        let place = BlockPlace { turn: self.turns, ..BlockPlace::default() };
        let message =
            AgentMessage { content: content.clone(), content_length, place, ..AgentMessage::default() };
        self.send(AgentOutput::Event(Event::agent(message))).await;
        let mut interrupted = false;
        while text.contains("wait") && !interrupted {
            match commands.recv().await {
                Some(AgentCommand::Interrupt { .. }) => interrupted = true,
                Some(AgentCommand::Message(_)) => {}
                Some(AgentCommand::Stop) | None => return None,
            }
        }
        if interrupted {
            self.send(AgentOutput::Interrupted { cancelled: Vec::new() }).await;
        }
        let state = if interrupted { State::Cancelled } else { State::Completed };
        self.send(AgentOutput::Receipt { uuid, state }).await;
        let end = TurnEnd {
            success: !interrupted,
            interrupted,
            result: content,
            session: self.session.clone(),
            turns: self.turns,
            ..TurnEnd::default()
        };
        self.send(AgentOutput::TurnEnded(Box::new(end))).await;
        self.send(AgentOutput::Activity(AgentActivity::Idle)).await;
        Some(interrupted)
    }

    async fn send(&self, output: AgentOutput) {
        // Fails only if nothing reads the outputs any more.
        let _ = self.outputs.send(output).await;
    }
}
