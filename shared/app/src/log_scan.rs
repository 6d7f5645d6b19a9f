//! Walking through a log in either direction, over segments of any size.

use crate::error::Error;
use contract::events::EventOut;
use contract::limits::MAX_PAGE_BYTES;
use domain::{Event, Head};
use store::Store;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From the end to the beginning.
    Newest,
    /// From the beginning to the end.
    Oldest,
}

/// The sequence numbers to walk through, both included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// What a walk found.
#[derive(Debug)]
pub(crate) struct Found {
    /// In the order of the walk.
    pub(crate) events: Vec<EventOut>,
    /// Whether there is more to walk through.
    pub(crate) has_more: bool,
    /// The last sequence number that was looked at: the next walk starts behind it. `None` if there was none.
    pub(crate) reached: Option<u64>,
}

/// With a filter that matches little, a page would otherwise walk through everything.
const MAX_LOOKED_AT: u64 = 20_000;
/// Most segments in one query: with the smallest that is a page of 500 in three calls.
const MAX_SEGMENTS: u64 = 200;

/// Up to `limit` events that `wanted` accepts. Ends early when the page grows large or the walk long;
/// `reached` then says where to go on, so that no page is a dead end.
pub(crate) async fn scan(
    store: &Store,
    head: &Head,
    span: Span,
    order: Order,
    limit: usize,
    wanted: impl Fn(&Event) -> bool,
) -> Result<Found, Error> {
    let mut found = Found { events: Vec::new(), has_more: false, reached: None };
    let mut left = Span { first: span.first.max(1), last: span.last.min(head.seq) };
    let (mut looked_at, mut page_bytes) = (0, 0);
    let per_segment = (head.seq / head.segments.max(1)).max(1);
    while left.first <= left.last {
        let missing = (limit - found.events.len()) as u64;
        let span_len = left.last - left.first + 1;
        let count = (missing.min(span_len) / per_segment + 1).min(MAX_SEGMENTS);
        let events = next_events(store, head, left, order, usize::try_from(count).unwrap_or(1)).await?;
        if events.is_empty() {
            // The head says that there are events here. A log with a hole is our mistake, and must not look
            // like its end.
            let what = format!("sandbox {} has no segment for {}..={}", head.id, left.first, left.last);
            return Err(Error::Internal(what.into()));
        }
        for event in events {
            let Some(seq) = event.seq else { continue };
            found.reached = Some(seq);
            match order {
                Order::Newest => left.last = seq - 1,
                Order::Oldest => left.first = seq + 1,
            }
            looked_at += 1;
            if wanted(&event) {
                page_bytes += event.data.text().len();
                found.events.extend(EventOut::new(&head.id, event));
            }
            if found.events.len() >= limit || page_bytes >= MAX_PAGE_BYTES || looked_at >= MAX_LOOKED_AT {
                found.has_more = left.first <= left.last;
                return Ok(found);
            }
        }
    }
    Ok(found)
}

async fn next_events(
    store: &Store,
    head: &Head,
    left: Span,
    order: Order,
    count: usize,
) -> Result<Vec<Event>, Error> {
    let inside = |event: &Event| event.seq.is_some_and(|seq| seq >= left.first && seq <= left.last);
    match order {
        Order::Newest => {
            let segments = store.segments_to(&head.id, left.last, count).await?;
            Ok(segments.into_iter().flat_map(|s| s.events.into_iter().rev()).filter(inside).collect())
        }
        Order::Oldest => {
            // A reader that resumes usually stands at the start of a segment. If not, the segment that holds
            // its place is the last one that starts before.
            let mut segments = store.segments_from(&head.id, left.first, count).await?;
            let starts_at = segments.first().and_then(|s| s.events.first()).and_then(|event| event.seq);
            if starts_at != Some(left.first) {
                segments.splice(0..0, store.segments_to(&head.id, left.first, 1).await?);
            }
            Ok(segments.into_iter().flat_map(|s| s.events).filter(inside).collect())
        }
    }
}
