//! The queue of tasks that are ready, and how many are being worked on.

use crate::Store;
use crate::error::Error;
use crate::items::{Item, attributes, get_number, get_text, number, start, text, value};
use crate::keys::{self, Watched};
use crate::sandboxes::Whose;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::score::ScoreInputs;
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
    /// Who is to make its sandbox, if that is not left to the plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
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
            provider: task.execution.provider.clone(),
        }
    }

    /// What its score is made of.
    pub fn score_inputs(&self) -> ScoreInputs {
        ScoreInputs {
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
    /// In the order of their places.
    pub candidates: Vec<Candidate>,
    /// Where those begin that are behind them, if there are any.
    pub next: Option<Cursor>,
}

/// A place in an org's queue: who looks from there on sees what is behind it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(String);

impl Cursor {
    /// Behind a project, or behind those that are of none.
    fn behind(project: Option<&ProjectId>) -> Self {
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
    /// By project, as far as they are counted.
    pub projects: HashMap<ProjectId, u32>,
    /// How many tasks were ever claimed.
    pub claims: u64,
    /// Where the last claim ended its look at the queue, if it did not see all of it.
    pub turn: Option<Cursor>,
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
        let turn = item.get(keys::TURN).and_then(|turn| turn.as_s().ok()).cloned().map(Cursor);
        let claims = item.get(keys::CLAIMS).map_or(Ok(0), |_| get_number(&item, keys::CLAIMS))?;
        Ok(Slots { running: count("running"), projects: projects.collect(), claims, turn })
    }

    /// Counts projects no longer of which no task is being worked on, some of them; if one of them has begun to be by
    /// now, all stay.
    pub async fn forget_idle_projects(&self, org: &OrgId, slots: &Slots) -> Result<(), Error> {
        let idle = slots.projects.iter().filter(|(_, running)| **running == 0).map(|(project, _)| project);
        let names: Vec<(String, String)> =
            idle.take(50).enumerate().map(|(n, id)| (format!("#p{n}"), keys::project_slots(id))).collect();
        let list = |part: &dyn Fn(&str) -> String, between: &str| {
            names.iter().map(|(name, _)| part(name)).collect::<Vec<_>>().join(between)
        };
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(keys::slots(org).attributes().into()))
            .update_expression(format!("REMOVE {}", list(&|name| name.to_owned(), ", ")))
            .condition_expression(list(&|name| format!("{name} = :none"), " AND "))
            .set_expression_attribute_names(Some(names.iter().cloned().collect()))
            .expression_attribute_values(":none", number(0));
        match update.send().await {
            Err(SdkError::ServiceError(refused)) if refused.err().is_conditional_check_failed_exception() => {
                Ok(())
            }
            other => other.map(drop).map_err(Error::from_table),
        }
    }

    /// The first `limit` ready tasks of each project of an org behind `turn`, for as many projects as fit on a page.
    pub async fn candidates(
        &self,
        org: &OrgId,
        turn: Option<&Cursor>,
        limit: usize,
    ) -> Result<Candidates, Error> {
        let from = turn.map_or(keys::READY, Cursor::as_str).to_owned();
        let mut page = self.places(org, from, format!("{}~", keys::READY), limit).await?;
        if page.next.is_none() {
            return Ok(page);
        }
        // The last project of a page may have more that belong to its first: unless it has the page for itself, it is
        // left for the next.
        if let Some(last) = page.candidates.last().map(|last| last.project.clone()) {
            let others = page.candidates.iter().take_while(|one| one.project != last).count();
            if others > 0 {
                page.candidates.truncate(others);
            }
        }
        page.next = page.candidates.last().map(|last| Cursor::behind(last.project.as_ref()));
        Ok(page)
    }

    /// Ready tasks of an org behind `turn` whose deadline is before `until`, the most urgent first.
    pub async fn due_candidates(
        &self,
        org: &OrgId,
        turn: Option<&Cursor>,
        until: Timestamp,
        limit: usize,
    ) -> Result<Candidates, Error> {
        let from = turn.map_or(keys::DUE, Cursor::as_str).to_owned();
        self.places(org, from, keys::due_until(until), limit).await
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
        let last = page.last_evaluated_key.as_ref().map(|last| get_text(last, keys::SK)).transpose()?;
        // Nothing stands between a key and itself with one more character.
        let next = last.map(|last| Cursor(format!("{last} ")));
        let candidates = page.items.unwrap_or_default().into_iter().map(value).collect::<Result<_, _>>()?;
        Ok(Candidates { candidates, next })
    }

    /// What has to be looked at every so often, up to `limit` of it behind `after`. Of an org's ready tasks there may be
    /// only some: they are looked at together.
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
        let next = places.last().filter(|_| more).map(|last| match keys::watched_of(last) {
            Some(Watched::Ready(org, _)) => keys::behind_ready_of(&org),
            _ => (*last).to_owned(),
        });
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

    /// Keeps what is known of a provider's health, if it is still as it was when `breaker` came of it; whether it was.
    pub async fn keep_breaker(
        &self,
        provider: &str,
        breaker: &domain::breaker::Breaker,
    ) -> Result<bool, Error> {
        let after = domain::breaker::Breaker { version: breaker.version + 1, ..breaker.clone() };
        let mut item: Item = start(keys::breaker(provider), "breaker");
        item.extend(attributes(&after)?);
        // What was never written, or by an older deploy, is at zero.
        let condition = match breaker.version {
            0 => "attribute_not_exists(#version) OR #version = :before",
            _ => "#version = :before",
        };
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item))
            .condition_expression(condition)
            .expression_attribute_names("#version", "version")
            .expression_attribute_values(":before", number(breaker.version));
        match put.send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(refused)) if refused.err().is_conditional_check_failed_exception() => {
                Ok(false)
            }
            Err(error) => Err(Error::from_table(error)),
        }
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
