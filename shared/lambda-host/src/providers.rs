//! Providers of sandboxes, for functions that may use them.

use crate::config::{Config, DaytonaPlaces};
use crate::wiring::Clients;
use app::orchestration::Providers;
use futures_util::future::try_join;
use lambda_runtime::Error;
use providers::SandboxProvider;
use providers::daytona::{Daytona, Options};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a request to a provider may take; sending a worker's program five times as long. Both fit into the time that
/// a stage may take (`Stage::most_secs` in `domain::pace`), and that into the time after which Lambda ends the function.
pub const DEADLINE: Duration = Duration::from_secs(8);

/// An empty secret is a mistake; what a key looks like is the provider's.
const MIN_KEY_CHARS: usize = 1;

/// The providers that are configured, and the variables that every worker is given.
pub(crate) async fn wire(
    config: &Config,
    places: &DaytonaPlaces,
    clients: &Clients<'_>,
) -> Result<(Providers, BTreeMap<String, String>), Error> {
    let (key, variables) = try_join(
        clients.secret(places.key.as_ref(), MIN_KEY_CHARS),
        clients.secret(places.worker_variables.as_ref(), MIN_KEY_CHARS),
    )
    .await?;
    let variables = variables.map(|text| read_variables(&text)).transpose()?.unwrap_or_default();
    let providers = match key {
        Some(key) => Providers::new([daytona(config, places, key)]),
        None => {
            tracing::warn!("Daytona API key is not configured; sandbox creation is disabled");
            Providers::default()
        }
    };
    Ok((providers, variables))
}

fn daytona(config: &Config, places: &DaytonaPlaces, key: String) -> Arc<dyn SandboxProvider> {
    Arc::new(Daytona::new(Options {
        api_url: places.url.clone(),
        api_key: key,
        organization: None,
        target: places.target.clone(),
        plane: config.settings.orchestration.plane.clone(),
        worker: places.worker.clone(),
        timeout: DEADLINE,
    }))
}

/// What every worker is given. The reason does not show the text: it is a secret.
fn read_variables(text: &str) -> Result<BTreeMap<String, String>, Error> {
    let read = serde_json::from_str(text);
    read.map_err(|_| "the secret of workers' variables must be a JSON object of texts".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_variables_are_an_object_of_texts_and_never_shown() {
        let read = read_variables(r#"{"ANTHROPIC_API_KEY": "k", "GITHUB_TOKEN": "t"}"#).unwrap();
        assert_eq!(read["GITHUB_TOKEN"], "t");
        for odd in [r#"{"KEY": 7, "OTHER": "sesame"}"#, r#"["sesame"]"#, "sesame"] {
            let why = read_variables(odd).unwrap_err().to_string();
            assert!(!why.contains("sesame"), "{why}");
        }
    }
}
