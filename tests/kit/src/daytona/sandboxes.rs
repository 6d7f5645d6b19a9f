//! The sandboxes of the fake, from creation to deletion.

use super::machine::Machine;
use super::{ApiResponse, Options, lock, refusal};
use domain::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;
use tempfile::TempDir;
use tokio::time::Instant;

/// Resources of every snapshot.
const SNAPSHOT: [(&str, u64); 3] = [("cpu", 1), ("memory", 2), ("disk", 5)];

/// A sandbox as a test sees it.
#[derive(Debug, Clone)]
pub struct SandboxView {
    /// Assigned by Daytona.
    pub id: String,
    /// Assigned by the plane.
    pub name: String,
    /// `creating`, `started`, `destroying`, `destroyed`.
    pub state: &'static str,
    /// The body of the create request.
    pub request: Value,
    /// The commands of its sessions, in order.
    pub commands: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Sandboxes {
    folder: TempDir,
    all: Mutex<Vec<Sandbox>>,
}

impl Default for Sandboxes {
    fn default() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), all: Mutex::default() }
    }
}

#[derive(Debug)]
struct Sandbox {
    id: String,
    name: String,
    request: Value,
    /// Resources set by a later resize, by the field names of the create request.
    resized: BTreeMap<String, u64>,
    started_at: Instant,
    /// Set once deletion was requested.
    deleted_at: Option<Instant>,
    machine: Arc<Machine>,
}

impl Sandbox {
    fn state(&self) -> &'static str {
        let now = Instant::now();
        match self.deleted_at {
            Some(deleted_at) if now >= deleted_at => "destroyed",
            Some(_) => "destroying",
            None if now >= self.started_at => "started",
            None => "creating",
        }
    }

    fn matches(&self, id_or_name: &str) -> bool {
        // Of several sandboxes with the same name, only the last can be live.
        (self.id == id_or_name || self.name == id_or_name) && self.state() != "destroyed"
    }

    fn size(&self, field: &str) -> u64 {
        let of_snapshot = SNAPSHOT.iter().find(|(name, _)| *name == field).map_or(0, |(_, size)| *size);
        self.resized.get(field).copied().or(self.request[field].as_u64()).unwrap_or(of_snapshot)
    }

    fn json(&self, toolbox_url: &str) -> Value {
        let modified = self.machine.folder().metadata().and_then(|metadata| metadata.modified()).ok();
        let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let created = Timestamp::from_secs(i64::try_from(since.as_secs()).unwrap_or_default());
        let desired = if self.deleted_at.is_some() { "destroyed" } else { "started" };
        json!({
            "cpu": self.size("cpu"), "memory": self.size("memory"), "disk": self.size("disk"),
            "snapshot": self.request["snapshot"], "buildInfo": self.request["buildInfo"],
            "id": self.id, "name": self.name, "state": self.state(), "desiredState": desired,
            "labels": self.request["labels"], "env": self.request["env"], "createdAt": created.to_string(),
            "toolboxProxyUrl": toolbox_url,
        })
    }
}

impl Sandboxes {
    pub(super) fn create(&self, options: &Options, toolbox_url: &str, request: Value) -> ApiResponse {
        let mut all = lock(&self.all);
        let number = all.len() + 1;
        let id = format!("00000000-0000-4000-8000-{number:012}");
        let name = request["name"].as_str().unwrap_or(&id).to_owned();
        if let Err(response) = accept(options, &request) {
            return response;
        }
        if all.iter().any(|sandbox| sandbox.matches(&name)) {
            return refusal(409, &format!("Sandbox with name {name} already exists"));
        }
        let machine = Machine::new(self.folder.path().join(&id));
        let started_at = Instant::now() + options.start_delay;
        let (resized, machine) = (BTreeMap::new(), Arc::new(machine));
        let sandbox = Sandbox { id, name, request, resized, started_at, deleted_at: None, machine };
        let body = sandbox.json(toolbox_url);
        all.push(sandbox);
        (200, body)
    }

    pub(super) fn find(&self, toolbox_url: &str, id: &str) -> ApiResponse {
        match lock(&self.all).iter().find(|sandbox| sandbox.matches(id)) {
            Some(sandbox) => (200, sandbox.json(toolbox_url)),
            None => unknown(id),
        }
    }

    pub(super) fn list(
        &self,
        options: &Options,
        toolbox_url: &str,
        query: &BTreeMap<String, String>,
    ) -> ApiResponse {
        let labels: BTreeMap<String, String> =
            query.get("labels").and_then(|labels| serde_json::from_str(labels).ok()).unwrap_or_default();
        let requested = query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(options.page);
        let limit = options.page.min(requested);
        let all = lock(&self.all);
        let after = query.get("cursor").map(String::as_str).unwrap_or_default();
        let mut found = all.iter().filter(|sandbox| {
            let matches =
                |(name, value): (&String, &String)| sandbox.request["labels"][name] == value.as_str();
            sandbox.state() != "destroyed" && sandbox.id.as_str() > after && labels.iter().all(matches)
        });
        let items: Vec<&Sandbox> = found.by_ref().take(limit).collect();
        let next = items.last().filter(|_| found.next().is_some()).map(|last| last.id.clone());
        let items: Vec<Value> = items.iter().map(|sandbox| sandbox.json(toolbox_url)).collect();
        (200, json!({"items": items, "nextCursor": next}))
    }

    /// All processes have ended before the response, even if the sandbox is listed for longer.
    pub(super) async fn delete(&self, options: &Options, toolbox_url: &str, id: &str) -> ApiResponse {
        let (machine, body) = {
            let mut all = lock(&self.all);
            let Some(sandbox) = all.iter_mut().find(|sandbox| sandbox.matches(id)) else {
                return unknown(id);
            };
            if sandbox.deleted_at.is_some() {
                return refusal(409, "Sandbox state change in progress");
            }
            sandbox.deleted_at = Some(Instant::now() + options.delete_delay);
            (sandbox.machine.clone(), sandbox.json(toolbox_url))
        };
        let ended = tokio::task::spawn_blocking(move || machine.end()).await;
        ended.expect("`end` does not panic");
        (200, body)
    }

    /// A running sandbox can only grow, and its disk cannot change.
    pub(super) fn resize(&self, toolbox_url: &str, id: &str, request: &Value) -> ApiResponse {
        let mut all = lock(&self.all);
        let Some(sandbox) = all.iter_mut().find(|sandbox| sandbox.matches(id)) else { return unknown(id) };
        if sandbox.state() != "started" {
            return refusal(400, "Sandbox must be in started or stopped state to resize");
        }
        for field in ["cpu", "memory"] {
            match request[field].as_u64() {
                Some(size) if size < sandbox.size(field) => {
                    return refusal(400, "Sandbox must be in stopped state to decrease that");
                }
                Some(size) => drop(sandbox.resized.insert(field.to_owned(), size)),
                None => {}
            }
        }
        if !request["disk"].is_null() {
            return refusal(400, "Disk resize can only be performed on a stopped sandbox");
        }
        (200, sandbox.json(toolbox_url))
    }

    pub(super) fn preview(&self, id: &str, port: &str) -> ApiResponse {
        match lock(&self.all).iter().find(|sandbox| sandbox.matches(id)) {
            Some(Sandbox { id, .. }) => {
                let url = format!("https://{port}-{id}.preview.invalid");
                (200, json!({"sandboxId": id, "url": url, "token": "preview-token"}))
            }
            None => unknown(id),
        }
    }

    /// The machine of a sandbox that has started.
    pub(super) fn started(&self, id: &str) -> Result<Arc<Machine>, ApiResponse> {
        let all = lock(&self.all);
        let sandbox = all.iter().find(|sandbox| sandbox.matches(id)).ok_or_else(|| unknown(id))?;
        match sandbox.state() {
            "started" => Ok(sandbox.machine.clone()),
            state => Err(refusal(400, &format!("Sandbox is not running: {state}"))),
        }
    }

    pub(super) fn views(&self) -> Vec<SandboxView> {
        let view = |sandbox: &Sandbox| SandboxView {
            id: sandbox.id.clone(),
            name: sandbox.name.clone(),
            state: sandbox.state(),
            request: sandbox.request.clone(),
            commands: sandbox.machine.commands(),
        };
        lock(&self.all).iter().map(view).collect()
    }

    pub(super) fn processes(&self, name: &str) -> Vec<i32> {
        let all = lock(&self.all);
        all.iter()
            .filter(|sandbox| sandbox.name == name)
            .flat_map(|sandbox| sandbox.machine.processes())
            .collect()
    }

    pub(super) fn end(&self, name: &str) {
        let mut all = lock(&self.all);
        let deleting = all.iter_mut().filter(|sandbox| sandbox.name == name && sandbox.deleted_at.is_some());
        deleting.for_each(|sandbox| sandbox.deleted_at = Some(Instant::now()));
    }

    pub(super) fn end_all(&self) {
        lock(&self.all).iter().for_each(|sandbox| sandbox.machine.end());
    }
}

impl Drop for Sandboxes {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// Validates a create request as Daytona does.
fn accept(options: &Options, request: &Value) -> Result<(), ApiResponse> {
    let sized =
        ["cpu", "memory", "disk"].iter().any(|field| request[field].as_u64().is_some_and(|size| size > 0));
    match (&request["snapshot"], &request["buildInfo"]) {
        (Value::String(_), Value::Object(_)) => {
            Err(refusal(400, "Cannot specify a snapshot when using a build info entry"))
        }
        (_, Value::Object(build)) => {
            let file = build.get("dockerfileContent").and_then(Value::as_str).unwrap_or_default();
            match options.unpullable_images.iter().any(|image| file.contains(image)) {
                true => Err(refusal(400, "The image cannot be pulled")),
                false => Ok(()),
            }
        }
        _ if sized => Err(refusal(400, "Cannot specify Sandbox resources when using a snapshot")),
        (Value::String(snapshot), _) if !options.snapshots.contains(snapshot) => {
            Err(refusal(400, &format!("Snapshot {snapshot} not found")))
        }
        _ => Ok(()),
    }
}

fn unknown(id: &str) -> ApiResponse {
    refusal(404, &format!("Sandbox with ID or name {id} not found"))
}
