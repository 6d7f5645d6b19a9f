//! One transaction: the new state of entities, the events for their logs, and all derived items.
//!
//! Derived items follow from the states before and after, so no caller can forget one: a task with a place is in the
//! queue, an active task takes a slot, and an entity that sweeps have to check is watched.
//! **Invariant:** all of it is written, or nothing is.

use crate::Store;
use crate::error::Error;
use crate::items::{Item, attributes, number, start, text};
use crate::keys::{self, Watched};
use crate::limits::MAX_TRANSACTION_BYTES;
use crate::log::{Existing, size};
use crate::page::Cursor;
use crate::sandboxes::SandboxItem;
use crate::segments::{LogItems, LogOf, log_items};
use crate::task_queue::Candidate;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{ConditionCheck, Put, TransactWriteItem, Update};
use domain::ingest::NewEvent;
use domain::task::Place;
use domain::{Entity, OrgId, Sandbox, Task, TaskId, Ticket, Timestamp};

#[derive(Debug)]
pub struct Commit<'a> {
    pub now: Timestamp,
    pub tasks: Vec<Change<'a, Task>>,
    pub tickets: Vec<Change<'a, Ticket>>,
    /// Their `seq` already counts the events ([`Sandbox::with_events`]).
    pub sandboxes: Vec<Change<'a, Sandbox>>,
    /// Dependencies to add and remove.
    pub edges: Vec<Edge>,
    /// Tasks that are not written, but whose version must not have changed.
    pub unchanged: Vec<&'a Task>,
    /// The version of the org's dependency graph that was read. Required when an edge between existing tasks is
    /// added.
    pub graph: Option<(OrgId, u64)>,
    /// Checked when a task becomes active.
    pub limits: Limits,
    /// Where the next queue scan starts, stored when a task becomes active. `None` is the start of the queue.
    pub queue_cursor: Option<Cursor>,
}

/// Maximum number of active tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub org: u32,
    /// Of each project.
    pub project: u32,
}

/// A new or changed entity, and the events for its log.
#[derive(Debug)]
pub struct Change<'a, T> {
    /// The state that was read. `None` if the entity is new.
    pub before: Option<&'a T>,
    pub after: T,
    pub events: Vec<NewEvent>,
}

/// A dependency: `dependent` waits for `task`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edge {
    Add {
        task: TaskId,
        dependent: TaskId,
    },
    /// The edge must exist.
    Remove {
        task: TaskId,
        dependent: TaskId,
    },
}

#[derive(Debug)]
pub enum Committed {
    Done(Box<After>),
    /// A version has changed since it was read, or a limit is reached. Nothing was stored: read and decide again.
    Conflict,
}

/// What was written, in the order of the [`Commit`].
#[derive(Debug, Default)]
pub struct After {
    pub tasks: Vec<Task>,
    pub tickets: Vec<Ticket>,
    pub sandboxes: Vec<Sandbox>,
}

impl<'a> Commit<'a> {
    pub fn new(now: Timestamp) -> Self {
        Self {
            now,
            tasks: Vec::new(),
            tickets: Vec::new(),
            sandboxes: Vec::new(),
            edges: Vec::new(),
            unchanged: Vec::new(),
            graph: None,
            limits: Limits { org: u32::MAX, project: u32::MAX },
            queue_cursor: None,
        }
    }
}

impl Store {
    pub async fn commit(&self, commit: Commit<'_>) -> Result<Committed, Error> {
        let Commit { now, tasks, tickets, sandboxes, edges, unchanged, graph, limits, queue_cursor } = commit;
        let (mut writes, mut items, mut after) = (Vec::new(), Vec::new(), After::default());
        for change in tasks {
            let claim = SlotChange::Claim(limits, queue_cursor.as_ref());
            self.derived_task_writes(change.before, &change.after, claim, &mut writes)?;
            let task = self.entity_writes(change, now, &mut writes, &mut items)?;
            after.tasks.push(task);
        }
        for change in tickets {
            let ticket = self.entity_writes(change, now, &mut writes, &mut items)?;
            after.tickets.push(ticket);
        }
        for change in sandboxes {
            let sandbox = self.sandbox_writes(change, now, &mut writes, &mut items)?;
            after.sandboxes.push(sandbox);
        }
        for edge in edges {
            writes.push(self.edge_write(edge)?);
        }
        for task in unchanged {
            writes.push(self.version_check(task)?);
        }
        if let Some((org, version)) = graph {
            writes.push(self.graph_write(&org, version)?);
        }
        if items.iter().map(size).sum::<usize>() > MAX_TRANSACTION_BYTES {
            return Err(Error::malformed("events that exceed the size of a transaction"));
        }
        for item in items {
            writes.push(self.put(item, Existing::Overwrite)?);
        }
        match self.client.transact_write_items().set_transact_items(Some(writes)).send().await {
            Ok(_) => Ok(Committed::Done(Box::new(after))),
            Err(error) if is_conflict(&error) => Ok(Committed::Conflict),
            Err(error) => Err(Error::from_table(error)),
        }
    }

    fn entity_writes<T: Stored>(
        &self,
        change: Change<'_, T>,
        now: Timestamp,
        writes: &mut Vec<TransactWriteItem>,
        items: &mut Vec<Item>,
    ) -> Result<T, Error> {
        let Change { before, mut after, events } = change;
        let entity = after.entity();
        let (first_seq, org) = (*after.log_mut().0 + 1, after.org().clone());
        let log = LogOf { entity: &entity, org: &org, generation: 1 };
        let LogItems { segments, .. } = log_items(log, first_seq, now, &events)?
            .ok_or_else(|| Error::malformed("an event that exceeds the size of its log"))?;
        let (seq, count) = after.log_mut();
        *seq += events.len() as u64;
        *count += segments.len() as u64;
        items.extend(segments);
        let mut item = start(keys::entity(&entity), entity.kind());
        item.extend(attributes(&after)?);
        let put = Put::builder().table_name(&self.table).set_item(Some(item));
        let put = match before {
            None => put
                .condition_expression("attribute_not_exists(#pk)")
                .expression_attribute_names("#pk", keys::PK),
            Some(before) => put
                .condition_expression("#version = :before")
                .expression_attribute_names("#version", "version")
                .expression_attribute_values(":before", number(before.version())),
        };
        let put = put.build().map_err(|e| Error::broken("writing an entity", e))?;
        writes.push(TransactWriteItem::builder().put(put).build());
        if before.is_none() {
            let mut listing = start(keys::listing_of(&entity), "listing");
            listing.extend(keys::index_attributes(&entity, after.org(), after.created_at()));
            items.push(listing);
        }
        let watched = (before.is_some_and(T::is_watched), after.is_watched());
        writes.extend(self.watch_write(Watched::Entity(entity), &org, watched)?);
        Ok(after)
    }

    fn sandbox_writes(
        &self,
        change: Change<'_, Sandbox>,
        now: Timestamp,
        writes: &mut Vec<TransactWriteItem>,
        items: &mut Vec<Item>,
    ) -> Result<Sandbox, Error> {
        let Change { before, mut after, events } = change;
        let entity = Entity::Sandbox(after.id.clone());
        let log = LogOf { entity: &entity, org: &after.org, generation: after.generation };
        let first_seq = after.seq + 1 - events.len() as u64;
        let mut written = log_items(log, first_seq, now, &events)?
            .ok_or_else(|| Error::malformed("an event that exceeds the size of its log"))?;
        written.continue_log_of(&mut after)?;
        let LogItems { segments, bodies } = written;
        items.extend(segments);
        items.extend(bodies.iter().flat_map(|body| body.items(&after.id)));
        let watched = (before.is_some_and(Sandbox::needs_reconcile), after.needs_reconcile());
        match before {
            None => {
                let mut item = start(keys::sandbox(&after.id), "sandbox");
                item.extend(attributes(&SandboxItem::of(&after)?)?);
                writes.push(self.put(item, Existing::Reject)?);
                let mut listing = start(keys::listing(&after.id), "listing");
                listing.extend(keys::index_attributes(&entity, &after.org, after.created_at));
                items.push(listing);
            }
            Some(before) => writes.push(self.sandbox_update(before, &after)?),
        }
        writes.extend(self.watch_write(Watched::Entity(entity), &after.org, watched)?);
        Ok(after)
    }

    /// The items that follow from a task's transition: its places in the queue and its slot.
    fn derived_task_writes(
        &self,
        before: Option<&Task>,
        after: &Task,
        claim: SlotChange<'_>,
        writes: &mut Vec<TransactWriteItem>,
    ) -> Result<(), Error> {
        let was = before.and_then(|task| task.place.as_ref().map(|place| (task, place)));
        let is = after.place.as_ref().map(|place| (after, place));
        // The queue items depend on the place only, so an unchanged place needs no write. A transaction must not
        // delete and put the same item, and a changed place may keep one of its two keys.
        if was.map(|(_, place)| place) != is.map(|(_, place)| place) {
            let keys = |queued: Option<(&Task, &Place)>| {
                queued.map_or_else(Vec::new, |(task, place)| place_keys(task, place))
            };
            let (old_keys, new_keys) = (keys(was), keys(is));
            let ready = Watched::Ready(after.org.clone(), after.id.clone());
            writes.extend(self.watch_write(ready, &after.org, (was.is_some(), is.is_some()))?);
            for key in old_keys.into_iter().filter(|key| !new_keys.contains(key)) {
                writes.push(self.delete(key)?);
            }
            for key in new_keys {
                let mut item = start(key, "ready");
                item.extend(attributes(&Candidate::of(after))?);
                writes.push(self.put(item, Existing::Overwrite)?);
            }
        }
        match (before.is_some_and(|task| task.status.is_active()), after.status.is_active()) {
            (false, true) => writes.push(self.slot_write(after, claim)?),
            (true, false) => writes.push(self.slot_write(after, SlotChange::Release)?),
            _ => {}
        }
        if before.is_none()
            && let Some(ticket) = &after.ticket
        {
            let mut item = start(keys::task_of_ticket(ticket, after.created_at, &after.id), "task_of_ticket");
            item.insert("id".into(), text(after.id.as_str()));
            writes.push(self.put(item, Existing::Overwrite)?);
        }
        Ok(())
    }

    fn slot_write(&self, task: &Task, change: SlotChange<'_>) -> Result<TransactWriteItem, Error> {
        let mut update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(keys::slots(&task.org).attributes().into()))
            .expression_attribute_names("#running", "running")
            .expression_attribute_values(
                ":by",
                number(if matches!(change, SlotChange::Release) { -1 } else { 1 }),
            );
        let mut expression = "ADD #running :by".to_owned();
        if let Some(project) = &task.project {
            expression.push_str(", #project :by");
            update = update.expression_attribute_names("#project", keys::project_slots(project));
        }
        if let SlotChange::Claim(limits, cursor) = change {
            let mut condition = "(attribute_not_exists(#running) OR #running < :org)".to_owned();
            update = update.expression_attribute_values(":org", number(limits.org));
            if task.project.is_some() {
                condition.push_str(" AND (attribute_not_exists(#project) OR #project < :project)");
                update = update.expression_attribute_values(":project", number(limits.project));
            }
            expression.push_str(", #claims :by");
            update = update
                .condition_expression(condition)
                .expression_attribute_names("#claims", keys::CLAIMS)
                .expression_attribute_names("#cursor", keys::QUEUE_CURSOR);
            match cursor {
                Some(cursor) => {
                    expression.push_str(" SET #cursor = :cursor");
                    update = update.expression_attribute_values(":cursor", text(cursor.as_str()));
                }
                None => expression.push_str(" REMOVE #cursor"),
            }
        }
        let update = update.update_expression(expression).build();
        let update = update.map_err(|e| Error::broken("counting slots", e))?;
        Ok(TransactWriteItem::builder().update(update).build())
    }

    fn edge_write(&self, edge: Edge) -> Result<TransactWriteItem, Error> {
        match edge {
            Edge::Add { task, dependent } => {
                let mut item = start(keys::blocks(&task, &dependent), "blocks");
                item.insert("id".into(), text(dependent.as_str()));
                self.put(item, Existing::Overwrite)
            }
            Edge::Remove { task, dependent } => self.delete_existing(keys::blocks(&task, &dependent)),
        }
    }

    fn version_check(&self, task: &Task) -> Result<TransactWriteItem, Error> {
        let check = ConditionCheck::builder()
            .table_name(&self.table)
            .set_key(Some(keys::entity(&Entity::Task(task.id.clone())).attributes().into()))
            .condition_expression("#version = :version")
            .expression_attribute_names("#version", "version")
            .expression_attribute_values(":version", number(task.version));
        let check = check.build().map_err(|e| Error::broken("checking a task", e))?;
        Ok(TransactWriteItem::builder().condition_check(check).build())
    }

    fn graph_write(&self, org: &OrgId, version: u64) -> Result<TransactWriteItem, Error> {
        let mut item = start(keys::graph(org), "graph");
        item.insert("version".into(), number(version + 1));
        let put = Put::builder()
            .table_name(&self.table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(#version) OR #version = :before")
            .expression_attribute_names("#version", "version")
            .expression_attribute_values(":before", number(version));
        let put = put.build().map_err(|e| Error::broken("writing a dependency graph", e))?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    fn watch_write(
        &self,
        watched: Watched,
        org: &OrgId,
        before_after: (bool, bool),
    ) -> Result<Option<TransactWriteItem>, Error> {
        let key = keys::watched(&watched);
        match before_after {
            (false, true) => {
                let mut item = start(key, "watched");
                item.insert("org".into(), text(org.as_str()));
                self.put(item, Existing::Overwrite).map(Some)
            }
            (true, false) => self.delete(key).map(Some),
            _ => Ok(None),
        }
    }
}

/// A change to the slot counters of a task's org and project.
#[derive(Clone, Copy)]
enum SlotChange<'a> {
    /// Also stores where the next queue scan starts.
    Claim(Limits, Option<&'a Cursor>),
    Release,
}

fn place_keys(task: &Task, place: &Place) -> Vec<keys::Key> {
    let ready = keys::ready(&task.org, task.project.as_ref(), place.rank, &task.id);
    let due = place.deadline_at.map(|deadline_at| keys::due(&task.org, deadline_at, &task.id));
    [Some(ready), due].into_iter().flatten().collect()
}

/// Entities that are stored as one item of all their fields: tasks and tickets.
trait Stored: serde::Serialize {
    fn entity(&self) -> Entity;
    fn org(&self) -> &OrgId;
    fn version(&self) -> u64;
    fn created_at(&self) -> Timestamp;
    /// Last sequence number, and number of segments.
    fn log_mut(&mut self) -> (&mut u64, &mut u64);
    fn is_watched(&self) -> bool;
}

impl Stored for Task {
    fn entity(&self) -> Entity {
        Entity::Task(self.id.clone())
    }
    fn org(&self) -> &OrgId {
        &self.org
    }
    fn version(&self) -> u64 {
        self.version
    }
    fn created_at(&self) -> Timestamp {
        self.created_at
    }
    fn log_mut(&mut self) -> (&mut u64, &mut u64) {
        (&mut self.seq, &mut self.segments)
    }
    fn is_watched(&self) -> bool {
        self.needs_reconcile()
    }
}

impl Stored for Ticket {
    fn entity(&self) -> Entity {
        Entity::Ticket(self.id.clone())
    }
    fn org(&self) -> &OrgId {
        &self.org
    }
    fn version(&self) -> u64 {
        self.version
    }
    fn created_at(&self) -> Timestamp {
        self.created_at
    }
    fn log_mut(&mut self) -> (&mut u64, &mut u64) {
        (&mut self.seq, &mut self.segments)
    }
    fn is_watched(&self) -> bool {
        self.needs_reconcile()
    }
}

/// Whether another writer committed first, or a limit is reached.
fn is_conflict(error: &SdkError<TransactWriteItemsError>) -> bool {
    let SdkError::ServiceError(service) = error else { return false };
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = service.err() else {
        return false;
    };
    let codes = cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code());
    let codes: Vec<&str> = codes.filter(|code| *code != "None").collect();
    !codes.is_empty()
        && codes.iter().all(|code| matches!(*code, "ConditionalCheckFailed" | "TransactionConflict"))
}
