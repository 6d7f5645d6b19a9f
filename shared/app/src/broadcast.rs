//! Tells sockets what was stored.
//!
//! Frames to one socket go in order, sockets side by side. A socket that cannot be reached is closed rather
//! than left with a hole: its client comes back, and asks for what it has missed.

use crate::error::Error;
use crate::subscriptions::Subscriptions;
use crate::{Clock, close_socket};
use contract::socket::{EventFrame, SANDBOX, bundle, error};
use domain::access::EVERY_ORG;
use domain::event::plain_name;
use domain::filter::{Subject, topics_of};
use domain::{ConnectionId, Event, Timestamp};
use futures_util::future::join_all;
use std::collections::{BTreeSet, HashMap};
use std::iter::Sum;
use std::ops::Add;
use std::sync::{Arc, Mutex};
use store::Store;
use store::connections::Subscriber;
use store::push::{Push, Pushed};
use store::record::News;
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
pub type Command = Vec<News>;

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Events that were told to somebody, counted for each.
    pub delivered: usize,
    /// Sockets that turned out to be gone, or were closed.
    pub dropped: usize,
}

impl Add for Outcome {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { delivered: self.delivered + other.delivered, dropped: self.dropped + other.dropped }
    }
}

impl Sum for Outcome {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// How many sockets each task tells at the same time.
const SIDE_BY_SIDE: usize = 64;
/// From so many sockets on the work is shared between the cores.
const WORTH_SHARING: usize = 16;
/// Between how many tasks. Lambda has as many cores as memory was paid for; most machines have at least two.
const ROUNDS: usize = 2;
/// How often a frame is tried before its socket is given up.
const MAX_TRIES: u32 = 3;

/// A repeat sends the same frames again; clients know them by their sequence number.
pub async fn run(deps: Deps<'_>, news: Command) -> Result<Outcome, Error> {
    let letters = address(deps, &news).await?;
    let carrier = Carrier { store: deps.store.clone(), push: deps.push.clone(), now: deps.clock.now() };
    if letters.len() < WORTH_SHARING {
        return Ok(carrier.carry(Arc::new(Mutex::new(letters))).await);
    }
    let letters = Arc::new(Mutex::new(letters));
    let mut rounds = JoinSet::new();
    for _ in 0..ROUNDS {
        rounds.spawn(carrier.clone().carry(letters.clone()));
    }
    Ok(rounds.join_all().await.into_iter().sum())
}

/// Takes letters to their sockets.
#[derive(Clone)]
struct Carrier {
    store: Store,
    push: Push,
    now: Timestamp,
}

impl Carrier {
    /// Takes letters until none is left. Several may do so at once, each with several lanes: a lane waits for its
    /// socket and for no other. (A lane, rather than a future for each letter: one that holds a call of the SDK is
    /// large to make.)
    async fn carry(self, letters: Arc<Mutex<Vec<Letter>>>) -> Outcome {
        let next = || letters.lock().expect("no code panics while it holds the letters").pop();
        let lanes = (0..SIDE_BY_SIDE).map_while(|_| next()).map(|first| async {
            let mut sum = deliver(&self, first).await;
            while let Some(letter) = next() {
                sum = sum + deliver(&self, letter).await;
            }
            sum
        });
        join_all(lanes).await.into_iter().sum()
    }
}

/// Everything that one socket is to be told.
struct Letter {
    subscriber: Subscriber,
    /// Whether its worker's token was replaced meanwhile.
    revoked: bool,
    realm: String,
    topics: BTreeSet<String>,
    frames: Vec<Arc<str>>,
}

async fn address(deps: Deps<'_>, news: &[News]) -> Result<Vec<Letter>, Error> {
    let orgs: BTreeSet<&str> = news.iter().map(|news| news.org.as_str()).chain([EVERY_ORG]).collect();
    let stamps = deps.store.stamps(&orgs.into_iter().collect::<Vec<_>>()).await?;
    let mut letters: HashMap<ConnectionId, Letter> = HashMap::new();
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
    letters: &mut HashMap<ConnectionId, Letter>,
    item: &News,
    event: &Event,
    recipients: Vec<Recipient>,
) {
    let frame: Arc<str> = EventFrame::new(&item.sandbox, event).encode().into();
    for Recipient { realm, topic, subscriber } in recipients {
        let letter = letters.entry(subscriber.connection.clone()).or_insert_with(|| Letter {
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
    item: &News,
    event: &Event,
) -> Result<Vec<Recipient>, Error> {
    let name = plain_name(event.event_type.as_str());
    let subject = Subject { event_name: &name, entity_type: SANDBOX, entity_id: item.sandbox.as_str() };
    let mut found = Vec::new();
    for realm in [item.org.as_str(), EVERY_ORG] {
        let Some(stamp) = stamps.get(realm).copied().filter(|stamp| *stamp > 0) else { continue };
        for topic in topics_of(subject) {
            let subscribers = deps.subscriptions.of(deps.store, realm, stamp, &topic).await?;
            let wanting = subscribers.iter().filter(|subscriber| subscriber.filters.matches(subject));
            found.extend(wanting.map(|subscriber| Recipient {
                realm: realm.to_owned(),
                topic: topic.clone(),
                subscriber: subscriber.clone(),
            }));
        }
    }
    Ok(found)
}

async fn deliver(carrier: &Carrier, letter: Letter) -> Outcome {
    let connection = &letter.subscriber.connection;
    if letter.subscriber.until.is_some_and(|until| until <= carrier.now) {
        carrier
            .push
            .send(connection, &error("token_expired", "Your token has expired; connect again."))
            .await;
        return drop_socket(carrier, &letter, "its token has expired").await;
    }
    if letter.revoked {
        carrier
            .push
            .send(connection, &error("unauthorized", "This worker token was replaced by a newer one."))
            .await;
        return drop_socket(carrier, &letter, "its token was replaced").await;
    }
    let count = letter.frames.len();
    let bundled;
    let frames: Vec<&str> = if letter.subscriber.batch && count > 1 {
        bundled = bundle(&letter.frames.iter().map(ToString::to_string).collect::<Vec<_>>());
        bundled.iter().map(String::as_str).collect()
    } else {
        letter.frames.iter().map(AsRef::as_ref).collect()
    };
    for frame in frames {
        match send(&carrier.push, connection, frame).await {
            Pushed::Sent => {}
            Pushed::Gone => return drop_socket(carrier, &letter, "it is gone").await,
            Pushed::Failed(why) => return drop_socket(carrier, &letter, &why).await,
        }
    }
    Outcome { delivered: count, dropped: 0 }
}

async fn send(push: &Push, connection: &ConnectionId, frame: &str) -> Pushed {
    let mut tries = 1;
    loop {
        match push.send(connection, frame).await {
            Pushed::Failed(_) if tries < MAX_TRIES => {
                tokio::time::sleep(std::time::Duration::from_millis(50 << tries)).await;
                tries += 1;
            }
            outcome => return outcome,
        }
    }
}

/// Whatever cannot be tidied up now is found gone the next time.
async fn drop_socket(carrier: &Carrier, letter: &Letter, why: &str) -> Outcome {
    let connection = &letter.subscriber.connection;
    tracing::info!(connection.id = %connection, "Dropped socket {connection}: {why}");
    carrier.push.close(connection).await;
    let forgotten = close_socket::run(
        close_socket::Deps { store: &carrier.store },
        close_socket::Command { connection: connection.clone() },
    )
    .await;
    let topics: Vec<String> = letter.topics.iter().cloned().collect();
    let pruned = carrier.store.drop_subscriptions(&letter.realm, &topics, connection).await;
    if let (Err(error), _) | (_, Err(error)) = (forgotten, pruned.map_err(Error::from)) {
        tracing::warn!(connection.id = %connection, %error, "Could not forget socket {connection}");
    }
    Outcome { delivered: 0, dropped: 1 }
}
