//! When a task is done. Pure: how a turn or a check went in, what to do next out.

use crate::agents::{Tokens, TurnEnd};
use crate::config::Continuous;
use crate::event::{Event, first_chars};
use crate::workspace::validation::{GitState, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

/// Longest wait after an iteration that failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How far a task has come. It survives the worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// The iteration that runs, from 1. A single run is one.
    pub iteration: u64,
    /// Iterations that went well.
    pub successful: u64,
    /// Failures in a row.
    pub errors: u64,
    /// What everything cost.
    pub cost_usd: f64,
    /// What of that the iteration that runs has cost.
    pub iteration_cost_usd: f64,
    /// Tokens of everything.
    pub input_tokens: u64,
    /// See above.
    pub output_tokens: u64,
    /// See above.
    pub cache_read_tokens: u64,
    /// See above.
    pub cache_write_tokens: u64,
    /// How often in a row the agent said that it is done.
    pub signals: u64,
    /// How long it has been worked on, in seconds, in all lives of the worker.
    pub elapsed_seconds: u64,
    /// The last thing the agent said.
    pub last_output: String,
    /// The last check of the repository.
    pub git: Option<GitState>,
    /// Whether everything that is required holds.
    pub validation_passed: bool,
    /// Whether the tests passed, if there are any.
    pub tests_passed: Option<bool>,
}

/// How a task is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Until it is done, within limits; otherwise once.
    pub continuous: Option<Continuous>,
    /// Whether anything must hold at the end.
    pub validates: bool,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Go on, with this prompt, after a pause.
    Iterate {
        /// What the agent reads.
        prompt: String,
        /// How long to wait before.
        pause: Duration,
    },
    /// Look whether everything holds.
    Validate,
    /// It is over.
    Done(Outcome),
    /// Somebody stopped the turn: they say what happens next.
    Wait,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it is done.
    pub success: bool,
    /// Why it ended: `completed`, `validation_passed`, `max_cost_reached`, …
    pub stop_reason: String,
    /// What went wrong, for people.
    pub error: Option<String>,
}

impl Outcome {
    fn success(stop_reason: &str) -> Self {
        Self { success: true, stop_reason: stop_reason.to_owned(), error: None }
    }

    /// It failed, for this reason, told in words.
    pub fn failure(stop_reason: &str, error: impl Into<String>) -> Self {
        Self { success: false, stop_reason: stop_reason.to_owned(), error: Some(error.into()) }
    }
}

impl Plan {
    /// What the agent reads first.
    pub fn first_prompt(&self, task: &str) -> String {
        match &self.continuous {
            None => task.to_owned(),
            Some(limits) => format!(
                "{task}\n\n# When you are done\n\nWork until the task is really done: the code works, its tests pass, \
                 everything is committed and pushed, and there is a pull request, as far as this repository asks for \
                 it. Then, and only then, end your last message with the line {}",
                limits.completion_signal
            ),
        }
    }

    /// A turn is over. What it tells is added to `told`.
    pub fn turn_ended(&self, progress: &mut Progress, end: &TurnEnd, told: &mut Vec<Event>) -> Next {
        progress.add(end);
        if end.interrupted {
            return Next::Wait;
        }
        let Some(limits) = &self.continuous else { return self.single_run_ended(end) };
        if !end.success {
            progress.errors += 1;
            progress.signals = 0;
            let error = end.error.clone().unwrap_or_else(|| "it ended without a result".into());
            told.push(
                Event::worker("iteration.failed")
                    .with("iteration_num", progress.iteration)
                    .with("error", error.as_str())
                    .with_some("error_type", end.limit.clone())
                    .with("error_count", progress.errors),
            );
            let prompt = format!("The last attempt ended with an error: {error}\n\nGo on with the task.");
            return progress.go_on(limits, prompt);
        }
        progress.errors = 0;
        if !end.result.contains(&limits.completion_signal) {
            progress.signals = 0;
            progress.completed(told);
            let signal = &limits.completion_signal;
            let prompt = format!(
                "You have not said that the task is done. Go on with it. If it is done, check it, and end your message \
                 with the line {signal}"
            );
            return progress.go_on(limits, prompt);
        }
        progress.signals += 1;
        told.push(
            Event::worker("iteration.completion_signal")
                .with("iteration_num", progress.iteration)
                .with("signal_count", progress.signals)
                .with("threshold", limits.completion_threshold),
        );
        if progress.signals < limits.completion_threshold {
            progress.completed(told);
            let prompt =
                "You say that the task is done. Look at all of it once more with fresh eyes, mend what you \
                          find, and say it again if it holds."
                    .to_owned();
            return progress.go_on(limits, prompt);
        }
        if self.validates {
            return Next::Validate;
        }
        progress.completed(told);
        Next::Done(Outcome::success("completion_signal"))
    }

    fn single_run_ended(&self, end: &TurnEnd) -> Next {
        match (end.success, end.limit.as_deref()) {
            (true, _) if self.validates => Next::Validate,
            (true, _) => Next::Done(Outcome::success("completed")),
            (false, Some(limit)) => {
                let reason = if limit == "budget" { "max_cost_reached" } else { "max_turns_reached" };
                Next::Done(Outcome::failure(reason, format!("the limit on {limit} was reached")))
            }
            (false, None) => {
                let error = end.error.clone().unwrap_or_else(|| "it ended without a result".into());
                Next::Done(Outcome::failure("error", error))
            }
        }
    }

    /// What is required was looked at.
    pub fn validated(&self, progress: &mut Progress, verdict: &Verdict, told: &mut Vec<Event>) -> Next {
        progress.validation_passed = verdict.passed;
        let git = progress.git.as_ref();
        let status = serde_json::json!({
            "is_clean": git.map(|git| git.is_clean),
            "is_pushed": git.map(|git| git.is_pushed),
            "has_pr": git.and_then(|git| git.has_pr),
            "branch_name": git.and_then(|git| git.branch.clone()),
        });
        told.push(
            Event::worker("iteration.validation")
                .with("iteration_num", progress.iteration)
                .with("passed", verdict.passed)
                .with("feedback", verdict.feedback.as_str())
                .with("git_status", status)
                .with("errors", verdict.errors.clone()),
        );
        let Some(limits) = &self.continuous else {
            return Next::Done(if verdict.passed {
                Outcome::success("validation_passed")
            } else {
                Outcome::failure("validation_failed", verdict.feedback.clone())
            });
        };
        progress.completed(told);
        if verdict.passed {
            return Next::Done(Outcome::success("validation_passed"));
        }
        progress.signals = 0;
        let feedback = &verdict.feedback;
        progress
            .go_on(limits, format!("The task is not done yet.\n\n{feedback}\n\nMend this and say so again."))
    }
}

impl Progress {
    /// Adds what a turn cost.
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

    fn completed(&mut self, told: &mut Vec<Event>) {
        self.successful += 1;
        let event = Event::worker("iteration.completed")
            .with("cost_usd", self.iteration_cost_usd)
            .with("output_preview", first_chars(&self.last_output, 1_000));
        told.push(self.onto(event));
    }

    /// The next iteration, unless a limit is reached.
    fn go_on(&mut self, limits: &Continuous, prompt: String) -> Next {
        let over = |reason: &str, what: String| Next::Done(Outcome::failure(reason, what));
        if self.errors >= limits.max_consecutive_errors {
            return over("consecutive_errors", format!("{} iterations failed in a row", self.errors));
        }
        if self.successful >= limits.max_iterations {
            return over("max_iterations_reached", format!("{} iterations were not enough", self.successful));
        }
        if self.cost_usd >= limits.max_cost_usd {
            return over("max_cost_reached", format!("it has cost ${:.2}", self.cost_usd));
        }
        if self.elapsed_seconds >= limits.max_duration.as_secs() {
            return over("max_duration_reached", format!("it has taken {} s", self.elapsed_seconds));
        }
        let pause = match u32::try_from(self.errors) {
            Ok(0) => Duration::ZERO,
            Ok(errors) => Duration::from_secs(1 << errors.min(6)).min(LONGEST_PAUSE),
            Err(_) => LONGEST_PAUSE,
        };
        Next::Iterate { prompt, pause }
    }

    /// Begins an iteration.
    pub fn begin(&mut self, prompt: &str) -> Event {
        self.iteration += 1;
        self.iteration_cost_usd = 0.0;
        let event = Event::worker("iteration.started").with("prompt_preview", first_chars(prompt, 500));
        self.onto(event)
    }

    /// How far it is, as fields of an event.
    pub fn onto(&self, mut event: Event) -> Event {
        event.data.extend(self.fields());
        event
    }

    fn fields(&self) -> Map<String, Value> {
        let git = self.git.as_ref();
        let fields = serde_json::json!({
            "iteration_num": self.iteration,
            "successful_iterations": self.successful,
            "error_count": self.errors,
            "total_cost_usd": self.cost_usd,
            "completion_signal_count": self.signals,
            "elapsed_seconds": self.elapsed_seconds,
            "validation_passed": self.validation_passed,
            "tests_passed": self.tests_passed,
            "code_committed": git.map(|git| git.is_clean),
            "code_pushed": git.map(|git| git.is_pushed),
            "pr_created": git.and_then(|git| git.has_pr),
            "pr_url": git.and_then(|git| git.pr_url.clone()),
            "pr_number": git.and_then(|git| git.pr_number),
            "files_changed": git.and_then(|git| git.files_changed),
            "ci_status": git.and_then(|git| git.ci_status.clone()),
        });
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn said(text: &str) -> TurnEnd {
        TurnEnd { success: true, result: text.into(), cost_usd: 1.0, ..TurnEnd::default() }
    }

    fn failed(error: &str) -> TurnEnd {
        TurnEnd { error: Some(error.into()), ..TurnEnd::default() }
    }

    fn reason(next: &Next) -> &str {
        match next {
            Next::Done(outcome) => &outcome.stop_reason,
            Next::Iterate { .. } => "goes on",
            Next::Validate => "validates",
            Next::Wait => "waits",
        }
    }

    #[test]
    fn a_single_run_ends_with_its_turn() {
        let once = Plan { continuous: None, validates: false };
        let checked = Plan { continuous: None, validates: true };
        let over_budget = TurnEnd { limit: Some("budget".into()), ..failed("error_max_budget_usd") };
        let stopped = TurnEnd { interrupted: true, ..TurnEnd::default() };
        let cases = [
            (&once, said("done"), "completed"),
            (&checked, said("done"), "validates"),
            (&once, failed("boom"), "error"),
            (&once, over_budget, "max_cost_reached"),
            (&once, stopped, "waits"),
        ];
        for (plan, end, expected) in cases {
            let next = plan.turn_ended(&mut Progress::default(), &end, &mut Vec::new());
            assert_eq!(reason(&next), expected, "{end:?}");
        }
    }

    #[test]
    fn continuous_mode_goes_on_until_the_signal_and_the_checks() {
        let (mut progress, mut told) = (Progress::default(), Vec::new());
        let plan = plan(true);
        let next = plan.turn_ended(&mut progress, &said("half of it"), &mut told);
        assert_eq!(reason(&next), "goes on");
        let next = plan.turn_ended(&mut progress, &said("all of it. TASK_COMPLETE"), &mut told);
        assert_eq!(next, Next::Validate);
        let verdict =
            Verdict { passed: false, feedback: "Push it.".into(), errors: vec!["not pushed".into()] };
        let Next::Iterate { prompt, .. } = plan.validated(&mut progress, &verdict, &mut told) else {
            panic!("a failed check goes on");
        };
        assert!(prompt.contains("Push it."));
        assert_eq!(progress.signals, 0, "it must say so again");
        let types: Vec<&str> = told.iter().map(|event| event.event_type.as_str()).collect();
        let expected = [
            "iteration.completed",
            "iteration.completion_signal",
            "iteration.validation",
            "iteration.completed",
        ];
        assert_eq!(types, expected);
        plan.turn_ended(&mut progress, &said("TASK_COMPLETE"), &mut told);
        let verdict = Verdict { passed: true, feedback: String::new(), errors: vec![] };
        assert_eq!(reason(&plan.validated(&mut progress, &verdict, &mut told)), "validation_passed");
        let last = told.last().unwrap();
        assert_eq!(last.event_type, "iteration.completed", "also for the one that succeeds");
        assert_eq!(last.data["cost_usd"], 3.0, "what was checked has cost what it cost before the check");
    }

    #[test]
    fn every_limit_ends_it_with_its_own_reason() {
        let cases: [(Progress, TurnEnd, &str); 5] = [
            (Progress { successful: 2, ..Progress::default() }, said("more"), "max_iterations_reached"),
            (Progress { cost_usd: 4.5, ..Progress::default() }, said("more"), "max_cost_reached"),
            (Progress { elapsed_seconds: 100, ..Progress::default() }, said("more"), "max_duration_reached"),
            (Progress { errors: 1, ..Progress::default() }, failed("boom"), "consecutive_errors"),
            (Progress { errors: 1, ..Progress::default() }, said("more"), "goes on"),
        ];
        for (mut progress, end, expected) in cases {
            let next = plan(false).turn_ended(&mut progress, &end, &mut Vec::new());
            assert_eq!(reason(&next), expected);
        }
    }
}
