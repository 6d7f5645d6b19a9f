//! `sunaba dev`: wires the plane and serves it until a stop is requested.

use crate::aws::{Aws, Durability, Feeds};
use crate::config::commands::{DEFAULT_DATA, DEFAULT_URL};
use crate::config::{
    Dev, JWT_SECRET, LocalKeys, OPERATORS, WORKER_SECRET, plane_directory, write_lambda_env,
};
use crate::console::Console;
use crate::data_directory;
use crate::hosts::aws::Served;
use crate::hosts::connections::HEADER_READ_TIMEOUT;
use crate::hosts::http::{Web, router};
use crate::hosts::ws::{SocketTimeouts, Sockets};
use crate::hosts::{self, connections, jobs, schedule, stream};
use crate::sandboxes::{self, SandboxSetup};
use anyhow::Context;
use app::clock::SystemClock;
use app::ids::RandomIds;
use contract::sign_in::console_link;
use edge::auth::{Authenticator, CODE_SECS, LOCAL_OPERATOR, SignInCodes};
use edge::plane::Settings;
use edge::{Bindings, Plane};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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
    /// `None` without authentication.
    codes: Option<Arc<SignInCodes>>,
    pub aws: Arc<Aws>,
    /// Information about its links and sandboxes for the operator, in sentences.
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
    data_directory::create(&dev.data)?;
    let lock = data_directory::lock(&dev.data)?;
    data_directory::move_files_of_earlier_versions(&dev.data)?;
    data_directory::make_secrets_private(&dev.data)?;
    let local_keys = dev.keys()?;
    let keys = &local_keys.keys;
    let durability = if dev.fsync { Durability::Disk } else { Durability::Process };
    let (aws, feeds) = Aws::open(&plane_directory(&dev.data), durability)
        .await
        .with_context(|| format!("cannot open the data in {}", dev.data.display()))?;
    let aws = Arc::new(aws);
    let clock = Arc::new(SystemClock);
    let authenticator = Authenticator::new(keys, clock.clone());
    let codes = (!keys.open).then(|| Arc::new(SignInCodes::new(clock.clone())));
    let listener = listen(dev.host, dev.port, "--port").await?;
    let address = listener.local_addr()?;
    let SandboxSetup { providers, orchestration, mut notices } =
        sandboxes::setup(dev, sandbox_config, address)?;
    let settings = Settings { orchestration, ..dev.settings() };
    let code_hosts = Some(sandboxes::code_hosts(clock.clone()).offering(dev.offered_folders()));
    let bindings = Bindings { providers: Some(providers), code_hosts, ..aws.bindings() };
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
            Some(serve_aws(dev, &aws, &plane.settings, &local_keys, listener)?)
        }
        None => None,
    };
    // The lock on the directory proves that the previous process has exited.
    edge::schedule::take_over(&plane).await.context("cannot take over the existing sandboxes")?;
    let console = Arc::new(Console::new(dev.web.clone()));
    let web = Serving { console, codes: codes.clone(), socket_timeouts: dev.socket_timeouts };
    let mut tasks = Tasks::spawn(&plane, &aws, feeds, listener, web);
    tasks.aws_server = aws_server;
    if codes.is_some() {
        notices.insert(0, link_notice(dev, address));
    }
    let is_open = keys.open;
    let operator_token = Some(local_keys.operator_token).filter(|_| !is_open);
    Ok(Running { address, operator_token, codes, aws, notices, tasks, _lock: lock })
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
    LocalKeys { keys, worker_secret, .. }: &LocalKeys,
    listener: TcpListener,
) -> anyhow::Result<JoinHandle<()>> {
    let access_key = app::ids::secret();
    aws.put_secret(WORKER_SECRET, worker_secret);
    aws.put_secret(OPERATORS, &keys.operators.to_json());
    if let Some(secret) = &keys.user_secret {
        aws.put_secret(JWT_SECRET, secret);
    }
    let address = listener.local_addr()?;
    let variables = write_lambda_env(&dev.data, address, &access_key, keys, &settings.orchestration)?;
    tracing::info!("Serving AWS on {address}; the variables for functions are in {}", variables.display());
    let router = hosts::aws::router(Served { aws: aws.clone(), access_key });
    Ok(tokio::spawn(connections::serve(listener, router, HEADER_READ_TIMEOUT, std::future::pending())))
}

/// How long the printed link works, and the command that prints another.
fn link_notice(dev: &Dev, address: SocketAddr) -> String {
    let mut command = "sunaba link".to_owned();
    let reachable = match address.ip().is_unspecified() {
        true => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        false => address,
    };
    let url = format!("http://{reachable}");
    if url != DEFAULT_URL {
        command.push_str(&format!(" --url {url}"));
    }
    if dev.data != Path::new(DEFAULT_DATA) {
        command.push_str(&format!(" --data {}", dev.data.display()));
    }
    format!("The link works once, within {} minutes; `{command}` prints a new one.", CODE_SECS / 60)
}

/// What the web server has besides the plane.
struct Serving {
    console: Arc<Console>,
    codes: Option<Arc<SignInCodes>>,
    socket_timeouts: SocketTimeouts,
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
        Serving { console, codes, socket_timeouts }: Serving,
    ) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let (served, sockets_served) = watch::channel(0);
        let sockets = Sockets { plane: plane.clone(), hub: aws.hub.clone(), served, socket_timeouts };
        let web = Web { plane: plane.clone(), sockets, console, codes };
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
    /// URL for a browser, with a new code that signs it in.
    pub fn link(&self) -> String {
        let code = self.codes.as_ref().map(|codes| codes.create(LOCAL_OPERATOR));
        console_link(&format!("http://{}", self.address), code.as_deref())
    }

    /// Closes sockets and waits for requests and jobs in progress.
    pub async fn stop(self) {
        self.tasks.stop(&self.aws).await;
    }
}
