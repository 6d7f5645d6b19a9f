//! Sandboxes at Daytona, over its REST API, under our own names.
//!
//! What surprised us there, and is therefore here: resources may not be named beside a snapshot, which has its own
//! (<https://github.com/daytonaio/daytona/issues/2296>); creating waits up to half a minute for the sandbox to start, so
//! that an answer may be lost to our own deadline; ending one that changes its state is a conflict; and the body, not the
//! content type, says what an answer is.
//!
//! **Where the worker's variables go.** Among them there are secrets. The sandbox's `env` and the text of a session's
//! command can be read back through the API for as long as it exists, and what is typed into a command may end up in its
//! log. So they are written into a file in a folder that only the sandbox's own user can enter, and the shell that starts
//! the worker removes it before the worker, and any agent, runs.
//!
//! Deliberately absent: retries (the caller keeps the record), and stopping without ending, which would only cost.

mod http;
mod start;
mod wire;

use crate::{
    Answer, Failure, FailureClass, Found, Gone, LOG_BYTES, Link, Listed, SandboxProvider, SandboxSpec, State,
    Tail,
};
use domain::SandboxId;
use domain::resources::DEFAULT_IMAGE;
use http::{Http, Whom, Wrong};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use wire::{Page, Sandbox};

/// What marks a sandbox as one of ours, whichever plane's.
const APP: &str = "sunaba";

/// How many sandboxes are asked for at once.
const PAGE: usize = 100;

/// A list that is longer than this many pages does not end.
const MOST_PAGES: usize = 1000;

/// How to reach Daytona.
#[derive(Clone)]
pub struct Options {
    /// Where the API is: `https://app.daytona.io/api`.
    pub api_url: String,
    /// What proves that we may.
    pub api_key: String,
    /// Whose sandboxes they are, where the key alone does not say so.
    pub organization: Option<String>,
    /// In which region they run, if not in the organisation's own.
    pub target: Option<String>,
    /// Which plane's those are that [`SandboxProvider::list`] lists.
    pub plane: String,
    /// Where the worker's program comes from.
    pub worker: WorkerSource,
    /// How long one request may take. Sending the worker's program may take five times as long.
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

/// Where the worker's program comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerSource {
    /// It is in the snapshot or image, there.
    InImage(String),
    /// It is a file of ours.
    File(PathBuf),
    /// It is fetched from there, by us, and sent on.
    Url(String),
}

/// The provider.
#[derive(Debug)]
pub struct Daytona {
    options: Options,
    http: Http,
}

impl Daytona {
    /// A provider with these options. Nothing is asked yet.
    pub fn new(options: Options) -> Self {
        let http = Http::new(&options);
        Self { options, http }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.options.api_url.trim_end_matches('/'))
    }

    async fn look(&self, name: &str) -> Result<Option<Sandbox>, Failure> {
        let asked = self
            .http
            .json(Whom::Api, Method::GET, &self.url(&format!("sandbox/{name}")), None, "finding it")
            .await;
        match asked {
            Err(wrong) if wrong.status == Some(404) => Ok(None),
            Err(wrong) => Err(wrong.failure),
            Ok(body) => {
                let sandbox = wire::read::<Sandbox>(body, "a sandbox")?;
                Ok((!sandbox.is_gone()).then_some(sandbox))
            }
        }
    }

    async fn make(&self, wish: &SandboxSpec) -> Result<Found, Failure> {
        let resources = &wish.resources;
        let made = match resources.snapshot.is_empty() {
            false => self.post(self.body(wish, Start::Snapshot(&resources.snapshot))).await,
            true => self.post(self.body(wish, Start::image(&resources.image))).await,
        };
        let made = match made {
            Err(wrong)
                if wrong.is_about_the_snapshot(&resources.snapshot)
                    && self.has_what_it_takes(&resources.image) =>
            {
                tracing::warn!(
                    sandbox.id = %wish.name,
                    "Daytona does not start {} from {}; trying the image {}",
                    wish.name, resources.snapshot, resources.image,
                );
                self.post(self.body(wish, Start::image(&resources.image))).await
            }
            made => made,
        };
        let made = match made {
            Ok(sandbox) => sandbox,
            // It was there, or is, although nobody said so. If not, a conflict was with one that is just going.
            Err(wrong) if wrong.failure.class == FailureClass::Unreachable => {
                match self.look(wish.name.as_str()).await {
                    Ok(Some(sandbox)) => sandbox,
                    _ => return Err(wrong.failure),
                }
            }
            Err(wrong) => return Err(wrong.failure),
        };
        self.enlarged(wish, made).await
    }

    /// The sandbox with what was asked for just for it. A snapshot has a size of its own, and one that has started can get
    /// more memory and processors, but neither less nor another disk.
    async fn enlarged(&self, wish: &SandboxSpec, sandbox: Sandbox) -> Result<Found, Failure> {
        let lacks = sandbox.lacks(wish.asked).filter(|_| sandbox.state() == State::Ready);
        let Some(lacks) = lacks else { return Ok(sandbox.found(&wish.name)) };
        let url = self.url(&format!("sandbox/{}/resize", wish.name));
        match self.http.json(Whom::Api, Method::POST, &url, Some(&lacks), "enlarging it").await {
            Ok(body) => Ok(wire::read::<Sandbox>(body, "a sandbox")?.found(&wish.name)),
            // Theirs cannot do it, or not that much: it is what it is, and says so.
            Err(wrong) if matches!(wrong.status, Some(400 | 404 | 422)) => {
                tracing::warn!(sandbox.id = %wish.name, "{} stays as its snapshot is: {}", wish.name, wrong.failure);
                Ok(sandbox.found(&wish.name))
            }
            Err(wrong) => Err(wrong.failure),
        }
    }

    /// Whether a worker could run in a sandbox that is made of this image. The one that is used where nobody names any has
    /// none in it: who is started there would never be heard of.
    fn has_what_it_takes(&self, image: &str) -> bool {
        let is_sent = !matches!(self.options.worker, WorkerSource::InImage(_));
        !image.is_empty() && (is_sent || image != DEFAULT_IMAGE)
    }

    async fn post(&self, body: Value) -> Result<Sandbox, Wrong> {
        let made =
            self.http.json(Whom::Api, Method::POST, &self.url("sandbox"), Some(&body), "creating it").await?;
        wire::read(made, "a sandbox").map_err(Wrong::from)
    }

    fn body(&self, wish: &SandboxSpec, start: Start<'_>) -> Value {
        let mut labels = wish.labels.clone();
        labels.extend(self.labels(&wish.plane));
        labels.insert("sandbox".to_owned(), wish.name.to_string());
        let mut body = json!({
            "name": wish.name.as_str(),
            "labels": labels,
            "env": {},
            "public": false,
            "autoStopInterval": 0,
            "ttlMinutes": wish.lifetime_minutes,
        });
        if let Some(target) = &self.options.target {
            body["target"] = json!(target);
        }
        match start {
            // It brings its own resources: naming others is refused.
            Start::Snapshot(snapshot) => body["snapshot"] = json!(snapshot),
            Start::Image(image) => {
                body["buildInfo"] = json!({"dockerfileContent": format!("FROM {image}\n")});
                body["cpu"] = json!(wish.resources.cpu);
                body["memory"] = json!(wish.resources.memory_gb);
                body["disk"] = json!(wish.resources.disk_gb);
            }
            Start::Default => {}
        }
        body
    }

    fn labels(&self, plane: &str) -> BTreeMap<String, String> {
        [("app", APP), ("plane", plane)].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    async fn end(&self, name: &SandboxId) -> Result<Gone, Failure> {
        let url = self.url(&format!("sandbox/{name}"));
        match self.http.json(Whom::Api, Method::DELETE, &url, None, "ending it").await {
            Ok(_) => {}
            Err(wrong) if wrong.status == Some(404) => return Ok(Gone::Yes),
            // Its state is just changing, most often because it was told to end before: look how far it is.
            Err(wrong) if matches!(wrong.status, Some(400 | 409 | 423)) => {
                return match self.look(name.as_str()).await? {
                    None => Ok(Gone::Yes),
                    Some(_) if wrong.status == Some(400) && !wrong.is_about_a_change() => Err(wrong.failure),
                    Some(_) => Ok(Gone::NotYet),
                };
            }
            Err(wrong) => return Err(wrong.failure),
        }
        match self.look(name.as_str()).await? {
            None => Ok(Gone::Yes),
            Some(_) => Ok(Gone::NotYet),
        }
    }

    async fn listed(&self) -> Result<Vec<Listed>, Failure> {
        let ours = self.labels(&self.options.plane);
        let (mut listed, mut cursor) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let labels = serde_json::to_string(&ours).expect("texts have a JSON form");
            let mut query = vec![("labels", labels), ("limit", PAGE.to_string())];
            query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let url = http::with_query(&self.url("sandbox"), &query)?;
            let body = self.http.json(Whom::Api, Method::GET, &url, None, "listing them").await?;
            let page: Page = wire::read(body, "a list of sandboxes")?;
            let (items, next) = page.parts();
            // Who is on this list and unknown to the plane is ended. So the filter is not left to the other side alone.
            listed.extend(
                items.iter().filter(|item| item.has(&ours) && !item.is_gone()).filter_map(Sandbox::listed),
            );
            match next.filter(|next| !next.is_empty()) {
                None => return Ok(listed),
                next => cursor = next,
            }
        }
        Err(Failure::unreachable(format!(
            "Daytona's list of sandboxes has not ended after {MOST_PAGES} pages"
        )))
    }

    async fn link(&self, name: &SandboxId, port: u16) -> Result<Option<Link>, Failure> {
        let url = self.url(&format!("sandbox/{name}/ports/{port}/preview-url"));
        match self.http.json(Whom::Api, Method::GET, &url, None, "asking for a link to it").await {
            Err(wrong) if wrong.status == Some(404) => Ok(None),
            Err(wrong) => Err(wrong.failure),
            Ok(body) => wire::read::<wire::Preview>(body, "a link").map(|preview| Some(preview.into())),
        }
    }
}

/// What a sandbox is started from.
enum Start<'a> {
    Snapshot(&'a str),
    Image(&'a str),
    /// Daytona's own choice.
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
        "Each sandbox is a machine of its own at Daytona, with its own files, processes, memory and disk. It can reach the \
         internet as far as the organisation's settings there allow, and nothing of the plane but its public address."
            .to_owned()
    }

    fn create<'a>(&'a self, wish: &'a SandboxSpec) -> Answer<'a, Found> {
        Box::pin(self.make(wish))
    }

    fn find<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Option<Found>> {
        Box::pin(async move { Ok(self.look(name.as_str()).await?.map(|sandbox| sandbox.found(name))) })
    }

    fn upload<'a>(&'a self, found: &'a Found) -> Answer<'a, ()> {
        Box::pin(async move {
            match &self.options.worker {
                WorkerSource::InImage(_) => Ok(()),
                WorkerSource::File(path) => {
                    let program = tokio::fs::read(path).await.map_err(|error| {
                        Failure::refused(format!("the worker {} cannot be read: {error}", path.display()))
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

    fn start<'a>(&'a self, found: &'a Found, variables: &'a BTreeMap<String, String>) -> Answer<'a, ()> {
        Box::pin(async move {
            let in_image = match &self.options.worker {
                WorkerSource::InImage(path) => Some(path.as_str()),
                WorkerSource::File(_) | WorkerSource::Url(_) => None,
            };
            self.toolbox(&found.provider_id).await?.start_worker(&found.name, in_image, variables).await
        })
    }

    fn destroy<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Gone> {
        Box::pin(self.end(name))
    }

    fn list<'a>(&'a self) -> Answer<'a, Vec<Listed>> {
        Box::pin(self.listed())
    }

    fn logs<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Tail> {
        Box::pin(async move {
            match self.look(name.as_str()).await? {
                Some(sandbox) if sandbox.state() == State::Ready => {
                    self.toolbox_of(&sandbox).worker_log(LOG_BYTES).await
                }
                _ => Ok(Tail::default()),
            }
        })
    }

    fn preview<'a>(&'a self, name: &'a SandboxId, port: u16) -> Answer<'a, Option<Link>> {
        Box::pin(self.link(name, port))
    }
}
