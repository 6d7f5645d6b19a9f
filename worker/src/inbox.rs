//! What people say to the agent, on its way down: taken from the first second on, also while the agent works.
//!
//! A socket rings when a message is sent, and the message is then fetched; without a socket the plane is asked to wait.
//! `docs/protocol.md` has both recipes ("A worker that loses nothing", "Waiting cheaply"). Deliberately absent:
//! receipts. Whoever gives a message to the agent knows when the agent has it, and says so through the outbox.

use client::{Attempt, Backoff, Bell, Hang, Once, Pull};
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

/// From where messages come.
#[derive(Debug)]
pub struct Settings {
    /// The way to the plane.
    pub once: Once,
    /// Where its sockets are.
    pub hang: Hang,
    /// Rings when receipts were taken and messages still wait: `Outbox::more_messages`.
    pub again: Arc<Notify>,
    /// How patient it is.
    pub pace: Pace,
}

/// How patient the inbox is.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// After how many seconds a message comes back that was not confirmed.
    pub hidden_secs: u64,
    /// After so long without a ring it looks all the same.
    pub look: Duration,
    /// For how long the plane waits for a message, in seconds, while there is no socket.
    pub wait_secs: u64,
    /// Between tries.
    pub retry: Backoff,
    /// Between tries to open the socket.
    pub reopen: Backoff,
    /// Between tries when the plane refuses.
    pub slow: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            hidden_secs: 60,
            look: Duration::from_secs(30),
            wait_secs: MAX_WAIT_SECS,
            retry: Backoff::default(),
            reopen: Backoff { first: Duration::from_secs(1), most: Duration::from_secs(60) },
            slow: Duration::from_secs(15),
        }
    }
}

/// What comes down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// Somebody says this. Each message comes once.
    Message(Box<MessageOut>),
    /// This one came again: the plane has not heard that the agent has it. Say so again if it has, and do nothing if it
    /// is still held back.
    Again(MessageId),
    /// The sandbox has ended: nobody can write to this agent any more. Nothing comes after this.
    Finished {
        /// Why.
        reason: String,
    },
}

/// The way down. When it is dropped, it ends.
#[derive(Debug)]
pub struct Inbox {
    /// What comes, in order: interrupts first, then as it was sent.
    pub arrivals: mpsc::Receiver<Arrival>,
    task: JoinHandle<()>,
}

impl Inbox {
    /// Begins to take messages. Those in `given` were given to the agent in an earlier life: they come as
    /// [`Arrival::Again`].
    pub fn open(settings: Settings, given: impl IntoIterator<Item = MessageId>) -> Self {
        let (arrived, arrivals) = mpsc::channel(64);
        let taker = Taker { settings, arrived, seen: given.into_iter().collect(), tries: 0 };
        Self { arrivals, task: tokio::spawn(taker.run()) }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Taker {
    settings: Settings,
    arrived: mpsc::Sender<Arrival>,
    seen: HashSet<MessageId>,
    tries: u32,
}

/// Nobody takes messages any more, or there are none.
struct Over;

type Opening = Pin<Box<dyn Future<Output = Result<Bell, &'static str>> + Send>>;

/// A socket that lived for so long was a good one.
const GOOD_LIFE: Duration = Duration::from_secs(60);

impl Taker {
    async fn run(mut self) {
        let Err(Over) = self.take().await else { return };
    }

    /// With a socket if there is one, and without it meanwhile.
    async fn take(&mut self) -> Result<(), Over> {
        let mut attempt = 0;
        let mut reopen_at = Instant::now();
        loop {
            let bell = self.poll_until_open(reopen_at).await?;
            let opened_at = Instant::now();
            let why = self.listen(bell).await?;
            if opened_at.elapsed() > GOOD_LIFE {
                attempt = 0;
            }
            tracing::debug!("The socket for messages is gone ({why}); asking without it");
            reopen_at = Instant::now() + self.settings.pace.reopen.wait(attempt);
            attempt += 1;
        }
    }

    /// Asks again and again, each time waiting at the plane, until a socket is open.
    async fn poll_until_open(&mut self, mut open_at: Instant) -> Result<Bell, Over> {
        let mut attempt = 0;
        let mut opening: Option<Opening> = None;
        let mut bell = None;
        loop {
            let started = Instant::now();
            let once = self.settings.once.clone();
            let pull = once.pull(self.pull(self.settings.pace.wait_secs));
            tokio::pin!(pull);
            // A pull is never dropped for a socket: what it was given would be hidden for a while.
            let answer = loop {
                if opening.is_none() && bell.is_none() && Instant::now() >= open_at {
                    let hang = self.settings.hang.clone();
                    opening = Some(Box::pin(async move { Bell::hang(&hang).await }));
                }
                tokio::select! {
                    answer = &mut pull => break answer,
                    opened = open(&mut opening) => {
                        opening = None;
                        match opened {
                            Ok(opened) => bell = Some(opened),
                            Err(why) => {
                                tracing::debug!("No socket for messages ({why})");
                                open_at = Instant::now() + self.settings.pace.reopen.wait(attempt);
                                attempt += 1;
                            }
                        }
                    }
                    () = tokio::time::sleep_until(open_at), if opening.is_none() && bell.is_none() => {}
                }
            };
            let came = self.arrive(answer).await?;
            if let Some(bell) = bell.take() {
                return Ok(bell);
            }
            let at_once = started.elapsed() < Duration::from_secs(self.settings.pace.wait_secs) / 4;
            if came == Some(0) && at_once {
                // A plane that does not wait must not be asked without a pause.
                sleep(Duration::from_secs(1)).await;
            }
        }
    }

    /// Fetches when it rings, and now and then when it does not, until the socket is gone.
    async fn listen(&mut self, mut bell: Bell) -> Result<&'static str, Over> {
        loop {
            loop {
                let answer = self.settings.once.pull(self.pull(0)).await;
                if self.arrive(answer).await? == Some(0) {
                    break;
                }
            }
            let look_at = Instant::now() + self.settings.pace.look;
            let again = self.settings.again.clone();
            tokio::select! {
                rung = bell.rings_before(look_at) => match rung {
                    Ok(true) => {}
                    Ok(false) => {
                        if let Err(why) = bell.ping().await {
                            return Ok(why);
                        }
                    }
                    Err(why) => return Ok(why),
                },
                () = again.notified() => {}
                () = self.arrived.closed() => return Err(Over),
            }
        }
    }

    fn pull(&self, wait_secs: u64) -> Pull {
        Pull { wait_secs, most: MAX_PULL, hidden_secs: self.settings.pace.hidden_secs }
    }

    /// Passes on what came, and says how many; waits a while if nothing came because something is wrong.
    async fn arrive(&mut self, answer: Attempt<Pulled>) -> Result<Option<usize>, Over> {
        let pause = match answer {
            Attempt::Answered(pulled) => {
                self.tries = 0;
                let count = pulled.messages.len();
                for message in pulled.messages {
                    let arrival = match self.seen.insert(message.id.clone()) {
                        true => Arrival::Message(Box::new(message)),
                        false => Arrival::Again(message.id),
                    };
                    self.arrived.send(arrival).await.map_err(|_| Over)?;
                }
                return Ok(Some(count));
            }
            Attempt::Refused(problem) if problem.code == "sandbox_finished" => {
                let reason = problem.facts.get("reason").and_then(Value::as_str);
                let reason = reason.unwrap_or(&problem.detail).to_owned();
                // If nobody listens any more, nobody needs to know.
                let _ = self.arrived.send(Arrival::Finished { reason }).await;
                return Err(Over);
            }
            Attempt::Refused(problem) => {
                tracing::warn!("The plane gives no messages: {}", problem.code);
                self.settings.pace.slow
            }
            Attempt::Failed(failed) => {
                failed.retry_after.unwrap_or_else(|| self.settings.pace.retry.wait(self.tries))
            }
        };
        self.tries += 1;
        tokio::select! {
            () = sleep(pause) => Ok(None),
            () = self.arrived.closed() => Err(Over),
        }
    }
}

/// Waits for a socket that is being opened, or for ever.
async fn open(opening: &mut Option<Opening>) -> Result<Bell, &'static str> {
    match opening {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
