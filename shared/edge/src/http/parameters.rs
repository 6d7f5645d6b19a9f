//! Query parameters that several routes share.

use app::Error;
use app::events::history::Order;
use contract::limits::MAX_PAGE;
use contract::query::{Parameter, Query};
use domain::Invalid;

pub(super) const ORG: Parameter =
    Parameter::id("org", "Only for operators: the org to list. Default: all orgs, or the user's own.");
pub(super) const CURSOR: Parameter =
    Parameter::text("cursor", "`next_cursor` of the previous page, for the next one.");
/// Number of entities on a page of a list.
pub(super) const LIMIT: Parameter = Parameter::integer("limit", 1, 100, "Maximum number on the page.").or(50);

/// A position in a log and a direction: which page of its events.
pub(super) struct LogPage {
    pub after_seq: u64,
    pub before_seq: Option<u64>,
    pub order: Order,
    pub limit: usize,
}

impl LogPage {
    pub const PARAMETERS: &[Parameter] = &[Self::AFTER_SEQ, Self::BEFORE_SEQ, Self::ORDER, Self::LIMIT];

    pub const AFTER_SEQ: Parameter =
        Parameter::integer("after_seq", 0, u64::MAX, "Only events after this sequence number.");
    pub const BEFORE_SEQ: Parameter =
        Parameter::integer("before_seq", 1, u64::MAX, "Only events before this sequence number.");
    pub const ORDER: Parameter = Parameter::one_of(
        "order",
        || vec!["newest", "oldest"],
        "Which events come first. Default: `oldest` with only `after_seq`, else `newest`.",
    );
    pub const LIMIT: Parameter =
        Parameter::integer("limit", 1, MAX_PAGE as u64, "Maximum number of events on the page.").or(100);

    /// Decodes [`Self::PARAMETERS`].
    pub fn decode(query: &Query) -> Result<Self, Error> {
        let after_seq = query.number(&Self::AFTER_SEQ)?;
        let before_seq = query.number(&Self::BEFORE_SEQ)?;
        let order = match query.one_of(&Self::ORDER)? {
            Some("oldest") => Order::Oldest,
            Some(_) => Order::Newest,
            // A request with only `after_seq` continues forward from there.
            None if after_seq.is_some() && before_seq.is_none() => Order::Oldest,
            None => Order::Newest,
        };
        let limit = query.size(&Self::LIMIT)?;
        Ok(Self { after_seq: after_seq.unwrap_or(0), before_seq, order, limit })
    }
}

pub(super) const OFFSET: Parameter = Parameter::integer(
    "offset",
    0,
    u64::MAX,
    "Must be 0: OmoiOS used offsets, which shift while data arrives.",
);

/// OmoiOS clients send `offset=0`.
pub(super) fn check_offset(query: &Query, instead: &str) -> Result<(), Error> {
    match query.number(&OFFSET)? {
        None | Some(0) => Ok(()),
        Some(_) => Err(Invalid::new("offset", format!("is not supported; page with {instead}")).into()),
    }
}
