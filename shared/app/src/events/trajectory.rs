//! A sandbox's story, newest first, with its heartbeats in summary.

use crate::error::Error;
use crate::events::scan::{Order, Span, scan};
use crate::visibility::visible_sandbox;
use contract::events::{HeartbeatSummary, Trajectory};
use domain::SandboxId;
use domain::access::Principal;
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the head and the log.
    pub store: &'a Store,
}

/// Which way from the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Towards the beginning.
    Older,
    /// Towards the end.
    Newer,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which sandbox.
    pub sandbox: SandboxId,
    /// A sequence number; absent, the page starts at the end that the direction comes from.
    pub cursor: Option<u64>,
    /// Which way.
    pub direction: Direction,
    /// How many at most.
    pub limit: usize,
}

/// The page.
pub type Outcome = Trajectory;

/// Reads a page. Cursors are sequence numbers: they cannot tie, and one of a place that does not exist is
/// simply a place between two others.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let head = visible_sandbox(deps.store, &command.principal, &command.sandbox).await?;
    let (order, span) = match command.direction {
        Direction::Older => {
            let last = command.cursor.map_or(u64::MAX, |cursor| cursor.saturating_sub(1));
            (Order::Newest, Span { first: 1, last })
        }
        Direction::Newer => {
            let first = command.cursor.unwrap_or(0).saturating_add(1);
            (Order::Oldest, Span { first, last: u64::MAX })
        }
    };
    let mut found = scan(deps.store, &(&head).into(), span, order, command.limit, |_| true).await?;
    if order == Order::Oldest {
        found.events.reverse();
    }
    let oldest = found.events.last().map(|event| event.seq);
    let newest = found.events.first().map(|event| event.seq);
    // An empty page stands where its cursor stands, so that a reader at the end can go on asking.
    Ok(Trajectory {
        next_cursor: oldest.or(command.cursor).filter(|seq| *seq > 1).map(|seq| seq.to_string()),
        prev_cursor: newest.or(command.cursor).map(|seq| seq.to_string()),
        events: found.events,
        heartbeat_summary: HeartbeatSummary::from(&head),
        total_events: head.seq + head.activity.heartbeats.count,
        trajectory_events: head.seq,
        has_more: found.has_more,
        sandbox_id: command.sandbox,
    })
}
