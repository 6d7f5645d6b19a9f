//! Which task a pull request belongs to, and which webhooks have arrived.

use crate::error::Error;
use crate::items::{get_text, number, start, text};
use crate::{Store, keys};
use domain::{TaskId, Timestamp};

/// GitHub redelivers a webhook for three days:
/// <https://docs.github.com/en/webhooks/testing-and-troubleshooting-webhooks/redelivering-webhooks>.
const DELIVERY_SECS: i64 = 4 * 24 * 3_600;

impl Store {
    /// Records the task of a pull request. The last one counts: a branch that a request named may be that of several
    /// tasks. `repository` is from `contract::repository::key`.
    pub async fn put_pull_request(&self, repository: &str, pull: u64, task: &TaskId) -> Result<(), Error> {
        let mut item = start(keys::pull_request(repository, pull), "pull_request");
        item.insert("task".into(), text(task.as_str()));
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        put.send().await.map(drop).map_err(Error::from_table)
    }

    pub async fn task_of_pull_request(&self, repository: &str, pull: u64) -> Result<Option<TaskId>, Error> {
        let key = keys::pull_request(repository, pull).attributes().into();
        let get = self.client.get_item().table_name(&self.table).consistent_read(true).set_key(Some(key));
        let Some(item) = get.send().await.map_err(Error::from_table)?.item else { return Ok(None) };
        let task = TaskId::parse(get_text(&item, "task")?);
        task.map(Some).map_err(|invalid| Error::malformed(invalid.to_string()))
    }

    /// Whether [`Store::put_delivery`] was called for this id in the last days.
    pub async fn has_delivery(&self, sender: &str, id: &str) -> Result<bool, Error> {
        let key = keys::delivery(sender, id).attributes().into();
        let get = self.client.get_item().table_name(&self.table).consistent_read(true).set_key(Some(key));
        Ok(get.send().await.map_err(Error::from_table)?.item.is_some())
    }

    /// Records that a webhook has arrived and needs no further work of its receiver.
    pub async fn put_delivery(&self, sender: &str, id: &str, now: Timestamp) -> Result<(), Error> {
        let mut item = start(keys::delivery(sender, id), "delivery");
        item.insert(keys::TTL.into(), number(now.as_secs() + DELIVERY_SECS));
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        put.send().await.map(drop).map_err(Error::from_table)
    }
}
