//! The repository of the task, and how it is reached.

use super::Reader;
use crate::secret::Secret;
use crate::workspace::{InvalidRepository, Repository};

impl Reader<'_> {
    pub(super) fn repository(&mut self) -> Option<Repository> {
        let whole = |variable: &'static str| self.text(variable).map(|location| (variable, location));
        let parts = || {
            let (owner, name) = (self.text("GITHUB_REPO_OWNER")?, self.text("GITHUB_REPO_NAME")?);
            Some(("GITHUB_REPO_OWNER", format!("{owner}/{name}")))
        };
        let location = whole("REPOSITORY_URL").or_else(|| whole("GITHUB_REPO")).or_else(parts);
        let branch = self.text("BRANCH_NAME");
        let base = self.text("BASE_BRANCH");
        let asks_plane = self.asks_plane();
        let Some((variable, location)) = location else {
            if branch.is_some() {
                self.warn("BRANCH_NAME", "set, but neither GITHUB_REPO nor REPOSITORY_URL is");
            }
            return None;
        };
        let token = self.text("GITHUB_TOKEN").or_else(|| self.text("GH_TOKEN")).map(Secret::new);
        let is_covered = self.token_covers(&location);
        if token.is_some() && !is_covered {
            let message = "not used: the repository is not one of GITHUB_HOST and GITHUB_REPOSITORIES";
            self.warn("GITHUB_TOKEN", message);
        }
        let token = token.filter(|_| is_covered && !asks_plane);
        let branch = branch.unwrap_or_else(|| self.default_branch());
        let repository = Repository::new(&location, token, Some(&branch));
        let repository = repository.map_err(|why| {
            let is_branch = matches!(why, InvalidRepository::InvalidBranch(_));
            self.error(if is_branch { "BRANCH_NAME" } else { variable }, why.to_string());
        });
        let repository = repository.ok()?.with_base(base.as_deref());
        let repository = repository.map_err(|why| self.error("BASE_BRANCH", why.to_string())).ok()?;
        Some(Repository { asks_plane, ..repository })
    }

    /// The branch of a task without one: never one that exists for something else.
    fn default_branch(&self) -> String {
        let sandbox = self.text("SANDBOX_ID").unwrap_or_default();
        let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
        format!("sunaba/{}", sandbox.chars().map(plain).collect::<String>())
    }

    /// Whether the plane gives access to the repository.
    fn asks_plane(&mut self) -> bool {
        match self.text("GIT_ACCESS").as_deref() {
            None => false,
            Some("plane") => true,
            Some(other) => {
                self.error("GIT_ACCESS", format!("{other:?} is not `plane`"));
                false
            }
        }
    }
}
