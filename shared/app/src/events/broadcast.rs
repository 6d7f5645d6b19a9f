//! Broadcasts stored events to the sockets that are subscribed to them.
//!
//! Frames to one socket are sent in order, different sockets concurrently. A socket that cannot be reached is closed
//! rather than left with a gap: its client reconnects and requests the events that it has missed.

use crate::Clock;
use crate::error::{Error, chain};
use crate::sockets::subscriptions::Subscriptions;
use contract::socket::{EventFrame, bundle, error};
use contract::{ProblemCode, SocketCode};
use domain::access::EVERY_ORG;
use domain::backoff::Backoff;
use domain::event::normalized_name;
use domain::filter::{Subject, topics_of};
use domain::{ConnectionId, Entity, Event, Timestamp};
use futures_util::future::join_all;
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::Store;
use store::connections::Subscriber;
use store::push::{Push, Pushed};
use store::record::ChangeRecord;
use tokio::task::JoinSet;
use tracing::Instrument;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub push: &'a Push,
    /// A cache.
    pub subscriptions: &'a Subscriptions,
    pub clock: &'a dyn Clock,
}

/// In the order in which they were stored.
pub type Command = Vec<ChangeRecord>;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of events sent, counted for each socket.
    pub delivered: usize,
    /// Number of sockets that did not exist or were closed.
    pub dropped: usize,
}

/// Number of sockets that each task sends to concurrently.
const CONCURRENCY: usize = 64;
/// Minimum number of sockets to use several tasks.
const PARALLEL_THRESHOLD: usize = 16;
/// Number of tasks. The number of cores on Lambda depends on the memory size; most machines have at least two.
const TASKS: usize = 2;
/// Maximum number of attempts to send a frame.
const MAX_ATTEMPTS: u32 = 3;
/// Delays between attempts to send a frame.
const RESEND: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));

/// Grace period for a connection that is still in its handshake. Its subscription is already stored, but API Gateway
/// reports it as gone.
pub const HANDSHAKE_GRACE_SECS: i64 = 10;

/// Maximum number of lost sockets to delete in one run, so that the next records are not delayed. The others are
/// found again by the next broadcast.
const MAX_DELETED: usize = 50;

/// At-least-once: a retry sends the same frames again, and clients deduplicate them by sequence number.
pub async fn run(deps: Deps<'_>, records: Command) -> Result<Outcome, Error> {
    let deliveries = plan_deliveries(deps, &records).await?;
    let dispatcher = Dispatcher { push: deps.push.clone(), now: deps.clock.now() };
    let parallel = deliveries.len() >= PARALLEL_THRESHOLD;
    let deliveries = Arc::new(Mutex::new(deliveries));
    let dispatched = if parallel {
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            tasks.spawn(dispatcher.clone().dispatch(deliveries.clone()).in_current_span());
        }
        tasks.join_all().await
    } else {
        vec![dispatcher.dispatch(deliveries).await]
    };
    let delivered = dispatched.iter().map(|dispatched| dispatched.delivered).sum();
    let lost: Vec<Delivery> = dispatched.into_iter().flat_map(|dispatched| dispatched.lost).collect();
    // Cleanup comes last, so that it does not delay the sockets that exist.
    for delivery in lost.iter().take(MAX_DELETED) {
        delete_socket(deps.store, delivery).await;
    }
    Ok(Outcome { delivered, dropped: lost.len() })
}

/// Sends deliveries to their sockets.
#[derive(Clone)]
struct Dispatcher {
    push: Push,
    now: Timestamp,
}

#[derive(Default)]
struct Dispatched {
    delivered: usize,
    lost: Vec<Delivery>,
}

impl Dispatcher {
    /// Sends deliveries until the queue is empty. Several tokio tasks may share the queue, and each polls several
    /// loops, so that a slow socket delays no other. (Loops, rather than a future for each delivery: a future that
    /// holds an SDK call is large.)
    async fn dispatch(self, queue: Arc<Mutex<Vec<Delivery>>>) -> Dispatched {
        let next = || queue.lock().expect("no code panics while it holds the queue").pop();
        let loops = (0..CONCURRENCY).map_while(|_| next()).map(|first| async {
            let (mut dispatched, mut delivery) = (Dispatched::default(), Some(first));
            while let Some(current) = delivery {
                match self.deliver(&current).await {
                    Ok(()) => dispatched.delivered += current.frames.len(),
                    // Its client fetches what it has missed after the handshake. If the socket were deleted, it would
                    // never receive anything again.
                    Err(Undelivered::Opening) => {}
                    Err(Undelivered::Lost(reason)) => {
                        self.close(&current, &reason).await;
                        dispatched.lost.push(current);
                    }
                }
                delivery = next();
            }
            dispatched
        });
        join_all(loops).await.into_iter().fold(Dispatched::default(), |mut sum, dispatched| {
            sum.delivered += dispatched.delivered;
            sum.lost.extend(dispatched.lost);
            sum
        })
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<(), Undelivered> {
        let connection = &delivery.subscriber.connection;
        let rejection = if delivery.subscriber.until.is_some_and(|until| until <= self.now) {
            Some((SocketCode::TokenExpired.as_str(), "Your token has expired; reconnect with a new one."))
        } else if delivery.revoked {
            Some((ProblemCode::Unauthorized.as_str(), "This worker token was replaced by a newer one."))
        } else {
            None
        };
        if let Some((code, message)) = rejection {
            self.push.send(connection, &error(code, message)).await;
            return Err(Undelivered::Lost(code.to_owned()));
        }
        if delivery.subscriber.batch && delivery.frames.len() > 1 {
            for frame in bundle(&delivery.frames) {
                self.send(&delivery.subscriber, &frame).await?;
            }
        } else {
            for frame in &delivery.frames {
                self.send(&delivery.subscriber, frame).await?;
            }
        }
        Ok(())
    }

    async fn send(&self, subscriber: &Subscriber, frame: &str) -> Result<(), Undelivered> {
        let mut attempt = 1;
        loop {
            match self.push.send(&subscriber.connection, frame).await {
                Pushed::Sent => return Ok(()),
                Pushed::Gone if self.may_be_opening(subscriber) => return Err(Undelivered::Opening),
                Pushed::Gone => return Err(Undelivered::Lost("it does not exist".into())),
                Pushed::Failed(reason) if attempt == MAX_ATTEMPTS => return Err(Undelivered::Lost(reason)),
                Pushed::Failed(_) => {
                    let jitter = jitter(&subscriber.connection, attempt, self.now);
                    tokio::time::sleep(RESEND.delay(attempt - 1, jitter)).await;
                    attempt += 1;
                }
            }
        }
    }

    fn may_be_opening(&self, subscriber: &Subscriber) -> bool {
        subscriber.since.is_some_and(|since| self.now < since.plus_secs(HANDSHAKE_GRACE_SECS))
    }

    async fn close(&self, delivery: &Delivery, reason: &str) {
        let connection = &delivery.subscriber.connection;
        tracing::info!(connection.id = %connection, "Dropped socket {connection}: {reason}");
        self.push.close(connection).await;
    }
}

/// From 0 to 1. It differs between sockets, because all sockets of a broadcast may be throttled together.
fn jitter(connection: &ConnectionId, attempt: u32, now: Timestamp) -> f64 {
    let mut hasher = DefaultHasher::new();
    (connection, attempt, now).hash(&mut hasher);
    f64::from(u32::try_from(hasher.finish() >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

enum Undelivered {
    /// The socket is still in its handshake.
    Opening,
    /// The socket does not exist or cannot be reached. The reason is for the log.
    Lost(String),
}

/// All frames for one socket.
struct Delivery {
    subscriber: Subscriber,
    /// Whether the token of the worker was replaced in the meantime.
    revoked: bool,
    realm: String,
    topics: BTreeSet<String>,
    frames: Vec<Arc<str>>,
}

async fn plan_deliveries(deps: Deps<'_>, records: &[ChangeRecord]) -> Result<Vec<Delivery>, Error> {
    let orgs: BTreeSet<&str> = records.iter().map(|record| record.org.as_str()).chain([EVERY_ORG]).collect();
    let versions = deps.store.subscription_versions(&orgs.into_iter().collect::<Vec<_>>()).await?;
    let mut deliveries: HashMap<ConnectionId, Delivery> = HashMap::new();
    for record in records {
        for event in &record.events {
            let recipients = recipients(deps, &versions, record, event).await?;
            if !recipients.is_empty() {
                add_frame(&mut deliveries, record, event, recipients);
            }
        }
    }
    Ok(deliveries.into_values().collect())
}

fn add_frame(
    deliveries: &mut HashMap<ConnectionId, Delivery>,
    record: &ChangeRecord,
    event: &Event,
    recipients: Vec<Recipient>,
) {
    let frame: Arc<str> = EventFrame::new(&record.entity, event).encode().into();
    for Recipient { realm, topic, subscriber } in recipients {
        let delivery = deliveries.entry(subscriber.connection.clone()).or_insert_with(|| Delivery {
            subscriber: subscriber.clone(),
            revoked: false,
            realm,
            topics: BTreeSet::new(),
            frames: Vec::new(),
        });
        delivery.revoked |= subscriber.generation.is_some_and(|own| u64::from(own) < record.generation);
        delivery.topics.insert(topic);
        delivery.frames.push(frame.clone());
    }
}

/// A subscriber of an event, and the subscription that matched.
struct Recipient {
    realm: String,
    topic: String,
    subscriber: Subscriber,
}

/// No socket is found twice: it subscribes in one realm and by one list of its filters, and an event has one topic
/// for each list.
async fn recipients(
    deps: Deps<'_>,
    versions: &HashMap<String, u64>,
    record: &ChangeRecord,
    event: &Event,
) -> Result<Vec<Recipient>, Error> {
    let name = normalized_name(event.event_type.as_str());
    let (entity_type, entity_id) = (record.entity.kind(), record.entity.id());
    let subject = Subject { event_name: &name, entity_type, entity_id };
    let mut found = Vec::new();
    for realm in [record.org.as_str(), EVERY_ORG] {
        let Some(version) = versions.get(realm).copied().filter(|version| *version > 0) else { continue };
        for topic in topics_of(subject) {
            let subscribers = deps.subscriptions.of(deps.store, realm, version, &topic).await?;
            let matching = subscribers.iter().filter(|subscriber| {
                subscriber.filters.matches(subject) && may_receive(subscriber, &record.entity)
            });
            found.extend(matching.map(|subscriber| Recipient {
                realm: realm.to_owned(),
                topic: topic.clone(),
                subscriber: subscriber.clone(),
            }));
        }
    }
    Ok(found)
}

/// A worker receives events of its sandbox only. Its filters name an id, and a task or ticket may have the same id.
fn may_receive(subscriber: &Subscriber, entity: &Entity) -> bool {
    let is_worker = subscriber.generation.is_some();
    !is_worker || matches!(entity, Entity::Sandbox(_))
}

/// A failure is only logged: the next broadcast finds the socket again.
async fn delete_socket(store: &Store, delivery: &Delivery) {
    let connection = &delivery.subscriber.connection;
    let closed = store.delete_connection(connection).await;
    let topics: Vec<String> = delivery.topics.iter().cloned().collect();
    let deleted = store.delete_subscriptions(&delivery.realm, &topics, connection).await;
    if let Err(error) = closed.and(deleted) {
        let reason = chain(&error);
        tracing::warn!(connection.id = %connection, "Could not delete socket {connection}: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_are_throttled_together_are_retried_at_different_times() {
        let now = Timestamp::from_secs(1);
        let delay = |socket: usize| {
            let connection = ConnectionId::parse(format!("c-{socket}")).unwrap();
            RESEND.delay(0, jitter(&connection, 1, now))
        };
        let delays: BTreeSet<Duration> = (0..20).map(delay).collect();
        assert!(delays.len() > 15, "{delays:?}");
    }
}
