//! Sandbox providers, for functions that have the permission.

use crate::config::{Config, DaytonaConfig};
use crate::wiring::Clients;
use app::orchestration::Providers;
use futures_util::future::try_join;
use lambda_runtime::Error;
use providers::SandboxProvider;
use providers::daytona::{Daytona, Options};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a request to a provider; uploading a worker executable may take five times as long. Both fit into the time that
/// a stage may take (`Stage::timeout_secs` in `domain::timeouts`), and that fits into the timeout of the function.
pub const DEADLINE: Duration = Duration::from_secs(8);

/// Only an empty secret is invalid; the provider defines the format.
const MIN_KEY_CHARS: usize = 1;

/// The configured providers, and the environment variables of every worker.
pub(crate) async fn wire(
    config: &Config,
    daytona: &DaytonaConfig,
    clients: &Clients<'_>,
) -> Result<(Providers, BTreeMap<String, String>), Error> {
    let (key, variables) = try_join(
        clients.secret(daytona.key.as_ref(), MIN_KEY_CHARS),
        clients.secret(daytona.worker_variables.as_ref(), MIN_KEY_CHARS),
    )
    .await?;
    let variables = variables.map(|text| parse_variables(&text)).transpose()?.unwrap_or_default();
    let providers = match key {
        Some(key) => Providers::new([daytona_provider(config, daytona, key)]),
        None => {
            tracing::warn!("Daytona API key is not configured; sandbox creation is disabled");
            Providers::default()
        }
    };
    Ok((providers, variables))
}

fn daytona_provider(config: &Config, daytona: &DaytonaConfig, key: String) -> Arc<dyn SandboxProvider> {
    Arc::new(Daytona::new(Options {
        api_url: daytona.url.clone(),
        api_key: key,
        organization: None,
        target: daytona.target.clone(),
        plane: config.settings.orchestration.plane.clone(),
        worker: daytona.worker.clone(),
        timeout: DEADLINE,
    }))
}

/// Environment variables of every worker. The error message omits the text, which is a secret.
fn parse_variables(text: &str) -> Result<BTreeMap<String, String>, Error> {
    serde_json::from_str(text)
        .map_err(|_| "the secret with worker variables must be a JSON object of strings".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_variables_must_be_strings_and_stay_out_of_errors() {
        let variables = parse_variables(r#"{"ANTHROPIC_API_KEY": "k", "GITHUB_TOKEN": "t"}"#).unwrap();
        assert_eq!(variables["GITHUB_TOKEN"], "t");
        for invalid in [r#"{"KEY": 7, "OTHER": "sesame"}"#, r#"["sesame"]"#, "sesame"] {
            let error = parse_variables(invalid).unwrap_err().to_string();
            assert!(!error.contains("sesame"), "{error}");
        }
    }
}
