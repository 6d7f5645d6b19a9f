//! How large a sandbox is, and what it is made of.
//!
//! Several have a say: whoever starts it, the environment of the plane, its file of settings. The first that names a
//! field decides that field and no other. What is too much is refused by name rather than capped: somebody who asks for
//! 16 GB and silently gets 8 looks for the fault in the wrong place.

use crate::Invalid;
use crate::task::Execution;
use serde::{Deserialize, Serialize};

/// Most memory.
pub const MAX_MEMORY_GB: u32 = 8;
/// Most processors.
pub const MAX_CPU: u32 = 4;
/// Most disk.
pub const MAX_DISK_GB: u32 = 10;
/// What is used where nobody names anything.
pub const DEFAULT_SNAPSHOT: &str = "ai-agent-dev-light";
/// What is used where the provider does not have the snapshot and nobody names another.
pub const DEFAULT_IMAGE: &str = "debian:trixie-slim";

/// What one of those who have a say wants; what is absent is left to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wanted {
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<u32>,
    /// Processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_gb: Option<u32>,
    /// The snapshot that it is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The image that it is made of where there is no such snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

impl From<&Execution> for Wanted {
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

/// What a sandbox is made with: within bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// Memory.
    pub memory_gb: u32,
    /// Processors.
    pub cpu: u32,
    /// Disk.
    pub disk_gb: u32,
    /// The snapshot that it is made of.
    pub snapshot: String,
    /// The image that it is made of where there is no such snapshot.
    pub image: String,
}

/// What comes of these layers: parameters, environment, YAML, in this order. Beneath them are the defaults.
///
/// Only the value that decides is checked: a bad one that somebody overrides does no harm.
pub fn resolve(layers: &[Wanted]) -> Result<Resolved, Invalid> {
    Ok(Resolved {
        memory_gb: amount("memory_gb", first(layers, |layer| layer.memory_gb).unwrap_or(4), MAX_MEMORY_GB)?,
        cpu: amount("cpu", first(layers, |layer| layer.cpu).unwrap_or(2), MAX_CPU)?,
        disk_gb: amount("disk_gb", first(layers, |layer| layer.disk_gb).unwrap_or(8), MAX_DISK_GB)?,
        snapshot: name("snapshot", first(layers, |layer| layer.snapshot.as_deref()), DEFAULT_SNAPSHOT)?,
        image: name("image", first(layers, |layer| layer.image.as_deref()), DEFAULT_IMAGE)?,
    })
}

fn first<'a, T>(layers: &'a [Wanted], field: impl FnMut(&'a Wanted) -> Option<T>) -> Option<T> {
    layers.iter().find_map(field)
}

fn amount(field: &str, value: u32, most: u32) -> Result<u32, Invalid> {
    if (1..=most).contains(&value) {
        return Ok(value);
    }
    Err(Invalid::new(field, format!("must be between 1 and {most}, not {value}")))
}

fn name(field: &str, value: Option<&str>, default: &str) -> Result<String, Invalid> {
    let value = value.unwrap_or(default);
    if value.is_empty() || value.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(Invalid::new(field, "must be a name without blanks"));
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

    /// One field of five: how a layer names the value with this number, and what then comes out.
    type Field = (&'static str, fn(&mut Wanted, u32), fn(&mut Resolved, u32));

    const FIELDS: [Field; 5] = [
        ("memory_gb", |wanted, n| wanted.memory_gb = Some(n), |resolved, n| resolved.memory_gb = n),
        ("cpu", |wanted, n| wanted.cpu = Some(n), |resolved, n| resolved.cpu = n),
        ("disk_gb", |wanted, n| wanted.disk_gb = Some(n), |resolved, n| resolved.disk_gb = n),
        (
            "snapshot",
            |wanted, n| wanted.snapshot = Some(format!("s{n}")),
            |resolved, n| resolved.snapshot = format!("s{n}"),
        ),
        (
            "image",
            |wanted, n| wanted.image = Some(format!("i{n}")),
            |resolved, n| resolved.image = format!("i{n}"),
        ),
    ];

    #[test]
    fn parameters_come_before_environment_before_yaml_before_defaults() {
        // Each field by itself, and for each which of the three layers name it.
        for (name, want, expect) in FIELDS {
            for named in 0..8u32 {
                let mut layers = [Wanted::default(), Wanted::default(), Wanted::default()];
                let mut expected = defaults();
                for layer in (0..3u32).rev().filter(|layer| named >> layer & 1 == 1) {
                    want(&mut layers[layer as usize], layer + 1);
                    expect(&mut expected, layer + 1);
                }
                assert_eq!(resolve(&layers), Ok(expected), "{name}, named by {named:03b}");
            }
        }
    }

    #[test]
    fn each_field_is_decided_alone() {
        // All ways in which the five fields can come from parameters, environment, YAML or defaults.
        for sources in 0..4usize.pow(5) {
            let mut layers = [Wanted::default(), Wanted::default(), Wanted::default()];
            let mut expected = defaults();
            for (index, (_, want, expect)) in FIELDS.iter().enumerate() {
                let source = sources / 4usize.pow(index as u32) % 4;
                if let Some(layer) = layers.get_mut(source) {
                    want(layer, source as u32 + 1);
                    expect(&mut expected, source as u32 + 1);
                }
            }
            assert_eq!(resolve(&layers), Ok(expected), "{sources}");
        }
        assert_eq!(resolve(&[]), Ok(defaults()));
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_by_name() {
        for (field, most) in [("memory_gb", 8), ("cpu", 4), ("disk_gb", 10)] {
            let (_, want, expect) = FIELDS.into_iter().find(|(name, ..)| *name == field).unwrap();
            for (value, good) in [(0, false), (1, true), (most, true), (most + 1, false), (u32::MAX, false)] {
                let mut wanted = Wanted::default();
                want(&mut wanted, value);
                match resolve(&[Wanted::default(), wanted.clone()]) {
                    Ok(resolved) => {
                        let mut expected = defaults();
                        expect(&mut expected, value);
                        assert!(good && resolved == expected, "{field} {value}");
                    }
                    Err(invalid) => assert!(!good && invalid.field == field, "{field} {value}: {invalid}"),
                }
                let mut better = Wanted::default();
                want(&mut better, 1);
                assert!(resolve(&[better, wanted]).is_ok(), "{field} {value} is overridden");
            }
        }
        for bad in ["", " ", "a b", "a\n"] {
            let snapshot = Wanted { snapshot: Some(bad.into()), ..Wanted::default() };
            assert_eq!(resolve(&[snapshot]).unwrap_err().field, "snapshot", "{bad:?}");
            let image = Wanted { image: Some(bad.into()), ..Wanted::default() };
            assert_eq!(resolve(&[image]).unwrap_err().field, "image", "{bad:?}");
        }
    }

    #[test]
    fn a_tasks_own_wishes_are_a_layer() {
        let execution = Execution { cpu: Some(4), snapshot: Some("big".into()), ..Execution::default() };
        let expected = Resolved { cpu: 4, snapshot: "big".into(), ..defaults() };
        assert_eq!(resolve(&[Wanted::from(&execution)]), Ok(expected));
    }
}
