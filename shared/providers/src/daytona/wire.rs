//! What Daytona's answers look like, as far as we read them.

use crate::{Asked, Failure, Found, Link, Listed, MadeOf, State};
use domain::{SandboxId, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// Reads an answer. One that cannot be read may be the next time.
pub(super) fn read<T: DeserializeOwned>(body: Value, what: &str) -> Result<T, Failure> {
    serde_json::from_value(body)
        .map_err(|error| Failure::unreachable(format!("Daytona's answer is not {what}: {error}")))
}

/// A sandbox, as they see it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sandbox {
    pub id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    desired_state: Option<String>,
    #[serde(default)]
    error_reason: Option<String>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    pub toolbox_proxy_url: Option<String>,
    #[serde(default)]
    snapshot: Option<String>,
    #[serde(default)]
    build_info: Option<BuildInfo>,
    #[serde(default)]
    memory: Option<f64>,
    #[serde(default)]
    cpu: Option<f64>,
    #[serde(default)]
    disk: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BuildInfo {
    #[serde(default)]
    dockerfile_content: Option<String>,
}

impl Sandbox {
    /// Whether they only remember it.
    pub(super) fn is_gone(&self) -> bool {
        self.state.as_deref() == Some("destroyed")
    }

    /// How far it is. A state that nobody knows is one to ask about again.
    pub(super) fn state(&self) -> State {
        match self.state.as_deref().unwrap_or_default() {
            "error" | "build_failed" => {
                let reason = self.error_reason.as_deref().unwrap_or("Daytona does not say why");
                State::Broken(reason.to_owned())
            }
            "destroyed" | "destroying" | "stopped" | "stopping" | "archived" | "archiving" | "pausing"
            | "paused" => State::Going,
            _ if self.desired_state.as_deref() == Some("destroyed") => State::Going,
            "started" => State::Ready,
            _ => State::Coming,
        }
    }

    pub(super) fn found(&self, name: &SandboxId) -> Found {
        let made_of = Some(self.made_of());
        Found { name: name.clone(), provider_id: self.id.clone(), state: self.state(), made_of }
    }

    /// What it has got, by their account: a snapshot brings its own resources, whatever was wished for.
    fn made_of(&self) -> MadeOf {
        let file = self.build_info.as_ref().and_then(|build| build.dockerfile_content.as_deref());
        let image = file.and_then(|file| file.trim().strip_prefix("FROM "));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few, and whole")]
        let whole = |amount: Option<f64>| amount.filter(|amount| *amount >= 1.0).map(|amount| amount as u32);
        MadeOf {
            // What they build of an image is a snapshot to them, too.
            snapshot: if image.is_none() { self.snapshot.clone() } else { None },
            image: image.map(str::to_owned),
            memory_gb: whole(self.memory),
            cpu: whole(self.cpu),
            disk_gb: whole(self.disk),
        }
    }

    /// What it lacks of what somebody asked for, in their words; `None` if nothing. What they do not say is not lacking.
    pub(super) fn lacks(&self, asked: Asked) -> Option<Value> {
        let more = |has: Option<f64>, asked: Option<u32>| {
            asked.filter(|asked| has.is_some_and(|has| f64::from(*asked) > has))
        };
        let (memory, cpu) = (more(self.memory, asked.memory_gb), more(self.cpu, asked.cpu));
        let mut lacks = serde_json::Map::new();
        lacks.extend(memory.map(|memory| ("memory".to_owned(), memory.into())));
        lacks.extend(cpu.map(|cpu| ("cpu".to_owned(), cpu.into())));
        (!lacks.is_empty()).then_some(Value::Object(lacks))
    }

    /// Whether it has all of these labels.
    pub(super) fn has(&self, labels: &BTreeMap<String, String>) -> bool {
        let own = self.labels.as_ref();
        labels.iter().all(|(name, value)| own.and_then(|own| own.get(name)) == Some(value))
    }

    /// As it is listed, if its name is one of ours.
    pub(super) fn listed(&self) -> Option<Listed> {
        let label = self.labels.as_ref().and_then(|labels| labels.get("sandbox"));
        let name = self.name.as_ref().or(label)?;
        let created = self.created_at.as_deref().and_then(Timestamp::parse);
        Some(Listed {
            name: SandboxId::parse(name.clone()).ok()?,
            provider_id: self.id.clone(),
            created_at_secs: created.map(Timestamp::as_secs),
        })
    }
}

/// Some sandboxes, or, from an older plane of theirs, all of them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Page {
    All(Vec<Sandbox>),
    Some {
        items: Vec<Sandbox>,
        #[serde(default, rename = "nextCursor")]
        next_cursor: Option<String>,
    },
}

impl Page {
    pub(super) fn parts(self) -> (Vec<Sandbox>, Option<String>) {
        match self {
            Self::All(items) => (items, None),
            Self::Some { items, next_cursor } => (items, next_cursor),
        }
    }
}

/// Where a port can be reached.
#[derive(Debug, Deserialize)]
pub(super) struct Preview {
    url: String,
    #[serde(default)]
    token: Option<String>,
}

impl From<Preview> for Link {
    fn from(preview: Preview) -> Self {
        Self { url: preview.url, token: preview.token }
    }
}

/// What a command has left.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Executed {
    pub exit_code: i64,
    #[serde(default)]
    pub result: String,
}

/// A shell in a sandbox, and what it was told to run.
#[derive(Debug, Deserialize)]
pub(super) struct Session {
    #[serde(default)]
    commands: Option<Vec<Command>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Command {
    #[serde(default)]
    exit_code: Option<i64>,
}

impl Session {
    /// Whether something still runs in it.
    pub(super) fn is_busy(&self) -> bool {
        self.commands.iter().flatten().any(|command| command.exit_code.is_none())
    }

    /// The code with which its last command ended, if that has ended.
    pub(super) fn last_code(&self) -> Option<i64> {
        self.commands.iter().flatten().last()?.exit_code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_state_of_theirs_is_one_of_ours() {
        let broken = || State::Broken("no disk".to_owned());
        for (theirs, ours) in [
            ("creating", State::Coming),
            ("restoring", State::Coming),
            ("starting", State::Coming),
            ("pending_build", State::Coming),
            ("building_snapshot", State::Coming),
            ("pulling_snapshot", State::Coming),
            ("resuming", State::Coming),
            ("unknown", State::Coming),
            ("invented tomorrow", State::Coming),
            ("started", State::Ready),
            ("stopped", State::Going),
            ("stopping", State::Going),
            ("destroying", State::Going),
            ("archived", State::Going),
            ("paused", State::Going),
            ("error", broken()),
            ("build_failed", broken()),
        ] {
            let sandbox = json!({"id": "1", "state": theirs, "errorReason": "no disk"});
            assert_eq!(read::<Sandbox>(sandbox, "").unwrap().state(), ours, "{theirs}");
        }
        let told = json!({"id": "1", "state": "started", "desiredState": "destroyed"});
        assert_eq!(read::<Sandbox>(told, "").unwrap().state(), State::Going);
    }

    #[test]
    fn only_what_was_asked_for_and_is_more_is_lacking() {
        let sandbox: Sandbox = read(json!({"id": "1", "memory": 2, "cpu": 4}), "").unwrap();
        for (memory_gb, cpu, lacks) in [
            (None, None, None),
            (Some(2), Some(4), None),
            (Some(1), Some(1), None),
            (Some(6), None, Some(json!({"memory": 6}))),
            (Some(6), Some(8), Some(json!({"memory": 6, "cpu": 8}))),
        ] {
            assert_eq!(sandbox.lacks(Asked { memory_gb, cpu }), lacks, "{memory_gb:?} {cpu:?}");
        }
        let silent: Sandbox = read(json!({"id": "1"}), "").unwrap();
        assert_eq!(silent.lacks(Asked { memory_gb: Some(6), cpu: None }), None);
    }

    #[test]
    fn what_a_sandbox_has_got_is_what_they_say() {
        let sizes = MadeOf { memory_gb: Some(2), cpu: Some(1), disk_gb: Some(5), ..MadeOf::default() };
        let snapshot = MadeOf { snapshot: Some("light".to_owned()), ..sizes.clone() };
        let image = MadeOf { image: Some("debian:13".to_owned()), ..sizes };
        let build = json!({"dockerfileContent": "FROM debian:13\n"});
        for (theirs, ours) in [
            (json!({"id": "1", "snapshot": "light", "memory": 2, "cpu": 1, "disk": 5}), snapshot),
            (
                json!({"id": "1", "snapshot": "a1b2", "buildInfo": build, "memory": 2, "cpu": 1.0, "disk": 5}),
                image,
            ),
            (json!({"id": "1", "snapshot": null, "buildInfo": null, "memory": 0}), MadeOf::default()),
        ] {
            assert_eq!(read::<Sandbox>(theirs.clone(), "").unwrap().made_of(), ours, "{theirs}");
        }
    }
}
