//! Tickets: what people want done, and how it becomes tasks.
//!
//! Most of this is asked as Lambda asks, of functions that run one at a time: nobody works on what is queued, so that
//! what a request did can be seen.

mod creating;
mod deciding;
mod duplicates;
mod listing;
mod moving;
mod watching;
mod working;

use crate::payloads::request;
use crate::stage::{Stage, body_of, invoke};
use crate::support::user;
use domain::TicketId;
use domain::ticket::ApprovalSettings;
use edge::Plane;
use serde_json::{Value, json};
use std::sync::Arc;
use store::commit::{Change, Commit, Committed};

/// A plane whose work nobody does.
pub struct Desk {
    pub stage: Stage,
    pub plane: Arc<Plane>,
    /// A member of acme.
    pub member: String,
}

impl Desk {
    pub async fn open() -> Self {
        let stage = Stage::open().await;
        let plane = stage.process();
        Self { stage, plane, member: user("acme", "member") }
    }

    /// One where somebody has to approve of tickets within a minute.
    pub async fn with_approval() -> Self {
        let stage = Stage::open().await;
        let plane = stage.process_with(|settings| {
            settings.orchestration.approval = ApprovalSettings::new(true, 60).unwrap();
        });
        Self { stage, plane, member: user("acme", "member") }
    }

    /// What a function answers to a request.
    pub async fn ask(
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

    pub async fn create_as(&self, token: &str, body: &Value) -> (u64, Value) {
        self.ask("tickets-create", token, "POST", "", Some(body)).await
    }

    pub async fn create(&self, body: Value) -> (u64, Value) {
        self.create_as(&self.member, &body).await
    }

    /// Creates a ticket that nobody minds, a moment after the last.
    pub async fn created(&self, id: &str, mut more: Value) -> Value {
        self.stage.clock.advance_secs(1);
        more["ticket_id"] = json!(id);
        more["check_duplicates"] = json!(false);
        if more["title"].is_null() {
            more["title"] = json!(format!("Ticket {id}"));
        }
        let (status, ticket) = self.create(more).await;
        assert_eq!(status, 201, "{ticket}");
        ticket
    }

    /// Puts copies of a ticket beside it, each a moment newer than the last. Far faster than to ask for each.
    pub async fn copies(&self, id: &str, count: usize) {
        let store = &self.stage.aws.store;
        let mut ticket = store.ticket(&TicketId::parse(id).unwrap()).await.unwrap().unwrap();
        for first in (0..count).step_by(MOST_AT_ONCE) {
            let mut commit = Commit::new(ticket.created_at);
            for n in first..count.min(first + MOST_AT_ONCE) {
                ticket.id = TicketId::parse(format!("{id}-{n}")).unwrap();
                ticket.created_at = ticket.created_at.plus_secs(1);
                commit.tickets.push(Change { before: None, after: ticket.clone(), events: Vec::new() });
            }
            self.stage.clock.advance_secs(commit.tickets.len() as i64);
            assert!(matches!(store.commit(commit).await.unwrap(), Committed::Done(_)));
        }
    }

    pub async fn get(&self, id: &str) -> Value {
        let (status, ticket) = self.ask("tickets-get", &self.member, "GET", &format!("/{id}"), None).await;
        assert_eq!(status, 200, "{ticket}");
        ticket
    }

    /// Every ticket of acme.
    pub async fn list(&self, query: &str) -> Value {
        let (status, page) = self.ask("tickets-list", &self.member, "GET", &format!("?{query}"), None).await;
        assert_eq!(status, 200, "{page}");
        page
    }

    /// The types of a ticket's events, oldest first.
    pub async fn events(&self, id: &str) -> Vec<String> {
        let path = format!("/{id}/events?order=oldest");
        let (status, page) = self.ask("tickets-events", &self.member, "GET", &path, None).await;
        assert_eq!(status, 200, "{page}");
        let events = page["events"].as_array().unwrap();
        events.iter().map(|event| event["event_type"].as_str().unwrap().to_owned()).collect()
    }

    /// What was asked of other functions since the last look.
    pub async fn jobs(&mut self) -> Vec<Value> {
        self.stage.jobs().await
    }
}

/// A transaction holds a hundred items, and a ticket is two.
const MOST_AT_ONCE: usize = 50;

/// The ids on a page.
pub fn ids(page: &Value) -> Vec<&str> {
    let tickets = page["tickets"].as_array().unwrap();
    tickets.iter().map(|ticket| ticket["id"].as_str().unwrap()).collect()
}
