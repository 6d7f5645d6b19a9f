//! Inspects the repository, validates the requirements and emits the outcome of the task.

use super::Supervisor;
use super::saving::save_and_keep;
use crate::agents::AgentActivity;
use crate::completion::Outcome;
use crate::config::Requirements;
use crate::event::{Event, MAX_FIELD_BYTES, first_bytes};
use crate::heartbeat::{AgentState, Status};
use crate::keeping::Keeping;
use crate::outbox::Outbox;
use crate::workspace::Repository;
use crate::workspace::save::{Occasion, Saver};
use crate::workspace::validation::{self, GitState, InspectOptions, Validation};
use confine::Launcher;
use contract::payloads::{AgentCompleted, AgentFailed, ContinuousCompleted, RunReport};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Shared id prefix of `agent.completed` and `agent.failed`, so that a task has only one outcome.
pub(crate) const OUTCOME_EVENT: &str = "outcome";

const TEST_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How long the work waits for an agent that is being interrupted.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(15);

/// Why the repository is inspected.
#[derive(Debug, Clone)]
pub(super) enum Purpose {
    /// To check the requirements.
    Validate,
    /// To report the final state of the repository with the outcome.
    Finish(Outcome),
}

/// Result of an inspection.
#[derive(Debug)]
pub(super) struct Inspection {
    purpose: Purpose,
    git: Option<GitState>,
    validation: Option<Validation>,
    tests_passed: Option<bool>,
}

impl Inspection {
    /// The inspection task itself failed.
    pub(super) fn failed(why: &str) -> Self {
        let outcome = Outcome::failure("error", format!("the repository inspection failed: {why}"));
        Self { purpose: Purpose::Finish(outcome), git: None, validation: None, tests_passed: None }
    }
}

impl Supervisor {
    /// Inspects the repository in a separate task, unless an inspection is running already.
    pub(super) fn inspect(&mut self, purpose: Purpose) {
        if self.inspection.is_some() {
            return;
        }
        let inspector = Inspector {
            root: self.config.cwd.clone(),
            requirements: self.config.requirements.clone(),
            launcher: self.launcher.confined.clone(),
            repository: self.config.repository.clone(),
            saver: self.saver.clone(),
            keeping: self.keeping.clone(),
            outbox: self.outbox.clone(),
            push_timeout: self.config.push_timeout,
        };
        let drained = self.observers.drained();
        let working = (self.activity == AgentActivity::Working).then(|| self.agent_state.subscribe());
        self.inspection = Some(tokio::spawn(async move {
            // Emit the changes of the last tool before the outcome.
            drained.await;
            if let Some(working) = working {
                until_idle(working).await;
            }
            inspector.inspect(purpose).await
        }));
    }

    pub(super) fn inspected(&mut self, inspection: Inspection) {
        let Inspection { purpose, git, validation, tests_passed } = inspection;
        self.state.progress.git = git.filter(|git| git.is_repository);
        if tests_passed.is_some() {
            self.state.progress.tests_passed = tests_passed;
        }
        match (purpose, validation) {
            (Purpose::Validate, Some(validation)) => {
                if self.activity == AgentActivity::Working {
                    // A message arrived meanwhile. Validation runs again when the agent is idle.
                    return;
                }
                let mut events = Vec::new();
                let next = self.plan.validated(&mut self.state.progress, &validation, &mut events);
                self.emit_iteration_events(events);
                self.apply(next);
            }
            (Purpose::Finish(outcome), _) => self.finish(outcome),
            (Purpose::Validate, None) => {
                self.finish(Outcome::failure("error", "the repository could not be validated"));
            }
        }
    }

    /// Emits the outcome of the task. It is final: later messages do not change it.
    fn finish(&mut self, outcome: Outcome) {
        if self.state.outcome.is_some() {
            return;
        }
        let progress = &self.state.progress;
        if self.plan.continuous.is_some() {
            let event = Event::worker(ContinuousCompleted {
                stop_reason: outcome.stop_reason.to_string(),
                last_session_id: self.state.session.clone(),
                total_cost_usd: progress.cost_usd,
                state: progress.state(),
            });
            self.emit_once("continuous-completed", event);
        }
        let report = RunReport {
            state: progress.state(),
            turns: self.turns,
            cost_usd: progress.cost_usd,
            tokens: progress.tokens(),
            session_id: self.state.session.clone(),
            final_output: first_bytes(&progress.last_output, MAX_FIELD_BYTES).to_owned(),
            branch_name: self.branch_name(),
            commit: progress.git.as_ref().and_then(|git| git.host_commit.clone()),
            agent_type: self.config.task.agent_type.clone(),
            output: None,
            artifacts: None,
        };
        let (stop_reason, error) = (outcome.stop_reason.to_string(), outcome.error.clone());
        let event = if outcome.success {
            Event::agent(AgentCompleted { success: true, stop_reason, error, report })
        } else {
            Event::agent(AgentFailed { success: false, stop_reason, error, phase: None, report })
        };
        self.emit_once(OUTCOME_EVENT, event);
        tracing::info!("Task finished: {}", outcome.stop_reason);
        self.state.outcome = Some(outcome);
        self.schedule.next_iteration = None;
        self.save();
        self.wait_for_messages("Task finished; waiting for messages");
    }

    /// The branch of the task. Without a repository, the one that is checked out.
    fn branch_name(&self) -> Option<String> {
        let of_task = self.saver.origin().map(|origin| origin.relay.branch().to_owned());
        of_task.or_else(|| self.state.progress.git.as_ref()?.branch.clone())
    }
}

async fn until_idle(mut agent: watch::Receiver<AgentState>) {
    let idle = agent.wait_for(|state| state.status != Status::Working);
    let _ = timeout(INTERRUPT_TIMEOUT, idle).await;
}

/// Saves and inspects the repository, in its own task.
struct Inspector {
    root: PathBuf,
    requirements: Requirements,
    launcher: Launcher,
    repository: Option<Repository>,
    saver: Saver,
    keeping: Keeping,
    outbox: Outbox,
    push_timeout: Duration,
}

impl Inspector {
    async fn inspect(&self, purpose: Purpose) -> Inspection {
        self.save(&purpose).await;
        let options = InspectOptions {
            root: &self.root,
            launcher: &self.launcher,
            repository: self.repository.as_ref(),
            base_branch: self.repository.as_ref().and_then(|repository| repository.base.as_deref()),
            relay: self.saver.origin().map(|origin| &origin.relay),
            gh: Path::new("gh"),
        };
        let git = validation::git_state(options).await;
        let (validation, tests_passed) = match &purpose {
            Purpose::Finish(_) => (None, None),
            Purpose::Validate => {
                let tests = match &self.requirements.tests {
                    Some(command) => {
                        Some(validation::run_tests(&self.root, &self.launcher, command, TEST_TIMEOUT).await)
                    }
                    None => None,
                };
                let passed = tests.as_ref().map(|tests| tests.outcome == validation::Outcome::Passed);
                let Requirements { clean, pushed, pull_request, .. } = self.requirements;
                let required = validation::Requirements { clean, pushed, pull_request, tests };
                (Some(validation::evaluate(&git, &required)), passed)
            }
        };
        Inspection { purpose, git: Some(git), validation, tests_passed }
    }

    /// The outcome reports what the host has, so everything is pushed first. A validation checks the commits of the agent.
    async fn save(&self, purpose: &Purpose) {
        match purpose {
            Purpose::Finish(outcome) => {
                let occasion = if outcome.success { Occasion::Completed } else { Occasion::Interrupted };
                save_and_keep((&self.saver, &self.keeping), occasion, &self.outbox, self.push_timeout).await;
            }
            Purpose::Validate => {
                if let Err(error) = self.saver.push_commits().await {
                    tracing::warn!("The commits of the agent cannot be pushed yet: {error}");
                }
                if let Some(origin) = self.saver.origin() {
                    origin.relay.delivered(self.push_timeout).await;
                }
            }
        }
    }
}
