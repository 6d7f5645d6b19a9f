//! SQS, in memory: the queue of jobs, and FIFO queues that are made and removed by calls.
//!
//! Nothing of it is durable. Jobs are about sockets, and they die with the process too; what a FIFO queue carries only
//! wakes somebody, and whoever is woken looks into the table.
//!
//! Deliberately absent: standard queues but the one of jobs, batches, attributes of messages, dead letters, tags. An
//! operation or a field that nobody uses is refused by name; ignored, it would be missed on AWS only.

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
use queue::{Letter, Queue, Received};
use refusal::Refusal;
use request::{
    ChangeMessageVisibility, CreateQueue, DeleteMessage, DeleteQueue, GetQueueAttributes, ReceiveMessage,
    SendMessage, read,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Messages whose time has come.
pub type Messages = mpsc::UnboundedReceiver<String>;

#[derive(Debug)]
pub(super) struct Sqs {
    jobs: mpsc::UnboundedSender<String>,
    queues: Mutex<Queues>,
    closed: watch::Sender<bool>,
}

/// The queues of jobs and of work. They hand their messages over by themselves, and nobody asks them for any.
const HANDED_OVER: [&str; 2] = ["jobs", "work"];

/// The last part of a queue's address.
pub(super) fn queue_name(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

#[derive(Debug, Default)]
struct Queues {
    open: HashMap<String, Open>,
    deleted: HashMap<String, Instant>,
}

#[derive(Debug)]
struct Open {
    queue: Queue,
    /// Tells whoever waits that there may be something. It ends with the queue.
    changed: watch::Sender<()>,
}

/// For so long a name cannot be used again:
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html>
const NAME_REST: Duration = Duration::from_secs(60);

/// One look into a queue, for somebody who waits if there is nothing.
struct Look {
    messages: Vec<Received>,
    changed: watch::Receiver<()>,
    opens_at: Option<Instant>,
}

impl Sqs {
    pub(super) fn new() -> (Self, Messages) {
        let (jobs, receiver) = mpsc::unbounded_channel();
        (Self { jobs, queues: Mutex::default(), closed: watch::Sender::new(false) }, receiver)
    }

    /// Nobody waits for messages any more: whoever does is answered with what there is.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    pub(super) async fn call(&self, operation: &str, body: &[u8]) -> Reply {
        match self.answer(operation, body).await {
            Ok(answer) => Reply::json(200, &answer),
            Err(refusal) => refusal.reply(),
        }
    }

    async fn answer(&self, operation: &str, body: &[u8]) -> Result<Value, Refusal> {
        match operation {
            "CreateQueue" => self.create(&read(body)?),
            "DeleteQueue" => self.delete_queue(&read(body)?),
            "GetQueueAttributes" => self.attributes(&read(body)?),
            "SendMessage" => self.send(read(body)?),
            "ReceiveMessage" => self.receive(read(body)?).await,
            "DeleteMessage" => self.delete(&read(body)?),
            "ChangeMessageVisibility" => self.change_visibility(&read(body)?),
            _ => Err(Refusal::Malformed(format!("{operation} is not something that this plane uses"))),
        }
    }

    fn create(&self, request: &CreateQueue) -> Result<Value, Refusal> {
        let name = limits::name(&request.queue_name)?;
        let attributes = Attributes::read(&request.attributes)?;
        let mut queues = self.queues();
        queues.purge(Instant::now());
        match queues.open.get(name) {
            Some(open) if open.queue.attributes.include(&request.attributes) => {}
            Some(_) => return Err(Refusal::NameExists),
            None if queues.deleted.contains_key(name) => return Err(Refusal::DeletedRecently),
            None => {
                let open = Open { queue: Queue::new(attributes), changed: watch::Sender::default() };
                queues.open.insert(name.to_owned(), open);
            }
        }
        Ok(json!({"QueueUrl": format!("http://sqs.local/{name}")}))
    }

    fn delete_queue(&self, request: &DeleteQueue) -> Result<Value, Refusal> {
        let mut queues = self.queues();
        queues.named(&request.queue_url)?;
        let name = queue_name(&request.queue_url);
        queues.open.remove(name);
        queues.deleted.insert(name.to_owned(), Instant::now());
        Ok(json!({}))
    }

    fn attributes(&self, request: &GetQueueAttributes) -> Result<Value, Refusal> {
        let mut queues = self.queues();
        let queue = &mut queues.named(&request.queue_url)?.queue;
        let (visible, in_flight) = queue.count(Instant::now());
        let mut all: BTreeMap<&str, String> = queue.attributes.texts().clone();
        all.insert("ApproximateNumberOfMessages", visible.to_string());
        all.insert("ApproximateNumberOfMessagesNotVisible", in_flight.to_string());
        let names = &request.attribute_names;
        if let Some(unknown) = names.iter().find(|name| *name != "All" && !all.contains_key(name.as_str())) {
            return Err(Refusal::AttributeName(unknown.clone()));
        }
        let wanted = |name: &str| names.iter().any(|wanted| wanted == name || wanted == "All");
        all.retain(|name, _| wanted(name));
        Ok(json!({"Attributes": all}))
    }

    fn send(&self, request: SendMessage) -> Result<Value, Refusal> {
        if HANDED_OVER.contains(&queue_name(&request.queue_url)) {
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
            // AWS takes a SHA-256 of the body for this; nobody sees which it is.
            let by_content = queue.attributes.content_based.then(|| body_md5.clone());
            let Some(deduplication_id) = request.message_deduplication_id.or(by_content) else {
                let why = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId \
                           provided explicitly";
                return Err(Refusal::Value(why.into()));
            };
            let sent = queue.send(now, Letter { body: request.message_body, group, deduplication_id });
            // Twenty digits, as AWS has them: compared as text they keep their order.
            let sequence = format!("{:020}", sent.sequence);
            Ok(json!({"MessageId": sent.id, "MD5OfMessageBody": body_md5, "SequenceNumber": sequence}))
        })
    }

    fn send_job(&self, message: SendMessage) -> Value {
        let jobs = self.jobs.clone();
        // The receiver is gone only when the process ends.
        if message.delay_seconds == 0 {
            let _ended = jobs.send(message.message_body);
        } else {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(message.delay_seconds)).await;
                let _ended = jobs.send(message.message_body);
            });
        }
        json!({"MessageId": RandomIds.request()})
    }

    async fn receive(&self, request: ReceiveMessage) -> Result<Value, Refusal> {
        let limit = limits::count(request.max_number_of_messages.unwrap_or(1))?;
        let visibility = request.visibility_timeout.map(limits::visibility).transpose()?;
        let wait = match request.wait_time_seconds {
            Some(wait_s) => limits::wait(wait_s)?,
            None => self.queues().named(&request.queue_url)?.queue.attributes.wait,
        };
        let deadline = Instant::now() + wait;
        let mut closed = self.closed.subscribe();
        loop {
            let mut look = self.look(&request.queue_url, limit, visibility)?;
            if !look.messages.is_empty() || Instant::now() >= deadline || *closed.borrow() {
                return Ok(received(&look.messages));
            }
            let until = look.opens_at.map_or(deadline, |opens_at| opens_at.min(deadline));
            tokio::select! {
                // An error is the end of the queue, which the next look finds out too.
                _ = look.changed.changed() => {}
                () = sleep_until(until) => {}
                _ = closed.wait_for(|closed| *closed) => {}
            }
        }
    }

    /// Listens before it looks, so that nothing falls in between.
    fn look(&self, url: &str, limit: usize, visibility: Option<Duration>) -> Result<Look, Refusal> {
        let mut queues = self.queues();
        let open = queues.named(url)?;
        let now = Instant::now();
        let changed = open.changed.subscribe();
        let messages = open.queue.receive(now, limit, visibility);
        Ok(Look { messages, changed, opens_at: open.queue.opens_at(now) })
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

    /// Does something that others may be waiting for, and has them look.
    fn change<T>(
        &self,
        url: &str,
        work: impl FnOnce(&mut Queue, Instant) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut queues = self.queues();
        let open = queues.named(url)?;
        let done = work(&mut open.queue, Instant::now())?;
        open.changed.send_replace(());
        Ok(done)
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().expect("no code panics while it holds the queues")
    }
}

impl Queues {
    fn named(&mut self, url: &str) -> Result<&mut Open, Refusal> {
        match queue_name(url) {
            name if HANDED_OVER.contains(&name) => {
                Err(Refusal::Unsupported("jobs are handed over; nobody asks the queue for them"))
            }
            name => self.open.get_mut(name).ok_or(Refusal::NoQueue),
        }
    }

    /// Also what lies in queues that nobody asks any more.
    fn purge(&mut self, now: Instant) {
        self.deleted.retain(|_, deleted_at| now < *deleted_at + NAME_REST);
        for open in self.open.values_mut() {
            open.queue.purge(now);
        }
    }
}

fn received(messages: &[Received]) -> Value {
    let one = |message: &Received| {
        let md5 = format!("{:x}", md5::compute(&message.body));
        json!({"MessageId": message.id, "ReceiptHandle": message.handle, "MD5OfBody": md5, "Body": message.body})
    };
    // Like AWS, which leaves the list out if there is nothing.
    match messages {
        [] => json!({}),
        some => json!({"Messages": some.iter().map(one).collect::<Vec<_>>()}),
    }
}
