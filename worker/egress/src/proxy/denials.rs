//! Reports of denied connections, at most one for each host and minute.

use crate::policy::{Denial, Target};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

const INTERVAL: Duration = Duration::from_secs(60);

/// Hosts that are reported individually within [`INTERVAL`]. An agent may try any number.
const MAX_HOSTS: usize = 100;

/// Stands for the hosts beyond [`MAX_HOSTS`].
const OTHER_HOSTS: &str = "other hosts";

/// Reports that wait to be read. Further ones are dropped.
const MAX_REPORTS: usize = 256;

/// A denied connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    pub host: String,
    pub port: u16,
    pub why: Denial,
    /// Number of connections to this host that were denied since the last report, including this one.
    pub count: u64,
}

#[derive(Debug)]
pub(super) struct Denials {
    reports: mpsc::Sender<Denied>,
    hosts: Mutex<HashMap<String, Host>>,
}

#[derive(Debug)]
struct Host {
    reported_at: Instant,
    /// Denied connections since the last report.
    unreported: u64,
}

impl Denials {
    pub(super) fn new() -> (Self, mpsc::Receiver<Denied>) {
        let (reports, receiver) = mpsc::channel(MAX_REPORTS);
        (Self { reports, hosts: Mutex::default() }, receiver)
    }

    pub(super) fn report(&self, target: &Target, why: Denial) {
        if let Some((host, count)) = self.count(target.host()) {
            let denied = Denied { host, port: target.port(), why, count };
            // The channel is full if the worker cannot keep up. It has enough reports then.
            let _ = self.reports.try_send(denied);
        }
    }

    /// The host to report, and how often. `None` if it was reported within the last minute.
    fn count(&self, mut host: String) -> Option<(String, u64)> {
        let now = Instant::now();
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= MAX_HOSTS && !hosts.contains_key(&host) {
            hosts.retain(|_, known| now.duration_since(known.reported_at) < INTERVAL);
            if hosts.len() >= MAX_HOSTS {
                host = OTHER_HOSTS.to_owned();
            }
        }
        match hosts.get_mut(&host) {
            Some(known) if now.duration_since(known.reported_at) < INTERVAL => {
                known.unreported += 1;
                None
            }
            known => {
                let count = known.map_or(0, |known| known.unreported) + 1;
                hosts.insert(host.clone(), Host { reported_at: now, unreported: 0 });
                Some((host, count))
            }
        }
    }
}
