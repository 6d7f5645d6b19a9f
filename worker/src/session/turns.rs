//! Turns that end, and what follows: the next iteration, a look at the repository, the end of the task.
//!
//! What a turn came to is kept until it is judged, and what follows from it is kept with the judgement (`Step`). So a
//! worker that is killed anywhere in between neither judges twice nor forgets: at most it tells again, under a name
//! that was told.

use super::Session;
use super::ending::Purpose;
use super::mail::Interruption;
use crate::agents::{Ask, Mood, TurnEnd};
use crate::completion::{Next, Outcome};
use crate::event::Event;
use crate::heartbeat::Status;
use crate::state::Step;
use domain::message;
use std::time::Duration;
use tokio::time::Instant;

/// How often what only grows, such as the time that was spent, is kept at least.
const KEEP_EVERY: Duration = Duration::from_secs(10);

impl Session {
    pub(super) async fn mood(&mut self, mood: Mood) {
        self.mood = mood;
        let status = match mood {
            Mood::Working => {
                self.nudge_at = None;
                Status::Working
            }
            Mood::Idle => Status::Waiting,
        };
        self.vitals.send_modify(|vitals| vitals.status = status);
        if mood == Mood::Idle && !self.state.ends.is_empty() {
            self.rested().await;
        }
    }

    pub(super) fn turn_ended(&mut self, end: TurnEnd) {
        self.copy_transcript();
        self.turns = end.turns;
        self.state.crashes = 0;
        // A turn that was taken up again after a crash has no other receipt for what began it.
        let mut answered = std::mem::take(&mut self.taken_up);
        let state = if end.interrupted { message::State::Cancelled } else { message::State::Completed };
        if end.success {
            answered.extend(&end.answered);
        }
        for uuid in answered {
            self.receipt(uuid, state);
        }
        self.state.ends.push(end);
        let (turns, ends) = (self.turns, &self.state.ends);
        let cost_usd = self.state.progress.cost_usd + ends.iter().map(|end| end.cost_usd).sum::<f64>();
        self.vitals.send_modify(|vitals| {
            vitals.turns = turns;
            vitals.cost_usd = cost_usd;
        });
        self.save();
    }

    /// The agent has nothing left to do. Background tasks have ended too, so this, not the end of the first turn, is
    /// when a task may be done.
    pub(super) async fn rested(&mut self) {
        let end = together(&self.state.ends);
        if self.state.outcome.is_some() || self.state.prompt.is_none() {
            // A conversation beside the task, or before there is one: it decides nothing.
            self.state.progress.cost_usd += end.cost_usd;
            self.state.ends.clear();
            self.save();
            self.wait_for_messages("ready for the next message");
            return;
        }
        match &self.state.step {
            Step::Working | Step::Stopped => {
                let mut told = Vec::new();
                let mut progress = self.state.progress.clone();
                let next = self.plan.turn_ended(&mut progress, &end, &mut told);
                // Told before it is kept that it was judged, never the other way round.
                self.tell_of_iteration(told);
                self.state.progress = progress;
                self.state.ends.clear();
                self.follow(next);
            }
            // Something was said and done meanwhile. What is to come, comes.
            Step::Validating => {
                self.state.progress.add(&end);
                self.state.ends.clear();
                self.save();
                if let Some(validation) = self.inspection.take() {
                    validation.abort();
                }
                self.inspect(Purpose::Validate);
            }
            Step::Pausing(_) | Step::Finishing(_) => {
                self.state.progress.add(&end);
                self.state.ends.clear();
                self.save();
            }
        }
    }

    /// Does what comes next, and keeps it.
    pub(super) fn follow(&mut self, next: Next) {
        match next {
            Next::Iterate { .. } | Next::Wait if self.state.step == Step::Stopped => {
                self.save();
                self.wait_for_messages("stopped; say how to go on");
            }
            Next::Wait => {
                self.state.step = Step::Stopped;
                self.save();
                self.wait_for_messages("stopped; say how to go on");
            }
            Next::Iterate { prompt, pause } => {
                self.state.step = Step::Pausing(prompt.clone());
                self.save();
                self.next_iteration = Some((Instant::now() + pause, prompt));
            }
            Next::Validate => {
                self.state.step = Step::Validating;
                self.save();
                self.inspect(Purpose::Validate);
            }
            Next::Done(outcome) => {
                self.state.step = Step::Finishing(outcome.clone());
                self.save();
                self.inspect(Purpose::Finish(outcome));
            }
        }
    }

    pub(super) async fn iterate(&mut self) {
        let Some((_, prompt)) = self.next_iteration.take() else { return };
        if self.state.outcome.is_some() || !matches!(self.state.step, Step::Pausing(_)) {
            return;
        }
        self.note_iteration(prompt);
        if let Some(say) = self.crew.prompt(&self.state) {
            self.ask(Ask::Say(say)).await;
        }
    }

    /// An iteration begins.
    pub(super) fn note_iteration(&mut self, prompt: String) {
        let event = self.state.progress.begin(&prompt);
        if self.plan.continuous.is_some() {
            self.tell_of_iteration(vec![event]);
        }
        self.state.prompt = Some(prompt);
        self.state.step = Step::Working;
        self.state.adopted = false;
        self.save();
    }

    /// Tells what happens once in an iteration.
    pub(super) fn tell_of_iteration(&self, events: Vec<Event>) {
        for event in events {
            let iteration = event.data.get("iteration_num").cloned().unwrap_or_default();
            let what = format!("{}-{iteration}", event.event_type);
            self.tell_once(&what, event);
        }
    }

    pub(super) async fn tick(&mut self) {
        self.copy_transcript();
        let now = Instant::now();
        let waits = self.state.outcome.is_some() || self.state.prompt.is_none();
        if waits || self.state.step == Step::Stopped {
            self.ticked_at = now;
            return;
        }
        let passed = now.duration_since(self.ticked_at).as_secs();
        self.ticked_at += Duration::from_secs(passed);
        self.state.progress.elapsed_seconds += passed;
        let limit = self.plan.continuous.as_ref().map(|limits| limits.max_duration.as_secs());
        let elapsed = self.state.progress.elapsed_seconds;
        let is_over = limit.is_some_and(|limit| elapsed >= limit);
        if is_over && self.mood == Mood::Working && self.state.step == Step::Working {
            let outcome = Outcome::failure("max_duration_reached", format!("it has taken {elapsed} s"));
            self.follow(Next::Done(outcome));
            self.interrupt(Interruption { message_id: None, sender_id: None, reason: "max_duration" }).await;
        } else if self.saved_at.elapsed() >= KEEP_EVERY {
            self.save();
        }
    }
}

/// Several turns as one: what they cost together, and how the last one ended.
fn together(ends: &[TurnEnd]) -> TurnEnd {
    let (cost_usd, tokens) = ends.iter().fold((0.0, Default::default()), |(cost, tokens), end| {
        (cost + end.cost_usd, end.tokens.plus(tokens))
    });
    TurnEnd { cost_usd, tokens, ..ends.last().cloned().unwrap_or_default() }
}
