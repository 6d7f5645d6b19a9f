//! Writes what follows from the registry of functions (`edge::registry`): the function blocks of `template.yaml`, the
//! per-function parts of `infra/observability.yaml`, and `docs/routes.md`.
//!
//! Output is committed, so that it can be read and reviewed where it is used. In files that are otherwise written by
//! hand it stands between markers (`regions.rs`); everything outside of them is left alone.

mod environment;
mod observability;
mod policies;
mod reference;
mod regions;
mod template;

use std::fs;
use std::path::Path;

/// A file of the project, and what it must hold.
#[derive(Debug)]
pub struct Generated {
    /// Its path in the project.
    pub path: &'static str,
    /// What it holds now, if it is there.
    pub current: Option<String>,
    /// What it must hold.
    pub expected: String,
}

impl Generated {
    /// Whether the file is as it must be.
    pub fn is_current(&self) -> bool {
        self.current.as_deref() == Some(&self.expected)
    }
}

/// Every generated file of the project in this folder.
pub fn all(root: &Path) -> Result<Vec<Generated>, String> {
    let read = |path: &str| {
        fs::read_to_string(root.join(path)).map_err(|error| format!("{path} cannot be read: {error}"))
    };
    let with_regions = |path: &'static str, generated: &[(&str, String)]| {
        let current = read(path)?;
        let expected = regions::replace(&current, generated).map_err(|why| format!("{path}: {why}"))?;
        Ok::<_, String>(Generated { path, current: Some(current), expected })
    };
    Ok(vec![
        with_regions(
            "template.yaml",
            &[("routes", template::routes()), ("functions", template::functions()?)],
        )?,
        with_regions(
            "infra/observability.yaml",
            &[
                ("error alarms", observability::error_alarms()),
                ("dashboard variables", observability::dashboard_variables()),
                ("log queries", observability::log_queries()),
            ],
        )?,
        Generated {
            path: "docs/routes.md",
            current: read("docs/routes.md").ok(),
            expected: reference::page(),
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_current() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        for file in all(root).unwrap() {
            let path = file.path;
            assert!(
                file.is_current(),
                "{path} does not match shared/edge/src/registry. Do not edit generated parts by hand: \
                 change the registry or infra/codegen, run `cargo xtask gen`, and commit {path}"
            );
        }
    }
}
