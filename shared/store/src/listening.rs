//! Since when the plane has been listening.

use crate::Store;
use crate::error::Error;
use crate::items::{Item, attributes, start, value};
use crate::keys;
use domain::listening::Listening;

impl Store {
    /// What was noted at the last look at everything, if there was one.
    pub async fn listening(&self) -> Result<Option<Listening>, Error> {
        let mut found = self.get_all(vec![keys::listening().attributes().into()]).await?;
        found.pop().map(value).transpose()
    }

    /// Notes a look at everything. The last word counts: of two at once either is right.
    pub async fn keep_listening(&self, listening: &Listening) -> Result<(), Error> {
        let mut item: Item = start(keys::listening(), "listening");
        item.extend(attributes(listening)?);
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        put.send().await.map_err(Error::from_table)?;
        Ok(())
    }
}
