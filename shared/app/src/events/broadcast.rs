//! Tells sockets what was stored.
//!
//! Frames to one socket go in order, sockets side by side. A socket that cannot be reached is closed rather
//! than left with a hole: its client comes back, and asks for what it has missed.

use crate::error::{Error, chain};
use crate::sockets::subscriptions::Subscriptions;
use crate::{Clock, sockets};
use contract::socket::{EventFrame, bundle, error};
use domain::access::EVERY_ORG;
use domain::event::plain_name;
use domain::filter::{Subject, topics_of};
use domain::{ConnectionId, Entity, Event, Timestamp};
use futures_util::future::join_all;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::Store;
use store::connections::Subscriber;
use store::push::{Push, Pushed};
use store::record::ChangeRecord;
use tokio::task::JoinSet;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads stamps and subscriptions; forgets sockets that are gone.
    pub store: &'a Store,
    /// Sends to sockets.
    pub push: &'a Push,
    /// What this process remembers of subscriptions.
    pub subscriptions: &'a Subscriptions,
    /// The time.
    pub clock: &'a dyn Clock,
}

/// What is to be told, in the order in which it was stored.
pub type Command = Vec<ChangeRecord>;

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Events that were told to somebody, counted for each.
    pub delivered: usize,
    /// Sockets that turned out to be gone, or were closed.
    pub dropped: usize,
}

/// How many sockets each task tells at the same time.
const SIDE_BY_SIDE: usize = 64;
/// From so many sockets on the work is shared between the cores.
const WORTH_SHARING: usize = 16;
/// Between how many tasks. Lambda has as many cores as memory was paid for; most machines have at least two.
const ROUNDS: usize = 2;
/// How often a frame is tried before its socket is given up.
const MAX_TRIES: u32 = 3;

/// So long a socket may take to open. Its subscription is stored before its handshake ends, and until then API Gateway
/// says of it that it is gone.
pub const OPENING_SECS: i64 = 10;

/// How many lost sockets are forgotten in one go: the news behind this must not wait for more. The others are found
/// gone again the next time, which costs little.
const MAX_FORGOTTEN: usize = 50;

/// A repeat sends the same frames again; clients know them by their sequence number.
pub async fn run(deps: Deps<'_>, news: Command) -> Result<Outcome, Error> {
    let letters = address(deps, &news).await?;
    let carrier = Carrier { push: deps.push.clone(), now: deps.clock.now() };
    let shared = letters.len() >= WORTH_SHARING;
    let letters = Arc::new(Mutex::new(letters));
    let carried = if shared {
        let mut rounds = JoinSet::new();
        for _ in 0..ROUNDS {
            rounds.spawn(carrier.clone().carry(letters.clone()));
        }
        rounds.join_all().await
    } else {
        vec![carrier.carry(letters).await]
    };
    let delivered = carried.iter().map(|carried| carried.delivered).sum();
    let lost: Vec<Delivery> = carried.into_iter().flat_map(|carried| carried.lost).collect();
    // Only now: whoever is there has been told before anybody tidies up behind those who are not.
    for letter in lost.iter().take(MAX_FORGOTTEN) {
        forget(deps.store, letter).await;
    }
    Ok(Outcome { delivered, dropped: lost.len() })
}

/// Takes letters to their sockets.
#[derive(Clone)]
struct Carrier {
    push: Push,
    now: Timestamp,
}

/// What became of some letters.
#[derive(Default)]
struct Carried {
    delivered: usize,
    lost: Vec<Delivery>,
}

impl Carrier {
    /// Takes letters until none is left. Several may do so at once, each with several lanes: a lane waits for its
    /// socket and for no other. (A lane, rather than a future for each letter: one that holds a call of the SDK is
    /// large to make.)
    async fn carry(self, letters: Arc<Mutex<Vec<Delivery>>>) -> Carried {
        let next = || letters.lock().expect("no code panics while it holds the letters").pop();
        let lanes = (0..SIDE_BY_SIDE).map_while(|_| next()).map(|first| async {
            let (mut carried, mut letter) = (Carried::default(), Some(first));
            while let Some(current) = letter {
                match self.deliver(&current).await {
                    Ok(()) => carried.delivered += current.frames.len(),
                    // Its client fetches what it has missed once the handshake is done; forgotten, it would never be told
                    // anything again.
                    Err(Undelivered::Opening) => {}
                    Err(Undelivered::Lost(why)) => {
                        self.give_up(&current, &why).await;
                        carried.lost.push(current);
                    }
                }
                letter = next();
            }
            carried
        });
        join_all(lanes).await.into_iter().fold(Carried::default(), |mut sum, one| {
            sum.delivered += one.delivered;
            sum.lost.extend(one.lost);
            sum
        })
    }

    async fn deliver(&self, letter: &Delivery) -> Result<(), Undelivered> {
        let connection = &letter.subscriber.connection;
        let refusal = if letter.subscriber.until.is_some_and(|until| until <= self.now) {
            Some(("token_expired", "Your token has expired; connect again."))
        } else if letter.revoked {
            Some(("unauthorized", "This worker token was replaced by a newer one."))
        } else {
            None
        };
        if let Some((code, sentence)) = refusal {
            self.push.send(connection, &error(code, sentence)).await;
            return Err(Undelivered::Lost(code.to_owned()));
        }
        if letter.subscriber.batch && letter.frames.len() > 1 {
            for frame in bundle(&letter.frames) {
                self.send(&letter.subscriber, &frame).await?;
            }
        } else {
            for frame in &letter.frames {
                self.send(&letter.subscriber, frame).await?;
            }
        }
        Ok(())
    }

    async fn send(&self, subscriber: &Subscriber, frame: &str) -> Result<(), Undelivered> {
        let mut tries = 1;
        loop {
            match self.push.send(&subscriber.connection, frame).await {
                Pushed::Sent => return Ok(()),
                Pushed::Gone if self.may_be_opening(subscriber) => return Err(Undelivered::Opening),
                Pushed::Gone => return Err(Undelivered::Lost("it is gone".into())),
                Pushed::Failed(why) if tries == MAX_TRIES => return Err(Undelivered::Lost(why)),
                Pushed::Failed(_) => {
                    tokio::time::sleep(Duration::from_millis(50 << tries)).await;
                    tries += 1;
                }
            }
        }
    }

    fn may_be_opening(&self, subscriber: &Subscriber) -> bool {
        subscriber.since.is_some_and(|since| self.now < since.plus_secs(OPENING_SECS))
    }

    async fn give_up(&self, letter: &Delivery, why: &str) {
        let connection = &letter.subscriber.connection;
        tracing::info!(connection.id = %connection, "Dropped socket {connection}: {why}");
        self.push.close(connection).await;
    }
}

/// Why a letter did not arrive.
enum Undelivered {
    /// Its socket is not open yet.
    Opening,
    /// Its socket is gone or cannot be reached; the words say why.
    Lost(String),
}

/// Everything that one socket is to be told.
struct Delivery {
    subscriber: Subscriber,
    /// Whether its worker's token was replaced meanwhile.
    revoked: bool,
    realm: String,
    topics: BTreeSet<String>,
    frames: Vec<Arc<str>>,
}

async fn address(deps: Deps<'_>, news: &[ChangeRecord]) -> Result<Vec<Delivery>, Error> {
    let orgs: BTreeSet<&str> = news.iter().map(|news| news.org.as_str()).chain([EVERY_ORG]).collect();
    let stamps = deps.store.subscription_versions(&orgs.into_iter().collect::<Vec<_>>()).await?;
    let mut letters: HashMap<ConnectionId, Delivery> = HashMap::new();
    for item in news {
        for event in &item.events {
            let recipients = recipients(deps, &stamps, item, event).await?;
            if !recipients.is_empty() {
                write(&mut letters, item, event, recipients);
            }
        }
    }
    Ok(letters.into_values().collect())
}

fn write(
    letters: &mut HashMap<ConnectionId, Delivery>,
    item: &ChangeRecord,
    event: &Event,
    recipients: Vec<Recipient>,
) {
    let frame: Arc<str> = EventFrame::new(&item.entity, event).encode().into();
    for Recipient { realm, topic, subscriber } in recipients {
        let letter = letters.entry(subscriber.connection.clone()).or_insert_with(|| Delivery {
            subscriber: subscriber.clone(),
            revoked: false,
            realm,
            topics: BTreeSet::new(),
            frames: Vec::new(),
        });
        letter.revoked |= subscriber.generation.is_some_and(|own| u64::from(own) < item.generation);
        letter.topics.insert(topic);
        letter.frames.push(frame.clone());
    }
}

/// One who wants an event, and where they were found.
struct Recipient {
    realm: String,
    topic: String,
    subscriber: Subscriber,
}

/// Nobody is found twice: a socket subscribes in one realm and by one list of its filters, and an event has one
/// topic for each.
async fn recipients(
    deps: Deps<'_>,
    stamps: &HashMap<String, u64>,
    item: &ChangeRecord,
    event: &Event,
) -> Result<Vec<Recipient>, Error> {
    let name = plain_name(event.event_type.as_str());
    let (entity_type, entity_id) = (item.entity.kind(), item.entity.id());
    let subject = Subject { event_name: &name, entity_type, entity_id };
    let mut found = Vec::new();
    for realm in [item.org.as_str(), EVERY_ORG] {
        let Some(stamp) = stamps.get(realm).copied().filter(|stamp| *stamp > 0) else { continue };
        for topic in topics_of(subject) {
            let subscribers = deps.subscriptions.of(deps.store, realm, stamp, &topic).await?;
            let wanting = subscribers.iter().filter(|subscriber| {
                subscriber.filters.matches(subject) && may_hear(subscriber, &item.entity)
            });
            found.extend(wanting.map(|subscriber| Recipient {
                realm: realm.to_owned(),
                topic: topic.clone(),
                subscriber: subscriber.clone(),
            }));
        }
    }
    Ok(found)
}

/// A worker hears of its sandbox only. Its filters name an id, and a task or ticket may have the same.
fn may_hear(subscriber: &Subscriber, entity: &Entity) -> bool {
    let is_worker = subscriber.generation.is_some();
    !is_worker || matches!(entity, Entity::Sandbox(_))
}

/// Whatever cannot be tidied up now is found gone the next time.
async fn forget(store: &Store, letter: &Delivery) {
    let connection = &letter.subscriber.connection;
    let command = sockets::close::Command { connection: connection.clone() };
    let forgotten = sockets::close::run(sockets::close::Deps { store }, command).await;
    let topics: Vec<String> = letter.topics.iter().cloned().collect();
    let pruned = store.drop_subscriptions(&letter.realm, &topics, connection).await.map_err(Error::from);
    if let Err(error) = forgotten.and(pruned) {
        let why = chain(&error);
        tracing::warn!(connection.id = %connection, "Could not forget socket {connection}: {why}");
    }
}
