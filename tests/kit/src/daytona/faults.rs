//! Injected faults: listed one by one, or chosen at random with a seed.

use http::Method;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

/// An operation of Daytona's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Create,
    Find,
    List,
    Delete,
    Resize,
    /// Get a link to a port.
    Preview,
    /// Run a command and wait for it.
    Execute,
    Upload,
    OpenSession,
    GetSession,
    RunInSession,
    CloseSession,
}

impl Operation {
    pub(super) fn of(api: &str, method: &Method, path: &[String]) -> Option<Self> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match (api, method.as_str(), path.as_slice()) {
            ("api", "POST", ["sandbox"]) => Some(Self::Create),
            ("api", "GET", ["sandbox"]) => Some(Self::List),
            ("api", "GET", ["sandbox", _]) => Some(Self::Find),
            ("api", "DELETE", ["sandbox", _]) => Some(Self::Delete),
            ("api", "POST", ["sandbox", _, "resize"]) => Some(Self::Resize),
            ("api", "GET", ["sandbox", _, "ports", _, "preview-url"]) => Some(Self::Preview),
            ("toolbox", "POST", [_, "process", "execute"]) => Some(Self::Execute),
            ("toolbox", "POST", [_, "files", "upload-v2"]) => Some(Self::Upload),
            ("toolbox", "POST", [_, "process", "session"]) => Some(Self::OpenSession),
            ("toolbox", "GET", [_, "process", "session", _]) => Some(Self::GetSession),
            ("toolbox", "POST", [_, "process", "session", _, "exec"]) => Some(Self::RunInSession),
            ("toolbox", "DELETE", [_, "process", "session", _]) => Some(Self::CloseSession),
            _ => None,
        }
    }
}

/// A fault of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// 429 with the seconds to wait in this header: `retry-after` or `retry-after-sandbox-create`.
    RateLimited { header: String, secs: u64 },
    /// This error; the operation is not executed.
    Rejected { status: u16, message: String },
    /// 500; the operation is not executed.
    Error,
    /// 500, although the operation is executed.
    ErrorAfterExecution,
    /// The connection breaks; the operation is not executed.
    RequestLost,
    /// The operation is executed, then the connection breaks.
    ResponseLost,
    /// The operation is executed after a delay.
    Delayed(Duration),
}

/// Which requests fail.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    listed: Vec<(Operation, Fault)>,
    /// Seed, and percentage of requests.
    random: Option<(u64, u32)>,
    delay: Duration,
}

impl Faults {
    pub fn none() -> Self {
        Self::default()
    }

    /// The next request for `operation` has this fault. Can be called several times for the same operation.
    #[must_use]
    pub fn once(mut self, operation: Operation, fault: Fault) -> Self {
        self.listed.push((operation, fault));
        self
    }

    /// Random faults in `percent` of the requests. The same seed and the same requests have the same faults.
    #[must_use]
    pub fn at_random(mut self, seed: u64, percent: u32) -> Self {
        self.random = Some((seed, percent));
        self
    }

    /// Adds [`Fault::Delayed`] to the random faults.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// Chooses the fault of each request.
#[derive(Debug)]
pub(super) struct Injector {
    faults: Faults,
    random: StdRng,
}

impl Injector {
    pub(super) fn new(faults: Faults) -> Self {
        let random = StdRng::seed_from_u64(faults.random.map_or(0, |(seed, _)| seed));
        Self { faults, random }
    }

    pub(super) fn next(&mut self, operation: Operation) -> Option<Fault> {
        if let Some(index) = self.faults.listed.iter().position(|(listed, _)| *listed == operation) {
            return Some(self.faults.listed.remove(index).1);
        }
        let (_, percent) = self.faults.random?;
        if self.random.random_range(0..100) >= percent {
            return None;
        }
        Some(match self.random.random_range(0..6) {
            0 => {
                let named = self.random.random_bool(0.5);
                let header = if named { "retry-after-sandbox-lifecycle" } else { "retry-after" };
                Fault::RateLimited { header: header.to_owned(), secs: self.random.random_range(0..3) }
            }
            1 => Fault::Error,
            2 => Fault::ErrorAfterExecution,
            3 => Fault::RequestLost,
            4 if self.faults.delay > Duration::ZERO => Fault::Delayed(self.faults.delay),
            _ => Fault::ResponseLost,
        })
    }
}
