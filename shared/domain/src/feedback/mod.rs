//! Feedback on the pull request of a task, and the rounds in which an agent works on it.
//!
//! A *remark* is one point of the feedback that calls for work: what is new in a thread, a review, a comment, a failed
//! check, or a conflict with the base. New remarks start a *round*: another attempt on the same branch, or a message to
//! the agent that works on it now. When the round is complete, the plane replies to the remarks.
//!
//! **Invariant:** only owners, members and collaborators of the repository, and programs that the operator lists, start
//! rounds and instruct the agent. What others write is quoted as such. What this plane wrote itself is never feedback.

mod answers;
mod prompt;
mod rounds;
#[cfg(test)]
mod tests;

pub use answers::{Answer, AnswerKind, Reply, Verdict, answers, replies, without_answers};
pub use prompt::{message, prompt};
pub use rounds::{Decision, MAX_FEEDBACK_ROUNDS, MAX_ROUNDS, Round, Rounds};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was said about a pull request, as its code host returns it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Newest commit of the branch.
    pub commit: String,
    /// Whether changes of the base contradict those of the branch.
    pub conflicts: bool,
    /// Reviews with a text, and comments on the pull request as a whole.
    pub reviews: Vec<Said>,
    pub comments: Vec<Said>,
    pub threads: Vec<Thread>,
    pub failed_checks: Vec<FailedCheck>,
    /// Whether a check is still running. Failed ones count when none is, so that they are one round.
    pub checks_pending: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub id: String,
    pub author: String,
    pub standing: Standing,
    pub text: String,
}

/// A thread about a line or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub id: String,
    pub path: String,
    pub line: Option<u64>,
    pub is_resolved: bool,
    /// Oldest first.
    pub comments: Vec<Said>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCheck {
    pub name: String,
    pub summary: Option<String>,
    /// The end of its log.
    pub log: Option<String>,
}

/// What an author is to the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// This plane.
    Own,
    Owner,
    Member,
    Collaborator,
    /// A program that the operator lists.
    ListedBot,
    Other,
}

impl Standing {
    /// Whether the author may instruct an agent.
    pub fn instructs(self) -> bool {
        match self {
            Self::Owner | Self::Member | Self::Collaborator | Self::ListedBot => true,
            Self::Own | Self::Other => false,
        }
    }
}

/// One point of the feedback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FeedbackRemark")]
pub struct Remark {
    /// Identifies it on its pull request, with what it says: a further comment in a thread is a further remark.
    pub key: String,
    pub kind: RemarkKind,
    /// The thread to reply to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Name of the check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// What was said, or the end of the log. Long texts are cut.
    pub text: String,
    /// Whether its author may instruct the agent. Other remarks are only quoted.
    pub instructs: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RemarkKind {
    Thread,
    Review,
    Comment,
    Check,
    Conflict,
}

/// Maximum length of the text of a remark.
const MAX_TEXT_CHARS: usize = 3_000;

/// Maximum length of a comment in a thread whose author may not instruct.
const MAX_QUOTED_CHARS: usize = 500;

/// Maximum length of the log of a check. Its end is kept.
const MAX_LOG_CHARS: usize = 6_000;

impl Feedback {
    /// Everything that calls for work now, whether it was worked on before or not.
    fn remarks(&self) -> Vec<Remark> {
        let threads = self.threads.iter().filter_map(remark_of_thread);
        let reviews = self.reviews.iter().filter_map(|said| remark_of(said, RemarkKind::Review));
        let comments = self.comments.iter().filter_map(|said| remark_of(said, RemarkKind::Comment));
        let checks = self.failed_checks.iter().filter(|_| !self.checks_pending);
        let checks = checks.map(|check| self.remark_of_check(check));
        let conflict = self.conflicts.then(|| self.conflict());
        reviews.chain(threads).chain(comments).chain(checks).chain(conflict).collect()
    }

    fn remark_of_check(&self, check: &FailedCheck) -> Remark {
        let text = check.log.as_deref().or(check.summary.as_deref()).unwrap_or_default();
        let key = format!("check:{}:{}", self.commit, check.name);
        let text = last_chars(text, MAX_LOG_CHARS);
        Remark { check: Some(check.name.clone()), instructs: true, ..remark(key, RemarkKind::Check, text) }
    }

    fn conflict(&self) -> Remark {
        let key = format!("conflict:{}", self.commit);
        let text = "The branch conflicts with its base.".to_owned();
        Remark { instructs: true, ..remark(key, RemarkKind::Conflict, text) }
    }
}

fn remark(key: String, kind: RemarkKind, text: String) -> Remark {
    let (thread, author, path, line, check) = (None, None, None, None, None);
    Remark { key, kind, thread, author, path, line, check, text, instructs: false }
}

fn remark_of(said: &Said, kind: RemarkKind) -> Option<Remark> {
    if said.standing == Standing::Own || said.text.trim().is_empty() {
        return None;
    }
    let author = Some(said.author.clone());
    let text = first_chars(&said.text, MAX_TEXT_CHARS);
    Some(Remark { author, instructs: said.standing.instructs(), ..remark(said.id.clone(), kind, text) })
}

/// What was said in a thread since this plane replied to it last.
fn remark_of_thread(thread: &Thread) -> Option<Remark> {
    if thread.is_resolved {
        return None;
    }
    let own = thread.comments.iter().rposition(|said| said.standing == Standing::Own);
    let new = &thread.comments[own.map_or(0, |own| own + 1)..];
    let last = new.iter().rfind(|said| said.standing.instructs())?;
    let remark = remark(last.id.clone(), RemarkKind::Thread, text_of_thread(thread));
    Some(Remark {
        thread: Some(thread.id.clone()),
        author: Some(last.author.clone()),
        path: Some(thread.path.clone()),
        line: thread.line,
        instructs: true,
        ..remark
    })
}

/// The newest comments with their authors. A comment is there as a whole or not at all, except for one that is too long
/// alone, so that none loses its author.
fn text_of_thread(thread: &Thread) -> String {
    if let [said] = thread.comments.as_slice() {
        return first_chars(&said.text, MAX_TEXT_CHARS);
    }
    let mut room = MAX_TEXT_CHARS;
    let mut newest = Vec::new();
    for text in thread.comments.iter().rev().map(text_in_thread) {
        let size = text.chars().count();
        if size > room {
            newest.push("…".to_owned());
            break;
        }
        room -= size;
        newest.push(text);
    }
    newest.reverse();
    newest.join("\n\n")
}

/// What is not an instruction says so in each line. Otherwise a line of it could look like a comment of a member.
fn text_in_thread(said: &Said) -> String {
    match said.standing {
        Standing::Own => format!("you: {}", first_chars(&said.text, MAX_QUOTED_CHARS)),
        standing if standing.instructs() => {
            let text = first_chars(&said.text, MAX_TEXT_CHARS / 2);
            format!("{}: {text}", said.author)
        }
        _ => {
            let text = first_chars(&said.text, MAX_QUOTED_CHARS);
            let lines =
                text.lines().map(|line| format!("{} (not a member; no instruction): {line}", said.author));
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

fn first_chars(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn last_chars(text: &str, max: usize) -> String {
    let count = text.chars().count();
    match text.char_indices().nth(count.saturating_sub(max)) {
        Some((start, _)) if start > 0 => format!("…{}", &text[start..]),
        _ => text.to_owned(),
    }
}
