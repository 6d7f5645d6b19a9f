//! The ticket API, and how tickets become tasks.
//!
//! Most requests invoke functions as Lambda does, one at a time. Queued jobs do not run, so each test can observe the
//! effect of a single request.

mod approval;
mod broadcast;
mod creating;
mod duplicates;
mod listing;
mod progress;
mod transitions;

use crate::harness::{Harness, body_of, invoke};
use crate::payloads::request;
use crate::support::user;
use domain::TicketId;
use domain::ticket::ApprovalSettings;
use edge::Plane;
use serde_json::{Value, json};
use std::sync::Arc;
use store::commit::{Change, Commit, Committed};

/// A plane that runs no jobs, and a client of its ticket API.
pub struct TicketApi {
    pub harness: Harness,
    pub plane: Arc<Plane>,
    /// Token of a member of the org acme.
    pub member: String,
}

impl TicketApi {
    pub async fn open() -> Self {
        let harness = Harness::open().await;
        let plane = harness.process();
        Self { harness, plane, member: user("acme", "member") }
    }

    /// Tickets require approval within a minute.
    pub async fn with_approval() -> Self {
        let harness = Harness::open().await;
        let plane = harness.process_with(|settings| {
            settings.orchestration.approval = ApprovalSettings::new(true, 60).unwrap();
        });
        Self { harness, plane, member: user("acme", "member") }
    }

    /// Invokes a function; returns the status and the body.
    pub async fn call(
        &self,
        function: &str,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> (u64, Value) {
        let path = format!("/api/v1/tickets{path}");
        let answer = invoke(&self.plane, function, &request(method, &path, token, body)).await.unwrap();
        (answer["statusCode"].as_u64().unwrap(), body_of(&answer))
    }

    pub async fn post_as(&self, token: &str, body: &Value) -> (u64, Value) {
        self.call("tickets-create", token, "POST", "", Some(body)).await
    }

    pub async fn post(&self, body: Value) -> (u64, Value) {
        self.post_as(&self.member, &body).await
    }

    /// Creates a ticket without a duplicate check, one second after the previous one.
    pub async fn create(&self, id: &str, mut fields: Value) -> Value {
        self.harness.clock.advance_secs(1);
        fields["ticket_id"] = json!(id);
        fields["check_duplicates"] = json!(false);
        if fields["title"].is_null() {
            fields["title"] = json!(format!("Ticket {id}"));
        }
        let (status, ticket) = self.post(fields).await;
        assert_eq!(status, 201, "{ticket}");
        ticket
    }

    /// Stores copies of a ticket, each one second newer. Much faster than a request for each.
    pub async fn add_copies(&self, id: &str, count: usize) {
        let store = &self.harness.aws.store;
        let mut ticket = store.ticket(&TicketId::parse(id).unwrap()).await.unwrap().unwrap();
        for first in (0..count).step_by(MAX_PER_COMMIT) {
            let mut commit = Commit::new(ticket.created_at);
            for n in first..count.min(first + MAX_PER_COMMIT) {
                ticket.id = TicketId::parse(format!("{id}-{n}")).unwrap();
                ticket.created_at = ticket.created_at.plus_secs(1);
                commit.tickets.push(Change { before: None, after: ticket.clone(), events: Vec::new() });
            }
            self.harness.clock.advance_secs(commit.tickets.len() as i64);
            assert!(matches!(store.commit(commit).await.unwrap(), Committed::Done(_)));
        }
    }

    pub async fn get(&self, id: &str) -> Value {
        let (status, ticket) = self.call("tickets-get", &self.member, "GET", &format!("/{id}"), None).await;
        assert_eq!(status, 200, "{ticket}");
        ticket
    }

    /// Lists the tickets of acme.
    pub async fn list(&self, query: &str) -> Value {
        let (status, page) = self.call("tickets-list", &self.member, "GET", &format!("?{query}"), None).await;
        assert_eq!(status, 200, "{page}");
        page
    }

    /// The types of a ticket's events, oldest first.
    pub async fn event_types(&self, id: &str) -> Vec<String> {
        let path = format!("/{id}/events?order=oldest");
        let (status, page) = self.call("tickets-events", &self.member, "GET", &path, None).await;
        assert_eq!(status, 200, "{page}");
        let events = page["events"].as_array().unwrap();
        events.iter().map(|event| event["event_type"].as_str().unwrap().to_owned()).collect()
    }

    /// The jobs sent since the last call.
    pub async fn take_jobs(&mut self) -> Vec<Value> {
        self.harness.take_jobs().await
    }
}

/// A transaction holds a hundred items; a ticket takes two.
const MAX_PER_COMMIT: usize = 50;

pub fn ids(page: &Value) -> Vec<&str> {
    let tickets = page["tickets"].as_array().unwrap();
    tickets.iter().map(|ticket| ticket["id"].as_str().unwrap()).collect()
}
