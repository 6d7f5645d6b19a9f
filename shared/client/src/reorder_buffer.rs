//! Merges pages and live frames. Pure, so that tests can check every interleaving.

use std::collections::BTreeMap;

/// Maximum number of buffered out-of-order events. Beyond that they are fetched again.
const MAX_EARLY: usize = 5_000;

/// A reader's position in a log, and the events it has received ahead of it.
///
/// **Invariant:** events come out in sequence, each exactly once, from the starting position on, whatever the order of
/// the input.
#[derive(Debug, Clone)]
pub struct ReorderBuffer<T> {
    last: u64,
    highest: u64,
    early: BTreeMap<u64, T>,
}

impl<T> ReorderBuffer<T> {
    /// A reader that has all events up to `last`.
    pub fn after(last: u64) -> Self {
        Self { last, highest: last, early: BTreeMap::new() }
    }

    /// Sequence number of the last event that came out.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Adds an event, live or from a page; returns the events that are now in sequence.
    pub fn take(&mut self, seq: u64, event: T) -> Vec<T> {
        if seq <= self.last {
            return Vec::new();
        }
        self.highest = self.highest.max(seq);
        // If the buffer is full, `highest` records that the event exists. The next event in sequence always fits.
        if self.early.len() < MAX_EARLY || seq == self.last + 1 {
            self.early.insert(seq, event);
        }
        let mut ready = Vec::new();
        while let Some(event) = self.early.remove(&(self.last + 1)) {
            self.last += 1;
            ready.push(event);
        }
        ready
    }

    /// Whether events known to exist are missing: fetch `after_seq=last()`.
    pub fn has_gap(&self) -> bool {
        self.last < self.highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn duplicates_are_ignored_and_gaps_are_detected() {
        let mut buffer = ReorderBuffer::after(3);
        assert_eq!(buffer.take(3, "old"), Vec::<&str>::new());
        assert_eq!(buffer.take(5, "five"), Vec::<&str>::new());
        assert!(buffer.has_gap());
        assert_eq!(buffer.take(4, "four"), ["four", "five"]);
        assert!(!buffer.has_gap());
        assert_eq!(buffer.last(), 5);
    }

    #[test]
    fn reader_far_behind_gets_all_events_with_a_bounded_buffer() {
        let mut buffer = ReorderBuffer::after(0);
        let total = MAX_EARLY as u64 + 100;
        for seq in 2..=total {
            assert!(buffer.take(seq, seq).is_empty());
        }
        let mut seen = Vec::new();
        while buffer.has_gap() {
            let from = buffer.last() + 1;
            for seq in from..=(from + 99).min(total) {
                seen.extend(buffer.take(seq, seq));
            }
        }
        assert_eq!(seen, (1..=total).collect::<Vec<_>>());
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// The worker appends events; the plane sends a frame for each to its subscribers.
        Append(u64),
        /// The client connects and subscribes (if it was not connected).
        Subscribe,
        Frame,
        FrameTwice,
        /// Pages are small, so that several are needed.
        Page,
        /// The socket closes; frames in flight are lost.
        Disconnect,
    }

    struct Client {
        buffer: ReorderBuffer<u64>,
        seen: Vec<u64>,
        wire: Option<VecDeque<u64>>,
        behind: bool,
    }

    impl Client {
        fn subscribe(&mut self) {
            if self.wire.is_none() {
                self.wire = Some(VecDeque::new());
                self.behind = true;
            }
        }

        fn frame(&mut self, times: usize) {
            let Some(seq) = self.wire.as_mut().and_then(VecDeque::pop_front) else { return };
            for _ in 0..times {
                self.seen.extend(self.buffer.take(seq, seq));
            }
            self.behind |= self.buffer.has_gap();
        }

        fn page(&mut self, log: u64) {
            let from = self.buffer.last() + 1;
            let to = (from + 3).min(log);
            for seq in from..=to {
                self.seen.extend(self.buffer.take(seq, seq));
            }
            self.behind = to < log || self.buffer.has_gap();
        }
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (1u64..6).prop_map(Step::Append),
            2 => Just(Step::Subscribe),
            4 => Just(Step::Frame),
            1 => Just(Step::FrameTwice),
            3 => Just(Step::Page),
            1 => Just(Step::Disconnect),
        ];
        proptest::collection::vec(step, 0..120)
    }

    proptest! {
        #[test]
        fn any_interleaving_of_subscribe_and_fetch_gives_the_whole_log(steps in steps()) {
            let mut client = Client { buffer: ReorderBuffer::after(0), seen: Vec::new(), wire: None, behind: false };
            let mut log = 0;
            for step in steps {
                match step {
                    Step::Append(count) => for _ in 0..count {
                        log += 1;
                        if let Some(wire) = &mut client.wire { wire.push_back(log); }
                    },
                    Step::Subscribe => client.subscribe(),
                    Step::Frame => client.frame(1),
                    Step::FrameTwice => client.frame(2),
                    Step::Page => client.page(log),
                    Step::Disconnect => client.wire = None,
                }
            }
            // Finally the client stays connected and follows the protocol until it has caught up.
            client.subscribe();
            loop {
                if client.behind {
                    client.page(log);
                } else if client.wire.as_ref().is_some_and(|wire| !wire.is_empty()) {
                    client.frame(1);
                } else {
                    break;
                }
            }
            let seen = client.seen;
            prop_assert_eq!(seen, (1..=log).collect::<Vec<_>>());
        }
    }
}
