//! The queue of tasks that are ready, and how many are being worked on.

use crate::Store;
use crate::error::Error;
use crate::heads::Whose;
use crate::items::{Item, attributes, get_number, get_text, start, text, value};
use crate::keys::{self, Watched};
use aws_sdk_dynamodb::types::AttributeValue;
use domain::score::Standing;
use domain::task::Priority;
use domain::{Entity, OrgId, ProjectId, SandboxId, Task, TaskId, Timestamp, entity};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A ready task, as it stands in the queue: what its score is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Which.
    pub id: TaskId,
    /// Of which project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    priority: Priority,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_at: Option<Timestamp>,
    #[serde(default)]
    dependents: u32,
    #[serde(default)]
    retry_count: u32,
    max_retries: u32,
}

impl Candidate {
    pub(crate) fn of(task: &Task) -> Self {
        Self {
            id: task.id.clone(),
            project: task.project.clone(),
            priority: task.priority,
            created_at: task.created_at,
            deadline_at: task.deadline_at,
            dependents: task.dependents,
            retry_count: task.retry_count,
            max_retries: task.max_retries,
        }
    }

    /// What its score is made of.
    pub fn standing(&self) -> Standing {
        Standing {
            priority: self.priority,
            created_at: self.created_at,
            deadline_at: self.deadline_at,
            dependents: self.dependents,
            retry_count: self.retry_count,
            max_retries: self.max_retries,
        }
    }
}

/// Some of those that are ready.
#[derive(Debug)]
pub struct Candidates {
    /// Best rank first, for each project.
    pub candidates: Vec<Candidate>,
    /// Whether there are more behind them.
    pub more: bool,
}

/// A place between two projects in an org's queue: who looks from there on sees the next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(String);

impl Turn {
    /// Behind a project, or behind those that are of none.
    pub fn behind(project: Option<&ProjectId>) -> Self {
        // `~` sorts behind everything that a rank or an id may hold.
        Self(format!("{}~", keys::ready_prefix(project)))
    }

    /// As it is stored.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// How many tasks of an org are being worked on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slots {
    /// In all.
    pub running: u32,
    /// By project.
    pub projects: HashMap<ProjectId, u32>,
    /// Where the last claim ended its look at the queue, if it did not see all of it.
    pub turn: Option<Turn>,
}

impl Store {
    /// How many tasks of an org are being worked on, as of now.
    pub async fn slots(&self, org: &OrgId) -> Result<Slots, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::slots(org).attributes().into())).send().await;
        let Some(item) = found.map_err(Error::from_table)?.item else { return Ok(Slots::default()) };
        let count = |name: &str| match item.get(name) {
            // A counter that was taken below zero would be our mistake; it must not look like a full house.
            Some(AttributeValue::N(number)) => {
                number.parse::<i64>().map_or(0, |n| u32::try_from(n.max(0)).unwrap_or(u32::MAX))
            }
            _ => 0,
        };
        let projects = item.keys().filter_map(|name| {
            let project = ProjectId::parse(name.strip_prefix(keys::PROJECT_SLOTS)?).ok()?;
            Some((project, count(name)))
        });
        let turn = item.get(keys::TURN).and_then(|turn| turn.as_s().ok()).cloned().map(Turn);
        Ok(Slots { running: count("running"), projects: projects.collect(), turn })
    }

    /// Ready tasks of an org: the best of the first project behind `turn`, and perhaps some of the next.
    pub async fn candidates(
        &self,
        org: &OrgId,
        turn: Option<&Turn>,
        limit: usize,
    ) -> Result<Candidates, Error> {
        let from = turn.map_or(keys::READY, Turn::as_str).to_owned();
        self.places(org, from, format!("{}~", keys::READY), limit).await
    }

    /// Ready tasks of an org whose deadline is before `until`, the most urgent first.
    pub async fn due_candidates(
        &self,
        org: &OrgId,
        until: Timestamp,
        limit: usize,
    ) -> Result<Candidates, Error> {
        self.places(org, keys::DUE.to_owned(), keys::due_until(until), limit).await
    }

    async fn places(&self, org: &OrgId, from: String, to: String, limit: usize) -> Result<Candidates, Error> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("#pk = :pk AND #sk BETWEEN :from AND :to")
            .expression_attribute_names("#pk", keys::PK)
            .expression_attribute_names("#sk", keys::SK)
            .expression_attribute_values(":pk", text(keys::queue_partition(org)))
            .expression_attribute_values(":from", text(from))
            .expression_attribute_values(":to", text(to))
            .consistent_read(true)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let page = query.send().await.map_err(Error::from_table)?;
        let more = page.last_evaluated_key.is_some();
        let candidates = page.items.unwrap_or_default().into_iter().map(value).collect::<Result<_, _>>()?;
        Ok(Candidates { candidates, more })
    }

    /// Has the queue of an org looked at every so often. A repeat changes nothing.
    pub async fn watch_queue(&self, org: &OrgId) -> Result<(), Error> {
        let item = start(keys::watched(&Watched::Queue(org.clone())), "watched");
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        put.send().await.map_err(Error::from_table)?;
        Ok(())
    }

    /// What has to be looked at every so often, up to `limit` of it behind `after`.
    pub async fn watched(&self, after: Option<String>, limit: usize) -> Result<WatchedPage, Error> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("#pk = :pk AND #sk > :after")
            .expression_attribute_names("#pk", keys::PK)
            .expression_attribute_names("#sk", keys::SK)
            .expression_attribute_values(":pk", text(keys::WATCHED))
            .expression_attribute_values(":after", text(after.unwrap_or_else(|| " ".to_owned())))
            .consistent_read(true)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let page = query.send().await.map_err(Error::from_table)?;
        let more = page.last_evaluated_key.is_some();
        let items = page.items.unwrap_or_default();
        let places: Vec<&str> =
            items.iter().map(|item| get_text(item, keys::SK)).collect::<Result<_, _>>()?;
        let next = places.last().filter(|_| more).map(|last| (*last).to_owned());
        Ok(WatchedPage { watched: places.into_iter().filter_map(keys::watched_of).collect(), next })
    }

    /// Sandboxes of an org, or of all, that somebody has to look after: up to `limit` behind `after`, by id, and whether
    /// there are more. What belongs to others is passed over, so that no place to go on from tells of it.
    pub async fn watched_sandboxes(
        &self,
        whose: &Whose,
        after: Option<&SandboxId>,
        limit: usize,
    ) -> Result<(Vec<SandboxId>, bool), Error> {
        let key = |id: &str| format!("{}#{id}", entity::SANDBOX);
        let mut from = key(after.map_or(" ", SandboxId::as_str));
        let mut found = Vec::new();
        for _ in 0..MAX_WATCHED_PAGES {
            let query = self
                .client
                .query()
                .table_name(&self.table)
                .key_condition_expression("#pk = :pk AND #sk BETWEEN :from AND :to")
                .expression_attribute_names("#pk", keys::PK)
                .expression_attribute_names("#sk", keys::SK)
                .expression_attribute_values(":pk", text(keys::WATCHED))
                .expression_attribute_values(":from", text(from.clone()))
                .expression_attribute_values(":to", text(key("~")))
                .consistent_read(true);
            let page = query.send().await.map_err(Error::from_table)?;
            for item in page.items.unwrap_or_default() {
                let ours = match whose {
                    Whose::All => true,
                    Whose::Org(org) => get_text(&item, "org").is_ok_and(|owner| owner == org.as_str()),
                };
                let watched = keys::watched_of(get_text(&item, keys::SK)?);
                let Some(Watched::Entity(Entity::Sandbox(id))) = watched.filter(|_| ours) else { continue };
                if after == Some(&id) || found.last() == Some(&id) {
                    continue;
                }
                if found.len() == limit {
                    return Ok((found, true));
                }
                found.push(id);
            }
            match page.last_evaluated_key {
                Some(last) => get_text(&last, keys::SK)?.clone_into(&mut from),
                None => return Ok((found, false)),
            }
        }
        let source = "too many sandboxes of others stand before those that are asked for".into();
        Err(Error::Unavailable { what: "the table", code: "too much to read".into(), source })
    }

    /// The state of an org's graph of tasks: moves with every dependency that is added between existing tasks.
    pub async fn graph(&self, org: &OrgId) -> Result<u64, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::graph(org).attributes().into())).send().await;
        found.map_err(Error::from_table)?.item.map_or(Ok(0), |item| get_number(&item, "version"))
    }

    /// What is known of a provider's health.
    pub async fn breaker(&self, provider: &str) -> Result<domain::breaker::Breaker, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::breaker(provider).attributes().into())).send().await;
        found.map_err(Error::from_table)?.item.map_or_else(|| Ok(Default::default()), value)
    }

    /// Keeps what is known of a provider's health. The last word counts: it is a hint, and several may have one.
    pub async fn keep_breaker(
        &self,
        provider: &str,
        breaker: &domain::breaker::Breaker,
    ) -> Result<(), Error> {
        let mut item: Item = start(keys::breaker(provider), "breaker");
        item.extend(attributes(breaker)?);
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        put.send().await.map_err(Error::from_table)?;
        Ok(())
    }
}

/// A page holds some ten thousand of what is watched.
const MAX_WATCHED_PAGES: usize = 20;

/// Some of what has to be looked at.
#[derive(Debug)]
pub struct WatchedPage {
    /// What.
    pub watched: Vec<Watched>,
    /// Where the next page starts, if there is one.
    pub next: Option<String>,
}
