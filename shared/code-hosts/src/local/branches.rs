//! Branches.

use super::repository::Repository;
use crate::{Base, Branch, Creation, Failure, Reason};

impl Repository {
    pub(super) async fn check_base(&self, base: Option<&str>) -> Result<Base, Failure> {
        self.git.check_version().await?;
        // Also finds out whether the repository can be written.
        drop(self.lock().await?);
        let name = self.directory.display();
        let head = self.git.find(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await?;
        let branch = base.map(str::to_owned).or(head);
        let missing = |text| Err(Failure::new(Reason::BaseMissing, text));
        if let Some(branch) = &branch
            && let Some(commit) = self.branch(branch).await?
        {
            return Ok(Base { branch: branch.clone(), commit });
        }
        if self.branches().await?.is_empty() {
            return Err(Failure::new(Reason::EmptyRepository, format!("{name} has no commit")));
        }
        match branch {
            Some(branch) => missing(format!("{name} has no branch {branch}")),
            None => missing(format!("{name} has no branch checked out, so it has no default branch")),
        }
    }

    pub(super) async fn branches(&self) -> Result<Vec<Branch>, Failure> {
        let format = "--format=%(objectname) %(refname)";
        let found = self.git.text(&["for-each-ref", format, "refs/heads/"]).await?;
        let branch = |line: &str| {
            let (commit, reference) = line.split_once(' ')?;
            let name = reference.strip_prefix("refs/heads/")?;
            Some(Branch { name: name.to_owned(), commit: commit.to_owned() })
        };
        let mut branches: Vec<Branch> = found.lines().filter_map(branch).collect();
        branches.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(branches)
    }

    pub(super) async fn create_branch(&self, name: &str, commit: &str) -> Result<Creation, Failure> {
        let _lock = self.lock().await?;
        if let Some(commit) = self.branch(name).await? {
            return Ok(Creation::Exists { commit });
        }
        if !self.has_commit(commit).await? {
            let message = format!("{} has no commit {commit}", self.directory.display());
            return Err(Failure::new(Reason::NotFound, message));
        }
        let created = self.update_refs(&[format!("create refs/heads/{name} {commit}")]).await;
        let Err(failure) = created else { return Ok(Creation::Created) };
        // A person may have created it meanwhile.
        if let Some(commit) = self.branch(name).await? {
            return Ok(Creation::Exists { commit });
        }
        let is_above = |other: &Branch| other.name.starts_with(&format!("{name}/"));
        let is_below = |other: &Branch| name.starts_with(&format!("{}/", other.name));
        let branches = self.branches().await?;
        let Some(other) = branches.iter().find(|other| is_above(other) || is_below(other)) else {
            return Err(failure);
        };
        let message = format!("the branch {name} cannot exist beside the branch {}", other.name);
        Err(Failure::new(Reason::Invalid, message))
    }

    pub(super) async fn delete_branch(&self, name: &str) -> Result<(), Failure> {
        let _lock = self.lock().await?;
        let Some(commit) = self.branch(name).await? else { return Ok(()) };
        if let Some(directory) = self.checked_out_in(name).await? {
            let message = format!("the branch {name} is checked out in {}", directory.display());
            return Err(Failure::new(Reason::Conflict, message));
        }
        let mut commands = vec![format!("delete refs/heads/{name} {commit}")];
        // Its pull request keeps the commits.
        if let Some(open) = self.open_record(&self.records().await?, name).await? {
            commands.push(format!("update {} {commit} {}", open.head_ref(), open.head));
        }
        self.update_refs(&commands).await
    }
}
