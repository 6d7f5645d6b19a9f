//! What goes wrong, and when: told one by one, or by dice whose seed makes it the same again.

use http::Method;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A sandbox.
    Create,
    /// What is known of one.
    Find,
    /// All of them.
    List,
    /// The end of one.
    Delete,
    /// More memory or processors for one.
    Resize,
    /// A link to a port.
    Preview,
    /// A command that is run to its end.
    Execute,
    /// A file.
    Upload,
    /// A session.
    OpenSession,
    /// What runs in a session.
    LookAtSession,
    /// A command in a session.
    RunInSession,
    /// The end of a session.
    CloseSession,
}

impl Operation {
    pub(super) fn of(side: &str, method: &Method, path: &[String]) -> Option<Self> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match (side, method.as_str(), path.as_slice()) {
            ("api", "POST", ["sandbox"]) => Some(Self::Create),
            ("api", "GET", ["sandbox"]) => Some(Self::List),
            ("api", "GET", ["sandbox", _]) => Some(Self::Find),
            ("api", "DELETE", ["sandbox", _]) => Some(Self::Delete),
            ("api", "POST", ["sandbox", _, "resize"]) => Some(Self::Resize),
            ("api", "GET", ["sandbox", _, "ports", _, "preview-url"]) => Some(Self::Preview),
            ("toolbox", "POST", [_, "process", "execute"]) => Some(Self::Execute),
            ("toolbox", "POST", [_, "files", "upload-v2"]) => Some(Self::Upload),
            ("toolbox", "POST", [_, "process", "session"]) => Some(Self::OpenSession),
            ("toolbox", "GET", [_, "process", "session", _]) => Some(Self::LookAtSession),
            ("toolbox", "POST", [_, "process", "session", _, "exec"]) => Some(Self::RunInSession),
            ("toolbox", "DELETE", [_, "process", "session", _]) => Some(Self::CloseSession),
            _ => None,
        }
    }
}

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mishap {
    /// 429, and when to come again in this header: `retry-after` or `retry-after-sandbox-create`.
    Busy {
        /// The header.
        header: String,
        /// Its value.
        secs: u64,
    },
    /// This answer, and nothing is done.
    Refused {
        /// Its status.
        status: u16,
        /// What it says.
        message: String,
    },
    /// 500, and nothing is done.
    Broken,
    /// 500, and it is done.
    BrokenAfterwards,
    /// The connection breaks, and nothing is done.
    Unheard,
    /// It is done, and then the connection breaks.
    Lost,
    /// It is done so much later.
    Slow(Duration),
}

/// What goes wrong.
#[derive(Debug, Clone, Default)]
pub struct Trouble {
    told: Vec<(Operation, Mishap)>,
    thrown: Option<(u64, u32)>,
    delay: Duration,
}

impl Trouble {
    /// Nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// This, the next time that it is asked for that. Said twice, it happens twice.
    #[must_use]
    pub fn once(mut self, operation: Operation, mishap: Mishap) -> Self {
        self.told.push((operation, mishap));
        self
    }

    /// Anything, in so many of a hundred requests. The same seed and the same requests meet the same.
    #[must_use]
    pub fn by_dice(mut self, seed: u64, percent: u32) -> Self {
        self.thrown = Some((seed, percent));
        self
    }

    /// Among what the dice may throw is an answer that is so late. Without this there is none.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// Decides what goes wrong.
#[derive(Debug)]
pub(super) struct Dice {
    trouble: Trouble,
    random: StdRng,
}

impl Dice {
    pub(super) fn new(trouble: Trouble) -> Self {
        let random = StdRng::seed_from_u64(trouble.thrown.map_or(0, |(seed, _)| seed));
        Self { trouble, random }
    }

    pub(super) fn throw(&mut self, operation: Operation) -> Option<Mishap> {
        if let Some(index) = self.trouble.told.iter().position(|(told, _)| *told == operation) {
            return Some(self.trouble.told.remove(index).1);
        }
        let (_, percent) = self.trouble.thrown?;
        if self.random.random_range(0..100) >= percent {
            return None;
        }
        Some(match self.random.random_range(0..6) {
            0 => {
                let named = self.random.random_bool(0.5);
                let header = if named { "retry-after-sandbox-lifecycle" } else { "retry-after" };
                Mishap::Busy { header: header.to_owned(), secs: self.random.random_range(0..3) }
            }
            1 => Mishap::Broken,
            2 => Mishap::BrokenAfterwards,
            3 => Mishap::Unheard,
            4 if self.trouble.delay > Duration::ZERO => Mishap::Slow(self.trouble.delay),
            _ => Mishap::Lost,
        })
    }
}
