//! What the agent answers, and the replies that follow from it.
//!
//! The agent ends its last message with a block that is named [`BLOCK`]. An agent that does not gets one reply for all
//! points.

use super::prompt::BLOCK;
use super::rounds::Round;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Maximum length of an answer. Longer ones are cut.
const MAX_ANSWER_CHARS: usize = 2_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FeedbackAnswerKind")]
pub enum AnswerKind {
    Fixed,
    /// Not changed, with a reason.
    Declined,
    /// The agent needs to know something.
    Question,
}

/// The answer to one point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// From 1.
    pub point: usize,
    pub kind: AnswerKind,
    pub text: String,
}

/// An answer with what it is about, in an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FeedbackAnswer")]
pub struct Answer {
    /// Key of the remark.
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    pub answer: AnswerKind,
    pub text: String,
}

/// A reply at the code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// `None` for the pull request as a whole.
    pub thread: Option<String>,
    /// Identifies the reply in its thread.
    pub key: String,
    /// Markdown.
    pub text: String,
    /// Whether the thread is resolved with it.
    pub resolves: bool,
}

#[derive(Deserialize)]
struct Given {
    point: usize,
    answer: AnswerKind,
    #[serde(default)]
    text: String,
}

/// The answers in the agent's last message, to points that the round has. Of two answers to a point, the later counts.
pub fn answers(round: &Round, output: &str) -> Vec<Verdict> {
    let Some((start, end)) = block(output) else { return Vec::new() };
    let given: Vec<serde_json::Value> = serde_json::from_str(&output[start..end]).unwrap_or_default();
    let mut found: Vec<Verdict> = Vec::new();
    for given in given {
        let Ok(Given { point, answer, text }) = serde_json::from_value(given) else { continue };
        let is_point = round.points().any(|(number, remark)| number == point && remark.instructs);
        if is_point {
            found.retain(|other| other.point != point);
            let text = super::first_chars(text.trim(), MAX_ANSWER_CHARS);
            found.push(Verdict { point, kind: answer, text });
        }
    }
    found.sort_by_key(|verdict| verdict.point);
    found
}

/// The agent's last message without the block.
pub fn without_answers(output: &str) -> String {
    let fence = format!("```{BLOCK}");
    match (block(output), output.rfind(&fence)) {
        (Some((_, end)), Some(start)) => {
            let rest = output[end..].trim_start().trim_start_matches("```");
            format!("{}{rest}", output[..start].trim_end())
        }
        _ => output.to_owned(),
    }
}

/// Where the content of the last block is. A message that was cut may lack the end of the block: then there is none.
fn block(output: &str) -> Option<(usize, usize)> {
    let fence = format!("```{BLOCK}");
    let start = output.rfind(&fence)? + fence.len();
    let end = start + output[start..].find("```")?;
    Some((start, end))
}

/// The replies to a round that is complete. `commit` is the newest commit of the branch now.
pub fn replies(round: &Round, verdicts: &[Verdict], commit: &str, has_changed: bool) -> Vec<Reply> {
    let key = format!("round-{}", round.number);
    let (mut replies, mut general) = (Vec::new(), String::new());
    for verdict in verdicts {
        let Some((_, remark)) = round.points().find(|(number, _)| *number == verdict.point) else { continue };
        let text = text_of(verdict, commit, has_changed);
        if let Some(thread) = &remark.thread {
            let resolves = verdict.kind == AnswerKind::Fixed;
            replies.push(Reply { thread: Some(thread.clone()), key: key.clone(), text, resolves });
            continue;
        }
        let about = match (&remark.check, &remark.author) {
            (Some(check), _) => format!("The check `{}`", plain(check)),
            (None, Some(author)) => format!("The comment of {}", plain(author)),
            (None, None) => "The conflicts with the base".to_owned(),
        };
        let _ = writeln!(general, "- {about}: {text}");
    }
    if verdicts.is_empty() {
        general = match has_changed {
            true => format!("The agent has worked on this feedback. The newest commit is {commit}.\n"),
            false => "The agent has worked on this feedback and has changed nothing.\n".to_owned(),
        };
    }
    if !general.is_empty() {
        replies.push(Reply { thread: None, key, text: general, resolves: false });
    }
    replies
}

/// The answers for an event.
pub(super) fn described(round: &Round, verdicts: &[Verdict]) -> Vec<Answer> {
    let describe = |verdict: &Verdict| {
        let (_, remark) = round.points().find(|(number, _)| *number == verdict.point)?;
        Some(Answer {
            key: remark.key.clone(),
            thread: remark.thread.clone(),
            path: remark.path.clone(),
            line: remark.line,
            answer: verdict.kind,
            text: verdict.text.clone(),
        })
    };
    verdicts.iter().filter_map(describe).collect()
}

fn text_of(verdict: &Verdict, commit: &str, has_changed: bool) -> String {
    let text = plain(&verdict.text);
    let begin = match verdict.kind {
        AnswerKind::Fixed if has_changed => format!("Fixed in {commit}."),
        // The branch had it before, or the agent is wrong: people see that there is no commit.
        AnswerKind::Fixed => "Done, without a further commit.".to_owned(),
        AnswerKind::Declined => "Not changed.".to_owned(),
        AnswerKind::Question => String::new(),
    };
    format!("{begin} {text}").trim().to_owned()
}

/// One paragraph without mentions, which would notify people, and without comments, which could be taken for our marks.
fn plain(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.replace('@', "@\u{200b}").replace("<!--", "<\u{200b}!--")
}
