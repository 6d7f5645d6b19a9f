//! `sunaba dev`: wires the plane and serves it until it is told to stop.

use crate::aws::{Aws, Durability, Records};
use crate::config::Dev;
use crate::hosts::http::{Web, router};
use crate::hosts::ws::{Patience, Sockets};
use crate::hosts::{schedule, stream};
use anyhow::{Context, bail};
use app::clock::SystemClock;
use axum::serve::ListenerExt;
use edge::Plane;
use edge::auth::Authenticator;
use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A plane that runs.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// The operator's token; `None` where nobody is asked for one.
    pub operator_token: Option<String>,
    /// Its AWS.
    pub aws: Aws,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    streaming: JoinHandle<()>,
    sweeping: JoinHandle<()>,
    sockets_served: watch::Receiver<usize>,
    /// Gives the data folder back when this plane is gone.
    _lock: File,
}

/// How long requests that are being answered get when the plane is told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Starts a plane; it accepts requests when this returns.
pub async fn start(dev: &Dev) -> anyhow::Result<Running> {
    dev.check()?;
    make_data_folder(&dev.data)?;
    let lock = lock_data_folder(&dev.data)?;
    let keys = dev.keys()?;
    let durability = if dev.fsync { Durability::Disk } else { Durability::Process };
    let (aws, records) = Aws::open(&dev.data, durability)
        .await
        .with_context(|| format!("cannot open the data in {}", dev.data.display()))?;
    let clock = Arc::new(SystemClock);
    let authenticator = Authenticator::new(&keys, clock.clone());
    let plane =
        Arc::new(Plane::new(aws.store.clone(), aws.push.clone(), authenticator, clock, dev.settings()));
    let listener = TcpListener::bind((dev.host, dev.port)).await.with_context(|| {
        format!("cannot listen on {}:{}; --port 0 takes any free port", dev.host, dev.port)
    })?;
    let operator_token = keys.operator_token.filter(|_| !keys.open);
    serve(plane, aws, records, listener, Extras { operator_token, patience: dev.patience, lock })
}

/// What the running plane keeps beside its parts.
struct Extras {
    operator_token: Option<String>,
    patience: Patience,
    lock: File,
}

/// Only its owner may look inside: it holds everybody's logs and the keys to them.
fn make_data_folder(folder: &Path) -> anyhow::Result<()> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("cannot make the data folder {}", folder.display()))
}

/// Two planes on one folder would not hear each other's events. The system lets go of the lock when a process
/// dies, however it dies.
fn lock_data_folder(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!("another plane runs on the data in {}", folder.display()),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

fn serve(
    plane: Arc<Plane>,
    aws: Aws,
    records: Records,
    listener: TcpListener,
    extras: Extras,
) -> anyhow::Result<Running> {
    let Extras { operator_token, patience, lock } = extras;
    let address = listener.local_addr()?;
    let (served, sockets_served) = watch::channel(0);
    let sockets = Sockets { plane: plane.clone(), hub: aws.hub.clone(), served, patience };
    let (stop, mut stopped) = watch::channel(false);
    let streaming = tokio::spawn(stream::run(plane.clone(), aws.hub.clone(), records));
    let sweeping = tokio::spawn(schedule::run(aws.sweeper()));
    let serving = tokio::spawn(async move {
        let stopping = async move {
            // An error means that the sender is gone, which is also the end.
            let _gone = stopped.wait_for(|stop| *stop).await;
        };
        // Without this a frame may wait 40 ms for the acknowledgement of the one before.
        let listener = listener.tap_io(|connection| {
            if let Err(error) = connection.set_nodelay(true) {
                tracing::debug!(%error, "A connection keeps its delay");
            }
        });
        let served = axum::serve(listener, router(Web { plane, sockets })).with_graceful_shutdown(stopping);
        if let Err(error) = served.await {
            tracing::error!(%error, "The server ended");
        }
    });
    Ok(Running {
        address,
        operator_token,
        aws,
        stop,
        serving,
        streaming,
        sweeping,
        sockets_served,
        _lock: lock,
    })
}

impl Running {
    /// The link for a browser.
    pub fn link(&self) -> String {
        match &self.operator_token {
            Some(token) => format!("http://{}/?token={token}", self.address),
            None => format!("http://{}/", self.address),
        }
    }

    /// Lets requests finish, closes sockets, and ends.
    pub async fn stop(self) {
        let Self { aws, stop, mut serving, streaming, sweeping, mut sockets_served, .. } = self;
        stop.send_replace(true);
        aws.hub.close_all();
        // Each says goodbye to its client and is forgotten.
        let _in_time = tokio::time::timeout(GRACE, sockets_served.wait_for(|count| *count == 0)).await;
        if tokio::time::timeout(GRACE, &mut serving).await.is_err() {
            serving.abort();
        }
        streaming.abort();
        sweeping.abort();
    }
}
