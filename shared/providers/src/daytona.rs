//! Sandboxes at Daytona, over its REST API, under the plane's own names.
//!
//! Surprises of that API: resources must not be given with a snapshot, which brings its own
//! (<https://github.com/daytonaio/daytona/issues/2296>); creation blocks for up to half a minute until the sandbox starts,
//! so our own timeout may lose the response; deleting a sandbox while its state changes is a conflict; and content types
//! of responses are unreliable.
//!
//! **Environment variables of the worker** include secrets. The sandbox's `env` and the commands of a session can be read
//! back through the API for as long as the sandbox exists, and commands may be logged. So the variables are written to a
//! file in a directory that only the sandbox's user can enter, and the shell that starts the worker removes the file before
//! the worker and any agent run.
//!
//! Deliberately absent: retries (the caller keeps the records), and stopping a sandbox without deleting it, which would
//! still cost money.

mod http;
mod kind;
mod start;
mod wire;

pub use crate::WorkerSource;
use crate::{
    Deletion, Failure, FailureClass, Found, LOG_BYTES, Link, Listed, ProviderFuture, SandboxProvider,
    SandboxSpec, State, Tail,
};
use domain::SandboxId;
use domain::resources::DEFAULT_IMAGE;
use http::{Http, RequestError, Target};
pub use kind::DAYTONA;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use wire::{Page, Sandbox};

/// Value of the `app` label, the same for all planes.
const APP: &str = "sunaba";

/// Page size of a list.
const PAGE_SIZE: usize = 100;

/// Guards against a list that never ends.
const MAX_PAGES: usize = 1000;

#[derive(Clone)]
pub struct Options {
    /// `https://app.daytona.io/api`.
    pub api_url: String,
    pub api_key: String,
    /// Organization id, if the key belongs to several.
    pub organization: Option<String>,
    /// Region, if not the organization's default.
    pub target: Option<String>,
    /// [`SandboxProvider::list`] lists the sandboxes of this plane.
    pub plane: String,
    pub worker: WorkerSource,
    /// Timeout of a request. Uploading the worker executable may take five times as long.
    pub timeout: Duration,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api_url, organization, target, plane, worker, timeout, api_key: _ } = self;
        let mut shown = f.debug_struct("Options");
        shown.field("api_url", api_url).field("organization", organization).field("target", target);
        shown.field("plane", plane).field("worker", worker).field("timeout", timeout).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Daytona {
    options: Options,
    http: Http,
}

impl Daytona {
    /// Sends no request yet.
    pub fn new(options: Options) -> Self {
        let http = Http::new(&options);
        Self { options, http }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.options.api_url.trim_end_matches('/'))
    }

    async fn lookup(&self, name: &str) -> Result<Option<Sandbox>, Failure> {
        let response = self
            .http
            .json(
                Target::Api,
                Method::GET,
                &self.url(&format!("sandbox/{name}")),
                None,
                "finding the sandbox",
            )
            .await;
        match response {
            Err(error) if error.status == Some(404) => Ok(None),
            Err(error) => Err(error.failure),
            Ok(body) => {
                let sandbox = wire::read::<Sandbox>(body, "a sandbox")?;
                Ok((!sandbox.is_deleted()).then_some(sandbox))
            }
        }
    }

    async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<Found, Failure> {
        let resources = &spec.resources;
        let created = match resources.snapshot.is_empty() {
            false => self.post(self.body(spec, Start::Snapshot(&resources.snapshot))).await,
            true => self.post(self.body(spec, Start::image(&resources.image))).await,
        };
        let created = match created {
            Err(error)
                if error.is_snapshot_unavailable(&resources.snapshot)
                    && self.can_run_worker(&resources.image) =>
            {
                tracing::warn!(
                    sandbox.id = %spec.name,
                    "Daytona cannot start sandbox {} from snapshot {}; falling back to image {}",
                    spec.name, resources.snapshot, resources.image,
                );
                self.post(self.body(spec, Start::image(&resources.image))).await
            }
            created => created,
        };
        let created = match created {
            Ok(sandbox) => sandbox,
            // The sandbox may exist although the response was lost. If not, the conflict was with one that is being deleted.
            Err(error) if error.failure.class == FailureClass::Unreachable => {
                match self.lookup(spec.name.as_str()).await {
                    Ok(Some(sandbox)) => sandbox,
                    _ => return Err(error.failure),
                }
            }
            Err(error) => return Err(error.failure),
        };
        self.resized(spec, created).await
    }

    /// Resizes the sandbox to the requested resources. A snapshot has its own size; a started sandbox can get more memory and
    /// CPUs, but not less, and no other disk.
    async fn resized(&self, spec: &SandboxSpec, sandbox: Sandbox) -> Result<Found, Failure> {
        let missing = sandbox.missing(spec.requested).filter(|_| sandbox.state() == State::Ready);
        let Some(missing) = missing else { return Ok(sandbox.found(&spec.name)) };
        let url = self.url(&format!("sandbox/{}/resize", spec.name));
        match self.http.json(Target::Api, Method::POST, &url, Some(&missing), "resizing the sandbox").await {
            Ok(body) => Ok(wire::read::<Sandbox>(body, "a sandbox")?.found(&spec.name)),
            // This installation cannot resize, or not that much: keep the size of the snapshot.
            Err(error) if matches!(error.status, Some(400 | 404 | 422)) => {
                tracing::warn!(sandbox.id = %spec.name, "Sandbox {} keeps the size of its snapshot: {}", spec.name, error.failure);
                Ok(sandbox.found(&spec.name))
            }
            Err(error) => Err(error.failure),
        }
    }

    /// Whether a worker can run in a sandbox of this image. The default image does not contain the worker executable, so a
    /// worker would never report.
    fn can_run_worker(&self, image: &str) -> bool {
        let is_uploaded = !matches!(self.options.worker, WorkerSource::InImage(_));
        !image.is_empty() && (is_uploaded || image != DEFAULT_IMAGE)
    }

    async fn post(&self, body: Value) -> Result<Sandbox, RequestError> {
        let created = self
            .http
            .json(Target::Api, Method::POST, &self.url("sandbox"), Some(&body), "creating the sandbox")
            .await?;
        wire::read(created, "a sandbox").map_err(RequestError::from)
    }

    fn body(&self, spec: &SandboxSpec, start: Start<'_>) -> Value {
        let mut labels = spec.labels.clone();
        labels.extend(self.labels(&spec.plane));
        labels.insert("sandbox".to_owned(), spec.name.to_string());
        let mut body = json!({
            "name": spec.name.as_str(),
            "labels": labels,
            "env": {},
            "public": false,
            "autoStopInterval": 0,
            "ttlMinutes": spec.lifetime_minutes,
        });
        if let Some(target) = &self.options.target {
            body["target"] = json!(target);
        }
        match start {
            // A snapshot brings its own resources; Daytona refuses others.
            Start::Snapshot(snapshot) => body["snapshot"] = json!(snapshot),
            Start::Image(image) => {
                body["buildInfo"] = json!({"dockerfileContent": format!("FROM {image}\n")});
                body["cpu"] = json!(spec.resources.cpu);
                body["memory"] = json!(spec.resources.memory_gb);
                body["disk"] = json!(spec.resources.disk_gb);
            }
            Start::Default => {}
        }
        body
    }

    fn labels(&self, plane: &str) -> BTreeMap<String, String> {
        [("app", APP), ("plane", plane)].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    async fn delete(&self, name: &SandboxId) -> Result<Deletion, Failure> {
        let url = self.url(&format!("sandbox/{name}"));
        match self.http.json(Target::Api, Method::DELETE, &url, None, "deleting the sandbox").await {
            Ok(_) => {}
            Err(error) if error.status == Some(404) => return Ok(Deletion::Done),
            // Its state is changing, most often because of an earlier deletion: check the state.
            Err(error) if matches!(error.status, Some(400 | 409 | 423)) => {
                return match self.lookup(name.as_str()).await? {
                    None => Ok(Deletion::Done),
                    Some(_) if error.status == Some(400) && !error.is_state_change_in_progress() => {
                        Err(error.failure)
                    }
                    Some(_) => Ok(Deletion::InProgress),
                };
            }
            Err(error) => return Err(error.failure),
        }
        match self.lookup(name.as_str()).await? {
            None => Ok(Deletion::Done),
            Some(_) => Ok(Deletion::InProgress),
        }
    }

    async fn listed(&self) -> Result<Vec<Listed>, Failure> {
        let own = self.labels(&self.options.plane);
        let (mut listed, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let labels = serde_json::to_string(&own).expect("a map of strings serializes");
            let mut query = vec![("labels", labels), ("limit", PAGE_SIZE.to_string())];
            query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let url = http::with_query(&self.url("sandbox"), &query)?;
            let body = self.http.json(Target::Api, Method::GET, &url, None, "listing sandboxes").await?;
            let page: Page = wire::read(body, "a list of sandboxes")?;
            let (items, next) = page.parts();
            // The plane deletes unknown sandboxes on this list, so do not rely on the server-side filter alone.
            listed.extend(
                items.iter().filter(|item| item.has(&own) && !item.is_deleted()).filter_map(Sandbox::listed),
            );
            match next.filter(|next| !next.is_empty()) {
                None => return Ok(listed),
                next => cursor = next,
            }
        }
        Err(Failure::unreachable(format!("Daytona's list of sandboxes has more than {MAX_PAGES} pages")))
    }

    async fn link(&self, name: &SandboxId, port: u16) -> Result<Option<Link>, Failure> {
        let url = self.url(&format!("sandbox/{name}/ports/{port}/preview-url"));
        match self.http.json(Target::Api, Method::GET, &url, None, "requesting a preview URL").await {
            Err(error) if error.status == Some(404) => Ok(None),
            Err(error) => Err(error.failure),
            Ok(body) => wire::read::<wire::Preview>(body, "a link").map(|preview| Some(preview.into())),
        }
    }
}

enum Start<'a> {
    Snapshot(&'a str),
    Image(&'a str),
    /// Daytona's default image.
    Default,
}

impl<'a> Start<'a> {
    fn image(image: &'a str) -> Self {
        if image.is_empty() { Self::Default } else { Self::Image(image) }
    }
}

impl SandboxProvider for Daytona {
    fn name(&self) -> &'static str {
        "daytona"
    }

    fn isolation(&self) -> String {
        "Each sandbox is a separate machine at Daytona with its own files, processes, memory and disk. Its internet access \
         depends on the settings of the Daytona organization; of the plane it can reach only the public address."
            .to_owned()
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> ProviderFuture<'a, Found> {
        Box::pin(self.create_sandbox(spec))
    }

    fn find<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Option<Found>> {
        Box::pin(async move { Ok(self.lookup(name.as_str()).await?.map(|sandbox| sandbox.found(name))) })
    }

    fn upload<'a>(&'a self, found: &'a Found) -> ProviderFuture<'a, ()> {
        Box::pin(async move {
            match &self.options.worker {
                WorkerSource::InImage(_) => Ok(()),
                WorkerSource::File(path) => {
                    let program = tokio::fs::read(path).await.map_err(|error| {
                        Failure::refused(format!(
                            "the worker executable {} cannot be read: {error}",
                            path.display()
                        ))
                    })?;
                    self.toolbox(&found.provider_id).await?.put_worker(program.into()).await
                }
                WorkerSource::Url(url) => {
                    let program = self.http.fetch(url).await?;
                    self.toolbox(&found.provider_id).await?.put_worker(program).await
                }
            }
        })
    }

    fn start<'a>(
        &'a self,
        found: &'a Found,
        variables: &'a BTreeMap<String, String>,
    ) -> ProviderFuture<'a, ()> {
        Box::pin(async move {
            let in_image = match &self.options.worker {
                WorkerSource::InImage(path) => Some(path.as_str()),
                WorkerSource::File(_) | WorkerSource::Url(_) => None,
            };
            self.toolbox(&found.provider_id).await?.start_worker(&found.name, in_image, variables).await
        })
    }

    fn destroy<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Deletion> {
        Box::pin(self.delete(name))
    }

    fn list<'a>(&'a self) -> ProviderFuture<'a, Vec<Listed>> {
        Box::pin(self.listed())
    }

    fn logs<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Tail> {
        Box::pin(async move {
            match self.lookup(name.as_str()).await? {
                Some(sandbox) if sandbox.state() == State::Ready => {
                    self.toolbox_of(&sandbox).worker_log(LOG_BYTES).await
                }
                _ => Ok(Tail::default()),
            }
        })
    }

    fn preview<'a>(&'a self, name: &'a SandboxId, port: u16) -> ProviderFuture<'a, Option<Link>> {
        Box::pin(self.link(name, port))
    }
}
