//! What breaks first on the way to 100,000 live sandboxes: a small simulation of what the plane asks of AWS.
//!
//! The units are counted, the behaviour of people and agents is assumed (`behaviour`), the quotas are AWS's. Everything
//! is an average: bursts come on top.

use crate::counts::{Count, Counts};
use crate::model::{a_batch_behind, a_push, an_event_behind, assumed};
use crate::usage::Usage;
use crate::{messages, quotas};

/// How many live sandboxes.
pub const LEVELS: [f64; 4] = [100.0, 1_000.0, 10_000.0, 100_000.0];

/// What sandboxes and people do.
pub mod behaviour {
    /// Which part of the live sandboxes is busy. The others wait for somebody.
    pub const BUSY: f64 = 0.25;
    /// A busy one sends a batch a second, of two events.
    pub const BATCHES_A_SECOND: f64 = 1.0;
    /// Events of a batch.
    pub const EVENTS_A_BATCH: f64 = 2.0;
    /// All send a heartbeat every 30 s.
    pub const HEARTBEATS_A_SECOND: f64 = 1.0 / 30.0;
    /// For every five sandboxes somebody watches one of them.
    pub const VIEWERS: f64 = 0.2;
    /// An org has so many sandboxes, and one console open on all of them.
    pub const SANDBOXES_OF_AN_ORG: f64 = 100.0;
    /// A page stays open this long.
    pub const PAGE_SECONDS: f64 = 1_200.0;
    /// A sandbox lives this long.
    pub const SANDBOX_SECONDS: f64 = 3_600.0;
    /// How many batches of one shard Lambda hands out side by side. The default; up to 10 can be set.
    pub const BATCHES_OF_A_SHARD: f64 = 1.0;
    /// How many sockets a broadcast tells side by side (`app::events::broadcast`).
    pub const PUSHES_SIDE_BY_SIDE: f64 = 128.0;
    /// What a push takes of a function's seventh of a core: 85 µs of a whole one were measured, without signing.
    pub const PUSH_CPU_MS: f64 = 1.0;
}

/// The plane with so many live sandboxes, each second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct World {
    /// How many.
    pub sandboxes: f64,
    /// Batches that come in.
    pub batches: f64,
    /// Heartbeats that come in.
    pub heartbeats: f64,
    /// Frames that go out.
    pub pushes: f64,
    /// Open sockets.
    pub sockets: f64,
    /// Sockets that open; as many close.
    pub openings: f64,
    /// Processes of the ingest.
    pub ingest_processes: f64,
    /// Which part of the requests finds the head in the memory of its process as it is in the table.
    pub remembered: f64,
    /// Shards of the stream.
    pub shards: f64,
    /// Invocations of the broadcast.
    pub broadcasts: f64,
    /// How long each takes.
    pub broadcast_ms: f64,
    /// What it takes in all.
    pub usage: Usage,
}

impl World {
    /// With so many live sandboxes.
    pub fn new(counts: &Counts, sandboxes: f64) -> Self {
        use behaviour as b;
        let batches = sandboxes * b::BUSY * b::BATCHES_A_SECOND;
        let heartbeats = sandboxes * b::HEARTBEATS_A_SECOND;
        let orgs = (sandboxes / b::SANDBOXES_OF_AN_ORG).max(1.0);
        let sockets = sandboxes * b::VIEWERS + orgs;
        let listeners = b::VIEWERS + orgs * b::SANDBOXES_OF_AN_ORG.min(sandboxes) / sandboxes;
        let pushes = (batches * b::EVENTS_A_BATCH + heartbeats) * listeners;
        let openings = sockets / b::PAGE_SECONDS;

        let requests = batches + heartbeats;
        let ingest_processes = (requests * assumed::INGEST_MS / 1e3).max(1.0);
        // Requests go to any process, and only the one that wrote last knows the head.
        let remembered = 1.0 / ingest_processes;
        let batch = Usage::request(&counts.ingest_batch_of_2);
        let beat = Usage::request(&heartbeat(counts));
        let late = a_batch_behind(counts) * batches + an_event_behind(counts) * heartbeats;
        let ingests = batch * batches + beat * heartbeats + late * (1.0 - remembered);

        let shards = (ingests.write_units / quotas::PARTITION_WRITES).ceil().max(SHARDS_OF_A_NEW_TABLE);
        let lanes = shards * b::BATCHES_OF_A_SHARD;
        let broadcasts = requests.min(lanes * quotas::POLLS_OF_A_SHARD);
        let pushes_each = pushes / broadcasts;
        let waiting_ms = (pushes_each / b::PUSHES_SIDE_BY_SIDE).ceil() * assumed::PUSH_MS;
        let broadcast_ms = assumed::BROADCAST_MS + waiting_ms.max(pushes_each * b::PUSH_CPU_MS);
        let telling = Usage::broadcast(&counts.broadcast_to_nobody) * broadcasts
            + Usage { milliseconds: 0.0, ..a_push(counts) } * pushes
            + Usage { milliseconds: broadcasts * (broadcast_ms - assumed::BROADCAST_MS), ..Usage::default() };
        let coming_and_going =
            (Usage::socket(&counts.socket_opens) + Usage::socket(&counts.socket_closes)) * openings;
        let open = Usage { socket_minutes: sockets / 60.0, ..Usage::default() };
        let usage = ingests + telling + coming_and_going + open;
        Self {
            sandboxes,
            batches,
            heartbeats,
            pushes,
            sockets,
            openings,
            ingest_processes,
            remembered,
            shards,
            broadcasts,
            broadcast_ms,
            usage,
        }
    }
}

/// One of the hour's 120.
fn heartbeat(counts: &Counts) -> Count {
    let hour = &counts.idle_hour;
    // The broadcast's part is not the request's.
    Count {
        write_units: hour.write_units / assumed::HEARTBEATS_AN_HOUR,
        bytes_in: 100,
        bytes_out: 200,
        ..Count::default()
    }
}

/// A table on demand starts with this many partitions: 4,000 write units.
const SHARDS_OF_A_NEW_TABLE: f64 = 4.0;

/// Who can move a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raised {
    /// AWS, on request.
    OnRequest,
    /// It grows by itself, in time.
    ByItself,
    /// Nobody.
    Never,
}

/// Something that runs out.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// What. `docs/scale.md` has a heading for it.
    pub name: &'static str,
    /// In what.
    pub unit: &'static str,
    /// How much there is.
    pub limit: f64,
    /// Whether there can be more.
    pub raised: Raised,
    demand: fn(&Counts, &World) -> f64,
}

/// How much of a limit is asked for, at one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// In the limit's unit.
    pub demand: f64,
    /// As a part of the limit: above 1 it breaks.
    pub ratio: f64,
}

impl Limit {
    /// With so many live sandboxes.
    pub fn at(&self, counts: &Counts, sandboxes: f64) -> Demand {
        let demand = (self.demand)(counts, &World::new(counts, sandboxes));
        Demand { demand, ratio: demand / self.limit }
    }

    /// How many live sandboxes it takes to reach it; `None` if a million do not.
    pub fn breaks_at(&self, counts: &Counts) -> Option<f64> {
        let (mut low, mut high) = (1.0, 1e6);
        if self.at(counts, high).ratio < 1.0 {
            return None;
        }
        // Demand only grows with the number, so halving finds the place.
        while high / low > 1.001 {
            let middle = f64::sqrt(low * high);
            if self.at(counts, middle).ratio < 1.0 { low = middle } else { high = middle }
        }
        Some(low)
    }
}

/// Everything that runs out, the first first.
pub fn limits(counts: &Counts) -> Vec<Limit> {
    let mut limits = LIMITS.to_vec();
    let order = |limit: &Limit| limit.breaks_at(counts).unwrap_or(f64::INFINITY);
    limits.sort_by(|left, right| order(left).total_cmp(&order(right)));
    limits
}

const LIMITS: [Limit; 12] = [
    Limit {
        name: "Waiting for messages in functions",
        unit: "functions at once",
        limit: quotas::LAMBDA_CONCURRENCY,
        raised: Raised::OnRequest,
        // Pulls that wait as long as the default, each in a function, and sleep a little between.
        demand: |counts, world| world.sandboxes * messages::default_polls(counts).functions(),
    },
    Limit {
        name: "Waiting for messages on sockets",
        unit: "requests/s",
        limit: quotas::GATEWAY_REQUESTS,
        raised: Raised::OnRequest,
        // Short pulls that nobody rang for, and pings. Bells are as few as messages.
        demand: |counts, world| world.sandboxes * messages::on_a_socket(counts).requests() / 3600.0,
    },
    Limit {
        name: "Writes of a new table",
        unit: "write units/s",
        limit: quotas::NEW_TABLE_WRITES,
        raised: Raised::ByItself,
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
        name: "Functions at once",
        unit: "functions at once",
        limit: quotas::LAMBDA_CONCURRENCY,
        raised: Raised::OnRequest,
        demand: |_, world| world.usage.functions(),
    },
    Limit {
        name: "The operators' stamp",
        unit: "reads/s of one item",
        limit: quotas::PARTITION_READS,
        raised: Raised::Never,
        demand: |_, world| world.broadcasts,
    },
    Limit {
        name: "One org that has everything",
        unit: "read units/s of one topic",
        limit: quotas::PARTITION_READS,
        raised: Raised::Never,
        // Every socket that comes or goes moves the org's stamp. A broadcast that finds it moved asks again for each
        // topic, and the topic `all` is one partition.
        demand: |_, world| {
            world.broadcasts.min(2.0 * world.openings * world.shards * behaviour::BATCHES_OF_A_SHARD)
        },
    },
    Limit {
        name: "The stream",
        unit: "(all of a shard's time)",
        limit: 1.0,
        raised: Raised::ByItself,
        // How much of a shard's time is spent. Demand and supply grow together, with the shards.
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

/// From 100 to 100,000 sandboxes in so many minutes, on a table that was never asked for more than it was born with.
/// Which part of the writes is turned away on the way, and for how many minutes any is.
pub fn ramp(counts: &Counts, minutes: usize) -> (f64, usize) {
    let (mut asked, mut turned_away, mut bad_minutes) = (0.0, 0.0, 0);
    let mut served: Vec<f64> = Vec::new();
    let (from, to) = (LEVELS[0], LEVELS[LEVELS.len() - 1]);
    // Two hours more, in which it stays there.
    for minute in 0..minutes + 120 {
        #[expect(clippy::cast_precision_loss, reason = "minutes of a day")]
        let way = (minute as f64 / minutes as f64).min(1.0);
        let demand = World::new(counts, from + way * (to - from)).usage.write_units;
        let settled = &served[..minute.saturating_sub(GROWS_WITHIN_MINUTES)];
        let peak = settled.iter().copied().fold(quotas::NEW_TABLE_WRITES / 2.0, f64::max);
        let done = demand.min(2.0 * peak);
        served.push(done);
        asked += demand;
        turned_away += demand - done;
        bad_minutes += usize::from(done < demand);
    }
    (turned_away / asked, bad_minutes)
}

/// A table on demand takes twice its peak of half an hour ago.
const GROWS_WITHIN_MINUTES: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_only_grows_so_that_halving_finds_where_it_breaks() {
        let counts = Counts::committed();
        // Of a shard's time a little less is spent whenever there is a shard more.
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
    fn a_slow_ramp_is_never_turned_away_and_a_fast_one_is() {
        let counts = Counts::committed();
        let (fast, slow) = (ramp(&counts, 30), ramp(&counts, 24 * 60));
        assert!(fast.0 > 0.1 && slow.0 < 0.02, "{fast:?} {slow:?}");
    }
}
