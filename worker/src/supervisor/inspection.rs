//! Inspects the repository, validates the requirements and emits the outcome of the task.

use super::Supervisor;
use crate::agents::AgentActivity;
use crate::completion::{Next, Outcome};
use crate::config::Requirements;
use crate::event::{Event, MAX_FIELD_BYTES, first_bytes};
use crate::workspace::Repository;
use crate::workspace::validation::{self, GitState, InspectOptions, Validation};
use confine::Launcher;
use contract::payloads::{AgentCompleted, AgentFailed, ContinuousCompleted, RunReport};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Shared id prefix of `agent.completed` and `agent.failed`, so that a task has only one outcome.
pub(crate) const OUTCOME_EVENT: &str = "outcome";

const TEST_TIMEOUT: Duration = Duration::from_secs(30 * 60);

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
        let (root, requirements) = (self.config.cwd.clone(), self.config.requirements.clone());
        let (launcher, repository) = (self.launcher.confined.clone(), self.config.repository.clone());
        let drained = self.observers.drained();
        self.inspection = Some(tokio::spawn(async move {
            // Emit the changes of the last tool before the outcome.
            drained.await;
            inspect_repository(root, &launcher, repository.as_ref(), requirements, purpose).await
        }));
    }

    pub(super) fn inspected(&mut self, inspection: Inspection) {
        let Inspection { purpose, git, validation, tests_passed } = inspection;
        self.state.progress.git = git.filter(|git| git.is_repository);
        self.state.progress.tests_passed = tests_passed;
        match (purpose, validation) {
            (Purpose::Validate, Some(validation)) => {
                if self.activity == AgentActivity::Working {
                    // A message arrived meanwhile. Validation runs again when the agent is idle.
                    return;
                }
                let mut events = Vec::new();
                let next = self.plan.validated(&mut self.state.progress, &validation, &mut events);
                self.emit_iteration_events(events);
                match next {
                    // The repository was just inspected.
                    Next::Done(outcome) => self.finish(outcome),
                    next => self.apply(next),
                }
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
            branch_name: progress.git.as_ref().and_then(|git| git.branch.clone()),
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
}

async fn inspect_repository(
    root: PathBuf,
    launcher: &Launcher,
    repository: Option<&Repository>,
    requirements: Requirements,
    purpose: Purpose,
) -> Inspection {
    let options =
        InspectOptions { root: &root, launcher, repository, base_branch: None, gh: Path::new("gh") };
    let git = validation::git_state(options).await;
    let (validation, tests_passed) = match &purpose {
        Purpose::Finish(_) => (None, None),
        Purpose::Validate => {
            let tests = match &requirements.tests {
                Some(command) => Some(validation::run_tests(&root, launcher, command, TEST_TIMEOUT).await),
                None => None,
            };
            let passed = tests.as_ref().map(|tests| tests.outcome == validation::Outcome::Passed);
            let Requirements { clean, pushed, pull_request, .. } = requirements;
            let required = validation::Requirements { clean, pushed, pull_request, tests };
            (Some(validation::evaluate(&git, &required)), passed)
        }
    };
    Inspection { purpose, git: Some(git), validation, tests_passed }
}
