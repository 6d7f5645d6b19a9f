//! Losing a race, and running it again.

use crate::Clock;
use crate::error::Error;
use std::time::Duration;

/// How often a race is run before the caller is asked to come back.
const MAX_LOSSES: u32 = 40;

/// A race for something that others write too.
pub(crate) struct Race<'a> {
    clock: &'a dyn Clock,
    losses: u32,
}

impl<'a> Race<'a> {
    pub(crate) fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, losses: 0 }
    }

    /// Which of so many to go for: the first; after a loss any of some, so that racers part.
    pub(crate) fn choice(&self, count: usize) -> usize {
        let among = (4 * self.losses as usize + 1).min(count).max(1);
        usize::try_from(self.clock.now().as_micros().unsigned_abs()).unwrap_or(0) % among
    }

    /// Somebody else was faster. Jitter keeps racers from meeting again.
    pub(crate) async fn lost(&mut self) -> Result<(), Error> {
        self.losses += 1;
        if self.losses >= MAX_LOSSES {
            return Err(Error::Unavailable("too many writers raced for the same item".into()));
        }
        let spread_ms = 5 * u64::from(self.losses.min(10));
        let jitter_ms = self.clock.now().as_micros().unsigned_abs() % spread_ms.max(1);
        tokio::time::sleep(Duration::from_millis(jitter_ms)).await;
        Ok(())
    }
}
