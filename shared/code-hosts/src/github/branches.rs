//! The repository and its branches.

use super::GitHub;
use super::http::{Call, in_path};
use crate::{Base, Branch, Creation, Failure, Reason};
use reqwest::Method;
use serde_json::{Value, json};

impl GitHub {
    pub(super) async fn check_base(&self, base: Option<&str>) -> Result<Base, Failure> {
        let path = self.path("");
        let found = self.http.send(&Call::new(Method::GET, &path, "reading the repository")).await?.body;
        let name = self.address.full_name();
        if found["archived"] == json!(true) || found["disabled"] == json!(true) {
            return Err(Failure::new(Reason::PushForbidden, format!("{name} is archived or disabled")));
        }
        // For an App, GitHub has checked the permissions when it created the token; this field describes users.
        if self.http.app_id().is_none() && found["permissions"]["push"] != json!(true) {
            return Err(Failure::new(Reason::PushForbidden, format!("the token may not push to {name}")));
        }
        let branch = base.or_else(|| found["default_branch"].as_str()).unwrap_or("main").to_owned();
        let doing = format!("reading the branch {branch}");
        let path = self.ref_path(&branch);
        // Responds 409 for an empty repository, which is classified as such.
        match self.http.send(&Call::new(Method::GET, &path, &doing)).await {
            Ok(answer) => Ok(Base { commit: object_id(&answer.body)?, branch }),
            Err(error) if error.status == Some(404) => {
                Err(Failure::new(Reason::BaseMissing, format!("{name} has no branch {branch}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn list_branches(&self) -> Result<Vec<Branch>, Failure> {
        let path = self.path("/branches?per_page=100");
        let found = self.http.pages(&path, "listing the branches", |page| page).await?;
        let branch = |found: &Value| {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            Some(Branch { name: text(&found["name"])?, commit: text(&found["commit"]["sha"])? })
        };
        let branches: Option<Vec<Branch>> = found.iter().map(branch).collect();
        let mut branches = branches.ok_or_else(|| unexpected("a branch"))?;
        // A branch that is created meanwhile moves others to the next page.
        branches.sort_by(|one, other| one.name.cmp(&other.name));
        branches.dedup_by(|one, other| one.name == other.name);
        Ok(branches)
    }

    pub(super) async fn find_branch(&self, name: &str) -> Result<Option<String>, Failure> {
        let (path, doing) = (self.ref_path(name), format!("reading the branch {name}"));
        match self.http.send(&Call::new(Method::GET, &path, &doing)).await {
            Ok(answer) => object_id(&answer.body).map(Some),
            Err(error) if error.status == Some(404) || error.failure.reason == Reason::EmptyRepository => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn new_branch(&self, name: &str, commit: &str) -> Result<Creation, Failure> {
        let (path, doing) = (self.path("/git/refs"), format!("creating the branch {name}"));
        let body = json!({"ref": format!("refs/heads/{name}"), "sha": commit});
        let error = match self.http.send(&Call::new(Method::POST, &path, &doing).body(&body)).await {
            Ok(_) => return Ok(Creation::Created),
            Err(error) => error,
        };
        if error.says("object does not exist") {
            return Err(error.because(Reason::NotFound));
        }
        if error.status != Some(422) {
            return Err(error.into());
        }
        // The name is used, or it is above or below the name of another branch.
        let existing = self.find_branch(name).await?;
        existing.map(|commit| Creation::Exists { commit }).ok_or_else(|| error.into())
    }

    pub(super) async fn remove_branch(&self, name: &str) -> Result<(), Failure> {
        let path = self.path(&format!("/git/refs/heads/{}", in_path(name)));
        let doing = format!("deleting the branch {name}");
        match self.http.send(&Call::new(Method::DELETE, &path, &doing)).await {
            Ok(_) => Ok(()),
            Err(error) if error.says("does not exist") => Ok(()),
            // Perhaps the whole repository is not there.
            Err(error) if error.status == Some(404) => {
                let path = self.path("");
                let found = self.http.send(&Call::new(Method::GET, &path, "reading the repository")).await;
                found.map(drop).map_err(Failure::from)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn ref_path(&self, branch: &str) -> String {
        self.path(&format!("/git/ref/heads/{}", in_path(branch)))
    }
}

fn object_id(found: &Value) -> Result<String, Failure> {
    found["object"]["sha"].as_str().map(str::to_owned).ok_or_else(|| unexpected("a ref"))
}

pub(super) fn unexpected(what: &str) -> Failure {
    Failure::new(Reason::Unreachable, format!("GitHub's response does not describe {what}"))
}
