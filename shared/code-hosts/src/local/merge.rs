//! Merges. The new commits are made in the object database; then the base moves to them, from the commit that they
//! were made for.

use super::pulls::Current;
use super::records::{Content, PlannedMerge, Record};
use super::repository::Repository;
use crate::{Failure, Merge, MergeMethod, Merged, PullRequestState, Reason};

/// Identity in commits if the user has configured none.
const DEFAULT_NAME: &str = "Sunaba";
const DEFAULT_EMAIL: &str = "sunaba@localhost";

/// Number of files that a message names.
const MAX_NAMED_FILES: usize = 10;

/// Name, e-mail address and date.
struct Author {
    name: String,
    email: String,
    date: Option<String>,
}

/// The tree of a trial merge.
pub(super) enum Tree {
    Clean(String),
    /// These files do not merge; in the tree they have the marks of git.
    Conflict {
        tree: String,
        files: Vec<String>,
    },
}

impl Repository {
    pub(super) async fn merge(&self, number: u64, merge: &Merge) -> Result<Merged, Failure> {
        let _lock = self.lock().await?;
        let record = self.record(number).await?.ok_or_else(|| {
            let message = format!("{} has no pull request {number}", self.directory.display());
            Failure::new(Reason::NotFound, message)
        })?;
        let Current { record, state, head, base } = self.current(record).await?;
        let not_mergeable =
            |text: &str| Err(Failure::new(Reason::NotMergeable, format!("the pull request {number} {text}")));
        match state {
            PullRequestState::Merged { commit } if head == merge.head => return Ok(Merged { commit }),
            PullRequestState::Merged { .. } => {}
            PullRequestState::Closed => return not_mergeable("is closed: its branch was deleted"),
            PullRequestState::Open => {}
        }
        if head != merge.head {
            let message =
                format!("the newest commit of {} is {head}, not {}", record.content.branch, merge.head);
            return Err(Failure::new(Reason::HeadMoved, message));
        }
        let Some(base) = base else {
            let message = format!("the base {} does not exist", record.content.base);
            return Err(Failure::new(Reason::BaseMissing, message));
        };
        let commit = match merge.method {
            MergeMethod::Merge => self.merge_commit(&record, &base, &head, merge).await?,
            MergeMethod::Squash => self.squashed(&record, &base, &head, merge).await?,
            MergeMethod::Rebase => self.rebased(&base, &head).await?,
        };
        self.apply(&record, &base, PlannedMerge { head, commit }).await
    }

    /// Moves the base to the planned commit.
    async fn apply(&self, record: &Record, base: &str, merge: PlannedMerge) -> Result<Merged, Failure> {
        let commit = merge.commit.clone();
        let head = merge.head.clone();
        let content = Content { merge: Some(merge), ..record.content.clone() };
        let blob = self.store_content(&content).await?;
        let mut commands = vec![
            format!("update {} {blob} {}", record.record_ref(), record.blob),
            format!("update {} {head} {}", record.head_ref(), record.head),
        ];
        let branch = &record.content.base;
        if let Some(directory) = self.checked_out_in(branch).await? {
            // Two steps. If the plane stops in between, the record names a commit that the base does not have.
            self.check_working_tree(&directory, base, &commit).await?;
            self.update_refs(&commands).await?;
            self.fast_forward(&directory, &commit).await?;
        } else {
            commands.push(format!("update refs/heads/{branch} {commit} {base}"));
            self.update_refs(&commands).await?;
        }
        Ok(Merged { commit })
    }

    /// Whether the branches merge without conflicts.
    pub(super) async fn is_mergeable(&self, base: &str, head: &str) -> Result<bool, Failure> {
        match self.merged_tree([base, head]).await {
            Ok(tree) => Ok(matches!(tree, Tree::Clean(_))),
            Err(failure) if failure.reason == Reason::NotMergeable => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    async fn merge_commit(
        &self,
        record: &Record,
        base: &str,
        head: &str,
        merge: &Merge,
    ) -> Result<String, Failure> {
        let tree = self.clean_tree([base, head]).await?;
        let Content { branch, base: base_name, .. } = &record.content;
        let title = merge.title.clone().unwrap_or_else(|| format!("Merge {branch} into {base_name}"));
        let message = format!("{title}\n\n{}\n", record.content.title);
        self.new_commit(&tree, &[base, head], message.as_bytes(), None).await
    }

    /// One commit by the author of the newest one.
    async fn squashed(
        &self,
        record: &Record,
        base: &str,
        head: &str,
        merge: &Merge,
    ) -> Result<String, Failure> {
        let tree = self.clean_tree([base, head]).await?;
        let Record { number, content, .. } = record;
        let title = merge.title.clone().unwrap_or_else(|| format!("{} (#{number})", content.title));
        let range = format!("{base}..{head}");
        let subjects =
            self.git.text(&["log", "--no-show-signature", "--reverse", "--format=* %s", &range]).await?;
        let author = self.author(head).await?;
        let author = Author { date: None, ..author };
        self.new_commit(&tree, &[base], format!("{title}\n\n{subjects}\n").as_bytes(), Some(&author)).await
    }

    /// The commits of the branch on top of the base, without merges. Those that are already on top of it stay as
    /// they are.
    async fn rebased(&self, base: &str, head: &str) -> Result<String, Failure> {
        let range = format!("{base}..{head}");
        let list = ["rev-list", "--reverse", "--topo-order", "--no-merges", "--parents", &range];
        let listed = self.git.text(&list).await?;
        let mut onto = base.to_owned();
        for line in listed.lines() {
            let Some((commit, parent)) = line.split_once(' ') else {
                let message = "the branch has a commit without a parent, which cannot be rebased";
                return Err(Failure::new(Reason::NotMergeable, message));
            };
            if parent == onto {
                onto = commit.to_owned();
                continue;
            }
            let tree = self.picked_tree(parent, &onto, commit).await?;
            if tree == self.git.text(&["rev-parse", &format!("{onto}^{{tree}}")]).await? {
                continue;
            }
            let message =
                self.git.run(&["log", "--no-show-signature", "-1", "--format=%B", commit], &[], &[]).await?;
            let author = self.author(commit).await?;
            onto = self.new_commit(&tree, &[&onto], &message.stdout, Some(&author)).await?;
        }
        Ok(onto)
    }

    /// What `commit` has changed since `parent`, applied to `onto`. A commit with the files of `onto` and this
    /// parent makes it the common commit of a merge: git before 2.40 cannot be given one.
    async fn picked_tree(&self, parent: &str, onto: &str, commit: &str) -> Result<String, Failure> {
        let files = format!("{onto}^{{tree}}");
        let target = self.new_commit(&files, &[parent], b"Target of a rebase\n", None).await?;
        self.clean_tree([&target, commit]).await
    }

    async fn clean_tree(&self, sides: [&str; 2]) -> Result<String, Failure> {
        match self.merged_tree(sides).await? {
            Tree::Clean(tree) => Ok(tree),
            Tree::Conflict { files, .. } => {
                let message = format!("these files conflict with the base: {}", named(&files));
                Err(Failure::new(Reason::Conflict, message))
            }
        }
    }

    pub(super) async fn merged_tree(&self, sides: [&str; 2]) -> Result<Tree, Failure> {
        let command = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z"];
        let output = self.git.run(&[&command[..], &sides].concat(), &[], &[]).await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut parts = text.split('\0').map(str::to_owned);
        let tree = parts.next().unwrap_or_default();
        match output.code {
            0 => Ok(Tree::Clean(tree)),
            1 => {
                let files = parts.filter(|file| !file.is_empty()).collect();
                Ok(Tree::Conflict { tree, files })
            }
            _ if output.stderr.contains("unrelated histories") => {
                let message = "the branch and its base have no common commit";
                Err(Failure::new(Reason::NotMergeable, message))
            }
            _ => Err(output.failure(&command)),
        }
    }

    async fn author(&self, commit: &str) -> Result<Author, Failure> {
        let format = "--format=%an%x00%ae%x00%ad";
        let text = self.git.text(&["log", "--no-show-signature", "-1", "--date=raw", format, commit]).await?;
        let mut parts = text.split('\0').map(str::to_owned);
        let (name, email) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        Ok(Author { name, email, date: parts.next() })
    }

    /// The user of this machine, who asked for the merge.
    async fn committer(&self) -> Result<Author, Failure> {
        let name = self.git.configured("user.name").await?.unwrap_or_else(|| DEFAULT_NAME.to_owned());
        let email = self.git.configured("user.email").await?.unwrap_or_else(|| DEFAULT_EMAIL.to_owned());
        Ok(Author { name, email, date: None })
    }

    /// Makes a commit. The committer is also the author if there is none.
    async fn new_commit(
        &self,
        tree: &str,
        parents: &[&str],
        message: &[u8],
        author: Option<&Author>,
    ) -> Result<String, Failure> {
        let committer = self.committer().await?;
        let author = author.unwrap_or(&committer);
        let mut variables = vec![
            ("GIT_COMMITTER_NAME", committer.name.as_str()),
            ("GIT_COMMITTER_EMAIL", &committer.email),
            ("GIT_AUTHOR_NAME", &author.name),
            ("GIT_AUTHOR_EMAIL", &author.email),
        ];
        if let Some(date) = &author.date {
            variables.push(("GIT_AUTHOR_DATE", date));
        }
        let mut arguments = vec!["commit-tree", tree];
        arguments.extend(parents.iter().flat_map(|parent| ["-p", parent]));
        let output = self.git.run(&arguments, message, &variables).await?;
        let commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.code == 0 { Ok(commit) } else { Err(output.failure(&arguments)) }
    }
}

/// The first files of a list.
pub(super) fn named(files: &[String]) -> String {
    let shown = files.iter().take(MAX_NAMED_FILES).cloned().collect::<Vec<_>>().join(", ");
    match files.len().checked_sub(MAX_NAMED_FILES) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}
