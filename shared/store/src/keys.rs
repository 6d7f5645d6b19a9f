//! The only file that spells a key. `infra/TABLE.md` describes each of them.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{
    ConnectionId, Entity, MessageId, OrgId, ProjectId, SandboxId, SessionId, TaskId, TicketId, Timestamp,
    entity,
};
use serde_json::json;

pub const PK: &str = "PK";
pub const SK: &str = "SK";
/// Entities of an org, newest first.
pub const BY_ORG: Index = Index { name: "ByOrg", pk: "ByOrgPK", sk: "ByOrgSK" };
/// Entities of all orgs, newest first. Only operators list these.
pub const BY_AGE: Index = Index { name: "ByAge", pk: "ByAgePK", sk: "ByAgeSK" };
/// Time to live, in seconds since 1970.
pub const TTL: &str = "expires_at_secs";

/// Marks segments that hold a lifecycle event. The stream filter for the event bus matches on it because a filter
/// cannot inspect packed content.
pub const LIFECYCLE: (&str, &str) = ("class", "lifecycle");

/// A global secondary index that projects keys only. The items are read from the table.
#[derive(Debug, Clone, Copy)]
pub struct Index {
    pub name: &'static str,
    pub pk: &'static str,
    pub sk: &'static str,
}

/// A key of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub pk: String,
    pub sk: String,
}

impl Key {
    fn new(pk: String, sk: impl Into<String>) -> Self {
        Self { pk, sk: sk.into() }
    }

    pub fn attributes(self) -> [(String, AttributeValue); 2] {
        [(PK.to_owned(), AttributeValue::S(self.pk)), (SK.to_owned(), AttributeValue::S(self.sk))]
    }
}

const STATE: &str = "STATE";
const LISTING: &str = "LISTING";
const LOG: &str = "LOG#";
const EPHEMERAL: &str = "EPHEMERAL";

pub fn sandbox(id: &SandboxId) -> Key {
    Key::new(sandbox_partition(id), STATE)
}

/// The state of an entity with a log, including the end of that log.
pub fn entity(entity: &Entity) -> Key {
    Key::new(partition(entity), STATE)
}

/// The item that lists a sandbox in the indexes. Separate from its state, so that writing the state never updates an
/// index.
pub fn listing(id: &SandboxId) -> Key {
    Key::new(sandbox_partition(id), LISTING)
}

/// The segment of a log that starts at a sequence number. Twelve digits last for a year at 30,000 events a second.
pub fn segment(entity: &Entity, first_seq: u64) -> Key {
    Key::new(partition(entity), format!("{LOG}{first_seq:012}"))
}

/// The latest ephemeral events of a sandbox. They rarely need more than one piece.
pub fn ephemeral(id: &SandboxId, piece: usize) -> Key {
    match piece {
        0 => Key::new(sandbox_partition(id), EPHEMERAL),
        _ => Key::new(sandbox_partition(id), format!("{EPHEMERAL}#{piece:04}")),
    }
}

/// Whether an item with this sort key holds events that are broadcast to sockets.
pub fn is_broadcast(sk: &str) -> bool {
    sk.starts_with(LOG) || sk.starts_with(EPHEMERAL)
}

/// The event source filter that selects stream records with events. Segments are inserted once; ephemeral events are
/// overwritten.
pub fn broadcast_pattern() -> serde_json::Value {
    json!({
        "eventName": ["INSERT", "MODIFY"],
        "dynamodb": {"Keys": {SK: {"S": [{"prefix": LOG}, {"prefix": EPHEMERAL}]}}},
    })
}

/// The event source filter that selects stream records with lifecycle events.
pub fn lifecycle_pattern() -> serde_json::Value {
    let (name, value) = LIFECYCLE;
    json!({"eventName": ["INSERT"], "dynamodb": {"NewImage": {name: {"S": [value]}}}})
}

pub fn body(id: &SandboxId, seq: u64, piece: usize) -> Key {
    Key::new(sandbox_partition(id), format!("{}{piece:04}", body_prefix(seq)))
}

/// Prefix of the sort keys of an event's body pieces.
pub fn body_prefix(seq: u64) -> String {
    format!("BODY#{seq:012}#")
}

/// A piece of a body that is stored under a hash of its content.
pub fn detached_body(id: &SandboxId, digest: &str, piece: usize) -> Key {
    Key::new(sandbox_partition(id), format!("{}{piece:04}", detached_body_prefix(digest)))
}

/// Prefix of the sort keys of the pieces of a detached body.
pub fn detached_body_prefix(digest: &str) -> String {
    format!("DETACHED#{digest}#")
}

/// A part of a piece of a file of the workspace, which is stored under the hash of the file.
pub fn kept_piece(id: &SandboxId, sha256: &str, piece: u64, part: usize) -> Key {
    Key::new(sandbox_partition(id), format!("{}{part:02}", kept_piece_prefix(sha256, piece)))
}

/// Prefix of the sort keys of the parts of a piece.
pub fn kept_piece_prefix(sha256: &str, piece: u64) -> String {
    format!("WORKSPACE#{sha256}#{piece:06}#")
}

/// The kept work of an attempt at a task.
pub fn kept_work(task: &TaskId, attempt: u32) -> Key {
    Key::new(partition(&Entity::Task(task.clone())), format!("{KEPT_WORK}{attempt:010}"))
}

/// Prefix of the sort keys of a task's kept work.
pub const KEPT_WORK: &str = "WORKSPACE#";

/// The record of a used `Idempotency-Key`.
pub fn idempotency(id: &SandboxId, key: &str) -> Key {
    Key::new(sandbox_partition(id), format!("IDEMPOTENCY#{key}"))
}

pub fn message(id: &SandboxId, message: &MessageId) -> Key {
    Key::new(sandbox_partition(id), format!("MESSAGE#{message}"))
}

/// A message's position in the history.
pub fn message_history(id: &SandboxId, number: u64) -> Key {
    Key::new(sandbox_partition(id), format!("HISTORY#{:012}", number.min(MAX_NUMBER)))
}

/// Prefix of the sort keys of messages that no worker has confirmed.
pub const WAITING: &str = "WAITING#";

/// A message's position in the mailbox: urgent messages first, then by number.
pub fn waiting(id: &SandboxId, urgent: bool, number: u64) -> Key {
    let rank = if urgent { 0 } else { 1 };
    Key::new(sandbox_partition(id), format!("{WAITING}{rank}#{number:012}"))
}

/// Maximum number that fits into a sort key.
pub const MAX_NUMBER: u64 = 999_999_999_999;

pub fn session(id: &SessionId) -> Key {
    Key::new(format!("SESSION#{id}"), STATE)
}

/// One piece of the chunk of session entries that starts at a number. Nearly all chunks fit into one piece.
pub fn entries(id: &SessionId, first: u64, piece: usize) -> Key {
    let first = format!("ENTRY#{:012}", first.min(MAX_NUMBER));
    let sk = if piece == 0 { first } else { format!("{first}#{piece:04}") };
    Key::new(session(id).pk, sk)
}

/// As [`listing`], for tasks and tickets.
pub fn listing_of(entity: &Entity) -> Key {
    Key::new(partition(entity), LISTING)
}

/// A task in the list of its ticket's tasks.
pub fn task_of_ticket(ticket: &TicketId, created_at: Timestamp, task: &TaskId) -> Key {
    Key::new(partition(&Entity::Ticket(ticket.clone())), format!("{TASK_OF_TICKET}{created_at}#{task}"))
}

/// Prefix of the sort keys of a ticket's tasks.
pub const TASK_OF_TICKET: &str = "TASK#";

/// The edge from a task to a dependent task that waits for it.
pub fn blocks(task: &TaskId, dependent: &TaskId) -> Key {
    Key::new(partition(&Entity::Task(task.clone())), format!("{BLOCKS}{dependent}"))
}

/// Prefix of the sort keys of a task's dependents.
pub const BLOCKS: &str = "BLOCKS#";

pub fn queue_partition(org: &OrgId) -> String {
    format!("QUEUE#{org}")
}

/// A ready task in its org's queue, sorted by project and then by rank.
pub fn ready(org: &OrgId, project: Option<&ProjectId>, rank: i64, task: &TaskId) -> Key {
    Key::new(queue_partition(org), format!("{}{:020}#{task}", ready_prefix(project), rank.max(0)))
}

/// Prefix of the sort keys of a project's ready tasks. No project is called `-`.
pub fn ready_prefix(project: Option<&ProjectId>) -> String {
    format!("{READY}{}#", project.map_or("-", ProjectId::as_str))
}

/// Prefix of the sort keys of ready tasks.
pub const READY: &str = "READY#";

/// A ready task in its org's queue, sorted by deadline.
pub fn due(org: &OrgId, deadline_at: Timestamp, task: &TaskId) -> Key {
    Key::new(queue_partition(org), format!("{}#{task}", due_until(deadline_at)))
}

/// Prefix of the sort keys of ready tasks with this deadline. Earlier deadlines sort before it.
pub fn due_until(deadline_at: Timestamp) -> String {
    format!("{DUE}{:020}", deadline_at.as_micros().max(0))
}

/// Prefix of the sort keys of ready tasks with a deadline.
pub const DUE: &str = "DUE#";

/// The number of active tasks of an org.
pub fn slots(org: &OrgId) -> Key {
    Key::new(queue_partition(org), "SLOTS")
}

/// The attribute of [`slots`] for a project.
pub fn project_slots(project: &ProjectId) -> String {
    format!("{PROJECT_SLOTS}{project}")
}

/// Prefix of the attributes of [`slots`] for projects.
pub const PROJECT_SLOTS: &str = "project#";

/// The attribute of [`slots`] that holds the position where the next queue scan starts.
pub const QUEUE_CURSOR: &str = "queue_cursor";

/// The attribute of [`slots`] that counts claims.
pub const CLAIMS: &str = "claims";

/// The version of an org's dependency graph. It increments when a dependency between existing tasks is added.
pub fn graph(org: &OrgId) -> Key {
    Key::new(queue_partition(org), "GRAPH")
}

/// An entry of the list that sweeps go through.
pub fn watched(watched: &Watched) -> Key {
    let (kind, id) = match watched {
        Watched::Entity(entity) => (entity.kind(), entity.id()),
        Watched::Ready(org, task) => {
            return Key::new(WATCHED.to_owned(), format!("{}{task}", watched_ready(org)));
        }
    };
    Key::new(WATCHED.to_owned(), format!("{kind}#{id}"))
}

/// Prefix of the sort keys of an org's ready tasks under [`WATCHED`].
fn watched_ready(org: &OrgId) -> String {
    format!("{WATCHED_READY}#{org}#")
}

/// The position behind all ready tasks of an org under [`WATCHED`]. A sweep needs only one of them.
pub fn after_ready_of(org: &OrgId) -> String {
    format!("{}~", watched_ready(org))
}

/// Partition of the list that sweeps go through.
pub const WATCHED: &str = "WATCHED";
const WATCHED_READY: &str = "ready";

/// What a sweep has to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// A sandbox that the plane provisioned, a task that waits for a time, a ticket that waits for approval.
    Entity(Entity),
    /// A task in the queue of an org.
    Ready(OrgId, TaskId),
}

/// Parses a sort key under [`WATCHED`].
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

pub fn uptime() -> Key {
    Key::new("PLANE".to_owned(), "UPTIME")
}

/// The circuit breaker of a provider.
pub fn breaker(provider: &str) -> Key {
    Key::new(format!("PROVIDER#{provider}"), "BREAKER")
}

/// The claim of a task on a branch of a repository.
pub fn branch_claim(repository: &str, branch: &str) -> Key {
    Key::new(format!("REPOSITORY#{repository}"), format!("BRANCH#{branch}"))
}

/// The task of a pull request.
pub fn pull_request(repository: &str, number: u64) -> Key {
    Key::new(format!("REPOSITORY#{repository}"), format!("PULL#{number:012}"))
}

/// A webhook that has arrived.
pub fn delivery(sender: &str, id: &str) -> Key {
    Key::new(format!("WEBHOOK#{sender}#{id}"), "DELIVERY")
}

/// What was granted within a minute to those that share a quota: an org, a user, …
pub fn quota(kind: &str, id: &str, minute: i64) -> Key {
    Key::new(format!("QUOTA#{kind}#{id}"), format!("MINUTE#{minute:012}"))
}

pub fn connection(id: &ConnectionId) -> Key {
    Key::new(format!("CONNECTION#{id}"), "SOCKET")
}

/// A socket's subscription to a topic within a realm (an org, or all orgs).
pub fn subscription(realm: &str, topic: &str, id: &ConnectionId) -> Key {
    Key::new(topic_partition(realm, topic), format!("CONNECTION#{id}"))
}

pub fn topic_partition(realm: &str, topic: &str) -> String {
    format!("TOPIC#{realm}#{topic}")
}

/// The subscription version of a realm. It increments whenever a subscription in the realm changes.
pub fn subscription_version(realm: &str) -> Key {
    Key::new(format!("REALM#{realm}"), "SUBSCRIPTIONS")
}

/// The index attributes of a listing.
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

/// The position of an entity in the lists that are sorted by creation time.
pub fn by_time(created_at: Timestamp, id: &str) -> String {
    format!("{created_at}#{id}")
}

/// The partition of [`BY_ORG`] for an org's entities of a kind.
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

/// The partition that holds all items of an entity.
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
#[path = "keys_tests.rs"]
mod tests;
