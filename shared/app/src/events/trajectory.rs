//! Returns a page of a sandbox's trajectory: its events, newest first, with a summary of its heartbeats.

use crate::error::Error;
use crate::events::scan::{Order, SeqRange, scan};
use crate::visibility::visible_sandbox;
use contract::events::{HeartbeatSummary, Trajectory};
use domain::SandboxId;
use domain::access::Principal;
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

/// Direction from the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Older,
    Newer,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    /// A sequence number. Without one, the page starts at the newest event for older ones, and at the oldest for
    /// newer ones.
    pub cursor: Option<u64>,
    pub direction: Direction,
    pub limit: usize,
}

pub type Outcome = Trajectory;

/// Cursors are sequence numbers: they are unique, and a number that does not exist is a valid position.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let sandbox = visible_sandbox(deps.store, &command.principal, &command.sandbox).await?;
    let (order, range) = match command.direction {
        Direction::Older => {
            let last = command.cursor.map_or(u64::MAX, |cursor| cursor.saturating_sub(1));
            (Order::Newest, SeqRange { first: 1, last })
        }
        Direction::Newer => {
            let first = command.cursor.unwrap_or(0).saturating_add(1);
            (Order::Oldest, SeqRange { first, last: u64::MAX })
        }
    };
    let mut found = scan(deps.store, &(&sandbox).into(), range, order, command.limit, |_| true).await?;
    if order == Order::Oldest {
        found.events.reverse();
    }
    let oldest = found.events.last().map(|event| event.seq);
    let newest = found.events.first().map(|event| event.seq);
    // An empty page returns its own cursor, so that a reader at the end can poll for newer events.
    Ok(Trajectory {
        next_cursor: oldest.or(command.cursor).filter(|seq| *seq > 1).map(|seq| seq.to_string()),
        prev_cursor: newest.or(command.cursor).map(|seq| seq.to_string()),
        events: found.events,
        heartbeat_summary: HeartbeatSummary::from(&sandbox),
        total_events: sandbox.seq + sandbox.activity.heartbeats.count,
        trajectory_events: sandbox.seq,
        has_more: found.has_more,
        sandbox_id: command.sandbox,
    })
}
