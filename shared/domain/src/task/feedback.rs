//! The transitions that follow from feedback on the pull request of a task.

use super::transitions::Transition;
use super::{PullRequestLink, Status, Task};
use crate::event::payloads::{
    TaskFeedbackAnswered, TaskFeedbackLeft, TaskFeedbackReceived, TaskFeedbackRequested,
    TaskPullRequestClosed,
};
use crate::feedback::{Feedback, Remark, Rounds, Verdict};
use crate::score::Weights;
use crate::ticket::RESOLVE_CONFLICTS;
use crate::{MessageId, Timestamp};

impl Task {
    /// When the feedback on its pull request is read again, if there is an open one that an agent could work on.
    pub fn reads_feedback_at(&self) -> Option<Timestamp> {
        let may_work = matches!(self.status, Status::Running | Status::Completed);
        self.rounds.as_ref()?.next_read_at.filter(|_| may_work)
    }

    /// Its pull request, if that is not merged.
    pub fn open_pull_request(&self) -> Option<&PullRequestLink> {
        self.branch.as_ref()?.pull_request.as_ref().filter(|link| link.merged_at.is_none())
    }

    /// Its pull request was read, and nothing follows.
    pub fn feedback_read(&self, feedback: &Feedback, now: Timestamp) -> Option<Transition> {
        let mut rounds = self.rounds.clone()?;
        rounds.read(feedback, now);
        (Some(&rounds) != self.rounds.as_ref()).then(|| self.silently(rounds, now))
    }

    /// Its pull request is read again after this time.
    pub fn feedback_postponed(&self, secs: i64, now: Timestamp) -> Option<Transition> {
        let mut rounds = self.rounds.clone()?;
        rounds.postpone(secs, now);
        Some(self.silently(rounds, now))
    }

    /// Starts a round of a completed task: it is queued for another attempt.
    pub fn revise_for_feedback(
        &self,
        feedback: &Feedback,
        remarks: &[Remark],
        weights: &Weights,
        now: Timestamp,
    ) -> Option<Transition> {
        let (link, mut rounds) = (self.open_pull_request()?, self.rounds.clone()?);
        if self.status != Status::Completed || rounds.round.is_some() {
            return None;
        }
        rounds.read(feedback, now);
        rounds.start(&feedback.commit, remarks, now);
        let event = self.received(link, feedback, rounds.started, remarks);
        let received = self.apply(
            now,
            |task| {
                (task.rounds, task.error, task.not_before) = (Some(rounds), None, None);
                task.retry_count = 0;
                task.set(Status::Pending, now);
            },
            &event,
        );
        let mut ready = received.task.ready(weights, now)?;
        ready.task.version = received.task.version;
        ready.events.splice(0..0, received.events);
        Some(ready)
    }

    /// A message tells the agent that works on it now.
    pub fn feedback_sent(
        &self,
        feedback: &Feedback,
        remarks: &[Remark],
        message: &MessageId,
        now: Timestamp,
    ) -> Option<Transition> {
        let (link, mut rounds) = (self.open_pull_request()?, self.rounds.clone()?);
        let sandbox = self.sandbox.clone().filter(|_| self.status == Status::Running)?;
        rounds.read(feedback, now);
        rounds.add(&feedback.commit, remarks, (message.clone(), sandbox), now);
        let event = TaskFeedbackReceived {
            sandbox_id: self.sandbox.clone(),
            message_id: Some(message.clone()),
            ..self.received(link, feedback, rounds.started, remarks)
        };
        Some(self.apply(now, |task| task.rounds = Some(rounds), &event))
    }

    /// There were enough rounds: a person decides about these remarks.
    pub fn feedback_left(
        &self,
        feedback: &Feedback,
        remarks: &[Remark],
        now: Timestamp,
    ) -> Option<Transition> {
        let (link, mut rounds) = (self.open_pull_request()?, self.rounds.clone()?);
        rounds.read(feedback, now);
        rounds.leave_to_person(remarks, now);
        let event = TaskFeedbackLeft {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            number: link.number,
            url: link.url.clone(),
            commit: feedback.commit.clone(),
            rounds: rounds.started,
            remarks: remarks.to_vec(),
        };
        Some(self.apply(now, |task| task.rounds = Some(rounds), &event))
    }

    /// A caller grants further rounds.
    pub fn feedback_requested(&self, now: Timestamp) -> Option<Transition> {
        let (link, mut rounds) = (self.open_pull_request()?, self.rounds.clone()?);
        rounds.extend(now);
        let event = TaskFeedbackRequested {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            number: link.number,
            by: None,
        };
        Some(self.apply(now, |task| task.rounds = Some(rounds), &event))
    }

    /// The answers of the agent are posted. Remarks of `undelivered` messages did not reach it.
    pub fn feedback_answered(
        &self,
        verdicts: &[Verdict],
        commit: &str,
        undelivered: &[MessageId],
        now: Timestamp,
    ) -> Option<Transition> {
        let mut rounds = self.rounds.clone()?;
        let link = self.branch.as_ref()?.pull_request.as_ref()?;
        let round = rounds.round.clone().filter(|_| self.status == Status::Completed)?;
        let event = TaskFeedbackAnswered {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            number: link.number,
            url: link.url.clone(),
            commit: commit.to_owned(),
            round: round.number,
            changed: round.commit != commit,
            answers: round.answers(verdicts),
        };
        rounds.end(undelivered, now);
        Some(self.apply(now, |task| task.rounds = Some(rounds), &event))
    }

    /// Its pull request was closed without a merge.
    pub fn pull_request_closed(&self, now: Timestamp) -> Option<Transition> {
        let (link, rounds) = (self.open_pull_request()?, self.rounds.as_ref()?);
        rounds.next_read_at?;
        let event = TaskPullRequestClosed {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            number: link.number,
            url: link.url.clone(),
        };
        Some(self.apply(now, Self::stop_rounds, &event))
    }

    /// Feedback on its pull request is not read any more.
    pub(super) fn stop_rounds(&mut self) {
        if let Some(rounds) = &mut self.rounds {
            rounds.stop();
        }
    }

    /// Its agent has finished.
    pub(super) fn end_round_work(&mut self, now: Timestamp) {
        if let Some(rounds) = &mut self.rounds {
            rounds.work_ended(now);
        }
    }

    /// Feedback on this pull request is read from now on. A task that resolves conflicts leaves that to the task whose pull
    /// request it is.
    pub(super) fn watch(&mut self, pull_request: u64, now: Timestamp) {
        if self.task_type == RESOLVE_CONFLICTS {
            return;
        }
        match &mut self.rounds {
            Some(rounds) if rounds.pull_request == pull_request => rounds.resume(now),
            other => *other = Some(Rounds::new(pull_request, now)),
        }
    }

    fn silently(&self, rounds: Rounds, now: Timestamp) -> Transition {
        let mut task = self.clone();
        (task.rounds, task.version, task.updated_at) = (Some(rounds), self.version + 1, now);
        Transition { task, events: Vec::new() }
    }

    fn received(
        &self,
        link: &PullRequestLink,
        feedback: &Feedback,
        round: u32,
        remarks: &[Remark],
    ) -> TaskFeedbackReceived {
        TaskFeedbackReceived {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            number: link.number,
            url: link.url.clone(),
            commit: feedback.commit.clone(),
            round,
            remarks: remarks.to_vec(),
            sandbox_id: None,
            message_id: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JsonObject;
    use crate::feedback::{Decision, MAX_ROUNDS, Said, Standing};
    use crate::task::TaskBranch;
    use crate::task::transitions::tests::{at, current, in_state, state_of};

    const NOW: i64 = 1_000;

    /// A task with a pull request, whose branch is at this commit.
    fn with_pull_request(state: &str, commit: &str) -> Task {
        let branch = TaskBranch {
            name: "feature/x".into(),
            base: "main".into(),
            base_commit: "b0".into(),
            pull_request: None,
        };
        let link = PullRequestLink { number: 7, url: "u".into(), commit: commit.into(), merged_at: None };
        let mut opened = Task { branch: Some(branch), ..in_state(state) }.pull_request_opened(link, at(NOW));
        opened.task.version = 9;
        opened.task
    }

    fn said(id: &str) -> Feedback {
        let said = Said {
            id: id.into(),
            author: "ada".into(),
            standing: Standing::Member,
            text: "Rename it.".into(),
        };
        Feedback { commit: "a1".into(), comments: vec![said], ..Feedback::default() }
    }

    fn remarks(task: &Task, feedback: &Feedback) -> Vec<Remark> {
        match task.rounds.as_ref().unwrap().decide(feedback, MAX_ROUNDS, false) {
            Decision::Work(remarks) | Decision::AskPerson(remarks) => remarks,
            Decision::Nothing => Vec::new(),
        }
    }

    fn message() -> MessageId {
        MessageId::parse("m-1").unwrap()
    }

    #[test]
    fn open_pull_request_is_watched_while_an_agent_could_work() {
        for (state, watched) in [("running", true), ("completed", true), ("failed", false), ("queued", false)]
        {
            let task = with_pull_request(state, "a1");
            assert_eq!(task.reads_feedback_at().is_some(), watched, "{state}");
            assert!(!watched || task.needs_reconcile(), "{state}");
        }
        let task = with_pull_request("completed", "a1");
        let merged = task.merged("a1", "c3", at(NOW)).unwrap().task;
        assert_eq!((merged.reads_feedback_at(), merged.needs_reconcile()), (None, false));
        assert_eq!(merged.feedback_requested(at(NOW)), None);
        let closed = task.pull_request_closed(at(NOW)).unwrap();
        assert_eq!(closed.events[0].event_type.as_str(), "task.pull_request_closed");
        assert_eq!((closed.task.reads_feedback_at(), closed.task.pull_request_closed(at(NOW))), (None, None));
    }

    #[test]
    fn round_is_another_attempt_with_the_same_branch_whose_answers_end_it() {
        let task = with_pull_request("completed", "a1");
        let feedback = said("x");
        let found = remarks(&task, &feedback);
        let queued = task.revise_for_feedback(&feedback, &found, &Weights::default(), at(NOW)).unwrap().task;
        assert_eq!((state_of(&queued), &queued.branch), ("queued", &task.branch));
        assert_eq!(queued.feedback_sent(&feedback, &found, &message(), at(NOW)), None);
        let mut running = queued.clone();
        running.set(Status::Running, at(NOW));
        running.sandbox = Some(current().sandbox);
        assert_eq!(running.feedback_answered(&[], "a2", &[], at(NOW)), None, "the agent still works");
        let link = PullRequestLink { commit: "a2".into(), ..task.open_pull_request().unwrap().clone() };
        let completed = running.complete(&current(), &JsonObject::empty(), at(NOW)).unwrap();
        let completed = completed.with_pull_request(link).task;
        assert_eq!(completed.reads_feedback_at(), Some(at(NOW)), "the answers are due");
        assert_eq!(completed.revise_for_feedback(&feedback, &found, &Weights::default(), at(NOW)), None);
        let answered = completed.feedback_answered(&[], "a2", &[], at(NOW)).unwrap();
        assert!(answered.events[0].data.text().contains(r#""changed":true"#), "{:?}", answered.events);
        assert_eq!(answered.task.feedback_answered(&[], "a2", &[], at(NOW)), None);
        assert_eq!(remarks(&answered.task, &feedback), []);
    }

    #[test]
    fn message_adds_to_the_round_of_a_running_agent() {
        let task = with_pull_request("running", "a1");
        let feedback = said("x");
        let sent = task.feedback_sent(&feedback, &remarks(&task, &feedback), &message(), at(NOW)).unwrap();
        let data = &sent.events[0].data;
        assert_eq!(data.string("message_id").as_deref(), Some("m-1"));
        assert_eq!(data.string("sandbox_id").as_deref(), Some(current().sandbox.as_str()));
        assert_eq!(sent.task.status, Status::Running);
        assert_eq!(remarks(&sent.task, &feedback), []);
        assert_eq!(sent.task.rounds.unwrap().round.unwrap().messages.len(), 1);
    }

    #[test]
    fn what_is_left_to_a_person_is_worked_on_at_their_request() {
        let task = with_pull_request("completed", "a1");
        let feedback = said("x");
        let left = task.feedback_left(&feedback, &remarks(&task, &feedback), at(NOW)).unwrap().task;
        assert!(left.rounds.as_ref().unwrap().needs_person() && remarks(&left, &feedback).is_empty());
        let requested = left.feedback_requested(at(NOW + 5)).unwrap().task;
        assert_eq!(requested.reads_feedback_at(), Some(at(NOW + 5)));
        assert_eq!(remarks(&requested, &feedback).len(), 1);
    }
}
