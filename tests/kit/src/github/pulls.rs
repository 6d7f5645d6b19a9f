//! Pull requests.

use super::rest::{Call, Reply, Repository};
use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(super) struct Pull {
    number: u64,
    title: String,
    body: String,
    branch: String,
    base: String,
    head_commit: String,
    state: PullState,
    /// How often `mergeable` is still null.
    pending: u32,
    /// Value of `pending` after a change.
    delay: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PullState {
    Open,
    Closed,
    /// Holds the commit of the merge.
    Merged(String),
}

/// How much of a pull request a response has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Lists leave out what has to be computed.
    List,
    Full,
}

impl Pull {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Repository {
    pub(super) fn all_pulls(&mut self, url: &str) -> Vec<Value> {
        self.refresh_pulls();
        self.pulls.iter().map(|pull| self.show(pull, Detail::Full, url)).collect()
    }

    pub(super) fn list_pulls(&mut self, call: &Call, url: &str) -> Vec<Value> {
        self.refresh_pulls();
        let state = call.query.get("state").map_or("open", String::as_str);
        let owner = self.name.split('/').next().unwrap_or_default();
        // A filter without an owner is ignored.
        let head = call.query.get("head").and_then(|head| head.split_once(':'));
        let is_wanted = |pull: &&Pull| {
            let is_open = pull.state == PullState::Open;
            (state == "all" || (state == "open") == is_open)
                && head.is_none_or(|(user, branch)| user == owner && branch == pull.branch)
        };
        self.pulls.iter().rev().filter(is_wanted).map(|pull| self.show(pull, Detail::List, url)).collect()
    }

    pub(super) fn create_pull(&mut self, call: &Call, delay: u32, url: &str) -> Reply {
        self.refresh_pulls();
        let owner = format!("{}:", self.name.split('/').next().unwrap_or_default());
        let branch = call.text("head").trim_start_matches(&owner).to_owned();
        let base = call.text("base").to_owned();
        let Some(head_commit) = self.git.branch(&branch) else {
            return Reply::invalid("PullRequest", "head", "invalid");
        };
        let Some(base_commit) = self.git.branch(&base) else {
            return Reply::invalid("PullRequest", "base", "invalid");
        };
        if call.text("title").is_empty() {
            return Reply::invalid("PullRequest", "title", "missing_field");
        }
        let is_same =
            |pull: &Pull| pull.state == PullState::Open && pull.branch == branch && pull.base == base;
        if self.pulls.iter().any(is_same) {
            let message = format!("A pull request already exists for {owner}{branch}.");
            return Reply::custom("PullRequest", &message);
        }
        if self.git.ahead(&base_commit, &head_commit) == 0 {
            return Reply::custom("PullRequest", &format!("No commits between {base} and {branch}"));
        }
        let number = self.pulls.last().map_or(1, |last| last.number + 1);
        let (title, body) = (call.text("title").to_owned(), call.text("body").to_owned());
        let state = PullState::Open;
        let pull = Pull { number, title, body, branch, base, head_commit, state, pending: delay, delay };
        let shown = self.show(&pull, Detail::Full, url);
        self.pulls.push(pull);
        Reply::new(201, shown)
    }

    pub(super) fn read_pull(&mut self, number: &str, url: &str) -> Reply {
        self.refresh_pulls();
        let Some(index) = self.index(number) else { return Reply::refusal(404, "Not Found") };
        let shown = self.show(&self.pulls[index], Detail::Full, url);
        self.pulls[index].pending = self.pulls[index].pending.saturating_sub(1);
        Reply::new(200, shown)
    }

    pub(super) fn update_pull(&mut self, call: &Call, url: &str) -> Reply {
        self.refresh_pulls();
        let Some(index) = self.index(&call.path[4]) else { return Reply::refusal(404, "Not Found") };
        if let Some(base) = call.body["base"].as_str() {
            if self.git.branch(base).is_none() {
                return Reply::invalid("PullRequest", "base", "invalid");
            }
            base.clone_into(&mut self.pulls[index].base);
        }
        let pull = &mut self.pulls[index];
        if let Some(title) = call.body["title"].as_str() {
            title.clone_into(&mut pull.title);
        }
        if let Some(body) = call.body["body"].as_str() {
            body.clone_into(&mut pull.body);
        }
        pull.pending = pull.delay;
        Reply::new(200, self.show(&self.pulls[index], Detail::Full, url))
    }

    pub(super) fn merge_pull(&mut self, call: &Call) -> Reply {
        self.refresh_pulls();
        let Some(index) = self.index(&call.path[4]) else { return Reply::refusal(404, "Not Found") };
        let pull = self.pulls[index].clone();
        let method = match call.text("merge_method") {
            "" => "merge",
            method => method,
        };
        if !["merge", "squash", "rebase"].contains(&method) {
            return Reply::invalid("PullRequest", "merge_method", "invalid");
        }
        if self.settings.disabled_methods.iter().any(|disabled| disabled == method) {
            return Reply::refusal(405, &format!("{method} merges are not allowed on this repository."));
        }
        if pull.state != PullState::Open {
            return Reply::refusal(405, "Pull Request is not mergeable");
        }
        if let Some(expected) = call.body["sha"].as_str().filter(|sha| *sha != pull.head_commit) {
            let message = format!("Head branch was modified. Review and try the merge again. ({expected})");
            return Reply::refusal(409, &message);
        }
        if let Some(rule) = &self.settings.blocked {
            return Reply::refusal(405, rule);
        }
        let title = match call.text("commit_title") {
            "" if method == "merge" => format!("Merge pull request #{} from {}", pull.number, pull.branch),
            "" => format!("{} (#{})", pull.title, pull.number),
            title => title.to_owned(),
        };
        let Some(commit) = self.merged_commit(&pull, method, &title) else {
            return Reply::refusal(405, "Pull Request is not mergeable");
        };
        let base = format!("refs/heads/{}", pull.base);
        self.git.run(&["update-ref", &base, &commit]).expect("git moves an existing branch");
        self.pulls[index].state = PullState::Merged(commit.clone());
        Reply::new(200, json!({"sha": commit, "merged": true, "message": "Pull Request successfully merged"}))
    }

    fn merged_commit(&self, pull: &Pull, method: &str, title: &str) -> Option<String> {
        let base = self.git.branch(&pull.base)?;
        let head = &pull.head_commit;
        let tree = self.git.merged_tree(&base, head)?;
        match method {
            "merge" => Some(self.git.new_commit(&tree, &[&base, head], title)),
            "squash" => Some(self.git.new_commit(&tree, &[&base], title)),
            _ => self.git.rebased(&base, head),
        }
    }

    /// Brings open pull requests up to date with the branches, which git may have changed.
    pub(super) fn refresh_pulls(&mut self) {
        let git = &self.git;
        for pull in self.pulls.iter_mut().filter(|pull| pull.state == PullState::Open) {
            let Some(head) = git.branch(&pull.branch) else {
                pull.state = PullState::Closed;
                continue;
            };
            if head != pull.head_commit {
                pull.pending = pull.delay;
                pull.head_commit = head;
            }
            let base = git.branch(&pull.base);
            if base.is_some_and(|base| git.is_ancestor(&pull.head_commit, &base)) {
                pull.state = PullState::Merged(pull.head_commit.clone());
            }
        }
    }

    fn index(&self, number: &str) -> Option<usize> {
        self.pulls.iter().position(|pull| pull.number.to_string() == number)
    }

    fn show(&self, pull: &Pull, detail: Detail, url: &str) -> Value {
        let repository = json!({"full_name": self.name});
        let merge_commit = match &pull.state {
            PullState::Merged(commit) => json!(commit),
            PullState::Open | PullState::Closed => Value::Null,
        };
        let is_merged = !merge_commit.is_null();
        let mut shown = json!({
            "number": pull.number,
            "html_url": format!("{url}/{}/pull/{}", self.name, pull.number),
            "title": pull.title,
            "body": pull.body,
            "state": if pull.state == PullState::Open { "open" } else { "closed" },
            "merged_at": is_merged.then_some("2026-01-01T00:00:00Z"),
            "merge_commit_sha": merge_commit,
            "draft": false,
            "head": {"ref": pull.branch, "sha": pull.head_commit, "repo": repository},
            "base": {"ref": pull.base, "sha": self.git.branch(&pull.base), "repo": repository},
        });
        if detail == Detail::Full {
            let (mergeable, state) = self.mergeable(pull);
            shown["merged"] = json!(is_merged);
            shown["mergeable"] = json!(mergeable);
            shown["mergeable_state"] = json!(state);
        }
        shown
    }

    fn mergeable(&self, pull: &Pull) -> (Option<bool>, &'static str) {
        if pull.pending > 0 || pull.state != PullState::Open {
            return (None, "unknown");
        }
        let base = self.git.branch(&pull.base);
        match base.and_then(|base| self.git.merged_tree(&base, &pull.head_commit)) {
            None => (Some(false), "dirty"),
            Some(_) if self.settings.blocked.is_some() => (Some(true), "blocked"),
            Some(_) => (Some(true), "clean"),
        }
    }
}
