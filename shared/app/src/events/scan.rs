//! Walking through a log in either direction, over segments of any size.

use crate::error::Error;
use contract::events::{EventOut, EventPage};
use contract::limits::MAX_PAGE_BYTES;
use domain::Event;
use store::Store;
use store::segments::{LogEnd, Segment};

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From the end to the beginning.
    Newest,
    /// From the beginning to the end.
    Oldest,
}

/// The sequence numbers to walk through, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Which page of a log is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageOf {
    /// Only what comes after this.
    pub(crate) after_seq: u64,
    /// Only what comes before this.
    pub(crate) before_seq: Option<u64>,
    /// Which end first.
    pub(crate) order: Order,
    /// How many at most.
    pub(crate) limit: usize,
}

/// A page of the events that `wanted` accepts, of which the log has `total_count`. `next_after_seq` and
/// `next_before_seq` are set whenever there may be more, on an empty page too.
pub(crate) async fn page(
    store: &Store,
    head: &LogEnd,
    asked: PageOf,
    total_count: Option<u64>,
    wanted: impl Fn(&Event) -> bool,
) -> Result<EventPage, Error> {
    let span = Span {
        first: asked.after_seq.saturating_add(1),
        last: asked.before_seq.map_or(u64::MAX, |before| before.saturating_sub(1)),
    };
    let found = scan(store, head, span, asked.order, asked.limit, wanted).await?;
    let (next_after_seq, next_before_seq) = match asked.order {
        Order::Oldest => (Some(found.reached.unwrap_or(asked.after_seq)), None),
        Order::Newest => (None, found.has_more.then_some(found.reached).flatten()),
    };
    Ok(EventPage {
        entity: (&head.entity).into(),
        events: found.events,
        total_count,
        last_seq: head.seq,
        has_more: found.has_more,
        next_after_seq,
        next_before_seq,
    })
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
/// The same in bytes: a segment that is small in the table may hold a megabyte.
const MAX_LOOKED_AT_BYTES: usize = 16 * 1024 * 1024;
/// Most segments in one query: with the smallest that is a page of 500 in three calls.
const MAX_SEGMENTS: u64 = 200;

/// Up to `limit` events that `wanted` accepts. Ends early when the page grows large or the walk long;
/// `reached` then says where to go on, so that no page is a dead end.
pub(crate) async fn scan(
    store: &Store,
    head: &LogEnd,
    span: Span,
    order: Order,
    limit: usize,
    wanted: impl Fn(&Event) -> bool,
) -> Result<Found, Error> {
    let mut found = Found { events: Vec::new(), has_more: false, reached: None };
    let mut left = Span { first: span.first.max(1), last: span.last.min(head.seq) };
    let (mut checked_at, mut looked_at_bytes, mut page_bytes) = (0, 0, 0);
    let per_segment = (head.seq / head.segments.max(1)).max(1);
    while left.first <= left.last {
        let missing = (limit - found.events.len()) as u64;
        let span_len = left.last - left.first + 1;
        let count = (missing.min(span_len) / per_segment + 1).min(MAX_SEGMENTS);
        let segments = next_segments(store, head, left, order, usize::try_from(count).unwrap_or(1)).await?;
        let before = left;
        for segment in segments {
            // Unpacking takes time: others get their turn between two.
            tokio::task::consume_budget().await;
            let mut events = segment.events()?;
            if order == Order::Newest {
                events.reverse();
            }
            for event in events {
                let Some(seq) = event.seq.filter(|seq| (left.first..=left.last).contains(seq)) else {
                    continue;
                };
                found.reached = Some(seq);
                match order {
                    Order::Newest => left.last = seq - 1,
                    Order::Oldest => left.first = seq + 1,
                }
                checked_at += 1;
                looked_at_bytes += event.data.text().len();
                if wanted(&event) {
                    page_bytes += event.data.text().len();
                    found.events.extend(EventOut::new(&head.entity, event));
                }
                let enough = found.events.len() >= limit || page_bytes >= MAX_PAGE_BYTES;
                if enough || checked_at >= MAX_LOOKED_AT || looked_at_bytes >= MAX_LOOKED_AT_BYTES {
                    found.has_more = left.first <= left.last;
                    return Ok(found);
                }
            }
        }
        if left == before {
            // The head says that there are events here. A log with a hole is our mistake, and must not look
            // like its end.
            let what = format!("{} has no segment for {}..={}", head.entity, left.first, left.last);
            return Err(Error::Internal(what.into()));
        }
    }
    Ok(found)
}

async fn next_segments(
    store: &Store,
    head: &LogEnd,
    left: Span,
    order: Order,
    count: usize,
) -> Result<Vec<Segment>, Error> {
    match order {
        Order::Newest => Ok(store.segments_to(&head.entity, left.last, count).await?),
        Order::Oldest => {
            // A reader that resumes usually stands at the start of a segment. If not, the segment that holds
            // its place is the last one that starts before.
            let mut segments = store.segments_from(&head.entity, left.first, count).await?;
            let starts_at = segments.first().map(Segment::first_seq).transpose()?;
            if starts_at != Some(left.first) {
                segments.splice(0..0, store.segments_to(&head.entity, left.first, 1).await?);
            }
            Ok(segments)
        }
    }
}
