//! Sets up the sandbox providers and the notices about them for the operator.

use crate::config::sandboxes::SandboxConfig;
use crate::config::{Dev, HostEnvironment};
use anyhow::Context;
use app::Clock;
use app::orchestration::{Agents, CodeHosts, Orchestration, Providers, WorkerVariables};
use code_hosts::CODE_HOSTS;
use code_hosts::local::LOCAL;
use confine::Tier;
use providers::process::{self, Isolation, Process};
use providers::{Environment, SandboxProvider};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Directory of local sandboxes in the data directory.
const DIRECTORY: &str = "sandboxes";
/// The default agent where `claude` is not installed. Needs no model.
const FALLBACK_AGENT: &str = "scripted:hello";
/// Timeout of a request to a remote provider.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct SandboxSetup {
    pub providers: Providers,
    pub orchestration: Orchestration,
    /// For the operator, in sentences.
    pub notices: Vec<String>,
}

/// `address` is the address that the plane is bound to.
pub fn setup(dev: &Dev, config: SandboxConfig, address: SocketAddr) -> anyhow::Result<SandboxSetup> {
    let (host, plane) = (dev.host_environment()?, dev.plane_name()?);
    let mut enabled = remote_providers(&config, &plane)?;
    if config.has_local_sandboxes() {
        enabled.push(Arc::new(process_provider(dev, &config, &host, &plane)?));
    }
    let providers = Providers::new(enabled);
    let default = default_provider(&providers, &config.orchestration.default_provider)?;
    let agent = config.agent.clone().unwrap_or_else(|| fallback_agent(&config.agents, &host));
    let mut agents = config.agents.clone().with_default(&agent).context("cannot list the default agent")?;
    if dev.allow_agent_commands {
        agents = agents.accepting_commands();
    }
    let callback_url =
        config.callback_url.clone().unwrap_or_else(|| format!("http://{}", reachable_address(address)));
    let worker_variables = dev.worker_variables(&host)?;
    let mut notices = vec![
        format!("Sandbox provider: {}. {}", default.name(), default.isolation()),
        agent_notice(&config, &worker_variables, &agent),
    ];
    if default.name() != process::NAME && config.callback_url.is_none() {
        notices.push(format!(
            "Remote sandboxes will connect to this plane at {callback_url}; set --callback-url to an address that they can reach."
        ));
    }
    notices.push("Sandboxes keep running when this plane stops, and the next start finds them.".to_owned());
    if dev.allow_agent_commands {
        notices.push(
            "--allow-agent-commands: every ticket and task can run any command on this machine.".to_owned(),
        );
    }
    let orchestration = Orchestration {
        plane,
        agents,
        default_agent: agent,
        callback_url,
        worker_variables,
        ..config.orchestration
    };
    Ok(SandboxSetup { providers, orchestration, notices })
}

/// Repositories on this machine, and those of every code host.
pub fn code_hosts(clock: Arc<dyn Clock>) -> CodeHosts {
    let kinds = std::iter::once(&LOCAL).chain(CODE_HOSTS.iter().copied()).collect();
    CodeHosts::new(kinds, code_hosts::Environment::new(Arc::new(move || clock.now().as_secs())))
}

/// The default agent if none is configured.
fn fallback_agent(agents: &Agents, host: &HostEnvironment) -> String {
    let preferred = if host.has_claude { "claude" } else { FALLBACK_AGENT };
    let listed = agents.names().find(|name| *name == preferred).or_else(|| agents.names().next());
    listed.unwrap_or(FALLBACK_AGENT).to_owned()
}

/// The provider of tasks that name none. Without it every task would fail, so the plane does not start.
fn default_provider<'a>(
    providers: &'a Providers,
    name: &str,
) -> anyhow::Result<&'a Arc<dyn SandboxProvider>> {
    providers.get(name).with_context(|| {
        let known: Vec<&str> = providers.all().map(|provider| provider.name()).collect();
        format!(
            "The sandbox provider {name} is not set up; set SUNABA_PROVIDER to one of: {}.",
            known.join(", ")
        )
    })
}

fn process_provider(
    dev: &Dev,
    config: &SandboxConfig,
    host: &HostEnvironment,
    plane: &str,
) -> anyhow::Result<Process> {
    let mut options = process::Options::new(dev.data.join(DIRECTORY), plane, host.worker.clone());
    options.environment = host.environment.clone();
    options.isolation = isolation(config)?;
    options.hidden = vec![dev.data.clone()];
    Process::new(options).context("cannot create sandboxes on this machine")
}

/// Local sandboxes that could not be isolated are refused now, and not when the first of them starts.
fn isolation(config: &SandboxConfig) -> anyhow::Result<Isolation> {
    config.isolation.resolve("SUNABA_ISOLATION").map(isolation_of)
}

fn isolation_of(tier: Tier) -> Isolation {
    match tier {
        Tier::Namespaces => Isolation::Namespaces,
        Tier::Landlock => Isolation::Landlock,
        Tier::SandboxExec => Isolation::SandboxExec,
        Tier::None => Isolation::None,
    }
}

fn remote_providers(config: &SandboxConfig, plane: &str) -> anyhow::Result<Vec<Arc<dyn SandboxProvider>>> {
    let Some(worker) = &config.worker else { return Ok(Vec::new()) };
    let created = config.providers.iter().map(|(kind, values)| {
        let environment = Environment { plane: plane.to_owned(), worker: worker.clone(), timeout: TIMEOUT };
        (kind.create)(values, environment).map_err(anyhow::Error::msg)
    });
    created.collect()
}

fn agent_notice(config: &SandboxConfig, variables: &WorkerVariables, agent: &str) -> String {
    let is_fallback = config.agent.is_none() && agent == FALLBACK_AGENT;
    let keys = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];
    if is_fallback {
        return format!(
            "Default agent: {FALLBACK_AGENT}, which plays a script and needs no model, because `claude` is not on the PATH. Set \
             CLAUDE_PATH or --agent to use another."
        );
    }
    if agent == "claude" && !variables.all().any(|(name, _)| keys.contains(&name.as_str())) {
        return "Default agent: claude, but no API key is set. Set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN (run `claude \
                setup-token` to create one), or choose another agent with --agent."
            .to_owned();
    }
    format!("Default agent: {agent}.")
}

/// Replaces an unspecified address (`0.0.0.0`) by loopback.
fn reachable_address(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_default_provider_is_named() {
        let error = default_provider(&Providers::default(), "cloud").unwrap_err();
        assert!(error.to_string().starts_with("The sandbox provider cloud is not set up"), "{error}");
    }

    #[test]
    fn unspecified_address_is_reachable_on_loopback() {
        for (bound, reachable) in [
            ("0.0.0.0:18000", "127.0.0.1:18000"),
            ("[::]:1", "[::1]:1"),
            ("127.0.0.1:5", "127.0.0.1:5"),
            ("192.0.2.7:9", "192.0.2.7:9"),
        ] {
            assert_eq!(reachable_address(bound.parse().unwrap()), reachable.parse().unwrap());
        }
    }
}
