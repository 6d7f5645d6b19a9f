//! Scanning a log in either direction, over segments of any size.

use crate::error::Error;
use contract::events::{EventOut, EventPage};
use contract::limits::MAX_PAGE_BYTES;
use domain::Event;
use store::Store;
use store::segments::{LogEnd, Segment};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Newest first.
    Newest,
    /// Oldest first.
    Oldest,
}

/// A range of sequence numbers, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeqRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PageRequest {
    pub(crate) after_seq: u64,
    pub(crate) before_seq: Option<u64>,
    pub(crate) order: Order,
    pub(crate) limit: usize,
}

/// A page of the events that `matches` accepts, of which the log has `total_count`. `next_after_seq` and
/// `next_before_seq` are set whenever there may be more events, even on an empty page.
pub(crate) async fn page(
    store: &Store,
    log: &LogEnd,
    request: PageRequest,
    total_count: Option<u64>,
    matches: impl Fn(&Event) -> bool,
) -> Result<EventPage, Error> {
    let range = SeqRange {
        first: request.after_seq.saturating_add(1),
        last: request.before_seq.map_or(u64::MAX, |before| before.saturating_sub(1)),
    };
    let found = scan(store, log, range, request.order, request.limit, matches).await?;
    let (next_after_seq, next_before_seq) = match request.order {
        Order::Oldest => (Some(found.reached.unwrap_or(request.after_seq)), None),
        Order::Newest => (None, found.has_more.then_some(found.reached).flatten()),
    };
    Ok(EventPage {
        entity: (&log.entity).into(),
        events: found.events,
        total_count,
        last_seq: log.seq,
        has_more: found.has_more,
        next_after_seq,
        next_before_seq,
    })
}

#[derive(Debug)]
pub(crate) struct ScanResult {
    /// In the order of the scan.
    pub(crate) events: Vec<EventOut>,
    /// Whether the scan stopped before the end of the range.
    pub(crate) has_more: bool,
    /// The last sequence number that was scanned, where the next scan continues. `None` if the range was empty.
    pub(crate) reached: Option<u64>,
}

/// Maximum number of events to scan for one page, for filters that match few events.
const MAX_SCANNED: u64 = 20_000;
/// Maximum number of bytes to scan for one page. A segment that is small in the table may unpack to a megabyte.
const MAX_SCANNED_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of segments in one query. With the smallest segments, a page of 500 events takes three queries.
const MAX_SEGMENTS: u64 = 200;

/// Up to `limit` events that `matches` accepts. Stops early when the page grows large or the scan long; `reached`
/// then states where to continue.
pub(crate) async fn scan(
    store: &Store,
    log: &LogEnd,
    range: SeqRange,
    order: Order,
    limit: usize,
    matches: impl Fn(&Event) -> bool,
) -> Result<ScanResult, Error> {
    let mut found = ScanResult { events: Vec::new(), has_more: false, reached: None };
    let mut left = SeqRange { first: range.first.max(1), last: range.last.min(log.seq) };
    let (mut scanned, mut scanned_bytes, mut page_bytes) = (0, 0, 0);
    let per_segment = (log.seq / log.segments.max(1)).max(1);
    while left.first <= left.last {
        let missing = (limit - found.events.len()) as u64;
        let remaining = left.last - left.first + 1;
        let count = (missing.min(remaining) / per_segment + 1).min(MAX_SEGMENTS);
        let segments = next_segments(store, log, left, order, usize::try_from(count).unwrap_or(1)).await?;
        let before = left;
        for segment in segments {
            // Unpacking is CPU-bound: yield between segments.
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
                scanned += 1;
                scanned_bytes += event.data.text().len();
                if matches(&event) {
                    page_bytes += event.data.text().len();
                    found.events.extend(EventOut::new(&log.entity, event));
                }
                let enough = found.events.len() >= limit || page_bytes >= MAX_PAGE_BYTES;
                if enough || scanned >= MAX_SCANNED || scanned_bytes >= MAX_SCANNED_BYTES {
                    found.has_more = left.first <= left.last;
                    return Ok(found);
                }
            }
        }
        if left == before {
            // A gap in the log is a bug, and must not look like its end.
            let what = format!("{} has no segment for {}..={}", log.entity, left.first, left.last);
            return Err(Error::Internal(what.into()));
        }
    }
    Ok(found)
}

async fn next_segments(
    store: &Store,
    log: &LogEnd,
    left: SeqRange,
    order: Order,
    count: usize,
) -> Result<Vec<Segment>, Error> {
    match order {
        Order::Newest => Ok(store.segments_to(&log.entity, left.last, count).await?),
        Order::Oldest => {
            // A reader that resumes usually starts at a segment boundary. Otherwise the event is in the last segment
            // that starts before it.
            let mut segments = store.segments_from(&log.entity, left.first, count).await?;
            let starts_at = segments.first().map(Segment::first_seq).transpose()?;
            if starts_at != Some(left.first) {
                segments.splice(0..0, store.segments_to(&log.entity, left.first, 1).await?);
            }
            Ok(segments)
        }
    }
}
