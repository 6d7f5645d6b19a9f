//! Generates files from the function registry (`edge::registry`): the function blocks of `template.yaml`, the
//! per-function parts of `infra/observability.yaml`, and `docs/routes.md`. Generates the other reference pages from their
//! definitions: `docs/cli.md`, `docs/environment.md`, `docs/errors.md` and `docs/event-payloads.schema.json`.
//! `docs/openapi.json` and `docs/asyncapi.json` describe the API for programs.
//!
//! The output is committed, so that it can be read and reviewed where it is used. In files that are otherwise written
//! by hand, it is placed between markers (`regions.rs`); text outside of the markers is not changed.

mod asyncapi;
mod cli;
#[cfg(test)]
mod compatibility;
mod environment;
mod errors;
mod markdown;
mod observability;
mod openapi;
mod payloads;
mod policies;
mod providers;
mod reference;
mod reference_page;
mod regions;
mod template;
mod variables;

use std::fs;
use std::path::Path;

/// A generated file: its current and its expected content.
#[derive(Debug)]
pub struct Generated {
    /// Relative to the repository root.
    pub path: &'static str,
    /// `None` if the file does not exist.
    pub current: Option<String>,
    pub expected: String,
}

impl Generated {
    pub fn is_current(&self) -> bool {
        self.current.as_deref() == Some(&self.expected)
    }
}

/// The version of the HTTP API and of the frames. `docs/api-baseline` says when it changes.
const API_VERSION: &str = "1.0.0";

/// A document as it is committed.
fn to_text(document: &serde_json::Value) -> Result<String, String> {
    let text = serde_json::to_string_pretty(document).map_err(|error| error.to_string())?;
    Ok(text + "\n")
}

/// All generated files of the repository at `root`.
pub fn all(root: &Path) -> Result<Vec<Generated>, String> {
    let read = |path: &str| {
        fs::read_to_string(root.join(path)).map_err(|error| format!("cannot read {path}: {error}"))
    };
    let with_regions = |path: &'static str, generated: &[(&str, String)]| {
        let current = read(path)?;
        let expected = regions::replace(&current, generated).map_err(|why| format!("{path}: {why}"))?;
        Ok::<_, String>(Generated { path, current: Some(current), expected })
    };
    let page = |path: &'static str, expected: String| Generated { path, current: read(path).ok(), expected };
    let template = with_regions(
        "template.yaml",
        &[
            ("parameters of providers", providers::parameters()?),
            ("conditions of providers", providers::conditions()),
            ("routes", template::routes()),
            ("functions", template::functions()?),
        ],
    )?;
    let environment = variables::page(&template.expected)?;
    let (openapi, asyncapi) = (openapi::document()?, asyncapi::document()?);
    Ok(vec![
        template,
        with_regions(
            "infra/observability.yaml",
            &[
                ("error alarms", observability::error_alarms()),
                ("dashboard variables", observability::dashboard_variables()),
                ("log queries", observability::log_queries()),
            ],
        )?,
        page("docs/routes.md", reference::page()),
        page("docs/cli.md", cli::page()),
        page("docs/environment.md", environment),
        page("docs/errors.md", errors::page()?),
        page("docs/reference.html", reference_page::page(&openapi, &asyncapi)?),
        page("docs/openapi.json", openapi),
        page("docs/asyncapi.json", asyncapi),
        page("docs/event-payloads.schema.json", payloads::schema()),
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
                "{path} does not match its definition. Do not edit generated parts by hand: change \
                 shared/edge/src/registry, or what {path} names as its source, run `cargo xtask gen`, and commit {path}"
            );
        }
    }
}
