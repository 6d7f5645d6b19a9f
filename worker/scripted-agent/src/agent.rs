//! The script player as an [`Agent`] of the worker.

use super::{PlayArguments, load, play};
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::io::BufReader;
use worker::agents::claude::Conversation;
use worker::agents::{Agent, AgentHandle, AgentKind, Launch, ProgramFuture, Recovered, Sessions};
use worker::config::{Problem, Reader, environment};

pub const SCRIPTED: AgentKind = AgentKind {
    name: "scripted",
    argument: Some("<file>"),
    title: "Scripts",
    variables: &[],
    secrets: &[],
    prefixes: &["PLAY_"],
    urls: &[],
    services: &[],
    directories: &[],
    configure,
    program: Some(program),
};

fn configure(reader: &mut Reader<'_>, script: &str) -> Option<Box<dyn Agent>> {
    // Not the directory of Claude Code: scripts must not write into the user's real sessions.
    let directory = reader.state_dir().join("claude");
    Some(Box::new(Scripted { script: script.to_owned(), conversation: Conversation::new(directory) }))
}

/// Speaks the protocol of the Claude Code CLI, so that a script is driven by the same code as the real agent.
#[derive(Debug)]
struct Scripted {
    /// Name or path.
    script: String,
    conversation: Conversation,
}

impl Agent for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn describe(&self) -> String {
        format!("script {}", self.script)
    }

    fn check(&self, _path: &str) -> Result<(), Problem> {
        let problem = |message| Problem { variable: "AGENT".into(), message, is_warning: false };
        load(&self.script).map(drop).map_err(problem)
    }

    fn files(&self) -> Vec<PathBuf> {
        Vec::from_iter(self.script.contains('/').then(|| PathBuf::from(&self.script)))
    }

    fn sessions(&self) -> Sessions {
        self.conversation.sessions()
    }

    fn recover(&mut self, launch: &Launch) -> Option<Recovered> {
        self.conversation.recover(launch)
    }

    fn start(&mut self, launch: Launch) -> AgentHandle {
        let mut command = launch.own_program(SCRIPTED.name);
        command.push(self.script.clone());
        self.conversation.start(command, Vec::new(), launch)
    }
}

/// Plays a script on the standard streams. The arguments are the script and those of the Claude Code CLI.
fn program(arguments: Vec<String>) -> ProgramFuture {
    Box::pin(async move {
        let arguments =
            PlayArguments::parse(&arguments).and_then(|arguments| arguments.in_environment(&environment()));
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(why) => {
                super::print_error(&why);
                return ExitCode::FAILURE;
            }
        };
        let stdin = BufReader::new(tokio::io::stdin());
        let code = play(arguments, stdin, tokio::io::stdout()).await;
        // A pending read of standard input cannot be cancelled.
        std::process::exit(code)
    })
}
