//! The uptime of the plane.

use crate::Store;
use crate::error::Error;
use crate::items::{Item, attributes, start, value};
use crate::keys;
use domain::uptime::Uptime;

impl Store {
    /// The uptime that the last sweep recorded.
    pub async fn uptime(&self) -> Result<Option<Uptime>, Error> {
        let mut found = self.get_all(vec![keys::uptime().attributes().into()]).await?;
        found.pop().map(value).transpose()
    }

    /// Last writer wins: of two concurrent sweeps either value is right.
    pub async fn put_uptime(&self, uptime: &Uptime) -> Result<(), Error> {
        let mut item: Item = start(keys::uptime(), "uptime");
        item.extend(attributes(uptime)?);
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        put.send().await.map_err(Error::from_table)?;
        Ok(())
    }
}
