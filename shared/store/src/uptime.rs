//! Since when the plane has been listening.

use crate::Store;
use crate::error::Error;
use crate::items::{Item, attributes, start, value};
use crate::keys;
use domain::uptime::Uptime;

impl Store {
    /// What was noted at the last look at everything, if there was one.
    pub async fn uptime(&self) -> Result<Option<Uptime>, Error> {
        let mut found = self.get_all(vec![keys::uptime().attributes().into()]).await?;
        found.pop().map(value).transpose()
    }

    /// Notes a look at everything. The last word counts: of two at once either is right.
    pub async fn put_uptime(&self, listening: &Uptime) -> Result<(), Error> {
        let mut item: Item = start(keys::uptime(), "listening");
        item.extend(attributes(listening)?);
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        put.send().await.map_err(Error::from_table)?;
        Ok(())
    }
}
