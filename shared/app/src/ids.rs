//! The only place that generates identifiers and secrets.

use domain::{ConnectionId, EventId, MessageId, SandboxId, Task, TaskId, TicketId};
use std::fmt::Debug;
use std::sync::Mutex;
use uuid::{Builder, Uuid};

/// Generates identifiers. They are unique, and they sort in the order in which one source generated them.
pub trait IdSource: Debug + Send + Sync {
    /// A UUID of version 7. Its last 32 bits are random.
    fn uuid(&self) -> Uuid;

    /// For an event that was sent without an id.
    fn event(&self) -> EventId {
        EventId::parse(self.uuid().to_string()).expect("a UUID is a valid id")
    }

    /// For a sandbox that was registered without an id.
    fn sandbox(&self) -> SandboxId {
        SandboxId::parse(format!("sandbox-{}", self.uuid().simple())).expect("a prefixed UUID is a valid id")
    }

    /// For the sandbox of a task's next attempt. It names the task and is never used twice.
    fn sandbox_for(&self, task: &Task) -> SandboxId {
        let short = &task.id.as_str()[..task.id.as_str().len().min(24)];
        let name = format!("{short}-{}-{}", task.attempt + 1, &self.request()[26..]);
        SandboxId::parse(name).expect("an id with a suffix is a valid id")
    }

    fn task(&self) -> TaskId {
        TaskId::parse(format!("task-{}", short(self.uuid()))).expect("a prefixed id is a valid id")
    }

    /// For a ticket that was created without an id.
    fn ticket(&self) -> TicketId {
        TicketId::parse(format!("ticket-{}", short(self.uuid()))).expect("a prefixed id is a valid id")
    }

    /// For a message that was sent without an id.
    fn message(&self) -> MessageId {
        MessageId::parse(format!("msg-{}", self.uuid().simple())).expect("a prefixed UUID is a valid id")
    }

    /// For a socket of a host that does not name them itself.
    fn connection(&self) -> ConnectionId {
        ConnectionId::parse(self.request()).expect("a UUID is a valid id")
    }

    /// For a request without an id.
    fn request(&self) -> String {
        self.uuid().simple().to_string()
    }
}

/// The time and enough randomness, in fewer characters than a UUID has, because people read these.
fn short(id: Uuid) -> String {
    let id = id.simple().to_string();
    format!("{}{}", &id[..12], &id[24..])
}

/// Ids from the machine's time and randomness.
#[derive(Debug, Default, Clone, Copy)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
}

/// The same ids in the same order for the same seed. For tests; ids of two sources with one seed collide.
#[derive(Debug)]
pub struct SeededIds(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Takes the place of the time.
    generated: u64,
    random: u64,
}

impl SeededIds {
    /// Starts the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(State { generated: 0, random: seed }))
    }
}

impl IdSource for SeededIds {
    fn uuid(&self) -> Uuid {
        let mut state = self.0.lock().expect("no code panics while it holds the state");
        state.generated += 1;
        let mut bytes = [0; 10];
        bytes[..2].copy_from_slice(&state.next_random().to_be_bytes()[..2]);
        bytes[2..].copy_from_slice(&state.next_random().to_be_bytes());
        Builder::from_unix_timestamp_millis(state.generated, &bytes).into_uuid()
    }
}

impl State {
    /// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// A new secret, which cannot be predicted. It comes from the machine's randomness and never from an [`IdSource`].
pub fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// One id of each kind.
    fn some_of_each(ids: &dyn IdSource) -> Vec<String> {
        vec![
            ids.event().to_string(),
            ids.sandbox().to_string(),
            ids.task().to_string(),
            ids.ticket().to_string(),
            ids.message().to_string(),
            ids.connection().to_string(),
            ids.request(),
        ]
    }

    #[test]
    fn one_seed_generates_one_sequence_of_ids() {
        assert_eq!(some_of_each(&SeededIds::new(7)), some_of_each(&SeededIds::new(7)));
        let (these, those) = (some_of_each(&SeededIds::new(7)), some_of_each(&SeededIds::new(8)));
        assert!(these.iter().zip(&those).all(|(this, that)| this != that), "{these:?} {those:?}");
    }

    #[test]
    fn ids_are_unique_and_sort_in_the_order_of_generation() {
        for ids in [&RandomIds as &dyn IdSource, &SeededIds::new(0)] {
            let generated: Vec<Uuid> = (0..10_000).map(|_| ids.uuid()).collect();
            assert!(generated.is_sorted(), "{ids:?}");
            let tails: BTreeSet<u32> = generated.iter().map(|id| id.as_u128() as u32).collect();
            // Of 2^32 values, 10,000 random ones are almost all different.
            assert!(tails.len() > 9_990, "{ids:?}: {} different tails", tails.len());
            assert!(generated.iter().all(|id| id.get_version_num() == 7), "{ids:?}");
        }
    }

    #[test]
    fn secrets_do_not_repeat() {
        let (first, second) = (secret(), secret());
        assert_eq!((first.len(), second.len()), (64, 64));
        assert_ne!(first, second);
    }
}
