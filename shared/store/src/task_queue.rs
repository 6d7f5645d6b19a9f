//! The queue of ready tasks, the number of active tasks, and the list that sweeps go through.

use crate::Store;
use crate::error::Error;
use crate::items::{Item, attributes, get_number, get_text, number, start, text, value};
use crate::keys::{self, Watched};
use crate::page::{Cursor, ListScope, Page};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::score::ScoreInputs;
use domain::task::Priority;
use domain::{Entity, OrgId, ProjectId, SandboxId, Task, TaskId, Timestamp, entity};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A ready task in the queue, with the inputs of its score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    pub id: TaskId,
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
    /// The provider that the task names. `None` selects the default provider.
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

/// The position behind all ready tasks of a project, or of those without a project.
fn after_project(project: Option<&ProjectId>) -> Cursor {
    // `~` sorts behind every character of a rank or an id.
    Cursor::new(format!("{}~", keys::ready_prefix(project)))
}

/// The number of active tasks of an org.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slots {
    pub running: u32,
    /// By project. Idle projects may be missing.
    pub projects: HashMap<ProjectId, u32>,
    /// Total number of claims so far.
    pub claims: u64,
    /// Where the scan of the last claim stopped, unless it reached the end of the queue.
    pub cursor: Option<Cursor>,
}

impl Store {
    /// A consistent read.
    pub async fn slots(&self, org: &OrgId) -> Result<Slots, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::slots(org).attributes().into())).send().await;
        let Some(item) = found.map_err(Error::from_table)?.item else { return Ok(Slots::default()) };
        let count = |name: &str| match item.get(name) {
            // A negative counter would be a bug. It must not look as if all slots were taken.
            Some(AttributeValue::N(number)) => {
                number.parse::<i64>().map_or(0, |n| u32::try_from(n.max(0)).unwrap_or(u32::MAX))
            }
            _ => 0,
        };
        let projects = item.keys().filter_map(|name| {
            let project = ProjectId::parse(name.strip_prefix(keys::PROJECT_SLOTS)?).ok()?;
            Some((project, count(name)))
        });
        let cursor = item.get(keys::QUEUE_CURSOR).and_then(|cursor| cursor.as_s().ok()).map(Cursor::new);
        let claims = item.get(keys::CLAIMS).map_or(Ok(0), |_| get_number(&item, keys::CLAIMS))?;
        Ok(Slots { running: count("running"), projects: projects.collect(), claims, cursor })
    }

    /// Removes the counters of up to 50 projects without active tasks. If one of them has become active in the
    /// meantime, all counters stay.
    pub async fn remove_idle_projects(&self, org: &OrgId, slots: &Slots) -> Result<(), Error> {
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

    /// The first `limit` ready tasks of each project of an org behind `after`, for as many projects as fit on a page.
    pub async fn candidates(
        &self,
        org: &OrgId,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Candidate>, Error> {
        let from = after.map_or(keys::READY, Cursor::as_str).to_owned();
        let mut page = self.queue_page(org, from, format!("{}~", keys::READY), limit).await?;
        if page.next.is_none() {
            return Ok(page);
        }
        // The page may have cut off the last project's first tasks. Leave that project to the next page, unless it is
        // the only one on this page.
        if let Some(last) = page.items.last().map(|last| last.project.clone()) {
            let others = page.items.iter().take_while(|candidate| candidate.project != last).count();
            if others > 0 {
                page.items.truncate(others);
            }
        }
        page.next = page.items.last().map(|last| after_project(last.project.as_ref()));
        Ok(page)
    }

    /// Ready tasks of an org behind `after` whose deadline is before `until`, earliest deadline first.
    pub async fn due_candidates(
        &self,
        org: &OrgId,
        after: Option<&Cursor>,
        until: Timestamp,
        limit: usize,
    ) -> Result<Page<Candidate>, Error> {
        let from = after.map_or(keys::DUE, Cursor::as_str).to_owned();
        self.queue_page(org, from, keys::due_until(until), limit).await
    }

    async fn queue_page(
        &self,
        org: &OrgId,
        from: String,
        to: String,
        limit: usize,
    ) -> Result<Page<Candidate>, Error> {
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
        // No key sorts between a key and that key with a space appended.
        let next = last.map(|last| Cursor::new(format!("{last} ")));
        let items = page.items.unwrap_or_default().into_iter().map(value).collect::<Result<_, _>>()?;
        Ok(Page { items, next })
    }

    /// Up to `limit` entries of the list that sweeps go through. Only one ready task of each org is guaranteed to be
    /// among them, because one job dispatches all of them.
    pub async fn watched(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<Watched>, Error> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("#pk = :pk AND #sk > :after")
            .expression_attribute_names("#pk", keys::PK)
            .expression_attribute_names("#sk", keys::SK)
            .expression_attribute_values(":pk", text(keys::WATCHED))
            .expression_attribute_values(":after", text(after.map_or(" ", Cursor::as_str)))
            .consistent_read(true)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let page = query.send().await.map_err(Error::from_table)?;
        let more = page.last_evaluated_key.is_some();
        let items = page.items.unwrap_or_default();
        let sort_keys: Vec<&str> =
            items.iter().map(|item| get_text(item, keys::SK)).collect::<Result<_, _>>()?;
        let next = sort_keys.last().filter(|_| more).map(|last| match keys::watched_of(last) {
            Some(Watched::Ready(org, _)) => Cursor::new(keys::after_ready_of(&org)),
            _ => Cursor::new(*last),
        });
        Ok(Page { items: sort_keys.into_iter().filter_map(keys::watched_of).collect(), next })
    }

    /// Up to `limit` sandboxes in `scope` that need reconciliation, sorted by id, and whether there are more. The
    /// cursor is the last id of the page and never an id of another org, which would leak it.
    pub async fn watched_sandboxes(
        &self,
        scope: &ListScope,
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
                let in_scope = match scope {
                    ListScope::All => true,
                    ListScope::Org(org) => get_text(&item, "org").is_ok_and(|owner| owner == org.as_str()),
                };
                let watched = keys::watched_of(get_text(&item, keys::SK)?);
                let Some(Watched::Entity(Entity::Sandbox(id))) = watched.filter(|_| in_scope) else {
                    continue;
                };
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
        let source = "too many sandboxes of other orgs precede the requested ones".into();
        Err(Error::Unavailable { what: "the table", code: "scan limit reached".into(), source })
    }

    /// The version of an org's dependency graph.
    pub async fn graph(&self, org: &OrgId) -> Result<u64, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::graph(org).attributes().into())).send().await;
        found.map_err(Error::from_table)?.item.map_or(Ok(0), |item| get_number(&item, "version"))
    }

    pub async fn breaker(&self, provider: &str) -> Result<domain::breaker::Breaker, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::breaker(provider).attributes().into())).send().await;
        found.map_err(Error::from_table)?.item.map_or_else(|| Ok(Default::default()), value)
    }

    /// Writes the breaker if its stored version is still that of `breaker`. Returns `false` on a conflict.
    pub async fn put_breaker(
        &self,
        provider: &str,
        breaker: &domain::breaker::Breaker,
    ) -> Result<bool, Error> {
        let after = domain::breaker::Breaker { version: breaker.version + 1, ..breaker.clone() };
        let mut item: Item = start(keys::breaker(provider), "breaker");
        item.extend(attributes(&after)?);
        // An item that does not exist, or that an older deploy wrote, has version 0.
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

/// Maximum number of pages to read for one request. A page holds about ten thousand entries.
const MAX_WATCHED_PAGES: usize = 20;
