//! One transaction: what some entities are now, what their logs say of it, and what follows from it in the table.
//!
//! What follows is derived from the states before and after, so that nobody can forget it: a task that has a place
//! stands in the queue, one that is worked on takes a slot, whatever has to be looked at every so often is watched.
//! **Invariant:** all of it is written, or nothing is.

use crate::Store;
use crate::error::Error;
use crate::items::{Item, attributes, number, start, text};
use crate::keys::{self, Watched};
use crate::limits::MAX_TRANSACTION_BYTES;
use crate::log::{Fresh, size};
use crate::queue::{Candidate, Cursor};
use crate::sandboxes::SandboxItem;
use crate::segments::{LogOf, written};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{ConditionCheck, Put, TransactWriteItem, Update};
use domain::ingest::NewEvent;
use domain::task::Place;
use domain::{Entity, OrgId, Sandbox, Task, TaskId, Ticket, Timestamp};

/// What is to be written.
#[derive(Debug)]
pub struct Commit<'a> {
    /// When.
    pub now: Timestamp,
    /// Tasks that are new or have changed.
    pub tasks: Vec<Change<'a, Task>>,
    /// Tickets that are new or have changed.
    pub tickets: Vec<Change<'a, Ticket>>,
    /// Sandboxes that are new or have changed. Their heads count the events already ([`Sandbox::telling`]).
    pub sandboxes: Vec<Change<'a, Sandbox>>,
    /// Dependencies that come and go.
    pub edges: Vec<Edge>,
    /// Tasks that must be as they were read, though nothing of them changes.
    pub unchanged: Vec<&'a Task>,
    /// The state of an org's graph of tasks that was read, when an edge between existing tasks is added.
    pub graph: Option<(OrgId, u64)>,
    /// How many tasks may be worked on, when one begins to be.
    pub limits: Limits,
    /// Where the next look at the queue begins, when a task leaves it to be worked on: at its start, if nowhere else.
    pub turn: Option<Cursor>,
}

/// How many tasks may be worked on at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of an org.
    pub org: u32,
    /// Of a project of it.
    pub project: u32,
}

/// One entity, and what its log says.
#[derive(Debug)]
pub struct Change<'a, T> {
    /// As it was read; `None` if it is new.
    pub before: Option<&'a T>,
    /// As it is now.
    pub after: T,
    /// What is told of that.
    pub events: Vec<NewEvent>,
}

/// A dependency: one task waits for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edge {
    /// It waits from now on.
    Add {
        /// For which.
        task: TaskId,
        /// Which waits.
        waits: TaskId,
    },
    /// It does not wait any more. It must have.
    Remove {
        /// For which.
        task: TaskId,
        /// Which waited.
        waits: TaskId,
    },
}

/// What became of it.
#[derive(Debug)]
pub enum Committed {
    /// It is stored, all of it; this is what was written.
    Done(Box<After>),
    /// Something is not as it was read, or a limit is reached. Nothing was stored: read again and decide again.
    Conflict,
}

/// What was written.
#[derive(Debug, Default)]
pub struct After {
    /// In the order in which they were given.
    pub tasks: Vec<Task>,
    /// As above.
    pub tickets: Vec<Ticket>,
    /// As above.
    pub sandboxes: Vec<Sandbox>,
}

impl<'a> Commit<'a> {
    /// Nothing yet.
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
            turn: None,
        }
    }
}

impl Store {
    /// Writes it.
    pub async fn commit(&self, commit: Commit<'_>) -> Result<Committed, Error> {
        let Commit { now, tasks, tickets, sandboxes, edges, unchanged, graph, limits, turn } = commit;
        let (mut writes, mut items, mut after) = (Vec::new(), Vec::new(), After::default());
        for change in tasks {
            self.task_effects(change.before, &change.after, Slot::Take(limits, turn.as_ref()), &mut writes)?;
            let task = self.entity_writes(change, now, &mut writes, &mut items)?;
            after.tasks.push(task);
        }
        for change in tickets {
            let ticket = self.entity_writes(change, now, &mut writes, &mut items)?;
            after.tickets.push(ticket);
        }
        for change in sandboxes {
            let head = self.sandbox_writes(change, now, &mut writes, &mut items)?;
            after.sandboxes.push(head);
        }
        for edge in edges {
            writes.push(self.edge_write(edge)?);
        }
        for task in unchanged {
            writes.push(self.unchanged(task)?);
        }
        if let Some((org, version)) = graph {
            writes.push(self.graph_write(&org, version)?);
        }
        if items.iter().map(size).sum::<usize>() > MAX_TRANSACTION_BYTES {
            return Err(Error::missing("room in a transaction: what is told is too large"));
        }
        for item in items {
            writes.push(self.put(item, Fresh::Unchecked)?);
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
        let segments = written(log, first_seq, now, &events)?
            .ok_or_else(|| Error::missing("room in a log: what is told is too large"))?;
        let (seq, count) = after.log_mut();
        *seq += events.len() as u64;
        *count += segments.segments;
        items.extend(segments.items);
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
        let put = put.build().map_err(|e| Error::broken("putting an entity", e))?;
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
        let segments = written(log, first_seq, now, &events)?
            .ok_or_else(|| Error::missing("room in a log: what is told is too large"))?;
        after.segments += segments.segments;
        items.extend(segments.items);
        let watched = (before.is_some_and(Sandbox::needs_reconcile), after.needs_reconcile());
        match before {
            None => {
                let mut item = start(keys::sandbox(&after.id), "sandbox");
                item.extend(attributes(&SandboxItem::of(&after)?)?);
                writes.push(self.put(item, Fresh::Required)?);
                let mut listing = start(keys::listing(&after.id), "listing");
                listing.extend(keys::index_attributes(&entity, &after.org, after.created_at));
                items.push(listing);
            }
            Some(before) => writes.push(self.head_update(before, &after)?),
        }
        writes.extend(self.watch_write(Watched::Entity(entity), &after.org, watched)?);
        Ok(after)
    }

    /// What follows from a task's move: its place in the queue and the slot that it takes.
    fn task_effects(
        &self,
        before: Option<&Task>,
        after: &Task,
        take: Slot<'_>,
        writes: &mut Vec<TransactWriteItem>,
    ) -> Result<(), Error> {
        let was = before.and_then(|task| task.place.as_ref().map(|place| (task, place)));
        let is = after.place.as_ref().map(|place| (after, place));
        // A place says all that its items are made of, so one that stays costs nothing. One transaction must not delete
        // and put the same item, and a task that moves may keep one of its two.
        if was.map(|(_, place)| place) != is.map(|(_, place)| place) {
            let keys = |of: Option<(&Task, &Place)>| {
                of.map_or_else(Vec::new, |(task, place)| place_keys(task, place))
            };
            let (left, taken) = (keys(was), keys(is));
            let ready = Watched::Ready(after.org.clone(), after.id.clone());
            writes.extend(self.watch_write(ready, &after.org, (was.is_some(), is.is_some()))?);
            for key in left.into_iter().filter(|key| !taken.contains(key)) {
                writes.push(self.delete(key)?);
            }
            for key in taken {
                let mut item = start(key, "ready");
                item.extend(attributes(&Candidate::of(after))?);
                writes.push(self.put(item, Fresh::Unchecked)?);
            }
        }
        match (before.is_some_and(|task| task.status.is_active()), after.status.is_active()) {
            (false, true) => writes.push(self.slot_write(after, take)?),
            (true, false) => writes.push(self.slot_write(after, Slot::Give)?),
            _ => {}
        }
        if before.is_none()
            && let Some(ticket) = &after.ticket
        {
            let mut item = start(keys::task_of_ticket(ticket, after.created_at, &after.id), "task_of_ticket");
            item.insert("id".into(), text(after.id.as_str()));
            writes.push(self.put(item, Fresh::Unchecked)?);
        }
        Ok(())
    }

    fn slot_write(&self, task: &Task, slot: Slot<'_>) -> Result<TransactWriteItem, Error> {
        let mut update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(keys::slots(&task.org).attributes().into()))
            .expression_attribute_names("#running", "running")
            .expression_attribute_values(":by", number(if matches!(slot, Slot::Give) { -1 } else { 1 }));
        let mut expression = "ADD #running :by".to_owned();
        if let Some(project) = &task.project {
            expression.push_str(", #project :by");
            update = update.expression_attribute_names("#project", keys::project_slots(project));
        }
        if let Slot::Take(limits, turn) = slot {
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
                .expression_attribute_names("#turn", keys::TURN);
            match turn {
                Some(turn) => {
                    expression.push_str(" SET #turn = :turn");
                    update = update.expression_attribute_values(":turn", text(turn.as_str()));
                }
                None => expression.push_str(" REMOVE #turn"),
            }
        }
        let update = update.update_expression(expression).build();
        let update = update.map_err(|e| Error::broken("counting slots", e))?;
        Ok(TransactWriteItem::builder().update(update).build())
    }

    fn edge_write(&self, edge: Edge) -> Result<TransactWriteItem, Error> {
        match edge {
            Edge::Add { task, waits } => {
                let mut item = start(keys::blocks(&task, &waits), "blocks");
                item.insert("id".into(), text(waits.as_str()));
                self.put(item, Fresh::Unchecked)
            }
            Edge::Remove { task, waits } => self.delete_known(keys::blocks(&task, &waits)),
        }
    }

    fn unchanged(&self, task: &Task) -> Result<TransactWriteItem, Error> {
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
        let put = put.build().map_err(|e| Error::broken("moving a graph", e))?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    fn watch_write(
        &self,
        what: Watched,
        org: &OrgId,
        was_is: (bool, bool),
    ) -> Result<Option<TransactWriteItem>, Error> {
        let key = keys::watched(&what);
        match was_is {
            (false, true) => {
                let mut item = start(key, "watched");
                item.insert("org".into(), text(org.as_str()));
                self.put(item, Fresh::Unchecked).map(Some)
            }
            (true, false) => self.delete(key).map(Some),
            _ => Ok(None),
        }
    }
}

/// What happens to the slots of a task's org and project.
#[derive(Clone, Copy)]
enum Slot<'a> {
    /// One is taken, and the next look at the queue begins there.
    Take(Limits, Option<&'a Cursor>),
    /// One is free again.
    Give,
}

fn place_keys(task: &Task, place: &Place) -> Vec<keys::Key> {
    let ready = keys::ready(&task.org, task.project.as_ref(), place.rank, &task.id);
    let due = place.deadline_at.map(|deadline_at| keys::due(&task.org, deadline_at, &task.id));
    [Some(ready), due].into_iter().flatten().collect()
}

/// What tasks and tickets have in common as items.
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

/// Whether somebody else was faster, or a limit is reached.
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
