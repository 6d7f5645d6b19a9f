//! Cursors of lists, as clients send them.

use crate::error::Error;
use domain::Invalid;
use store::page::Cursor;

/// Parses the `cursor` parameter of a list that is sorted by creation time.
pub(crate) fn parse_cursor(text: Option<&str>) -> Result<Option<Cursor>, Error> {
    let invalid = || Invalid::new("cursor", "must be the next_cursor of an earlier response");
    Ok(text.map(|text| Cursor::parse_by_time(text).ok_or_else(invalid)).transpose()?)
}
