//! In-memory SQS: the job queues, and FIFO queues that are created and deleted by calls.
//!
//! Nothing is durable. The sweep enqueues lost jobs again, and the ledger in the table delivers the messages of FIFO queues
//! that are lost.
//!
//! Deliberately absent: other standard queues, batches, message attributes. Unused operations and fields are rejected
//! by name, because ignoring them would hide a difference from AWS.

mod attributes;
mod limits;
mod queue;
mod refusal;
mod request;
#[cfg(test)]
mod tests;

use super::connector::Reply;
use app::IdSource;
use app::ids::RandomIds;
use attributes::Attributes;
use queue::{NewMessage, Queue, Received};
use refusal::Refusal;
use request::{
    ChangeMessageVisibility, CreateQueue, DeleteMessage, DeleteQueue, GetQueueAttributes, ListQueueTags,
    ListQueues, ReceiveMessage, SendMessage, read,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// A message of a job queue.
#[derive(Debug)]
pub struct JobMessage {
    pub id: String,
    pub body: String,
}

/// Messages of the job queues, after their delay.
pub type JobMessages = mpsc::UnboundedReceiver<JobMessage>;

#[derive(Debug)]
pub(super) struct Sqs {
    jobs: mpsc::UnboundedSender<JobMessage>,
    queues: Mutex<Queues>,
    closed: watch::Sender<bool>,
}

/// Queues whose messages are delivered without `ReceiveMessage`, as Lambda does with an event source mapping.
const JOB_QUEUES: [&str; 2] = ["socket-jobs", "orchestration-jobs"];

/// The last segment of a queue URL.
pub(super) fn queue_name(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

#[derive(Debug, Default)]
struct Queues {
    existing: BTreeMap<String, WatchedQueue>,
    deleted: HashMap<String, Instant>,
}

#[derive(Debug)]
struct WatchedQueue {
    queue: Queue,
    /// Wakes long polls. Dropped with the queue.
    changed: watch::Sender<()>,
    tags: BTreeMap<String, String>,
}

/// How long the name of a deleted queue cannot be reused:
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html>
const NAME_REUSE_DELAY: Duration = Duration::from_secs(60);

/// The result of one poll, and what to wait for if it is empty.
struct Poll {
    messages: Vec<Received>,
    changed: watch::Receiver<()>,
    visible_at: Option<Instant>,
}

impl Sqs {
    pub(super) fn new() -> (Self, JobMessages) {
        let (jobs, receiver) = mpsc::unbounded_channel();
        (Self { jobs, queues: Mutex::default(), closed: watch::Sender::new(false) }, receiver)
    }

    /// Ends all long polls, now and from now on.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    pub(super) async fn call(&self, operation: &str, body: &[u8]) -> Reply {
        match self.execute(operation, body).await {
            Ok(result) => Reply::json(200, &result),
            Err(refusal) => refusal.reply(),
        }
    }

    async fn execute(&self, operation: &str, body: &[u8]) -> Result<Value, Refusal> {
        match operation {
            "CreateQueue" => self.create(&read(body)?),
            "DeleteQueue" => self.delete_queue(&read(body)?),
            "GetQueueAttributes" => self.attributes(&read(body)?),
            "SendMessage" => self.send(read(body)?),
            "ReceiveMessage" => self.receive(read(body)?).await,
            "ListQueues" => Ok(self.list(&read(body)?)),
            "ListQueueTags" => self.tags(&read(body)?),
            "DeleteMessage" => self.delete(&read(body)?),
            "ChangeMessageVisibility" => self.change_visibility(&read(body)?),
            _ => Err(Refusal::Malformed(format!("{operation} is not supported by the in-process AWS"))),
        }
    }

    fn create(&self, request: &CreateQueue) -> Result<Value, Refusal> {
        let name = limits::name(&request.queue_name)?;
        let attributes = Attributes::parse(&request.attributes)?;
        let mut queues = self.queues();
        queues.purge(Instant::now());
        match queues.existing.get(name) {
            Some(existing) if existing.queue.attributes.include(&request.attributes) => {}
            Some(_) => return Err(Refusal::NameExists),
            None if queues.deleted.contains_key(name) => return Err(Refusal::DeletedRecently),
            None => {
                let queue = WatchedQueue {
                    queue: Queue::new(attributes),
                    changed: watch::Sender::default(),
                    tags: request.tags.clone(),
                };
                queues.existing.insert(name.to_owned(), queue);
            }
        }
        Ok(json!({"QueueUrl": url(name)}))
    }

    /// In pages: the token is the last name of a page.
    fn list(&self, request: &ListQueues) -> Value {
        let queues = self.queues();
        let after = request.next_token.as_deref().unwrap_or_default();
        let mut names = queues
            .existing
            .keys()
            .filter(|name| name.starts_with(&request.queue_name_prefix) && name.as_str() > after);
        let page: Vec<&String> = names.by_ref().take(request.max_results.unwrap_or(1000)).collect();
        let more = names.next().is_some();
        let urls: Vec<String> = page.iter().map(|name| url(name)).collect();
        json!({"QueueUrls": urls, "NextToken": page.last().filter(|_| more)})
    }

    fn tags(&self, request: &ListQueueTags) -> Result<Value, Refusal> {
        Ok(json!({"Tags": self.queues().find(&request.queue_url)?.tags}))
    }

    fn delete_queue(&self, request: &DeleteQueue) -> Result<Value, Refusal> {
        let mut queues = self.queues();
        queues.find(&request.queue_url)?;
        let name = queue_name(&request.queue_url);
        queues.existing.remove(name);
        queues.deleted.insert(name.to_owned(), Instant::now());
        Ok(json!({}))
    }

    fn attributes(&self, request: &GetQueueAttributes) -> Result<Value, Refusal> {
        let mut queues = self.queues();
        let queue = &mut queues.find(&request.queue_url)?.queue;
        let (visible, in_flight) = queue.count(Instant::now());
        let mut all: BTreeMap<&str, String> = queue.attributes.texts().clone();
        all.insert("ApproximateNumberOfMessages", visible.to_string());
        all.insert("ApproximateNumberOfMessagesNotVisible", in_flight.to_string());
        let names = &request.attribute_names;
        if let Some(unknown) = names.iter().find(|name| *name != "All" && !all.contains_key(name.as_str())) {
            return Err(Refusal::AttributeName(unknown.clone()));
        }
        let requested = |name: &str| names.iter().any(|requested| requested == name || requested == "All");
        all.retain(|name, _| requested(name));
        Ok(json!({"Attributes": all}))
    }

    fn send(&self, request: SendMessage) -> Result<Value, Refusal> {
        if JOB_QUEUES.contains(&queue_name(&request.queue_url)) {
            return Ok(self.send_job(request));
        }
        limits::body(&request.message_body)?;
        let group = request.message_group_id.ok_or(Refusal::Missing("MessageGroupId"))?;
        limits::id("MessageGroupId", &group)?;
        if let Some(id) = &request.message_deduplication_id {
            limits::id("MessageDeduplicationId", id)?;
        }
        if request.delay_seconds > 0 {
            return Err(Refusal::value(
                "DelaySeconds",
                request.delay_seconds,
                "A FIFO queue delays as a whole.",
            ));
        }
        let body_md5 = format!("{:x}", md5::compute(&request.message_body));
        self.change(&request.queue_url, |queue, now| {
            // AWS uses SHA-256, but the hash is not visible to callers.
            let by_content = queue.attributes.content_based.then(|| body_md5.clone());
            let Some(deduplication_id) = request.message_deduplication_id.or(by_content) else {
                let why = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId \
                           provided explicitly";
                return Err(Refusal::Value(why.into()));
            };
            let sent = queue.send(now, NewMessage { body: request.message_body, group, deduplication_id });
            // Twenty digits, as on AWS, so that sorting as text keeps the order.
            let sequence = format!("{:020}", sent.sequence);
            Ok(json!({"MessageId": sent.id, "MD5OfMessageBody": body_md5, "SequenceNumber": sequence}))
        })
    }

    fn send_job(&self, message: SendMessage) -> Value {
        let jobs = self.jobs.clone();
        let id = RandomIds.request();
        let job = JobMessage { id: id.clone(), body: message.message_body };
        // The receiver is dropped only when the process ends.
        if message.delay_seconds == 0 {
            let _dropped = jobs.send(job);
        } else {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(message.delay_seconds)).await;
                let _dropped = jobs.send(job);
            });
        }
        json!({"MessageId": id})
    }

    async fn receive(&self, request: ReceiveMessage) -> Result<Value, Refusal> {
        let limit = limits::count(request.max_number_of_messages.unwrap_or(1))?;
        let visibility = request.visibility_timeout.map(limits::visibility).transpose()?;
        let wait = match request.wait_time_seconds {
            Some(wait_s) => limits::wait(wait_s)?,
            None => self.queues().find(&request.queue_url)?.queue.attributes.wait,
        };
        let deadline = Instant::now() + wait;
        let mut closed = self.closed.subscribe();
        loop {
            let mut poll = self.poll(&request.queue_url, limit, visibility)?;
            if !poll.messages.is_empty() || Instant::now() >= deadline || *closed.borrow() {
                return Ok(received(&poll.messages));
            }
            let until = poll.visible_at.map_or(deadline, |visible_at| visible_at.min(deadline));
            tokio::select! {
                // An error means that the queue was deleted, which the next poll reports.
                _ = poll.changed.changed() => {}
                () = sleep_until(until) => {}
                _ = closed.wait_for(|closed| *closed) => {}
            }
        }
    }

    /// Subscribes before it reads, so that no change is missed.
    fn poll(&self, url: &str, limit: usize, visibility: Option<Duration>) -> Result<Poll, Refusal> {
        let mut queues = self.queues();
        let watched = queues.find(url)?;
        let now = Instant::now();
        let changed = watched.changed.subscribe();
        let messages = watched.queue.receive(now, limit, visibility);
        let visible_at = watched.queue.visible_at(now);
        let dead_letters = watched.queue.take_dead_letters();
        let redrive = watched.queue.attributes.redrive.clone();
        if let Some(target) = redrive.and_then(|redrive| queues.existing.get_mut(redrive.queue())) {
            for message in dead_letters {
                target.queue.send(now, message);
            }
            target.changed.send_replace(());
        }
        Ok(Poll { messages, changed, visible_at })
    }

    fn delete(&self, request: &DeleteMessage) -> Result<Value, Refusal> {
        self.change(&request.queue_url, |queue, now| queue.delete(now, &request.receipt_handle))?;
        Ok(json!({}))
    }

    fn change_visibility(&self, request: &ChangeMessageVisibility) -> Result<Value, Refusal> {
        let visibility = limits::visibility(request.visibility_timeout)?;
        self.change(&request.queue_url, |queue, now| {
            queue.change_visibility(now, &request.receipt_handle, visibility)
        })?;
        Ok(json!({}))
    }

    /// Changes a queue and wakes its long polls.
    fn change<T>(
        &self,
        url: &str,
        change: impl FnOnce(&mut Queue, Instant) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut queues = self.queues();
        let watched = queues.find(url)?;
        let result = change(&mut watched.queue, Instant::now())?;
        watched.changed.send_replace(());
        Ok(result)
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().expect("no code panics while it holds the queues")
    }
}

impl Queues {
    fn find(&mut self, url: &str) -> Result<&mut WatchedQueue, Refusal> {
        match queue_name(url) {
            name if JOB_QUEUES.contains(&name) => {
                Err(Refusal::Unsupported("job queues are delivered automatically and cannot be polled"))
            }
            name => self.existing.get_mut(name).ok_or(Refusal::NoQueue),
        }
    }

    /// Includes queues that are no longer polled.
    fn purge(&mut self, now: Instant) {
        self.deleted.retain(|_, deleted_at| now < *deleted_at + NAME_REUSE_DELAY);
        for watched in self.existing.values_mut() {
            watched.queue.purge(now);
        }
    }
}

fn url(name: &str) -> String {
    format!("http://sqs.local/{name}")
}

fn received(messages: &[Received]) -> Value {
    let encode = |message: &Received| {
        let md5 = format!("{:x}", md5::compute(&message.body));
        json!({"MessageId": message.id, "ReceiptHandle": message.handle, "MD5OfBody": md5, "Body": message.body})
    };
    // Like AWS, which omits an empty list.
    match messages {
        [] => json!({}),
        messages => json!({"Messages": messages.iter().map(encode).collect::<Vec<_>>()}),
    }
}
