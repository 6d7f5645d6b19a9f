//! `sunaba dev`: wires the plane and serves it until a stop is requested.

use crate::aws::{Aws, Durability, Feeds};
use crate::config::{Dev, JWT_SECRET, OPERATOR_TOKEN, SECRET_FILES, WORKER_SECRET, write_lambda_env};
use crate::console::Console;
use crate::hosts::aws::Served;
use crate::hosts::connections::HEADER_READ_TIMEOUT;
use crate::hosts::http::{Web, router};
use crate::hosts::ws::{SocketTimeouts, Sockets};
use crate::hosts::{self, connections, jobs, schedule, stream};
use crate::sandboxes::{self, SandboxSetup};
use anyhow::{Context, bail};
use app::clock::SystemClock;
use app::ids::RandomIds;
use edge::auth::{Authenticator, Keys};
use edge::plane::Settings;
use edge::{Bindings, Plane};
use std::fs::{File, Permissions, TryLockError};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A running plane.
#[derive(Debug)]
pub struct Running {
    pub address: SocketAddr,
    /// `None` without authentication.
    pub operator_token: Option<String>,
    pub aws: Arc<Aws>,
    /// Information about its sandboxes for the operator, in sentences.
    pub notices: Vec<String>,
    tasks: Tasks,
    /// Unlocks the data directory when dropped.
    _lock: File,
}

/// Shutdown grace period for requests and jobs in progress.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Starts a plane. It accepts requests when this returns.
pub async fn start(dev: &Dev) -> anyhow::Result<Running> {
    let sandbox_config = dev.check()?;
    create_data_directory(&dev.data)?;
    let lock = lock_data_directory(&dev.data)?;
    let keys = dev.keys()?;
    let durability = if dev.fsync { Durability::Disk } else { Durability::Process };
    let (aws, feeds) = Aws::open(&dev.data, durability)
        .await
        .with_context(|| format!("cannot open the data in {}", dev.data.display()))?;
    let aws = Arc::new(aws);
    let clock = Arc::new(SystemClock);
    let authenticator = Authenticator::new(&keys, clock.clone());
    let listener = listen(dev.host, dev.port, "--port").await?;
    let address = listener.local_addr()?;
    let SandboxSetup { providers, orchestration, notices } = sandboxes::setup(dev, sandbox_config, address)?;
    let settings = Settings { orchestration, ..dev.settings() };
    let bindings = Bindings { providers: Some(providers), ..aws.bindings() };
    let plane = Arc::new(Plane::new(
        aws.store.clone(),
        bindings,
        authenticator,
        clock,
        Arc::new(RandomIds),
        settings,
    ));
    // Before anything runs, so that a port in use fails the start.
    let aws_server = match dev.serve_aws {
        Some(port) => {
            let listener = listen(Ipv4Addr::LOCALHOST.into(), port, "--serve-aws").await?;
            Some(serve_aws(dev, &aws, &plane.settings, &keys, listener)?)
        }
        None => None,
    };
    // The lock on the directory proves that the previous process has exited.
    edge::schedule::take_over(&plane).await.context("cannot take over the existing sandboxes")?;
    let console = Arc::new(Console::new(dev.web.clone()));
    let mut tasks = Tasks::spawn(&plane, &aws, feeds, listener, (console, dev.socket_timeouts));
    tasks.aws_server = aws_server;
    let operator_token = keys.operator_token.filter(|_| !keys.open);
    Ok(Running { address, operator_token, aws, notices, tasks, _lock: lock })
}

async fn listen(host: IpAddr, port: u16, option: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind((host, port)).await;
    listener.with_context(|| format!("cannot listen on {host}:{port}; use {option} 0 for any free port"))
}

/// Serves the in-process AWS to functions in other processes, with the keys of this one.
fn serve_aws(
    dev: &Dev,
    aws: &Arc<Aws>,
    settings: &Settings,
    keys: &Keys,
    listener: TcpListener,
) -> anyhow::Result<JoinHandle<()>> {
    let access_key = app::ids::secret();
    aws.put_secret(WORKER_SECRET, &keys.worker_secret);
    for (name, secret) in [(OPERATOR_TOKEN, &keys.operator_token), (JWT_SECRET, &keys.user_secret)] {
        if let Some(secret) = secret {
            aws.put_secret(name, secret);
        }
    }
    let address = listener.local_addr()?;
    let callback_url = &settings.orchestration.callback_url;
    let variables = write_lambda_env(&dev.data, address, &access_key, keys, callback_url)?;
    tracing::info!("Serving AWS on {address}; the variables for functions are in {}", variables.display());
    let router = hosts::aws::router(Served { aws: aws.clone(), access_key });
    Ok(tokio::spawn(connections::serve(listener, router, HEADER_READ_TIMEOUT, std::future::pending())))
}

/// Creates the data directory, or makes an existing one private: it holds the events of every org and all keys.
fn create_data_directory(directory: &Path) -> anyhow::Result<()> {
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    created.with_context(|| format!("cannot create the data directory {}", directory.display()))?;
    make_private(directory, 0o700)?;
    for name in SECRET_FILES {
        let file = directory.join(name);
        if file.exists() {
            make_private(&file, 0o600)?;
        }
    }
    Ok(())
}

/// Removes the permissions of group and others. The plane does not start if it cannot.
fn make_private(path: &Path, mode: u32) -> anyhow::Result<()> {
    let shown = path.display();
    let before = std::fs::metadata(path).with_context(|| format!("cannot read the mode of {shown}"))?;
    let before = before.permissions().mode() & 0o777;
    if before & 0o077 == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode)).with_context(|| {
        format!(
            "{shown} has mode {before:04o}, so other users can read it, and the mode cannot be changed; run \
             `chmod {mode:o} {shown}` as its owner, or choose another directory with --data"
        )
    })?;
    tracing::warn!("{shown} had mode {before:04o} and was readable by other users; it is {mode:04o} now");
    Ok(())
}

/// Two planes on one directory would not receive each other's events. The operating system releases the lock when the
/// process exits.
fn lock_data_directory(directory: &Path) -> anyhow::Result<File> {
    let path = directory.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!("another plane runs on the data in {}", directory.display()),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// The background tasks of a plane.
#[derive(Debug)]
struct Tasks {
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    streaming: JoinHandle<()>,
    working: JoinHandle<()>,
    ticking: JoinHandle<()>,
    /// Present with `--serve-aws`.
    aws_server: Option<JoinHandle<()>>,
    sockets_served: watch::Receiver<usize>,
}

impl Tasks {
    fn spawn(
        plane: &Arc<Plane>,
        aws: &Aws,
        feeds: Feeds,
        listener: TcpListener,
        (console, socket_timeouts): (Arc<Console>, SocketTimeouts),
    ) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let (served, sockets_served) = watch::channel(0);
        let sockets = Sockets { plane: plane.clone(), hub: aws.hub.clone(), served, socket_timeouts };
        let web = Web { plane: plane.clone(), sockets, console };
        let serving = tokio::spawn(async move {
            let stopping = async move {
                // An error means that the sender was dropped, which also means stop.
                let _dropped = stopped.wait_for(|stop| *stop).await;
            };
            connections::serve(listener, router(web), HEADER_READ_TIMEOUT, stopping).await;
        });
        let streaming = tokio::spawn(stream::run(plane.clone(), aws.hub.clone(), feeds.records));
        let working = tokio::spawn(jobs::run(plane.clone(), feeds.jobs, stop.subscribe()));
        let ticking = tokio::spawn(schedule::run(plane.clone(), aws.sweeper()));
        Self { stop, serving, streaming, working, ticking, aws_server: None, sockets_served }
    }

    async fn stop(mut self, aws: &Aws) {
        self.stop.send_replace(true);
        aws.end_long_polls();
        aws.hub.close_all();
        // Each sends a close frame and deletes its record.
        let _in_time =
            tokio::time::timeout(GRACE_PERIOD, self.sockets_served.wait_for(|count| *count == 0)).await;
        if tokio::time::timeout(GRACE_PERIOD, &mut self.serving).await.is_err() {
            self.serving.abort();
        }
        // Jobs get the same grace period: one that is interrupted keeps its lease until the lease expires.
        if tokio::time::timeout(GRACE_PERIOD, &mut self.working).await.is_err() {
            self.working.abort();
        }
        for task in [Some(self.streaming), Some(self.ticking), self.aws_server].into_iter().flatten() {
            task.abort();
        }
    }
}

impl Running {
    /// URL for a browser, with the token.
    pub fn link(&self) -> String {
        match &self.operator_token {
            Some(token) => format!("http://{}/?token={token}", self.address),
            None => format!("http://{}/", self.address),
        }
    }

    /// Closes sockets and waits for requests and jobs in progress.
    pub async fn stop(self) {
        self.tasks.stop(&self.aws).await;
    }
}
