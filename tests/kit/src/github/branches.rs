//! Branches.

use super::rest::{Call, Reply, Repository};
use serde_json::{Value, json};

const EMPTY: &str = "Git Repository is empty.";

impl Repository {
    pub(super) fn branch_list(&self) -> Vec<Value> {
        let entry = |(name, commit)| json!({"name": name, "commit": {"sha": commit}, "protected": false});
        self.git.branches().into_iter().map(entry).collect()
    }

    pub(super) fn branch(&self, name: &str) -> Reply {
        match self.git.branch(name) {
            Some(commit) => Reply::new(200, reference(name, &commit)),
            None if self.git.is_empty() => Reply::refusal(409, EMPTY),
            None => Reply::refusal(404, "Not Found"),
        }
    }

    pub(super) fn create_branch(&mut self, call: &Call) -> Reply {
        let (full, commit) = (call.text("ref"), call.text("sha"));
        if self.git.is_empty() {
            return Reply::refusal(409, EMPTY);
        }
        let Some(name) = full.strip_prefix("refs/heads/") else {
            return Reply::refusal(422, "Reference name must start with 'refs/heads/'");
        };
        if self.git.run(&["check-ref-format", full]).is_err() {
            return Reply::refusal(422, "Reference name is invalid");
        }
        if self.git.branch(name).is_some() {
            return Reply::refusal(422, "Reference already exists");
        }
        if self.git.run(&["cat-file", "-e", &format!("{commit}^{{commit}}")]).is_err() {
            return Reply::refusal(422, "Object does not exist");
        }
        match self.git.run(&["update-ref", full, commit, &"0".repeat(commit.len())]) {
            Ok(_) => Reply::new(201, reference(name, commit)),
            // Below or above the name of another branch.
            Err(_) => Reply::refusal(422, "Reference update failed"),
        }
    }

    pub(super) fn delete_branch(&mut self, name: &str) -> Reply {
        if self.git.branch(name).is_none() {
            return Reply::refusal(422, "Reference does not exist");
        }
        self.refresh_pulls();
        let deleted = self.git.run(&["update-ref", "-d", &format!("refs/heads/{name}")]);
        deleted.expect("git deletes an existing branch");
        Reply::new(204, Value::Null)
    }
}

fn reference(name: &str, commit: &str) -> Value {
    json!({"ref": format!("refs/heads/{name}"), "object": {"type": "commit", "sha": commit}})
}
