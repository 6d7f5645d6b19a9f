//! Pull requests: records in the repository. Their state follows from its branches, so that it is right after a
//! person has merged or deleted one of them.

use super::records::{Content, Record, head_ref, record_ref};
use super::repository::Repository;
use crate::{Failure, NewPullRequest, PullRequest, PullRequestState, Reason};

/// A record, and what the branches say about it.
#[derive(Debug)]
pub(super) struct Current {
    pub record: Record,
    pub state: PullRequestState,
    /// The newest commit of the branch.
    pub head: String,
    /// The newest commit of the base, if it exists.
    pub base: Option<String>,
}

impl Repository {
    pub(super) async fn propose(&self, request: &NewPullRequest) -> Result<PullRequest, Failure> {
        let _lock = self.lock().await?;
        let NewPullRequest { branch, base, title, body } = request;
        let name = self.directory.display();
        let missing = |reason, branch| Failure::new(reason, format!("{name} has no branch {branch}"));
        let head = self.branch(branch).await?.ok_or_else(|| missing(Reason::NotFound, branch))?;
        let base_commit = self.branch(base).await?.ok_or_else(|| missing(Reason::BaseMissing, base))?;
        let records = self.records().await?;
        let (title, body) = (title.clone(), body.clone());
        let mut content = Content { title, body, branch: branch.clone(), base: base.clone(), merge: None };
        if let Some(open) = self.open_record(&records, branch).await? {
            content.merge = open.content.merge.clone();
            let blob = self.store_content(&content).await?;
            self.update_refs(&[
                format!("update {} {blob} {}", open.record_ref(), open.blob),
                format!("update {} {head} {}", open.head_ref(), open.head),
            ])
            .await?;
            return self.described(Record { head, blob, content, ..open }).await;
        }
        if self.commits_ahead(&base_commit, &head).await? == 0 {
            let message = format!("{branch} has no commit that {base} does not have");
            return Err(Failure::new(Reason::NothingToPropose, message));
        }
        if self.git.find(&["merge-base", &base_commit, &head]).await?.is_none() {
            let message = format!("{branch} and {base} have no common commit");
            return Err(Failure::new(Reason::NotMergeable, message));
        }
        let number = records.last().map_or(1, |last| last.number + 1);
        let blob = self.store_content(&content).await?;
        self.update_refs(&[
            format!("create {} {blob}", record_ref(number)),
            format!("create {} {head}", head_ref(number)),
        ])
        .await?;
        self.described(Record { number, head, blob, content }).await
    }

    pub(super) async fn pull_request(&self, number: u64) -> Result<Option<PullRequest>, Failure> {
        match self.record(number).await? {
            Some(record) => Ok(Some(self.described(record).await?)),
            None => Ok(None),
        }
    }

    /// Compares a record with the branches.
    pub(super) async fn current(&self, record: Record) -> Result<Current, Failure> {
        let base = self.branch(&record.content.base).await?;
        let tip = self.branch(&record.content.branch).await?;
        if let (Some(merge), Some(base_commit)) = (&record.content.merge, &base)
            && self.is_ancestor(&merge.commit, base_commit).await?
        {
            let state = PullRequestState::Merged { commit: merge.commit.clone() };
            return Ok(Current { head: merge.head.clone(), state, base, record });
        }
        let head = tip.clone().unwrap_or_else(|| record.head.clone());
        let merged_by_hand = match &base {
            Some(base) => self.merge_by_hand(&record.head, &head, base).await?,
            None => None,
        };
        let state = match (merged_by_hand, tip) {
            (Some(commit), _) => PullRequestState::Merged { commit },
            (None, Some(_)) => PullRequestState::Open,
            (None, None) => PullRequestState::Closed,
        };
        Ok(Current { record, state, head, base })
    }

    /// The commit with which a person merged the branch. The stored head counts too: it was ahead of the base,
    /// whereas a branch that was reset to the base is not merged.
    async fn merge_by_hand(&self, stored: &str, head: &str, base: &str) -> Result<Option<String>, Failure> {
        if !self.is_ancestor(stored, base).await? || !self.is_ancestor(head, base).await? {
            return Ok(None);
        }
        let range = format!("{head}..{base}");
        let arguments = ["rev-list", "--first-parent", "--ancestry-path", "--reverse", &range];
        let later = self.git.text(&arguments).await?;
        Ok(Some(later.lines().next().unwrap_or(head).to_owned()))
    }

    /// The open pull request of a branch.
    pub(super) async fn open_record(
        &self,
        records: &[Record],
        branch: &str,
    ) -> Result<Option<Record>, Failure> {
        for record in records.iter().rev().filter(|record| record.content.branch == branch) {
            if self.current(record.clone()).await?.state == PullRequestState::Open {
                return Ok(Some(record.clone()));
            }
        }
        Ok(None)
    }

    async fn described(&self, record: Record) -> Result<PullRequest, Failure> {
        let Current { record, state, head, base } = self.current(record).await?;
        let mergeable = match (&state, base) {
            (PullRequestState::Open, Some(base)) => Some(self.is_mergeable(&base, &head).await?),
            (PullRequestState::Open, None) => Some(false),
            _ => None,
        };
        Ok(PullRequest {
            number: record.number,
            url: record.head_ref(),
            title: record.content.title,
            state,
            branch: record.content.branch,
            base: record.content.base,
            head_commit: head,
            mergeable,
        })
    }
}
