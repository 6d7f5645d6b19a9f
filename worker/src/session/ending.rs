//! The ends: of a task, and of the worker.

use super::{FENCED, Session, Why};
use crate::agents::{Ask, Mood, Tell};
use crate::completion::{Next, Outcome};
use crate::config::Requirements;
use crate::event::{Event, MAX_FIELD_BYTES, first_bytes};
use crate::heartbeat::Status;
use crate::session::mail::Interruption;
use crate::workspace::validation::{self, GitState, Look, Verdict};
use domain::message;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Within this time the worker is gone, whatever hangs: whoever told it to stop kills it soon after.
const FAREWELL: Duration = Duration::from_millis(9_000);
/// How long an agent may take to stop its turn.
const TURN_FAREWELL: Duration = Duration::from_millis(2_000);

/// Both ends of a task have this name: it ends once.
pub(crate) const OUTCOME: &str = "outcome";

/// How long the tests of a task may take.
const TESTS_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// What a look at the repository is for.
#[derive(Debug, Clone)]
pub(super) enum Purpose {
    /// Whether what is required holds.
    Validate,
    /// The task is over: what has become of the repository is told with it.
    Finish(Outcome),
}

/// What was seen.
#[derive(Debug)]
pub(super) struct Inspection {
    purpose: Purpose,
    git: Option<GitState>,
    verdict: Option<Verdict>,
    tests_passed: Option<bool>,
}

impl Inspection {
    /// A look that failed itself.
    pub(super) fn broken(why: &str) -> Self {
        let outcome = Outcome::failure("error", format!("the check of the repository broke: {why}"));
        Self { purpose: Purpose::Finish(outcome), git: None, verdict: None, tests_passed: None }
    }
}

impl Session {
    /// Looks at the repository, beside everything else.
    pub(super) fn inspect(&mut self, purpose: Purpose) {
        if self.inspection.is_some() {
            return;
        }
        let (root, requirements) = (self.config.cwd.clone(), self.config.requirements.clone());
        let settled = self.observers.settled();
        self.inspection = Some(tokio::spawn(async move {
            // What the last tool changed is told before the task is called done.
            settled.await;
            look(root, requirements, purpose).await
        }));
    }

    pub(super) fn inspected(&mut self, inspection: Inspection) {
        let Inspection { purpose, git, verdict, tests_passed } = inspection;
        self.state.progress.git = git.filter(|git| git.is_repository);
        self.state.progress.tests_passed = tests_passed;
        match (purpose, verdict) {
            (Purpose::Validate, Some(verdict)) => {
                if self.mood == Mood::Working {
                    // Somebody has said something meanwhile: it is looked at again when the agent rests.
                    return;
                }
                let mut told = Vec::new();
                let next = self.plan.validated(&mut self.state.progress, &verdict, &mut told);
                self.tell_of_iteration(told);
                match next {
                    // It was looked at just now.
                    Next::Done(outcome) => self.finish(outcome),
                    next => self.follow(next),
                }
            }
            (Purpose::Finish(outcome), _) => self.finish(outcome),
            (Purpose::Validate, None) => {
                self.finish(Outcome::failure("error", "the repository could not be checked"));
            }
        }
    }

    /// The task is over, once and for all: whatever is said from now on decides nothing.
    fn finish(&mut self, outcome: Outcome) {
        if self.state.outcome.is_some() {
            return;
        }
        let progress = &self.state.progress;
        if self.plan.continuous.is_some() {
            let event =
                Event::worker("continuous.completed").with("stop_reason", outcome.stop_reason.as_str());
            let event = event.with_some("last_session_id", self.state.session.clone());
            self.tell_once("continuous-completed", progress.onto(event));
        }
        let event_type = if outcome.success { "agent.completed" } else { "agent.failed" };
        let git = progress.git.as_ref();
        let event = progress
            .onto(Event::agent(event_type))
            .with("success", outcome.success)
            .with("stop_reason", outcome.stop_reason.as_str())
            .with_some("error", outcome.error.clone())
            .with("turns", self.turns)
            .with("cost_usd", progress.cost_usd)
            .with("input_tokens", progress.input_tokens)
            .with("output_tokens", progress.output_tokens)
            .with("cache_read_tokens", progress.cache_read_tokens)
            .with("cache_write_tokens", progress.cache_write_tokens)
            .with_some("session_id", self.state.session.clone())
            .with("final_output", first_bytes(&progress.last_output, MAX_FIELD_BYTES))
            .with_some("branch_name", git.and_then(|git| git.branch.clone()))
            .with_some("agent_type", self.config.task.agent_type.clone());
        self.tell_once(OUTCOME, event);
        tracing::info!("The task is over: {}", outcome.stop_reason);
        self.state.outcome = Some(outcome);
        self.next_iteration = None;
        self.save();
        self.wait_for_messages("the task is over; ready for the next message");
    }

    /// Says goodbye, in time.
    pub(super) async fn end(mut self, why: Why) -> ExitCode {
        let deadline = Instant::now() + FAREWELL;
        if let Why::Fenced = why {
            tracing::error!("A newer run of this worker has taken over: this one stops at once");
            drop(self.agent.take());
            return ExitCode::from(FENCED);
        }
        let Why::Told(reason) = why else { return ExitCode::FAILURE };
        tracing::info!("Stopping: {reason}");
        self.vitals.send_modify(|vitals| vitals.status = Status::Stopping);
        if self.mood == Mood::Working {
            self.interrupt(Interruption { message_id: None, sender_id: None, reason: "shutdown" }).await;
            let _ = timeout(TURN_FAREWELL, self.listen_until_idle()).await;
        }
        self.ask(Ask::Stop).await;
        let _ = timeout(
            deadline.duration_since(Instant::now()).saturating_sub(Duration::from_secs(3)),
            self.listen(),
        )
        .await;
        self.agent = None;
        self.copy_transcript();
        let _ = timeout(Duration::from_secs(1), self.observers.settled()).await;
        self.outbox.tell(
            Event::worker("agent.shutdown")
                .with("reason", reason)
                .with("total_turns", self.turns)
                .with("task_over", self.state.outcome.is_some()),
        );
        self.state.process = None;
        self.save();
        let left = deadline.saturating_duration_since(Instant::now());
        if !self.outbox.flushed(left).await {
            let waiting = self.outbox.status().waiting_events;
            tracing::warn!(
                "{waiting} events could not be sent in time; the next run in this folder sends them"
            );
        }
        ExitCode::SUCCESS
    }

    /// Takes in what the agent still says, until its turn is over.
    async fn listen_until_idle(&mut self) {
        while self.mood == Mood::Working {
            let tell = super::next_tell(&mut self.agent).await;
            self.hear_out(tell);
        }
    }

    /// Takes in what the agent still says, until it is gone.
    async fn listen(&mut self) {
        while self.agent.is_some() {
            let tell = super::next_tell(&mut self.agent).await;
            self.hear_out(tell);
        }
    }

    fn hear_out(&mut self, tell: Tell) {
        match tell {
            Tell::Event(event) => self.outbox.tell(event),
            // What was taken back only because the worker goes is said again by the next run.
            Tell::Receipt { state: message::State::Cancelled, .. } => {}
            Tell::Receipt { uuid, state } => self.receipt(uuid, state),
            Tell::Interrupted { cancelled } => self.interrupted(&cancelled),
            Tell::Mood(mood) => self.mood = mood,
            Tell::Recorded => self.copy_transcript(),
            // The next run goes on with it.
            Tell::TurnEnded(end) if end.interrupted => self.state.progress.add(&end),
            Tell::TurnEnded(end) => self.turn_ended(*end),
            Tell::ToolEnded { tool_use_id, turn, edited } => {
                self.observers.tool_ended(tool_use_id, turn, edited);
            }
            Tell::Ended(_) => {
                self.agent = None;
                self.mood = Mood::Idle;
            }
            Tell::Partial(_) | Tell::Progress | Tell::Session(_) | Tell::Process(_) => {}
        }
    }
}

async fn look(root: PathBuf, requirements: Requirements, purpose: Purpose) -> Inspection {
    let git = validation::git_state(Look { root: &root, base_branch: None, gh: Path::new("gh") }).await;
    let (verdict, tests_passed) = match &purpose {
        Purpose::Finish(_) => (None, None),
        Purpose::Validate => {
            let tests = match &requirements.tests {
                Some(command) => Some(validation::run_tests(&root, command, TESTS_DEADLINE).await),
                None => None,
            };
            let passed = tests.as_ref().map(|tests| tests.outcome == validation::Outcome::Passed);
            let Requirements { clean, pushed, pull_request, .. } = requirements;
            let required = validation::Requirements { clean, pushed, pull_request, tests };
            (Some(validation::judge(&git, &required)), passed)
        }
    };
    Inspection { purpose, git: Some(git), verdict, tests_passed }
}
