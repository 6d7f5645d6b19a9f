//! Variables with which programs find a proxy.

use crate::config::PROXY_VARIABLES;
use anyhow::Context;
use std::collections::BTreeMap;
use url::Url;

/// Hosts that are reached without the proxy: servers of the agent itself.
pub(super) const NO_PROXY: &str = "localhost,127.0.0.1,::1";

/// The proxy of the worker's own environment.
pub(super) fn operators_proxy(environment: &BTreeMap<String, String>) -> anyhow::Result<Option<Url>> {
    let Some((name, value)) = PROXY_VARIABLES.iter().find_map(|name| Some((name, environment.get(*name)?)))
    else {
        return Ok(None);
    };
    let url = if value.contains("://") { value.clone() } else { format!("http://{value}") };
    let url = Url::parse(&url).ok().filter(|url| url.scheme() == "http" && url.host().is_some());
    let url = url.with_context(|| {
        format!("{name} must be a URL that begins with http://, because agents reach it through their worker; set NETWORK to use the worker's own proxy")
    })?;
    Ok(Some(url))
}

/// In both spellings, because programs differ. Programs that only know SOCKS find the same proxy there, by HTTP: clients
/// that support SOCKS in `ALL_PROXY` support HTTP as well, and some fail on a SOCKS URL.
pub(super) fn proxy_variables(url: &str) -> Vec<(String, String)> {
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map(|name| (name, url));
    let names = names.into_iter().chain([("NO_PROXY", NO_PROXY)]);
    let both = names.flat_map(|(name, value)| [(name.to_owned(), value), (name.to_lowercase(), value)]);
    // Node.js ignores the proxy otherwise.
    let all = both.chain([("NODE_USE_ENV_PROXY".to_owned(), "1")]);
    all.map(|(name, value)| (name, value.to_owned())).collect()
}
