//! The branch that carries the work of a task, and its name.

use super::{Priority, Task};
use crate::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The branch of a task at its code host. Retries and revisions continue on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskBranch {
    pub name: String,
    /// The branch that the work starts from and goes back to.
    pub base: String,
    /// The commit of the base that it starts from.
    pub base_commit: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequestLink>,
}

/// The pull request of a task, as the plane last saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullRequestLink {
    pub number: u64,
    pub url: String,
    /// The commit that it proposes.
    pub commit: String,
    /// When it was merged, by the plane or by others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_at: Option<Timestamp>,
}

/// How to merge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MergeMethod {
    /// A commit with two parents.
    Merge,
    /// One commit with all changes.
    #[default]
    Squash,
    /// The commits of the branch, on top of the base.
    Rebase,
}

impl MergeMethod {
    /// Every method with its name.
    pub const NAMES: [(&'static str, Self); 3] =
        [("merge", Self::Merge), ("squash", Self::Squash), ("rebase", Self::Rebase)];
}

/// What a branch is for: the first part of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BranchType {
    Feature,
    Fix,
    Hotfix,
    Refactor,
    Docs,
    Test,
    Chore,
}

impl BranchType {
    pub const ALL: [Self; 7] =
        [Self::Feature, Self::Fix, Self::Hotfix, Self::Refactor, Self::Docs, Self::Test, Self::Chore];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Feature => "feature",
            Self::Fix => "fix",
            Self::Hotfix => "hotfix",
            Self::Refactor => "refactor",
            Self::Docs => "docs",
            Self::Test => "test",
            Self::Chore => "chore",
        }
    }

    /// The type that a task names, or else the type that its title suggests. An urgent fix is a hotfix.
    pub fn of(task: &Task) -> Self {
        let found = task.execution.branch_type.unwrap_or_else(|| Self::suggested_by(&task.title));
        match found {
            Self::Fix if task.priority == Priority::Critical => Self::Hotfix,
            other => other,
        }
    }

    /// The first word of the title that stands for a type. A later word is often about something else: "Add tests".
    fn suggested_by(title: &str) -> Self {
        let words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let types = words.map(str::to_lowercase).filter_map(|word| {
            let found = WORDS.iter().find(|(_, words)| words.contains(&word.as_str()));
            found.map(|(branch_type, _)| *branch_type)
        });
        types.into_iter().next().unwrap_or(Self::Feature)
    }
}

/// Words of titles that stand for a type.
const WORDS: [(BranchType, &[&str]); 7] = [
    (BranchType::Hotfix, &["hotfix"]),
    (
        BranchType::Fix,
        &["fix", "fixes", "bug", "bugfix", "broken", "crash", "crashes", "error", "repair", "regression"],
    ),
    (BranchType::Refactor, &["refactor", "restructure", "rename", "simplify", "deduplicate"]),
    (BranchType::Docs, &["docs", "doc", "document", "documentation", "readme", "changelog"]),
    (BranchType::Test, &["test", "tests", "coverage"]),
    (BranchType::Chore, &["chore", "bump", "upgrade", "dependencies", "ci"]),
    // These stop the search.
    (BranchType::Feature, &["feature", "feat", "add", "implement", "support", "create", "build"]),
];

/// Maximum length of the part of a name that comes from the title.
const MAX_SLUG_CHARS: usize = 40;
/// Number of characters of an id in a name.
const SHORT_ID_CHARS: usize = 8;

/// The name of a task's branch: `fix/1a2b3c4d-login-page`. `number` is 1 for the first choice; a name that is taken is
/// followed by one with the next number.
pub fn branch_name(task: &Task, number: u32) -> String {
    let id = task.ticket.as_ref().map_or(task.id.as_str(), |ticket| ticket.as_str());
    let id = id.rsplit('-').next().filter(|end| end.len() >= SHORT_ID_CHARS).unwrap_or(id);
    let end = id.char_indices().rev().nth(SHORT_ID_CHARS - 1).map_or(0, |(start, _)| start);
    let parts = [slug(&id[end..], SHORT_ID_CHARS), slug(&own_title(task), MAX_SLUG_CHARS)];
    let mut name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    if number > 1 {
        name.push_str(&format!("-{number}"));
    }
    format!("{}/{name}", BranchType::of(task).as_str())
}

/// The title without the verb that the plane puts before that of a ticket.
fn own_title(task: &Task) -> String {
    let title = task.title.as_str();
    title.strip_prefix("Implement: ").unwrap_or(title).to_owned()
}

/// Lower-case letters, digits and single dashes, none of them at the ends. Other letters are left out.
fn slug(text: &str, max_chars: usize) -> String {
    let mut slug = String::new();
    for c in text.chars().map(|c| c.to_ascii_lowercase()) {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            // The apostrophe of "don't" separates no words.
            '\'' | '’' => {}
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    if slug.len() > max_chars {
        let at_word = slug[..=max_chars].rfind('-').filter(|end| *end > max_chars / 2);
        slug.truncate(at_word.unwrap_or(max_chars));
    }
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TicketId;
    use crate::task::transitions::tests::in_state;
    use proptest::prelude::*;

    fn titled(title: &str) -> Task {
        let ticket = TicketId::parse("ticket-0197a2b3c4d51a2b3c4d").unwrap();
        Task { title: title.to_owned(), ticket: Some(ticket), ..in_state("waiting") }
    }

    #[test]
    fn name_has_type_short_ticket_id_and_title() {
        for (title, name) in [
            ("Implement: Add a login page", "feature/1a2b3c4d-add-a-login-page"),
            ("Fix the login: it doesn't work", "fix/1a2b3c4d-fix-the-login-it-doesnt-work"),
            ("docs: explain retries", "docs/1a2b3c4d-docs-explain-retries"),
            ("Add tests for the parser", "feature/1a2b3c4d-add-tests-for-the-parser"),
            ("Tests for the parser", "test/1a2b3c4d-tests-for-the-parser"),
            ("Refactor fix/.. ~^:?*[\\ @{", "refactor/1a2b3c4d-refactor-fix"),
            ("ログイン画面", "feature/1a2b3c4d"),
            ("Bump serde", "chore/1a2b3c4d-bump-serde"),
        ] {
            assert_eq!(branch_name(&titled(title), 1), name, "{title}");
        }
        assert_eq!(branch_name(&titled("Bump serde"), 3), "chore/1a2b3c4d-bump-serde-3");
        let alone = Task { ticket: None, ..titled("Bump serde") };
        assert!(branch_name(&alone, 1).starts_with("chore/"), "{}", branch_name(&alone, 1));
    }

    #[test]
    fn type_of_the_request_is_preferred_and_an_urgent_fix_is_a_hotfix() {
        let mut docs = titled("Fix the link");
        docs.execution.branch_type = Some(BranchType::Docs);
        assert_eq!(BranchType::of(&docs), BranchType::Docs);
        let urgent = Task { priority: Priority::Critical, ..titled("Fix the link") };
        assert_eq!(BranchType::of(&urgent), BranchType::Hotfix);
        let urgent = Task { priority: Priority::Critical, ..titled("Add a link") };
        assert_eq!(BranchType::of(&urgent), BranchType::Feature);
    }

    #[test]
    fn long_titles_end_at_a_word() {
        let name = branch_name(&titled("Explain why the second worker waits for the first one to finish"), 1);
        assert_eq!(name, "feature/1a2b3c4d-explain-why-the-second-worker-waits-for");
        let name = branch_name(&titled(&"x".repeat(300)), 1);
        assert_eq!(name.len(), "feature/1a2b3c4d-".len() + MAX_SLUG_CHARS);
    }

    proptest! {
        /// The rules of `git check-ref-format`, and narrower: no name needs quoting in a shell or a URL.
        #[test]
        fn every_name_is_legal_for_git(title in "\\PC{0,80}", id in "[A-Za-z0-9][A-Za-z0-9._-]{0,60}", number in 1..1_000_u32) {
            prop_assume!(id != "health");
            let task = Task { ticket: Some(TicketId::parse(id).unwrap()), ..titled(&title) };
            let name = branch_name(&task, number);
            let (branch_type, rest) = name.split_once('/').unwrap();
            prop_assert!(BranchType::ALL.iter().any(|known| known.as_str() == branch_type));
            prop_assert!(!rest.is_empty() && rest.len() <= 60, "{}", name);
            prop_assert!(rest.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-')), "{}", name);
            prop_assert!(!rest.starts_with('-') && !rest.ends_with('-') && !rest.contains("--"), "{}", name);
        }
    }
}
