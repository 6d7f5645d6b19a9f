//! Response types of Daytona's API, with the fields we read.

use crate::{ActualResources, Failure, Found, Link, Listed, RequestedSize, State};
use domain::{SandboxId, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// Decodes a response. A failure is transient.
pub(super) fn read<T: DeserializeOwned>(body: Value, what: &str) -> Result<T, Failure> {
    serde_json::from_value(body)
        .map_err(|error| Failure::unreachable(format!("Daytona's response is not {what}: {error}")))
}

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
    pub(super) fn is_deleted(&self) -> bool {
        self.state.as_deref() == Some("destroyed")
    }

    /// Maps Daytona's state. An unknown state is pending, so that it is polled again.
    pub(super) fn state(&self) -> State {
        match self.state.as_deref().unwrap_or_default() {
            "error" | "build_failed" => {
                let reason = self.error_reason.as_deref().unwrap_or("no reason given by Daytona");
                State::Broken(reason.to_owned())
            }
            "destroyed" | "destroying" | "stopped" | "stopping" | "archived" | "archiving" | "pausing"
            | "paused" => State::Deleting,
            _ if self.desired_state.as_deref() == Some("destroyed") => State::Deleting,
            "started" => State::Ready,
            _ => State::Pending,
        }
    }

    pub(super) fn found(&self, name: &SandboxId) -> Found {
        let actual_resources = Some(self.actual_resources());
        Found { name: name.clone(), provider_id: self.id.clone(), state: self.state(), actual_resources }
    }

    /// A snapshot brings its own resources, which may differ from the spec.
    fn actual_resources(&self) -> ActualResources {
        let file = self.build_info.as_ref().and_then(|build| build.dockerfile_content.as_deref());
        let image = file.and_then(|file| file.trim().strip_prefix("FROM "));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small whole numbers")]
        let whole = |amount: Option<f64>| amount.filter(|amount| *amount >= 1.0).map(|amount| amount as u32);
        ActualResources {
            // Daytona also reports the result of an image build as a snapshot.
            snapshot: if image.is_none() { self.snapshot.clone() } else { None },
            image: image.map(str::to_owned),
            memory_gb: whole(self.memory),
            cpu: whole(self.cpu),
            disk_gb: whole(self.disk),
        }
    }

    /// The body of a resize request for the requested resources that the sandbox lacks; `None` if it lacks none. Resources
    /// that Daytona does not report count as sufficient.
    pub(super) fn missing(&self, requested: RequestedSize) -> Option<Value> {
        let more = |has: Option<f64>, requested: Option<u32>| {
            requested.filter(|requested| has.is_some_and(|has| f64::from(*requested) > has))
        };
        let (memory, cpu) = (more(self.memory, requested.memory_gb), more(self.cpu, requested.cpu));
        let mut missing = serde_json::Map::new();
        missing.extend(memory.map(|memory| ("memory".to_owned(), memory.into())));
        missing.extend(cpu.map(|cpu| ("cpu".to_owned(), cpu.into())));
        (!missing.is_empty()).then_some(Value::Object(missing))
    }

    pub(super) fn has(&self, labels: &BTreeMap<String, String>) -> bool {
        let own = self.labels.as_ref();
        labels.iter().all(|(name, value)| own.and_then(|own| own.get(name)) == Some(value))
    }

    /// `None` if its name is not a valid sandbox id.
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

/// A page of sandboxes; older versions of Daytona return all of them as an array.
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

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Executed {
    pub exit_code: i64,
    #[serde(default)]
    pub result: String,
}

/// A shell session in a sandbox and its commands.
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
    /// Whether a command is still running.
    pub(super) fn is_busy(&self) -> bool {
        self.commands.iter().flatten().any(|command| command.exit_code.is_none())
    }

    /// Exit code of the last command, if it has exited.
    pub(super) fn last_code(&self) -> Option<i64> {
        self.commands.iter().flatten().last()?.exit_code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn daytona_states_are_mapped() {
        let broken = || State::Broken("no disk".to_owned());
        for (daytona_state, expected) in [
            ("creating", State::Pending),
            ("restoring", State::Pending),
            ("starting", State::Pending),
            ("pending_build", State::Pending),
            ("building_snapshot", State::Pending),
            ("pulling_snapshot", State::Pending),
            ("resuming", State::Pending),
            ("unknown", State::Pending),
            ("invented tomorrow", State::Pending),
            ("started", State::Ready),
            ("stopped", State::Deleting),
            ("stopping", State::Deleting),
            ("destroying", State::Deleting),
            ("archived", State::Deleting),
            ("paused", State::Deleting),
            ("error", broken()),
            ("build_failed", broken()),
        ] {
            let sandbox = json!({"id": "1", "state": daytona_state, "errorReason": "no disk"});
            assert_eq!(read::<Sandbox>(sandbox, "").unwrap().state(), expected, "{daytona_state}");
        }
        let deleting = json!({"id": "1", "state": "started", "desiredState": "destroyed"});
        assert_eq!(read::<Sandbox>(deleting, "").unwrap().state(), State::Deleting);
    }

    #[test]
    fn only_larger_requested_resources_are_missing() {
        let sandbox: Sandbox = read(json!({"id": "1", "memory": 2, "cpu": 4}), "").unwrap();
        for (memory_gb, cpu, missing) in [
            (None, None, None),
            (Some(2), Some(4), None),
            (Some(1), Some(1), None),
            (Some(6), None, Some(json!({"memory": 6}))),
            (Some(6), Some(8), Some(json!({"memory": 6, "cpu": 8}))),
        ] {
            assert_eq!(sandbox.missing(RequestedSize { memory_gb, cpu }), missing, "{memory_gb:?} {cpu:?}");
        }
        let unreported: Sandbox = read(json!({"id": "1"}), "").unwrap();
        assert_eq!(unreported.missing(RequestedSize { memory_gb: Some(6), cpu: None }), None);
    }

    #[test]
    fn actual_resources_are_those_daytona_reports() {
        let sizes = ActualResources {
            memory_gb: Some(2),
            cpu: Some(1),
            disk_gb: Some(5),
            ..ActualResources::default()
        };
        let snapshot = ActualResources { snapshot: Some("light".to_owned()), ..sizes.clone() };
        let image = ActualResources { image: Some("debian:13".to_owned()), ..sizes };
        let build = json!({"dockerfileContent": "FROM debian:13\n"});
        for (response, expected) in [
            (json!({"id": "1", "snapshot": "light", "memory": 2, "cpu": 1, "disk": 5}), snapshot),
            (
                json!({"id": "1", "snapshot": "a1b2", "buildInfo": build, "memory": 2, "cpu": 1.0, "disk": 5}),
                image,
            ),
            (
                json!({"id": "1", "snapshot": null, "buildInfo": null, "memory": 0}),
                ActualResources::default(),
            ),
        ] {
            assert_eq!(
                read::<Sandbox>(response.clone(), "").unwrap().actual_resources(),
                expected,
                "{response}"
            );
        }
    }
}
