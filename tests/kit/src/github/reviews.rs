//! Reviews, threads and comments of pull requests, as the GraphQL API returns them.

use super::access::Token;
use super::faults::Operation;
use super::rest::{Call, Reply, Repositories, Repository};
use serde_json::{Value, json};

/// An author of reviews and comments.
#[derive(Debug, Clone)]
pub struct Author {
    login: String,
    association: String,
    is_bot: bool,
    /// The credential with which it was written, if it is known.
    credential: Option<String>,
}

impl Author {
    /// A person: `("ada", "MEMBER")`.
    pub fn new(login: &str, association: &str) -> Self {
        let (login, association) = (login.to_owned(), association.to_owned());
        Self { login, association, is_bot: false, credential: None }
    }

    /// An App, without the `[bot]` that REST appends.
    pub fn bot(login: &str) -> Self {
        Self { is_bot: true, ..Self::new(login, "NONE") }
    }

    /// The person whose token this is.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        Self { credential: Some(token.to_owned()), ..self }
    }

    fn of(token: &Token) -> Self {
        let credential = Some(token.identity());
        match token.app_id() {
            Some(id) => Self { credential, ..Self::bot(&format!("app-{id}")) },
            None => Self { credential, ..Self::new("token-owner", "OWNER") },
        }
    }
}

/// A review with its comments about lines: path, line, text.
#[derive(Debug, Clone)]
pub struct NewReview<'a> {
    pub author: Author,
    /// `CHANGES_REQUESTED`, `COMMENTED` or `APPROVED`.
    pub state: &'a str,
    pub body: &'a str,
    pub comments: &'a [(&'a str, u64, &'a str)],
}

#[derive(Debug, Clone)]
struct Said {
    id: String,
    author: Author,
    body: String,
}

#[derive(Debug, Clone)]
struct Thread {
    id: String,
    path: String,
    line: u64,
    is_resolved: bool,
    comments: Vec<Said>,
}

/// What was said about one pull request.
#[derive(Debug, Clone, Default)]
pub(super) struct Discussion {
    reviews: Vec<(String, Said)>,
    threads: Vec<Thread>,
    comments: Vec<Said>,
}

impl Said {
    fn show(&self, viewer: &str) -> Value {
        let Author { login, association, is_bot, credential } = &self.author;
        json!({
            "id": self.id,
            "body": self.body,
            "authorAssociation": association,
            "viewerDidAuthor": credential.as_deref() == Some(viewer),
            "author": {"login": login, "__typename": if *is_bot { "Bot" } else { "User" }},
        })
    }
}

impl Thread {
    fn show(&self, viewer: &str) -> Value {
        let comments: Vec<Value> = self.comments.iter().map(|comment| comment.show(viewer)).collect();
        json!({
            "id": self.id, "isResolved": self.is_resolved, "path": self.path, "line": self.line,
            "comments": {"nodes": last(comments, 20)},
        })
    }
}

impl Discussion {
    fn show(&self, viewer: &str) -> Value {
        let is_listed = |state: &str| ["CHANGES_REQUESTED", "COMMENTED"].contains(&state);
        let reviews = self.reviews.iter().filter(|(state, _)| is_listed(state)).map(|(state, said)| {
            let mut shown = said.show(viewer);
            shown["state"] = json!(state);
            shown
        });
        let threads = self.threads.iter().map(|thread| thread.show(viewer));
        let comments = self.comments.iter().map(|comment| comment.show(viewer));
        json!({
            "reviews": {"nodes": last(reviews.collect(), 50)},
            "reviewThreads": {"nodes": last(threads.collect(), 50)},
            "comments": {"nodes": last(comments.collect(), 50)},
        })
    }
}

/// The query asks for the newest ones.
fn last(mut entries: Vec<Value>, count: usize) -> Vec<Value> {
    entries.split_off(entries.len().saturating_sub(count))
}

impl Repositories {
    /// Adds a review. Returns the ids of its threads.
    pub(super) fn review(&mut self, name: &str, number: u64, review: &NewReview<'_>) -> Vec<String> {
        let NewReview { author, state, body, comments } = review;
        let said = self.said("PRR", author, body);
        let mut threads = Vec::new();
        for (path, line, text) in *comments {
            let first = self.said("PRRC", author, text);
            let (id, path) = (self.new_id("PRRT"), (*path).to_owned());
            threads.push(Thread { id, path, line: *line, is_resolved: false, comments: vec![first] });
        }
        let ids = threads.iter().map(|thread| thread.id.clone()).collect();
        let discussion = self.discussion(name, number);
        discussion.reviews.push(((*state).to_owned(), said));
        discussion.threads.extend(threads);
        ids
    }

    pub(super) fn comment(&mut self, name: &str, number: u64, author: &Author, text: &str) {
        let said = self.said("IC", author, text);
        self.discussion(name, number).comments.push(said);
    }

    pub(super) fn comment_in_thread(&mut self, id: &str, author: &Author, text: &str) -> bool {
        let said = self.said("PRRC", author, text);
        let found = self.thread_mut(id);
        found.map(|thread| thread.comments.push(said)).is_some()
    }

    /// What was said, as the API returns it to a reader without a credential.
    pub(super) fn shown_discussion(&mut self, name: &str, number: u64) -> Value {
        self.discussion(name, number).show("")
    }

    /// Requests of the GraphQL API. A failure has the status 200 too.
    pub(super) fn perform_graphql(&mut self, token: &Token, call: &Call) -> Reply {
        let variable = |name: &str| call.body["variables"][name].as_str().unwrap_or_default().to_owned();
        if token.check(call.operation).is_err() {
            return refused("FORBIDDEN", "Resource not accessible by integration");
        }
        let thread = variable("thread");
        match call.operation {
            Operation::Discussion => {
                let name = format!("{}/{}", variable("owner"), variable("name"));
                let number = call.body["variables"]["number"].as_u64().unwrap_or_default();
                let repository = self.get_mut(&name).filter(|_| token.sees(&name));
                if !repository.is_some_and(|repository| repository.has_pull(number)) {
                    return refused("NOT_FOUND", "Could not resolve to a PullRequest");
                }
                let shown = self.discussion(&name, number).show(&token.identity());
                Reply::new(200, json!({"data": {"repository": {"pullRequest": shown}}}))
            }
            Operation::ReplyToThread => {
                let body = variable("body");
                match self.comment_in_thread(&thread, &Author::of(token), &body) {
                    true => Reply::new(200, json!({"data": {"addPullRequestReviewThreadReply": {}}})),
                    false => refused("NOT_FOUND", "Could not resolve to a node"),
                }
            }
            _ => match self.thread_mut(&thread) {
                Some(thread) => {
                    thread.is_resolved = true;
                    Reply::new(200, json!({"data": {"resolveReviewThread": {}}}))
                }
                None => refused("NOT_FOUND", "Could not resolve to a node"),
            },
        }
    }

    /// `POST /repos/…/issues/{number}/comments`.
    pub(super) fn create_comment(&mut self, token: &Token, call: &Call) -> Reply {
        let (name, number) = (call.repository(), call.path[4].parse().unwrap_or_default());
        let is_there = self.get_mut(&name).is_some_and(|repository| repository.has_pull(number));
        if !is_there {
            return Reply::refusal(404, "Not Found");
        }
        if call.text("body").is_empty() {
            return Reply::invalid("IssueComment", "body", "missing_field");
        }
        self.comment(&name, number, &Author::of(token), call.text("body"));
        Reply::new(201, json!({"body": call.text("body")}))
    }

    fn discussion(&mut self, name: &str, number: u64) -> &mut Discussion {
        let repository = self.get_mut(name).expect("an existing repository");
        repository.discussions.entry(number).or_default()
    }

    fn thread_mut(&mut self, id: &str) -> Option<&mut Thread> {
        let mut discussions = self.all_mut().flat_map(|repository| repository.discussions.values_mut());
        discussions.find_map(|discussion| discussion.threads.iter_mut().find(|thread| thread.id == id))
    }

    fn said(&mut self, prefix: &str, author: &Author, body: &str) -> Said {
        Said { id: self.new_id(prefix), author: author.clone(), body: body.to_owned() }
    }
}

impl Repository {
    fn has_pull(&self, number: u64) -> bool {
        self.pulls.iter().any(|pull| pull.number() == number)
    }
}

fn refused(kind: &str, message: &str) -> Reply {
    Reply::new(200, json!({"data": null, "errors": [{"type": kind, "message": message}]}))
}
