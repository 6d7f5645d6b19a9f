//! Receives messages for the agent, from startup and while the agent works.
//!
//! A WebSocket wakes the inbox up when a message is queued, and the message is then pulled. Without a socket the inbox
//! uses long polling. `docs/protocol.md` describes both. Deliberately absent: receipts. The supervisor hands messages
//! to the agent and sends their receipts through the outbox.

mod held;

pub use held::HeldMessages;

use crate::tasks::TaskFailure;
use client::{Attempt, Backoff, Pull, SandboxApi, Wait, WakeUpOptions, WakeUpSocket};
use contract::messages::{MAX_PULL, MAX_WAIT_SECS, MessageOut, Pulled};
use domain::MessageId;
use serde_json::Value;
use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

#[derive(Debug)]
pub struct Settings {
    pub api: SandboxApi,
    pub wake_up: WakeUpOptions,
    /// Notified when the plane accepted receipts and more messages are queued: `Outbox::more_messages`.
    pub more_messages: Arc<Notify>,
    pub held: HeldMessages,
    pub timing: Timing,
}

#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Seconds after which an unconfirmed message is delivered again.
    pub visibility_secs: u64,
    /// Pull interval while the socket is open and silent.
    pub poll_interval: Duration,
    /// Long-poll duration in seconds while there is no socket.
    pub wait_secs: u64,
    /// Delay after a failed pull.
    pub retry: Backoff,
    /// Delay between attempts to open the socket.
    pub reconnect: Backoff,
    /// Delay after the plane refused a pull.
    pub refused_delay: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            visibility_secs: 60,
            poll_interval: Duration::from_secs(30),
            wait_secs: MAX_WAIT_SECS,
            retry: Backoff::default(),
            reconnect: Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(60) },
            refused_delay: Duration::from_secs(15),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboxEvent {
    /// A new message. Each is reported once.
    Message(Box<MessageOut>),
    /// A message that was reported before: the plane has no receipt for it. Send the receipt again if the agent has the
    /// message; otherwise ignore it.
    Redelivered(MessageId),
    /// The sandbox has ended and accepts no more messages. This is the last event.
    SandboxFinished { reason: String },
}

/// Pulls messages until it is dropped.
#[derive(Debug)]
pub struct Inbox {
    /// Interrupts first, then in the order of sending.
    pub events: mpsc::Receiver<InboxEvent>,
    /// `None` after its end was reported.
    task: Option<JoinHandle<()>>,
}

impl Inbox {
    /// Starts pulling messages. Those in `seen` were handed to the agent before a restart and are reported as
    /// [`InboxEvent::Redelivered`].
    pub fn open(settings: Settings, seen: impl IntoIterator<Item = MessageId>) -> Self {
        let (sender, events) = mpsc::channel(64);
        let puller = Puller { settings, events: sender, seen: seen.into_iter().collect(), failures: 0 };
        Self { events, task: Some(tokio::spawn(puller.run())) }
    }

    /// The next event. Never resolves after the last one.
    ///
    /// # Errors
    /// If the puller has panicked; no further event arrives.
    pub async fn next(&mut self) -> Result<InboxEvent, TaskFailure> {
        if let Some(event) = self.events.recv().await {
            return Ok(event);
        }
        let Some(task) = &mut self.task else { return std::future::pending().await };
        let ended = task.await;
        self.task = None;
        match ended.err().and_then(|why| TaskFailure::of("receiving messages", &why)) {
            Some(failure) => Err(failure),
            None => std::future::pending().await,
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

struct Puller {
    settings: Settings,
    events: mpsc::Sender<InboxEvent>,
    seen: HashSet<MessageId>,
    /// Consecutive failed pulls.
    failures: u32,
}

/// The receiver was dropped, or the sandbox has ended.
struct Closed;

type Opening = Pin<Box<dyn Future<Output = Result<WakeUpSocket, &'static str>> + Send>>;

/// A socket that stayed open this long resets the reconnect backoff.
const STABLE_CONNECTION: Duration = Duration::from_secs(60);

impl Puller {
    async fn run(mut self) {
        let Err(Closed) = self.pull_forever().await else { return };
    }

    /// Long-polls until a socket is open, then pulls on wake-ups until the socket closes.
    async fn pull_forever(&mut self) -> Result<(), Closed> {
        let mut attempt = 0;
        let mut reconnect_at = Instant::now();
        loop {
            let socket = self.long_poll_until_connected(reconnect_at).await?;
            let opened_at = Instant::now();
            let why = self.pull_on_wake_up(socket).await?;
            if opened_at.elapsed() > STABLE_CONNECTION {
                attempt = 0;
            }
            tracing::debug!("Message socket closed ({why}); falling back to long polling");
            reconnect_at = Instant::now() + self.settings.timing.reconnect.wait(attempt);
            attempt += 1;
        }
    }

    /// Long-polls in a loop while a socket is being opened.
    async fn long_poll_until_connected(&mut self, mut open_at: Instant) -> Result<WakeUpSocket, Closed> {
        let mut attempt = 0;
        let mut opening: Option<Opening> = None;
        let mut socket = None;
        loop {
            let started = Instant::now();
            let api = self.settings.api.clone();
            let pull = api.pull(self.pull(self.settings.timing.wait_secs));
            tokio::pin!(pull);
            // Never cancel a pull because the socket opened: its messages would stay invisible until their timeout.
            let response = loop {
                if opening.is_none() && socket.is_none() && Instant::now() >= open_at {
                    let wake_up = self.settings.wake_up.clone();
                    opening = Some(Box::pin(async move { WakeUpSocket::open(&wake_up).await }));
                }
                tokio::select! {
                    response = &mut pull => break response,
                    result = opened(&mut opening) => {
                        opening = None;
                        match result {
                            Ok(opened) => socket = Some(opened),
                            Err(why) => {
                                tracing::debug!("Cannot open message socket ({why})");
                                open_at = Instant::now() + self.settings.timing.reconnect.wait(attempt);
                                attempt += 1;
                            }
                        }
                    }
                    () = tokio::time::sleep_until(open_at), if opening.is_none() && socket.is_none() => {}
                }
            };
            let count = self.deliver(response).await?;
            if let Some(socket) = socket.take() {
                return Ok(socket);
            }
            let returned_early = started.elapsed() < Duration::from_secs(self.settings.timing.wait_secs) / 4;
            if count == Some(0) && returned_early {
                // Do not spin if the plane does not support long polling.
                sleep(Duration::from_secs(1)).await;
            }
        }
    }

    /// Pulls on each wake-up, and periodically without one, until the socket closes.
    async fn pull_on_wake_up(&mut self, mut socket: WakeUpSocket) -> Result<&'static str, Closed> {
        loop {
            loop {
                let response = self.settings.api.pull(self.pull(0)).await;
                if self.deliver(response).await? == Some(0) {
                    break;
                }
            }
            let poll_at = Instant::now() + self.settings.timing.poll_interval;
            let more_messages = self.settings.more_messages.clone();
            tokio::select! {
                notified = socket.notified_before(poll_at) => match notified {
                    Ok(true) => {}
                    Ok(false) => {
                        if let Err(why) = socket.ping().await {
                            return Ok(why);
                        }
                    }
                    Err(why) => return Ok(why),
                },
                () = more_messages.notified() => {}
                () = self.events.closed() => return Err(Closed),
            }
        }
    }

    fn pull(&self, wait_secs: u64) -> Pull {
        Pull {
            wait_secs,
            max_messages: MAX_PULL,
            visibility_secs: self.settings.timing.visibility_secs,
            holding: self.settings.held.ids(),
        }
    }

    /// Reports pulled messages and returns their number. After a failure, waits and returns `None`.
    async fn deliver(&mut self, response: Attempt<Pulled>) -> Result<Option<usize>, Closed> {
        let delay = match response {
            Attempt::Answered(pulled) => {
                self.failures = 0;
                let count = pulled.messages.len();
                for message in pulled.messages {
                    if !self.seen.contains(&message.id) {
                        self.settings.held.insert(message.id.clone());
                    }
                    let event = match self.seen.insert(message.id.clone()) {
                        true => InboxEvent::Message(Box::new(message)),
                        false => InboxEvent::Redelivered(message.id),
                    };
                    self.events.send(event).await.map_err(|_| Closed)?;
                }
                return Ok(Some(count));
            }
            Attempt::Refused(problem) if problem.code == "sandbox_finished" => {
                let reason = problem.facts.get("reason").and_then(Value::as_str);
                let reason = reason.unwrap_or(&problem.detail).to_owned();
                // Ignore the error: the receiver may be gone already.
                let _ = self.events.send(InboxEvent::SandboxFinished { reason }).await;
                return Err(Closed);
            }
            Attempt::Refused(problem) => {
                tracing::warn!("The plane refused to deliver messages: {}", problem.code);
                self.settings.timing.refused_delay
            }
            Attempt::Failed(failed) => {
                failed.retry_after.unwrap_or_else(|| self.settings.timing.retry.wait(self.failures))
            }
        };
        self.failures += 1;
        tokio::select! {
            () = sleep(delay) => Ok(None),
            () = self.events.closed() => Err(Closed),
        }
    }
}

/// Resolves when the socket is open; never if none is being opened.
async fn opened(opening: &mut Option<Opening>) -> Result<WakeUpSocket, &'static str> {
    match opening {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
