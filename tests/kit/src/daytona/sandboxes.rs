//! The sandboxes of a Daytona, from the moment they are asked for until nothing of them is left.

use super::machine::Machine;
use super::{Options, Said, lock, refusal};
use domain::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;
use tempfile::TempDir;
use tokio::time::Instant;

/// What every snapshot of ours brings.
const SNAPSHOT: [(&str, u64); 3] = [("cpu", 1), ("memory", 2), ("disk", 5)];

/// A sandbox as it was seen from outside.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Daytona's name for it.
    pub id: String,
    /// Its maker's name for it.
    pub name: String,
    /// `creating`, `started`, `destroying`, `destroyed`.
    pub state: &'static str,
    /// What it was made with: the whole request.
    pub wish: Value,
    /// The commands that were run in its sessions, in their order.
    pub commands: Vec<String>,
}

/// All of them.
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
    wish: Value,
    /// What it was given later, by the names of a wish.
    given: BTreeMap<String, u64>,
    starts: Instant,
    /// When it will be gone, once it was told to end.
    ends: Option<Instant>,
    machine: Arc<Machine>,
}

impl Sandbox {
    fn state(&self) -> &'static str {
        let now = Instant::now();
        match self.ends {
            Some(ends) if now >= ends => "destroyed",
            Some(_) => "destroying",
            None if now >= self.starts => "started",
            None => "creating",
        }
    }

    fn is(&self, id_or_name: &str) -> bool {
        // Of several with the same name all but the last are gone.
        (self.id == id_or_name || self.name == id_or_name) && self.state() != "destroyed"
    }

    fn size(&self, field: &str) -> u64 {
        let of_snapshot = SNAPSHOT.iter().find(|(name, _)| *name == field).map_or(0, |(_, size)| *size);
        self.given.get(field).copied().or(self.wish[field].as_u64()).unwrap_or(of_snapshot)
    }

    fn json(&self, toolbox_url: &str) -> Value {
        let made = self.machine.folder().metadata().and_then(|metadata| metadata.modified()).ok();
        let since = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let created = Timestamp::from_secs(i64::try_from(since.as_secs()).unwrap_or_default());
        let desired = if self.ends.is_some() { "destroyed" } else { "started" };
        json!({
            "cpu": self.size("cpu"), "memory": self.size("memory"), "disk": self.size("disk"),
            "snapshot": self.wish["snapshot"], "buildInfo": self.wish["buildInfo"],
            "id": self.id, "name": self.name, "state": self.state(), "desiredState": desired,
            "labels": self.wish["labels"], "env": self.wish["env"], "createdAt": created.to_string(),
            "toolboxProxyUrl": toolbox_url,
        })
    }
}

impl Sandboxes {
    pub(super) fn create(&self, options: &Options, toolbox_url: &str, wish: Value) -> Said {
        let mut all = lock(&self.all);
        let number = all.len() + 1;
        let id = format!("00000000-0000-4000-8000-{number:012}");
        let name = wish["name"].as_str().unwrap_or(&id).to_owned();
        if let Err(said) = accept(options, &wish) {
            return said;
        }
        if all.iter().any(|sandbox| sandbox.is(&name)) {
            return refusal(409, &format!("Sandbox with name {name} already exists"));
        }
        let machine = Machine::new(self.folder.path().join(&id));
        let starts = Instant::now() + options.starts_after;
        let (given, machine) = (BTreeMap::new(), Arc::new(machine));
        let sandbox = Sandbox { id, name, wish, given, starts, ends: None, machine };
        let said = sandbox.json(toolbox_url);
        all.push(sandbox);
        (200, said)
    }

    pub(super) fn find(&self, toolbox_url: &str, id: &str) -> Said {
        match lock(&self.all).iter().find(|sandbox| sandbox.is(id)) {
            Some(sandbox) => (200, sandbox.json(toolbox_url)),
            None => unknown(id),
        }
    }

    pub(super) fn list(
        &self,
        options: &Options,
        toolbox_url: &str,
        query: &BTreeMap<String, String>,
    ) -> Said {
        let labels: BTreeMap<String, String> =
            query.get("labels").and_then(|labels| serde_json::from_str(labels).ok()).unwrap_or_default();
        let asked = query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(options.page);
        let limit = options.page.min(asked);
        let all = lock(&self.all);
        let after = query.get("cursor").map(String::as_str).unwrap_or_default();
        let mut found = all.iter().filter(|sandbox| {
            let fits = |(name, value): (&String, &String)| sandbox.wish["labels"][name] == value.as_str();
            sandbox.state() != "destroyed" && sandbox.id.as_str() > after && labels.iter().all(fits)
        });
        let items: Vec<&Sandbox> = found.by_ref().take(limit).collect();
        let next = items.last().filter(|_| found.next().is_some()).map(|last| last.id.clone());
        let items: Vec<Value> = items.iter().map(|sandbox| sandbox.json(toolbox_url)).collect();
        (200, json!({"items": items, "nextCursor": next}))
    }

    /// Everything in it has ended before this is answered, however long it is still listed.
    pub(super) async fn delete(&self, options: &Options, toolbox_url: &str, id: &str) -> Said {
        let (machine, said) = {
            let mut all = lock(&self.all);
            let Some(sandbox) = all.iter_mut().find(|sandbox| sandbox.is(id)) else { return unknown(id) };
            if sandbox.ends.is_some() {
                return refusal(409, "Sandbox state change in progress");
            }
            sandbox.ends = Some(Instant::now() + options.ends_after);
            (sandbox.machine.clone(), sandbox.json(toolbox_url))
        };
        let ended = tokio::task::spawn_blocking(move || machine.end()).await;
        ended.expect("ending does not panic");
        (200, said)
    }

    /// One that has started can only get more, and no other disk.
    pub(super) fn resize(&self, toolbox_url: &str, id: &str, wanted: &Value) -> Said {
        let mut all = lock(&self.all);
        let Some(sandbox) = all.iter_mut().find(|sandbox| sandbox.is(id)) else { return unknown(id) };
        if sandbox.state() != "started" {
            return refusal(400, "Sandbox must be in started or stopped state to resize");
        }
        for field in ["cpu", "memory"] {
            match wanted[field].as_u64() {
                Some(size) if size < sandbox.size(field) => {
                    return refusal(400, "Sandbox must be in stopped state to decrease that");
                }
                Some(size) => drop(sandbox.given.insert(field.to_owned(), size)),
                None => {}
            }
        }
        if !wanted["disk"].is_null() {
            return refusal(400, "Disk resize can only be performed on a stopped sandbox");
        }
        (200, sandbox.json(toolbox_url))
    }

    pub(super) fn preview(&self, id: &str, port: &str) -> Said {
        match lock(&self.all).iter().find(|sandbox| sandbox.is(id)) {
            Some(Sandbox { id, .. }) => {
                let url = format!("https://{port}-{id}.preview.invalid");
                (200, json!({"sandboxId": id, "url": url, "token": "preview-token"}))
            }
            None => unknown(id),
        }
    }

    /// The machine of a sandbox that has started.
    pub(super) fn started(&self, id: &str) -> Result<Arc<Machine>, Said> {
        let all = lock(&self.all);
        let sandbox = all.iter().find(|sandbox| sandbox.is(id)).ok_or_else(|| unknown(id))?;
        match sandbox.state() {
            "started" => Ok(sandbox.machine.clone()),
            state => Err(refusal(400, &format!("Sandbox is not running: {state}"))),
        }
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        let seen = |sandbox: &Sandbox| Seen {
            id: sandbox.id.clone(),
            name: sandbox.name.clone(),
            state: sandbox.state(),
            wish: sandbox.wish.clone(),
            commands: sandbox.machine.commands(),
        };
        lock(&self.all).iter().map(seen).collect()
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
        let ending = all.iter_mut().filter(|sandbox| sandbox.name == name && sandbox.ends.is_some());
        ending.for_each(|sandbox| sandbox.ends = Some(Instant::now()));
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

/// What Daytona refuses to make.
fn accept(options: &Options, wish: &Value) -> Result<(), Said> {
    let sized =
        ["cpu", "memory", "disk"].iter().any(|field| wish[field].as_u64().is_some_and(|size| size > 0));
    match (&wish["snapshot"], &wish["buildInfo"]) {
        (Value::String(_), Value::Object(_)) => {
            Err(refusal(400, "Cannot specify a snapshot when using a build info entry"))
        }
        (_, Value::Object(build)) => {
            let file = build.get("dockerfileContent").and_then(Value::as_str).unwrap_or_default();
            match options.bad_images.iter().any(|image| file.contains(image)) {
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

fn unknown(id: &str) -> Said {
    refusal(404, &format!("Sandbox with ID or name {id} not found"))
}
