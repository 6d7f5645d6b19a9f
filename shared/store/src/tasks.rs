//! Reading tasks and tickets. They are written by [`crate::commit`] only.

use crate::Store;
use crate::error::Error;
use crate::items::{get_text, text, value};
use crate::keys;
use crate::page::{Cursor, ListScope, Page};
use domain::{Entity, Task, TaskId, Ticket, TicketId, entity};
use serde::de::DeserializeOwned;

impl Store {
    /// A consistent read.
    pub async fn task(&self, id: &TaskId) -> Result<Option<Task>, Error> {
        self.entity(&Entity::Task(id.clone())).await
    }

    /// A consistent read.
    pub async fn ticket(&self, id: &TicketId) -> Result<Option<Ticket>, Error> {
        self.entity(&Entity::Ticket(id.clone())).await
    }

    /// Up to 100 tasks by id, in the order of `wanted`. Ids that do not exist are left out.
    pub async fn tasks(&self, wanted: &[TaskId]) -> Result<Vec<Task>, Error> {
        let keys = wanted.iter().map(|id| keys::entity(&Entity::Task(id.clone())).attributes().into());
        let found: Result<Vec<Task>, Error> =
            self.get_all(keys.collect()).await?.into_iter().map(value).collect();
        let mut found = found?;
        found.sort_by_key(|task| wanted.iter().position(|id| *id == task.id));
        Ok(found)
    }

    /// Up to 100 tickets by id, in the order of `wanted`. Ids that do not exist are left out.
    pub async fn tickets(&self, wanted: &[TicketId]) -> Result<Vec<Ticket>, Error> {
        let keys = wanted.iter().map(|id| keys::entity(&Entity::Ticket(id.clone())).attributes().into());
        let found: Result<Vec<Ticket>, Error> =
            self.get_all(keys.collect()).await?.into_iter().map(value).collect();
        let mut found = found?;
        found.sort_by_key(|ticket| wanted.iter().position(|id| *id == ticket.id));
        Ok(found)
    }

    /// Tasks, newest first.
    pub async fn tasks_of(
        &self,
        scope: &ListScope,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Task>, Error> {
        let Page { items, next } = self.index_page(entity::TASK, scope, after, limit).await?;
        let ids: Vec<TaskId> = items.iter().filter_map(|id| TaskId::parse(id).ok()).collect();
        Ok(Page { items: self.tasks(&ids).await?, next })
    }

    /// Tickets, newest first.
    pub async fn tickets_of(
        &self,
        scope: &ListScope,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Ticket>, Error> {
        let Page { items, next } = self.index_page(entity::TICKET, scope, after, limit).await?;
        let ids: Vec<TicketId> = items.iter().filter_map(|id| TicketId::parse(id).ok()).collect();
        Ok(Page { items: self.tickets(&ids).await?, next })
    }

    /// Ids of the tasks of a ticket, newest first. Its cursors are interchangeable with those of [`Self::tasks_of`].
    pub async fn tasks_of_ticket(
        &self,
        ticket: &TicketId,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<TaskId>, Error> {
        let partition = keys::partition(&Entity::Ticket(ticket.clone()));
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("#pk = :pk AND begins_with(#sk, :tasks)")
            .expression_attribute_names("#pk", keys::PK)
            .expression_attribute_names("#sk", keys::SK)
            .expression_attribute_values(":pk", text(partition.clone()))
            .expression_attribute_values(":tasks", text(keys::TASK_OF_TICKET))
            .set_exclusive_start_key(after.map(|after| {
                let sk = format!("{}{}", keys::TASK_OF_TICKET, after.as_str());
                keys::Key { pk: partition, sk }.attributes().into()
            }))
            .consistent_read(true)
            .scan_index_forward(false)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let page = query.send().await.map_err(Error::from_table)?;
        let next = page.last_evaluated_key.as_ref().map(|key| get_text(key, keys::SK)).transpose()?;
        let next = next.map(|sk| Cursor::new(sk.strip_prefix(keys::TASK_OF_TICKET).unwrap_or(sk)));
        let items = page.items.unwrap_or_default();
        Ok(Page { items: items.iter().map(task_id).collect::<Result<_, _>>()?, next })
    }

    /// Up to `limit` tasks that wait for this one.
    pub async fn dependents(&self, task: &TaskId, limit: usize) -> Result<Vec<TaskId>, Error> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("#pk = :pk AND begins_with(#sk, :blocks)")
            .expression_attribute_names("#pk", keys::PK)
            .expression_attribute_names("#sk", keys::SK)
            .expression_attribute_values(":pk", text(keys::partition(&Entity::Task(task.clone()))))
            .expression_attribute_values(":blocks", text(keys::BLOCKS))
            .consistent_read(true)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let page = query.send().await.map_err(Error::from_table)?;
        page.items.unwrap_or_default().iter().map(task_id).collect()
    }

    /// Whether `dependent` waits for `task`. A consistent read.
    pub async fn has_dependent(&self, task: &TaskId, dependent: &TaskId) -> Result<bool, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::blocks(task, dependent).attributes().into())).send().await;
        Ok(found.map_err(Error::from_table)?.item.is_some())
    }

    async fn entity<T: DeserializeOwned>(&self, entity: &Entity) -> Result<Option<T>, Error> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.set_key(Some(keys::entity(entity).attributes().into())).send().await;
        found.map_err(Error::from_table)?.item.map(value).transpose()
    }
}

fn task_id(item: &crate::items::Item) -> Result<TaskId, Error> {
    TaskId::parse(get_text(item, "id")?).map_err(|e| Error::broken("reading the id of a task", e))
}
