//! Resources of a sandbox: its size, and its snapshot or image.
//!
//! They come from several layers: the task, the environment variables of the plane, its configuration file, the defaults.
//! The first layer that names a field decides that field. A value that is too large is rejected rather than capped: a user
//! who requests 16 GB and silently gets 8 GB would look for the problem in the wrong place.

use crate::Invalid;
use crate::task::Execution;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const MAX_MEMORY_GB: u32 = 8;
pub const MAX_CPU: u32 = 4;
pub const MAX_DISK_GB: u32 = 10;
pub const DEFAULT_SNAPSHOT: &str = "ai-agent-dev-light";
/// Used if the provider does not have the snapshot.
pub const DEFAULT_IMAGE: &str = "debian:trixie-slim";

/// One layer. An absent field is left to the next layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_gb: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Used if the provider does not have the snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

impl From<&Execution> for ResourceRequest {
    fn from(execution: &Execution) -> Self {
        Self {
            memory_gb: execution.memory_gb,
            cpu: execution.cpu,
            disk_gb: execution.disk_gb,
            snapshot: execution.snapshot.clone(),
            image: None,
        }
    }
}

/// The resources that a sandbox is created with, within the limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    pub memory_gb: u32,
    pub cpu: u32,
    pub disk_gb: u32,
    pub snapshot: String,
    /// Used if the provider does not have the snapshot.
    pub image: String,
}

/// The resources of a sandbox as its provider reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ActualResources {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_gb: Option<u32>,
}

/// Merges the layers: task, environment variables, configuration file, in this order; then the defaults.
///
/// Only the value that takes effect is validated: an invalid one that is overridden does no harm.
pub fn resolve(layers: &[ResourceRequest]) -> Result<Resolved, Invalid> {
    Ok(Resolved {
        memory_gb: amount("memory_gb", first(layers, |layer| layer.memory_gb).unwrap_or(4), MAX_MEMORY_GB)?,
        cpu: amount("cpu", first(layers, |layer| layer.cpu).unwrap_or(2), MAX_CPU)?,
        disk_gb: amount("disk_gb", first(layers, |layer| layer.disk_gb).unwrap_or(8), MAX_DISK_GB)?,
        snapshot: name("snapshot", first(layers, |layer| layer.snapshot.as_deref()), DEFAULT_SNAPSHOT)?,
        image: name("image", first(layers, |layer| layer.image.as_deref()), DEFAULT_IMAGE)?,
    })
}

fn first<'a, T>(
    layers: &'a [ResourceRequest],
    field: impl FnMut(&'a ResourceRequest) -> Option<T>,
) -> Option<T> {
    layers.iter().find_map(field)
}

fn amount(field: &str, value: u32, max: u32) -> Result<u32, Invalid> {
    if (1..=max).contains(&value) {
        return Ok(value);
    }
    Err(Invalid::new(field, format!("must be between 1 and {max}, not {value}")))
}

fn name(field: &str, value: Option<&str>, default: &str) -> Result<String, Invalid> {
    let value = value.unwrap_or(default);
    if value.is_empty() || value.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(Invalid::new(field, "must be a name without white space"));
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Resolved {
        Resolved {
            memory_gb: 4,
            cpu: 2,
            disk_gb: 8,
            snapshot: "ai-agent-dev-light".into(),
            image: "debian:trixie-slim".into(),
        }
    }

    /// A field: how to set it in a request and in the expected result.
    type Field = (&'static str, fn(&mut ResourceRequest, u32), fn(&mut Resolved, u32));

    const FIELDS: [Field; 5] = [
        ("memory_gb", |request, n| request.memory_gb = Some(n), |resolved, n| resolved.memory_gb = n),
        ("cpu", |request, n| request.cpu = Some(n), |resolved, n| resolved.cpu = n),
        ("disk_gb", |request, n| request.disk_gb = Some(n), |resolved, n| resolved.disk_gb = n),
        (
            "snapshot",
            |request, n| request.snapshot = Some(format!("s{n}")),
            |resolved, n| resolved.snapshot = format!("s{n}"),
        ),
        (
            "image",
            |request, n| request.image = Some(format!("i{n}")),
            |resolved, n| resolved.image = format!("i{n}"),
        ),
    ];

    #[test]
    fn layers_take_precedence_in_order() {
        // Each field by itself, for every set of layers that name it.
        for (name, request, expect) in FIELDS {
            for named in 0..8u32 {
                let mut layers =
                    [ResourceRequest::default(), ResourceRequest::default(), ResourceRequest::default()];
                let mut expected = defaults();
                for layer in (0..3u32).rev().filter(|layer| named >> layer & 1 == 1) {
                    request(&mut layers[layer as usize], layer + 1);
                    expect(&mut expected, layer + 1);
                }
                assert_eq!(resolve(&layers), Ok(expected), "{name}, named by {named:03b}");
            }
        }
    }

    #[test]
    fn each_field_is_resolved_independently() {
        // Every combination of sources for the five fields.
        for sources in 0..4usize.pow(5) {
            let mut layers =
                [ResourceRequest::default(), ResourceRequest::default(), ResourceRequest::default()];
            let mut expected = defaults();
            for (index, (_, request, expect)) in FIELDS.iter().enumerate() {
                let source = sources / 4usize.pow(index as u32) % 4;
                if let Some(layer) = layers.get_mut(source) {
                    request(layer, source as u32 + 1);
                    expect(&mut expected, source as u32 + 1);
                }
            }
            assert_eq!(resolve(&layers), Ok(expected), "{sources}");
        }
        assert_eq!(resolve(&[]), Ok(defaults()));
    }

    #[test]
    fn values_out_of_range_are_rejected() {
        for (field, max) in [("memory_gb", 8), ("cpu", 4), ("disk_gb", 10)] {
            let (_, request, expect) = FIELDS.into_iter().find(|(name, ..)| *name == field).unwrap();
            for (value, good) in [(0, false), (1, true), (max, true), (max + 1, false), (u32::MAX, false)] {
                let mut invalid_layer = ResourceRequest::default();
                request(&mut invalid_layer, value);
                match resolve(&[ResourceRequest::default(), invalid_layer.clone()]) {
                    Ok(resolved) => {
                        let mut expected = defaults();
                        expect(&mut expected, value);
                        assert!(good && resolved == expected, "{field} {value}");
                    }
                    Err(invalid) => assert!(!good && invalid.field == field, "{field} {value}: {invalid}"),
                }
                let mut valid_layer = ResourceRequest::default();
                request(&mut valid_layer, 1);
                assert!(resolve(&[valid_layer, invalid_layer]).is_ok(), "{field} {value} is overridden");
            }
        }
        for bad in ["", " ", "a b", "a\n"] {
            let snapshot = ResourceRequest { snapshot: Some(bad.into()), ..ResourceRequest::default() };
            assert_eq!(resolve(&[snapshot]).unwrap_err().field, "snapshot", "{bad:?}");
            let image = ResourceRequest { image: Some(bad.into()), ..ResourceRequest::default() };
            assert_eq!(resolve(&[image]).unwrap_err().field, "image", "{bad:?}");
        }
    }

    #[test]
    fn a_task_is_a_layer() {
        let execution = Execution { cpu: Some(4), snapshot: Some("big".into()), ..Execution::default() };
        let expected = Resolved { cpu: 4, snapshot: "big".into(), ..defaults() };
        assert_eq!(resolve(&[ResourceRequest::from(&execution)]), Ok(expected));
    }
}
