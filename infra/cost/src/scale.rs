//! Capacity model: which AWS quota the plane reaches first on the way to 100,000 live sandboxes.
//!
//! Units are counted, the behaviour of users and agents is assumed (`behaviour`), quotas are AWS's. All values are
//! averages: bursts come on top.

use crate::counts::{Count, Counts};
use crate::model::{assumed, push, stale_batch, stale_event};
use crate::usage::Usage;
use crate::{messages, quotas};

/// Numbers of live sandboxes that the tables show.
pub const LEVELS: [f64; 4] = [100.0, 1_000.0, 10_000.0, 100_000.0];

/// Assumed behaviour of sandboxes and users.
pub mod behaviour {
    /// Share of live sandboxes that are busy. The others wait for input.
    pub const BUSY: f64 = 0.25;
    /// Of a busy sandbox.
    pub const BATCHES_A_SECOND: f64 = 1.0;
    pub const EVENTS_A_BATCH: f64 = 2.0;
    /// Every sandbox sends a heartbeat every 30 s.
    pub const HEARTBEATS_A_SECOND: f64 = 1.0 / 30.0;
    /// Viewers per sandbox: one sandbox in five is watched.
    pub const VIEWERS: f64 = 0.2;
    /// Each org also has one console open that watches all of its sandboxes.
    pub const SANDBOXES_OF_AN_ORG: f64 = 100.0;
    /// Time a page stays open.
    pub const PAGE_SECONDS: f64 = 1_200.0;
    /// Lifetime of a sandbox.
    pub const SANDBOX_SECONDS: f64 = 3_600.0;
    /// `ParallelizationFactor`: concurrent batches per shard. Lambda allows up to 10.
    pub const BATCHES_OF_A_SHARD: f64 = 1.0;
    /// Sockets that a broadcast pushes to concurrently (`app::events::broadcast`).
    pub const CONCURRENT_PUSHES: f64 = 128.0;
    /// CPU time of a push on a function's seventh of a core. Measured: 85 µs on a whole core, without request signing.
    pub const PUSH_CPU_MS: f64 = 1.0;
}

/// The load of the plane per second, for a number of live sandboxes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct World {
    pub sandboxes: f64,
    pub batches: f64,
    pub heartbeats: f64,
    /// Frames pushed to sockets.
    pub pushes: f64,
    /// Open sockets.
    pub sockets: f64,
    /// Sockets that open. As many close.
    pub openings: f64,
    pub ingest_processes: f64,
    /// Share of ingests whose process has the current sandbox in its cache.
    pub cache_hits: f64,
    pub shards: f64,
    /// Invocations of `events-broadcast`.
    pub broadcasts: f64,
    pub broadcast_ms: f64,
    /// Total usage.
    pub usage: Usage,
}

impl World {
    pub fn new(counts: &Counts, sandboxes: f64) -> Self {
        use behaviour as b;
        let batches = sandboxes * b::BUSY * b::BATCHES_A_SECOND;
        let heartbeats = sandboxes * b::HEARTBEATS_A_SECOND;
        let orgs = (sandboxes / b::SANDBOXES_OF_AN_ORG).max(1.0);
        let sockets = sandboxes * b::VIEWERS + orgs;
        let subscribers = b::VIEWERS + orgs * b::SANDBOXES_OF_AN_ORG.min(sandboxes) / sandboxes;
        let pushes = (batches * b::EVENTS_A_BATCH + heartbeats) * subscribers;
        let openings = sockets / b::PAGE_SECONDS;

        let requests = batches + heartbeats;
        let ingest_processes = (requests * assumed::INGEST_MS / 1e3).max(1.0);
        // Requests go to any process, and only the process that wrote last has the current sandbox in its cache.
        let cache_hits = 1.0 / ingest_processes;
        let batch = Usage::request(&counts.ingest_batch_of_2);
        let beat = Usage::request(&heartbeat(counts));
        let stale = stale_batch(counts) * batches + stale_event(counts) * heartbeats;
        let ingests = batch * batches + beat * heartbeats + stale * (1.0 - cache_hits);

        let shards = (ingests.write_units / quotas::PARTITION_WRITES).ceil().max(SHARDS_OF_A_NEW_TABLE);
        let concurrency = shards * b::BATCHES_OF_A_SHARD;
        let broadcasts = requests.min(concurrency * quotas::POLLS_OF_A_SHARD);
        let pushes_each = pushes / broadcasts;
        let waiting_ms = (pushes_each / b::CONCURRENT_PUSHES).ceil() * assumed::PUSH_MS;
        let broadcast_ms = assumed::BROADCAST_MS + waiting_ms.max(pushes_each * b::PUSH_CPU_MS);
        let broadcasting = Usage::broadcast(&counts.broadcast_without_subscribers) * broadcasts
            + Usage { milliseconds: 0.0, ..push(counts) } * pushes
            + Usage { milliseconds: broadcasts * (broadcast_ms - assumed::BROADCAST_MS), ..Usage::default() };
        let opening_and_closing =
            (Usage::socket(&counts.socket_opens) + Usage::socket(&counts.socket_closes)) * openings;
        let open = Usage { socket_minutes: sockets / 60.0, ..Usage::default() };
        let usage = ingests + broadcasting + opening_and_closing + open;
        Self {
            sandboxes,
            batches,
            heartbeats,
            pushes,
            sockets,
            openings,
            ingest_processes,
            cache_hits,
            shards,
            broadcasts,
            broadcast_ms,
            usage,
        }
    }
}

/// One of the 120 heartbeats of an idle hour.
fn heartbeat(counts: &Counts) -> Count {
    let hour = &counts.idle_hour;
    // Read units belong to the broadcast, not to the request.
    Count {
        write_units: hour.write_units / assumed::HEARTBEATS_AN_HOUR,
        bytes_in: 100,
        bytes_out: 200,
        ..Count::default()
    }
}

/// Partitions of a new on-demand table, for 4,000 write units.
const SHARDS_OF_A_NEW_TABLE: f64 = 4.0;

/// How a limit can be raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raised {
    /// By a quota request to AWS.
    OnRequest,
    /// AWS scales it with usage.
    Automatically,
    Never,
}

/// A quota or a capacity limit.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// `docs/scale.md` has a heading of this name.
    pub name: &'static str,
    pub unit: &'static str,
    pub limit: f64,
    pub raised: Raised,
    demand: fn(&Counts, &World) -> f64,
}

/// Demand on a limit for a number of live sandboxes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// In the limit's unit.
    pub demand: f64,
    /// Demand divided by the limit. Above 1 the limit is exceeded.
    pub ratio: f64,
}

impl Limit {
    pub fn at(&self, counts: &Counts, sandboxes: f64) -> Demand {
        let demand = (self.demand)(counts, &World::new(counts, sandboxes));
        Demand { demand, ratio: demand / self.limit }
    }

    /// The number of live sandboxes that reach the limit; `None` if a million do not.
    pub fn reached_at(&self, counts: &Counts) -> Option<f64> {
        let (mut low, mut high) = (1.0, 1e6);
        if self.at(counts, high).ratio < 1.0 {
            return None;
        }
        // Demand grows monotonically, so bisection finds the point.
        while high / low > 1.001 {
            let middle = f64::sqrt(low * high);
            if self.at(counts, middle).ratio < 1.0 { low = middle } else { high = middle }
        }
        Some(low)
    }
}

/// All limits, in the order in which they are reached.
pub fn limits(counts: &Counts) -> Vec<Limit> {
    let mut limits = LIMITS.to_vec();
    let order = |limit: &Limit| limit.reached_at(counts).unwrap_or(f64::INFINITY);
    limits.sort_by(|left, right| order(left).total_cmp(&order(right)));
    limits
}

const LIMITS: [Limit; 12] = [
    Limit {
        name: "Long polling for messages",
        unit: "functions at once",
        limit: quotas::LAMBDA_CONCURRENCY,
        raised: Raised::OnRequest,
        // Pulls with the default wait, each of which occupies a function, with a short pause in between.
        demand: |counts, world| world.sandboxes * messages::default_polls(counts).functions(),
    },
    Limit {
        name: "Waiting for messages on sockets",
        unit: "requests/s",
        limit: quotas::GATEWAY_REQUESTS,
        raised: Raised::OnRequest,
        // Interval pulls and pings. Notifications are as rare as messages.
        demand: |counts, world| world.sandboxes * messages::on_a_socket(counts).requests() / 3600.0,
    },
    Limit {
        name: "Writes of a new table",
        unit: "write units/s",
        limit: quotas::NEW_TABLE_WRITES,
        raised: Raised::Automatically,
        demand: |_, world| world.usage.write_units,
    },
    Limit {
        name: "Writes of a table",
        unit: "write units/s",
        limit: quotas::TABLE_WRITES,
        raised: Raised::OnRequest,
        demand: |_, world| world.usage.write_units,
    },
    Limit {
        name: "Reads of a table",
        unit: "read units/s",
        limit: quotas::TABLE_READS,
        raised: Raised::OnRequest,
        demand: |_, world| world.usage.read_units,
    },
    Limit {
        name: "Requests of API Gateway",
        unit: "requests/s",
        limit: quotas::GATEWAY_REQUESTS,
        raised: Raised::OnRequest,
        demand: |_, world| world.usage.http_requests + world.usage.socket_messages + 2.0 * world.openings,
    },
    Limit {
        name: "Concurrent functions",
        unit: "functions at once",
        limit: quotas::LAMBDA_CONCURRENCY,
        raised: Raised::OnRequest,
        demand: |_, world| world.usage.functions(),
    },
    Limit {
        name: "The operators' subscription version",
        unit: "reads/s of one item",
        limit: quotas::PARTITION_READS,
        raised: Raised::Never,
        demand: |_, world| world.broadcasts,
    },
    Limit {
        name: "One very large org",
        unit: "read units/s of one topic",
        limit: quotas::PARTITION_READS,
        raised: Raised::Never,
        // Every socket that opens or closes changes the org's subscription version. A broadcast that finds it changed
        // reads each topic again, and the topic `all` is one partition.
        demand: |_, world| {
            world.broadcasts.min(2.0 * world.openings * world.shards * behaviour::BATCHES_OF_A_SHARD)
        },
    },
    Limit {
        name: "The stream",
        unit: "(the whole time of a shard)",
        limit: 1.0,
        raised: Raised::Automatically,
        // Share of a shard's time that is used. Demand and capacity grow together with the number of shards.
        demand: |_, world| {
            world.broadcasts * world.broadcast_ms / 1e3 / (world.shards * behaviour::BATCHES_OF_A_SHARD)
        },
    },
    Limit {
        name: "The list of all sandboxes",
        unit: "write units/s of one index partition",
        limit: quotas::PARTITION_WRITES,
        raised: Raised::Never,
        demand: |_, world| world.sandboxes / behaviour::SANDBOX_SECONDS,
    },
    Limit {
        name: "New sockets",
        unit: "sockets/s",
        limit: quotas::NEW_SOCKETS,
        raised: Raised::OnRequest,
        demand: |_, world| world.openings,
    },
];

/// Simulates growth from 100 to 100,000 sandboxes within `minutes`, on a table with the capacity of a new one. Returns
/// the share of writes that are throttled, and the number of minutes with throttling.
pub fn ramp(counts: &Counts, minutes: usize) -> (f64, usize) {
    let (mut requested, mut throttled, mut minutes_with_throttling) = (0.0, 0.0, 0);
    let mut served: Vec<f64> = Vec::new();
    let (from, to) = (LEVELS[0], LEVELS[LEVELS.len() - 1]);
    // Two more hours at the final level.
    for minute in 0..minutes + 120 {
        #[expect(clippy::cast_precision_loss, reason = "minutes are far below 2^53")]
        let progress = (minute as f64 / minutes as f64).min(1.0);
        let demand = World::new(counts, from + progress * (to - from)).usage.write_units;
        let past = &served[..minute.saturating_sub(SCALING_DELAY_MINUTES)];
        let peak = past.iter().copied().fold(quotas::NEW_TABLE_WRITES / 2.0, f64::max);
        let accepted = demand.min(2.0 * peak);
        served.push(accepted);
        requested += demand;
        throttled += demand - accepted;
        minutes_with_throttling += usize::from(accepted < demand);
    }
    (throttled / requested, minutes_with_throttling)
}

/// An on-demand table accepts twice its peak of half an hour ago.
const SCALING_DELAY_MINUTES: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_grows_monotonically() {
        let counts = Counts::committed();
        // The stream is an exception: each additional shard lowers the utilization a little.
        for limit in limits(&counts).iter().filter(|limit| limit.name != "The stream") {
            let mut before = 0.0;
            for step in 0..120 {
                let demand = limit.at(&counts, 10.0 * 1.1_f64.powi(step)).demand;
                assert!(demand >= before, "{} at step {step}", limit.name);
                before = demand;
            }
        }
    }

    #[test]
    fn fast_growth_is_throttled_and_slow_growth_is_not() {
        let counts = Counts::committed();
        let (fast, slow) = (ramp(&counts, 30), ramp(&counts, 24 * 60));
        assert!(fast.0 > 0.1 && slow.0 < 0.02, "{fast:?} {slow:?}");
    }
}
