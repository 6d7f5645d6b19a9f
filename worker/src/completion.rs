//! Decides when a task is done. Pure functions: the result of a turn or validation in, the next step out.

use crate::agents::{Tokens, TurnEnd};
use crate::config::Continuous;
use crate::event::{Event, first_chars};
use crate::workspace::validation::{GitState, Validation};
use contract::payloads::{
    GitStatus, IterationCompleted, IterationCompletionSignal, IterationFailed, IterationStarted,
    IterationValidation, RunState, TokenCounts,
};
use serde::{Deserialize, Serialize};

/// Progress of a task. Persisted across worker restarts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Current iteration, from 1. A single run is one iteration.
    pub iteration: u64,
    /// Number of successful iterations.
    pub successful: u64,
    /// Number of consecutive failed iterations.
    pub errors: u64,
    pub cost_usd: f64,
    /// Cost of the current iteration; included in `cost_usd`.
    pub iteration_cost_usd: f64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    /// Number of consecutive iterations with the completion signal.
    pub signals: u64,
    /// Working time across all worker restarts.
    pub elapsed_seconds: u64,
    /// Result text of the last turn.
    pub last_output: String,
    /// Repository state at the last inspection.
    pub git: Option<GitState>,
    /// Whether all requirements were met at the last validation.
    pub validation_passed: bool,
    /// `None` if there is no test command.
    pub tests_passed: Option<bool>,
}

/// How a task is run to completion.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Iterate within these limits. `None` runs the task once.
    pub continuous: Option<Continuous>,
    /// Whether any requirement must be validated at the end.
    pub validates: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Iterate {
        prompt: String,
        /// Number of consecutive failed iterations before it. The supervisor waits longer after each.
        errors: u64,
    },
    /// Check the requirements.
    Validate,
    Done(Outcome),
    /// The turn was interrupted. The next message decides how to continue.
    Wait,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub success: bool,
    /// `completed`, `validation_passed`, `max_cost_reached`, …
    pub stop_reason: String,
    /// Human-readable error.
    pub error: Option<String>,
}

impl Outcome {
    fn success(stop_reason: &str) -> Self {
        Self { success: true, stop_reason: stop_reason.to_owned(), error: None }
    }

    /// A failure with a `stop_reason` code and a human-readable error.
    pub fn failure(stop_reason: &str, error: impl Into<String>) -> Self {
        Self { success: false, stop_reason: stop_reason.to_owned(), error: Some(error.into()) }
    }
}

impl Plan {
    /// The first prompt for the agent.
    pub fn first_prompt(&self, task: &str) -> String {
        match &self.continuous {
            None => task.to_owned(),
            Some(limits) => format!(
                "{task}\n\n# When you are done\n\nWork until the task is complete: the code works, its tests pass, all changes \
                 are committed and pushed, and a pull request is open, as far as this repository requires it. Then, \
                 and only then, end your last message with the line {}",
                limits.completion_signal
            ),
        }
    }

    /// Handles the end of a turn. Resulting events are appended to `events`.
    pub fn turn_ended(&self, progress: &mut Progress, end: &TurnEnd, events: &mut Vec<Event>) -> Next {
        progress.add(end);
        if end.interrupted {
            return Next::Wait;
        }
        let Some(limits) = &self.continuous else { return self.single_run_ended(end) };
        if !end.success {
            progress.errors += 1;
            progress.signals = 0;
            let error = end.error.clone().unwrap_or_else(|| "the turn ended without a result".into());
            events.push(Event::worker(IterationFailed {
                iteration_num: progress.iteration,
                error: error.clone(),
                error_type: end.limit.as_deref().map(str::to_owned),
                error_count: progress.errors,
            }));
            let prompt = format!("The last attempt ended with an error: {error}\n\nContinue with the task.");
            return progress.next_iteration(limits, prompt);
        }
        progress.errors = 0;
        if !end.result.contains(&limits.completion_signal) {
            progress.signals = 0;
            progress.complete_iteration(events);
            let signal = &limits.completion_signal;
            let prompt = format!(
                "You have not said that the task is done. Continue with it. If it is done, verify it and end your message \
                 with the line {signal}"
            );
            return progress.next_iteration(limits, prompt);
        }
        progress.signals += 1;
        events.push(Event::worker(IterationCompletionSignal {
            iteration_num: progress.iteration,
            signal_count: progress.signals,
            threshold: limits.completion_threshold,
        }));
        if progress.signals < limits.completion_threshold {
            progress.complete_iteration(events);
            let prompt =
                "You say that the task is done. Review all of it once more, fix what you find, and repeat the \
                 completion signal if it is done."
                    .to_owned();
            return progress.next_iteration(limits, prompt);
        }
        if self.validates {
            return Next::Validate;
        }
        progress.complete_iteration(events);
        Next::Done(Outcome::success("completion_signal"))
    }

    fn single_run_ended(&self, end: &TurnEnd) -> Next {
        match (end.success, end.limit.as_deref()) {
            (true, _) if self.validates => Next::Validate,
            (true, _) => Next::Done(Outcome::success("completed")),
            (false, Some(limit)) => {
                let reason = if limit == "budget" { "max_cost_reached" } else { "max_turns_reached" };
                Next::Done(Outcome::failure(reason, format!("the {limit} limit was reached")))
            }
            (false, None) => {
                let error = end.error.clone().unwrap_or_else(|| "the turn ended without a result".into());
                Next::Done(Outcome::failure("error", error))
            }
        }
    }

    /// Handles the result of a validation. Resulting events are appended to `events`.
    pub fn validated(
        &self,
        progress: &mut Progress,
        validation: &Validation,
        events: &mut Vec<Event>,
    ) -> Next {
        progress.validation_passed = validation.passed;
        let git = progress.git.as_ref();
        events.push(Event::worker(IterationValidation {
            iteration_num: progress.iteration,
            passed: validation.passed,
            feedback: validation.feedback.clone(),
            git_status: GitStatus {
                is_clean: git.map(|git| git.is_clean),
                is_pushed: git.map(|git| git.is_pushed),
                has_pr: git.and_then(|git| git.has_pr),
                branch_name: git.and_then(|git| git.branch.clone()),
            },
            errors: validation.errors.clone(),
        }));
        let Some(limits) = &self.continuous else {
            return Next::Done(if validation.passed {
                Outcome::success("validation_passed")
            } else {
                Outcome::failure("validation_failed", validation.feedback.clone())
            });
        };
        progress.complete_iteration(events);
        if validation.passed {
            return Next::Done(Outcome::success("validation_passed"));
        }
        progress.signals = 0;
        let feedback = &validation.feedback;
        progress.next_iteration(
            limits,
            format!("The task is not done yet.\n\n{feedback}\n\nFix this and repeat the completion signal."),
        )
    }
}

impl Progress {
    /// Adds the cost, tokens and result of a turn.
    pub fn add(&mut self, end: &TurnEnd) {
        let Tokens { input, output, cache_read, cache_write } = end.tokens;
        self.cost_usd += end.cost_usd;
        self.iteration_cost_usd += end.cost_usd;
        self.input_tokens += input;
        self.output_tokens += output;
        self.cache_read_tokens += cache_read;
        self.cache_write_tokens += cache_write;
        self.last_output.clone_from(&end.result);
    }

    fn complete_iteration(&mut self, events: &mut Vec<Event>) {
        self.successful += 1;
        events.push(Event::worker(IterationCompleted {
            cost_usd: self.iteration_cost_usd,
            output_preview: first_chars(&self.last_output, 1_000).to_owned(),
            total_cost_usd: self.cost_usd,
            state: self.state(),
        }));
    }

    /// Continues with another iteration unless a limit is reached.
    fn next_iteration(&mut self, limits: &Continuous, prompt: String) -> Next {
        let stop = |reason: &str, error: String| Next::Done(Outcome::failure(reason, error));
        if self.errors >= limits.max_consecutive_errors {
            return stop("consecutive_errors", format!("{} consecutive iterations failed", self.errors));
        }
        if self.successful >= limits.max_iterations {
            return stop("max_iterations_reached", format!("not done after {} iterations", self.successful));
        }
        if self.cost_usd >= limits.max_cost_usd {
            return stop("max_cost_reached", format!("cost limit reached at ${:.2}", self.cost_usd));
        }
        if self.elapsed_seconds >= limits.max_duration.as_secs() {
            return stop(
                "max_duration_reached",
                format!("time limit reached after {} s", self.elapsed_seconds),
            );
        }
        Next::Iterate { prompt, errors: self.errors }
    }

    /// Starts the next iteration and returns its event.
    pub fn begin_iteration(&mut self, prompt: &str) -> Event {
        self.iteration += 1;
        self.iteration_cost_usd = 0.0;
        Event::worker(IterationStarted {
            prompt_preview: first_chars(prompt, 500).to_owned(),
            total_cost_usd: self.cost_usd,
            state: self.state(),
        })
    }

    /// Tokens so far.
    pub fn tokens(&self) -> TokenCounts {
        TokenCounts {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cache_read_tokens: self.cache_read_tokens,
            cache_write_tokens: self.cache_write_tokens,
        }
    }

    pub fn state(&self) -> RunState {
        let git = self.git.as_ref();
        RunState {
            iteration_num: self.iteration,
            successful_iterations: self.successful,
            error_count: self.errors,
            completion_signal_count: self.signals,
            elapsed_seconds: self.elapsed_seconds,
            validation_passed: self.validation_passed,
            tests_passed: self.tests_passed,
            code_committed: git.map(|git| git.is_clean),
            code_pushed: git.map(|git| git.is_pushed),
            pr_created: git.and_then(|git| git.has_pr),
            pr_url: git.and_then(|git| git.pr_url.clone()),
            pr_number: git.and_then(|git| git.pr_number),
            files_changed: git.and_then(|git| git.files_changed),
            ci_status: git.and_then(|git| git.ci_status.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn limits() -> Continuous {
        Continuous {
            max_iterations: 3,
            max_cost_usd: 5.0,
            max_duration: Duration::from_secs(100),
            max_consecutive_errors: 2,
            completion_signal: "TASK_COMPLETE".into(),
            completion_threshold: 1,
        }
    }

    fn plan(validates: bool) -> Plan {
        Plan { continuous: Some(limits()), validates }
    }

    fn completed(text: &str) -> TurnEnd {
        TurnEnd { success: true, result: text.into(), cost_usd: 1.0, ..TurnEnd::default() }
    }

    fn failed(error: &str) -> TurnEnd {
        TurnEnd { error: Some(error.into()), ..TurnEnd::default() }
    }

    fn reason(next: &Next) -> &str {
        match next {
            Next::Done(outcome) => &outcome.stop_reason,
            Next::Iterate { .. } => "iterate",
            Next::Validate => "validate",
            Next::Wait => "wait",
        }
    }

    #[test]
    fn single_run_ends_with_its_turn() {
        let once = Plan { continuous: None, validates: false };
        let checked = Plan { continuous: None, validates: true };
        let over_budget = TurnEnd { limit: Some("budget".into()), ..failed("error_max_budget_usd") };
        let interrupted = TurnEnd { interrupted: true, ..TurnEnd::default() };
        let cases = [
            (&once, completed("done"), "completed"),
            (&checked, completed("done"), "validate"),
            (&once, failed("boom"), "error"),
            (&once, over_budget, "max_cost_reached"),
            (&once, interrupted, "wait"),
        ];
        for (plan, end, expected) in cases {
            let next = plan.turn_ended(&mut Progress::default(), &end, &mut Vec::new());
            assert_eq!(reason(&next), expected, "{end:?}");
        }
    }

    #[test]
    fn continuous_mode_iterates_until_signal_and_validation() {
        let (mut progress, mut events) = (Progress::default(), Vec::new());
        let plan = plan(true);
        let next = plan.turn_ended(&mut progress, &completed("half of it"), &mut events);
        assert_eq!(reason(&next), "iterate");
        let next = plan.turn_ended(&mut progress, &completed("all of it. TASK_COMPLETE"), &mut events);
        assert_eq!(next, Next::Validate);
        let validation =
            Validation { passed: false, feedback: "Push it.".into(), errors: vec!["not pushed".into()] };
        let Next::Iterate { prompt, .. } = plan.validated(&mut progress, &validation, &mut events) else {
            panic!("failed validation must iterate");
        };
        assert!(prompt.contains("Push it."));
        assert_eq!(progress.signals, 0, "the signal must be repeated");
        let types: Vec<&str> = events.iter().map(|event| event.event_type.as_str()).collect();
        let expected = [
            "iteration.completed",
            "iteration.completion_signal",
            "iteration.validation",
            "iteration.completed",
        ];
        assert_eq!(types, expected);
        plan.turn_ended(&mut progress, &completed("TASK_COMPLETE"), &mut events);
        let validation = Validation { passed: true, feedback: String::new(), errors: vec![] };
        assert_eq!(reason(&plan.validated(&mut progress, &validation, &mut events)), "validation_passed");
        let last = events.last().unwrap();
        assert_eq!(last.event_type, "iteration.completed", "the successful iteration is completed too");
        assert_eq!(last.data["cost_usd"], 3.0, "validation does not change the cost");
    }

    #[test]
    fn next_iteration_has_the_number_of_consecutive_errors() {
        let mut progress = Progress::default();
        for (end, expected) in [(failed("boom"), 1), (completed("more"), 0), (failed("boom"), 1)] {
            let next = plan(false).turn_ended(&mut progress, &end, &mut Vec::new());
            assert!(matches!(next, Next::Iterate { errors, .. } if errors == expected), "{next:?}");
        }
    }

    #[test]
    fn each_limit_has_its_own_stop_reason() {
        let cases: [(Progress, TurnEnd, &str); 5] = [
            (Progress { successful: 2, ..Progress::default() }, completed("more"), "max_iterations_reached"),
            (Progress { cost_usd: 4.5, ..Progress::default() }, completed("more"), "max_cost_reached"),
            (
                Progress { elapsed_seconds: 100, ..Progress::default() },
                completed("more"),
                "max_duration_reached",
            ),
            (Progress { errors: 1, ..Progress::default() }, failed("boom"), "consecutive_errors"),
            (Progress { errors: 1, ..Progress::default() }, completed("more"), "iterate"),
        ];
        for (mut progress, end, expected) in cases {
            let next = plan(false).turn_ended(&mut progress, &end, &mut Vec::new());
            assert_eq!(reason(&next), expected);
        }
    }
}
