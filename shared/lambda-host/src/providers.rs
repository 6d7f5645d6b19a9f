//! Sandbox providers, for functions that have the permission.

use crate::config::{Config, ProvidersConfig, variable};
use crate::wiring::Clients;
use app::orchestration::{Providers, WorkerVariables};
use futures_util::future::{try_join, try_join_all};
use lambda_runtime::Error;
use providers::{Environment, PROVIDERS};
use std::collections::BTreeMap;
use std::time::Duration;

/// Timeout of a request to a provider; uploading a worker executable may take five times as long. Both fit into the time that
/// a stage may take (`Stage::timeout_secs` in `domain::timeouts`), and that fits into the timeout of the function.
pub const DEADLINE: Duration = Duration::from_secs(8);

/// Only an empty secret is invalid; the provider defines the format.
const MIN_KEY_CHARS: usize = 1;

/// The configured providers, and the environment variables of workers.
pub(crate) async fn wire(
    config: &Config,
    configured: &ProvidersConfig,
    clients: &Clients<'_>,
) -> Result<(Providers, WorkerVariables), Error> {
    let (secrets, variables) = try_join(
        secrets(configured, clients),
        clients.secret(configured.worker_variables.as_ref(), MIN_KEY_CHARS),
    )
    .await?;
    let variables = variables.map(|text| WorkerVariables::parse(&text)).transpose()?.unwrap_or_default();
    let mut providers = Vec::new();
    let enabled = config.settings.orchestration.enabled_providers.as_ref();
    for kind in PROVIDERS.iter().filter(|kind| enabled.is_none_or(|enabled| enabled.contains(kind.name))) {
        let values = kind.read(|setting| match setting.secret {
            Some(_) => secrets.get(variable(setting)).cloned(),
            None => configured.settings.get(setting.variable).cloned(),
        });
        if kind.missing(&values).is_none() {
            let environment = Environment {
                plane: config.settings.orchestration.plane.clone(),
                worker: configured.worker.clone(),
                timeout: DEADLINE,
            };
            providers.push((kind.create)(&values, environment)?);
        }
    }
    if providers.is_empty() {
        tracing::warn!("No sandbox provider is configured; sandbox creation is disabled");
    }
    Ok((Providers::new(providers), variables))
}

/// Values of the providers' secrets, by variable.
async fn secrets(
    configured: &ProvidersConfig,
    clients: &Clients<'_>,
) -> Result<BTreeMap<&'static str, String>, Error> {
    let settings = PROVIDERS.iter().flat_map(|kind| kind.settings).filter(|setting| setting.secret.is_some());
    let values = try_join_all(settings.map(async |setting| {
        let value = clients.secret(configured.settings.get(variable(setting)), MIN_KEY_CHARS).await?;
        Ok::<_, Error>(value.map(|value| (variable(setting), value)))
    }));
    Ok(values.await?.into_iter().flatten().collect())
}
