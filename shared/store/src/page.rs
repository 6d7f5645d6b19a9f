//! Pages of sorted items: which items to list, one page of them, and where the next page starts.

use crate::keys;
use domain::{OrgId, TaskId, Timestamp};

/// The orgs that a list covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListScope {
    Org(OrgId),
    All,
}

impl ListScope {
    pub fn includes(&self, org: &OrgId) -> bool {
        match self {
            Self::All => true,
            Self::Org(own) => own == org,
        }
    }
}

#[derive(Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page starts. `None` on the last page.
    pub next: Option<Cursor>,
}

/// A position in a sorted list. The next page holds the items behind it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(String);

impl Cursor {
    pub(crate) fn new(position: impl Into<String>) -> Self {
        Self(position.into())
    }

    /// The position of an entity in the lists that are sorted by creation time.
    pub fn by_time(created_at: Timestamp, id: &str) -> Self {
        Self(keys::by_time(created_at, id))
    }

    /// Parses a cursor of a list that is sorted by creation time, as a client sends it back. Any other text would
    /// start the page at an arbitrary position.
    pub fn parse_by_time(text: &str) -> Option<Self> {
        let (created_at, id) = text.split_once('#')?;
        // Ids of sandboxes, tasks and tickets have the same syntax.
        let is_valid = Timestamp::parse(created_at).is_some() && TaskId::parse(id).is_ok();
        is_valid.then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_survives_a_round_trip_through_a_client() {
        let cursor = Cursor::by_time(Timestamp::from_secs(1), "task-1");
        assert_eq!(Cursor::parse_by_time(&String::from(cursor.clone())), Some(cursor));
    }

    #[test]
    fn malformed_cursor_is_rejected() {
        for text in ["", "nonsense", "yesterday#t-1", "1970-01-01T00:00:01.000000Z#", "#t-1"] {
            assert_eq!(Cursor::parse_by_time(text), None, "{text}");
        }
    }
}
