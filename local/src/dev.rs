//! `sunaba dev`: wires the plane and serves it until it is told to stop.

use crate::aws::{Aws, Durability, Feeds};
use crate::config::{Dev, JWT_SECRET, OPERATOR_TOKEN, SECRET_FILES, WORKER_SECRET, write_lambda_env};
use crate::console::Console;
use crate::hosts::aws::Served;
use crate::hosts::connections::HEADER_READ_TIMEOUT;
use crate::hosts::http::{Web, router};
use crate::hosts::ws::{Patience, Sockets};
use crate::hosts::{self, connections, queue, schedule, stream};
use crate::sandboxes::{self, Crew};
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

/// A plane that runs.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// The operator's token; `None` where nobody is asked for one.
    pub operator_token: Option<String>,
    /// Its AWS.
    pub aws: Arc<Aws>,
    /// What whoever starts it should know of its sandboxes, in sentences.
    pub about_sandboxes: Vec<String>,
    tasks: Tasks,
    /// Gives the data folder back when this plane is gone.
    _lock: File,
}

/// How long requests that are being answered get when the plane is told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Starts a plane; it accepts requests when this returns.
pub async fn start(dev: &Dev) -> anyhow::Result<Running> {
    let plan = dev.check()?;
    make_data_folder(&dev.data)?;
    let lock = lock_data_folder(&dev.data)?;
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
    let Crew { providers, orchestration, about } = sandboxes::crew(dev, plan, address)?;
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
    // Before anything runs: a port that is taken is found out by then.
    let also = match dev.serve_aws {
        Some(port) => {
            let listener = listen(Ipv4Addr::LOCALHOST.into(), port, "--serve-aws").await?;
            Some(serve_aws(dev, &aws, &plane.settings, &keys, listener)?)
        }
        None => None,
    };
    // The lock on the folder says that whoever was here before is gone.
    edge::schedule::take_over(&plane).await.context("cannot look after the sandboxes that there are")?;
    let console = Arc::new(Console::new(dev.web.clone()));
    let mut tasks = Tasks::spawn(&plane, &aws, feeds, listener, (console, dev.patience));
    tasks.also = also;
    let operator_token = keys.operator_token.filter(|_| !keys.open);
    Ok(Running { address, operator_token, aws, about_sandboxes: about, tasks, _lock: lock })
}

async fn listen(host: IpAddr, port: u16, option: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind((host, port)).await;
    listener.with_context(|| format!("cannot listen on {host}:{port}; {option} 0 takes any free port"))
}

/// Lets functions of other processes use the AWS of this one, with the keys that this one has.
fn serve_aws(
    dev: &Dev,
    aws: &Arc<Aws>,
    settings: &Settings,
    keys: &Keys,
    listener: TcpListener,
) -> anyhow::Result<JoinHandle<()>> {
    let access_key = app::ids::secret();
    aws.keep_secret(WORKER_SECRET, &keys.worker_secret);
    for (name, secret) in [(OPERATOR_TOKEN, &keys.operator_token), (JWT_SECRET, &keys.user_secret)] {
        if let Some(secret) = secret {
            aws.keep_secret(name, secret);
        }
    }
    let address = listener.local_addr()?;
    let callback_url = &settings.orchestration.callback_url;
    let variables = write_lambda_env(&dev.data, address, &access_key, keys, callback_url)?;
    tracing::info!("AWS is served on {address}; functions find it with {}", variables.display());
    let router = hosts::aws::router(Served { aws: aws.clone(), access_key });
    Ok(tokio::spawn(connections::serve(listener, router, HEADER_READ_TIMEOUT, std::future::pending())))
}

/// Creates the data folder, or makes an existing one private: it holds the logs of every org and the keys to them.
fn make_data_folder(folder: &Path) -> anyhow::Result<()> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("cannot make the data folder {}", folder.display()))?;
    make_private(folder, 0o700)?;
    for name in SECRET_FILES {
        let file = folder.join(name);
        if file.exists() {
            make_private(&file, 0o600)?;
        }
    }
    Ok(())
}

/// Takes the rights of group and others away, where they have any. A plane does not start on data that it cannot keep
/// private.
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
             `chmod {mode:o} {shown}` as its owner, or choose another folder with --data"
        )
    })?;
    tracing::warn!("{shown} had mode {before:04o} and was readable by other users; it is {mode:04o} now");
    Ok(())
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

/// Everything that runs beside each other in a plane.
#[derive(Debug)]
struct Tasks {
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    streaming: JoinHandle<()>,
    working: JoinHandle<()>,
    ticking: JoinHandle<()>,
    /// The AWS on a port, if it is wanted.
    also: Option<JoinHandle<()>>,
    sockets_served: watch::Receiver<usize>,
}

impl Tasks {
    fn spawn(
        plane: &Arc<Plane>,
        aws: &Aws,
        feeds: Feeds,
        listener: TcpListener,
        (console, patience): (Arc<Console>, Patience),
    ) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let (served, sockets_served) = watch::channel(0);
        let sockets = Sockets { plane: plane.clone(), hub: aws.hub.clone(), served, patience };
        let web = Web { plane: plane.clone(), sockets, console };
        let serving = tokio::spawn(async move {
            let stopping = async move {
                // An error means that the sender is gone, which is also the end.
                let _gone = stopped.wait_for(|stop| *stop).await;
            };
            connections::serve(listener, router(web), HEADER_READ_TIMEOUT, stopping).await;
        });
        let streaming = tokio::spawn(stream::run(plane.clone(), aws.hub.clone(), feeds.records));
        let working = tokio::spawn(queue::run(plane.clone(), feeds.jobs, stop.subscribe()));
        let ticking = tokio::spawn(schedule::run(plane.clone(), aws.sweeper()));
        Self { stop, serving, streaming, working, ticking, also: None, sockets_served }
    }

    async fn stop(mut self, aws: &Aws) {
        self.stop.send_replace(true);
        aws.stop_waiting();
        aws.hub.close_all();
        // Each says goodbye to its client and is forgotten.
        let _in_time = tokio::time::timeout(GRACE, self.sockets_served.wait_for(|count| *count == 0)).await;
        if tokio::time::timeout(GRACE, &mut self.serving).await.is_err() {
            self.serving.abort();
        }
        // Jobs that are being done get as long: one that is cut off at a provider keeps others from it for a while.
        if tokio::time::timeout(GRACE, &mut self.working).await.is_err() {
            self.working.abort();
        }
        for task in [Some(self.streaming), Some(self.ticking), self.also].into_iter().flatten() {
            task.abort();
        }
    }
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
        self.tasks.stop(&self.aws).await;
    }
}
