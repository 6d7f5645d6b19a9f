//! Which feedback starts a round, and when a pull request is read again.

use super::{Answer, Feedback, Remark, Verdict, answers, prompt};
use crate::{MessageId, SandboxId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Default for the number of rounds on one pull request. Then a person decides.
pub const MAX_ROUNDS: u32 = 3;

/// Highest value of that setting. A higher one is probably a typo.
pub const MAX_FEEDBACK_ROUNDS: u32 = 100;

/// Maximum number of remarks that an agent is told at once. The others are for later.
const MAX_REMARKS: usize = 30;

/// Maximum number of quoted remarks whose authors may not instruct.
const MAX_QUOTED: usize = 5;

/// Maximum length of all texts of a round, with those of its messages. A task has to fit into one item.
const MAX_ROUND_CHARS: usize = 16_000;

/// Maximum length of the points of a message. The rest of it has to fit into [`crate::message::MAX_CONTENT_CHARS`] too.
const MAX_MESSAGE_CHARS: usize = 8_500;

/// A pull request without news is read less often, and after two weeks not any more: a webhook reports what
/// happens then. Time since the last change, and the delay, in seconds.
const DELAYS: [(i64, i64); 4] =
    [(15 * 60, 60), (2 * 3_600, 5 * 60), (24 * 3_600, 15 * 60), (14 * 24 * 3_600, 3_600)];

/// The rounds on the pull request of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rounds {
    /// Number of the pull request.
    pub pull_request: u64,
    /// How many were started.
    #[serde(default)]
    pub started: u32,
    /// Keys of the remarks that an agent was told, as far as they still exist.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub handled: BTreeSet<String>,
    /// The round that an agent works on, or whose replies are not posted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<Round>,
    /// When the pull request is read again. `None` if it is merged or closed, or if nothing happened for long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_read_at: Option<Timestamp>,
    /// When it was last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_at: Option<Timestamp>,
    /// When something last happened.
    pub active_at: Timestamp,
    /// Remarks after the last round: a person has to decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_to_person: Vec<Remark>,
    /// Rounds that a person has granted beyond the maximum.
    #[serde(default)]
    pub granted: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// From 1.
    pub number: u32,
    /// Newest commit of the branch when it started.
    pub commit: String,
    /// Point 1 is the first of them.
    pub remarks: Vec<Remark>,
    /// Remarks that came while the agent worked, and the message with each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<RoundMessage>,
}

/// A message about the remarks from `first` to before `end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundMessage {
    pub id: MessageId,
    pub sandbox: SandboxId,
    pub first: usize,
    pub end: usize,
}

/// What follows from the feedback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is new, or nothing of it counts.
    Nothing,
    /// An agent works on this.
    Work(Vec<Remark>),
    /// There were enough rounds: a person decides.
    AskPerson(Vec<Remark>),
}

impl Rounds {
    /// Of a pull request that was just opened.
    pub fn new(pull_request: u64, now: Timestamp) -> Self {
        let mut rounds = Self {
            pull_request,
            started: 0,
            handled: BTreeSet::new(),
            round: None,
            next_read_at: None,
            read_at: None,
            active_at: now,
            left_to_person: Vec::new(),
            granted: 0,
        };
        rounds.schedule(now);
        rounds
    }

    /// What follows from the feedback. The same feedback leads to work once. An agent that is at work gets a message, which
    /// has less room than the prompt of an attempt; what does not fit is for the next round.
    pub fn decide(&self, feedback: &Feedback, max_rounds: u32, is_at_work: bool) -> Decision {
        let is_new = |remark: &Remark| !self.handled.contains(&remark.key);
        let (instructing, others): (Vec<_>, Vec<_>) =
            feedback.remarks().into_iter().filter(is_new).partition(|remark| remark.instructs);
        if instructing.is_empty() {
            return Decision::Nothing;
        }
        let told = self.round.iter().flat_map(|round| &round.remarks).chain(&self.left_to_person);
        let told: usize = told.map(prompt::size).sum();
        let mut room = MAX_ROUND_CHARS.saturating_sub(told);
        if is_at_work {
            room = room.min(MAX_MESSAGE_CHARS);
        }
        let mut remarks = Vec::new();
        let quoted = others.into_iter().take(MAX_QUOTED);
        for remark in instructing.into_iter().take(MAX_REMARKS).chain(quoted) {
            let size = prompt::size(&remark);
            if size > room {
                break;
            }
            room -= size;
            remarks.push(remark);
        }
        // The round has no room for more. The rest is for the next one.
        if !remarks.iter().any(|remark| remark.instructs) {
            return Decision::Nothing;
        }
        match self.round.is_none() && self.started >= max_rounds.saturating_add(self.granted) {
            true => Decision::AskPerson(remarks),
            false => Decision::Work(remarks),
        }
    }

    /// The pull request was read.
    pub(crate) fn read(&mut self, feedback: &Feedback, now: Timestamp) {
        let current: BTreeSet<String> = feedback.remarks().into_iter().map(|remark| remark.key).collect();
        // A check that is running again has no remark, and must not start a round when it fails in the same way.
        let is_of_commit = |key: &String| key.contains(&feedback.commit) && !feedback.commit.is_empty();
        self.handled.retain(|key| current.contains(key) || is_of_commit(key));
        self.left_to_person.retain(|remark| current.contains(&remark.key) || is_of_commit(&remark.key));
        self.read_at = Some(now);
        self.schedule(now);
    }

    /// Whether a person has to decide about feedback after the last round.
    pub fn needs_person(&self) -> bool {
        !self.left_to_person.is_empty()
    }

    /// These remarks are left to a person too.
    pub(crate) fn leave_to_person(&mut self, remarks: &[Remark], now: Timestamp) {
        self.handle(remarks, now);
        self.left_to_person.extend_from_slice(remarks);
    }

    /// An agent is told these remarks, or a person.
    fn handle(&mut self, remarks: &[Remark], now: Timestamp) {
        self.handled.extend(remarks.iter().map(|remark| remark.key.clone()));
        self.active_at = now;
        self.schedule(now);
    }

    /// Starts the next round.
    pub(crate) fn start(&mut self, commit: &str, remarks: &[Remark], now: Timestamp) {
        self.handle(remarks, now);
        self.started += 1;
        let (number, commit) = (self.started, commit.to_owned());
        self.round = Some(Round { number, commit, remarks: remarks.to_vec(), messages: Vec::new() });
    }

    /// Remarks that came while an agent works, which a message tells it.
    pub(crate) fn add(
        &mut self,
        commit: &str,
        remarks: &[Remark],
        (message, sandbox): (MessageId, SandboxId),
        now: Timestamp,
    ) {
        if self.round.is_none() {
            self.start(commit, &[], now);
        }
        self.handle(remarks, now);
        let Some(round) = &mut self.round else { return };
        let first = round.remarks.len();
        round.remarks.extend_from_slice(remarks);
        round.messages.push(RoundMessage { id: message, sandbox, first, end: round.remarks.len() });
    }

    /// The replies of the round are posted. Remarks of these messages did not reach the agent: they are new again.
    pub(crate) fn end(&mut self, undelivered: &[MessageId], now: Timestamp) {
        let Some(round) = self.round.take() else { return };
        for message in round.messages.iter().filter(|message| undelivered.contains(&message.id)) {
            for remark in round.remarks.get(message.first..message.end).unwrap_or_default() {
                self.handled.remove(&remark.key);
            }
        }
        self.active_at = now;
        self.schedule(now);
    }

    /// The agent has finished: its answers are posted now.
    pub(crate) fn work_ended(&mut self, now: Timestamp) {
        if self.round.is_some() {
            self.next_read_at = Some(now);
        }
    }

    /// A person grants further rounds, for what was left to them and what comes.
    pub(crate) fn extend(&mut self, now: Timestamp) {
        self.granted = self.started;
        for remark in std::mem::take(&mut self.left_to_person) {
            self.handled.remove(&remark.key);
        }
        (self.active_at, self.next_read_at) = (now, Some(now));
    }

    /// It could not be read, or is being answered. After two quiet weeks it is not read again.
    pub(crate) fn postpone(&mut self, secs: i64, now: Timestamp) {
        let is_over = self.round.is_none() && self.delay(now).is_none();
        self.next_read_at = (!is_over).then(|| now.plus_secs(secs));
    }

    /// The pull request has a further commit.
    pub(crate) fn resume(&mut self, now: Timestamp) {
        if self.next_read_at.is_none() {
            self.active_at = now;
            self.schedule(now);
        }
    }

    /// The pull request is merged or closed.
    pub(crate) fn stop(&mut self) {
        (self.next_read_at, self.round) = (None, None);
        self.left_to_person.clear();
    }

    fn schedule(&mut self, now: Timestamp) {
        self.next_read_at = self.delay(now).map(|delay| now.plus_secs(delay));
    }

    /// Until the next read, if nothing happens.
    fn delay(&self, now: Timestamp) -> Option<i64> {
        let quiet = now.as_secs() - self.active_at.as_secs();
        DELAYS.into_iter().find(|(until, _)| quiet < *until).map(|(_, delay)| delay)
    }
}

impl Round {
    /// Its points with their numbers.
    pub fn points(&self) -> impl Iterator<Item = (usize, &Remark)> {
        self.remarks.iter().enumerate().map(|(index, remark)| (index + 1, remark))
    }

    /// The answers for an event.
    pub fn answers(&self, verdicts: &[Verdict]) -> Vec<Answer> {
        answers::described(self, verdicts)
    }

    /// The points that the message tells.
    pub fn points_of(&self, message: &RoundMessage) -> impl Iterator<Item = (usize, &Remark)> {
        let (first, end) = (message.first, message.end);
        self.points().filter(move |(point, _)| (first..end).contains(&(point - 1)))
    }
}
