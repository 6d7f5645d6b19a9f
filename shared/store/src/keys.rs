//! The only file that spells a key. `infra/TABLE.md` lists what each is for.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{
    ConnectionId, Entity, MessageId, OrgId, ProjectId, SandboxId, SessionId, TaskId, TicketId, Timestamp,
    entity,
};
use serde_json::json;

/// Partition key attribute of the table.
pub const PK: &str = "PK";
/// Sort key attribute of the table.
pub const SK: &str = "SK";
/// Sandboxes of an org, newest first.
pub const BY_ORG: Index = Index { name: "ByOrg", pk: "ByOrgPK", sk: "ByOrgSK" };
/// All sandboxes, newest first: what an operator lists.
pub const BY_AGE: Index = Index { name: "ByAge", pk: "ByAgePK", sk: "ByAgeSK" };
/// When an item may go (seconds since 1970).
pub const TTL: &str = "expires_at_secs";

/// Marks segments that hold a turn of a life. The stream's filter for the event bus looks for it, since it cannot
/// look into a segment.
pub const LIFECYCLE: (&str, &str) = ("class", "lifecycle");

/// A global secondary index, with keys only: the heads are read from the table.
#[derive(Debug, Clone, Copy)]
pub struct Index {
    /// Its name.
    pub name: &'static str,
    /// Its partition key attribute.
    pub pk: &'static str,
    /// Its sort key attribute.
    pub sk: &'static str,
}

/// A key of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Partition.
    pub pk: String,
    /// Place in it.
    pub sk: String,
}

impl Key {
    fn new(pk: String, sk: impl Into<String>) -> Self {
        Self { pk, sk: sk.into() }
    }

    /// As attributes of an item or a request.
    pub fn attributes(self) -> [(String, AttributeValue); 2] {
        [(PK.to_owned(), AttributeValue::S(self.pk)), (SK.to_owned(), AttributeValue::S(self.sk))]
    }
}

const HEAD: &str = "HEAD";
const LISTING: &str = "LISTING";
const LOG: &str = "LOG#";
const PULSE: &str = "PULSE";

/// A sandbox's head.
pub fn sandbox(id: &SandboxId) -> Key {
    Key::new(sandbox_partition(id), HEAD)
}

/// The head of whatever has a log: its state, and where its log ends.
pub fn entity(entity: &Entity) -> Key {
    Key::new(partition(entity), HEAD)
}

/// What puts a sandbox into the lists. An item of its own, so that no write to the head touches an index.
pub fn listing(id: &SandboxId) -> Key {
    Key::new(sandbox_partition(id), LISTING)
}

/// The segment of a log that starts at a sequence number. Twelve digits: at 30,000 events a second they last for a
/// year.
pub fn segment(entity: &Entity, first_seq: u64) -> Key {
    Key::new(partition(entity), format!("{LOG}{first_seq:012}"))
}

/// What was last shown of a sandbox and not kept. There is hardly ever more than the first piece.
pub fn pulse(id: &SandboxId, piece: usize) -> Key {
    match piece {
        0 => Key::new(sandbox_partition(id), PULSE),
        more => Key::new(sandbox_partition(id), format!("{PULSE}#{more:04}")),
    }
}

/// Whether an item with this sort key is something to tell sockets of.
pub fn is_broadcast(sk: &str) -> bool {
    sk.starts_with(LOG) || sk.starts_with(PULSE)
}

/// Which records of the table's stream are news, as an event source's filter says it. Segments are put once; pulses
/// are overwritten.
pub fn broadcast_pattern() -> serde_json::Value {
    json!({
        "eventName": ["INSERT", "MODIFY"],
        "dynamodb": {"Keys": {SK: {"S": [{"prefix": LOG}, {"prefix": PULSE}]}}},
    })
}

/// Which records of the table's stream hold turns of a life.
pub fn lifecycle_pattern() -> serde_json::Value {
    let (name, value) = LIFECYCLE;
    json!({"eventName": ["INSERT"], "dynamodb": {"NewImage": {name: {"S": [value]}}}})
}

/// One piece of a large body.
pub fn body(id: &SandboxId, seq: u64, piece: usize) -> Key {
    Key::new(sandbox_partition(id), format!("{}{piece:04}", body_prefix(seq)))
}

/// What the sort keys of one event's body pieces start with.
pub fn body_prefix(seq: u64) -> String {
    format!("BODY#{seq:012}#")
}

/// The memory of an `Idempotency-Key`.
pub fn idempotency(id: &SandboxId, key: &str) -> Key {
    Key::new(sandbox_partition(id), format!("ONCE#{key}"))
}

/// A message to a sandbox's agent.
pub fn message(id: &SandboxId, message: &MessageId) -> Key {
    Key::new(sandbox_partition(id), format!("MESSAGE#{message}"))
}

/// A message's place in the history.
pub fn mail(id: &SandboxId, number: u64) -> Key {
    Key::new(sandbox_partition(id), format!("MAIL#{:012}", number.min(MAX_NUMBER)))
}

/// What the sort keys of messages start with that wait for a worker.
pub const WAITING: &str = "WAITING#";

/// A message's place among those that wait: urgent ones first, each kind by number.
pub fn waiting(id: &SandboxId, urgent: bool, number: u64) -> Key {
    let rank = if urgent { 0 } else { 1 };
    Key::new(sandbox_partition(id), format!("{WAITING}{rank}#{number:012}"))
}

/// The largest number that fits into a sort key.
pub const MAX_NUMBER: u64 = 999_999_999_999;

/// An agent's session.
pub fn session(id: &SessionId) -> Key {
    Key::new(format!("SESSION#{id}"), HEAD)
}

/// One piece of the entries of a session that start at a number. Those that are stored together and are small enough,
/// which nearly all are, have one.
pub fn entries(id: &SessionId, first: u64, piece: usize) -> Key {
    let first = format!("ENTRY#{:012}", first.min(MAX_NUMBER));
    let sk = if piece == 0 { first } else { format!("{first}#{piece:04}") };
    Key::new(session(id).pk, sk)
}

/// A task or ticket in the lists, as [`listing`] for sandboxes.
pub fn listing_of(entity: &Entity) -> Key {
    Key::new(partition(entity), LISTING)
}

/// A task's place among the tasks of its ticket.
pub fn task_of_ticket(ticket: &TicketId, created_at: Timestamp, task: &TaskId) -> Key {
    Key::new(partition(&Entity::Ticket(ticket.clone())), format!("{TASK_OF_TICKET}{created_at}#{task}"))
}

/// What the sort keys of a ticket's tasks start with.
pub const TASK_OF_TICKET: &str = "TASK#";

/// That one task waits for another, seen from the other.
pub fn blocks(task: &TaskId, waits: &TaskId) -> Key {
    Key::new(partition(&Entity::Task(task.clone())), format!("{BLOCKS}{waits}"))
}

/// What the sort keys of those that wait for a task start with.
pub const BLOCKS: &str = "BLOCKS#";

/// Where the tasks of an org stand that are ready.
pub fn queue_partition(org: &OrgId) -> String {
    format!("QUEUE#{org}")
}

/// A ready task's place: those of a project together, by rank.
pub fn ready(org: &OrgId, project: Option<&ProjectId>, rank: i64, task: &TaskId) -> Key {
    Key::new(queue_partition(org), format!("{}{:020}#{task}", ready_prefix(project), rank.max(0)))
}

/// What the sort keys of a project's ready tasks start with. No project is called `-`.
pub fn ready_prefix(project: Option<&ProjectId>) -> String {
    format!("{READY}{}#", project.map_or("-", ProjectId::as_str))
}

/// What the sort keys of ready tasks start with.
pub const READY: &str = "READY#";

/// A ready task's place among those with a deadline.
pub fn due(org: &OrgId, deadline_at: Timestamp, task: &TaskId) -> Key {
    Key::new(queue_partition(org), format!("{}#{task}", due_until(deadline_at)))
}

/// What the sort keys of ready tasks start with whose deadline is then. All earlier ones sort before it.
pub fn due_until(deadline_at: Timestamp) -> String {
    format!("{DUE}{:020}", deadline_at.as_micros().max(0))
}

/// What the sort keys of ready tasks with a deadline start with.
pub const DUE: &str = "DUE#";

/// How many tasks of an org are being worked on.
pub fn slots(org: &OrgId) -> Key {
    Key::new(queue_partition(org), "SLOTS")
}

/// The attribute of [`slots`] for a project.
pub fn project_slots(project: &ProjectId) -> String {
    format!("{PROJECT_SLOTS}{project}")
}

/// What the attributes of [`slots`] for projects start with.
pub const PROJECT_SLOTS: &str = "project#";

/// The attribute of [`slots`] that says where the next look at the queue begins.
pub const TURN: &str = "turn";

/// The attribute of [`slots`] that counts claims.
pub const CLAIMS: &str = "claims";

/// Moves whenever a dependency between existing tasks of an org is added.
pub fn graph(org: &OrgId) -> Key {
    Key::new(queue_partition(org), "GRAPH")
}

/// Something that has to be looked at every so often.
pub fn watched(watched: &Watched) -> Key {
    let (kind, id) = match watched {
        Watched::Entity(entity) => (entity.kind(), entity.id()),
        Watched::Ready(org, task) => {
            return Key::new(WATCHED.to_owned(), format!("{}{task}", watched_ready(org)));
        }
    };
    Key::new(WATCHED.to_owned(), format!("{kind}#{id}"))
}

/// What the sort keys of an org's ready tasks start with under [`WATCHED`].
fn watched_ready(org: &OrgId) -> String {
    format!("{WATCHED_READY}#{org}#")
}

/// Behind all ready tasks of an org under [`WATCHED`]: whoever has seen one has seen that there are some.
pub fn behind_ready_of(org: &OrgId) -> String {
    format!("{}~", watched_ready(org))
}

/// Where everything stands that has to be looked at every so often.
pub const WATCHED: &str = "WATCHED";
const WATCHED_READY: &str = "ready";

/// Something that has to be looked at every so often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// A sandbox that the plane made, a task that waits for a time, a ticket that waits for somebody.
    Entity(Entity),
    /// A task that stands in the queue of an org.
    Ready(OrgId, TaskId),
}

/// What a sort key under [`WATCHED`] is about.
pub fn watched_of(sk: &str) -> Option<Watched> {
    let (kind, id) = sk.split_once('#')?;
    let entity = match kind {
        entity::SANDBOX => Entity::Sandbox(SandboxId::parse(id).ok()?),
        entity::TASK => Entity::Task(TaskId::parse(id).ok()?),
        entity::TICKET => Entity::Ticket(TicketId::parse(id).ok()?),
        WATCHED_READY => {
            let (org, task) = id.split_once('#')?;
            return Some(Watched::Ready(OrgId::parse(org).ok()?, TaskId::parse(task).ok()?));
        }
        _ => return None,
    };
    Some(Watched::Entity(entity))
}

/// Since when the plane has been listening.
pub fn uptime() -> Key {
    Key::new("PLANE".to_owned(), "LISTENING")
}

/// What is known of a provider's health.
pub fn breaker(provider: &str) -> Key {
    Key::new(format!("PROVIDER#{provider}"), "BREAKER")
}

/// A socket.
pub fn connection(id: &ConnectionId) -> Key {
    Key::new(format!("CONNECTION#{id}"), "SOCKET")
}

/// A socket's subscription to a topic within a realm (an org, or every org).
pub fn subscription(realm: &str, topic: &str, id: &ConnectionId) -> Key {
    Key::new(topic_partition(realm, topic), format!("CONNECTION#{id}"))
}

/// Where the subscriptions to a topic stand.
pub fn topic_partition(realm: &str, topic: &str) -> String {
    format!("TOPIC#{realm}#{topic}")
}

/// The stamp of a realm: moves whenever a subscription in it does.
pub fn subscription_version(realm: &str) -> Key {
    Key::new(format!("REALM#{realm}"), "STAMP")
}

/// Where something stands in the indexes.
pub fn index_attributes(
    entity: &Entity,
    org: &OrgId,
    created_at: Timestamp,
) -> [(String, AttributeValue); 4] {
    let by_time = by_time(created_at, entity.id());
    [
        (BY_ORG.pk.to_owned(), AttributeValue::S(org_partition(entity.kind(), org))),
        (BY_ORG.sk.to_owned(), AttributeValue::S(by_time.clone())),
        (BY_AGE.pk.to_owned(), AttributeValue::S(age_partition(entity.kind()).to_owned())),
        (BY_AGE.sk.to_owned(), AttributeValue::S(by_time)),
    ]
}

/// Where something stands in a list of its kind, which is also where a page goes on behind it.
pub fn by_time(created_at: Timestamp, id: &str) -> String {
    format!("{created_at}#{id}")
}

/// The partition of [`BY_ORG`] for what an org has of a kind.
pub fn org_partition(kind: &str, org: &OrgId) -> String {
    match kind {
        entity::TASK => format!("TASKS#{org}"),
        entity::TICKET => format!("TICKETS#{org}"),
        _ => format!("ORG#{org}"),
    }
}

/// The partition of [`BY_AGE`] for a kind.
pub fn age_partition(kind: &str) -> &'static str {
    match kind {
        entity::TASK => "TASKS",
        entity::TICKET => "TICKETS",
        _ => "SANDBOXES",
    }
}

/// Where everything about one entity stands.
pub fn partition(entity: &Entity) -> String {
    let kind = match entity {
        Entity::Sandbox(_) => SANDBOX,
        Entity::Task(_) => TASK,
        Entity::Ticket(_) => TICKET,
    };
    format!("{kind}#{}", entity.id())
}

/// The entity that a partition key belongs to.
pub fn entity_of(pk: &str) -> Option<Entity> {
    let (kind, id) = pk.split_once('#')?;
    match kind {
        SANDBOX => SandboxId::parse(id).map(Entity::Sandbox).ok(),
        TASK => TaskId::parse(id).map(Entity::Task).ok(),
        TICKET => TicketId::parse(id).map(Entity::Ticket).ok(),
        _ => None,
    }
}

/// The id that an index sort key ends in.
pub fn id_in_index(sk: &str) -> Option<&str> {
    Some(sk.split_once('#')?.1)
}

fn sandbox_partition(id: &SandboxId) -> String {
    format!("{SANDBOX}#{id}")
}

const SANDBOX: &str = "SANDBOX";
const TASK: &str = "TASK";
const TICKET: &str = "TICKET";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_sort_by_number_and_are_found_by_partition() {
        let id = SandboxId::parse("s-1").unwrap();
        let entity = Entity::Sandbox(id.clone());
        let mut keys: Vec<_> = [100, 9, 20_000, 1].map(|seq| segment(&entity, seq).sk).into();
        keys.sort();
        assert_eq!(keys, [1, 9, 100, 20_000].map(|seq| segment(&entity, seq).sk));
        assert!(keys.iter().all(|sk| is_broadcast(sk)));
        assert!(!is_broadcast(&sandbox(&id).sk) && !is_broadcast(&body(&id, 1, 0).sk));
        assert!(is_broadcast(&pulse(&id, 0).sk) && is_broadcast(&pulse(&id, 1).sk));
        assert_eq!((self::entity(&entity), segment(&entity, 7).pk), (sandbox(&id), sandbox(&id).pk));
    }

    #[test]
    fn entities_of_one_id_stand_apart_and_each_is_found_by_its_partition() {
        let entities = [
            Entity::Sandbox(SandboxId::parse("x-1").unwrap()),
            Entity::Task(TaskId::parse("x-1").unwrap()),
            Entity::Ticket(TicketId::parse("x-1").unwrap()),
        ];
        let partitions = entities.each_ref().map(partition);
        assert_eq!(partitions, ["SANDBOX#x-1", "TASK#x-1", "TICKET#x-1"]);
        assert_eq!(partitions.map(|pk| entity_of(&pk)), entities.map(Some));
        for other in ["SESSION#x-1", "TASK#", "TASK", "TASK#a#b", "x-1"] {
            assert_eq!(entity_of(other), None, "{other}");
        }
    }

    #[test]
    fn entries_sort_by_number_and_then_by_piece() {
        let id = SessionId::parse("c0ffee").unwrap();
        let places = [(1, 0), (9, 0), (9, 1), (9, 10), (10, 0), (20_000, 0), (u64::MAX, 0)];
        let mut keys: Vec<_> = places.map(|(first, piece)| entries(&id, first, piece).sk).into();
        keys.reverse();
        keys.sort();
        assert_eq!(keys, places.map(|(first, piece)| entries(&id, first, piece).sk));
        assert!(keys.iter().all(|sk| !is_broadcast(sk)));
    }

    #[test]
    fn urgent_messages_sort_first() {
        let id = SandboxId::parse("s-1").unwrap();
        let mut waiting: Vec<_> = [(false, 9), (true, 100), (false, 20_000), (true, 8)]
            .map(|(urgent, n)| waiting(&id, urgent, n).sk)
            .into();
        waiting.sort();
        let ends: Vec<_> = waiting.iter().map(|sk| sk.trim_start_matches(WAITING)).collect();
        assert_eq!(ends, ["0#000000000008", "0#000000000100", "1#000000000009", "1#000000020000"]);
    }
}
