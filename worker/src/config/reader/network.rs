//! Settings of the agent's network, and which keys are for which service.

use super::Reader;
use crate::agents::Service;
use crate::config::{PROXY_VARIABLES, ServiceKeys};
use crate::secret::Secret;
use contract::policy::{Access, Host, NetworkRules};
use contract::repository::{self, InvalidScope, TokenScope};
use egress::policy::{Allowlist, InvalidEntry, NetworkPolicy};
use url::Url;

impl Reader<'_> {
    /// The policy of the agent's proxy. Without a setting, a worker that itself uses a proxy leaves that one to its agent:
    /// such networks are usually reachable in no other way.
    pub(super) fn network(&mut self) -> Option<NetworkPolicy> {
        let text = self.text("NETWORK");
        if let Some(rules) = self.policy.network.clone() {
            if text.is_some() {
                self.error("NETWORK", "set, but POLICY has network rules too; remove one of them");
            }
            let policy = network_policy(&rules);
            return Some(policy.unwrap_or_else(|why| {
                self.error("POLICY", format!("network: {why}"));
                NetworkPolicy::None
            }));
        }
        let proxy = PROXY_VARIABLES.into_iter().find(|name| self.text(name).is_some());
        if let (None, Some(proxy)) = (&text, proxy) {
            self.warn(
                "NETWORK",
                format!("not applied: the agent uses {proxy}; set NETWORK to apply a policy"),
            );
            return None;
        }
        let policy = NetworkPolicy::parse(&text.unwrap_or_default());
        Some(policy.map_err(|why| self.error("NETWORK", why.to_string())).unwrap_or_default())
    }

    /// Of all agents: an ACP agent may be an adapter of another one, and then uses the same keys.
    pub(super) fn services(&mut self) -> Vec<ServiceKeys> {
        let services: Vec<_> = self.agents.iter().flat_map(|agent| agent.services).collect();
        services.into_iter().filter_map(|service| self.service(service)).collect()
    }

    /// `None` if neither a key nor a URL is set, or if the URL is invalid.
    fn service(&mut self, service: &'static Service) -> Option<ServiceKeys> {
        let url = self.text(service.url);
        let default = (service.default_url)(self);
        let keys = service
            .keys
            .iter()
            .filter_map(|(name, form)| Some((*name, *form, Secret::new(self.text(name)?))));
        let keys: Vec<_> = keys.collect();
        if keys.is_empty() && url.is_none() {
            return None;
        }
        let url = url.unwrap_or_else(|| default.to_owned());
        let upstream = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if upstream.is_none() {
            self.error(service.url, "must be a URL that begins with http:// or https://");
        }
        Some(ServiceKeys { service, upstream: upstream?, keys })
    }

    /// Whether the token is for the repository: the author of a task chooses it, and so the server.
    pub(super) fn token_covers(&mut self, location: &str) -> bool {
        let (host, repositories) = (self.text("GITHUB_HOST"), self.text("GITHUB_REPOSITORIES"));
        let scope = match TokenScope::parse(host.as_deref(), repositories.as_deref()) {
            Ok(scope) => scope,
            Err(why) => {
                let variable = if why == InvalidScope::Host { "GITHUB_HOST" } else { "GITHUB_REPOSITORIES" };
                self.error(variable, why.to_string());
                return false;
            }
        };
        repository::parse(location.trim()).is_ok_and(|address| scope.covers(&address))
    }
}

/// The rules as the proxy enforces them.
///
/// # Errors
/// If the proxy does not accept a host.
pub(super) fn network_policy(rules: &NetworkRules) -> Result<NetworkPolicy, InvalidEntry> {
    let parse = |hosts: &[Host]| {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        Allowlist::parse(&hosts.join(","))
    };
    let private = parse(&rules.allowed_private_hosts)?;
    Ok(match rules.access {
        Access::None => NetworkPolicy::None,
        Access::Public if rules.allowed_private_hosts.is_empty() => NetworkPolicy::Public,
        Access::Public => NetworkPolicy::Allowlist(private.with_every_public_host()),
        Access::Allowlist => {
            NetworkPolicy::Allowlist(parse(&rules.allowed_domains)?.only_public().with(private))
        }
    })
}
