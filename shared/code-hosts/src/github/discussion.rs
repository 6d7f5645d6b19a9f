//! Reviews, threads and comments of a pull request, over the GraphQL API: only there threads have a state, and one
//! request reads everything.

use super::GitHub;
use super::branches::unexpected;
use super::http::{Call, RequestError};
use crate::{Author, Comment, Failure, Reason, Reply, Review, Standing, Thread};
use reqwest::Method;
use serde_json::{Value, json};

/// Begins each comment of ours, so that it is recognized although a person's token has written it. GitHub does not
/// show it.
const MARK: &str = "<!-- sunaba:";

/// The newest of each kind. GitHub counts the product of nested lists.
const QUERY: &str = "query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    reviews(last: 50, states: [CHANGES_REQUESTED, COMMENTED]) { nodes { state ...said } }
    reviewThreads(last: 50) { nodes { id isResolved path line comments(last: 20) { nodes { ...said } } } }
    comments(last: 50) { nodes { ...said } }
  } }
}
fragment said on Comment {
  id body authorAssociation viewerDidAuthor author { login __typename }
}";

const REPLY: &str = "mutation($thread: ID!, $body: String!) {
  addPullRequestReviewThreadReply(input: {pullRequestReviewThreadId: $thread, body: $body}) { comment { id } }
}";

const RESOLVE: &str = "mutation($thread: ID!) {
  resolveReviewThread(input: {threadId: $thread}) { thread { isResolved } }
}";

#[derive(Debug, Default)]
pub(super) struct Discussion {
    pub reviews: Vec<Review>,
    pub threads: Vec<Thread>,
    pub comments: Vec<Comment>,
}

impl GitHub {
    /// `None` if there is no such pull request.
    pub(super) async fn discussion(&self, number: u64) -> Result<Option<Discussion>, Failure> {
        let variables =
            json!({"owner": self.address.owner, "name": self.address.repository, "number": number});
        let doing = format!("reading the reviews of the pull request {number}");
        let found = match self.graphql(QUERY, variables, &doing).await {
            Ok(found) => found,
            Err(failure) if failure.reason == Reason::NotFound => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let pull_request = &found["repository"]["pullRequest"];
        if pull_request.is_null() {
            return Ok(None);
        }
        let read = || {
            let reviews = nodes(&pull_request["reviews"])?.iter();
            let threads = nodes(&pull_request["reviewThreads"])?.iter();
            let comments = nodes(&pull_request["comments"])?.iter();
            Some(Discussion {
                reviews: reviews.map(|review| self.review(review)).collect::<Option<_>>()?,
                threads: threads.map(|thread| self.thread(thread)).collect::<Option<_>>()?,
                comments: comments.map(|comment| self.comment(comment)).collect::<Option<_>>()?,
            })
        };
        read().map(Some).ok_or_else(|| unexpected("the reviews of a pull request"))
    }

    /// Posts what is not there yet.
    pub(super) async fn post(&self, number: u64, replies: &[Reply]) -> Result<(), Failure> {
        if replies.is_empty() {
            return Ok(());
        }
        let discussion = self.discussion(number).await?;
        let message = || Failure::new(Reason::NotFound, format!("there is no pull request {number}"));
        let discussion = discussion.ok_or_else(message)?;
        for reply in replies {
            let mark = format!("{MARK}{} -->\n", reply.key);
            let has = |comments: &[Comment]| {
                let is_it =
                    |found: &Comment| found.author.standing == Standing::Own && found.text.starts_with(&mark);
                comments.iter().any(is_it)
            };
            let body = format!("{mark}{}", reply.text);
            let Some(id) = &reply.thread else {
                if !has(&discussion.comments) {
                    self.comment_on(number, &body).await?;
                }
                continue;
            };
            let Some(thread) = discussion.threads.iter().find(|thread| thread.id == *id) else { continue };
            if !has(&thread.comments) {
                self.graphql(REPLY, json!({"thread": id, "body": body}), "replying to a thread").await?;
            }
            if reply.resolves && !thread.is_resolved {
                self.graphql(RESOLVE, json!({"thread": id}), "resolving a thread").await?;
            }
        }
        Ok(())
    }

    async fn comment_on(&self, number: u64, body: &str) -> Result<(), Failure> {
        // Comments of pull requests are those of issues.
        let path = self.path(&format!("/issues/{number}/comments"));
        let (body, doing) = (json!({"body": body}), format!("commenting on the pull request {number}"));
        self.http.send(&Call::new(Method::POST, &path, &doing).body(&body)).await?;
        Ok(())
    }

    fn review(&self, found: &Value) -> Option<Review> {
        let requests_changes = found["state"].as_str()? == "CHANGES_REQUESTED";
        Some(Review { requests_changes, comment: self.comment(found)? })
    }

    fn thread(&self, found: &Value) -> Option<Thread> {
        let comments = nodes(&found["comments"])?.iter().map(|comment| self.comment(comment));
        Some(Thread {
            id: found["id"].as_str()?.to_owned(),
            path: found["path"].as_str()?.to_owned(),
            line: found["line"].as_u64(),
            is_resolved: found["isResolved"].as_bool()?,
            comments: comments.collect::<Option<_>>()?,
        })
    }

    fn comment(&self, found: &Value) -> Option<Comment> {
        let text = found["body"].as_str()?.to_owned();
        // The account of an author may be deleted.
        let name = found["author"]["login"].as_str().unwrap_or("ghost").to_owned();
        let is_bot = found["author"]["__typename"] == json!("Bot");
        // GraphQL leaves out the end of an App's login, and a person may have the rest of it.
        let login = format!("{}{}", name.to_lowercase(), if is_bot { "[bot]" } else { "" });
        // A token is that of a person, who also writes comments.
        let is_own = found["viewerDidAuthor"] == json!(true)
            && (self.http.app_id().is_some() || text.starts_with(MARK));
        let standing = match found["authorAssociation"].as_str()? {
            _ if is_own => Standing::Own,
            _ if self.bots.contains(&login) => Standing::ListedBot,
            _ if is_bot => Standing::Other,
            "OWNER" => Standing::Owner,
            "MEMBER" => Standing::Member,
            "COLLABORATOR" => Standing::Collaborator,
            _ => Standing::Other,
        };
        Some(Comment { id: found["id"].as_str()?.to_owned(), author: Author { name, standing }, text })
    }

    /// Sends a request to the GraphQL API, and returns its data.
    async fn graphql(&self, query: &str, variables: Value, doing: &str) -> Result<Value, Failure> {
        let body = json!({"query": query, "variables": variables});
        let call = Call::new(Method::POST, "", doing).body(&body).graphql();
        let mut answer = self.http.send(&call).await?.body;
        match answer["errors"].as_array().and_then(|errors| errors.first()) {
            Some(error) => Err(RequestError::of_graphql(error, doing, &self.http.full_name()).into()),
            None => Ok(answer["data"].take()),
        }
    }
}

fn nodes(list: &Value) -> Option<&Vec<Value>> {
    list["nodes"].as_array()
}
