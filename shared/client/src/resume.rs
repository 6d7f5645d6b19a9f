//! Putting pages and live frames together: pure, so that every order of both can be tried.

use std::collections::BTreeMap;

/// How many frames that came too early are kept. More are fetched again instead.
const MAX_EARLY: usize = 5_000;

/// How far a reader has come in a log, and what it knows of what lies ahead.
///
/// **Invariant:** what comes out is 1, 2, 3, … of the log, each once, from where the reader started, whatever
/// goes in and in whatever order.
#[derive(Debug, Clone)]
pub struct Resume<T> {
    last: u64,
    highest: u64,
    early: BTreeMap<u64, T>,
}

impl<T> Resume<T> {
    /// A reader that has everything up to `last`.
    pub fn after(last: u64) -> Self {
        Self { last, highest: last, early: BTreeMap::new() }
    }

    /// The last event that came out.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Takes in an event, live or from a page; gives out those that are next in line.
    pub fn take(&mut self, seq: u64, event: T) -> Vec<T> {
        if seq <= self.last {
            return Vec::new();
        }
        self.highest = self.highest.max(seq);
        // Far ahead of what can be kept, it is enough to know that it exists. The next in line always has room.
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

    /// Whether something is missing before what is known to exist: fetch `after_seq=last()`.
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
    fn repeats_are_ignored_and_gaps_are_known() {
        let mut resume = Resume::after(3);
        assert_eq!(resume.take(3, "old"), Vec::<&str>::new());
        assert_eq!(resume.take(5, "five"), Vec::<&str>::new());
        assert!(resume.has_gap());
        assert_eq!(resume.take(4, "four"), ["four", "five"]);
        assert!(!resume.has_gap());
        assert_eq!(resume.last(), 5);
    }

    #[test]
    fn a_reader_far_behind_keeps_little_and_still_gets_all() {
        let mut resume = Resume::after(0);
        let total = MAX_EARLY as u64 + 100;
        for seq in 2..=total {
            assert!(resume.take(seq, seq).is_empty());
        }
        let mut seen = Vec::new();
        while resume.has_gap() {
            let from = resume.last() + 1;
            for seq in from..=(from + 99).min(total) {
                seen.extend(resume.take(seq, seq));
            }
        }
        assert_eq!(seen, (1..=total).collect::<Vec<_>>());
    }

    /// What can happen to a client and its plane.
    #[derive(Debug, Clone)]
    enum Step {
        /// The worker appends some events; the plane sends a frame for each to whoever is subscribed.
        Append(u64),
        /// The client connects and subscribes (if it was not connected).
        Subscribe,
        /// One frame arrives.
        Frame,
        /// One frame arrives twice.
        FrameTwice,
        /// A page is fetched; pages are small, so that several are needed.
        Page,
        /// The socket breaks: frames on the way are lost.
        Cut,
    }

    struct Client {
        resume: Resume<u64>,
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
                self.seen.extend(self.resume.take(seq, seq));
            }
            self.behind |= self.resume.has_gap();
        }

        fn page(&mut self, log: u64) {
            let from = self.resume.last() + 1;
            let to = (from + 3).min(log);
            for seq in from..=to {
                self.seen.extend(self.resume.take(seq, seq));
            }
            self.behind = to < log || self.resume.has_gap();
        }
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (1u64..6).prop_map(Step::Append),
            2 => Just(Step::Subscribe),
            4 => Just(Step::Frame),
            1 => Just(Step::FrameTwice),
            3 => Just(Step::Page),
            1 => Just(Step::Cut),
        ];
        proptest::collection::vec(step, 0..120)
    }

    proptest! {
        /// Any interleaving of subscribing and fetching gives the client the whole log.
        #[test]
        fn any_interleaving_of_subscribe_and_fetch_gives_the_whole_log(steps in steps()) {
            let mut client = Client { resume: Resume::after(0), seen: Vec::new(), wire: None, behind: false };
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
                    Step::Cut => client.wire = None,
                }
            }
            // In the end the client is connected and does what the recipe says, until nothing is left to do.
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
